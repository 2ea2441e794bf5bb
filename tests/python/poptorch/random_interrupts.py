"""Random sequences of what programs do with a wrapped module, some of whose calls Ctrl-C ends.

The weights are those before the call or after it, and training goes on with them. As a program
(`python -m tests.python.poptorch.random_interrupts COUNT SEED`) it prints the sequences that
differ.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from tests.python import random_sequences
from tests.python.interrupted_sequences import InterruptedSequence
from tests.python.poptorch.expected_sessions import Expected, State
from tests.python.poptorch.random_sessions import Session, check_close, outcome_of
from tests.python.random_sequences import Differs


class Interrupted(InterruptedSequence, Session):
    """One sequence."""

    most_events = 6000
    # Functions of torch, which may be left half done, and wrapping of what is wrapped.
    whole_steps = (
        "load", "load_by_inference", "load_optimizer", "save", "save_optimizer", "change",
        "set_new_optimizer", "wrap_again", "load_executor", "copy_to_host_of_inference",
        "train_with_another_shape", "infer_with_another_shape",
    )  # fmt: skip

    def go_on(self, step: str, before: Expected) -> None:
        """As `InterruptedSequence.go_on`."""
        self.expected = self._of_host(self.module.state_dict(), (self.expected, before))
        trainer = self.expected.trainer
        _note_device(trainer, self.trainer)
        self.trainer.setOptimizer(self.optimizer)
        trainer.rate = self.optimizer.param_groups[0]["lr"]
        # The host cannot tell whether devices have got its values already.
        if step == "copy_to_device" and trainer.is_attached:
            self.copy_to_device()
        for runner, expected in zip(self.runners, self.expected.runners, strict=True):
            _note_device(expected, runner)
            if expected.is_attached:
                self.expected.upload_to_runner(expected)
                runner.copyWeightsToDevice()

    def _of_host(self, state: State, possible: tuple[Expected, Expected]) -> Expected:
        """The one of two that the weights of the host are of."""
        reasons = []
        for expected in possible:
            expected.sync()
            try:
                for name, value in state.items():
                    check_close(name, value, expected.host[name])
                return expected
            except Differs as reason:
                reasons.append(str(reason))
        raise Differs(f"the weights are neither new nor old: {reasons}")


def _note_device(expected: Any, executor: Any) -> None:
    expected.is_compiled = executor.isCompiled()
    expected.is_attached = expected.is_compiled and executor.isAttachedToDevice()


if __name__ == "__main__":
    sys.exit(random_sequences.main(__doc__, partial(outcome_of, kind=Interrupted)))

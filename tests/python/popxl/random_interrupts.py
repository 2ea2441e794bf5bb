"""Random sequences of calls of sessions, some of which Ctrl-C ends.

A call is whole afterwards or was not begun. As a program
(`python -m tests.python.popxl.random_interrupts COUNT SEED`) it prints the sequences that differ.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np

from tests.python import random_sequences
from tests.python.interrupted_sequences import InterruptedSequence
from tests.python.popxl.random_sessions import Expected, Sequence
from tests.python.random_sequences import Differs


class Interrupted(InterruptedSequence, Sequence):
    """One sequence."""

    most_events = 150

    def go_on(self, step: str, before: Expected) -> None:
        """As `InterruptedSequence.go_on`; contexts are always left, and not entered."""
        after = self.expected
        possible = {"enter": [before], "leave": [after], "leave_by_error": [after]}
        values = self.session.get_variables()
        for state in possible.get(step, [before, after]):
            is_same = all(np.array_equal(values[n], one) for n, one in state.newest.items())
            if is_same and state.is_attached == self.session.is_attached:
                self.expected = state
                break
        else:
            raise Differs(
                f"attached {self.session.is_attached} with {values}; before "
                f"{before.is_attached} {before.newest}, after {after.is_attached} {after.newest}"
            )
        # Reading has made both sides the same.
        self.expected.write(values)


if __name__ == "__main__":
    sys.exit(random_sequences.main(__doc__, partial(random_sequences.outcome_of, Interrupted)))

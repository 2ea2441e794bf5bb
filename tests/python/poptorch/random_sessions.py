"""Random sequences of what programs do with a wrapped module, beside a model of what they expect.

A module is trained, run, read, written, saved, given up and taken again, in any order, beside what
`expected_sessions` says. As a program
(`python -m tests.python.poptorch.random_sessions COUNT SEED`) it prints the sequences that differ.
"""

from __future__ import annotations

import copy
import io
import sys
from typing import Any
from unittest import mock

import torch

import poptorch
from pando.checkpoint import checkpoints
from pando.checkpoint_files import step_of
from poptorch import _compilation
from tests.python import random_sequences
from tests.python.poptorch.expected_sessions import (
    OPTIMIZERS,
    Expected,
    ExpectedRunner,
    Network,
    OptimizerState,
    State,
    copy_of,
    new_network,
    new_optimizer,
)
from tests.python.random_sequences import Differs, RandomSequence

ROWS = 6


def check_close(what: str, given: torch.Tensor, wanted: torch.Tensor) -> None:
    given, wanted = given.detach().double(), wanted.detach().double()
    if given.shape != wanted.shape or not torch.allclose(given, wanted, rtol=2e-3, atol=1e-3):
        raise Differs(f"{what} is {given.flatten()[:4]}, wanted {wanted.flatten()[:4]}")


class Session(RandomSequence):
    """One sequence. What is expected comes before the call of the executor.

    Args:
        seed: Of everything.
        folder: For checkpoints.
    """

    count = 25
    # Some several times: those that others need.
    actions = (
        *["train"] * 6, *["infer"] * 6, "train_with_another_shape", "infer_with_another_shape",
        "set_rate", "set_new_optimizer", "save_optimizer", "load_optimizer",
        "attach", "detach", "destroy", "wrap_for_inference", "wrap_for_inference",
        "attach_or_detach_inference", "destroy_inference", "read", "read_a_parameter", "change",
        "run_on_the_host", "copy_module", "save", "load", "copy_to_device", "copy_to_host",
        "copy_to_device_of_inference", "save_checkpoint", "load_checkpoint",
        "compile", "compile_inference", "wrap_again", "load_executor", "load_by_inference",
        "copy_to_host_of_inference",
    )  # fmt: skip

    def __init__(self, seed: int, folder: str) -> None:
        super().__init__(seed, folder)
        self.generator = torch.Generator().manual_seed(seed)
        self.module: Any = new_network(seed)
        self.kind, self.is_own = self.draw.choice(list(OPTIMIZERS)), self.draw.random() < 0.6
        self.replicas = self.draw.choice([1, 1, 2])
        self.expected = Expected(self.module, self.kind, self.replicas)
        self.iterations, self.accumulation = self.draw.choice(
            [(1, 1), (1, 1), (2, 1), (1, 2), (2, 2)]
        )
        self.in_phases = self.draw.random() < 0.25
        self.optimizer = self.new_optimizer()
        self.trainer = self.new_trainer()
        self.runners: list[poptorch.PoplarExecutor] = []
        self.saved: tuple[State, State] | None = None
        self.saved_optimizer: tuple[Any, OptimizerState] | None = None
        # What checkpoints have, by their steps; the last one may not be whole.
        self.checkpoints: list[tuple[list[State], OptimizerState]] = []
        self.last_whole = -1

    def options(self) -> poptorch.Options:
        return poptorch.Options().showCompilationProgressBar(False)

    def new_trainer(self) -> poptorch.PoplarExecutor:
        options = self.options().deviceIterations(self.iterations)
        options.replicationFactor(self.replicas).broadcastBuffers(self.replicas == 1)
        options.Training.gradientAccumulation(self.accumulation)
        if self.in_phases:
            options.fit_in("64GiB", self.folder)
        return poptorch.trainingModel(self.module, options, self.optimizer)

    def new_optimizer(self) -> torch.optim.Optimizer:
        package: Any = poptorch.optim if self.is_own else torch.optim
        parameters, rate = self.module.parameters(), self.expected.trainer.rate
        return new_optimizer(package, self.kind, parameters, rate)

    def rows(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator)

    def close(self) -> None:
        for executor in (self.trainer, *self.runners):
            executor.destroy()

    # Training.

    def train(self) -> None:
        expected = self.expected.trainer
        self.module.train()
        batches = [
            [
                [(self.rows(ROWS, 3), self.rows(ROWS, 2)) for _ in range(self.accumulation)]
                for _ in range(self.iterations)
            ]
            for _ in range(self.replicas)
        ]
        pairs = [pair for replica in batches for parts in replica for pair in parts]
        x, target = (torch.cat([pair[k] for pair in pairs]) for k in (0, 1))
        expected.is_compiled = True
        self.expected.attach_trainer()
        wanted = expected.run(batches)
        for a, b in zip(self.trainer(x, target), wanted, strict=True):
            check_close("a result of training", a, b)

    def compile(self) -> None:
        self.module.train()
        rows = ROWS * self.replicas * self.iterations * self.accumulation
        if not self.expected.trainer.is_compiled:
            self.expected.trainer.is_compiled = True
            self.expected.attach_trainer()
        self.trainer.compile(self.rows(rows, 3), self.rows(rows, 2))

    def train_with_another_shape(self) -> None:
        if not self.expected.trainer.is_compiled:
            return
        self.expected.attach_trainer()
        rows = (ROWS + 1) * self.replicas * self.iterations * self.accumulation
        self.refused(self.trainer, self.rows(rows, 3), self.rows(rows, 2))

    def refused(self, executor: poptorch.PoplarExecutor, *arguments: torch.Tensor) -> None:
        try:
            executor(*arguments)
        except poptorch.Error as error:
            if "Shape mismatch" in str(error):
                return
            raise
        raise Differs("an input of another shape was accepted")

    def set_rate(self) -> None:
        rate = self.draw.choice([0.01, 0.02, 0.04])
        self.optimizer.param_groups[0]["lr"] = rate
        self.expected.trainer.rate = rate
        self.trainer.setOptimizer(self.optimizer)

    def set_new_optimizer(self) -> None:
        self.expected.sync()  # by looking for the parameters
        self.optimizer = self.new_optimizer()
        self.trainer.setOptimizer(self.optimizer)
        # The device keeps its state, if there is a device that has some.
        self.expected.trainer.loaded = None
        if not self.expected.trainer.is_compiled:
            self.expected.trainer.state = {}

    def save_optimizer(self) -> None:
        # Those of torch are not connected with the device.
        if self.is_own and self.expected.trainer.is_attached:
            trainer = self.expected.trainer
            state = trainer.state if trainer.loaded is None else trainer.loaded
            self.saved_optimizer = copy.deepcopy(self.optimizer.state_dict()), state

    def load_optimizer(self) -> None:
        if self.saved_optimizer is None:
            return
        state, expected = self.saved_optimizer
        self.optimizer.load_state_dict(state)
        self.optimizer.param_groups[0]["lr"] = self.expected.trainer.rate
        self.expected.trainer.loaded = expected

    # Devices.

    def attach(self) -> None:
        if self.expected.trainer.is_compiled and not self.expected.trainer.is_attached:
            self.expected.attach_trainer()
            self.trainer.attachToDevice()

    def detach(self) -> None:
        if self.expected.trainer.is_attached:
            self.expected.detach_trainer()
            self.trainer.detachFromDevice()

    def destroy(self) -> None:
        if self.expected.trainer.is_compiled:
            self.expected.detach_trainer()
            self.expected.trainer.is_compiled = False
        self.trainer.destroy()

    def wrap_again(self) -> None:
        """By another executor, with the optimizer and its state."""
        if hasattr(self.module, "destroy"):  # not given up before
            self.module.destroy()
        self.expected.detach_trainer()
        self.expected.trainer.is_compiled = False
        self.trainer = self.new_trainer()

    def load_executor(self) -> None:
        """Goes on with what a file has of module, optimizer and program."""
        if not self.expected.trainer.is_compiled:
            return
        for executor in self.runners:
            executor.destroy()
        self.runners, self.expected.runners = [], []
        self.expected.sync()
        path = f"{self.folder}/executor.poptorch"
        self.trainer.save(path)
        self.trainer.destroy()
        self.trainer = poptorch.load(path)
        self.module, optimizer = self.trainer.model, self.trainer._optimizer
        assert optimizer is not None
        self.optimizer = optimizer
        self.expected.trainer.take_loaded()
        self.expected.trainer.is_attached = False
        self.expected.attach_trainer()

    # Inference.

    def wrap_for_inference(self) -> None:
        if len(self.runners) < 3:
            model = self.draw.choice([self.module, self.trainer])
            self.runners.append(poptorch.inferenceModel(model, self.options()))
            self.expected.runners.append(ExpectedRunner())

    def runner(self) -> tuple[poptorch.PoplarExecutor, ExpectedRunner] | None:
        if not self.runners:
            return None
        number = self.draw.randrange(len(self.runners))
        return self.runners[number], self.expected.runners[number]

    def infer(self) -> None:
        if pair := self.runner():
            x = self.rows(ROWS, 3)
            # The flags of parts are shared; that of the copy is the wrapper's own.
            self.module.eval()
            pair[0].eval()
            self.expected.prepare_runner(pair[1])
            check_close("a result of inference", pair[0](x), pair[1].network(x))

    def compile_inference(self) -> None:
        if pair := self.runner():
            self.module.eval()
            pair[0].eval()
            if not pair[1].is_compiled:
                pair[1].is_compiled = True
                self.expected.attach_runner(pair[1])
            pair[0].compile(self.rows(ROWS, 3))

    def infer_with_another_shape(self) -> None:
        pair = self.runner()
        if pair and pair[1].is_compiled:
            self.expected.prepare_runner(pair[1])
            self.refused(pair[0], self.rows(ROWS + 1, 3))

    def attach_or_detach_inference(self) -> None:
        pair = self.runner()
        if not pair or not pair[1].is_compiled:
            return
        if pair[1].is_attached:
            pair[1].is_attached = False
            pair[0].detachFromDevice()
        else:
            self.expected.attach_runner(pair[1])
            pair[0].attachToDevice()

    def destroy_inference(self) -> None:
        if pair := self.runner():
            pair[1].is_compiled = pair[1].is_attached = False
            pair[0].destroy()

    # Weights.

    def check_all(self) -> None:
        self.read()

    def read(self) -> None:
        self.expected.sync()
        for name, value in self.module.state_dict().items():
            check_close(f"{name} of the host", value, self.expected.host[name])

    def read_a_parameter(self) -> None:
        self.expected.sync()
        check_close("a parameter", self.module.last.bias * 1, self.expected.host["last.bias"])

    def change(self) -> None:
        factor = self.draw.choice([0.9, 1.1])
        self.expected.sync()
        with torch.no_grad():
            for name, p in self.module.named_parameters():
                p.mul_(factor)
                self.expected.host[name] = self.expected.host[name] * factor

    def run_on_the_host(self) -> None:
        self.expected.sync()
        network, x = Network(), self.rows(ROWS, 3)
        network.load_state_dict(self.expected.host)
        self.module.eval()
        check_close("a result of the host", self.module(x), network.eval()(x))

    def copy_module(self) -> None:
        self.expected.sync()
        if self.draw.random() < 0.5:
            copied = copy.deepcopy(self.module)
        else:
            file = io.BytesIO()
            torch.save(self.module, file)
            file.seek(0)
            copied = torch.load(file, weights_only=False)
        for name, value in copied.state_dict().items():
            check_close(f"{name} of a copy", value, self.expected.host[name])

    def save(self) -> None:
        self.expected.sync()
        self.saved = copy_of(self.module.state_dict()), copy_of(self.expected.host)

    def load(self) -> None:
        if self.saved is None:
            return
        self.expected.sync()
        if self.draw.random() < 0.5:
            self.module.load_state_dict(self.saved[0])
            self.expected.host = copy_of(self.saved[1])
            return
        self.trainer.load_state_dict(self.saved[0])
        self.expected.host = copy_of(self.saved[1])
        if self.expected.trainer.is_attached:
            self.expected.upload_to_trainer()

    def copy_to_device(self) -> None:
        if self.expected.trainer.is_attached:
            self.expected.upload_to_trainer()
            self.trainer.copyWeightsToDevice()

    def copy_to_host(self) -> None:
        if self.expected.trainer.is_attached:
            self.expected.read_trainer()
            self.trainer.copyWeightsToHost()

    def copy_to_device_of_inference(self) -> None:
        pair = self.runner()
        if pair and pair[1].is_attached:
            self.expected.upload_to_runner(pair[1])
            pair[0].copyWeightsToDevice()

    def load_by_inference(self) -> None:
        pair = self.runner()
        if pair and self.saved is not None:
            self.expected.sync()
            pair[0].load_state_dict(self.saved[0])
            self.expected.host = copy_of(self.saved[1])
            if pair[1].is_attached:
                self.expected.upload_to_runner(pair[1])

    def copy_to_host_of_inference(self) -> None:
        pair = self.runner()
        if pair and pair[1].is_attached:
            self.expected.sync()
            self.read()
            pair[0].copyWeightsToHost()
            self.expected.host = copy_of(pair[1].network.state_dict())

    def save_checkpoint(self) -> None:
        trainer = self.expected.trainer
        if trainer.is_attached:
            step = len(self.checkpoints)
            trainer.take_loaded()
            self.checkpoints.append((trainer.values, trainer.state))
            self.trainer.saveCheckpoint(self.folder, step=step, keep=1)
            self.last_whole = step

    def load_checkpoint(self) -> None:
        trainer = self.expected.trainer
        if not trainer.is_attached or self.last_whole < 0:
            return
        step = step_of(checkpoints(self.folder)[-1])
        if step < self.last_whole:
            raise Differs(f"the newest checkpoint is {step}, wanted {self.last_whole}")
        trainer.values, trainer.state = self.checkpoints[step]
        trainer.loaded, trainer.is_dirty = None, True
        self.trainer.loadCheckpoint(self.folder)


def outcome_of(seed: int, kind: type[Session] = Session) -> str:
    """Run a sequence.

    Args:
        seed: Of the sequence.
        kind: Its class.

    Returns:
        What differs, with the steps that were taken; empty if nothing does.
    """
    with mock.patch.object(_compilation, "may_be_whole", lambda *_: False):
        return random_sequences.outcome_of(kind, seed)


if __name__ == "__main__":
    sys.exit(random_sequences.main(__doc__, outcome_of))

"""Random sequences of what programs do with a session, beside what they expect of it.

Values are small whole numbers, so that all comparisons are exact. As a program
(`python -m tests.python.popxl.random_sessions COUNT SEED`) it prints the sequences that differ.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import popxl
from pando import checkpoint, checkpoint_files
from pando.settings import use_session_settings
from popxl import ops
from tests.python import random_sequences
from tests.python.random_sequences import Differs, RandomSequence

Array = np.ndarray[Any, Any]
# What a run makes of the host value of a variable, by the inputs of all replicas.
Step = Callable[[Array, Array], Array]


class Program:
    """Variables of several kinds, each with what a run makes of it.

    Args:
        draw: Chooses which there are.
    """

    def __init__(self, draw: random.Random) -> None:
        self.replicas = draw.choice([1, 1, 2, 4])
        self.ir = popxl.Ir(replication=self.replicas)
        self.variables: dict[str, popxl.tensor.Variable] = {}
        self.steps: dict[str, Step] = {}
        self.values: dict[str, Array] = {}
        self._draw = draw
        with self.ir.main_graph, popxl.in_sequence():
            self.input = popxl.h2d_stream((3,), popxl.float32)
            x = ops.host_load(self.input)
            self._summed(x)
            self._unchanged()
            self._counted()
            if self.replicas > 1 and draw.random() < 0.6:
                self._of_each_replica(x)
            if draw.random() < 0.7:
                self._remote()
            if self.replicas > 1 and draw.random() < 0.6:
                self._sharded()

    def _start(self, *shape: int) -> Array:
        size = int(np.prod(shape))
        values = [self._draw.randrange(-4, 5) for _ in range(size)]
        return np.array(values, np.float32).reshape(shape)

    def _add(self, name: str, variable: Any, value: Array, step: Step) -> None:
        self.variables[name], self.values[name], self.steps[name] = variable, value, step

    def _summed(self, x: popxl.Tensor) -> None:
        value = self._start(3)
        v = popxl.variable(value, name="summed")
        self._add("summed", v, value, lambda host, x: host + x.sum(0))
        if self.replicas > 1:
            x = ops.collectives.replicated_all_reduce(x, "add")
        ops.add_(v, x)
        self.output = popxl.d2h_stream((3,), popxl.float32)
        ops.host_store(self.output, v * popxl.constant(1.0, popxl.float32))

    def _unchanged(self) -> None:
        value = self._start(2)
        v = popxl.variable(value, name="unchanged")
        self._add("unchanged", v, value, lambda host, x: host)
        ops.host_store(popxl.d2h_stream((2,), popxl.float32), v + v)

    def _counted(self) -> None:
        value = np.array(3, np.int32)
        v = popxl.variable(value, popxl.int32, name="counted")
        self._add("counted", v, value, lambda host, x: host + np.int32(1))
        ops.add_(v, popxl.constant(1, popxl.int32))

    def _of_each_replica(self, x: popxl.Tensor) -> None:
        value = self._start(self.replicas, 3)
        grouping = self.ir.replica_grouping(group_size=1)
        v = popxl.variable(value, name="of_each", replica_grouping=grouping)
        self._add("of_each", v, value, lambda host, x: host + x)
        ops.add_(v, x)

    def _remote(self) -> None:
        buffer = popxl.remote_buffer((3,), popxl.float32, 2)
        for slot, name in enumerate(("stored", "not_stored")):
            value, more = self._start(3), np.float32(1 - slot)
            v = popxl.remote_variable(value, buffer, slot, name=name)
            self._add(name, v, value, lambda host, x, more=more: host + more)
        row = ops.remote_load(buffer, 0)
        ops.remote_store(buffer, 0, row + popxl.constant(1.0, popxl.float32))

    def _sharded(self) -> None:
        value = self._start(5)
        handle, shard = popxl.replica_sharded_variable(value, popxl.float32, "sharded")
        self._add("sharded", handle, value, lambda host, x: host + np.float32(2))
        ops.add_(shard, popxl.constant(2.0, popxl.float32))


def check_equal(what: str, given: Any, wanted: Array) -> None:
    if np.shape(given) != wanted.shape or not np.array_equal(given, wanted):
        raise Differs(f"{what} is {given}, wanted {wanted}")


def copy_of(values: dict[str, Array]) -> dict[str, Array]:
    return {name: value.copy() for name, value in values.items()}


class Expected:
    """What the host has, and the device while there is one.

    Args:
        host: The values of variables by name.
    """

    def __init__(self, host: dict[str, Array]) -> None:
        self.host, self.device = copy_of(host), copy_of(host)
        self.is_attached, self.is_in_sync = False, True
        self.entered: list[bool] = []  # whether it was attached before

    @property
    def newest(self) -> dict[str, Array]:
        return self.device if self.is_attached else self.host

    def enter(self) -> None:
        self.entered.append(self.is_attached)
        if not self.is_attached:
            self.is_attached = True
            self.upload()

    def leave(self, with_values: bool) -> None:
        if self.entered.pop():
            return
        if with_values:
            self.download()
        self.is_attached, self.is_in_sync = False, True

    def upload(self) -> None:
        self.device, self.is_in_sync = copy_of(self.host), True

    def download(self) -> None:
        self.host, self.is_in_sync = copy_of(self.device), True

    def sync(self) -> None:
        if self.is_attached and not self.is_in_sync:
            self.download()

    def run(self, steps: dict[str, Step], x: Array) -> None:
        self.device = {name: steps[name](value, x) for name, value in self.device.items()}
        self.is_in_sync = False

    def write(self, values: dict[str, Array]) -> None:
        """The others stay as they are on the device."""
        self.host |= copy_of(values)
        self.device |= copy_of(values)

    def restore(self, values: dict[str, Array]) -> None:
        self.device, self.is_in_sync = copy_of(values), False


class Sequence(RandomSequence):
    """One sequence. What is expected comes before the call of the session.

    Args:
        seed: Of everything.
        folder: For files.
    """

    count = 35
    # Some several times: those that others need.
    actions = (
        *["run"] * 6, *["enter"] * 3, "leave", "leave", "leave_by_error", "run_with_another_shape",
        "get", "get", "get_several", "get_by_name", "write", "write", "write_another_shape",
        "to_host", "from_host", "change_what_leaving_does", "save", "load",
    )  # fmt: skip

    def __init__(self, seed: int, folder: str) -> None:
        super().__init__(seed, folder)
        self.program = Program(self.draw)
        settings: dict[str, Any] = {"keep_host_values": self.draw.random() < 0.5}
        if self.draw.random() < 0.5:
            settings |= {"remote_tier": "file", "remote_folder": folder}
        with use_session_settings(**settings):
            self.session = popxl.Session(
                self.program.ir, "cpu", weights_to_host_on_exit=self.draw.random() < 0.7
            )
        self.expected = Expected(self.program.values)
        # The values of checkpoints by their steps; the last one may not be whole.
        self.saved: list[dict[str, Array]] = []
        self.last_whole = -1

    def check_all(self) -> None:
        self.get_several()

    def close(self) -> None:
        while self.expected.entered:
            self._exit(RuntimeError())

    def _refused(self, call: Callable[[], object], *errors: type[Exception]) -> None:
        try:
            call()
        except errors:
            return
        raise Differs("what makes no sense was accepted")

    def enter(self) -> None:
        if len(self.expected.entered) <= 3:
            self.expected.enter()
            self.session.__enter__()

    def _exit(self, error: BaseException | None) -> None:
        if self.expected.entered:
            self.expected.leave(error is None and self.session.weights_to_host_on_exit)
            self.session.__exit__(None if error is None else type(error), error, None)

    def leave(self) -> None:
        self._exit(None)

    def leave_by_error(self) -> None:
        self._exit(RuntimeError("of the user's"))

    def run(self) -> None:
        replicas = self.program.replicas
        x = np.array([[self.draw.randrange(-3, 4) for _ in range(3)] for _ in range(replicas)])
        x = x.astype(np.float32)
        feed = {self.program.input: x if replicas > 1 else x[0]}
        if not self.expected.is_attached:
            self._refused(lambda: self.session.run(feed), ValueError)
            return
        self.expected.run(self.program.steps, x)
        given = self.session.run(feed)[self.program.output]
        summed = self.expected.device["summed"]
        check_equal("the output", given, np.stack([summed] * replicas) if replicas > 1 else summed)

    def run_with_another_shape(self) -> None:
        if self.expected.is_attached:
            feed = {self.program.input: np.zeros(7, np.float32)}
            self._refused(lambda: self.session.run(feed), ValueError)

    def get(self) -> None:
        self.expected.sync()
        host = self.expected.host
        name = self.draw.choice(list(host))
        check_equal(name, self.session.get_tensor_data(self.program.variables[name]), host[name])

    def get_several(self) -> None:
        self.expected.sync()
        host = self.expected.host
        names = self.draw.sample(list(host), self.draw.randrange(1, len(host) + 1))
        variables = self.program.variables
        given = self.session.get_tensors_data([variables[name] for name in names])
        for name in names:
            check_equal(name, given[variables[name]], host[name])

    def get_by_name(self) -> None:
        """Brings that variable alone."""
        name = self.draw.choice(list(self.expected.host))
        value = self.expected.host[name] = self.expected.newest[name].copy()
        check_equal(name, self.session.get_variable(name), value)

    def write(self) -> None:
        host = self.expected.host
        names = self.draw.sample(list(host), self.draw.randrange(1, 3))
        changed = {name: host[name] * 0 + self.draw.randrange(-5, 6) for name in names}
        changed = {name: value.astype(host[name].dtype) for name, value in changed.items()}
        self.expected.write(changed)
        variables = self.program.variables
        self.session.write_variables_data({variables[n]: value for n, value in changed.items()})

    def write_another_shape(self) -> None:
        variable = self.program.variables[self.draw.choice(list(self.expected.host))]
        data = np.zeros(17, np.float32)
        self._refused(
            lambda: self.session.write_variable_data(variable, data), ValueError, TypeError
        )

    def to_host(self) -> None:
        if not self.expected.is_attached:
            self._refused(self.session.weights_to_host, ValueError)
            return
        self.expected.download()
        self.session.weights_to_host()

    def from_host(self) -> None:
        if not self.expected.is_attached:
            self._refused(self.session.weights_from_host, ValueError)
        elif self.session._keeps_host_values:
            self.expected.upload()
            self.session.weights_from_host()

    def change_what_leaving_does(self) -> None:
        if self.session._keeps_host_values:
            self.session.weights_to_host_on_exit = not self.session.weights_to_host_on_exit

    def save(self) -> None:
        if self.expected.is_attached:
            step = len(self.saved)
            self.saved.append(copy_of(self.expected.device))
            checkpoint.save(self.session, f"{self.folder}/saved", step=step, keep=2)
            self.last_whole = step

    def load(self) -> None:
        if not self.expected.is_attached or self.last_whole < 0:
            return
        step = checkpoint_files.step_of(checkpoint.checkpoints(f"{self.folder}/saved")[-1])
        if step < self.last_whole:
            raise Differs(f"the newest checkpoint is {step}, wanted {self.last_whole}")
        self.expected.restore(self.saved[step])
        checkpoint.load(self.session, f"{self.folder}/saved")


if __name__ == "__main__":
    sys.exit(random_sequences.main(__doc__, partial(random_sequences.outcome_of, Sequence)))

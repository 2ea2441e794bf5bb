"""Programs and settings for tests of remote buffers."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import popxl
from pando.settings import use_session_settings
from popxl import ops
from tests.python.popxl.replica_testing import store


def files(folder, **changes):
    """Settings of the file tier, with small budgets."""
    settings = {
        "num_threads": 1,
        "remote_tier": "file",
        "remote_folder": str(folder),
        "remote_staging_bytes": 1 << 20,
        "remote_prefetch_bytes": 1 << 20,
    }
    return use_session_settings(**{**settings, **changes})


def phases_program(width=5000):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((width,), popxl.float32, 4)
        for i in range(4):
            popxl.remote_variable(np.full(width, i + 1, np.float32), buffer, i)
        x = ops.remote_load(buffer, 0)
        total = x
        for i in range(1, 4):
            total = ops.cumsum(total, 0) + ops.remote_load(buffer, i)
        output = store(total)
    return ir, output


# Random programs against NumPy.

ENTRIES = 3


def random_steps(seed, count=40):
    rng = np.random.default_rng(seed)
    kinds = ["load", "load", "load_", "store", "store", "add", "add_", "scale", "graph", "update"]
    return [
        (kinds[rng.integers(len(kinds))], *(int(i) for i in rng.integers(0, 3, 3)))
        for _ in range(count)
    ]


@dataclass
class RandomProgram:
    """`variables`: by buffer and row, which begins as `slots` has it; `start`: of the tensors."""

    ir: popxl.Ir
    start: np.ndarray
    slots: np.ndarray
    variables: Any
    outputs: Any

    def check(self, session, steps):
        tensors, slots = reference(steps, self.start, self.slots)
        with session:
            results = session.run()
            for tensor, stream in zip(tensors, self.outputs, strict=True):
                np.testing.assert_array_equal(results[stream], tensor)
            for row, wanted in zip(self.variables, slots, strict=True):
                for variable, value in zip(row, wanted, strict=True):
                    np.testing.assert_array_equal(session.get_tensor_data(variable), value)


def random_program(steps, shape, dynamic):
    """Three tensors, two buffers; each step loads, stores or computes."""
    ir = popxl.Ir()
    rng = np.random.default_rng(1)
    start = rng.integers(-8, 9, (3, *shape)).astype(np.float32)
    slots = rng.integers(-8, 9, (2, ENTRIES, *shape)).astype(np.float32)
    with ir.main_graph, popxl.in_sequence():
        buffers = [popxl.remote_buffer(shape, popxl.float32, ENTRIES) for _ in range(2)]
        variables = [
            [popxl.remote_variable(slots[b, e], buffer, e) for e in range(ENTRIES)]
            for b, buffer in enumerate(buffers)
        ]
        offsets = [popxl.variable(e, popxl.uint32) for e in range(3)]
        tensors = [popxl.variable(value) + 0.0 for value in start]

        def reload(x, y, offset, buffer):
            return x + ops.remote_load(buffer, offset) * 0.5 + y

        def halve(x: popxl.TensorByRef):
            ops.scaled_add_(x, x, b=-0.5)

        graphs = [
            ir.create_graph(reload, tensors[0], tensors[0], offsets[0], buffer=buffer)
            for buffer in buffers
        ]
        halving = ir.create_graph(halve, tensors[0])
        for kind, a, b, c in steps:
            buffer, offset = buffers[a % 2], offsets[b] if dynamic else b
            if kind == "load":
                tensors[c] = ops.remote_load(buffer, offset)
            elif kind == "load_":
                tensors[c] = ops.remote_load_(buffer, offset, tensors[c] + 0.0)
            elif kind == "store":
                ops.remote_store(buffer, offset, tensors[c])
            elif kind == "add":
                tensors[c] = tensors[a] + tensors[b]
            elif kind == "add_":
                ops.add_(tensors[c], tensors[b])
            elif kind == "scale":
                tensors[c] = tensors[c] * 0.5
            elif kind == "update":
                ops.repeat(halving, b, tensors[c])
            else:
                (tensors[c],) = ops.call(graphs[a % 2], tensors[a], tensors[b], offsets[b])
        outputs = [store(tensor) for tensor in tensors]
    return RandomProgram(ir, start, slots, variables, outputs)


def reference(steps, start, slots):
    tensors, slots = list(start), slots.copy()
    for kind, a, b, c in steps:
        if kind in ("load", "load_"):
            tensors[c] = slots[a % 2, b].copy()
        elif kind == "store":
            slots[a % 2, b] = tensors[c]
        elif kind == "add":
            tensors[c] = tensors[a] + tensors[b]
        elif kind == "add_":
            tensors[c] = tensors[c] + tensors[b]
        elif kind == "scale":
            tensors[c] = tensors[c] * np.float32(0.5)
        elif kind == "update":
            tensors[c] = tensors[c] * np.float32(0.5**b)
        else:
            tensors[c] = tensors[a] + slots[a % 2, b] * np.float32(0.5) + tensors[b]
    return tensors, slots

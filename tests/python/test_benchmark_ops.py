"""The single operations that the benchmarks time compute what PyTorch's do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import popxl
from benchmarks.cases import Case
from benchmarks.frameworks import popxl_ops, torch_ops
from benchmarks.op_cases import OPS, op_cases
from popxl import ops

SMALLEST = list({case.mode: case for case in reversed(op_cases())}.values())
RANDOM = ("dropout", "uniform", "normal")
UPDATES = ("adam", "lamb", "embedding_adam")
COMPUTED = [case for case in SMALLEST if case.mode not in (*RANDOM, *UPDATES)]
NOT_COMPARED = [case for case in SMALLEST if case not in COMPUTED]


def results_of_popxl(case: Case) -> list[np.ndarray]:
    ir = popxl.Ir(replication=1)
    with ir.main_graph, popxl.in_sequence():
        arguments = [popxl.variable(array) for array in OPS[case.mode].arrays(case.size)]
        results = popxl_ops.outputs_of(popxl_ops.function_of(case.mode, arguments)(*arguments))
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in results]
        for stream, result in zip(streams, results, strict=True):
            ops.host_store(stream, result)
    ir.num_host_transfers = 1
    with popxl.Session(ir, "cpu") as session:
        outputs = session.run()
    return [outputs[stream] for stream in streams]


def results_of_torch(case: Case) -> list[np.ndarray]:
    arguments = torch_ops.tensors_of(OPS[case.mode].arrays(case.size))
    base, _, ending = case.mode.rpartition("_")
    wants_gradients = ending in ("gradient", "gradients")
    inputs = [t.requires_grad_() for t in arguments if wants_gradients and t.is_floating_point()]
    result = torch_ops.FORWARD[base if wants_gradients else case.mode](*arguments)
    results = [result] if isinstance(result, torch.Tensor) else list(result)
    if wants_gradients:
        results += torch.autograd.grad(result, inputs, torch.ones_like(result))
    return [t.detach().numpy() for t in results]


@pytest.mark.parametrize("case", COMPUTED, ids=[case.name for case in COMPUTED])
def test_an_operation_gives_the_values_of_pytorch(case: Case) -> None:
    found, wanted = results_of_popxl(case), results_of_torch(case)
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.size == theirs.size
        np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("case", NOT_COMPARED, ids=[case.name for case in NOT_COMPARED])
def test_the_loop_of_an_operation_runs(case: Case) -> None:
    popxl_ops.build(case).close()  # takes its first steps

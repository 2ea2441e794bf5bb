"""The operators of torch.ops.poptorch, called directly."""

from __future__ import annotations

import pytest
import torch

import poptorch
from poptorch._trace.library import LIBRARY

X = torch.arange(6.0).reshape(2, 3)
START = torch.tensor(0)

# Arguments of every operator, and what it returns on the CPU.
CALLS = {
    "begin_ipu_block": ((0, 0, 0), None),
    "end_ipu_block": ((), None),
    "start_for_loop": (([X],), None),
    "end_for_loop": (([X], [X], 2), [X]),
    "start_if_block": ((torch.tensor(True),), None),
    "start_else_block": (([X],), None),
    "end_if_block": (([X], torch.tensor(True)), [X]),
    "begin_function": ((), None),
    "begin_backward": (([X], [X]), None),
    "end_function": (([X], [X + 1], [X], [True], "F"), [X + 1]),
    "optimizer_group": ((0, [X]), None),
    "begin_multi_conv": ((), None),
    "end_multi_conv": ((None, None, None, None, None, None), None),
    "push_name_scope": (("a",), None),
    "pop_name_scope": ((), None),
    "set_attribute": (("a", "b", "c"), None),
    "clear_attribute": (("a", "b"), None),
    "ipu_print_tensor": ((X, "t", 1, 1000, 3, 80, 4, 0, ",", "(", ")"), X),
    "nop": ((X,), X),
    "set_matmul_serialization": ((X, "none", 0, False), X),
    "set_overlap_for_input": ((X, "no_overlap"), X),
    "set_overlap_for_output": ((X, "no_overlap"), X),
    "recomputation_checkpoint": ((X,), X),
    "set_available_memory": ((X, 0.5), X),
    "custom_operation": (([X], "A", "b", 1, 1, [X + 1], "{}"), [X + 1]),
    "ctc_beam_search_decoder": ((torch.zeros(4, 2, 3), torch.ones(2), 0, 5, 1), "zeros"),
    "dynamic_slice": ((X, 1, START, 3, 2), X[:, ::2]),
    "dynamic_update": ((X, -X, 1, START, 3), -X),
    "identity_loss": ((X, 0), X.sum()),
    "internal_cast": ((X, "FLOAT16"), X),
    "call_cpu_op": (([X], "a"), None),
    "end_cpu_op": (([X],), [X]),
    "fps": ((X, [0, 2], 1.0, False), torch.tensor([0, 1], dtype=torch.int32)),
    "nearest": ((X, X, torch.zeros(2), torch.zeros(2)), torch.tensor([0, 1], dtype=torch.int32)),
    "nearest_batch_list": ((X, X, [0, 0], [0, 0]), torch.tensor([0, 1], dtype=torch.int32)),
}


def test_every_operator_is_called_here():
    defined = {name.partition("::")[2].partition(".")[0] for name in LIBRARY._op_defs}
    assert defined == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_on_the_cpu(name):
    arguments, wanted = CALLS[name]
    result = getattr(torch.ops.poptorch, name)(*arguments)
    if wanted is None:
        assert result is None
    elif isinstance(wanted, str):
        assert [list(one.shape) for one in result] == [[2, 1], [2, 1], [2, 1, 4]]
    elif isinstance(wanted, list):
        assert isinstance(result, list)
        assert all(torch.equal(a, b) for a, b in zip(result, wanted, strict=True))
    else:
        assert result.dtype == wanted.dtype and torch.equal(result, wanted)


def to_meta(argument):
    if isinstance(argument, torch.Tensor):
        return argument.to("meta")
    return [to_meta(item) for item in argument] if isinstance(argument, list) else argument


def tensors_of(result):
    return [] if result is None else list(result) if isinstance(result, (list, tuple)) else [result]


@pytest.mark.parametrize("name", CALLS)
def test_on_meta_tensors_results_have_storage_of_their_own(name):
    arguments = [to_meta(argument) for argument in CALLS[name][0]]
    results = tensors_of(getattr(torch.ops.poptorch, name)(*arguments))
    wanted = tensors_of(getattr(torch.ops.poptorch, name)(*CALLS[name][0]))
    assert [one.shape for one in results] == [one.shape for one in wanted]
    if name != "internal_cast":
        assert [one.dtype for one in results] == [one.dtype for one in wanted]
    given = [one for item in arguments for one in (item if isinstance(item, list) else [item])]
    storages = {one.untyped_storage()._cdata for one in given if isinstance(one, torch.Tensor)}
    assert all(one.is_meta for one in results)
    assert storages.isdisjoint(one.untyped_storage()._cdata for one in results)


def test_internal_cast():
    x = torch.empty(2, device="meta", requires_grad=True)
    half = torch.ops.poptorch.internal_cast(x, "FLOAT16")
    assert half.dtype == torch.float16 and half.requires_grad
    assert torch.ops.poptorch.internal_cast(x, "FLOAT").dtype == torch.float32
    with pytest.raises(poptorch.Error, match=r"wanted one of \['FLOAT', 'FLOAT16'\]"):
        torch.ops.poptorch.internal_cast(x, "INT32")

"""Blocks: what begins them, which ids they get, and that they are nothing outside of a trace."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import poptorch
from tests.python.poptorch.marks import recorded


class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2


def blocks_of(calls):
    return [args for name, args in calls if name == "begin_ipu_block"]


def names_of(calls):
    return [name for name, _ in calls]


def ones():
    return torch.ones(2, device="meta")


def pipeline():
    return poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)


def test_a_block_begins_and_ends_around_its_ops():
    x = ones()
    with recorded(poptorch.PipelinedExecution()) as calls, poptorch.Block(ipu_id=3):
        x * 2
    assert names_of(calls) == ["begin_ipu_block", "aten::mul.Tensor", "end_ipu_block"]
    assert blocks_of(calls) == [(3, 0, 3)]


def test_a_block_ends_when_its_body_raises():
    with (
        recorded(poptorch.PipelinedExecution()) as calls,
        pytest.raises(KeyError),
        poptorch.Block(ipu_id=1),
    ):
        raise KeyError("x")
    assert names_of(calls) == ["begin_ipu_block", "end_ipu_block"]


def test_automatic_ids_count_and_start_again():
    strategy = poptorch.PipelinedExecution("0", "1")
    with recorded(strategy) as calls:
        poptorch.Block.start()
        poptorch.Block.start()
        poptorch.Block.useAutoId()
        poptorch.Block.start()
    assert [stage for stage, _, _ in blocks_of(calls)] == [0, 1, 0]


def test_explicit_stages_place_blocks():
    strategy = poptorch.PipelinedExecution(["a", "b"], poptorch.Stage("c").ipu(5))
    with recorded(strategy) as calls:
        poptorch.Block.start("a")
        poptorch.Block.start("b", ipu_id=4)
        poptorch.Block.start("c", ipu_id=1)
    assert blocks_of(calls) == [(0, 0, 0), (0, 0, 4), (1, 0, 5)]


def test_an_unknown_block_and_one_without_a_device_are_refused():
    with (
        recorded(poptorch.PipelinedExecution("a")),
        pytest.raises(AssertionError, match="Unknown Block 'z' list of expected Blocks: "),
    ):
        poptorch.Block.start("z")
    with (
        recorded(poptorch.PipelinedExecution()),
        pytest.raises(AssertionError, match="no IPU was specified for block z"),
    ):
        poptorch.Block.start("z")


def test_each_trace_numbers_blocks_anew():
    strategy = pipeline()
    for _ in range(2):
        with recorded(strategy) as calls:
            poptorch.Block.start("x")
            poptorch.Block.start("y")
            poptorch.Block.start("x")
        assert [stage for stage, _, _ in blocks_of(calls)] == [1, 2, 1]


def test_begin_block_returns_the_same_module_and_places_what_follows():
    layer = Double()
    assert poptorch.BeginBlock(layer, ipu_id=2) is layer
    with recorded(poptorch.PipelinedExecution(poptorch.AutoStage.SameAsIpu)) as calls:
        layer(ones())
    assert names_of(calls) == ["aten::ones", "begin_ipu_block", "aten::mul.Tensor"]
    assert blocks_of(calls) == [(2, 0, 2)]


def test_begin_block_remembers_its_automatic_id():
    layer = poptorch.BeginBlock(Double())
    assert "BeginBlock(user_id=None, ipu_id=None)" in poptorch.module_repr(layer)
    with recorded(pipeline()):
        poptorch.Block.start()
        layer(ones())
    assert "BeginBlock(user_id=1, ipu_id=None)" in poptorch.module_repr(layer)
    with recorded(poptorch.PipelinedExecution("0", "1")) as calls:
        layer(ones())
    assert blocks_of(calls) == [(1, 0, 1)]


def test_hooks_run_in_the_order_of_their_registration():
    def hook(module, inputs):
        return inputs[0] + 1

    before, after = Double(), Double()
    before.register_forward_pre_hook(hook)
    poptorch.BeginBlock(before, ipu_id=1)
    poptorch.BeginBlock(after, ipu_id=1)
    after.register_forward_pre_hook(hook)
    for layer, wanted in (
        (before, ["aten::add.Tensor", "begin_ipu_block", "aten::mul.Tensor"]),
        (after, ["begin_ipu_block", "aten::add.Tensor", "aten::mul.Tensor"]),
    ):
        x = ones()
        with recorded(poptorch.PipelinedExecution()) as calls:
            layer(x)
        assert names_of(calls) == wanted


def test_a_module_has_one_block_until_it_is_removed():
    layer = poptorch.BeginBlock(Double(), ipu_id=1)
    with pytest.raises(poptorch.Error, match="module has already been assigned to a block"):
        poptorch.BeginBlock(layer, ipu_id=2)
    poptorch.removeBlocks(layer)
    assert poptorch.BeginBlock(layer, ipu_id=2) is layer


def test_blocks_are_removed_from_a_tree_and_other_hooks_stay():
    seen = []
    model = torch.nn.Sequential(Double(), torch.nn.Sequential(Double()))
    poptorch.BeginBlock(model[0], ipu_id=1)
    poptorch.BeginBlock(model[1][0], ipu_id=2)
    model[1][0].register_forward_pre_hook(lambda module, inputs: seen.append(1))
    poptorch.removeBlocks(model)
    assert "BeginBlock" not in poptorch.module_repr(model)
    with recorded(pipeline()) as calls:
        model(ones())
    assert blocks_of(calls) == [] and seen == [1]
    with pytest.raises(poptorch.Error, match=r"not an instance of torch.nn.Module"):
        poptorch.removeBlocks(lambda x: x)


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_blocks_survive_copies(duplicate):
    model = torch.nn.Sequential(poptorch.BeginBlock(torch.nn.Linear(2, 2), "a", ipu_id=1))
    twin = duplicate(model)
    with recorded(pipeline()) as calls:
        twin.to("meta")(torch.ones(1, 2, device="meta"))
    assert blocks_of(calls) == [(1, 0, 1)]
    with pytest.raises(poptorch.Error, match="already been assigned"):
        poptorch.BeginBlock(twin[0])
    if duplicate is not copy.copy:
        poptorch.removeBlocks(twin)
        assert "BeginBlock" in poptorch.module_repr(model)


def test_begin_block_of_a_function_and_of_nothing():
    def twice(x):
        """Doubles."""
        return x * 2

    begun = poptorch.BeginBlock(twice, ipu_id=1)
    assert begun.__doc__ == "Doubles." and begun(3) == 6
    x = ones()
    with recorded(pipeline()) as calls:
        begun(x)
    assert names_of(calls) == ["begin_ipu_block", "aten::mul.Tensor"]
    for wrong in (3, torch.nn.Linear):
        with pytest.raises(
            poptorch.Error, match=r"module is not an instance of torch.nn.Module or function."
        ):
            poptorch.BeginBlock(wrong)


def test_a_function_in_a_block():
    class Model(torch.nn.Module):
        @poptorch.BlockFunction(user_id="a", ipu_id=1)
        def half(self, x, scale=0.5):
            """Halves."""
            return x * scale

        def forward(self, x):
            return self.half(x, scale=0.25)

    model, x = Model(), ones()
    assert Model.half.__doc__ == "Halves."
    with recorded(pipeline()) as calls:
        model(x)
    assert names_of(calls) == ["begin_ipu_block", "aten::mul.Tensor", "end_ipu_block"]
    assert model(torch.tensor(2.0)) == 0.5


def test_outside_of_a_trace_blocks_do_nothing():
    layer = poptorch.BeginBlock(Double(), ipu_id=1)
    with poptorch.Block("a", ipu_id=1), poptorch.Block():
        poptorch.Block.useAutoId()
        poptorch.Block.start()
        assert torch.equal(layer(torch.ones(2)), torch.full((2,), 2.0))


def test_a_block_is_a_module_that_can_be_stored():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = poptorch.Block(ipu_id=1)

        def forward(self, x):
            with self.block:
                return x * 2

    with recorded(pipeline()) as calls:
        Model()(ones())
    assert blocks_of(calls) == [(1, 0, 1)]


@pytest.mark.parametrize("arguments", [{"user_id": 3}, {"ipu_id": -1}, {"ipu_id": 1.5}])
def test_ids_of_other_types_are_refused(arguments):
    for begin in (poptorch.Block, poptorch.Block.start, poptorch.BlockFunction):
        with pytest.raises(AssertionError, match="A block's"):
            begin(**arguments)
    with pytest.raises(AssertionError, match="A block's"):
        poptorch.BeginBlock(Double(), **arguments)

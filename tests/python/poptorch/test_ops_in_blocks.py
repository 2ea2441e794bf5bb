"""Ops in and behind blocks of compiled programs."""

from __future__ import annotations

import pytest
import torch

import poptorch
from poptorch._lower.stages import ForwardStages
from poptorch._trace import tracer
from poptorch._trace.recorder import Recorder
from poptorch._trace.recording import Placement


class Of(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


X = torch.arange(9.0).reshape(3, 3)


def compiled(function, strategy=None):
    options = poptorch.Options().setExecutionStrategy(strategy or poptorch.PipelinedExecution())
    return poptorch.inferenceModel(Of(function), options)(X)


NEED_A_BLOCK = {
    "aten::mul": lambda y: y * 2,
    "poptorch::identity_loss": lambda y: poptorch.identity_loss(y, "sum"),
    "poptorch::nop": poptorch.nop,
    "poptorch::ipu_print_tensor": poptorch.ipu_print_tensor,
    "poptorch::recomputation_checkpoint": poptorch.recomputationCheckpoint,
    "poptorch::end_cpu_op": poptorch.CPU(torch.abs, "abs"),
    "aten::clone": lambda y: poptorch.for_loop(2, lambda t: t, [y])[0],
}


@pytest.mark.parametrize("operator", NEED_A_BLOCK)
def test_ops_behind_a_block_need_another_one(operator):
    def behind(x):
        with poptorch.Block(ipu_id=0):
            y = x + 1
        return NEED_A_BLOCK[operator](y)

    with pytest.raises(
        poptorch.Error,
        match=f"No active Block, all the ops must belong to a Block; {operator}",
    ):
        compiled(behind)


def test_the_end_of_an_inner_block_does_not_restore_the_outer_one():
    def behind(x):
        with poptorch.Block(ipu_id=0):
            with poptorch.Block(ipu_id=0):
                y = x + 1
            return y * 2

    with pytest.raises(poptorch.Error, match=r"No active Block, .* aten::mul"):
        compiled(behind)


def test_a_loss_behind_a_block_needs_another_one():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x):
            with poptorch.Block(ipu_id=0):
                y = self.layer(x)
            return poptorch.identity_loss(y, "sum")

    with pytest.raises(poptorch.Error, match=r"No active Block, .* poptorch::identity_loss"):
        poptorch.trainingModel(Network())(torch.ones(2, 4))


def test_hints_behind_a_block_are_where_their_tensor_was_made():
    def hinted(x):
        with poptorch.Block(ipu_id=0):
            y = x @ x
        return poptorch.set_available_memory(y, 0.3)

    assert torch.equal(compiled(hinted), X @ X)


def test_a_loop_with_a_block_inside_is_where_it_begins():
    def looped(x):
        def body(y):
            with poptorch.Block("inner", ipu_id=0):
                return y + 1

        with poptorch.Block("outer", ipu_id=0):
            (y,) = poptorch.for_loop(3, body, [x])
        poptorch.Block.start("last", ipu_id=1)
        return y * 2

    sharded = compiled(looped, poptorch.ShardedExecution())
    assert torch.equal(sharded, (X + 3) * 2)


def placements(function, strategy):
    """Where each op of a function is recorded, by name of the operator."""
    found = []

    class Noting(Recorder):
        def _note(self, *arguments):
            super()._note(*arguments)
            found.append((self.recording.nodes[-1].name, self.recording.nodes[-1].placement))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracer, "Recorder", Noting)
        compiled(function, strategy)
    return found


def before_the_first_block(x):
    y = x + 1
    with poptorch.Block(ipu_id=1):
        return y * 2


def test_ops_before_the_first_block_are_on_device_0():
    found = dict(placements(before_the_first_block, poptorch.ShardedExecution()))
    assert found["aten::add"] == Placement(ipu=0, stage=0, phase=0)
    assert found["aten::mul"] == Placement(ipu=1, stage=1, phase=0)
    with pytest.raises(poptorch.Error, match=r"number of pipeline stages \(2\)"):
        compiled(before_the_first_block)


def test_blocks_of_one_other_device_are_no_pipeline():
    def function(x):
        with poptorch.Block("a", ipu_id=1):
            y = x + 1
        with poptorch.Block("b", ipu_id=1):
            return y * 2

    assert torch.equal(compiled(function), (X + 1) * 2)


def test_a_weight_is_on_the_device_of_its_first_use():
    class Shared(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.eye(3) * 2)

        def forward(self, x):
            with poptorch.Block("first", ipu_id=1):
                y = x @ self.weight
            with poptorch.Block("second", ipu_id=2):
                return poptorch.identity_loss(y @ self.weight, "sum")

    homes = {}

    home_of = ForwardStages.home_of

    def noting(self, name):
        homes[name] = home_of(self, name)
        return homes[name]

    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    options.autoRoundNumIPUs(True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ForwardStages, "home_of", noting)
        model = Shared()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert poptorch.trainingModel(model, options, optimizer)(X) == X.sum() * 4
    assert homes["weight"] == 1

"""Pipelines against the same stages run in order, micro-batch by micro-batch, in PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import popxl
import popxl_addons as addons
from popart import popart_exception
from popxl import ops

BATCH, SIZE = 3, 5
RNG = np.random.default_rng(8)
WEIGHTS = RNG.normal(0, 0.6, (3, SIZE, SIZE)).astype(np.float32)
SPEC = popxl.TensorSpec((BATCH, SIZE), popxl.float32)


class Layer(addons.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        weight = self.add_variable_input("weight", lambda: WEIGHTS[self.index], popxl.float32)
        return ops.gelu(x @ weight)


@pytest.mark.parametrize("steps", [3, 4, 6, 12])
def test_forward_through_three_devices(steps: int) -> None:
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph:
        source = popxl.h2d_stream(SPEC.shape, SPEC.dtype, "x")
        results = popxl.d2h_stream(SPEC.shape, SPEC.dtype, "y")
        with addons.pipelined_execution(steps) as pipeline:
            with pipeline.stage(0), popxl.ipu(0):
                x = ops.host_load(source)
            for index in range(3):
                with pipeline.stage(index), popxl.ipu(index):
                    factories, graph = Layer(index).create_graph(SPEC)
                    (x,) = graph.bind(factories.init(f"fc{index}")).call(x)
                    if index < 2:
                        x = x.copy_to_ipu(index + 1)
            with pipeline.stage(2), popxl.ipu(2):
                ops.host_store(results, x)
    calls = list(ir.main_graph._pb.ops)
    assert [op.kind for op in calls] == ["Call"]
    assert calls[0].called_graphs[0].id.startswith("pipeline_graph_subgraph(")
    with pytest.raises(ValueError, match="not in the current Graph"), ir.main_graph:
        ops.relu(x)
    data = RNG.normal(size=(steps, BATCH, SIZE)).astype(np.float32)
    with popxl.Session(ir, "cpu") as session:
        value = session.run({source: data})[results]
    wanted = torch.tensor(data)
    for weight in WEIGHTS:
        wanted = torch.nn.functional.gelu(wanted @ torch.tensor(weight), approximate="tanh")
    np.testing.assert_allclose(value, wanted.numpy(), rtol=1e-4, atol=1e-5)


def build_training(steps: int, recompute: bool) -> tuple[popxl.Ir, dict[str, popxl.Tensor], list]:
    """Two layers and a loss: forward in stages 0 and 1, loss with the gradient of layer 1 in stage
    1, gradient of layer 0 in stage 2."""
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph:
        x_in = popxl.h2d_stream(SPEC.shape, SPEC.dtype, "x")
        labels_in = popxl.h2d_stream((BATCH,), popxl.int32, "labels")
        loss_out = popxl.d2h_stream((), popxl.float32, "loss")
        graphs, gradients, variables, accums = [], [], [], []
        for index in range(2):
            factories, forward = Layer(index).create_graph(SPEC)
            required = [forward.graph.inputs[0]] if index else []
            grad_factories, gradient = addons.autodiff_with_accumulation(
                forward, forward.args.tensors, grads_required=required
            )
            graphs.append(forward)
            gradients.append(addons.recompute_graph(gradient) if recompute else gradient)
            variables.append(factories.init(f"fc{index}"))
            accums.append(grad_factories.init(f"fc{index}"))
        with popxl.in_sequence(), addons.pipelined_execution(steps) as pipeline:
            with pipeline.stage(0), popxl.ipu(0):
                x = ops.host_load(x_in)
                first = graphs[0].bind(variables[0]).call_with_info(x)
                hidden = first.outputs[0].copy_to_ipu(1)
            with pipeline.stage(1), popxl.ipu(1):
                second = graphs[1].bind(variables[1]).call_with_info(hidden)
                labels = ops.host_load(labels_in)
                loss, dx = addons.ops.cross_entropy_with_grad(second.outputs[0], labels)
                ops.host_store(loss_out, loss)
                args = pipeline.stash_and_restore_activations(second, gradients[1].grad_graph_info)
                assert args == gradients[1].grad_graph_info.inputs_dict(second)
                (dx,) = gradients[1].bind(accums[1]).call(dx, args=args)
                dx = dx.copy_to_ipu(0)
            with pipeline.stage(2), popxl.ipu(0):
                args = pipeline.stash_and_restore_activations(first, gradients[0].grad_graph_info)
                assert x not in args.values(), "it is of another micro-batch by now"
                assert (variables[0].weight in args.values()) == recompute
                gradients[0].bind(accums[0]).call(dx, args=args)
    named = {f"accum{i}": accums[i].accum.weight for i in range(2)}
    named |= {f"counter{i}": accums[i].mean_accum_counter for i in range(2)}
    return ir, named, [x_in, labels_in, loss_out]


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("steps", [3, 6, 9])
def test_training_with_accumulated_gradients(steps: int, recompute: bool) -> None:
    ir, named, (x_in, labels_in, loss_out) = build_training(steps, recompute)
    data = RNG.normal(size=(steps, BATCH, SIZE)).astype(np.float32)
    labels = RNG.integers(0, SIZE, (steps, BATCH)).astype(np.int32)
    session = popxl.Session(ir, "cpu")
    with session:
        losses = session.run({x_in: data, labels_in: labels})[loss_out]

    weights = [torch.tensor(WEIGHTS[i], requires_grad=True) for i in range(2)]
    y = torch.tensor(data)
    for weight in weights:
        y = torch.nn.functional.gelu(y @ weight, approximate="tanh")
    flat = y.reshape(-1, SIZE), torch.tensor(labels).reshape(-1).long()
    each = torch.nn.functional.cross_entropy(*flat, reduction="none").reshape(steps, BATCH)
    np.testing.assert_allclose(losses, each.mean(axis=1).detach().numpy(), rtol=1e-5)
    grads = torch.autograd.grad(each.mean(), weights)
    for index in range(2):
        value = session.get_tensor_data(named[f"accum{index}"])
        np.testing.assert_allclose(value, grads[index].numpy(), rtol=1e-4, atol=1e-6)
        assert session.get_tensor_data(named[f"counter{index}"]) == steps


def test_a_restored_tensor_is_of_the_same_micro_batch() -> None:
    ir = popxl.Ir()
    ir.num_host_transfers = 8
    with ir.main_graph:
        source = popxl.h2d_stream((), popxl.float32, "x")
        results = popxl.d2h_stream((), popxl.float32, "y")
        with addons.pipelined_execution(8) as pipeline:
            with pipeline.stage(0):
                x = ops.host_load(source)
                y = x + 1.0
            for stage in (1, 2):
                with pipeline.stage(stage):
                    y = y * 2.0
            with pipeline.stage(3):
                restored = pipeline.stash_and_restore_tensor(x, from_stage=0)
                ops.host_store(results, y + restored * 100.0)
    data = np.arange(8, dtype=np.float32)
    with popxl.Session(ir, "cpu") as session:
        value = session.run({source: data})[results]
    np.testing.assert_array_equal(value, 4 * (data + 1) + 100 * data)


@pytest.mark.parametrize("ordered", [True, False])
def test_what_follows_in_sequence_follows_the_pipeline(ordered: bool) -> None:
    ir = popxl.Ir()
    with ir.main_graph as main, popxl.in_sequence():
        total = popxl.variable(1.0, name="total")
        ops.var_updates.accumulator_scale_(total, 3.0)
        with addons.pipelined_execution(4) as pipeline, popxl.in_sequence(ordered):
            x = chain(pipeline, 2)
            with pipeline.stage(1):
                ops.var_updates.accumulate_(total, x)
        ops.var_updates.accumulator_scale_(total, 10.0)
    first, call, last = main._pb.ops
    assert call.kind == "Call" and set(call.after) == {first}
    assert last.after == ([call] if ordered else [first, call])
    session = popxl.Session(ir, "cpu")
    with session:
        session.run()
    assert session.get_tensor_data(total) == (3 + 4 * 3) * 10


def chain(pipeline: addons.transforms.Pipelining, stages: int) -> popxl.Tensor:
    x = popxl.constant(1.0)
    for index in range(stages):
        with pipeline.stage(index):
            x = x + 1.0
    return x


def outside_a_stage(pipeline: addons.transforms.Pipelining) -> None:
    ops.relu(chain(pipeline, 2))


def restored_outside_a_stage(pipeline: addons.transforms.Pipelining) -> None:
    pipeline.stash_and_restore_tensor(chain(pipeline, 2))


def restored_in_its_own_stage(pipeline: addons.transforms.Pipelining) -> None:
    x = chain(pipeline, 2)
    with pipeline.stage(1):
        pipeline.stash_and_restore_tensor(x)


def restored_without_a_stage(pipeline: addons.transforms.Pipelining) -> None:
    chain(pipeline, 2)
    with pipeline.stage(1):
        pipeline.stash_and_restore_tensor(popxl.constant(1.0))


def backwards(pipeline: addons.transforms.Pipelining) -> None:
    x = chain(pipeline, 2)
    with pipeline.stage(0):
        ops.relu(x)


def in_place_across_stages(pipeline: addons.transforms.Pipelining) -> None:
    x = chain(pipeline, 1)
    with pipeline.stage(1):
        ops.relu_(x)


def without_stage_one(pipeline: addons.transforms.Pipelining) -> None:
    x = chain(pipeline, 1)
    with pipeline.stage(2):
        ops.relu(x)


def one_stream_in_two_stages(pipeline: addons.transforms.Pipelining) -> None:
    source = popxl.h2d_stream((), popxl.float32, "x")
    for index in range(2):
        with pipeline.stage(index):
            ops.host_load(source)


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (outside_a_stage, RuntimeError, "outside a stage"),
        (restored_outside_a_stage, RuntimeError, "inside a stage"),
        (restored_in_its_own_stage, TypeError, "before stage 1"),
        (restored_without_a_stage, RuntimeError, "give from_stage"),
        (backwards, popart_exception, "stage 0 uses .* of the later stage 1"),
        (in_place_across_stages, popart_exception, "use the out-of-place op"),
        (without_stage_one, ValueError, "given stages 0, 2"),
        (one_stream_in_two_stages, popart_exception, "use the host stream 'x'"),
        (lambda pipeline: chain(pipeline, 7), ValueError, "7 stages need at least 7 steps"),
    ],
)
def test_what_is_no_pipeline(
    build: Callable[[addons.transforms.Pipelining], None],
    error: type[Exception],
    words: str,
) -> None:
    ir = popxl.Ir()
    with (
        ir.main_graph,
        pytest.raises(error, match=words),
        addons.pipelined_execution(6) as pipeline,
    ):
        build(pipeline)

"""A weight that the first and the last stage of a pipeline share, and sums of gradients, with as
few micro-batches as stages: against the plain program of the same training, and PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

import popxl
import popxl_addons as addons
from popxl import ops
from popxl.ops.call import CallSiteInfo

BATCH, SIZE, HIDDEN, UPDATES = 3, 5, 4, 6
LR = 0.05
STAGES = 5  # 2 F - 1 with F = 3
RNG = np.random.default_rng(4)
TIED = RNG.normal(0, 0.6, (SIZE, HIDDEN)).astype(np.float32)
MIDDLE = RNG.normal(0, 0.6, (HIDDEN, HIDDEN)).astype(np.float32)
DATA = RNG.normal(size=(UPDATES, 9, BATCH, SIZE)).astype(np.float32)
LABELS = DATA.argmax(-1).astype(np.int32)


class First(addons.Module):
    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return ops.gelu(x @ self.add_variable_input("weight", lambda: TIED, popxl.float32))


class Middle(addons.Module):
    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        return ops.gelu(x @ self.add_variable_input("weight", lambda: MIDDLE, popxl.float32))


class Last(addons.Module):
    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        weight = self.add_variable_input("weight", lambda: TIED, popxl.float32)
        return x @ weight.transpose()


@dataclass
class Training:
    ir: popxl.Ir
    x: popxl.HostToDeviceStream
    labels: popxl.HostToDeviceStream
    steps: int
    transfers: bool

    def run(self) -> dict[str, np.ndarray]:
        lead = (self.steps,) if self.transfers else ()
        with popxl.Session(self.ir) as session:
            for data, labels in zip(DATA, LABELS, strict=True):
                session.run(
                    {
                        self.x: data[: self.steps].reshape(*lead, -1, SIZE),
                        self.labels: labels[: self.steps].reshape(*lead, -1),
                    }
                )
            return session.get_variables(["tied", "middle"])


def descend(weight: popxl.Tensor, gradient: popxl.Tensor) -> None:
    ops.var_updates.accumulate_(weight, gradient, -LR)


def plain_training(steps: int, factor: float) -> Training:
    """All samples of an update at once; the gradient times a factor."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x_in = popxl.h2d_stream((steps * BATCH, SIZE), popxl.float32, "x")
        labels_in = popxl.h2d_stream((steps * BATCH,), popxl.int32, "labels")
        weights = [popxl.variable(TIED, name="tied"), popxl.variable(MIDDLE, name="middle")]

        def forward(x: popxl.Tensor, tied: popxl.Tensor, middle: popxl.Tensor) -> popxl.Tensor:
            return ops.gelu(ops.gelu(x @ tied) @ middle) @ tied.transpose()

        graph = ir.create_graph(forward, ops.host_load(x_in), *weights)
        call = ops.call_with_info(graph, ops.host_load(x_in), *weights)
        _, dy = addons.ops.cross_entropy_with_grad(call.outputs[0], ops.host_load(labels_in))
        info = popxl.transforms.autodiff(graph, grads_required=graph.inputs[1:])
        gradients = ops.call(info.graph, dy, inputs_dict=info.inputs_dict(call))
        for weight, gradient in zip(weights, gradients, strict=True):
            descend(weight, gradient * factor)
    return Training(ir, x_in, labels_in, steps, False)


def pipelined_training(steps: int, reduction: str, shared: bool, last_device: int) -> Training:
    """Stages: first; middle; last, loss and gradient of last; gradient of middle; of first.

    With `shared`, both uses of the tied weight add to one accumulator.
    """
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    devices = [0, 1, last_device]
    with ir.main_graph, popxl.in_sequence():
        x_in = popxl.h2d_stream((BATCH, SIZE), popxl.float32, "x")
        labels_in = popxl.h2d_stream((BATCH,), popxl.int32, "labels")
        tied, middle = popxl.variable(TIED, name="tied"), popxl.variable(MIDDLE, name="middle")
        weights = [tied, middle, tied]
        layers, gradients, accums = [], [], []
        for index, (module, size) in enumerate(((First, SIZE), (Middle, HIDDEN), (Last, HIDDEN))):
            with popxl.ipu(devices[index]):
                _, graph = module().create_graph(popxl.TensorSpec((BATCH, size), popxl.float32))
                named = addons.NamedTensors.from_dict({"weight": weights[index]})
                layers.append(graph.bind(named))
                factories, gradient = addons.autodiff_with_accumulation(
                    graph,
                    graph.args.tensors,
                    grads_required=[graph.graph.inputs[0]] if index else [],
                    reduction=reduction,
                )
                accums.append(
                    accums[0] if shared and index == 2 else factories.init(f"accum{index}")
                )
                gradients.append(gradient)

        def backward(index: int, call: CallSiteInfo, dy: popxl.Tensor) -> tuple[popxl.Tensor, ...]:
            args = pipeline.stash_and_restore_activations(call, gradients[index].grad_graph_info)
            return gradients[index].bind(accums[index]).call(dy, args=args)

        with addons.pipelined_execution(steps) as pipeline:
            calls: list[CallSiteInfo] = []
            x: popxl.Tensor | None = None
            for index in range(3):
                with pipeline.stage(index), popxl.ipu(devices[index]):
                    x = ops.host_load(x_in) if x is None else x.copy_to_ipu(devices[index])
                    calls.append(layers[index].call_with_info(x))
                    x = calls[-1].outputs[0]
            for index in (2, 1, 0):
                with pipeline.stage(4 - index), popxl.ipu(devices[index]):
                    if index == 2:
                        _, x = addons.ops.cross_entropy_with_grad(x, ops.host_load(labels_in))
                    else:
                        x = x.copy_to_ipu(devices[index])
                    results = backward(index, calls[index], x)
                    x = results[0] if index else x
        descend(middle, accums[1].accum.weight)
        descend(tied, accums[0].accum.weight)
        if not shared:
            descend(tied, accums[2].accum.weight)
        for accum in accums[:2] if shared else accums:
            ops.var_updates.accumulator_zero_(accum.mean_accum_counter)
    return Training(ir, x_in, labels_in, steps, True)


def torch_training(steps: int, factor: float) -> dict[str, np.ndarray]:
    tied, middle = (torch.tensor(w, requires_grad=True) for w in (TIED, MIDDLE))
    gelu = torch.nn.functional.gelu
    for data, labels in zip(DATA, LABELS, strict=True):
        x = torch.tensor(data[:steps].reshape(-1, SIZE))
        y = gelu(gelu(x @ tied, approximate="tanh") @ middle, approximate="tanh") @ tied.T
        loss = torch.nn.functional.cross_entropy(y, torch.tensor(labels[:steps]).reshape(-1).long())
        gradients = torch.autograd.grad(factor * loss, [tied, middle])
        with torch.no_grad():
            for weight, gradient in zip((tied, middle), gradients, strict=True):
                weight -= LR * gradient
    return {"tied": tied.detach().numpy(), "middle": middle.detach().numpy()}


@pytest.mark.parametrize("last_device", [0, 2])
@pytest.mark.parametrize(("reduction", "shared"), [("mean", False), ("sum", False), ("sum", True)])
@pytest.mark.parametrize("steps", [STAGES, 9])
def test_it_trains_as_the_plain_program(
    steps: int, reduction: str, shared: bool, last_device: int
) -> None:
    factor = float(steps) if reduction == "sum" else 1.0
    trained = pipelined_training(steps, reduction, shared, last_device).run()
    for wanted in (plain_training(steps, factor).run(), torch_training(steps, factor)):
        for name, value in trained.items():
            np.testing.assert_allclose(value, wanted[name], rtol=1e-3, atol=2e-5)
    assert np.abs(trained["tied"] - TIED).max() > 0.02


def test_another_reduction_is_refused() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        _, graph = First().create_graph(popxl.TensorSpec((BATCH, SIZE), popxl.float32))
        with pytest.raises(ValueError, match="wanted reduction 'mean' or 'sum'; given 'max'"):
            addons.autodiff_with_accumulation(graph, graph.args.tensors, reduction="max")

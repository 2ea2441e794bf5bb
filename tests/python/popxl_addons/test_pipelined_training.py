"""Pipelined, recomputed and accumulated training on two devices against the plain program of the
same training, and against PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

import popxl
import popxl_addons as addons
from popxl import ops
from popxl.ops.call import CallSiteInfo
from popxl_addons.optimizers import AdamOptimizerStep

BATCH, SIZE, STEPS, UPDATES = 3, 5, 6, 8
LR = 0.05
RNG = np.random.default_rng(12)
WEIGHTS = RNG.normal(0, 0.6, (2, SIZE, SIZE)).astype(np.float32)
BIASES = RNG.normal(0, 0.1, (2, SIZE)).astype(np.float32)
DATA = RNG.normal(size=(UPDATES, STEPS, BATCH, SIZE)).astype(np.float32)
# Something to be learned, so that losses fall.
LABELS = DATA.argmax(-1).astype(np.int32)


class Layer(addons.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        weight = self.add_variable_input("weight", lambda: WEIGHTS[self.index], popxl.float32)
        bias = self.add_variable_input("bias", lambda: BIASES[self.index], popxl.float32)
        return ops.gelu(x @ weight + bias)


@dataclass
class Training:
    ir: popxl.Ir
    x: popxl.HostToDeviceStream
    labels: popxl.HostToDeviceStream
    loss: popxl.DeviceToHostStream
    variables: list[addons.NamedTensors]
    pipeline: addons.transforms.Pipelining | None = None

    def run(self) -> tuple[np.ndarray, list[dict[str, np.ndarray]]]:
        """The loss before each update and the variables of each layer in the end."""
        losses = []
        with popxl.Session(self.ir, "cpu") as session:
            lead = (STEPS,) if self.pipeline else ()
            for data, labels in zip(DATA, LABELS, strict=True):
                inputs = {
                    self.x: data.reshape(*lead, -1, SIZE),
                    self.labels: labels.reshape(*lead, -1),
                }
                losses.append(session.run(inputs)[self.loss].mean())
        trained = [
            {name: session.get_tensor_data(t) for name, t in layer.to_dict().items()}
            for layer in self.variables
        ]
        return np.array(losses), trained


def streams(samples: int) -> tuple[popxl.HostToDeviceStream, popxl.HostToDeviceStream]:
    x = popxl.h2d_stream((samples, SIZE), popxl.float32, "x")
    return x, popxl.h2d_stream((samples,), popxl.int32, "labels")


def update(variable: popxl.Tensor, gradient: popxl.Tensor, name: str) -> None:
    factories, step = AdamOptimizerStep().create_graph(
        variable, gradient.spec, lr=LR, weight_decay=0.0, first_order_dtype=popxl.float32
    )
    step.bind(factories.init(name)).call(variable, gradient)


def plain_training() -> Training:
    """All samples of an update at once, on one device, gradients kept as they are."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x_in, labels_in = streams(STEPS * BATCH)
        loss_out = popxl.d2h_stream((), popxl.float32, "loss")
        x = ops.host_load(x_in)
        calls, variables = [], []
        for index in range(2):
            factories, graph = Layer(index).create_graph(x.spec)
            variables.append(factories.init(f"fc{index}"))
            calls.append(graph.bind(variables[index]).call_with_info(x))
            (x,) = calls[index].outputs
        loss, dy = addons.ops.cross_entropy_with_grad(x, ops.host_load(labels_in))
        ops.host_store(loss_out, loss)
        gradients: dict[popxl.Tensor, popxl.Tensor] = {}
        for call in reversed(calls):
            info = popxl.transforms.autodiff(call.called_graph)
            backward = ops.call_with_info(info.graph, dy, inputs_dict=info.inputs_dict(call))
            gradients |= info.fwd_parent_ins_to_grad_parent_outs(call, backward)
            dy = gradients[call.inputs[0]]
        for index, layer in enumerate(variables):
            for name, variable in layer.to_dict().items():
                update(variable, gradients[variable], f"adam{index}.{name}")
    return Training(ir, x_in, labels_in, loss_out, variables)


def pipelined_training() -> Training:
    """Layer k on device k. Stages: layer 0; layer 1, loss and gradient of layer 1; gradient of
    layer 0. Gradients recompute their layer and go into accumulators, which the update empties."""
    ir = popxl.Ir()
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        x_in, labels_in = streams(BATCH)
        loss_out = popxl.d2h_stream((), popxl.float32, "loss")
        layers, gradients, variables, accums = [], [], [], []
        for index in range(2):
            with popxl.ipu(index):
                spec = popxl.TensorSpec((BATCH, SIZE), popxl.float32)
                factories, graph = Layer(index).create_graph(spec)
                variables.append(factories.init(f"fc{index}"))
                layers.append(graph.bind(variables[index]))
                required = [graph.graph.inputs[0]] if index else []
                factories, gradient = addons.autodiff_with_accumulation(
                    graph, graph.args.tensors, grads_required=required
                )
                accums.append(factories.init(f"accum{index}"))
                gradients.append(addons.recompute_graph(gradient))

        def backward(index: int, call: CallSiteInfo, dy: popxl.Tensor) -> tuple[popxl.Tensor, ...]:
            info = gradients[index].grad_graph_info
            args = pipeline.stash_and_restore_activations(call, info)
            return gradients[index].bind(accums[index]).call(dy, args=args)

        with addons.pipelined_execution(STEPS) as pipeline:
            with pipeline.stage(0), popxl.ipu(0):
                first = layers[0].call_with_info(ops.host_load(x_in))
                hidden = first.outputs[0].copy_to_ipu(1)
            with pipeline.stage(1), popxl.ipu(1):
                second = layers[1].call_with_info(hidden)
                loss, dy = addons.ops.cross_entropy_with_grad(
                    second.outputs[0], ops.host_load(labels_in)
                )
                ops.host_store(loss_out, loss)
                (dx,) = backward(1, second, dy)
                dx = dx.copy_to_ipu(0)
            with pipeline.stage(2), popxl.ipu(0):
                backward(0, first, dx)
        for index, layer in enumerate(variables):
            with popxl.ipu(index):
                for name, variable in layer.to_dict().items():
                    accum = accums[index].accum.to_dict()[name]
                    update(variable, accum, f"adam{index}.{name}")
                ops.var_updates.accumulator_zero_(accums[index].mean_accum_counter)
    return Training(ir, x_in, labels_in, loss_out, variables, pipeline)


def torch_training() -> tuple[np.ndarray, list[dict[str, np.ndarray]]]:
    layers = [
        {"weight": torch.tensor(w, requires_grad=True), "bias": torch.tensor(b, requires_grad=True)}
        for w, b in zip(WEIGHTS, BIASES, strict=True)
    ]
    adam = torch.optim.Adam([t for layer in layers for t in layer.values()], lr=LR, eps=1e-5)
    losses = []
    for data, labels in zip(DATA, LABELS, strict=True):
        y = torch.tensor(data.reshape(-1, SIZE))
        for layer in layers:
            y = torch.nn.functional.gelu(y @ layer["weight"] + layer["bias"], approximate="tanh")
        loss = torch.nn.functional.cross_entropy(y, torch.tensor(labels.reshape(-1)).long())
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return np.array(losses), [{n: t.detach().numpy() for n, t in x.items()} for x in layers]


def test_it_trains_as_the_plain_program_and_as_torch() -> None:
    pipelined = pipelined_training()
    assert pipelined.pipeline is not None
    stages = pipelined.pipeline.schedule.stages
    assert [stage.devices for stage in stages] == [[0], [1], [0]]
    # A recomputed gradient has the ops of its layer in it, the gelu among them.
    called = {g.id: g for g in pipelined.ir._pb.graphs}[stages[2].graph].called_graphs
    kinds = {op.kind for graph in called for inner in graph.called_graphs for op in inner.ops}
    assert "Gelu" in kinds
    losses, trained = pipelined.run()
    assert losses[-1] < 0.8 * losses[0]
    for wanted_losses, wanted in (plain_training().run(), torch_training()):
        np.testing.assert_allclose(losses, wanted_losses, rtol=2e-5)
        for layer, wanted_layer in zip(trained, wanted, strict=True):
            assert set(layer) == set(wanted_layer) == {"weight", "bias"}
            for name, value in layer.items():
                np.testing.assert_allclose(value, wanted_layer[name], rtol=1e-3, atol=2e-5)

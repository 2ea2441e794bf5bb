"""A two-layer network in plain popxl: graphs, gradients, updates and two programs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from image_batches import image_batches
from torch_reference import train_two_layers_with_sgd

import popxl
from popxl import ops, transforms
from popxl.ops.call import CallSiteInfo

BATCH_SIZE, HIDDEN, CLASSES, RATE = 8, 32, 10, 0.05


class Linear(popxl.Module):
    def __init__(self) -> None:
        self.W: popxl.Tensor
        self.b: popxl.Tensor

    def build(self, x: popxl.Tensor, out_features: int) -> popxl.Tensor:
        self.W = popxl.graph_input((x.shape[-1], out_features), popxl.float32, "W")
        self.b = popxl.graph_input((out_features,), popxl.float32, "b")
        return ops.gelu(x @ self.W + self.b)


@dataclass
class Layer:
    module: Linear
    info: CallSiteInfo


@dataclass
class Network:
    layers: list[Layer]
    parameters: dict[str, popxl.Tensor]
    output: popxl.Tensor


def network(ir: popxl.Ir, images: popxl.Tensor) -> Network:
    rng = np.random.default_rng(3)
    x = images.reshape((-1, 28 * 28))
    layers, parameters = [], {}
    for index, size in enumerate((HIDDEN, CLASSES)):
        weight = rng.normal(0, 0.02, (x.shape[-1], size)).astype(np.float32)
        bias = rng.normal(0, 0.02, size).astype(np.float32)
        parameters[f"W{index}"] = popxl.variable(weight, name=f"W{index}")
        parameters[f"b{index}"] = popxl.variable(bias, name=f"b{index}")
        module = Linear()
        graph = ir.create_graph(module, x, out_features=size)
        connected = {module.W: parameters[f"W{index}"], module.b: parameters[f"b{index}"]}
        info = ops.call_with_info(graph, x, inputs_dict=connected)
        layers.append(Layer(module, info))
        x = info.outputs[0]
    return Network(layers, parameters, x)


def gradients(net: Network, dy: popxl.Tensor) -> dict[str, popxl.Tensor]:
    """The second layer is differentiated by its call, the first by what is asked for."""
    first, second = net.layers
    info = transforms.autodiff(second.info.called_graph)
    call = ops.call_with_info(info.graph, dy, inputs_dict=info.inputs_dict(second.info))
    by_input = info.fwd_parent_ins_to_grad_parent_outs(second.info, call)
    result = {name: by_input[net.parameters[name]] for name in ("W1", "b1")}
    dx = by_input[first.info.outputs[0]]
    info = transforms.autodiff(
        first.info.called_graph, grads_required=[first.module.W, first.module.b]
    )
    activations = info.inputs_dict(first.info)
    result["W0"], result["b0"] = ops.call(info.graph, dx, inputs_dict=activations)
    return result


@dataclass
class Program:
    session: popxl.Session
    inputs: list[popxl.HostToDeviceStream]
    output: popxl.DeviceToHostStream
    parameters: dict[str, popxl.Tensor]


def training_program(device: str) -> Program:
    ir = popxl.Ir()
    ir.num_host_transfers = 1
    ir.replication_factor = 1
    with ir.main_graph, popxl.in_sequence():
        images_in = popxl.h2d_stream([BATCH_SIZE, 28, 28], popxl.float32, name="images")
        images = ops.host_load(images_in, "x")
        labels_in = popxl.h2d_stream([BATCH_SIZE], popxl.int32, name="labels")
        labels = ops.host_load(labels_in, "labels")
        net = network(ir, images)
        probabilities = ops.softmax(net.output, axis=-1)
        loss, dy = ops.nll_loss_with_softmax_grad(probabilities, labels)
        for name, grad in gradients(net, dy).items():
            ops.scaled_add_(net.parameters[name], grad, b=-RATE)
        loss_out = popxl.d2h_stream(loss.shape, loss.dtype, name="loss")
        ops.host_store(loss_out, loss)
    session = popxl.Session(ir, device)
    return Program(session, [images_in, labels_in], loss_out, net.parameters)


def inference_program(batch_size: int) -> Program:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        images_in = popxl.h2d_stream([batch_size, 28, 28], popxl.float32, name="images")
        net = network(ir, ops.host_load(images_in, "x"))
        scores_out = popxl.d2h_stream(net.output.shape, net.output.dtype, name="scores")
        ops.host_store(scores_out, net.output)
    return Program(popxl.Session(ir, "cpu"), [images_in], scores_out, net.parameters)


@pytest.mark.parametrize("device", ["cpu", "ipu_model", "ipu_hw"])
def test_200_steps_agree_with_pytorch(device: str) -> None:
    program = training_program(device)
    start = {
        name: program.session.get_tensor_data(variable).copy()
        for name, variable in program.parameters.items()
    }
    batches = image_batches(200, BATCH_SIZE, seed=2)
    losses = []
    with program.session as session:
        for batch in batches:
            outputs = session.run(dict(zip(program.inputs, batch, strict=True)))
            losses.append(float(outputs[program.output]))
    wanted, final = train_two_layers_with_sgd(start, batches, RATE)
    assert np.mean(losses[-20:]) < 0.5 * np.mean(losses[:20]), "the network must learn"
    np.testing.assert_allclose(losses, wanted, rtol=1e-4, atol=1e-5)
    for name, variable in program.parameters.items():
        value = program.session.get_tensor_data(variable)
        np.testing.assert_allclose(value, final[name], rtol=1e-3, atol=1e-5)

    inference = inference_program(batch_size=80)
    trained = program.session.get_tensors_data(program.parameters.values())
    by_name = {variable.name: data.copy() for variable, data in trained.items()}
    inference.session.write_variables_data(
        {variable: by_name[name] for name, variable in inference.parameters.items()}
    )
    unseen = image_batches(300, BATCH_SIZE, seed=2)[-10:]
    images, labels = (np.concatenate(part) for part in zip(*unseen, strict=True))
    with inference.session as session:
        outputs = session.run({inference.inputs[0]: images})
    assert np.mean(np.argmax(outputs[inference.output], axis=-1) == labels) > 0.8

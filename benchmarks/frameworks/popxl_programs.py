"""Whole popxl programs: Ir with streams, forward, backward, update. No session, no timing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import popxl
import popxl.ops as ops
import popxl_addons as addons
from benchmarks import data
from benchmarks.cases import Case
from benchmarks.frameworks.popxl_models import (
    Adam,
    Cnn,
    DecoderHead,
    Embedding,
    EncoderLayer,
    Linear,
    Mlp,
    TutorialAdam,
)


@dataclass
class BuiltProgram:
    """``inputs`` in the order image, labels; ``output`` is the loss or the logits."""

    ir: popxl.Ir
    inputs: list[popxl.HostToDeviceStream]
    output: popxl.DeviceToHostStream


ADAMS: dict[str, type[addons.Module]] = {"adam": Adam, "tutorial_adam": TutorialAdam}

Grads = dict[popxl.Tensor, popxl.Tensor]


def _update(
    optimizer: str, variables: addons.NamedTensors, grads: Grads, adam: addons.Module
) -> None:
    for _, variable in variables.named_tensors.items():
        if optimizer in ADAMS:
            facts, graph = adam.create_graph(variable, variable.spec, lr=data.LEARNING_RATE)
            graph.bind(facts.init()).call(variable, grads[variable])
        else:
            ops.scaled_add_(variable, grads[variable], b=-data.LEARNING_RATE)


def _adam(case: Case) -> addons.Module:
    return ADAMS.get(case.optimizer, Adam)(cache=True)


def weight_name(case: Case, name: str) -> str:
    """The variable that holds what ``data.weights`` calls ``name``."""
    if case.family == "decoder" and name in ("tokens", "positions"):
        return f"embedding.{name}"
    if case.family == "decoder":
        name = name.replace("head.", "output.") if name.startswith("head.") else name
        return f"head.{name}" if name.split(".")[0] in ("norm", "output") else name
    return name


def _inputs(case: Case) -> tuple[list[popxl.HostToDeviceStream], popxl.Tensor, popxl.Tensor]:
    dtype = popxl.int32 if case.family == "decoder" else popxl.float32
    image = popxl.h2d_stream(data.input_shape(case), dtype, "image")
    label = popxl.h2d_stream(data.label_shape(case), popxl.int32, "labels")
    return [image, label], ops.host_load(image), ops.host_load(label, "labels")


def _store(t: popxl.Tensor, name: str) -> popxl.DeviceToHostStream:
    stream = popxl.d2h_stream(t.shape, t.dtype, name)
    ops.host_store(stream, t)
    return stream


def _net(case: Case) -> addons.Module:
    return Mlp() if case.family == "mlp" else Cnn()


def network_training(case: Case) -> BuiltProgram:
    """The tutorial's program: one forward graph, its gradient graph, one update per variable."""
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        streams, x, labels = _inputs(case)
        facts, forward = _net(case).create_graph(x)
        backward = addons.autodiff(forward)
        variables = facts.init()
        info = forward.bind(variables).call_with_info(x)
        loss, dx = addons.ops.cross_entropy_with_grad(info.outputs[0], labels)
        output = _store(loss, "loss")
        activations = backward.grad_graph_info.inputs_dict(info)
        grad_info = backward.call_with_info(dx, args=activations)
        grads = backward.grad_graph_info.fwd_parent_ins_to_grad_parent_outs(info, grad_info)
        _update(case.optimizer, variables, grads, _adam(case))
    ir.num_host_transfers = 1
    return BuiltProgram(ir, streams, output)


def network_inference(case: Case) -> BuiltProgram:
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        stream = popxl.h2d_stream(data.input_shape(case), popxl.float32, "image")
        x = ops.host_load(stream)
        facts, graph = _net(case).create_graph(x)
        (logits,) = graph.bind(facts.init()).call(x)
        output = _store(logits, "outputs")
    ir.num_host_transfers = 1
    return BuiltProgram(ir, [stream], output)


def transformer_training(case: Case, recompute: bool = False) -> BuiltProgram:
    """One layer graph and one gradient graph, called once per layer. SGD without ``adam``.

    ``recompute``: of a layer only its input is kept; its gradient graph runs it again.
    """
    ir = popxl.Ir(replication=1)
    adam = _adam(case)
    of = data.sizes(case)
    with ir.main_graph:
        streams, x, labels = _inputs(case)
        calls = []
        if case.family == "decoder":
            facts, embedding = Embedding(of).create_graph(x)
            embedding_grad = addons.autodiff(embedding, grads_required=embedding.args.tensors)
            variables = facts.init("embedding")
            info = embedding.bind(variables).call_with_info(x)
            calls.append((embedding_grad, variables, info))
            x = info.outputs[0]
        x = x.reshape((-1, of.hidden))
        facts, layer = EncoderLayer(of).create_graph(x)
        layer_grad = addons.autodiff(layer)
        if recompute:
            layer_grad = addons.recompute_graph(layer_grad)
        net = DecoderHead(of) if case.family == "decoder" else Linear(of.classes)
        head_facts, head = net.create_graph(x)
        head_grad = addons.autodiff(head)

        for i in range(case.layers):
            variables = facts.init(f"layer{i}")
            info = layer.bind(variables).call_with_info(x)
            calls.append((layer_grad, variables, info))
            x = info.outputs[0]
        variables = head_facts.init("head")
        info = head.bind(variables).call_with_info(x)
        calls.append((head_grad, variables, info))
        loss, dx = addons.ops.cross_entropy_with_grad(info.outputs[0], labels)
        output = _store(loss, "loss")

        for grad_graph, variables, info in reversed(calls):
            grad_graph_info = grad_graph.grad_graph_info
            grad_call = grad_graph.call_with_info(dx, args=grad_graph_info.inputs_dict(info))
            grads = grad_graph_info.fwd_parent_ins_to_grad_parent_outs(info, grad_call)
            dx = grad_call.outputs[0]
            _update(case.optimizer, variables, grads, adam)
    ir.num_host_transfers = 1
    return BuiltProgram(ir, streams, output)


def pass_over_memory(case: Case) -> tuple[popxl.Ir, popxl.tensor.Variable]:
    """Reads one variable and writes another, which is returned with the Ir."""
    ir = popxl.Ir(replication=1)
    vectors = data.row_vectors()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(data.plane(case), popxl.float32, "x")
        y = popxl.variable(np.zeros(x.shape), popxl.float32, "y")
        a, b, c = (popxl.variable(v, popxl.float32) for v in (vectors.a, vectors.b, vectors.c))
        if case.family == "light":
            result = ops.relu(x * a + b) * c + x * 0.5 - 1.0
        elif case.family == "gelu":
            result = ops.gelu(x * a + b) * c + x
        else:
            result = ops.layer_norm(ops.softmax(x, axis=-1), a, b, eps=1e-5)
        ops.var_updates.copy_var_update_(y, result)
    return ir, y


def near_empty() -> BuiltProgram:
    """Loads one float, adds one, stores it."""
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        stream = popxl.h2d_stream((1,), popxl.float32, "x")
        output = _store(ops.host_load(stream) + 1.0, "y")
    ir.num_host_transfers = 1
    return BuiltProgram(ir, [stream], output)


def training(case: Case) -> BuiltProgram:
    is_deep = case.family in ("transformer", "decoder")
    return transformer_training(case) if is_deep else network_training(case)

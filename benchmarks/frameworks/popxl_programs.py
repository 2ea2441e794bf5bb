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
    Momentum,
    TutorialAdam,
)
from benchmarks.models import families


@dataclass
class BuiltProgram:
    """``inputs`` in the order image, labels; ``output`` is the loss or the logits."""

    ir: popxl.Ir
    inputs: list[popxl.HostToDeviceStream]
    output: popxl.DeviceToHostStream


@dataclass(frozen=True)
class Optimizer:
    """A module that updates one variable, and its settings."""

    module: type[addons.Module]
    settings: dict[str, float]


OPTIMIZERS = {
    "adam": Optimizer(Adam, {}),
    "adamw": Optimizer(Adam, {"weight_decay": data.WEIGHT_DECAY}),
    "tutorial_adam": Optimizer(TutorialAdam, {}),
    "momentum": Optimizer(Momentum, {}),
}

Grads = dict[popxl.Tensor, popxl.Tensor]


class Updates:
    """Updates variables by the optimizer of a case, one graph per kind of variable."""

    def __init__(self, case: Case) -> None:
        self._optimizer = OPTIMIZERS.get(case.optimizer)
        self._module = self._optimizer.module(cache=True) if self._optimizer else None

    def add(self, variables: addons.NamedTensors, grads: Grads) -> None:
        for _, variable in variables.named_tensors.items():
            if self._optimizer is None or self._module is None:
                ops.scaled_add_(variable, grads[variable], b=-data.LEARNING_RATE)
                continue
            settings = {"lr": data.LEARNING_RATE, **self._optimizer.settings}
            facts, graph = self._module.create_graph(variable, variable.spec, **settings)
            graph.bind(facts.init()).call(variable, grads[variable])


def weight_name(case: Case, name: str) -> str:
    """The variable that holds what ``data.weights`` calls ``name``."""
    if case.family == "decoder" and name in ("tokens", "positions"):
        return f"embedding.{name}"
    if case.family == "decoder":
        name = name.replace("head.", "output.") if name.startswith("head.") else name
        return f"head.{name}" if name.split(".")[0] in ("norm", "output") else name
    return name


def init(
    facts: addons.NamedVariableFactories, weights: dict[str, data.Array]
) -> addons.NamedTensors:
    """Makes the variables of a network. Those of ``weights`` have these values, and are taken out,
    so that no value is in memory twice for long."""
    factories = facts.to_dict()
    named = {
        name: popxl.variable(weights.pop(name).reshape(factory.shape), factory.dtype, name)
        for name, factory in factories.items()
        if name in weights
    }
    others = {name: factory for name, factory in factories.items() if name not in named}
    rest = addons.NamedVariableFactories.from_dict(others).init()
    return addons.NamedTensors.from_dict(named | rest.to_dict())


def load(case: Case, labels: bool) -> tuple[list[popxl.HostToDeviceStream], list[popxl.Tensor]]:
    """Streams and what they bring for one step: what the network reads, then the labels."""
    batch = data.example(case)
    arrays = {f"input{i}": array for i, array in enumerate(batch.inputs)}
    if labels:
        arrays["labels"] = batch.labels
    streams = [
        popxl.h2d_stream(array.shape, popxl.dtype.as_dtype(array), name)
        for name, array in arrays.items()
    ]
    return streams, [ops.host_load(s, name) for s, name in zip(streams, arrays, strict=True)]


def store(t: popxl.Tensor, name: str) -> popxl.DeviceToHostStream:
    stream = popxl.d2h_stream(t.shape, t.dtype, name)
    ops.host_store(stream, t)
    return stream


def _binary_with_grad(
    logits: popxl.Tensor, labels: popxl.Tensor
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """The mean of max(z, 0) - z y + log(1 + exp(-|z|)), and its gradient."""
    rest = ops.log(ops.exp(-ops.abs(logits)) + 1.0)
    loss = ops.mean(ops.relu(logits) - logits * labels + rest)
    probabilities = 1.0 / (ops.exp(-logits) + 1.0)
    return loss, (probabilities - labels) * (1 / labels.nelms)


def loss_with_grad(
    case: Case, outputs: popxl.Tensor, labels: popxl.Tensor
) -> tuple[popxl.Tensor, popxl.Tensor]:
    if data.loss_kind(case) == "binary":
        return _binary_with_grad(outputs, labels)
    return addons.ops.cross_entropy_with_grad(outputs, labels)


def _net(case: Case) -> addons.Module:
    if case.variant:
        module = families.on("popxl", case)
        make = getattr(module, "TrainingNet", module.Net) if case.training else module.Net
        net: addons.Module = make(families.model(case))
        return net
    return Mlp() if case.family == "mlp" else Cnn()


def network_training(case: Case) -> BuiltProgram:
    """The tutorial's program: one forward graph, its gradient graph, one update per variable."""
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        streams, (*given, labels) = load(case, labels=True)
        facts, forward = _net(case).create_graph(*given)
        # Behind the outputs there may be statistics, which `after_step` takes.
        outputs, *statistics = forward.graph.outputs
        backward = addons.autodiff(
            forward, grads_provided=[outputs], grads_required=forward.args.tensors
        )
        weights = data.weights(case)
        variables = init(facts, weights)
        info = forward.bind(variables).call_with_info(*given)
        loss, gradient = loss_with_grad(case, info.outputs[0], labels)
        output = store(loss, "loss")
        activations = backward.grad_graph_info.inputs_dict(info)
        grad_info = backward.call_with_info(gradient, args=activations)
        grads = backward.grad_graph_info.fwd_parent_ins_to_grad_parent_outs(info, grad_info)
        Updates(case).add(variables, grads)
        if statistics:
            found = info.outputs[1 : len(statistics) + 1]
            families.on("popxl", case).after_step(families.model(case), found, weights)
    ir.num_host_transfers = 1
    return BuiltProgram(ir, streams, output)


def network_inference(case: Case) -> BuiltProgram:
    ir = popxl.Ir(replication=1)
    with ir.main_graph:
        streams, given = load(case, labels=False)
        facts, graph = _net(case).create_graph(*given)
        (outputs,) = graph.bind(init(facts, data.weights(case))).call(*given)
        output = store(outputs, "outputs")
    ir.num_host_transfers = 1
    return BuiltProgram(ir, streams, output)


def transformer_training(case: Case, recompute: bool = False) -> BuiltProgram:
    """One layer graph and one gradient graph, called once per layer. SGD without ``adam``.

    ``recompute``: of a layer only its input is kept; its gradient graph runs it again.
    """
    ir = popxl.Ir(replication=1)
    updates = Updates(case)
    of = data.sizes(case)
    with ir.main_graph:
        streams, (x, labels) = load(case, labels=True)
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
        output = store(loss, "loss")

        for grad_graph, variables, info in reversed(calls):
            grad_graph_info = grad_graph.grad_graph_info
            grad_call = grad_graph.call_with_info(dx, args=grad_graph_info.inputs_dict(info))
            grads = grad_graph_info.fwd_parent_ins_to_grad_parent_outs(info, grad_call)
            dx = grad_call.outputs[0]
            updates.add(variables, grads)
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
        output = store(ops.host_load(stream) + 1.0, "y")
    ir.num_host_transfers = 1
    return BuiltProgram(ir, [stream], output)


def training(case: Case) -> BuiltProgram:
    if case.variant and hasattr(families.on("popxl", case), "training"):
        built: BuiltProgram = families.on("popxl", case).training(case)
        return built
    is_deep = case.family in ("transformer", "decoder")
    return transformer_training(case) if is_deep else network_training(case)

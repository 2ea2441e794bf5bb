"""Gradient graphs that run the forward graph again instead of keeping its activations."""

from __future__ import annotations

from typing import Any

import popxl
from popxl import ops
from popxl.transforms.autodiff import ExpectedConnectionType, GradGraphInfo
from popxl_addons.grad_graph_info import make_grad_graph_info
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import suffix_graph_name

Connections = list[tuple[popxl.Tensor, bool]]
TensorMap = dict[popxl.Tensor, popxl.Tensor]


def _input_like(tensor: popxl.Tensor, by_ref: bool = False) -> popxl.Tensor:
    return popxl.graph_input(**tensor.spec, name=tensor.name, by_ref=by_ref)


def add_recompute_inputs(grad_info: GradGraphInfo) -> tuple[TensorMap, TensorMap, Connections]:
    """Adds to the current graph the inputs that recomputation needs.

    Returns forward graph input -> new input, gradient graph input -> new input, and for each new
    input that stands for a forward tensor that tensor and whether it is taken itself (True) or
    its gradient (False).
    """
    forward_graph, gradient_graph = grad_info.forward_graph, grad_info.graph
    forward_inputs: TensorMap = {}
    gradient_inputs: TensorMap = {}
    expected: Connections = []
    described = gradient_graph.inputs[: len(grad_info.expected_inputs)]
    for graph_input, connection in zip(described, grad_info.expected_inputs, strict=True):
        tensor = connection.fwd_tensor
        is_gradient = connection.connection_type == ExpectedConnectionType.FwdGrad
        if is_gradient or tensor in forward_graph.inputs:
            new = _input_like(graph_input if is_gradient else tensor)
            gradient_inputs[graph_input] = new
            expected.append((tensor, not is_gradient))
            if not is_gradient:
                forward_inputs[tensor] = new
    remaining = [t for t in forward_graph.inputs if t not in forward_inputs]
    for tensor in sorted(remaining, key=lambda t: t.name):
        forward_inputs[tensor] = _input_like(tensor)
        expected.append((tensor, True))
    extra = gradient_graph.inputs[len(described) :]
    for tensor in sorted(extra, key=lambda t: t.name):
        gradient_inputs[tensor] = _input_like(tensor, tensor in gradient_graph._by_ref_inputs)
    return forward_inputs, gradient_inputs, expected


def recompute_graph(grad_graph: GraphWithNamedArgs) -> GraphWithNamedArgs:
    """A gradient graph with the same results that needs forward *inputs* only.

    It calls the forward graph and then `grad_graph` with the fresh activations.
    """
    info = grad_graph.grad_graph_info
    base = suffix_graph_name(grad_graph.graph.name, "recomp")
    graph = grad_graph.graph.ir.create_empty_graph(base)
    with graph, popxl.in_sequence():
        forward_inputs, gradient_inputs, expected = add_recompute_inputs(info)
        forward_call = ops.call_with_info(info.forward_graph, inputs_dict=forward_inputs)
        activations: dict[popxl.Tensor, Any] = dict(info.inputs_dict(forward_call))
        results = ops.call(info.graph, inputs_dict={**activations, **gradient_inputs})
        for result in results:
            popxl.graph_output(result)
    outputs = [connection.fwd_tensor for connection in info.expected_outputs]
    args = NamedTensors.from_dict(
        {key: gradient_inputs[t] for key, t in grad_graph.args.to_dict().items()}
    )
    new_info = make_grad_graph_info(info.forward_graph, graph, expected, outputs)
    return GraphWithNamedArgs.from_grad_graph(new_info, args)

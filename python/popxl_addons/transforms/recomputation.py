"""Gradient graphs that run the forward graph again instead of keeping its activations."""

from __future__ import annotations

from typing import Any

import popxl
from pando import _core
from popxl.context import get_current_context
from popxl.transforms.autodiff import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
)
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import suffix_graph_name

__all__ = ["add_recompute_inputs", "recompute_graph"]

TensorMap = dict[popxl.Tensor, popxl.Tensor]


def _tensor_map(pairs: Any) -> TensorMap:
    return {popxl.Tensor._from_pb(old): popxl.Tensor._from_pb(new) for old, new in pairs}


def add_recompute_inputs(
    grad_info: GradGraphInfo,
) -> tuple[TensorMap, TensorMap, list[ExpectedConnection]]:
    """Adds to the current graph the inputs that recomputation needs.

    Args:
        grad_info: The contract of the gradient graph.

    Returns:
        Forward graph input -> new input, gradient graph input -> new input, and what the new inputs
        stand for.
    """
    core = _core.add_recompute_inputs(popxl.gcg()._pb, grad_info._pb)
    expected = [
        ExpectedConnection._make(
            popxl.Tensor._from_pb(item.forward_tensor),
            ExpectedConnectionType[item.type.name],
        )
        for item in core.expected
    ]
    return _tensor_map(core.forward), _tensor_map(core.gradient), expected


def recompute_graph(grad_graph: GraphWithNamedArgs) -> GraphWithNamedArgs:
    """Makes a gradient graph that runs the forward graph again instead of taking its activations.

    It takes the inputs of the forward graph in place of the activations, calls it and then
    `grad_graph`.

    Args:
        grad_graph: A gradient graph.

    Returns:
        The new gradient graph, with the named arguments of `grad_graph`.

    Raises:
        ValueError: The forward graph changes inputs by reference: it runs twice.
    """
    core = _core.recompute(
        grad_graph.grad_graph_info._pb,
        suffix_graph_name(grad_graph.graph.name, "recomp"),
        get_current_context().op_context("recompute"),
    )
    inputs = _tensor_map(core.inputs.gradient)
    args = NamedTensors.from_dict(
        {key: inputs[tensor] for key, tensor in grad_graph.args.to_dict().items()}
    )
    return GraphWithNamedArgs.from_grad_graph(GradGraphInfo._from_core(core.info), args)

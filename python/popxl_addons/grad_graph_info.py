"""Making the contracts of gradient graphs that do not come straight from autodiff."""

from __future__ import annotations

from collections.abc import Sequence

import popxl
from popart._internal import ir as _ir
from popxl.transforms.autodiff import ExpectedConnectionType, GradGraphInfo, autodiff
from popxl_addons.graph_common import CalledGraphsGradInfo, GraphLike, plain_graph


def differentiate(
    graph: popxl.Graph,
    grads_provided: Sequence[popxl.Tensor] | None,
    grads_required: Sequence[popxl.Tensor] | None,
    called_graphs_grad_info: CalledGraphsGradInfo,
) -> GradGraphInfo:
    """Makes the gradient graph of a graph, and those of the graphs that it calls.

    Args:
        graph: The forward graph.
        grads_provided: Its outputs whose gradients are given; None means all.
        grads_required: Its inputs whose gradients are wanted; None means all.
        called_graphs_grad_info: Gradients of called graphs that exist.

    Returns:
        The contract of the gradient graph.
    """
    infos = autodiff(
        graph,
        grads_provided,
        grads_required,
        called_graphs_grad_info=called_graphs_grad_info,
        return_all_grad_graphs=True,
    )
    for forward, info in infos.items():
        if forward not in called_graphs_grad_info:
            _simplify(info.graph)
    return infos[graph]


def _simplify(graph: popxl.Graph) -> None:
    ir = graph.ir._pb_ir
    ir.applyPreAliasPatterns(graph._pb_graph)
    ir.applyInplacePattern(graph._pb_graph)


def make_grad_graph_info(
    forward_graph: popxl.Graph,
    gradient_graph: popxl.Graph,
    inputs: Sequence[tuple[popxl.Tensor, bool]],
    outputs: Sequence[popxl.Tensor],
) -> GradGraphInfo:
    """The contract of a gradient graph that does not come straight from autodiff.

    Args:
        forward_graph: The forward graph.
        gradient_graph: The gradient graph.
        inputs: For each gradient graph input its forward tensor, and whether it takes that tensor
            itself (True) or its gradient (False).
        outputs: For each gradient graph output the forward tensor whose gradient it is.

    Returns:
        The contract.
    """
    kinds = _ir.ExpectedConnectionType
    expected_inputs = [
        _ir.ExpectedConnection(tensor.id, kinds.Fwd if itself else kinds.FwdGrad)
        for tensor, itself in inputs
    ]
    expected_outputs = [_ir.ExpectedConnection(tensor.id, kinds.FwdGrad) for tensor in outputs]
    graph_id = gradient_graph._pb_graph.id
    info = _ir.BwdGraphInfo(graph_id, expected_inputs, expected_outputs)
    return GradGraphInfo._from_pb(forward_graph.ir._pb_ir, forward_graph._pb_graph, info)


def remap_grad_info(
    grad_info: GradGraphInfo, forward_graph: GraphLike, backward_graph: GraphLike
) -> GradGraphInfo:
    """The contract of one pair of graphs for another pair with the same inputs and outputs.

    Args:
        grad_info: The contract to take over, by index of inputs and outputs.
        forward_graph: The other forward graph.
        backward_graph: The other gradient graph.

    Returns:
        The contract of the other pair.

    Raises:
        ValueError: A forward tensor is neither an input nor an output of its graph.
    """
    old, new = grad_info.forward_graph, plain_graph(forward_graph)
    mapping = dict(zip(old.outputs, new.outputs, strict=False))
    mapping.update(zip(old.inputs, new.inputs, strict=False))

    def moved(tensor: popxl.Tensor) -> popxl.Tensor:
        if tensor not in mapping:
            raise ValueError(
                f"{tensor} has no counterpart in {new.name}: it is no input or output of "
                f"{old.name} there."
            )
        return mapping[tensor]

    inputs = [
        (moved(c.fwd_tensor), c.connection_type == ExpectedConnectionType.Fwd)
        for c in grad_info.expected_inputs
    ]
    outputs = [moved(c.fwd_tensor) for c in grad_info.expected_outputs]
    return make_grad_graph_info(new, plain_graph(backward_graph), inputs, outputs)

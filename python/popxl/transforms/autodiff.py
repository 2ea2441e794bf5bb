"""Gradient graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pando import _core
from popart._internal import ir as _ir
from popart._internal.ir import ExpectedConnectionType
from popxl.graph import Graph
from popxl.tensor_base import Tensor

if TYPE_CHECKING:
    from popxl.ops.call import CallSiteInfo

__all__ = ["ExpectedConnection", "ExpectedConnectionType", "GradGraphInfo", "autodiff"]

_CORE_TYPES = {
    ExpectedConnectionType.Fwd: _core.ConnectionType.Fwd,
    ExpectedConnectionType.FwdGrad: _core.ConnectionType.FwdGrad,
}


class ExpectedConnection:
    """The forward tensor that an input or output of a gradient graph stands for."""

    _tensor: Tensor
    _type: ExpectedConnectionType

    def __init__(self) -> None:
        raise TypeError("expected connections come from popxl.transforms.autodiff")

    @classmethod
    def _make(cls, tensor: Tensor, kind: ExpectedConnectionType) -> ExpectedConnection:
        self = cls.__new__(cls)
        self._tensor = tensor
        self._type = kind
        return self

    @classmethod
    def _from_pb(cls, fwd_pb_graph: _ir.Graph, pb_ec: _ir.ExpectedConnection) -> ExpectedConnection:
        tensor = Tensor._from_pb(fwd_pb_graph.getTensor(pb_ec.fwdId))
        return cls._make(tensor, pb_ec.type)

    @property
    def _pb_ec(self) -> _ir.ExpectedConnection:
        return _ir.ExpectedConnection(self._tensor.id, self._type)

    @property
    def _pb(self) -> _core.ExpectedConnection:
        return _core.ExpectedConnection(self._tensor._pb, _CORE_TYPES[self._type])

    @property
    def fwd_tensor(self) -> Tensor:
        """The tensor of the forward graph."""
        return self._tensor

    @property
    def connection_type(self) -> ExpectedConnectionType:
        """What is meant: `Fwd`, the tensor itself, or `FwdGrad`, its gradient."""
        return self._type

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ExpectedConnection)
            and self._tensor == other._tensor
            and self._type == other._type
        )

    def __hash__(self) -> int:
        return hash((self._tensor, self._type))

    def __repr__(self) -> str:
        return f"({self._type}, {self._tensor!r})"


class GradGraphInfo:
    """A gradient graph and what its inputs and outputs stand for; `autodiff` makes it."""

    _forward: Graph
    _graph: Graph
    _expected_inputs: tuple[ExpectedConnection, ...]
    _expected_outputs: tuple[ExpectedConnection, ...]

    def __init__(self) -> None:
        raise TypeError("gradient graph infos come from popxl.transforms.autodiff")

    @classmethod
    def _make(
        cls,
        forward: Graph,
        graph: Graph,
        expected_inputs: Iterable[ExpectedConnection],
        expected_outputs: Iterable[ExpectedConnection],
    ) -> GradGraphInfo:
        self = cls.__new__(cls)
        self._forward = forward
        self._graph = graph
        self._expected_inputs = tuple(expected_inputs)
        self._expected_outputs = tuple(expected_outputs)
        return self

    @classmethod
    def _from_pb(
        cls, pb_ir: _ir.Ir, fwd_pb_graph: _ir.Graph, bwd_info: _ir.BwdGraphInfo
    ) -> GradGraphInfo:
        def connections(items: Iterable[_ir.ExpectedConnection]) -> list[ExpectedConnection]:
            return [ExpectedConnection._from_pb(fwd_pb_graph, item) for item in items]

        return cls._make(
            Graph._from_pb(fwd_pb_graph),
            Graph._from_pb(pb_ir.getGraph(str(bwd_info.bwdGraphId))),
            connections(bwd_info.expectedInputs),
            connections(bwd_info.expectedOutputs),
        )

    @classmethod
    def _from_core(cls, info: _core.GradGraphInfo) -> GradGraphInfo:
        def connections(items: Iterable[_core.ExpectedConnection]) -> list[ExpectedConnection]:
            return [
                ExpectedConnection._make(
                    Tensor._from_pb(item.forward_tensor), ExpectedConnectionType[item.type.name]
                )
                for item in items
            ]

        return cls._make(
            Graph._from_pb(info.forward_graph),
            Graph._from_pb(info.gradient_graph),
            connections(info.expected_inputs),
            connections(info.expected_outputs),
        )

    @property
    def _pb_bwd_info(self) -> _ir.BwdGraphInfo:
        return _ir.BwdGraphInfo(
            _ir.GraphId(self._graph.id),
            [connection._pb_ec for connection in self._expected_inputs],
            [connection._pb_ec for connection in self._expected_outputs],
        )

    @property
    def _pb(self) -> _core.GradGraphInfo:
        return _core.GradGraphInfo(
            self._forward._pb,
            self._graph._pb,
            [connection._pb for connection in self._expected_inputs],
            [connection._pb for connection in self._expected_outputs],
        )

    @property
    def graph(self) -> Graph:
        """The gradient graph."""
        return self._graph

    @property
    def forward_graph(self) -> Graph:
        """The forward graph."""
        return self._forward

    @property
    def expected_inputs(self) -> tuple[ExpectedConnection, ...]:
        """What each input of the gradient graph stands for."""
        return self._expected_inputs

    @property
    def expected_outputs(self) -> tuple[ExpectedConnection, ...]:
        """What each output of the gradient graph stands for."""
        return self._expected_outputs

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The forward tensors behind the inputs."""
        return tuple(connection.fwd_tensor for connection in self._expected_inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The forward tensors behind the outputs."""
        return tuple(connection.fwd_tensor for connection in self._expected_outputs)

    def _check_call(self, call_info: CallSiteInfo) -> None:
        if call_info.called_graph != self._forward:
            raise TypeError(
                f"wanted a call of the forward graph {self._forward!r}; given one of "
                f"{call_info.called_graph!r}"
            )

    def inputs_dict(self, fwd_call_info: CallSiteInfo) -> dict[Tensor, Tensor]:
        """Find the forward tensors for a call of the gradient graph.

        These are all its inputs but the gradients that are given.

        Args:
            fwd_call_info: A call of the forward graph.

        Returns:
            Tensors of the calling graph by input of the gradient graph, as `ops.call` takes them.

        Raises:
            TypeError: It is a call of another graph.
        """
        self._check_call(fwd_call_info)
        return {
            graph_input: fwd_call_info.graph_to_parent(connection.fwd_tensor)
            for graph_input, connection in zip(
                self._graph.inputs, self._expected_inputs, strict=False
            )
            if connection.connection_type is ExpectedConnectionType.Fwd
        }

    def fwd_graph_ins_to_grad_parent_outs(
        self, grad_call_info: CallSiteInfo
    ) -> dict[Tensor, Tensor]:
        """Find the gradients at a call of the gradient graph.

        Args:
            grad_call_info: The call.

        Returns:
            The gradients by tensor of the forward graph.
        """
        return {
            connection.fwd_tensor: grad_call_info.parent_output(index)
            for index, connection in enumerate(self._expected_outputs)
        }

    def fwd_parent_ins_to_grad_parent_outs(
        self, fwd_call_info: CallSiteInfo, grad_call_info: CallSiteInfo
    ) -> dict[Tensor, Tensor]:
        """Find the gradients of the tensors that were given to a call of the forward graph.

        Args:
            fwd_call_info: The call of the forward graph.
            grad_call_info: The call of the gradient graph.

        Returns:
            The gradients by tensor of the calling graph; of a tensor that was given twice, the last
            one.

        Raises:
            TypeError: `fwd_call_info` is a call of another graph.
        """
        self._check_call(fwd_call_info)
        gradients = self.fwd_graph_ins_to_grad_parent_outs(grad_call_info)
        return {fwd_call_info.graph_to_parent(t): gradient for t, gradient in gradients.items()}

    def __repr__(self) -> str:
        def lines(connections: Iterable[ExpectedConnection]) -> str:
            return "".join(f"    {connection!r}\n" for connection in connections)

        return (
            f"GradGraphInfo[\n  graph={self._graph.id}\n  expected_inputs=[\n"
            f"{lines(self._expected_inputs)}  ]\n  expected_outputs=[\n"
            f"{lines(self._expected_outputs)}  ]\n]"
        )


def autodiff(
    graph: Graph,
    grads_provided: Iterable[Tensor] | None = None,
    grads_required: Iterable[Tensor] | None = None,
    called_graphs_grad_info: Mapping[Graph, GradGraphInfo] | None = None,
    return_all_grad_graphs: bool = False,
) -> Any:
    """Make the gradient graph of a graph.

    Its inputs are the gradients of `grads_provided` and then the forward tensors that it needs, its
    outputs the gradients of `grads_required`. Forward tensors that it needs and that are not inputs
    become outputs of `graph`, also at calls that exist.

    Args:
        graph: The forward graph. Its ops must not write tensors in place.
        grads_provided: Tensors of `graph` whose gradients will be given; None: the outputs.
        grads_required: Tensors whose gradients are wanted; None: the inputs, also those of
            integers, which have none.
        called_graphs_grad_info: Gradient graphs of called graphs that are not to be made again.
        return_all_grad_graphs: Whether the gradient graphs of called graphs are returned too.

    Returns:
        The gradient graph with what it stands for, or all of them by forward graph.

    Raises:
        popart_exception: An op writes a tensor, a gradient that is wanted cannot be made, a tensor
            is not in the graph, or a called graph must not be differentiated.
    """
    provided = graph.outputs if grads_provided is None else tuple(grads_provided)
    required = graph.inputs if grads_required is None else tuple(grads_required)
    known = called_graphs_grad_info or {}
    infos = _differentiated(graph, provided, required, known, leaves_out_unreached=False)
    if not return_all_grad_graphs:
        own = next(info for info in infos if info.forward_graph is graph._pb)
        return GradGraphInfo._from_core(own)
    result = {info.forward_graph: info for info in map(GradGraphInfo._from_core, infos)}
    return {**known, **result}


def grad_graph_info(
    forward: Graph,
    graph: Graph,
    inputs: Iterable[tuple[Tensor, ExpectedConnectionType]],
    outputs: Iterable[Tensor],
) -> GradGraphInfo:
    """Describe a gradient graph that `autodiff` did not make, for `called_graphs_grad_info`.

    Args:
        forward: The forward graph.
        graph: The gradient graph.
        inputs: What each of its inputs stands for: an input or output of the forward graph, or the
            gradient of an output.
        outputs: The inputs of the forward graph whose gradients its outputs are.

    Returns:
        The description.
    """
    return GradGraphInfo._make(
        forward,
        graph,
        [ExpectedConnection._make(tensor, kind) for tensor, kind in inputs],
        [ExpectedConnection._make(tensor, ExpectedConnectionType.FwdGrad) for tensor in outputs],
    )


def autodiff_of_reached(
    graph: Graph,
    grads_provided: Iterable[Tensor],
    grads_required: Iterable[Tensor],
    called_graphs_grad_info: Mapping[Graph, GradGraphInfo],
) -> GradGraphInfo:
    """Make the gradient graph of a graph as `autodiff` does, without the gradients that are zero.

    Args:
        graph: The forward graph. Its ops must not write tensors in place.
        grads_provided: Tensors of `graph` whose gradients will be given.
        grads_required: Tensors whose gradients are wanted. Those that no differentiable path leads
            to are left out.
        called_graphs_grad_info: Gradient graphs of called graphs that are not to be made again.

    Returns:
        The gradient graph with what it stands for.

    Raises:
        popart_exception: An op writes a tensor, a tensor is not in the graph, or a called graph
            must not be differentiated.
    """
    provided, required = tuple(grads_provided), tuple(grads_required)
    known = called_graphs_grad_info
    infos = _differentiated(graph, provided, required, known, leaves_out_unreached=True)
    return GradGraphInfo._from_core(next(i for i in infos if i.forward_graph is graph._pb))


def _differentiated(
    graph: Graph,
    provided: tuple[Tensor, ...],
    required: tuple[Tensor, ...],
    known: Mapping[Graph, GradGraphInfo],
    leaves_out_unreached: bool,
) -> list[_core.GradGraphInfo]:
    graph.ir._settle()
    return _core.autodiff(
        graph._pb,
        [tensor._pb for tensor in provided],
        [tensor._pb for tensor in required],
        [info._pb for info in known.values()],
        leaves_out_unreached,
    )

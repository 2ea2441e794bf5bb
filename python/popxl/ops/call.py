"""Calls of graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from popart import popart_internal_exception
from popart._internal import ir as _ir
from popxl.context import create_op, get_current_graph
from popxl.graph import Graph
from popxl.ops.utils import check_in_ir, outputs_of
from popxl.tensor import Tensor, TensorLike, constant

if TYPE_CHECKING:
    from pando import _core

CallInput = TensorLike | Iterable[TensorLike]


class CallSiteInfo:
    """Relates the tensors of a graph to those of the graph that calls it."""

    def __init__(self, op: Any) -> None:
        self._pb: _core.Op = op._pb if isinstance(op, _ir.Op) else op

    @property
    def _op(self) -> _ir.Op:
        return _ir.op_view(self._pb)

    @property
    def _is_loop(self) -> bool:
        return bool(self._pb.kind == "Loop")

    @property
    def called_graph(self) -> Any:
        """The called graph; for a repeat the wrapper around it."""
        graph: Graph = Graph._from_pb(self._pb.called_graphs[0])
        return graph

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The connected inputs of the op, in order."""
        return tuple(Tensor._from_pb(t) for t in self._pb.inputs if t is not None)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The outputs of the op, in order."""
        return outputs_of(self._pb)

    def parent_input(self, idx: int) -> Tensor:
        """The tensor at input `idx` of the op; IndexError when there is none."""
        core_tensor = self._pb.input(idx) if idx >= 0 else None
        if core_tensor is None:
            raise IndexError(f"{self._pb.describe()} has no input at index {idx}")
        tensor: Tensor = Tensor._from_pb(core_tensor)
        return tensor

    def parent_output(self, idx: int) -> Tensor:
        """The tensor at output `idx` of the op; IndexError when there is none."""
        core_tensor = self._pb.output(idx) if idx >= 0 else None
        if core_tensor is None:
            raise IndexError(f"{self._pb.describe()} has no output at index {idx}")
        tensor: Tensor = Tensor._from_pb(core_tensor)
        return tensor

    def graph_to_parent_input_index(self, idx: int) -> int:
        """Input index of the op for input `idx` of the called graph."""
        return idx

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Input index of the called graph for input `idx` of the op."""
        return idx

    def graph_to_parent_output_index(self, idx: int) -> int:
        """Output index of the op for output `idx` of the called graph."""
        # The first output of a loop's wrapper is its condition.
        return idx - 1 if self._is_loop else idx

    def parent_to_graph_output_index(self, idx: int) -> int:
        """Output index of the called graph for output `idx` of the op."""
        return idx + 1 if self._is_loop else idx

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """The parent tensor of an input or output of the called graph."""
        graph = self.called_graph._pb
        index = graph.input_index(graph_tensor._pb)
        if index is not None:
            return self.parent_input(self.graph_to_parent_input_index(index))
        index = graph.output_index(graph_tensor._pb)
        if index is not None:
            return self.parent_output(self.graph_to_parent_output_index(index))
        raise ValueError(f"Tensor {graph_tensor} is not an input or output of the called graph(s).")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """The first input of the called graph that the parent tensor is given to."""
        indices = self._indices_of(parent_tensor)
        if not indices:
            raise ValueError(f"{parent_tensor} is not an input of {self._pb.describe()}")
        graph_input: Tensor = self.called_graph.inputs[self.parent_to_graph_input_index(indices[0])]
        return graph_input

    def set_parent_input_modified(
        self, parent_tensor: Tensor, infer_modified_regions: bool = False
    ) -> None:
        """Has the final value of the graph input written back to the parent tensor.

        What the callee leaves as it was is written back unchanged, so the regions that can be
        inferred make no difference to values.
        """
        indices = self._indices_of(parent_tensor)
        if len(indices) != 1:
            raise popart_internal_exception(
                f"set_parent_input_modified: wanted a tensor that is one input of "
                f"{self._pb.describe()}; {parent_tensor} is {len(indices)} of them"
            )
        modified = set(self._pb.attributes.get("modified", ())) | {indices[0]}
        self._pb.set_attribute("modified", sorted(modified))

    def _indices_of(self, parent_tensor: Tensor) -> list[int]:
        return [i for i, t in enumerate(self._pb.inputs) if t is parent_tensor._pb]

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self._pb.describe()}]"


def _flatten(values: Iterable[CallInput]) -> list[TensorLike]:
    flat: list[TensorLike] = []
    for value in values:
        is_scalar = isinstance(value, str) or (isinstance(value, np.ndarray) and value.ndim == 0)
        if isinstance(value, Iterable) and not is_scalar:
            flat.extend(value)
        else:
            flat.append(value)
    return flat


def _as_parent_tensor(value: TensorLike, graph_input: Tensor, where: str) -> Tensor:
    if not isinstance(value, Tensor):
        try:
            return constant(value, graph_input.dtype)
        except Exception as error:
            raise TypeError(
                f"Input at {where} could not be coerced to a tensor of {graph_input.dtype}: "
                f"{value!r}"
            ) from error
    parent = get_current_graph()
    if value not in parent:
        raise ValueError(
            f"The parent input tensor {value} at {where} is not in the current graph {parent.id}."
        )
    return value


def _check_complete(graph: Graph, given: Mapping[Tensor, Tensor]) -> None:
    missing = [t for t in graph.inputs if t not in given]
    if not missing:
        return
    rows = [f"  {t.name:<32} {t.dtype} {t.shape}" for t in missing]
    connected = [f"  {t.name:<32} <- {given[t].name}" for t in graph.inputs if t in given]
    raise ValueError(
        f"Not enough inputs have been provided for graph {graph.id}: wanted {len(graph.inputs)}, "
        f"given {len(given)}.\nMissing inputs:\n"
        + "\n".join(rows)
        + "\nConnected inputs:\n"
        + "\n".join(connected)
    )


def bind_inputs(
    graph: Graph,
    inputs: Iterable[CallInput],
    inputs_dict: Mapping[Tensor, TensorLike] | None,
    check_inputs: bool,
    label: str = "called",
) -> list[Tensor | None]:
    """The parent tensor for every input of `graph`, None for those not given.

    Values that are not tensors become constants of the current graph.
    """
    check_in_ir(f"the {label} graph {graph.id}", graph.ir)
    graph_inputs = graph.inputs
    positional = _flatten(inputs)
    if len(positional) > len(graph_inputs):
        raise ValueError(
            f"Too many inputs have been provided for the {label} graph {graph.id}: wanted "
            f"{len(graph_inputs)}, given {len(positional)}."
        )
    given: dict[Tensor, Tensor] = {}
    for i, (graph_input, value) in enumerate(zip(graph_inputs, positional, strict=False)):
        given[graph_input] = _as_parent_tensor(value, graph_input, f"position {i}")
    for key, value in (inputs_dict or {}).items():
        if key not in graph_inputs:
            raise ValueError(
                f"The inputs_dict key {key} is not in the {label} graph {graph.id}: wanted one of "
                f"its inputs {[t.name for t in graph_inputs]}."
            )
        if key in given:
            raise ValueError(
                f"Graph input tensor is specified twice: {key} was given {given[key]} and {value}."
            )
        given[key] = _as_parent_tensor(value, key, f"inputs_dict key '{key.name}'")
    if check_inputs:
        _check_complete(graph, given)
    return [given.get(graph_input) for graph_input in graph_inputs]


def written_back(graph: Graph, inputs: list[Tensor | None], first: int = 0) -> list[int]:
    """Op input indices of the by-reference inputs, if input 0 of the graph is op input `first`."""
    return [
        first + i
        for i, (graph_input, given) in enumerate(zip(graph.inputs, inputs, strict=True))
        if given is not None and graph._pb.is_by_ref(graph_input._pb)
    ]


def create_call(
    graph: Graph, inputs: list[Tensor | None], settings_name: str | None = None
) -> CallSiteInfo:
    """Creates a Call op of the current graph, called `settings_name` (default: by both graphs)."""
    op = create_op(
        "Call",
        inputs,
        {"modified": written_back(graph, inputs)},
        names=[t.name for t in graph.outputs],
        settings_name=settings_name or f"{get_current_graph().name}--call--{graph.name}",
        called_graphs=[graph],
    )
    return CallSiteInfo(op)


def call(
    graph: Graph,
    *inputs: CallInput,
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Runs a graph and returns its outputs.

    Inputs are given in order, by graph tensor in `inputs_dict`, or both. They are passed by value,
    except those that the graph takes by reference.
    """
    return call_with_info(graph, *inputs, inputs_dict=inputs_dict).outputs


def call_with_info(
    graph: Graph,
    *inputs: CallInput,
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """`call`, returning what relates the tensors of the graphs."""
    return create_call(graph, bind_inputs(graph, inputs, inputs_dict, check_inputs))

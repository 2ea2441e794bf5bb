"""Calls of graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from popart import popart_internal_exception
from popart._internal import ir as _ir
from popxl.constants import constant
from popxl.context import create_op, get_current_graph
from popxl.graph import Graph
from popxl.ops.utils import check_in_ir, outputs_of
from popxl.tensor_base import Tensor, TensorLike

if TYPE_CHECKING:
    from pando import _core

CallInput = TensorLike | Iterable[TensorLike]


class CallSiteInfo:
    """The relation of the tensors of a called graph to those of the graph that calls it.

    Args:
        op: The op that calls: one of the core, or an internal view of it.
    """

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
        """The outputs of the op, in order. `autodiff` may append to them."""
        return outputs_of(self._pb)

    def parent_input(self, idx: int) -> Tensor:
        """Find the tensor at an input of the op.

        Args:
            idx: The index. The inputs of a repeat begin at 2.

        Returns:
            The tensor of the calling graph.

        Raises:
            IndexError: Nothing is connected at the index.
        """
        core_tensor = self._pb.input(idx) if idx >= 0 else None
        if core_tensor is None:
            raise IndexError(f"{self._pb.describe()} has no input at index {idx}")
        tensor: Tensor = Tensor._from_pb(core_tensor)
        return tensor

    def parent_output(self, idx: int) -> Tensor:
        """Find the tensor at an output of the op.

        Args:
            idx: The index.

        Returns:
            The tensor of the calling graph.

        Raises:
            IndexError: There is no output at the index.
        """
        core_tensor = self._pb.output(idx) if idx >= 0 else None
        if core_tensor is None:
            raise IndexError(f"{self._pb.describe()} has no output at index {idx}")
        tensor: Tensor = Tensor._from_pb(core_tensor)
        return tensor

    def graph_to_parent_input_index(self, idx: int) -> int:
        """Convert an input index of the called graph to one of the op.

        Args:
            idx: The index in the called graph.

        Returns:
            The index at the op: the same one.
        """
        return idx

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Convert an input index of the op to one of the called graph.

        Args:
            idx: The index at the op.

        Returns:
            The index in the called graph: the same one.
        """
        return idx

    def graph_to_parent_output_index(self, idx: int) -> int:
        """Convert an output index of the called graph to one of the op.

        Args:
            idx: The index in the called graph.

        Returns:
            The index at the op: the same one, for a repeat 1 less, because output 0 of the wrapper
            is the condition.
        """
        # The first output of a loop's wrapper is its condition.
        return idx - 1 if self._is_loop else idx

    def parent_to_graph_output_index(self, idx: int) -> int:
        """Convert an output index of the op to one of the called graph.

        Args:
            idx: The index at the op.

        Returns:
            The index in the called graph: the same one, for a repeat 1 more.
        """
        return idx + 1 if self._is_loop else idx

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """Find the tensor that is given to an input, or comes from an output, of the called graph.

        Args:
            graph_tensor: An input or output of the called graph.

        Returns:
            The tensor of the calling graph; for a tensor that is both, the one that is given.

        Raises:
            IndexError: Nothing is connected to the input.
            ValueError: The tensor is neither an input nor an output of the called graph.
        """
        graph = self.called_graph._pb
        index = graph.input_index(graph_tensor._pb)
        if index is not None:
            return self.parent_input(self.graph_to_parent_input_index(index))
        index = graph.output_index(graph_tensor._pb)
        if index is not None:
            return self.parent_output(self.graph_to_parent_output_index(index))
        raise ValueError(f"Tensor {graph_tensor} is not an input or output of the called graph(s).")

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Find the input of the called graph that a tensor is given to.

        Args:
            parent_tensor: An input of the op.

        Returns:
            The input of the called graph, the first one if there are several.

        Raises:
            ValueError: The tensor is not an input of the op.
        """
        indices = self._indices_of(parent_tensor)
        if not indices:
            raise ValueError(f"{parent_tensor} is not an input of {self._pb.describe()}")
        graph_input: Tensor = self.called_graph.inputs[self.parent_to_graph_input_index(indices[0])]
        return graph_input

    def set_parent_input_modified(
        self, parent_tensor: Tensor, infer_modified_regions: bool = False
    ) -> None:
        """Have the final value of the graph input written back to the tensor that is given to it.

        Args:
            parent_tensor: The tensor of the calling graph, which is exactly one input of the op.
            infer_modified_regions: Has no effect on values: what the called graph leaves as it was
                is written back unchanged.

        Raises:
            popart_internal_exception: The tensor is no input of the op, or several.
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


def _refuse_incomplete(graph: Graph, given: Mapping[Tensor, Tensor]) -> NoReturn:
    missing = [t for t in graph.inputs if t not in given]
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
    """Find the tensor for every input of a graph that is to be called.

    Values that are not tensors become constants of the current graph.

    Args:
        graph: The graph that is to be called.
        inputs: Values for the first inputs, in order, flattened by one level.
        inputs_dict: Values by input of `graph`.
        check_inputs: Whether missing inputs are an error.
        label: What error messages call the graph.

    Returns:
        A tensor of the current graph for every input of `graph`; None for those that are not given.

    Raises:
        RuntimeError: `graph` is of another Ir than the current graph.
        TypeError: A value cannot become a constant.
        ValueError: Inputs are missing, given twice, too many or of another graph.
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
    known = frozenset(graph_inputs) if inputs_dict else ()
    for key, value in (inputs_dict or {}).items():
        if key not in known:
            raise ValueError(
                f"The inputs_dict key {key} is not in the {label} graph {graph.id}: wanted one of "
                f"its inputs {[t.name for t in graph_inputs]}."
            )
        if key in given:
            raise ValueError(
                f"Graph input tensor is specified twice: {key} was given {given[key]} and {value}."
            )
        given[key] = _as_parent_tensor(value, key, f"inputs_dict key '{key.name}'")
    if check_inputs and len(given) < len(graph_inputs):
        _refuse_incomplete(graph, given)
    return [given.get(graph_input) for graph_input in graph_inputs]


def written_back(graph: Graph, inputs: list[Tensor | None], first: int = 0) -> list[int]:
    """List the op inputs that are given to inputs by reference.

    Args:
        graph: The called graph.
        inputs: The tensor for every input of `graph`; None where there is none.
        first: The index at the op of input 0 of `graph`.

    Returns:
        Indices at the op, in order.
    """
    return [
        first + i
        for i, (graph_input, given) in enumerate(zip(graph._pb.inputs, inputs, strict=True))
        if given is not None and graph_input.is_by_ref
    ]


def create_call(
    graph: Graph, inputs: list[Tensor | None], settings_name: str | None = None
) -> CallSiteInfo:
    """Create a Call op in the current graph.

    Args:
        graph: The called graph.
        inputs: The tensor for every input of `graph`; None where there is none.
        settings_name: The name of the op. None: a name made of those of both graphs.

    Returns:
        The relation of the tensors of both graphs.

    Raises:
        popart_exception: An input does not have the shape and dtype of that of `graph`.
    """
    op = create_op(
        "Call",
        inputs,
        {"modified": written_back(graph, inputs)},
        names=[t.name for t in graph._pb.outputs],
        settings_name=settings_name or f"{get_current_graph().name}--call--{graph.name}",
        called_graphs=[graph],
    )
    return CallSiteInfo(op)


def call(
    graph: Graph,
    *inputs: CallInput,
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Run a graph.

    Inputs are given in order, by graph tensor in `inputs_dict`, or both. They are passed by value,
    except those that the graph takes by reference, which are written back.

    Args:
        graph: The graph, of the Ir of the current graph.
        *inputs: Values for the first inputs, in order: tensors of the current graph, or host data,
            which become constants of the dtype of the input. Lists, tuples and arrays are flattened
            by one level; give an array that is one value in `inputs_dict`.
        inputs_dict: Values by input of `graph`.

    Returns:
        One tensor for each output of `graph`, as a tuple.

    Raises:
        RuntimeError: `graph` is of another Ir than the current graph.
        TypeError: A value cannot become a constant.
        ValueError: Inputs are missing, given twice, too many or of another graph.
        popart_exception: An input does not have the shape and dtype of that of `graph`.
    """
    return call_with_info(graph, *inputs, inputs_dict=inputs_dict).outputs


def call_with_info(
    graph: Graph,
    *inputs: CallInput,
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Run a graph as `call` does, and return what relates the tensors of both graphs.

    Args:
        graph: The graph, of the Ir of the current graph.
        *inputs: Values for the first inputs, in order, as `call` takes them.
        inputs_dict: Values by input of `graph`.
        check_inputs: Whether missing inputs are an error; if not, they can be connected later.

    Returns:
        The relation of the tensors; its `outputs` are the results.

    Raises:
        RuntimeError: `graph` is of another Ir than the current graph.
        TypeError: A value cannot become a constant.
        ValueError: Inputs are missing, given twice, too many or of another graph.
        popart_exception: An input does not have the shape and dtype of that of `graph`.
    """
    return create_call(graph, bind_inputs(graph, inputs, inputs_dict, check_inputs))

"""What every op function needs: argument checks, axes and the creation of an op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from popart._internal.op_arguments import OptionalDataType, OptionalFloat, OptionalInt
from popxl import dtypes
from popxl.context import _context, create_op, get_current_graph
from popxl.dtypes import DType
from popxl.tensor_base import Tensor

if TYPE_CHECKING:
    from pando import _core
    from popxl.graph import Graph
    from popxl.ir import Ir


def check_in_graph(graph: Graph, *positional: Tensor, **tensors: Tensor) -> None:
    """Check that arguments are tensors of a graph.

    Args:
        graph: The graph.
        *positional: Nothing: tensors are given by name.
        **tensors: The tensors by the names of the arguments, which the messages say.

    Raises:
        TypeError: An argument is not a tensor, or is not given by name.
        ValueError: A tensor is not in the graph.
    """
    if positional:
        raise TypeError("check_in_graph: tensors are given by name, as in `t=t`")
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"The input `{name}` is not a Tensor. Type: {type(tensor)}. Value: {tensor!r}"
            )
        if tensor._pb.graph is not graph._pb:
            raise ValueError(
                f"The input tensor `{name}` is not in the current Graph {graph.name}. It is "
                f"{tensor!r}: pass it to the graph as an input."
            )


def check_in_ir(what: str, ir: Ir) -> None:
    """Check that the current graph belongs to an Ir.

    Args:
        what: What belongs to `ir`, as the message calls it.
        ir: The Ir.

    Raises:
        RuntimeError: The current graph belongs to another one.
    """
    graph = get_current_graph()
    if graph.ir != ir:
        raise RuntimeError(
            f"{what} belongs to {ir!r}, but the current graph {graph.id or 'main'} belongs to "
            f"{graph.ir!r}: make it in the Ir that uses it"
        )


def _device(t: Tensor) -> int | None:
    return t._pb.device


def _tile_set(t: Tensor) -> str | None:
    on_io_tiles = t._pb.on_io_tiles
    if on_io_tiles is None:
        return None
    return "io" if on_io_tiles else "compute"


def _check_same(what: str, tensors: Mapping[str, Tensor], place: Callable[[Tensor], Any]) -> None:
    first: tuple[str, Any] | None = None
    for name, tensor in tensors.items():
        placed = place(tensor)
        if placed is None:
            continue
        if first is None:
            first = (name, placed)
        elif first[1] != placed:
            raise ValueError(
                f"The input tensors `{first[0]}` and `{name}` are located on different {what}: "
                f"{first[1]} != {placed}."
            )


def check_tensor_ipu_and_tile_set(**tensors: Tensor) -> None:
    """Check that the tensors whose place is known are in one place.

    Args:
        **tensors: The tensors by the names of the arguments, which the messages say.

    Raises:
        ValueError: Two tensors are on different virtual devices or tile sets.
    """
    _check_same("IPUs", tensors, _device)
    _check_same("tile sets", tensors, _tile_set)


def check_inputs(**tensors: Tensor) -> None:
    """Check the tensor arguments of an op: their kind, graph and place.

    Args:
        **tensors: The tensors by the names of the arguments, which the messages say.

    Raises:
        TypeError: An argument is not a tensor.
        ValueError: A tensor is not in the current graph, or two are in different places.
    """
    graph = _context.graph
    cores = [t._pb for t in tensors.values() if isinstance(t, Tensor)]
    if len(cores) == len(tensors) and graph._pb.can_take(cores):
        return
    # Something is wrong: these find out what.
    check_in_graph(graph, **tensors)
    check_tensor_ipu_and_tile_set(**tensors)


def handle_negative_axis(t: Tensor, axis: int) -> int:
    """Count an axis from the first one.

    Args:
        t: The tensor that the axis is of.
        axis: The axis; a negative one counts from the end.

    Returns:
        The axis as a number that is not negative, if it is in range; that is not checked.
    """
    return axis if axis >= 0 else t.rank + axis


def cast_if_needed(t: Tensor, data_type: DType) -> Tensor:
    """Cast a tensor unless it has the dtype.

    Args:
        t: The tensor.
        data_type: The dtype.

    Returns:
        `t` itself if it has the dtype, else a new tensor.
    """
    return t if t.dtype == data_type else cast_tensor(t, data_type)


def cast_tensor(t: Tensor, data_type: DType) -> Tensor:
    """Cast a tensor, as `ops.cast` does.

    Args:
        t: The tensor, of any dtype.
        data_type: The new dtype; any dtype but float8.

    Returns:
        A new tensor.

    Raises:
        TypeError: `t` is not a tensor; `data_type` is a float8 format.
        ValueError: `t` is not in the current graph; `data_type` is complex.
    """
    check_inputs(t=t)
    if is_float8(data_type):
        raise TypeError(
            f"cast: wanted a target dtype other than {data_type}: use pow2scale_cast_to_fp8 (and "
            "pow2scale_cast_from_fp8 back)"
        )
    attributes: dict[str, object] = {"dtype": data_type._pb}
    return make("Cast", [t], attributes, name=f"{t.name}_{data_type.name}", settings="cast")


def convert_optional_float(v: float | None) -> OptionalFloat:
    """Wrap a value as custom ops take it.

    Args:
        v: A number or None.

    Returns:
        The wrapped value, empty for None.
    """
    return OptionalFloat() if v is None else OptionalFloat(v)


def convert_optional_int(v: int | None) -> OptionalInt:
    """Wrap a value as custom ops take it.

    Args:
        v: A number or None.

    Returns:
        The wrapped value, empty for None.
    """
    return OptionalInt() if v is None else OptionalInt(v)


def convert_optional_dtype(dt: DType | None) -> OptionalDataType:
    """Wrap a dtype as custom ops take it.

    Args:
        dt: A dtype or None.

    Returns:
        The wrapped internal dtype, empty for None.
    """
    return OptionalDataType() if dt is None else OptionalDataType(dt._pb_dtype)


def convert_optional_int64_list(v: Iterable[int] | None) -> list[int]:
    """Convert numbers to a list as custom ops take it.

    Args:
        v: Numbers or None.

    Returns:
        A list of ints, empty for None.
    """
    return [] if v is None else [int(value) for value in v]


def outputs_of(op: _core.Op) -> tuple[Tensor, ...]:
    """List the outputs of an op.

    Args:
        op: An op of the core.

    Returns:
        A tensor for each output, in order.
    """
    return tuple(Tensor._from_pb(output) for output in op.outputs)


def make(
    kind: str,
    inputs: Sequence[Tensor | None],
    attributes: dict[str, object] | None = None,
    *,
    name: str,
    settings: str,
) -> Tensor:
    """Create an op in the current graph and return its first output.

    Args:
        kind: The kind of the op.
        inputs: The inputs; None where nothing is connected.
        attributes: The attributes of the kind; None: none.
        name: The name of the output, without scopes.
        settings: The name of the op, without scopes.

    Returns:
        The first output.

    Raises:
        popart_exception: The inputs or attributes do not suit the kind.
    """
    context = _context
    graph = context.graph
    ir = graph._ir
    # Somebody asks for the op itself.
    if context._in_sequence is not None or context._created_listeners or ir._op_created_hooks:
        op = create_op(kind, inputs, attributes or {}, names=(name,), settings_name=settings)
        return ir._tensor(op.output(0))
    core_tensor = graph._pb.create_tensor(
        kind,
        [None if tensor is None else tensor._pb for tensor in inputs],
        attributes or {},
        context.op_context(settings, skip=1),
        context.scoped(name),
    )
    return ir._new_tensor(core_tensor)


def number_or_tensor(
    name: str, value: float | Tensor | None, attributes: dict[str, object]
) -> Tensor | None:
    """Take a factor as an input of an op or as an attribute.

    Args:
        name: The name of the attribute and of the argument.
        value: A tensor, a number or None.
        attributes: The attributes of the op, which get `name` if `value` is a number.

    Returns:
        The tensor if `value` is one, else None.

    Raises:
        TypeError: `value` is not a number.
        ValueError: The tensor is not in the current graph.
    """
    if isinstance(value, Tensor):
        check_inputs(**{name: value})
        return value
    if value is not None:
        attributes[name] = float(value)
    return None


def check_log2_scale(log2_scale: Tensor) -> None:
    """Check the exponent of the scale of float8 values.

    Args:
        log2_scale: The tensor, which must be an int32 of rank 0.

    Raises:
        TypeError: It is not a tensor or not int32.
        ValueError: It is not in the current graph, or has a rank.
    """
    check_inputs(log2_scale=log2_scale)
    if log2_scale.rank > 0:
        raise ValueError(
            f"Log2 scale argument must be a scalar tensor. Provided shape {log2_scale.shape}"
        )
    if log2_scale.dtype != dtypes.int32:
        raise TypeError(
            f"Log2 scale tensor must be of type popxl.int32. Provided {log2_scale.dtype}"
        )


def is_float8(data_type: DType) -> Any:
    """Tell whether a dtype is one of the float8 formats.

    Args:
        data_type: The dtype.

    Returns:
        Whether it is.
    """
    return data_type in (dtypes.float8_143, dtypes.float8_152)

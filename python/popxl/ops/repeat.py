"""Loops over graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pando import _core
from popxl.context import create_op, get_current_graph
from popxl.graph import Graph
from popxl.ops.call import CallInput, CallSiteInfo, bind_inputs, create_call, written_back
from popxl.tensor_base import Tensor, TensorLike


def _wrapper_input(
    wrapper: Graph, name: str, info: _core.TensorInfo, by_ref: bool = False
) -> Tensor:
    core_graph = wrapper._pb
    tensor: Tensor = Tensor._from_pb(
        core_graph.add_input(core_graph.unique_tensor_id(name), info, by_ref)
    )
    return tensor


def add_loop_inputs(
    wrapper: Graph, graph: Graph, inputs: Sequence[Tensor | None]
) -> tuple[Tensor, list[Tensor | None]]:
    """Give a graph the inputs of a loop's body that calls a graph.

    Args:
        wrapper: The body, a new graph.
        graph: The graph that it is to call.
        inputs: What the loop gives to the inputs of `graph`; None where it is not known.

    Returns:
        The condition (input 1, after the iteration number), and an input for each of `graph`.
    """
    scalars = _core.parse_dtype("int32"), _core.parse_dtype("bool")
    _wrapper_input(wrapper, "Iterator___", _core.TensorInfo(scalars[0], []))
    condition = _wrapper_input(wrapper, "LoopCond___", _core.TensorInfo(scalars[1], []))
    passed: list[Tensor | None] = [
        _wrapper_input(
            wrapper,
            graph_input.name if parent is None else parent.name,
            graph_input._pb.info,
            graph_input._pb.is_by_ref,
        )
        for graph_input, parent in zip(graph.inputs, inputs, strict=True)
    ]
    return condition, passed


def _fill_wrapper(wrapper: Graph, graph: Graph, inputs: list[Tensor | None]) -> None:
    """The body of the loop: iteration number and condition, then one call of the graph."""
    condition, passed = add_loop_inputs(wrapper, graph, inputs)
    with wrapper:
        info = create_call(graph, passed, f"{wrapper.name}__call__{graph.name}")
    wrapper._pb.set_outputs([condition._pb, *(t._pb for t in info.outputs)])


def repeat(
    graph: Graph,
    repeat_count: int,
    *inputs: CallInput,
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
) -> tuple[Tensor, ...]:
    """Run a graph several times and return the outputs of the last run.

    The outputs of a run are the first inputs of the next one. Other inputs stay as they are, except
    those that the graph takes by reference and writes. A loop has no gradient.

    Args:
        graph: What is repeated: a graph with at least as many inputs as outputs, of the same shapes
            and dtypes in order.
        repeat_count: The number of runs, 0 or more. With 0 the results are the first inputs.
        *inputs: The inputs of the first run, as `call` takes them.
        inputs_dict: Inputs by tensor of `graph`, as `call` takes them.

    Returns:
        One tensor for each output of `graph`.

    Raises:
        RuntimeError: `graph` is of another Ir than the current graph.
        TypeError: A value cannot become a constant.
        ValueError: `repeat_count` is negative, `graph` has more outputs than inputs, or inputs are
            missing, given twice, too many or of another graph.
        popart_exception: An input does not have the shape and dtype of that of `graph`.
    """
    return repeat_with_info(graph, repeat_count, *inputs, inputs_dict=inputs_dict).outputs


def repeat_with_info(
    graph: Graph,
    repeat_count: int,
    *inputs: CallInput,
    inputs_dict: Mapping[Tensor, TensorLike] | None = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """Run a graph as `repeat` does, and return what relates the tensors of both graphs.

    The graph is called by a wrapper, which is the called graph of the loop. The first two inputs of
    the wrapper are the number of the iteration and the condition.

    Args:
        graph: What is repeated: a graph with at least as many inputs as outputs, of the same shapes
            and dtypes in order.
        repeat_count: The number of runs, 0 or more. With 0 the results are the first inputs.
        *inputs: The inputs of the first run, as `call` takes them.
        inputs_dict: Inputs by tensor of `graph`, as `call` takes them.
        check_inputs: Whether missing inputs are an error; if not, they can be connected later.

    Returns:
        The relation of the tensors of the wrapper to those of the current graph.

    Raises:
        RuntimeError: `graph` is of another Ir than the current graph.
        TypeError: A value cannot become a constant.
        ValueError: `repeat_count` is negative, `graph` has more outputs than inputs, or inputs are
            missing, given twice, too many or of another graph.
        popart_exception: An input does not have the shape and dtype of that of `graph`.
    """
    if repeat_count < 0:
        raise ValueError(f"Repeat count must be >= 0. Value: {repeat_count}.")
    if len(graph.inputs) < len(graph.outputs):
        raise ValueError(
            f"To repeat the subgraph ({graph.id}) the number of inputs must be greater than or "
            f"equal to the number of outputs. It has {len(graph.inputs)} inputs and "
            f"{len(graph.outputs)} outputs."
        )
    bound = bind_inputs(graph, inputs, inputs_dict, check_inputs)
    wrapper: Graph = Graph._from_pb(graph.ir._pb.create_graph(f"{graph.id}__loop_wrapper"))
    try:
        _fill_wrapper(wrapper, graph, bound)
        op = create_op(
            "Loop",
            [None, None, *bound],
            {"trip_count": int(repeat_count), "modified": written_back(graph, bound, 2)},
            # Always with a number, also where the name is free.
            names=[f"{t.name}__t{graph.ir._pb.next_tensor_suffix()}" for t in graph.outputs],
            settings_name=f"{get_current_graph().name}__loop__{wrapper.name}",
            called_graphs=[wrapper],
        )
    except Exception:
        graph.ir._pb.erase_graph(wrapper._pb)
        raise
    return CallSiteInfo(op)

"""Loops whose condition the program computes."""

from __future__ import annotations

from numbers import Integral

from popxl.context import create_op, get_current_graph
from popxl.graph import Graph
from popxl.ops.call import CallInput, bind_inputs, create_call, written_back
from popxl.ops.repeat import add_loop_inputs
from popxl.ops.utils import outputs_of
from popxl.tensor_base import Tensor


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _check_loop(condition: Graph, body: Graph, max_iterations: int | None) -> None:
    wanted = f"while_loop with the body {body.id}"
    if len(body.inputs) < len(body.outputs):
        raise ValueError(
            f"{wanted}: wanted at least as many inputs as outputs, to which these are carried; "
            f"given {len(body.inputs)} inputs and {len(body.outputs)} outputs"
        )
    if len(condition.inputs) > len(body.inputs):
        raise ValueError(
            f"{wanted}: wanted a condition that takes its first inputs, "
            f"{len(body.inputs)} or fewer; given {condition.id} with {len(condition.inputs)}"
        )
    outputs = [(t.dtype.name, t.shape) for t in condition.outputs]
    if outputs != [("bool", ())]:
        raise ValueError(
            f"{wanted}: wanted a condition with one output, a scalar of dtype bool; given "
            f"{condition.id} with {outputs}"
        )
    if any(t._pb.is_by_ref for t in condition.inputs):
        raise ValueError(f"{wanted}: the condition {condition.id} takes an input by reference")
    if max_iterations is not None and not _is_count(max_iterations):
        raise ValueError(
            f"{wanted}: wanted max_iterations to be None or an int of 0 or more; given "
            f"{max_iterations!r}"
        )


def _fill_body(wrapper: Graph, condition: Graph, body: Graph, inputs: list[Tensor | None]) -> None:
    """What an iteration does: a call of the body, then one of the condition of the next one."""
    _, passed = add_loop_inputs(wrapper, body, inputs)
    with wrapper:
        results = create_call(body, passed).outputs
        state = [*results, *passed[len(results) :]]
        goes_on = create_call(condition, state[: len(condition.inputs)]).outputs[0]
    wrapper._pb.set_outputs([goes_on._pb, *(t._pb for t in results)])


def while_loop(
    condition: Graph,
    body: Graph,
    *inputs: CallInput,
    max_iterations: int | None = None,
) -> tuple[Tensor, ...]:
    """Run a graph again and again while a condition, which the program computes, is true.

    The outputs of a run of `body` are its first inputs in the next one. Other inputs stay as they
    are, except those that it takes by reference and writes. The condition is looked at before each
    run, the first one included. Ctrl-C ends a loop that does not end. It is not part of the
    original popxl.

    With `max_iterations` the loop can be differentiated: it then keeps, in memory planned for that
    many iterations, what its gradient needs of the values that it carries.

    Args:
        condition: A graph with one output, a scalar of dtype bool. It takes the first inputs of
            `body`, as many as it has inputs.
        body: What is repeated: a graph with at least as many inputs as outputs, of the same shapes
            and dtypes in order.
        *inputs: The inputs of the first run of `body`, as `popxl.ops.call` takes them.
        max_iterations: The number of runs after which the loop ends whatever the condition says.
            None: there is none.

    Returns:
        One tensor for each output of `body`: what its last run gave, or the first inputs where the
        condition was false from the beginning.

    Raises:
        RuntimeError: A graph is of another Ir than the current graph.
        TypeError: A value cannot become a constant.
        ValueError: The graphs do not fit each other, `max_iterations` is no int of 0 or more, or
            inputs are missing, too many or of another graph.
        NotImplementedError: `body` takes a value that it carries by reference.
        popart_exception: An input does not have the shape and dtype of that of its graph.
    """
    _check_loop(condition, body, max_iterations)
    bound = bind_inputs(body, inputs, None, True)
    first = create_call(condition, bound[: len(condition.inputs)]).outputs[0]
    wrapper: Graph = Graph._from_pb(body.ir._pb.create_graph(f"{body.id}__while_wrapper"))
    try:
        _fill_body(wrapper, condition, body, bound)
        attributes: dict[str, object] = {"modified": written_back(body, bound, 2)}
        if max_iterations is not None:
            attributes["max_iterations"] = int(max_iterations)
        op = create_op(
            "While",
            [None, first, *bound],
            attributes,
            names=[t.name for t in body.outputs],
            settings_name=f"{get_current_graph().name}__while__{wrapper.name}",
            called_graphs=[wrapper],
        )
    except Exception:
        body.ir._pb.erase_graph(wrapper._pb)
        raise
    return outputs_of(op)

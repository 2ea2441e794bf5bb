"""Calls of functions of the host while a program runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from popxl.context import create_op, get_current_graph
from popxl.ir import Ir
from popxl.ops.utils import check_inputs, outputs_of
from popxl.tensor_base import Tensor
from popxl.tensor_spec import TensorSpec


def _registered(ir: Ir, function: Callable[..., Any], name: str) -> str:
    """The name by which programs of the Ir call the function."""
    base = re.sub(r"\W", "_", name)
    unique, number = base, 0
    while ir._host_functions.get(unique, function) is not function:
        number += 1
        unique = f"{base}_{number}"
    ir._host_functions[unique] = function
    return unique


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _attributes(function: str, outputs: list[TensorSpec]) -> dict[str, object]:
    return {
        "function": function,
        "output_dtypes": ",".join(spec.dtype._pb.name for spec in outputs),
        "output_ranks": [len(spec.shape) for spec in outputs],
        "output_sizes": [size for spec in outputs for size in spec.shape],
    }


def host_call(
    function: Callable[..., Any],
    *inputs: Tensor,
    outputs: Iterable[TensorSpec] = (),
    gradient: Callable[..., Any] | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Call a Python function whenever the program comes here, and wait for what it returns.

    The function gets a NumPy array for each input, of its shape and dtype and its own to keep, and
    returns one for each output, of exactly the declared shape and dtype: a tuple or a list, or the
    array itself where there is one output. It runs on a thread of its own; the threads that run
    the program wait for it, never for the interpreter. Each replica calls it for itself, one after
    the other. A call of the session that runs the program raises RuntimeError in it. The call
    happens whether its outputs are used or not, in the order of the other calls of its graph. It
    is not part of the original popxl.

    What the function raises, or a ValueError for a result of another number, shape or dtype, ends
    the run and is raised there; variables keep what had been written by then, and later runs call
    the function again. Ctrl-C ends a run that waits for a function.

    Args:
        function: The function.
        *inputs: The tensors that it gets, of any shapes and dtypes.
        outputs: Shapes and dtypes of what it returns.
        gradient: A function that computes the gradient. It gets the inputs, the outputs, and the
            gradients of those outputs that are floats (zeros where there is none), and returns the
            gradient of each input that is a float, of the input's shape and dtype. None: a gradient
            that is asked for is an error.
        name: What the function is called in errors and programs; None: its own name. Another
            function of that name gets a number.

    Returns:
        A new tensor for each of `outputs`.

    Raises:
        TypeError: A function cannot be called, an input is not a tensor, or an output is no
            TensorSpec.
        ValueError: An input is not in the current graph.
        popart_exception: An input has a meta shape: it is a shard.
    """
    for what, given in (("function", function), ("gradient", gradient)):
        if not callable(given) and not (what == "gradient" and given is None):
            raise TypeError(f"host_call: wanted a function as {what}; given {given!r}")
    specs = list(outputs)
    for spec in specs:
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"host_call: wanted a TensorSpec for each output; given {spec!r}")
    check_inputs(**{f"inputs[{i}]": t for i, t in enumerate(inputs)})
    ir = get_current_graph().ir
    registered = _registered(ir, function, name or _name_of(function))
    attributes = _attributes(registered, specs)
    if gradient is not None:
        attributes["gradient"] = _registered(ir, gradient, f"{registered}_gradient")
    names = [f"{registered}_out" if i == 0 else f"{registered}_out{i}" for i in range(len(specs))]
    op = create_op(
        "HostCall", list(inputs), attributes, names=names, settings_name=f"host_call_{registered}"
    )
    return outputs_of(op)

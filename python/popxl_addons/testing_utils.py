"""Running a module once, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import popxl
from popxl import ops
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors

Weights = Mapping[popxl.Tensor, np.ndarray]


class TensorInput:
    """A host value that `run_module` turns into a tensor.

    Args:
        data: An array or number.
        dtype: The dtype of the tensor; None means that of the data.
    """

    def __init__(self, data: Any, dtype: popxl.dtype | None = None) -> None:
        self.data = data
        self.dtype = dtype


def _tensor(value: Any) -> Any:
    return popxl.variable(value.data, value.dtype) if isinstance(value, TensorInput) else value


def run_module(
    module: Module,
    *args: Any,
    weights: Weights | Callable[[NamedTensors], Weights] | None = None,
    **kwargs: Any,
) -> list[np.ndarray]:
    """Builds a program that calls the module's graph once, and runs it.

    Args:
        module: The module.
        *args: Arguments of `build`; TensorInputs become tensors.
        weights: Values for the module's variables, or a function of those variables that gives
            them; None leaves their initial values.
        **kwargs: Keyword arguments of `build`, likewise.

    Returns:
        The outputs as arrays.
    """
    ir = popxl.Ir()
    with ir.main_graph:
        arguments = [_tensor(value) for value in args]
        named = {name: _tensor(value) for name, value in kwargs.items()}
        factories, graph = module.create_graph(*arguments, **named)
        variables = factories.init()
        inputs = [v for v in (*arguments, *named.values()) if isinstance(v, popxl.Tensor)]
        outputs = graph.bind(variables).call(*inputs)
        streams = []
        for output in outputs:
            stream = popxl.d2h_stream(output.shape, output.dtype, f"{output.name}_stream")
            ops.host_store(stream, output)
            streams.append(stream)
    session = popxl.Session(ir, "ipu_hw")
    if weights is not None:
        values: Any = weights(variables) if callable(weights) else weights
        session.write_variables_data(dict(values))
    with session:
        results = session.run()
    return [results[stream] for stream in streams]


def ops_of_type(ops_to_count: Iterable[Any], op_type: type) -> int:
    """Counts the ops of one kind.

    Args:
        ops_to_count: The ops.
        op_type: Their class.

    Returns:
        How many of the ops are instances of it.
    """
    return sum(isinstance(op, op_type) for op in ops_to_count)

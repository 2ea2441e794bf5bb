"""Single operations in popxl: a loop on the device runs the op again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import popxl
from benchmarks import op_cases
from benchmarks.cases import Case
from benchmarks.op_cases import (
    BETA1,
    BETA2,
    DECAY,
    DROP,
    EPSILON,
    GROUPS,
    LEARNING_RATE,
    TOP,
)
from benchmarks.program import Steps
from popxl import ops

Tensors = list[popxl.Tensor]
Function = Callable[..., Any]

# One run of the session is about this many elements of work, and at least so many times the op, so
# that the time to start it and to copy what the loop carries into place does not count.
ELEMENTS_A_RUN = 1_000_000
LEAST_REPEATS = 20


def _seed() -> popxl.Tensor:
    return popxl.constant(np.array([1, 2], np.uint32))


def _cross_entropy(x: popxl.Tensor, labels: popxl.Tensor) -> popxl.Tensor:
    return ops.nll_loss(ops.softmax(x, axis=-1), labels)


def _cross_entropy_gradient(x: popxl.Tensor, labels: popxl.Tensor) -> Tensors:
    seed = popxl.constant(1.0, popxl.float32)
    loss, gradient = ops.nll_loss_with_softmax_grad(ops.softmax(x, axis=-1), labels, seed)
    return [loss, gradient]


# Looked up when they are called: an older Pando beside this one may lack some.
FORWARD: dict[str, Function] = {
    "matmul": lambda x, w: ops.matmul(x, w),
    "batched_matmul": lambda x, w: ops.matmul(x, w),
    "grouped_matmul": lambda x, w, ends: ops.grouped_matmul(x, w, ends),
    "causal_attention": lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, causal=True),
    "conv2d": lambda x, w: ops.conv(x, w, padding=(1, 1, 1, 1)),
    "max_pool": lambda x: ops.max_pool(x, kernel_size=(2, 2), stride=(2, 2)),
    "average_pool": lambda x: ops.average_pool(x, kernel_size=(2, 2), stride=(2, 2)),
    "layer_norm": lambda x, w, b: ops.layer_norm(x, w, b),
    "group_norm": lambda x, w, b: ops.group_norm(x, w, b, GROUPS),
    "softmax": lambda x: ops.softmax(x, axis=-1),
    "cross_entropy": _cross_entropy,
    "cross_entropy_gradient": _cross_entropy_gradient,
    "embedding": lambda table, indices: ops.gather(table, indices),
    "sum_rows": lambda x: ops.sum(x, axis=1),
    "sum_columns": lambda x: ops.sum(x, axis=0),
    "sum_all": lambda x: ops.sum(x),
    "max_rows": lambda x: ops.max(x, axis=1),
    "max_columns": lambda x: ops.max(x, axis=0),
    "transpose": lambda x: ops.transpose(x),
    "transpose_heads": lambda x: ops.transpose(x, (1, 0, 2)),
    "concat": lambda x, y: ops.concat([x, y], axis=1),
    "split": lambda x: ops.split(x, 2, axis=1),
    "topk": lambda x: list(ops.topk(x, TOP, axis=1, largest=True, sorted=True)),
    "cumsum": lambda x: ops.cumsum(x, dim=1),
    "dropout": lambda x: ops.dropout(x, _seed(), DROP),
    "uniform": lambda x: ops.random_uniform(_seed(), x.shape),
    "normal": lambda x: ops.random_normal(_seed(), x.shape),
}


def _differentiated(forward: Function, arguments: Tensors) -> Function:
    graph = popxl.gir().create_graph(forward, *arguments)
    wanted = [t for t in graph.inputs if t.dtype == popxl.float32]
    info = popxl.transforms.autodiff(graph, grads_required=wanted)
    shape = graph.outputs[0].shape

    def both(*given: popxl.Tensor) -> Tensors:
        call = ops.call_with_info(graph, *given)
        seed = popxl.constant(np.ones(shape, np.float32))
        gradients = ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call))
        return [call.outputs[0], *(gradients if isinstance(gradients, tuple) else (gradients,))]

    return both


def function_of(name: str, arguments: Tensors) -> Function:
    """The operation `name` of `op_cases`, its gradients behind its outputs, for such arguments."""
    if name in FORWARD:
        return FORWARD[name]
    return _differentiated(FORWARD[name.rpartition("_")[0]], arguments)


def outputs_of(result: Any) -> Tensors:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _loop(name: str, arrays: op_cases.Arrays, count: int) -> None:
    """`count` times the op: its outputs are carried, so that each is written once."""
    arguments: Tensors = [popxl.variable(array, name=f"x{i}") for i, array in enumerate(arrays)]
    function = function_of(name, arguments)
    probe = popxl.gir().create_graph(lambda *given: outputs_of(function(*given)), *arguments)
    carried = [ops.init(t.shape, t.dtype, init_type="undef") for t in probe.outputs]

    def body(*given: popxl.Tensor) -> Tensors:
        return outputs_of(function(*given[len(carried) :]))

    graph = popxl.gir().create_graph(body, *carried, *arguments)
    for result in ops.repeat(graph, count, *carried, *arguments):
        # One element, so that the loop has a purpose.
        element = ops.reshape(result, (-1,))[:1] if result.rank > 0 else result
        kept = popxl.variable(np.zeros(element.shape), element.dtype)
        ops.var_updates.copy_var_update_(kept, element)


def _optimizer(name: str, arrays: op_cases.Arrays, count: int) -> None:
    weight, gradient = (popxl.variable(array) for array in arrays)
    zeros = np.zeros(weight.shape, np.float32)
    first, second = popxl.variable(zeros), popxl.variable(zeros)
    step = popxl.variable(0.0, popxl.float32)

    def update(
        weight: popxl.TensorByRef,
        first: popxl.TensorByRef,
        second: popxl.TensorByRef,
        step: popxl.TensorByRef,
        gradient: popxl.Tensor,
    ) -> None:
        ops.var_updates.accumulate_moving_average_(first, gradient, f=BETA1)
        ops.var_updates.accumulate_moving_average_square_(second, gradient, f=BETA2)
        moments = (first, second)
        if name == "adam":
            x = ops.var_updates.adam_updater(
                *moments, time_step=step, beta1=BETA1, beta2=BETA2, epsilon=EPSILON
            )
            ops.scaled_add_(weight, x, b=-LEARNING_RATE)
            return
        x = ops.var_updates.lamb_updater(*moments, weight, step, DECAY, BETA1, BETA2, EPSILON)
        squares = (ops.lamb_square(weight), ops.lamb_square(x))
        ops.var_updates.adam_var_update(weight, x, *squares, learning_rate=LEARNING_RATE)

    values = (weight, first, second, step, gradient)
    graph = popxl.gir().create_graph(update, *values)
    ops.repeat(graph, count, *values)


def _embedding_adam(arrays: op_cases.Arrays, count: int) -> None:
    table, indices, gradient = (popxl.variable(array) for array in arrays)
    zeros = np.zeros(table.shape, np.float32)
    first, second = popxl.variable(zeros), popxl.variable(zeros)
    step = popxl.variable(0.0, popxl.float32)
    lookup = popxl.gir().create_graph(ops.gather, table, indices)
    info = popxl.transforms.autodiff(lookup, grads_required=[lookup.inputs[0]])

    def update(
        found: popxl.Tensor,
        table: popxl.TensorByRef,
        first: popxl.TensorByRef,
        second: popxl.TensorByRef,
        step: popxl.TensorByRef,
        indices: popxl.Tensor,
        gradient: popxl.Tensor,
    ) -> popxl.Tensor:
        call = ops.call_with_info(lookup, table, indices)
        (whole,) = ops.call(info.graph, gradient, inputs_dict=info.inputs_dict(call))
        ops.var_updates.sparse_adam_(
            table,
            first,
            second,
            whole,
            learning_rate=LEARNING_RATE,
            time_step=step,
            beta1=BETA1,
            beta2=BETA2,
            epsilon=EPSILON,
        )
        return call.outputs[0]

    found = ops.init(gradient.shape, gradient.dtype, init_type="undef")
    values = (found, table, first, second, step, indices, gradient)
    graph = popxl.gir().create_graph(update, *values)
    (result,) = ops.repeat(graph, count, *values)
    kept = popxl.variable(np.zeros(1, np.float32))
    ops.var_updates.copy_var_update_(kept, ops.reshape(result, (-1,))[:1])


def build(case: Case) -> Steps:
    arrays = op_cases.OPS[case.mode].arrays(case.size)
    count = max(LEAST_REPEATS, ELEMENTS_A_RUN // max(case.size, 1000))
    ir = popxl.Ir(replication=1)
    with ir.main_graph, popxl.in_sequence():
        if case.mode in ("adam", "lamb"):
            _optimizer(case.mode, arrays, count)
        elif case.mode == "embedding_adam":
            _embedding_adam(arrays, count)
        else:
            _loop(case.mode, arrays, count)
    session = popxl.Session(ir, "cpu")
    session.__enter__()

    def run(steps: int) -> None:
        for _ in range(steps):
            session.run()

    return Steps(run, close=lambda: session.__exit__(None, None, None), repeats=count)

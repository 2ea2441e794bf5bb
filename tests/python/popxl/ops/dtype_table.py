"""For every op wrapper: how to call it, which kinds of element types build and run, and with what
result. See test_every_dtype.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import special

import popart
import popxl
from popxl import ops
from popxl.ops import collectives, var_updates
from tests.python.popxl.ops.dtype_references import (
    BINARY,
    FUNCTIONS,
    MOVES,
    ON_ARITHMETIC,
    ON_NUMBERS,
    adam,
    conv,
    conv_transpose,
    folded,
    identity,
    norm,
    pooled,
    recurrent,
    row_written,
    softmax,
    unfolded,
)

FLOAT = ("float16", "bfloat16", "float32")
NUMBER = (*FLOAT, "int32", "uint8")
ARITHMETIC = (*NUMBER, "bool")
ALL = (*ARITHMETIC, "float8_143")
FAULT = popart.popart_exception
KERNEL = np.arange(1.0, 5.0).reshape(1, 1, 2, 2)
IMAGE = np.tile([1.0, 2.0, 3.0], 3).reshape(1, 1, 3, 3)
SEED = np.array([3, 5], np.uint32)


@dataclass
class Case:
    """`build` takes tensors of one dtype made of `arrays`; `reference` the arrays, in float64."""

    build: Callable[..., Any]
    runs: tuple[str, ...]
    reference: Callable[..., Any]
    arrays: tuple[Any, ...] = ()
    # The dtypes that building refuses, and how.
    unbuilt: tuple[str, ...] = ()
    fault: type[Exception] = FAULT


X = np.array([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])
Y = np.array([[2.0, 1.0, 3.0], [1.0, 3.0, 1.0]])


def case(build, runs, reference, *arrays, **more):
    return Case(build, runs, reference, arrays or (X,), **more)


def integers(*values):
    return popxl.constant(np.array(values, np.int32))


def in_place(op):
    """The value that the first tensor has afterwards."""

    def build(t, *rest):
        op(t, *rest)
        return ops.identity(t)

    return build


def through_host(t):
    stream = popxl.d2h_stream(t.shape, t.dtype)
    ops.host_store(stream, t)
    return t


def through_remote(t):
    buffer = popxl.remote_buffer(t.shape, t.dtype)
    ops.remote_store(buffer, 0, t)
    return ops.remote_load(buffer, 0)


def into_remote(t):
    buffer = popxl.remote_buffer(t.shape, t.dtype)
    ops.remote_store(buffer, 0, t)
    return ops.remote_load_(buffer, 0, ops.init(t.shape, t.dtype))


TABLE: dict[str, Case] = {}
for name, function in FUNCTIONS.items():
    TABLE[name] = case(getattr(ops, name), FLOAT, function)
for name in ("exp_", "gelu_", "geluerf_", "swish_"):
    TABLE[name] = case(in_place(getattr(ops, name)), FLOAT, FUNCTIONS[name[:-1]])
for name, function in ON_ARITHMETIC.items():
    TABLE[name] = case(getattr(ops, name), ARITHMETIC, function)
for name, function in ON_NUMBERS.items():
    TABLE[name] = case(getattr(ops, name), NUMBER, function)
for name, function in BINARY.items():
    TABLE[name] = case(getattr(ops, name), ARITHMETIC, function, X, Y)
for name, function in MOVES.items():
    TABLE[name] = case(getattr(ops, name), ALL, function)
for layer, gates, module in (
    (ops.lstm, 4, torch.nn.LSTM),
    (ops.gru, 3, torch.nn.GRU),
    (ops.rnn, 1, torch.nn.RNN),
):
    TABLE[layer.__name__] = case(
        lambda t, *weights, layer=layer: layer(t, [weights])[0],
        FLOAT,
        recurrent(module),
        X[:, None] / 4,
        Y[:1].repeat(gates, 0) / 4,
        np.ones((gates, 1)) / 2,
        unbuilt=("float8_143",),
    )
# Its constant 2 is no float8.
TABLE["log2"].unbuilt, TABLE["log2"].fault = ("float8_143",), TypeError
TABLE |= {
    "relu_": case(in_place(ops.relu_), ARITHMETIC, identity),
    "add_": case(in_place(ops.add_), ARITHMETIC, np.add, X, Y),
    "scaled_add_": case(in_place(ops.scaled_add_), ARITHMETIC, np.add, X, Y),
    "softmax": case(lambda t: ops.softmax(t, 1), FLOAT, softmax),
    "clip": case(lambda t: ops.clip(t, 1, 2), ARITHMETIC, lambda x: np.clip(x, 1, 2)),
    "clamp": case(lambda t: ops.clamp(t, 1, 2), ARITHMETIC, lambda x: np.clip(x, 1, 2)),
    "increment_mod": case(
        lambda t: ops.increment_mod(t, 2, 3), NUMBER, lambda x: np.fmod(x + 2, 3)
    ),
    "increment_mod_": case(
        in_place(lambda t: ops.increment_mod_(t, 2, 3)), NUMBER, lambda x: np.fmod(x + 2, 3)
    ),
    "pow": case(ops.pow, NUMBER, np.power, X, Y),
    "equal": case(ops.equal, ARITHMETIC, np.equal, X, Y),
    "greater": case(ops.greater, ARITHMETIC, np.greater, X, Y),
    "logical_and": case(ops.logical_and, ALL, np.logical_and, X, Y),
    "logical_or": case(ops.logical_or, ALL, np.logical_or, X, Y),
    "logical_not": case(ops.logical_not, ALL, np.logical_not),
    "where": case(ops.where, ARITHMETIC, lambda c, x, y: np.where(c != 0, x, y), X - 1, X, Y),
    "cast": case(lambda t: ops.cast(t, popxl.float32), ALL, identity),
    "matmul": case(ops.matmul, FLOAT, np.matmul, X, Y.T, unbuilt=("float8_143",)),
    "matmul_pow2scaled": case(
        lambda a, b: ops.matmul_pow2scaled(a, b, popxl.constant(0, popxl.int32)),
        ("float8_143",),
        np.matmul,
        X,
        Y.T,
        unbuilt=ARITHMETIC,
        fault=TypeError,
    ),
    "pow2scale_cast_to_fp8": case(
        lambda t: ops.pow2scale_cast_to_fp8(t, popxl.constant(0, popxl.int32), popxl.float8_143),
        FLOAT,
        identity,
        unbuilt=("int32", "uint8", "bool", "float8_143"),
    ),
    "pow2scale_cast_from_fp8": case(
        lambda t: ops.pow2scale_cast_from_fp8(t, popxl.constant(0, popxl.int32), popxl.float32),
        ("float8_143",),
        identity,
        unbuilt=ARITHMETIC,
    ),
    "conv": case(ops.conv, FLOAT, conv, IMAGE, KERNEL),
    "conv_pow2scaled": case(
        lambda t, w: ops.conv_pow2scaled(t, w, popxl.constant(0, popxl.int32)),
        ("float8_143",),
        conv,
        IMAGE,
        KERNEL,
        unbuilt=ARITHMETIC,
        fault=TypeError,
    ),
    "conv_transpose": case(ops.conv_transpose, FLOAT, conv_transpose, IMAGE, KERNEL),
    "conv_transpose_pow2scaled": case(
        lambda t, w: ops.conv_transpose_pow2scaled(t, w, popxl.constant(0, popxl.int32)),
        ("float8_143",),
        conv_transpose,
        IMAGE,
        KERNEL,
        unbuilt=ARITHMETIC,
        fault=TypeError,
    ),
    "average_pool": case(
        lambda t: ops.average_pool(t, (2, 2)), FLOAT, pooled(torch.nn.functional.avg_pool2d), IMAGE
    ),
    "max_pool": case(
        lambda t: ops.max_pool(t, (2, 2)), FLOAT, pooled(torch.nn.functional.max_pool2d), IMAGE
    ),
    "adaptive_average_pool": case(
        lambda t: ops.adaptive_average_pool(t, (2, 2)),
        FLOAT,
        lambda x: torch.nn.functional.adaptive_avg_pool2d(torch.from_numpy(x), 2).numpy(),
        IMAGE,
    ),
    "adaptive_max_pool": case(
        lambda t: ops.adaptive_max_pool(t, (2, 2)),
        FLOAT,
        lambda x: torch.nn.functional.adaptive_max_pool2d(torch.from_numpy(x), 2).numpy(),
        IMAGE,
    ),
    "layer_norm": case(ops.layer_norm, FLOAT, lambda x, w, b: norm(x) * w + b, X, Y[0], Y[1]),
    "group_norm": case(
        lambda *ts: ops.group_norm(*ts, 1), FLOAT, lambda x, w, b: norm(x) * w + b, X, Y[0], Y[1]
    ),
    "batch_norm_inference": case(
        ops.batch_norm_inference,
        FLOAT,
        lambda x, *s: s[0] * (x - s[2]) / np.sqrt(s[3] + 1e-5) + s[1],
        IMAGE,
        *[np.array([value]) for value in (2.0, 1.0, 2.0, 3.0)],
    ),
    "batch_norm_training": case(
        lambda *ts: ops.batch_norm_training(*ts)[0],
        FLOAT,
        lambda x, w, b: w * (x - x.mean()) / np.sqrt(x.var() + 1e-5) + b,
        IMAGE,
        np.array([2.0]),
        np.array([1.0]),
    ),
    "interpolate": case(
        lambda t: ops.interpolate(t, (1.0, 1.0, 2.0, 1.0)), FLOAT, lambda x: x.repeat(2, 2), IMAGE
    ),
    "roi_align": case(
        lambda t, r: ops.roi_align(t, r, integers(0), (1, 1), 1.0, 1),
        FLOAT,
        # One sample in the middle of a region whose rows are alike.
        lambda x, r: np.array([[[[x[0, 0, 0, 1] + 0.5]]]]),
        IMAGE,
        np.array([[0.0, 0.0, 3.0, 3.0]]),
    ),
    "topk": case(
        lambda t: ops.topk(t, 2, 1, True, True)[0], ARITHMETIC, lambda x: -np.sort(-x, 1)[:, :2]
    ),
    "sort": case(lambda t: ops.sort(t)[0], ARITHMETIC, np.sort),
    "argsort": case(ops.argsort, ARITHMETIC, lambda x: np.argsort(x, kind="stable")),
    "bucketize": case(
        ops.bucketize, ARITHMETIC, lambda x, b: np.searchsorted(b, x), X, np.array([0.0, 1.0])
    ),
    "cumprod": case(ops.cumprod, NUMBER, lambda x: np.cumprod(x, 0)),
    "cumsum": case(lambda t: ops.cumsum(t, 1), NUMBER, lambda x: np.cumsum(x, 1)),
    "histogram": case(
        lambda t: ops.histogram(t, [1.5, 2.5], False),
        FLOAT,
        lambda x: np.histogram(x, [-np.inf, 1.5, 2.5, np.inf])[0],
    ),
    "erfc": case(ops.erfc, FLOAT, special.erfc, X - 1),
    "pad": case(
        lambda t: ops.pad(t, [(1, 0), (0, 2)]), ARITHMETIC, lambda x: np.pad(x, ((1, 0), (0, 2)))
    ),
    "unfold": case(lambda t: ops.unfold(t, (2, 2)), ARITHMETIC, unfolded, IMAGE),
    "fold": case(
        lambda t: ops.fold(t, (3, 3), (2, 2)), NUMBER, folded, 1 + np.arange(16.0).reshape(1, 4, 4)
    ),
    "triangular_solve": case(
        ops.triangular_solve,
        FLOAT,
        np.linalg.solve,
        np.array([[2.0, 0.0], [1.0, 4.0]]),
        np.array([[2.0], [4.0]]),
    ),
    "grouped_matmul": case(
        lambda x, w: ops.grouped_matmul(x, w, popxl.constant([1, 2], popxl.int32)),
        FLOAT,
        lambda x, w: np.stack([x[0] @ w[0], x[1] @ w[1], 0 * w[0, 0]]),
        np.arange(6.0).reshape(3, 2),
        np.arange(8.0).reshape(2, 2, 2),
    ),
    "grouped_outer": case(
        lambda x, y: ops.grouped_outer(x, y, popxl.constant([1, 3], popxl.int32)),
        FLOAT,
        lambda x, y: np.stack([x[:1].T @ y[:1], x[1:].T @ y[1:]]),
        np.arange(6.0).reshape(3, 2),
        np.arange(3.0).reshape(3, 1),
    ),
    "cholesky": case(ops.cholesky, FLOAT, np.linalg.cholesky, np.array([[4.0, 2.0], [2.0, 5.0]])),
    # Two steps in which all classes are alike: three of nine alignments stand for one label.
    "ctc_loss": case(
        lambda p: ops.ctc_loss(
            p, popxl.constant([[1]], popxl.int32), integers(2), integers(1), reduction="none"
        ),
        FLOAT,
        lambda p: -np.log([3 * np.exp(2 * p[0, 0, 0])]),
        np.ones((2, 1, 3)),
    ),
    "ctc_beam_search": case(
        lambda p: ops.ctc_beam_search(p, integers(2))[0],
        FLOAT,
        lambda p: np.log([[3 * np.exp(2 * p[0, 0, 0])]]),
        np.ones((2, 1, 3)),
    ),
    "reshape": case(lambda t: ops.reshape(t, (3, 2)), ALL, lambda x: x.reshape(3, 2)),
    "reshape_": case(lambda t: ops.reshape_(t, (3, 2)), ALL, lambda x: x.reshape(3, 2)),
    "concat": case(lambda *ts: ops.concat(ts), ALL, lambda *xs: np.concatenate(xs), X, Y),
    "concat_": case(lambda *ts: ops.concat_(ts), ALL, lambda *xs: np.concatenate(xs), X, Y),
    "split": case(lambda t: ops.split(t, 2)[1], ALL, lambda x: x[1:]),
    "slice": case(lambda t: ops.slice(t, 1, 2), ALL, lambda x: x[1:2]),
    "slice_": case(lambda t: ops.slice_(t, 1, 2), ALL, lambda x: x[1:2]),
    "subsample": case(lambda t: ops.subsample(t, [1, 2]), ALL, lambda x: x[:, ::2]),
    "ipu_copy": case(lambda t: ops.ipu_copy(t, 1, 0), ALL, identity),
    "gather": case(lambda t: ops.gather(t, integers(1, 0)), ALL, lambda x: x[[1, 0]]),
    "tied_gather": case(lambda t: ops.tied_gather(t, integers(1)), ALL, lambda x: x[[1]]),
    "groupedgather": case(
        lambda t: ops.groupedgather(t, popxl.constant([[2], [0]], popxl.int32), 1, 2),
        ALL,
        lambda x: np.array([[x[0, 2]], [x[1, 0]]]),
    ),
    "scatter": case(
        lambda t, v: ops.scatter(t, popxl.constant([[1, 1, 1]], popxl.int32), v),
        ALL,
        row_written,
        X,
        Y[:1],
    ),
    "scatter_max": case(
        lambda t: ops.scatter_max(t, integers(1, 1), axis_size=2)[0],
        ARITHMETIC,
        lambda x: np.stack([0 * x[0], x.max(0)]),
    ),
    "scatter_min": case(
        lambda t: ops.scatter_min(t, integers(1, 1), axis_size=2)[0],
        ARITHMETIC,
        lambda x: np.stack([0 * x[0], x.min(0)]),
    ),
    "scatter_reduce": case(
        lambda t: ops.scatter_reduce(t, integers(1, 1), "sum", axis_size=2),
        NUMBER,
        lambda x: np.stack([0 * x[0], x[0] + x[1]]),
    ),
    "onehot": case(
        lambda v: ops.onehot(integers(2, 0), popxl.constant(3), v, -1),
        ARITHMETIC,
        lambda v: np.array([[v[0], v[0], v[1]], [v[1], v[0], v[0]]]),
        np.array([1.0, 2.0]),
    ),
    "dynamic_slice": case(
        lambda t: ops.dynamic_slice(t, integers(1), [0], [1], True), ALL, lambda x: x[1:]
    ),
    "dynamic_update": case(
        lambda t, u: ops.dynamic_update(t, integers(1), u, [0], [1], True),
        ALL,
        row_written,
        X,
        Y[:1],
    ),
    "dynamic_update_": case(
        in_place(lambda t, u: ops.dynamic_update_(t, integers(1), u, [0], [1], True)),
        ALL,
        row_written,
        X,
        Y[:1],
    ),
    "nll_loss": case(
        lambda p: ops.nll_loss(p, integers(1, 0)),
        FLOAT,
        lambda p: -np.log([p[0, 1], p[1, 0]]).mean(),
    ),
    "nll_loss_with_softmax_grad": case(
        lambda p: ops.nll_loss_with_softmax_grad(p, integers(1, 0))[1],
        FLOAT,
        lambda p: (p - [[0, 1, 0], [1, 0, 0]]) / 2,
    ),
    "scaled_dot_product_attention": case(
        ops.scaled_dot_product_attention,
        FLOAT,
        lambda q, k, v: softmax(q @ k.T / 3**0.5) @ v,
        X,
        Y,
        X,
    ),
    # Without a drawn element that is dropped, and with all scaled by 1.
    "dropout": case(lambda t: ops.dropout(t, popxl.constant(SEED), p=0.0), FLOAT, identity),
    "shaped_dropout": case(
        lambda t: ops.shaped_dropout(t, popxl.constant(SEED), (1, 3), ratio=0.0), FLOAT, identity
    ),
    "random_uniform": case(
        lambda t: ops.random_uniform(popxl.constant(SEED), (2, 3), 2.0, 2.0, t.dtype) + t,
        FLOAT,
        lambda x: 2 + x,
    ),
    "random_normal": case(
        lambda t: ops.random_normal(popxl.constant(SEED), (2, 3), 2.0, 0.0, t.dtype) + t,
        FLOAT,
        lambda x: 2 + x,
    ),
    "init": case(lambda t: ops.init(t.shape, t.dtype), ALL, np.zeros_like),
    "host_load": case(through_host, ALL, identity),
    "remote_load": case(through_remote, ALL, identity),
    "remote_load_": case(into_remote, ALL, identity),
    "var_updates.accumulate_": case(
        in_place(lambda t, x: var_updates.accumulate_(t, x)), ARITHMETIC, np.add, X, Y
    ),
    "var_updates.accumulate_mean_": case(
        in_place(lambda t, x: var_updates.accumulate_mean_(t, x, 1.0)),
        FLOAT,
        lambda x, y: (x + y) / 2,
        X,
        Y,
    ),
    "var_updates.accumulate_square_": case(
        in_place(var_updates.accumulate_square_), FLOAT, lambda x, y: x + y * y, X, Y
    ),
    "var_updates.accumulate_moving_average_": case(
        in_place(lambda t, x: var_updates.accumulate_moving_average_(t, x, 0.5)),
        FLOAT,
        lambda x, y: 0.5 * x + 0.5 * y,
        X,
        Y,
    ),
    "var_updates.accumulate_moving_average_square_": case(
        in_place(lambda t, x: var_updates.accumulate_moving_average_square_(t, x, 0.5)),
        FLOAT,
        lambda x, y: 0.5 * x + 0.5 * y * y,
        X,
        Y,
    ),
    "var_updates.sparse_accumulate_": case(
        in_place(lambda t, x: var_updates.sparse_accumulate_(t, x, integers(1, 1))),
        FLOAT,
        lambda x, y: np.stack([x[0], x[1] + y[0] + y[1]]),
        X,
        Y,
    ),
    "var_updates.sparse_adam_": case(
        in_place(
            lambda t, x: var_updates.sparse_adam_(
                t, x * 1.0, x + 1.0, x, integers(1, 7), learning_rate=0.5, beta1=0.5, beta2=0.5
            )
        ),
        FLOAT,
        lambda x, y: np.stack(
            [
                x[0],
                x[1] - 0.25 * (y[0] + y[1]) / (np.sqrt((y[1] + 1 + y[0] ** 2) / 2) + 1e-7),
            ]
        ),
        X,
        Y,
    ),
    "var_updates.accumulator_scale_": case(
        in_place(lambda t: var_updates.accumulator_scale_(t, 2.0)), ARITHMETIC, lambda x: 2 * x
    ),
    "var_updates.accumulator_zero_": case(
        in_place(var_updates.accumulator_zero_), ARITHMETIC, lambda x: 0 * x
    ),
    "var_updates.copy_var_update_": case(
        in_place(var_updates.copy_var_update_), ALL, lambda x, y: y, X, Y
    ),
    "var_updates.adam_updater": case(var_updates.adam_updater, FLOAT, adam, X, Y),
    "var_updates.lamb_updater": case(var_updates.lamb_updater, FLOAT, adam, X, Y),
    "var_updates.adamax_updater": case(
        lambda m, v: var_updates.adamax_updater(
            m, v, time_step=popxl.variable(np.float32(0)), beta1=0.5
        ),
        FLOAT,
        lambda m, v: 2 * m / (v + 1e-7),
        X,
        Y,
    ),
    "var_updates.adam_var_update": case(
        in_place(
            lambda t, x: var_updates.adam_var_update(
                t, x, popxl.constant(4.0), popxl.constant(1.0), 0.5
            )
        ),
        FLOAT,
        lambda t, x: t - x,
        X,
        Y,
    ),
}
for name in ("replicated_all_reduce", "replicated_all_gather", "replicated_slice"):
    TABLE[f"collectives.{name}"] = case(getattr(collectives, name), ALL, identity)
TABLE |= {
    "collectives.replicated_all_reduce_": case(
        in_place(collectives.replicated_all_reduce_), ALL, identity
    ),
    "collectives.replicated_reduce_scatter": case(
        collectives.replicated_reduce_scatter, ALL, np.ravel
    ),
    # The slice itself has a meta shape, which no stream takes.
    "collectives.replica_sharded_slice": case(
        lambda t: ops.reshape(collectives.replica_sharded_slice(t), (3, 2)),
        ALL,
        lambda x: x.reshape(3, 2),
    ),
    "collectives.all_reduce": case(
        lambda a, b: collectives.all_reduce([a, b], [0, 0])[0], ARITHMETIC, np.add, X, Y
    ),
}
TABLE["host_store"], TABLE["remote_store"] = TABLE["host_load"], TABLE["remote_load"]

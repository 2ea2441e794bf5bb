"""Ops of popxl_addons on one replica, against NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

import popart
import popxl
import popxl_addons as addons
from popxl import ops
from popxl.fp8_utils import host_fp8_mse_scale
from popxl_addons.ops import fp8_utils
from popxl_addons.ops.cross_entropy_sharded_wr_loss import cross_entropy_sharded_wr_loss
from popxl_addons.ops.fp8_mse_scale import fp8_mse_scale
from popxl_addons.ops.grad_reduce_square_add import grad_reduce_square_add
from popxl_addons.ops.group_quantize_decompress import (
    group_quantize_compress_numpy,
    group_quantize_decompress,
    group_quantize_decompress_numpy,
)
from popxl_addons.ops.linear_layout import linear_layout
from popxl_addons.ops.rotary_pos_embed import rotary_pos_embed, trig_table_constants, trig_tables
from popxl_addons.ops.static_sparse_ops import dense_const_sparse_matmul, random_sparse
from tests.python.popxl.replica_testing import load, store

RNG = np.random.default_rng(8)


def run(build: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """The outputs of build(*tensors); one alone if it gives one."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        loads = [load(a.shape, popxl.dtype.as_dtype(a.dtype)) for a in arrays]
        results = build(*(t for _, t in loads))
        single = isinstance(results, popxl.Tensor)
        streams = [store(t) for t in ([results] if single else results)]
    with popxl.Session(ir, "cpu") as session:
        given = session.run({s: a for (s, _), a in zip(loads, arrays, strict=True)})
    outputs = [given[stream] for stream in streams]
    return outputs[0] if single else outputs


@pytest.mark.parametrize("scaling", ["number", "tensor"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_grad_reduce_square_add(scaling: str, dtype: Any) -> None:
    x = RNG.normal(0, 4, (5, 3)).astype(dtype)

    def build(t: popxl.Tensor) -> popxl.Tensor:
        factor = 8.0 if scaling == "number" else popxl.constant(8.0, popxl.float32)
        return grad_reduce_square_add(t, factor)

    given = run(build, x)
    assert given.dtype == np.float32
    np.testing.assert_allclose(given, np.sum(x.astype(np.float64) ** 2) / 64, rtol=1e-5)


@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("leading", [(), (1,), (2,)])
def test_rotary_pos_embed(rotary_dim: int | None, leading: tuple[int, ...]) -> None:
    t = RNG.normal(size=(2, 5, 3, 8)).astype(np.float32)
    dy = RNG.normal(size=t.shape).astype(np.float32)
    width = rotary_dim or 8
    sin, cos = trig_tables(5, width)
    angles = np.arange(5)[:, None] * 10000.0 ** (-2 * np.arange(width // 2) / width)
    np.testing.assert_allclose(sin, np.sin(angles), rtol=1e-5, atol=1e-6)
    tables = [np.broadcast_to(a, (*leading, *a.shape)).copy() for a in (sin, cos)]

    def build(x: popxl.Tensor, *rest: popxl.Tensor) -> list[popxl.Tensor]:
        graph = popxl.gcg().ir.create_graph(rotary_pos_embed, x, *rest[:2], rotary_dim=rotary_dim)
        grad = addons.autodiff(graph, grads_required=graph.inputs[:1])
        call = ops.call_with_info(graph, x, *rest[:2])
        args = grad.grad_graph_info.inputs_dict(call)
        return [call.outputs[0], *grad.call(rest[2], args=args)]

    y, dx = run(build, t, *tables, dy)

    def turned(x: np.ndarray, direction: int) -> np.ndarray:
        values = x.astype(np.float64).copy()
        pairs = values[..., :width:2] + 1j * values[..., 1:width:2]
        pairs = pairs * np.exp(1j * direction * angles)[None, :, None, :]
        values[..., :width:2], values[..., 1:width:2] = pairs.real, pairs.imag
        return values

    np.testing.assert_allclose(y, turned(t, 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(dx, turned(dy, -1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_rotary_tables_are_computed_in_their_dtype(kind: str) -> None:
    dtype = np.dtype(kind)
    sin, cos = trig_tables(2048, 8, np_dtype=kind)
    assert sin.dtype == cos.dtype == dtype
    frequencies = [dtype.type(10000) ** (-dtype.type(2 * i) / dtype.type(8)) for i in range(4)]
    for position in (0, 1, 7, 1001, 2047):
        for i, frequency in enumerate(frequencies):
            angle = dtype.type(position) * frequency
            np.testing.assert_allclose(sin[position, i], np.sin(angle), atol=2 * np.finfo(kind).eps)
            np.testing.assert_allclose(cos[position, i], np.cos(angle), atol=2 * np.finfo(kind).eps)
    for arguments in ((4, 8, 500000), (70000, 8)):
        with pytest.raises(ValueError, match="float16 holds numbers up to 65504"):
            trig_tables(*arguments, np_dtype=np.float16)


def test_rotary_tables_and_errors() -> None:
    sin, cos = run(lambda: trig_table_constants(4, 6, 100))
    np.testing.assert_array_equal([sin, cos], trig_tables(4, 6, 100))
    with popxl.Ir().main_graph:
        t = popxl.variable(np.zeros((1, 4, 2, 6), np.float32))
        tables = trig_table_constants(4, 6)
        with pytest.raises(popart.popart_exception, match="even rotary_dim"):
            rotary_pos_embed(t, *tables, rotary_dim=3)
        with pytest.raises(AssertionError, match="rank 4"):
            rotary_pos_embed(tables[0], *tables)


@pytest.mark.parametrize("dim", [-1, 0])
@pytest.mark.parametrize("trailing", [True, False])
def test_group_quantize(dim: int, trailing: bool) -> None:
    weight = RNG.normal(size=(16, 24)).astype(np.float32)
    packed, scale, bias = group_quantize_compress_numpy(weight, 8, dim)
    rows, columns = (16, 24) if dim == -1 else (24, 16)
    assert (packed.shape, packed.dtype) == ((rows, columns // 8, 2), np.uint16)
    assert scale.shape == bias.shape == (rows, columns // 8, 1)
    assert scale.dtype == bias.dtype == np.float16
    host = group_quantize_decompress_numpy(packed, scale, bias, dim)
    assert host.shape == weight.shape
    # Half a step, and the rounding of scale and bias to float16.
    assert np.abs(host - weight).max() < 0.51 * float(scale.max()) + 0.01
    if not trailing:
        scale, bias = scale[..., 0], bias[..., 0]
    given = run(
        lambda t, s, b: group_quantize_decompress(t, s, b, dim),
        packed,
        scale.astype(np.float32),
        bias.astype(np.float32),
    )
    np.testing.assert_allclose(given, host, rtol=2e-3, atol=2e-3)


def test_group_quantize_by_hand() -> None:
    packed, scale, bias = group_quantize_compress_numpy(np.array([[0, 15, 1, 2.5]]), 4, -1)
    assert (packed.item(), scale.item(), bias.item()) == (0x0F12, 1, 0)
    with pytest.raises(ValueError, match="not all finite"):
        group_quantize_compress_numpy(np.array([[np.inf, 0, 0, 0]]), 4, -1)
    every = np.arange(65536, dtype=np.uint16).reshape(4, 4, -1)
    ones, zeros = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    given = run(group_quantize_decompress, every, ones, zeros)
    digits = (every[..., None] >> np.array([12, 8, 4, 0])) & 15
    np.testing.assert_array_equal(given, digits.reshape(4, -1))
    with popxl.Ir().main_graph:
        t = popxl.variable(every)
        one = popxl.variable(ones)
        with pytest.raises(ValueError, match="group_scale"):
            group_quantize_decompress(t, popxl.variable(ones[:2]), one)
        with pytest.raises(NotImplementedError, match="rank 3"):
            group_quantize_decompress(popxl.variable(every[0]), one, one)


def test_linear_layout() -> None:
    x = RNG.normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_array_equal(run(lambda t: linear_layout(t, 2), x), x)


@pytest.mark.parametrize("shape", [(5, 6), (1, 5, 6)])
def test_dense_const_sparse_matmul(shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape).astype(np.float32)
    np.random.seed(2)
    dense = RNG.normal(size=(6, 7)).astype(np.float32)
    sparse = random_sparse(dense, 0.4)
    assert sparse is dense and 0 < np.count_nonzero(dense) < 30
    weight = scipy.sparse.csr_matrix(sparse)
    given = run(lambda t: dense_const_sparse_matmul(t, weight, 7), x)
    np.testing.assert_allclose(given, x @ dense, rtol=1e-5, atol=1e-5)
    assert np.count_nonzero(random_sparse(np.ones(9), 0.0)) == 1
    with popxl.Ir().main_graph, pytest.raises(RuntimeError, match="float16, bfloat16 or float32"):
        dense_const_sparse_matmul(popxl.variable(np.zeros(shape, np.int32)), weight, 7)


@pytest.mark.parametrize(("dtype", "limit"), [(popxl.float8_143, 240), (popxl.float8_152, 57344)])
@pytest.mark.parametrize("largest", [0.0, 1e-30, 0.3, 1.0, 30.0, 240.0, 57344.0, 1e30])
def test_fp8_amax_scale(dtype: popxl.dtype, limit: float, largest: float) -> None:
    x = np.array([largest, -largest / 3, 0], np.float32)
    given = run(lambda t: addons.fp8_amax_scale(t, dtype), x)
    with np.errstate(divide="ignore"):
        wanted = np.clip(np.floor(np.log2(limit / np.float64(x[0]))), -31, 31)
    assert given.dtype == np.int32 and given == wanted


@pytest.mark.parametrize("dtype", [popxl.float8_143, popxl.float8_152])
@pytest.mark.parametrize(
    ("size", "kind"),
    [(1e-4, "float16"), (1.0, "float16"), (1e-7, "float32"), (1.0, "float32"), (1e5, "float32")],
)
def test_fp8_mse_scale(dtype: popxl.dtype, size: float, kind: str) -> None:
    rng = np.random.default_rng(3)
    for spread in (0.0, 1.0, 4.0):
        wide = np.exp(spread * rng.normal(size=300))
        x = np.clip(rng.normal(size=300) * wide * size, -6e4, 6e4).astype(kind)
        given = run(lambda t: fp8_mse_scale(t, dtype), x)
        assert given.dtype == np.int32 and given == host_fp8_mse_scale(x, dtype)[1]
    for x in (np.zeros((2, 3), kind), np.array([np.nan, 1], kind), np.full(3, 48, kind)):
        given = run(lambda t: fp8_mse_scale(t, dtype), x)
        assert given == host_fp8_mse_scale(x, dtype)[1]


def test_float8_formats() -> None:
    assert fp8_utils.float8_143_def.max_value == 240 and fp8_utils.float8_152_def[-1] == -17
    assert fp8_utils.ieee_fp16_denorms == fp8_utils.FpDef(5, 10, 15, True, True, 65504, 15, -14)
    assert fp8_utils.ieee_fp32_no_denorms.num_mantissa_bits == 23
    with popxl.Ir().main_graph:
        for function in (addons.fp8_amax_scale, fp8_mse_scale):
            with pytest.raises(RuntimeError, match="float16, bfloat16 or float32"):
                function(popxl.variable(np.zeros(3, np.int32)))
            with pytest.raises(RuntimeError, match="float8_143 or float8_152"):
                function(popxl.variable(np.zeros(3, np.float32)), popxl.float16)


def test_cross_entropy_sharded_within_a_replica() -> None:
    logits = RNG.normal(0, 3, (6, 10)).astype(np.float32)
    labels = np.array([0, 4, 9, 5, 4, 7], np.int32)
    dy = RNG.normal(size=6).astype(np.float32)

    def loss(a: popxl.Tensor, b: popxl.Tensor, ia: popxl.Tensor, ib: popxl.Tensor) -> popxl.Tensor:
        return cross_entropy_sharded_wr_loss([a, b], [ia, ib], [0, 1])

    def build(a: popxl.Tensor, b: popxl.Tensor, i: popxl.Tensor, g: popxl.Tensor) -> Any:
        tensors = (a, b.copy_to_ipu(1, 0), i, i.copy_to_ipu(1, 0))
        graph = popxl.gcg().ir.create_graph(loss, *tensors)
        grad = addons.autodiff(graph, grads_required=graph.inputs[:2])
        call = ops.call_with_info(graph, *tensors)
        args = grad.grad_graph_info.inputs_dict(call)
        return [call.outputs[0], *grad.call(g, args=args)]

    y, da, db = run(build, logits[:, :6].copy(), logits[:, 6:].copy(), labels, dy)
    x = torch.tensor(logits, requires_grad=True)
    wanted = torch.nn.functional.cross_entropy(x, torch.tensor(labels).long(), reduction="none")
    wanted.backward(torch.tensor(dy))
    np.testing.assert_allclose(y, wanted.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.concatenate([da, db], 1), x.grad, rtol=1e-4, atol=1e-6)
    with popxl.Ir().main_graph:
        t = popxl.variable(logits)
        i = popxl.variable(labels)
        with pytest.raises(ValueError, match="given 1 and 2"):
            cross_entropy_sharded_wr_loss([t], [i, i])
        with pytest.raises(ValueError, match="a device for each"):
            cross_entropy_sharded_wr_loss([t], [i], [0, 1])

"""Attention as one op, against PyTorch."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import popart
import popxl
from pando.session_info import memory_plan
from popxl import ops
from tests.python.popxl.ops.op_testing import check, check_gradient, outputs, random

attention = ops.scaled_dot_product_attention
Array = Any


def torch_attention(*arrays: Array, **settings: Any) -> Any:
    """With tensors or arrays; what arrays give is an array in their dtype, computed in float64."""
    tensors = [torch.as_tensor(a) for a in arrays]
    if isinstance(arrays[0], np.ndarray):
        tensors = [t.double() if t.is_floating_point() else t for t in tensors]
    q, k, v = tensors[:3]
    # PyTorch does not broadcast masks of less than two dimensions.
    mask = tensors[3].expand(*q.shape[:-1], k.shape[-2]) if len(tensors) > 3 else None
    if q.dim() > 2 and q.shape[-3] != k.shape[-3]:
        settings["enable_gqa"] = True
    result = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **settings)
    if isinstance(arrays[0], np.ndarray):
        return result.numpy().astype(arrays[0].dtype)
    return result


def qkv(
    heads: int,
    kv_heads: int,
    rows: int,
    keys: int,
    depth: int = 16,
    columns: int = 24,
    dtype: Any = np.float32,
) -> list[Array]:
    return [
        random(2, heads, rows, depth, dtype=dtype, seed=1),
        random(2, kv_heads, keys, depth, dtype=dtype, seed=2),
        random(2, kv_heads, keys, columns, dtype=dtype, seed=3),
    ]


SIZES = [(4, 4, 5, 7), (4, 2, 64, 128), (3, 1, 200, 131), (2, 2, 1, 300), (2, 2, 130, 1)]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_values(dtype: Any, sizes: tuple[int, ...], causal: bool) -> None:
    check(
        lambda q, k, v: attention(q, k, v, causal=causal),
        lambda q, k, v: torch_attention(q, k, v, is_causal=causal),
        *qkv(*sizes, dtype=dtype),
    )


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_gradients(sizes: tuple[int, ...], causal: bool) -> None:
    check_gradient(
        lambda q, k, v: attention(q, k, v, causal=causal, scale=0.2),
        lambda q, k, v: torch_attention(q, k, v, is_causal=causal, scale=0.2),
        *qkv(*sizes),
    )


@pytest.mark.parametrize("shape", [(2, 4, 30, 40), (4, 1, 40), (30, 1), (40,), ()], ids=str)
def test_added_masks_have_gradients(shape: tuple[int, ...]) -> None:
    arrays = [*qkv(4, 2, 30, 40), random(*shape, seed=4)]
    check(attention, torch_attention, *arrays)
    check_gradient(attention, torch_attention, *arrays)


def test_bool_masks() -> None:
    mask = np.random.default_rng(5).random((30, 40)) < 0.5
    mask[:, 7] = True
    check(attention, torch_attention, *qkv(4, 2, 30, 40), mask)
    check_gradient(attention, torch_attention, *qkv(4, 2, 30, 40), mask)


def test_masks_of_infinity() -> None:
    mask = np.where(np.tril(np.ones((30, 30))) > 0, 0, -np.inf).astype(np.float32)
    check(attention, torch_attention, *qkv(2, 2, 30, 30), mask)
    check_gradient(
        lambda q, k, v: attention(q, k, v, popxl.constant(mask)),
        lambda q, k, v: torch_attention(q, k, v, torch.from_numpy(mask)),
        *qkv(2, 2, 30, 30),
    )


def band(rows: int, keys: int, left: int | None, right: int | None, shift: int) -> Array:
    distance = np.arange(keys) - (np.arange(rows)[:, None] + shift)
    kept = np.ones((rows, keys), bool)
    if left is not None:
        kept &= distance >= -left
    if right is not None:
        kept &= distance <= right
    return kept


@pytest.mark.parametrize(("rows", "keys"), [(150, 150), (40, 300)])
@pytest.mark.parametrize("window", [(3, 0), (None, 2), (200, 5), (1, None)], ids=str)
@pytest.mark.parametrize("alignment", ["top_left", "bottom_right"])
def test_windows(rows: int, keys: int, window: Any, alignment: str) -> None:
    mask = band(rows, keys, *window, keys - rows if alignment == "bottom_right" else 0)
    kept = torch.from_numpy(mask)
    arrays = qkv(2, 1, rows, keys)

    def build(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
        return attention(q, k, v, window=window, alignment=alignment)

    check(build, lambda q, k, v: torch_attention(q, k, v, kept), *arrays)
    check_gradient(build, lambda q, k, v: torch_attention(q, k, v, kept), *arrays)


def test_causal_limits_a_window() -> None:
    kept = torch.from_numpy(band(20, 20, 4, 0, 0))
    check(
        lambda q, k, v: attention(q, k, v, causal=True, window=(4, 9)),
        lambda q, k, v: torch_attention(q, k, v, kept),
        *qkv(2, 2, 20, 20),
    )


def test_rows_that_see_nothing_are_zero() -> None:
    q, k, v = qkv(1, 1, 10, 4)
    (given,) = outputs(
        lambda q, k, v: attention(q, k, v, causal=True, alignment="bottom_right"), q, k, v
    )
    assert not given[:, :, :6].any()
    np.testing.assert_allclose(given[:, :, 6], v[:, :, 0], rtol=1e-6)


def dropped(q: Any, k: Any, v: Any, kept: Any) -> Any:
    q, k, v = (torch.as_tensor(t) for t in (q, k, v))
    weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
    return weights * torch.as_tensor(kept) @ v


def test_dropout_drops_what_the_op_dropout_does() -> None:
    q, k, v = qkv(3, 3, 70, 140)
    seed, p = np.array([7, 9], np.uint32), 0.3
    (kept,) = outputs(
        lambda t: ops.dropout(t, popxl.constant(seed), p), np.ones((2, 3, 70, 140), np.float32)
    )

    def build(q: popxl.Tensor, k: popxl.Tensor, v: popxl.Tensor) -> popxl.Tensor:
        return attention(q, k, v, p=p, seed_tensor=popxl.constant(seed))

    check(build, lambda q, k, v: dropped(q, k, v, kept).numpy(), q, k, v)
    check_gradient(build, lambda q, k, v: dropped(q, k, v, kept), q, k, v)


@pytest.mark.parametrize("length", [0, 1, 129, 200, 1000])
def test_keys_from_the_length_on_are_not_read(length: int) -> None:
    q, k, v = qkv(2, 1, 3, 200)
    there = min(length, 200)
    k[:, :, there:] = v[:, :, there:] = np.nan
    (given,) = outputs(
        lambda q, k, v: attention(q, k, v, length=popxl.constant(length, popxl.int32)), q, k, v
    )
    if there == 0:
        assert not given.any()
        return
    wanted = torch_attention(q, k[:, :, :there], v[:, :, :there])
    np.testing.assert_allclose(given, wanted, rtol=2e-5, atol=2e-5)


def test_views_are_not_copied() -> None:
    """Heads taken out of (batch, tokens, heads, depth), as most programs do."""
    arrays = [random(2, 40, 3, 16, seed=i) for i in range(3)]
    check(
        lambda *ts: attention(*(ops.transpose(t, (0, 2, 1, 3)) for t in ts), causal=True),
        lambda *ts: torch_attention(*(t.transpose(0, 2, 1, 3) for t in ts), is_causal=True),
        *arrays,
    )
    check_gradient(
        lambda *ts: attention(*(ops.transpose(t, (0, 2, 1, 3)) for t in ts)),
        lambda *ts: torch_attention(*(t.transpose(1, 2) for t in ts)),
        *arrays,
    )


FAULTS: list[tuple[Any, type[Exception], str]] = [
    (lambda q, k, v: attention(q, k[:, :, :, :8], v), popart.popart_exception, "depth"),
    (lambda q, k, v: attention(q, k[:, :, :3], v), popart.popart_exception, "keys"),
    (lambda q, k, v: attention(q[:, :3], k, v), popart.popart_exception, "multiple"),
    (lambda q, k, v: attention(ops.cast(q, popxl.float16), k, v), popart.popart_exception, "dtype"),
    (lambda q, k, v: attention(q, k, v, q), popart.popart_exception, "broadcasts to"),
    (lambda q, k, v: attention(q, k, v, p=0.5), popart.popart_exception, "seed"),
    (lambda q, k, v: attention(q, k, v, length=q), popart.popart_exception, "length"),
    (lambda q, k, v: attention(q, k, v, p=1.0), ValueError, "p < 1"),
    (lambda q, k, v: attention(q, k, v, window=(-2, 0)), ValueError, "window"),
    (lambda q, k, v: attention(q, k, v, alignment="middle"), ValueError, "alignment"),
    (lambda q, k, v: attention(q, k, 3), TypeError, "`v` is not a Tensor"),
]


@pytest.mark.parametrize(("build", "kind", "text"), FAULTS, ids=[text for _, _, text in FAULTS])
def test_faults(build: Any, kind: type[Exception], text: str) -> None:
    with popxl.Ir().main_graph:
        tensors = [popxl.variable(a) for a in qkv(4, 2, 5, 7)]
        with pytest.raises(kind, match=re.escape(text)):
            build(*tensors)


def test_memory_grows_with_tokens() -> None:
    """No matrix of scores: four times the tokens need about four times the memory, not sixteen."""

    def peak(tokens: int) -> int:
        ir = popxl.Ir()
        with ir.main_graph:
            inputs = [popxl.variable(random(2, tokens, 32, seed=i)) for i in range(3)]
            graph = ir.create_graph(lambda *ts: attention(*ts, causal=True), *inputs)
            info = popxl.transforms.autodiff(graph)
            call = ops.call_with_info(graph, *inputs)
            seed = popxl.constant(np.ones((2, tokens, 32), np.float32))
            for t in ops.call(info.graph, seed, inputs_dict=info.inputs_dict(call)):
                ops.host_store(popxl.d2h_stream(t.shape, t.dtype), t)
        with popxl.Session(ir, "cpu") as session:
            return memory_plan(session).peak_bytes

    assert peak(4096) < 6 * peak(1024)


class Decoder:
    """One layer of attention with a cache of keys and values: a token, or several, at a time."""

    def __init__(self, tokens: int, step: int) -> None:
        self.step = step
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.sources = [popxl.h2d_stream((4, step, 16), popxl.float32) for _ in range(3)]
            q, k, v = (ops.host_load(stream) for stream in self.sources)
            position = popxl.variable(0, popxl.int32)
            for name, new in (("keys", k), ("values", v)):
                cache = popxl.variable(np.full((4, tokens, 16), np.nan, np.float32), name=name)
                ops.dynamic_update_(cache, ops.reshape(position, (1,)), new, [1], [step], True)
                setattr(self, name, cache)
            ops.var_updates.accumulate_(position, popxl.constant(step, popxl.int32))
            out = attention(
                q,
                self.keys,
                self.values,
                causal=True,
                alignment="bottom_right",
                length=position,
            )
            self.out = popxl.d2h_stream(out.shape, out.dtype)
            ops.host_store(self.out, out)

    keys: popxl.Tensor
    values: popxl.Tensor

    def run(self, q: Array, k: Array, v: Array) -> Array:
        parts = []
        with popxl.Session(self.ir, "cpu") as session:
            for first in range(0, q.shape[1], self.step):
                part = slice(first, first + self.step)
                given = (np.ascontiguousarray(t[:, part]) for t in (q, k, v))
                parts.append(session.run(dict(zip(self.sources, given, strict=True)))[self.out])
        return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("step", [1, 3])
def test_tokens_one_after_the_other_equal_the_full_pass(step: int) -> None:
    q, k, v = (random(4, 150, 16, seed=seed) for seed in range(3))
    given = Decoder(150, step).run(q, k, v)
    wanted = torch_attention(q, k, v, is_causal=True)
    np.testing.assert_allclose(given, wanted, rtol=2e-5, atol=2e-5)

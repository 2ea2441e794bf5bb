"""GroupNorm, Embedding, Conv2D and the quantised layer, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import popxl
from popxl import ops
from popxl.fp8_utils import (
    host_fp8_mse_scale,
    host_pow2scale_cast_from_fp8,
    host_pow2scale_cast_to_fp8,
)
from popxl_addons.layers import Conv2D, Embedding, GroupNorm
from popxl_addons.layers.linear_fp8 import LinearFP8
from popxl_addons.layers.linear_gq import LinearGQ
from popxl_addons.ops.group_quantize_decompress import (
    group_quantize_compress_numpy,
    group_quantize_decompress_numpy,
)
from popxl_addons.testing_utils import TensorInput, run_module

RNG = np.random.default_rng(12)


def check(module: Any, layer: torch.nn.Module, x: np.ndarray) -> None:
    (y,) = run_module(module, TensorInput(x), weights=lambda v: module.torch_mapping(v, layer))
    wanted = layer(torch.tensor(x)).detach()
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 6), (2, 6, 4), (2, 6, 3, 5)])
def test_group_norm(shape: tuple[int, ...]) -> None:
    layer = torch.nn.GroupNorm(3, 6, eps=1e-3)
    with torch.no_grad():
        layer.weight.normal_()
        layer.bias.normal_()
    check(GroupNorm(3, eps=1e-3), layer, RNG.normal(size=shape).astype(np.float32))


@pytest.mark.parametrize(
    ("options", "torch_options"),
    [
        ({}, {}),
        ({"bias": False, "strides": (2, 1)}, {"bias": False, "stride": (2, 1)}),
        (
            {"paddings": (1, 2, 1, 2), "dilations": (2, 1), "groups": 2},
            {"padding": (1, 2), "dilation": (2, 1), "groups": 2},
        ),
        ({"paddings": "same_upper"}, {"padding": "same"}),
        ({"paddings": "valid"}, {"padding": "valid"}),
    ],
)
def test_conv2d(options: dict[str, Any], torch_options: dict[str, Any]) -> None:
    layer = torch.nn.Conv2d(4, 6, (3, 3), **torch_options)
    check(Conv2D(6, (3, 3), **options), layer, RNG.normal(size=(2, 4, 9, 8)).astype(np.float32))


def test_conv2d_refuses_unknown_paddings() -> None:
    with pytest.raises(ValueError, match="given 'round'"):
        Conv2D(6, 3, paddings="round")


def test_embedding() -> None:
    layer = Embedding(popxl.float32, 40, 6)
    assert (layer.vocab_shard_size, layer.n_shards, list(layer.offsets)) == (48, 1, [0])
    table = RNG.normal(size=(48, 6)).astype(np.float32)
    indices = np.array([[3, 0], [39, 7]], np.int32)
    (y,) = run_module(layer, TensorInput(indices), weights=lambda v: {v.weight: table})
    np.testing.assert_array_equal(y, table[indices])
    assert Embedding.get_vocab_shard_size(100, 4) == 32
    assert list(Embedding.get_offsets(100, 4)) == [0, 32, 64, 96]


def test_sharded_embedding_gives_zeros_out_of_range() -> None:
    ir = popxl.Ir(replication=2)
    indices = np.array([0, 15, 16, 19], np.int32)
    with ir.main_graph, popxl.in_sequence():
        grouping = ir.replica_grouping(group_size=1)
        layer = Embedding(popxl.float32, 20, 3, replica_grouping=grouping)
        assert (layer.n_shards, list(layer.offsets)) == (2, [0, 16])
        stream = popxl.h2d_stream((4,), popxl.int32)
        t = popxl.ops.host_load(stream)
        facts, graph = layer.create_graph(t)
        variables = facts.init()
        (y,) = graph.bind(variables).call(t)
        out = popxl.d2h_stream(y.shape, y.dtype)
        popxl.ops.host_store(out, y)
    with popxl.Session(ir, "cpu") as session:
        parts = session.run({stream: indices - layer.offsets[:, None].astype(np.int32)})[out]
        table = session.get_tensor_data(variables.weight).reshape(32, 3)
    np.testing.assert_array_equal(parts.sum(axis=0), table[indices])
    assert not parts[0, 2:].any() and not parts[1, :2].any()


@pytest.mark.parametrize("dim", [-1, 0])
def test_linear_gq(dim: int) -> None:
    layer = torch.nn.Linear(16, 8)
    x = RNG.normal(size=(3, 16)).astype(np.float32)
    (y,) = run_module(
        LinearGQ(8, group_size=8, dim=dim),
        TensorInput(x),
        weights=lambda v: LinearGQ.torch_mapping(v, layer, group_size=8, dim=dim),
    )
    weight = layer.weight.T.detach().numpy()
    packed, scale, bias = group_quantize_compress_numpy(weight, 8, dim)
    close = group_quantize_decompress_numpy(
        packed, scale.astype(np.float32), bias.astype(np.float32), dim
    )
    np.testing.assert_allclose(y, x @ close + layer.bias.detach().numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="group_size"):
        LinearGQ(8)


def in_float8(x: np.ndarray, dtype: popxl.dtype, log2_scale: int) -> np.ndarray:
    """What is left of `x` after a cast and back."""
    codes = host_pow2scale_cast_to_fp8(x, dtype, log2_scale)
    return host_pow2scale_cast_from_fp8(codes, popxl.float64, -log2_scale)


def amax_scale(x: np.ndarray, limit: float) -> int:
    return int(np.clip(np.floor(np.log2(limit / np.abs(x).max())), -31, 31))


@pytest.mark.parametrize("metric", ["amax", "mse", "manual_scale"])
@pytest.mark.parametrize(
    ("size", "shape", "dtype"), [(1.0, (6, 8), np.float16), (1e-3, (2, 3, 8), np.float32)]
)
def test_linear_fp8(metric: str, size: float, shape: tuple[int, ...], dtype: type) -> None:
    layer = torch.nn.Linear(8, 5)
    x = (RNG.normal(size=shape) * size).astype(dtype)
    dy = (RNG.normal(size=(*shape[:-1], 5)) * size**2).astype(dtype)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x_t, dy_t = popxl.variable(x), popxl.variable(dy)
        module = LinearFP8(5, scale_metric=metric, scale=4)
        facts, forward = module.create_graph(x_t)
        backward = forward.autodiff()
        variables = facts.init()
        info = forward.bind(variables).call_with_info(x_t)
        args = backward.grad_graph_info.inputs_dict(info)
        outputs = [info.outputs[0], *backward.call(dy_t, args=args)]
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in outputs]
        for stream, t in zip(streams, outputs, strict=True):
            ops.host_store(stream, t)
    session = popxl.Session(ir, "ipu_hw")
    weights = LinearFP8.torch_mapping(variables, layer, popxl.dtype.as_dtype(dtype))
    session.write_variables_data(weights)
    with session:
        found = session.run()
        y, dx, dw, db = (found[stream] for stream in streams)

    w, b = weights[variables.weight], weights[variables.bias]
    if metric == "amax":
        scales = amax_scale(x, 240), amax_scale(w, 240)
    elif metric == "mse":
        scales = tuple(host_fp8_mse_scale(a, popxl.float8_143)[1] for a in (x, w))
    else:
        scales = 4, 4
    x8 = in_float8(x, popxl.float8_143, scales[0]).reshape(6, 8)
    w8 = in_float8(w, popxl.float8_143, scales[1])
    dy8 = in_float8(dy, popxl.float8_152, amax_scale(dy, 57344) - 3).reshape(6, 5)

    def check(found: np.ndarray, wanted: np.ndarray) -> None:
        assert found.dtype == dtype
        largest = np.abs(wanted).max()
        np.testing.assert_allclose(
            found.reshape(wanted.shape), wanted, rtol=2e-3, atol=2e-3 * largest + 6e-8
        )

    assert y.shape == (*shape[:-1], 5) and dx.shape == shape
    check(y, x8 @ w8 + b)
    check(dx, dy8 @ w8.T)
    check(dw, x8.T @ dy8)
    check(db, dy.astype(np.float64).reshape(6, 5).sum(axis=0))


def test_linear_fp8_needs_a_known_metric_and_a_graph() -> None:
    with pytest.raises(ValueError, match="given 'most'"):
        LinearFP8(3, scale_metric="most")
    with popxl.Ir().main_graph, pytest.raises(Exception, match=r"build_grad|outline"):
        LinearFP8(3)(popxl.variable(np.ones((2, 4), np.float16)))

"""GroupNorm, Embedding, Conv2D and the quantised layer, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import popxl
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


def test_linear_fp8_says_that_it_is_not_available() -> None:
    with pytest.raises(ValueError, match="given 'most'"):
        LinearFP8(3, scale_metric="most")
    with popxl.Ir().main_graph, pytest.raises(NotImplementedError, match="LinearFP8"):
        LinearFP8(3).create_graph(popxl.TensorSpec((2, 4), popxl.float16))

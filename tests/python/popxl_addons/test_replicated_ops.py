"""Ops over replicas and their gradients, against the unsplit computation in PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import popart
import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.layers.layer_norm_distributed import LayerNormDistributed
from popxl_addons.ops.cross_entropy_sharded_loss import cross_entropy_sharded_loss
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed
from popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce,
    replicated_all_reduce_identical_grad_inputs,
    replicated_all_reduce_identical_inputs,
)
from popxl_addons.ops.replicated_strided_collectives import (
    replicated_all_gather_strided,
    replicated_all_reduce_strided,
    replicated_all_reduce_strided_graph,
    replicated_all_reduce_strided_identical_grad_inputs,
    replicated_all_reduce_strided_identical_inputs,
    replicated_reduce_scatter_strided,
)
from tests.python.popxl.replica_testing import members, replicated_values, run_replicas

GROUPINGS = [(2, 1, 2), (4, 1, 2), (4, 2, 2)]


def with_gradient(function: Callable[..., popxl.Tensor], **options: Any) -> Callable[..., Any]:
    """(output, gradients of all tensors) of function(*tensors); the last tensor given is dy."""

    def build(ir: popxl.Ir, *tensors: popxl.Tensor) -> list[popxl.Tensor]:
        *inputs, dy = tensors
        graph = ir.create_graph(function, *inputs, **options)
        differentiable = [t for t in graph.inputs if t.dtype in (popxl.float32, popxl.float16)]
        info = addons.autodiff(graph, grads_required=differentiable)
        call = ops.call_with_info(graph, *inputs)
        forwarded = info.grad_graph_info.inputs_dict(call)
        return [call.outputs[0], *info.call(dy, args=forwarded)]

    return build


def reduced(values: np.ndarray, grouping: tuple[int, int, int], op: str) -> np.ndarray:
    reduce = np.sum if op == "add" else np.mean
    return np.stack([reduce(values[group], axis=0) for group in members(*grouping)])


def test_both_paths_of_the_tensor_parallel_reductions() -> None:
    name = "replicated_all_reduce_TP"
    package = importlib.import_module(f"popxl_addons.ops.{name}")
    module = importlib.import_module(f"popxl_addons.ops.{name}.{name}")
    assert package is not module
    for function in (
        replicated_all_reduce,
        replicated_all_reduce_identical_grad_inputs,
        replicated_all_reduce_identical_inputs,
    ):
        assert getattr(package, function.__name__) is function
        assert getattr(module, function.__name__) is function


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize(
    ("function", "op", "forward", "backward"),
    [
        (replicated_all_reduce, "add", True, True),
        (replicated_all_reduce_identical_inputs, "add", False, True),
        (replicated_all_reduce_identical_grad_inputs, "add", True, False),
        (replicated_all_reduce_strided, "add", True, True),
        (replicated_all_reduce_strided, "mean", True, True),
        (replicated_all_reduce_strided_identical_inputs, "mean", False, True),
        (replicated_all_reduce_strided_identical_grad_inputs, "mean", True, False),
    ],
)
def test_differentiable_reductions(
    function: Any, op: str, forward: bool, backward: bool, grouping: tuple[int, int, int]
) -> None:
    replicas, stride, size = grouping
    x = replicated_values(replicas, 3, 2)
    dy = replicated_values(replicas, 3, 2, seed=1)

    def build(ir: popxl.Ir, *tensors: popxl.Tensor) -> Any:
        group = ir.replica_grouping(stride, size)
        return with_gradient(function, op=op, group=group)(ir, *tensors)

    y, dx = run_replicas(build, x, dy)
    np.testing.assert_array_equal(y, reduced(x, grouping, op) if forward else x)
    np.testing.assert_array_equal(dx, reduced(dy, grouping, op) if backward else dy)


def test_reductions_without_a_gradient_are_refused() -> None:
    with popxl.Ir(replication=2).main_graph:
        t = popxl.variable(np.zeros(2, np.float32))
        with pytest.raises(popart.popart_exception, match="'add'; given 'mean'"):
            replicated_all_reduce(t, "mean")
        with pytest.raises(popart.popart_exception, match="'add' or 'mean'; given 'max'"):
            replicated_all_reduce_strided(t, "max")
        with pytest.raises(popart.popart_exception, match="given 'max'"):
            replicated_reduce_scatter_strided(t, "max")


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("op", ["add", "mean"])
def test_scatter_and_gather_strided(grouping: tuple[int, int, int], op: str) -> None:
    replicas, stride, size = grouping
    x = replicated_values(replicas, 3, 3)

    def build(ir: popxl.Ir, t: popxl.Tensor) -> list[popxl.Tensor]:
        group = ir.replica_grouping(stride, size)
        part = replicated_reduce_scatter_strided(t, op, group)
        assert (part.shape, part.meta_shape) == ((5,), ())
        shard = replicated_reduce_scatter_strided(t, op, group, True)
        assert shard.meta_shape == (3, 3)
        whole = replicated_all_gather_strided(shard, group)
        assert (whole.shape, whole.meta_shape) == ((3, 3), ())
        return [part, whole, replicated_all_gather_strided(t, group)]

    part, whole, gathered = run_replicas(build, x)
    wanted = reduced(x, grouping, op)
    np.testing.assert_array_equal(whole, wanted)
    for replica, group in enumerate(members(*grouping)):
        padded = np.pad(wanted[replica].ravel(), (0, 1)).reshape(size, 5)
        np.testing.assert_array_equal(part[replica], padded[group.index(replica)])
        np.testing.assert_array_equal(gathered[replica], x[group].ravel())


def test_strided_graph() -> None:
    x, y = replicated_values(4, 2), replicated_values(4, 3, seed=1)

    def build(ir: popxl.Ir, *tensors: popxl.Tensor) -> Any:
        tree = addons.NamedTensors.from_dict({"b": tensors[0], "a.c": tensors[1]})
        graph, names = replicated_all_reduce_strided_graph(tree, "mean", ir.replica_grouping(2, 2))
        assert names == ["a.c", "b"] and list(graph.args.to_dict()) == names
        return graph.bind(tree).call()

    first, second = run_replicas(build, x, y)
    np.testing.assert_array_equal(first, reduced(y, (4, 2, 2), "mean"))
    np.testing.assert_array_equal(second, reduced(x, (4, 2, 2), "mean"))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignored", [None, 4])
def test_cross_entropy_sharded_loss(reduction: str, ignored: int | None) -> None:
    shards, samples, classes = 2, 6, 5
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 3, (samples, shards * classes)).astype(np.float32)
    labels = np.array([0, 4, 9, 5, 4, 7], np.int32)
    split = np.stack(np.split(logits, shards, axis=1))
    offsets = classes * np.arange(shards, dtype=np.int32)
    dy = np.ones((shards, *((samples,) if reduction == "none" else ())), np.float32)
    arrays = [split, labels - offsets[:, None]]
    if ignored is not None:
        arrays.append(ignored - offsets)

    def build(ir: popxl.Ir, *tensors: popxl.Tensor) -> Any:
        group = ir.replica_grouping()
        call = with_gradient(
            cross_entropy_sharded_loss, replica_grouping=group, reduction=reduction
        )
        return call(ir, *tensors)

    loss, gradient = run_replicas(build, *arrays, dy)
    x = torch.tensor(logits, requires_grad=True)
    wanted = torch.nn.functional.cross_entropy(
        x,
        torch.tensor(labels).long(),
        reduction=reduction,
        ignore_index=-100 if ignored is None else ignored,
    )
    wanted.sum().backward()
    assert x.grad is not None
    for value in loss:
        np.testing.assert_allclose(value, wanted.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(gradient, axis=1), x.grad, rtol=1e-4, atol=1e-6)


def test_cross_entropy_sharded_loss_refuses() -> None:
    with popxl.Ir().main_graph:
        logits = popxl.variable(np.zeros((3, 2), np.float32))
        labels = popxl.variable(np.zeros(3, np.int32))
        with pytest.raises(ValueError, match="given 'median'"):
            cross_entropy_sharded_loss(logits, labels, reduction="median")
        with pytest.raises(popart.popart_exception, match="wanted logits"):
            cross_entropy_sharded_loss(labels, labels)


def test_layer_norm_distributed() -> None:
    members_, samples, features = 2, 3, 8
    rng = np.random.default_rng(5)
    x, dy = (rng.normal(1, 2, (samples, features)).astype(np.float32) for _ in range(2))
    w, b = (rng.normal(0, 1, features).astype(np.float32) for _ in range(2))

    def split(a: np.ndarray) -> np.ndarray:
        return np.stack(np.split(a, members_, axis=-1))

    def build(ir: popxl.Ir, *tensors: popxl.Tensor) -> Any:
        call = with_gradient(layer_norm_distributed, epsilon=1e-3, group=ir.replica_grouping())
        return call(ir, *tensors)

    given = run_replicas(build, split(x), split(w), split(b), split(dy))
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, w, b)]
    y = torch.nn.functional.layer_norm(leaves[0], (features,), leaves[1], leaves[2], 1e-3)
    y.backward(torch.tensor(dy))
    wanted = [y.detach(), *(leaf.grad for leaf in leaves)]
    for mine, its in zip(given, wanted, strict=True):
        np.testing.assert_allclose(np.concatenate(mine, axis=-1), its, rtol=1e-4, atol=1e-5)
    with popxl.Ir().main_graph:
        t = popxl.variable(x)
        with pytest.raises(AssertionError, match="wanted w of shape"):
            layer_norm_distributed(t, t, t)


def test_layer_norm_distributed_layer() -> None:
    x = np.random.default_rng(6).normal(1, 2, (3, 8)).astype(np.float32)

    def build(ir: popxl.Ir, t: popxl.Tensor) -> Any:
        facts, graph = LayerNormDistributed(ir.replica_grouping()).create_graph(t)
        variables = facts.init()
        assert variables.weight.shape_on_host == (2, 4)
        return graph.bind(variables).call(t)

    given = run_replicas(build, np.stack(np.split(x, 2, axis=1)))
    wanted = torch.nn.functional.layer_norm(torch.tensor(x), (8,))
    np.testing.assert_allclose(np.concatenate(given, axis=1), wanted, rtol=1e-4, atol=1e-5)

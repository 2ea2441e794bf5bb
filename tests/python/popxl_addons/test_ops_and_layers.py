"""Cross entropy, layers and Adam, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import popxl
import popxl_addons as addons
from popxl_addons.layers import LayerNorm, Linear
from popxl_addons.optimizers import AdamOptimizerStep
from popxl_addons.testing_utils import TensorInput, run_module

RNG = np.random.default_rng(31)
LOGITS = RNG.normal(size=(6, 5)).astype(np.float32)
LABELS = np.array([0, 4, 2, 2, 1, 3], np.int32)


class CrossEntropy(addons.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def build(self, x: popxl.Tensor, labels: popxl.Tensor) -> list[popxl.Tensor]:
        loss, gradient = addons.ops.cross_entropy_with_grad(x, labels, **self.options)
        options = {k: v for k, v in self.options.items() if k != "loss_scaling"}
        return [addons.ops.cross_entropy(x, labels, **options), loss, gradient]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignore_index", [None, 2])
@pytest.mark.parametrize("loss_scaling", [1, 8.0])
def test_cross_entropy(reduction: str, ignore_index: int | None, loss_scaling: float) -> None:
    options = {
        "reduction": reduction,
        "ignore_index": ignore_index,
        "loss_scaling": loss_scaling,
    }
    inputs = (TensorInput(LOGITS), TensorInput(LABELS))
    alone, loss, gradient = run_module(CrossEntropy(**options), *inputs)
    x = torch.tensor(LOGITS, requires_grad=True)
    wanted = torch.nn.functional.cross_entropy(
        x,
        torch.tensor(LABELS).long(),
        reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index,
    )
    wanted.sum().backward()
    assert x.grad is not None
    for value in (alone, loss):
        assert value.shape == tuple(wanted.shape)
        np.testing.assert_allclose(value, wanted.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient, loss_scaling * x.grad, rtol=1e-4, atol=1e-6)


def test_unknown_reductions_are_refused() -> None:
    inputs = (TensorInput(LOGITS), TensorInput(LABELS))
    with pytest.raises(ValueError, match="reduction"):
        run_module(CrossEntropy(reduction="median"), *inputs)


def test_host_load_and_store() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        data, stream, x = addons.host_load(np.arange(3), popxl.float32, "x")
        assert (data.dtype, stream.tensor_id, x.shape) == (np.float32, "x_stream", (3,))
        out = addons.host_store(x + x)
        assert out.tensor_id.endswith("_stream")
    with popxl.Session(ir, "cpu") as session:
        assert session.run({stream: data})[out].tolist() == [0, 2, 4]


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias: bool) -> None:
    layer = torch.nn.Linear(5, 3, bias=bias)
    (y,) = run_module(
        Linear(3, bias), TensorInput(LOGITS), weights=lambda v: Linear.torch_mapping(v, layer)
    )
    np.testing.assert_allclose(y, layer(torch.tensor(LOGITS)).detach(), rtol=1e-5, atol=1e-6)


def test_linear_starts_within_two_deviations() -> None:
    with popxl.Ir().main_graph:
        factories, _ = Linear(50).create_graph(popxl.TensorSpec((2, 40), popxl.float32))
        weight = factories.weight.next_data()
        assert not factories.bias.next_data().any()
    assert weight.shape == (40, 50) and np.abs(weight).max() <= 0.04
    assert 0.015 < weight.std() < 0.02


def test_layer_norm() -> None:
    layer = torch.nn.LayerNorm(5)
    with torch.no_grad():
        layer.weight.normal_()
        layer.bias.normal_()
    (y,) = run_module(
        LayerNorm(), TensorInput(LOGITS), weights=lambda v: LayerNorm.torch_mapping(v, layer)
    )
    np.testing.assert_allclose(y, layer(torch.tensor(LOGITS)).detach(), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="rank 2"):
        run_module(LayerNorm(), TensorInput(LOGITS[None]))


@pytest.mark.parametrize(
    ("loss_scaling", "norm_max", "bias_correction"),
    [(1, None, True), (4.0, None, False), (2.0, 0.5, True), (1, 100.0, True)],
)
def test_adam_over_three_steps(
    loss_scaling: float, norm_max: float | None, bias_correction: bool
) -> None:
    start, grad = LOGITS.copy(), RNG.normal(size=LOGITS.shape).astype(np.float32)
    norm = float(np.linalg.norm(grad)) / loss_scaling
    ir = popxl.Ir()
    with ir.main_graph:
        var = popxl.variable(start, name="var")
        gradient = popxl.variable(grad, name="grad")
        rate = popxl.variable(np.float32(0.01), name="rate")
        limits: dict[str, Any] = {}
        tensors = [rate]
        if norm_max is not None:
            limits = {"global_norm": popxl.TensorSpec((), popxl.float32)}
            limits["global_norm_max"] = norm_max
            tensors.append(popxl.variable(np.float32(norm), name="norm"))
        factories, graph = AdamOptimizerStep().create_graph(
            var,
            gradient.spec,
            lr=rate.spec,
            first_order_dtype=popxl.float32,
            bias_correction=bias_correction,
            loss_scaling=loss_scaling,
            **limits,
        )
        graph.bind(factories.init()).call(var, gradient, *tensors)
    with popxl.Session(ir, "cpu") as session:
        for _ in range(3):
            session.run()
        result = session.get_tensor_data(var)

    g = grad.astype(np.float64) / loss_scaling
    if norm_max is not None:
        g *= norm_max / max(norm, norm_max)
    w, m, v = start.astype(np.float64), 0.0, 0.0
    for step in (1, 2, 3):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        corrections = (1 - 0.9**step, 1 - 0.999**step) if bias_correction else (1, 1)
        w = w - 0.01 * ((m / corrections[0]) / (np.sqrt(v / corrections[1]) + 1e-5) + 0.01 * w)
    np.testing.assert_allclose(result, w, rtol=1e-5, atol=1e-5)

"""Gradients, accumulated gradients and recomputation, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch

import popxl
import popxl_addons as addons
from popxl import ops

RNG = np.random.default_rng(21)
X = RNG.normal(size=(4, 5)).astype(np.float32)
WEIGHT = RNG.normal(size=(5, 3)).astype(np.float32)
BIAS = RNG.normal(size=(3,)).astype(np.float32)
SEED = RNG.normal(size=(4, 3)).astype(np.float32)


class Layer(addons.Module):
    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        weight = self.add_variable_input("weight", lambda: WEIGHT, popxl.float32)
        bias = self.add_variable_input("bias", lambda: BIAS, popxl.float32)
        return ops.gelu(x @ weight + bias)


def torch_gradients(x: np.ndarray, seed: np.ndarray) -> dict[str, np.ndarray]:
    values = {"x": x, "weight": WEIGHT, "bias": BIAS}
    tensors = {key: torch.tensor(value, requires_grad=True) for key, value in values.items()}
    y = torch.nn.functional.gelu(
        tensors["x"] @ tensors["weight"] + tensors["bias"], approximate="tanh"
    )
    grads = torch.autograd.grad(y, list(tensors.values()), torch.tensor(seed))
    return {key: grad.numpy() for key, grad in zip(tensors, grads, strict=True)}


@dataclass
class Built:
    forward: addons.GraphWithNamedArgs
    variables: addons.NamedTensors
    x: popxl.Tensor
    seed: popxl.Tensor


def run(build: Callable[[Built], dict[str, popxl.Tensor]], runs: int = 1) -> dict[str, np.ndarray]:
    """Values of the tensors that `build` returns, of the last run."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(X, name="x")
        seed = popxl.variable(SEED, name="seed")
        factories, forward = Layer().create_graph(x)
        results = build(Built(forward, factories.init(), x, seed))
        streams = {name: addons.host_store(tensor) for name, tensor in results.items()}
    with popxl.Session(ir, "cpu") as session:
        for _ in range(runs):
            outputs = session.run()
    return {name: outputs[stream] for name, stream in streams.items()}


def assert_gradients(values: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert values
    for name, value in values.items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("recompute", [False, True])
def test_autodiff(recompute: bool) -> None:
    def build(built: Built) -> dict[str, popxl.Tensor]:
        grad = addons.autodiff(built.forward)
        assert grad.graph.name == "Layer_subgraph(0)_bwd" and grad.args.keys() == []
        if recompute:
            grad = addons.recompute_graph(grad)
            assert grad.graph.name == "Layer_bwd_recomp_subgraph(1)"
            inputs = built.forward.graph.inputs
            kinds = grad.grad_graph_info.expected_inputs
            assert all(c.fwd_tensor in inputs for c in kinds[1:])
        call = built.forward.bind(built.variables).call_with_info(built.x)
        info = grad.grad_graph_info
        grad_call = grad.call_with_info(built.seed, args=info.inputs_dict(call))
        by_input = info.fwd_parent_ins_to_grad_parent_outs(call, grad_call)
        return {
            "x": by_input[built.x],
            "weight": by_input[built.variables.weight],
            "bias": by_input[built.variables.bias],
        }

    assert_gradients(run(build), torch_gradients(X, SEED))


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("with_dx", [False, True])
def test_accumulation_is_a_running_mean(with_dx: bool, recompute: bool) -> None:
    def build(built: Built) -> dict[str, popxl.Tensor]:
        inputs = built.forward.graph.inputs
        factories, grad = addons.autodiff_with_accumulation(
            built.forward,
            built.forward.args.tensors,
            grads_required=inputs[:1] if with_dx else None,
        )
        keys = ["mean_accum_counter", "accum.bias", "accum.weight"]
        assert factories.keys_flat() == grad.args.keys_flat() == keys
        if recompute:
            grad = addons.recompute_graph(grad)
        accumulators = factories.init()
        names = [t.name for t in accumulators.tensors]
        assert names == ["accum.bias", "accum.weight", "mean_accum_counter"]
        scaled = built.seed
        for _ in range(3):
            call = built.forward.bind(built.variables).call_with_info(built.x)
            info = grad.grad_graph_info
            bound = grad.bind(accumulators)
            outputs = bound.call(scaled, args=info.inputs_dict(call))
            assert len(outputs) == with_dx
            scaled = scaled * 2.0
        results = {
            "weight": accumulators.accum.weight,
            "bias": accumulators.accum.bias,
            "counter": accumulators.mean_accum_counter,
        }
        return results | ({"x": outputs[0]} if with_dx else {})

    values = run(build)
    assert values.pop("counter") == 3
    wanted = torch_gradients(X, SEED)
    mean = {key: wanted[key] * np.float32((1 + 2 + 4) / 3) for key in ("weight", "bias")}
    assert_gradients(values, mean | {"x": wanted["x"] * 4})


def test_a_counter_of_zero_starts_afresh() -> None:
    def build(built: Built) -> dict[str, popxl.Tensor]:
        factories, grad = addons.autodiff_with_accumulation(
            built.forward, [built.forward.args.weight]
        )
        accumulators = factories.init()
        ops.var_updates.accumulator_zero_(accumulators.mean_accum_counter)
        call = built.forward.bind(built.variables).call_with_info(built.x)
        grad.bind(accumulators).call(built.seed, args=grad.grad_graph_info.inputs_dict(call))
        return {"weight": accumulators.accum.weight}

    assert_gradients(run(build, runs=3), torch_gradients(X, SEED))


def test_accumulators_without_a_grouping_are_those_of_all_replicas() -> None:
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        _, forward = Layer().create_graph(popxl.TensorSpec(X.shape, popxl.float32))
        pairs = ir.replica_grouping(group_size=2)
        for given in ({"bias": pairs}, addons.NamedTensors(bias=pairs)):
            factories, _ = addons.autodiff_with_accumulation(
                forward, forward.args.tensors, replica_groupings=given
            )
            groupings = factories.replica_groupings
            assert groupings.accum.bias == pairs
            assert groupings.accum.weight == ir.replica_grouping()


class Double(addons.Module):
    """The gradient is three times the true one, so that its use shows."""

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        factor = self.add_variable_input("factor", partial(np.full, x.shape, 2.0), x.dtype)
        self.aux["x"] = x
        self.aux["factor"] = factor
        return x * factor

    def build_grad(self, dy: popxl.Tensor) -> popxl.Tensor:
        self.var_grad["factor"] = dy * self.aux["x"] * 3.0
        return dy * self.aux["factor"] * 3.0


class Outer(addons.Module):
    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        (y,) = self.call_module(Double(), "double")(x + x)
        return y * y


def test_gradients_by_hand_are_used_below_autodiff() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X, name="x")
        factories, forward = Outer().create_graph(x)
        grad = addons.autodiff(forward)
        variables = factories.init()
        call = forward.bind(variables).call_with_info(x)
        info = grad.grad_graph_info
        ones = popxl.constant(np.ones_like(X))
        grad_call = grad.call_with_info(ones, args=info.inputs_dict(call))
        grads = info.fwd_parent_ins_to_grad_parent_outs(call, grad_call)
        outputs = [addons.host_store(t) for t in (call.outputs[0], grads[x])]
        factor_grad = addons.host_store(grads[variables.double.factor])
    with popxl.Session(ir, "cpu") as session:
        values = session.run()
    # y = (2 x f)^2 with f = 2; dy/d(2 x f) = 2 (2 x f) = 8 x.
    np.testing.assert_allclose(values[outputs[0]], 16 * X * X, rtol=1e-5)
    np.testing.assert_allclose(values[outputs[1]], 3 * 32 * X, rtol=1e-5)
    np.testing.assert_allclose(values[factor_grad], 3 * 16 * X * X, rtol=1e-5)

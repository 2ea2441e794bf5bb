"""Optimisers with master weights and loss scaling, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.optimizers import (
    AdamOptimizerStep,
    DynamicLossScaling,
    LAMBOptimizerStep,
    SGDOptimizerStep,
)

SHAPE, LR, STEPS = (7, 5), 0.02, 6
RNG = np.random.default_rng(17)
START = RNG.normal(0, 0.5, SHAPE).astype(np.float16)
GRADIENTS = RNG.normal(0, 0.3, (STEPS, *SHAPE)).astype(np.float16)
HALF = {"float16": (popxl.float16, np.float16), "bfloat16": (popxl.bfloat16, ml_dtypes.bfloat16)}
FULL_MOMENTS = {"first_order_dtype": popxl.float32}


class NumpyLamb(torch.optim.Optimizer):
    """LAMB by its definition, in float64."""

    def __init__(self, parameters: Any, **options: float) -> None:
        super().__init__(parameters, {})
        self.options = options
        self.steps = 0

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.steps += 1
        (weight,) = self.param_groups[0]["params"]
        grad = weight.grad.double()
        m, v = self.state[weight].setdefault("moments", (0.0, 0.0))
        m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad * grad
        self.state[weight]["moments"] = m, v
        corrected = v / (1 - 0.999**self.steps)
        r = m / (1 - 0.9**self.steps) / (corrected.sqrt() + 1e-6)
        r = r + self.options["weight_decay"] * weight.detach().double()
        norm = weight.detach().double().norm().clamp(max=self.options["limit"])
        weight.data = (weight.detach().double() - LR * norm / r.norm() * r).float()


@dataclass
class Case:
    """An optimiser of ours and the one of PyTorch that does the same."""

    module: type[addons.Module]
    options: dict[str, Any]
    reference: Callable[[list[torch.Tensor]], torch.optim.Optimizer]


CASES = {
    "descent": Case(SGDOptimizerStep, {}, lambda p: torch.optim.SGD(p, LR)),
    "momentum": Case(
        SGDOptimizerStep,
        {"momentum": 0.9, "weight_decay": 0.1},
        lambda p: torch.optim.SGD(p, LR, momentum=0.9, weight_decay=0.1),
    ),
    "nesterov": Case(
        SGDOptimizerStep,
        {"momentum": 0.8, "nesterov": True},
        lambda p: torch.optim.SGD(p, LR, momentum=0.8, nesterov=True),
    ),
    "adamw": Case(
        AdamOptimizerStep,
        {"weight_decay": 0.1, "eps": 1e-6, **FULL_MOMENTS},
        lambda p: torch.optim.AdamW(p, LR, eps=1e-6, weight_decay=0.1),
    ),
    "lamb": Case(
        LAMBOptimizerStep,
        {"weight_decay": 0.1, "max_weight_norm": 2.0, **FULL_MOMENTS},
        lambda p: NumpyLamb(p, weight_decay=0.1, limit=2.0),
    ),
}
CASE = pytest.mark.parametrize("name", CASES)


class Training:
    """Updates of one variable by gradients from the host, under dynamic loss scaling."""

    def __init__(
        self, name: str, dtype: popxl.dtype, *, tensor_rate: bool = False, **scaling: Any
    ) -> None:
        case = CASES[name]
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.grad = popxl.h2d_stream(SHAPE, dtype, "gradient")
            self.var = popxl.variable(START.astype(dtype.as_numpy()), name="var")
            grad = ops.host_load(self.grad)
            finite = addons.ops.all_finite([grad])
            scaling_factories, adjust = DynamicLossScaling().create_graph(finite, **scaling)
            self.scaling = scaling_factories.init("scaling")
            rates = [popxl.variable(np.float32(LR), name="rate")] if tensor_rate else []
            factories, step = case.module().create_graph(
                self.var,
                grad,
                lr=rates[0].spec if rates else LR,
                loss_scaling=self.scaling.scale.spec,
                finite=finite,
                master_weight=dtype != popxl.float32,
                **case.options,
            )
            self.state = factories.init("state")
            step.bind(self.state).call(self.var, grad, *rates, self.scaling.scale, finite)
            adjust.bind(self.scaling).call(finite)

    def values(self, session: popxl.Session) -> dict[str, np.ndarray]:
        tensors = {"var": self.var, **self.state.to_dict(), **self.scaling.to_dict()}
        return {name: session.get_tensor_data(t).copy() for name, t in tensors.items()}


class Reference:
    """The same in PyTorch: float32 weights, and its own loss scaler."""

    def __init__(self, name: str, start: np.ndarray, **scaling: Any) -> None:
        self.weight = torch.nn.Parameter(torch.from_numpy(start.astype(np.float32)))
        self.optimizer = CASES[name].reference([self.weight])
        self.scaler = torch.amp.GradScaler("cpu", **scaling)
        self.scaler.scale(torch.ones(()))  # makes its state

    @property
    def scale(self) -> float:
        return self.scaler.get_scale()

    def step(self, scaled_gradient: np.ndarray) -> None:
        self.weight.grad = torch.from_numpy(scaled_gradient.astype(np.float32))
        self.scaler.step(self.optimizer)
        self.scaler.update()


def scaled(gradient: np.ndarray, scale: float, dtype: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        return (gradient.astype(np.float32) * np.float32(scale)).astype(dtype)


@CASE
@pytest.mark.parametrize("dtype", ["float32", *HALF])
@pytest.mark.parametrize("tensor_rate", [False, True])
def test_optimisers_equal_those_of_torch(name: str, dtype: str, tensor_rate: bool) -> None:
    kind, numpy_kind = HALF.get(dtype, (popxl.float32, np.float32))
    training = Training(name, kind, tensor_rate=tensor_rate, initial_scale=8.0, growth_interval=2)
    reference = Reference(name, START.astype(numpy_kind), init_scale=8.0, growth_interval=2)
    with popxl.Session(training.ir, "cpu") as session:
        for gradient in GRADIENTS:
            given = scaled(gradient, reference.scale, numpy_kind)
            session.run({training.grad: given})
            reference.step(given)
            assert session.get_tensor_data(training.scaling.scale) == reference.scale
        values = training.values(session)
    wanted = reference.weight.detach().numpy()
    kept = values["var"] if dtype == "float32" else values["master_weight"]
    np.testing.assert_allclose(kept, wanted, rtol=2e-5, atol=2e-6)
    np.testing.assert_array_equal(values["var"], kept.astype(numpy_kind))


@CASE
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_steps_that_overflow_leave_everything_as_it_was(name: str, bad: float) -> None:
    scaling = {"growth_interval": 3, "growth_factor": 4.0, "backoff_factor": 0.25}
    training = Training(name, popxl.float16, initial_scale=64.0, **scaling)
    reference = Reference(name, START, init_scale=64.0, **scaling)
    is_bad = [False, True, False, False, True, True, False, False, False, False]
    with popxl.Session(training.ir, "cpu") as session:
        for i, overflows in enumerate(is_bad):
            given = scaled(GRADIENTS[i % STEPS], reference.scale, np.float16)
            if overflows:
                given[i % 7, i % 5] = bad
            before = training.values(session)
            session.run({training.grad: given})
            reference.step(given)
            after = training.values(session)
            assert after["scale"] == reference.scale
            assert after["good_steps"] == reference.scaler._get_growth_tracker()
            for key in before.keys() - {"scale", "good_steps"}:
                same = before[key].tobytes() == after[key].tobytes()
                assert same == overflows, key
    np.testing.assert_allclose(
        after["master_weight"], reference.weight.detach().numpy(), rtol=2e-5, atol=2e-6
    )


def test_the_scale_does_not_grow_beyond_float32() -> None:
    training = Training("descent", popxl.float16, initial_scale=2.0**126, growth_interval=1)
    reference = Reference("descent", START, init_scale=2.0**126, growth_interval=1)
    with popxl.Session(training.ir, "cpu") as session:
        for _ in range(3):
            session.run({training.grad: np.zeros(SHAPE, np.float16)})
            reference.step(np.zeros(SHAPE, np.float16))
        values = training.values(session)
    assert values["scale"] == reference.scale == 2.0**127
    assert values["good_steps"] == 0


def test_updates_too_small_for_float16_add_up_in_the_master_weight() -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        variables = [popxl.variable(np.ones(4), popxl.float16, name=n) for n in ("with", "alone")]
        grad = popxl.constant(np.full(4, 1e-4, np.float16))
        for var, master_weight in zip(variables, (True, False), strict=True):
            factories, step = SGDOptimizerStep().create_graph(
                var, grad, lr=1.0, master_weight=master_weight
            )
            step.bind(factories.init(var.name)).call(var, grad)
    with popxl.Session(ir, "cpu") as session:
        for _ in range(100):
            session.run()
        moved, stuck = (session.get_tensor_data(v) for v in variables)
    assert stuck.tolist() == [1.0] * 4
    np.testing.assert_allclose(moved, 0.99, atol=5e-4)


def test_a_master_weight_follows_what_is_written_to_its_variable() -> None:
    training = Training("descent", popxl.float16, initial_scale=1.0)
    with popxl.Session(training.ir, "cpu") as session:
        session.run({training.grad: GRADIENTS[0]})
        written = training.values(session)["var"]
        written[2:4] = 3.0
        session.write_variable_data(training.var, written)
        before = training.values(session)
        session.run({training.grad: GRADIENTS[1]})
        after = training.values(session)
    expected = before["master_weight"]
    expected[2:4] = 3.0
    expected -= np.float32(LR) * GRADIENTS[1].astype(np.float32)
    np.testing.assert_allclose(after["master_weight"], expected, rtol=1e-6)


def finite_of(*arrays: np.ndarray, replicas: int = 1) -> list[bool]:
    """What `all_finite` says on each replica; with several, arrays begin with an axis of them."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        streams = [
            popxl.h2d_stream(a.shape[replicas > 1 :], popxl.dtype.as_dtype(a.dtype)) for a in arrays
        ]
        finite = addons.ops.all_finite([ops.host_load(s) for s in streams])
        assert (finite.shape, finite.dtype) == ((), popxl.bool)
        out = popxl.d2h_stream((), popxl.bool)
        ops.host_store(out, finite)
    with popxl.Session(ir, "cpu") as session:
        result = session.run(dict(zip(streams, arrays, strict=True)))[out]
    return [bool(flag) for flag in np.atleast_1d(result)]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("size", [1, 5, 3000, 70_000])
def test_all_finite(dtype: Any, size: int) -> None:
    largest = ml_dtypes.finfo(dtype).max
    arrays = [np.full(size, largest, dtype), np.full(size, -largest, dtype)]
    assert finite_of(*arrays, np.ones((3, 2), np.float16)) == [True]
    for bad in (np.inf, -np.inf, np.nan):
        for place in {0, size // 2, size - 1}:
            spoilt = np.full(size, largest, dtype)
            spoilt[place] = bad
            assert finite_of(np.ones((3, 2), np.float16), spoilt) == [False], (bad, place)


def test_all_finite_of_nothing() -> None:
    assert finite_of(np.zeros((0, 3), np.float32)) == [True]
    with pytest.raises(ValueError, match="at least one tensor"), popxl.Ir().main_graph:
        addons.ops.all_finite([])


def test_all_replicas_agree() -> None:
    gradients = np.ones((2, 4), np.float16)
    assert finite_of(gradients, replicas=2) == [True, True]
    gradients[1, 2] = np.inf
    assert finite_of(gradients, replicas=2) == [False, False]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"initial_scale": 0.0}, "initial_scale; given 0.0"),
        ({"initial_scale": float("inf")}, "initial_scale; given inf"),
        ({"growth_factor": 1.0}, "growth_factor; given 1.0"),
        ({"backoff_factor": 1.5}, "backoff_factor; given 1.5"),
        ({"growth_interval": 0}, "growth_interval; given 0"),
        ({"growth_interval": 2.5}, "growth_interval; given 2.5"),
    ],
)
def test_wrong_numbers_of_a_scaling_are_refused(options: dict[str, Any], text: str) -> None:
    with popxl.Ir().main_graph, pytest.raises(ValueError, match=text):
        DynamicLossScaling().create_graph(popxl.TensorSpec((), popxl.bool), **options)


def test_master_weights_are_for_half_precision() -> None:
    with popxl.Ir().main_graph:
        var = popxl.variable(START, popxl.float32, name="w")
        for module in (AdamOptimizerStep, LAMBOptimizerStep, SGDOptimizerStep):
            with pytest.raises(ValueError, match="float16 or bfloat16; 'var' has float32"):
                module().create_graph(var, var.spec, lr=LR, master_weight=True)
        half = popxl.variable(START, popxl.float16)
        with pytest.raises(ValueError, match="without a master weight; 'var' was to have one"):
            AdamOptimizerStep().create_graph(half, half.spec, lr=LR, master_weight=True, lazy=True)
        with pytest.raises(ValueError, match="nesterov needs momentum"):
            SGDOptimizerStep().create_graph(var, var.spec, lr=LR, nesterov=True)


@pytest.mark.parametrize("name", ["momentum", "adamw", "lamb"])
def test_shards_of_a_variable_are_left_by_all_replicas_together(name: str) -> None:
    start, gradients = START[:6], GRADIENTS[:, :6]
    case = CASES[name]
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream(start.shape, popxl.float16)
        handle, shard = popxl.replica_sharded_variable(start, popxl.float16, "var")
        grad = ops.collectives.replicated_reduce_scatter(ops.host_load(stream), "mean", None, True)
        finite = addons.ops.all_finite([grad])
        factories, step = case.module().create_graph(
            shard, grad, lr=LR, master_weight=True, finite=finite, **case.options
        )
        assert step.args.master_weight.shape == (15,)
        buffers = addons.named_variable_buffers(factories, sharded_threshold=2)
        remote = factories.init_remote(buffers)
        load, names = addons.load_remote_graph(buffers)
        state = addons.NamedTensors.pack(names, load.call(0))
        step.bind(state).call(shard, grad, finite)
        store = addons.store_remote_graph(buffers)
        store.bind(state).call(0)
    reference = Reference(name, start, init_scale=1.0, growth_interval=99)
    with popxl.Session(ir, "cpu") as session:
        for i, gradient in enumerate(gradients):
            given = np.stack([gradient, gradient])
            overflows = i in (1, 4)
            if overflows:
                given[1, 5, 4] = np.inf  # reaches one of the shards
            session.run({stream: given})
            if not overflows:
                reference.step(gradient)
        values = {key: session.get_tensor_data(t) for key, t in remote.to_dict().items()}
        var = session.get_tensor_data(handle)
    wanted = reference.weight.detach().numpy()
    np.testing.assert_allclose(values["master_weight"], wanted, rtol=2e-5, atol=2e-6)
    np.testing.assert_array_equal(var, values["master_weight"].astype(np.float16))

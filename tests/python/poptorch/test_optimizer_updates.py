"""Update rules over fifty steps: values of torch.optim in float64, or of the formula in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import poptorch
from tests.python.poptorch.update_program import UpdateProgram

STEPS = 50
SHAPES = ((7, 5), (1,), (), (3, 2, 4))
Optimizers = Callable[[Sequence[Any]], torch.optim.Optimizer]


def parameters(dtype: torch.dtype = torch.float32, seed: int = 0) -> list[torch.nn.Parameter]:
    random = np.random.default_rng(seed)
    arrays = [np.asarray(random.normal(size=shape), np.float32) for shape in SHAPES]
    return [torch.nn.Parameter(torch.tensor(array).to(dtype)) for array in arrays]


def gradients(steps: int = STEPS, scale: float = 1.0) -> list[list[np.ndarray]]:
    random = np.random.default_rng(1)
    return [
        [np.asarray(scale * random.normal(size=shape), np.float32) for shape in SHAPES]
        for _ in range(steps)
    ]


def groups(members: Sequence[Any], **second: Any) -> list[dict[str, Any]]:
    """Two parameter groups, the second one with numbers of its own."""
    return [{"params": list(members[:2])}, {"params": list(members[2:]), **second}]


def torch_result(
    make: Optimizers,
    steps: Sequence[Sequence[np.ndarray]],
    clip: float = math.inf,
    change: Callable[[torch.optim.Optimizer, int], None] | None = None,
) -> list[np.ndarray]:
    """What an optimizer of torch does in float64."""
    weights = [torch.nn.Parameter(p.detach().double()) for p in parameters()]
    optimizer = make(weights)
    for index, step in enumerate(steps):
        if change is not None:
            change(optimizer, index)
        for weight, gradient in zip(weights, step, strict=True):
            weight.grad = torch.tensor(gradient).double()
        torch.nn.utils.clip_grad_norm_(weights, clip)
        optimizer.step()
    return [weight.detach().numpy() for weight in weights]


def device_result(
    optimizer: torch.optim.Optimizer,
    steps: Sequence[Sequence[np.ndarray]],
    change: Callable[[torch.optim.Optimizer, int], None] | None = None,
) -> list[np.ndarray]:
    program = UpdateProgram(optimizer)
    for index, step in enumerate(steps):
        if change is not None:
            change(optimizer, index)
            program.set_optimizer(optimizer)
        program.run(step)
    return program.weights()


def assert_close(
    found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], tolerance: float = 2e-5
) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


P, T = poptorch.optim, torch.optim

# The same arguments for poptorch's class and torch's.
SAME: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "sgd": (P.SGD, T.SGD, {"lr": 0.05}),
    "sgd-decay": (P.SGD, T.SGD, {"lr": 0.05, "weight_decay": 0.1}),
    "sgd-momentum": (P.SGD, T.SGD, {"lr": 0.05, "momentum": 0.9}),
    "sgd-nesterov": (
        P.SGD,
        T.SGD,
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ),
    "adam": (P.Adam, T.Adam, {"lr": 0.01}),
    "adam-decay": (P.Adam, T.Adam, {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.95)}),
    "adam-eps": (P.Adam, T.Adam, {"lr": 0.01, "eps": 1e-2}),
    "adam-decoupled": (
        P.Adam,
        T.Adam,
        {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ),
    "adam-no-memory": (P.Adam, T.Adam, {"lr": 0.01, "betas": (0.0, 0.0), "eps": 0.1}),
    "adamw": (P.AdamW, T.AdamW, {"lr": 0.01}),
    "adamw-decay": (P.AdamW, T.AdamW, {"lr": 0.01, "weight_decay": 0.3, "betas": (0.5, 0.9)}),
    "adamw-no-decay": (P.AdamW, T.AdamW, {"lr": 0.01, "weight_decay": 0.0}),
    "rmsprop": (P.RMSprop, T.RMSprop, {"lr": 0.01}),
    "rmsprop-all": (
        P.RMSprop,
        T.RMSprop,
        {"lr": 0.01, "alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1, "momentum": 0.8},
    ),
    "rmsprop-centered": (
        P.RMSprop,
        T.RMSprop,
        {"lr": 0.01, "alpha": 0.9, "eps": 1e-3, "momentum": 0.8, "centered": True},
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_rule_is_that_of_torch(case: str) -> None:
    own, theirs, arguments = SAME[case]
    steps = gradients()
    wanted = torch_result(lambda p: theirs(p, **arguments), steps)
    assert_close(device_result(theirs(parameters(), **arguments), steps), wanted)
    assert_close(device_result(own(parameters(), **arguments), steps), wanted)


@pytest.mark.parametrize("case", SAME)
def test_constants_and_variables_give_the_same_weights(case: str) -> None:
    own, theirs, arguments = SAME[case]
    steps = gradients()
    wanted = torch_result(lambda p: theirs(p, **arguments), steps)
    for mark in ("markAsVariable", "markAsConstant"):
        optimizer = own(parameters(), **arguments)
        for name in optimizer.defaults:
            getattr(optimizer.variable_attrs, mark)(name)
        assert_close(device_result(optimizer, steps), wanted)


@pytest.mark.parametrize("case", ["sgd", "sgd-nesterov", "adam-decay", "adamw", "rmsprop-all"])
def test_groups_have_their_own_numbers(case: str) -> None:
    own, theirs, arguments = SAME[case]
    second = {"lr": 0.02, "weight_decay": 0.2}
    steps = gradients()
    wanted = torch_result(lambda p: theirs(groups(p, **second), **arguments), steps)
    found = device_result(own(groups(parameters(), **second), **arguments), steps)
    assert_close(found, wanted)


@pytest.mark.parametrize("case", ["sgd-momentum", "adam-decay", "adamw-decay", "rmsprop-all"])
def test_numbers_change_between_runs(case: str) -> None:
    own, theirs, arguments = SAME[case]

    def change(optimizer: torch.optim.Optimizer, index: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = arguments["lr"] * 0.9**index
            if "weight_decay" in arguments:
                group["weight_decay"] = 0.1 + 0.01 * index
            if "betas" in arguments:
                group["betas"] = (0.5 + 0.005 * index, 0.9 + 0.001 * index)
            if "momentum" in arguments:
                group["momentum"] = 0.9 - 0.01 * index

    steps = gradients()
    wanted = torch_result(lambda p: theirs(p, **arguments), steps, change=change)
    assert_close(device_result(own(parameters(), **arguments), steps, change), wanted)


CLIPPED = ["sgd", "sgd-decay", "sgd-momentum", "adam", "adam-decay", "adamw"]


@pytest.mark.parametrize("case", CLIPPED)
@pytest.mark.parametrize("limit", [0.5, 5.0, 1e4])
def test_clipping_is_over_all_groups(case: str, limit: float) -> None:
    own, theirs, arguments = SAME[case]
    steps = gradients()
    wanted = torch_result(lambda p: theirs(groups(p), **arguments), steps, clip=limit)
    optimizer = own(groups(parameters()), **arguments, max_grad_norm=limit)
    assert_close(device_result(optimizer, steps), wanted)


SCALED = [(case, None) for case in (*CLIPPED, "sgd-nesterov", "rmsprop")]
SCALED_AND_CLIPPED = [(case, 2.0) for case in CLIPPED]


@pytest.mark.parametrize(("case", "limit"), [*SCALED, *SCALED_AND_CLIPPED])
@pytest.mark.parametrize("constant", [True, False])
def test_loss_scale_is_divided_out(case: str, constant: bool, limit: float | None) -> None:
    own, theirs, arguments = SAME[case]
    steps, scaled = gradients(), gradients(scale=128.0)
    wanted = torch_result(
        lambda p: theirs(p, **arguments), steps, clip=math.inf if limit is None else limit
    )
    more = {} if limit is None else {"max_grad_norm": limit}
    optimizer = own(parameters(), **arguments, **more, loss_scaling=128.0)
    if constant:
        optimizer.variable_attrs.markAsConstant("loss_scaling")
    assert_close(device_result(optimizer, scaled), wanted)


def sgd_formula(
    steps: Sequence[Sequence[np.ndarray]], numbers: Sequence[dict[str, float]], nesterov: bool
) -> list[np.ndarray]:
    weights = [p.detach().numpy().astype(np.float64) for p in parameters()]
    velocities = [np.zeros_like(w) for w in weights]
    for step, n in zip(steps, numbers, strict=True):
        for i, gradient in enumerate(step):
            g = gradient + n["wd"] * weights[i]
            velocities[i] = n["mm"] * velocities[i] + (1 - n["dm"]) * g
            move = g + n["mm"] * velocities[i] if nesterov else velocities[i]
            weights[i] = weights[i] - n["lr"] * move
    return weights


NUMBERS = {"lr": 0.05, "mm": 0.8, "dm": 0.3, "wd": 0.1}


def test_dampening_applies_from_the_first_step() -> None:
    steps = gradients()
    wanted = sgd_formula(steps, [NUMBERS] * STEPS, False)
    for more in ({}, {"use_combined_accum": True}):
        optimizer = P.SGD(
            parameters(), lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.1, **more
        )
        assert_close(device_result(optimizer, steps), wanted)


def test_dampening_without_momentum() -> None:
    steps = gradients()
    wanted = sgd_formula(steps, [{**NUMBERS, "mm": 0.0}] * STEPS, False)
    optimizer = P.SGD(parameters(), lr=0.05, dampening=0.3, weight_decay=0.1)
    assert optimizer.variable_attrs.isConstant("momentum")
    assert_close(device_result(optimizer, steps), wanted)
    variable = P.SGD(parameters(), lr=0.05, momentum=0.0, dampening=0.3, weight_decay=0.1)
    assert_close(device_result(variable, steps), wanted)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("velocity_scaling", [1.0, 64.0])
def test_combined_sgd_takes_new_numbers_one_step_later(
    nesterov: bool, velocity_scaling: float
) -> None:
    numbers = [
        {
            "lr": 0.05 * 0.95**i,
            "mm": 0.9 - 0.01 * i,
            "dm": 0.0 if nesterov else 0.005 * i,
            "wd": 0.1 + 0.002 * i,
        }
        for i in range(STEPS)
    ]
    optimizer = P.SGD(
        parameters(),
        lr=0.05,
        momentum=0.9,
        dampening=0.0,
        weight_decay=0.1,
        nesterov=nesterov,
        velocity_scaling=velocity_scaling,
        use_combined_accum=True,
    )

    def change(optimizer: torch.optim.Optimizer, index: int) -> None:
        now = numbers[index]
        optimizer.param_groups[0].update(
            lr=now["lr"], momentum=now["mm"], dampening=now["dm"], weight_decay=now["wd"]
        )
        # The velocity keeps its value when its scale changes.
        optimizer.param_groups[0]["velocity_scaling"] = velocity_scaling * (1 + index % 3)

    steps = gradients()
    wanted = sgd_formula(steps, [numbers[0], *numbers[:-1]], nesterov)
    assert_close(device_result(optimizer, steps, change), wanted)


def test_combined_velocity_is_scaled() -> None:
    (step,) = gradients(1)
    optimizer = P.SGD(
        parameters(), lr=0.1, momentum=0.9, velocity_scaling=8.0, use_combined_accum=True
    )
    program = UpdateProgram(optimizer)
    program.run(step)
    np.testing.assert_allclose(program.value("Accl___p0"), 8 * step[0], rtol=1e-6)


def lamb_formula(
    steps: Sequence[Sequence[np.ndarray]],
    lr: float,
    betas: tuple[float, float],
    eps: float,
    wd: float,
    limit: float,
    corrects: bool,
    zero: bool,
) -> list[np.ndarray]:
    weights = [p.detach().numpy().astype(np.float64) * (not zero) for p in parameters()]
    m = [np.zeros_like(w) for w in weights]
    s = [np.zeros_like(w) for w in weights]
    for t, step in enumerate(steps, start=1):
        for i, gradient in enumerate(step):
            g = gradient.astype(np.float64)
            m[i] = betas[0] * m[i] + (1 - betas[0]) * g
            s[i] = betas[1] * s[i] + (1 - betas[1]) * g**2
            c1, c2 = (1 - betas[0] ** t, 1 - betas[1] ** t) if corrects else (1.0, 1.0)
            x = m[i] / c1 / (np.sqrt(s[i] / c2) + eps) + wd * weights[i]
            size, length = min(np.linalg.norm(weights[i]), limit), np.linalg.norm(x)
            ratio = size / length if size > 0 and length > 0 else 1.0
            weights[i] = weights[i] - lr * ratio * x
    return weights


@pytest.mark.parametrize("corrects", [True, False])
@pytest.mark.parametrize("limit", [65500.0, math.inf, 1.0, 0.0])
@pytest.mark.parametrize("zero", [True, False])
def test_lamb(corrects: bool, limit: float, zero: bool) -> None:
    steps = gradients()
    wanted = lamb_formula(steps, 0.01, (0.9, 0.99), 1e-6, 0.1, limit, corrects, zero)
    for mark in ("markAsVariable", "markAsConstant"):
        weights = parameters()
        optimizer = P.LAMB(
            weights,
            lr=0.01,
            betas=(0.9, 0.99),
            eps=1e-6,
            weight_decay=0.1,
            max_weight_norm=limit,
            bias_correction=corrects,
        )
        if zero:
            for weight in weights:
                weight.data.zero_()
        for name in optimizer.defaults:
            getattr(optimizer.variable_attrs, mark)(name)
        assert_close(device_result(optimizer, steps), wanted)


def test_lamb_of_the_host_is_the_formula() -> None:
    steps = gradients()
    for corrects in (True, False):
        weights = [torch.nn.Parameter(p.detach().double()) for p in parameters()]
        optimizer = P.LAMB(weights, 0.01, (0.9, 0.99), 1e-6, 0.1, corrects, max_weight_norm=1.0)
        for step in steps:
            for weight, gradient in zip(weights, step, strict=True):
                weight.grad = torch.tensor(gradient).double()
            optimizer.step()
        wanted = lamb_formula(steps, 0.01, (0.9, 0.99), 1e-6, 0.1, 1.0, corrects, False)
        assert_close([w.detach().numpy() for w in weights], wanted, 1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("centered", [False, True])
def test_rmsprop_as_tensorflow_has_it(momentum: float, centered: bool) -> None:
    lr, alpha, eps, wd = 0.01, 0.9, 1e-2, 0.1
    steps = gradients()
    weights = [p.detach().numpy().astype(np.float64) for p in parameters()]
    s = [np.ones_like(w) for w in weights]
    a = [np.zeros_like(w) for w in weights]
    b = [np.zeros_like(w) for w in weights]
    for step in steps:
        for i, gradient in enumerate(step):
            g = gradient + wd * weights[i]
            s[i] = alpha * s[i] + (1 - alpha) * g * g
            a[i] = alpha * a[i] + (1 - alpha) * g
            d = s[i] - a[i] ** 2 if centered else s[i]
            b[i] = momentum * b[i] + lr * g / np.sqrt(d + eps)
            weights[i] = weights[i] - b[i]
    optimizer = P.RMSprop(
        parameters(),
        lr=lr,
        alpha=alpha,
        eps=eps,
        weight_decay=wd,
        momentum=momentum,
        centered=centered,
        use_tf_variant=True,
    )
    assert_close(device_result(optimizer, steps), weights)


def test_a_steady_gradient_leaves_a_centered_root_real() -> None:
    steps = [[np.full(shape, 0.3, np.float32) for shape in SHAPES]] * STEPS
    optimizer = P.RMSprop(parameters(), lr=1e-4, alpha=0.5, centered=True, eps=1e-3)
    assert all(np.isfinite(w).all() for w in device_result(optimizer, steps))


HALF_STATE: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {
    "sgd": (
        P.SGD,
        T.SGD,
        {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1},
        {"velocity_accum_type": torch.float16},
    ),
    "adam": (
        P.Adam,
        T.Adam,
        {"lr": 0.01, "weight_decay": 0.1},
        {
            "first_order_momentum_accum_type": torch.float16,
            "second_order_momentum_accum_type": torch.float16,
        },
    ),
    "adamw-first": (
        P.AdamW,
        T.AdamW,
        {"lr": 0.01},
        {"first_order_momentum_accum_type": torch.float16},
    ),
    "adamw-second": (
        P.AdamW,
        T.AdamW,
        {"lr": 0.01},
        {"second_order_momentum_accum_type": torch.float16},
    ),
    "rmsprop": (
        P.RMSprop,
        T.RMSprop,
        {"lr": 0.01, "alpha": 0.9, "momentum": 0.8, "centered": True, "eps": 1e-2},
        {
            "first_order_momentum_accum_type": torch.float16,
            "second_order_momentum_accum_type": torch.float16,
        },
    ),
}


@pytest.mark.parametrize("case", HALF_STATE)
def test_state_in_half_precision_is_rounded_when_stored_only(case: str) -> None:
    own, theirs, arguments, types = HALF_STATE[case]
    steps = gradients()
    optimizer = own(parameters(), **arguments, **types)
    program = UpdateProgram(optimizer)
    # The first step has seen no rounding.
    program.run(steps[0])
    assert_close(program.weights(), torch_result(lambda p: theirs(p, **arguments), steps[:1]))
    for step in steps[1:]:
        program.run(step)
    # Each step rounds the state once more, to 11 bits.
    assert_close(program.weights(), torch_result(lambda p: theirs(p, **arguments), steps), 3e-2)
    dtypes = {program.value(key).dtype for key in program.state.states if key.startswith("Acc")}
    assert np.dtype(np.float16) in dtypes


@pytest.mark.parametrize("case", SAME)
def test_weights_in_half_precision(case: str) -> None:
    own, theirs, arguments = SAME[case]
    steps = gradients()
    wanted = torch_result(lambda p: theirs(p, **arguments), steps[:1])
    optimizer = own(parameters(torch.float16), **arguments)
    program = UpdateProgram(optimizer)
    program.run(steps[0])
    for found, value in zip(program.weights(), wanted, strict=True):
        assert found.dtype == np.float16
        # The weight was rounded to half, and so are its gradient and the result.
        np.testing.assert_allclose(found, value, rtol=3e-3, atol=3e-3)
    assert all(
        program.value(key).dtype == np.float32
        for key in program.state.states
        if key.startswith("Acc")
    )


def test_steps_are_counted_for_all_weights_at_once() -> None:
    program = UpdateProgram(P.Adam(groups(parameters()), lr=0.1))
    keys = [f"Step___p{index}" for index in range(len(SHAPES))]
    assert set(keys) <= set(program.state.states)
    for step in gradients(3):
        program.run(step)
    assert [program.value(key) for key in keys] == [3.0] * len(SHAPES)


def kernels(program: UpdateProgram) -> list[str]:
    """The instructions of a program but those that load gradients."""
    lines = program.session._core.disassembly().splitlines()[1:]
    return [line.split()[0] for line in lines if line.strip() and "HostLoad" not in line.split()[0]]


@pytest.mark.parametrize("case", SAME)
def test_a_weight_is_updated_by_one_kernel(case: str) -> None:
    own, _, arguments = SAME[case]
    found = {}
    for count in (2, 5):
        weights = [torch.nn.Parameter(torch.zeros(8, 8 + i)) for i in range(count)]
        found[count] = kernels(UpdateProgram(own(weights, **arguments, loss_scaling=2.0)))
    assert set(found[5]) == {"Fused"}
    assert len(found[5]) - len(found[2]) == 3
    # What weights share takes one or two more.
    assert len(found[2]) <= 4

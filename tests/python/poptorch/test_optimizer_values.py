"""What a program takes of optimizers: kinds, constants, changes, warnings."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest
import torch

from poptorch import optim
from poptorch._optimizer_attributes import AttributeWatch
from poptorch._optimizer_scalars import group_scalars, variable_numbers
from poptorch._optimizer_values import OptimizerKind, Value, read, with_numbers_of
from tests.python.poptorch.log_testing import logged

T = torch.optim


def weights() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.ones(4))]


def constants(optimizer: T.Optimizer, group: int = 0) -> set[str]:
    numbers = read(optimizer).groups[group].numbers
    return {name for name, value in numbers.items() if value.constant}


KINDS: list[tuple[Any, dict[str, Any], str]] = [
    (T.SGD, {}, "SGD2"),
    (optim.SGD, {}, "SGD2"),
    (optim.SGD, {"use_combined_accum": True}, "SGD1"),
    (T.Adam, {}, "ADAM"),
    (T.Adam, {"decoupled_weight_decay": True}, "ADAMW"),
    (optim.Adam, {"decoupled_weight_decay": True}, "ADAMW"),
    (T.AdamW, {}, "ADAMW"),
    (optim.AdamW, {}, "ADAMW"),
    (optim.AdamW, {"bias_correction": False}, "ADAMW_NO_BIAS"),
    (T.RMSprop, {}, "RMSPROP"),
    (optim.RMSprop, {"centered": True}, "RMSPROP_CENTERED"),
    (optim.LAMB, {}, "LAMB"),
    (optim.LAMB, {"bias_correction": False}, "LAMB_NO_BIAS"),
]


@pytest.mark.parametrize(("kind", "arguments", "name"), KINDS)
def test_kinds(kind: Any, arguments: dict[str, Any], name: str) -> None:
    assert read(kind(weights(), lr=0.1, **arguments)).kind is OptimizerKind[name]


def test_constants_of_torch_are_defaults() -> None:
    assert constants(T.SGD(weights(), lr=0.1)) == {"momentum", "dampening", "weight_decay"}
    assert constants(T.SGD(weights(), lr=0.1, momentum=0.0)) == {
        "momentum",
        "dampening",
        "weight_decay",
    }
    assert constants(T.SGD(weights(), lr=0.1, momentum=1.0)) == {"dampening", "weight_decay"}
    # Each group has its own.
    groups = [{"params": weights()}, {"params": weights(), "momentum": 0.5}]
    assert "momentum" in constants(T.SGD(groups, lr=0.1), 0)
    assert "momentum" not in constants(T.SGD(groups, lr=0.1), 1)
    assert constants(T.Adam(weights())) == {"beta1", "beta2", "eps", "weight_decay"}
    assert constants(T.Adam(weights(), betas=(0.5, 0.5), eps=1e-3, weight_decay=0.1)) == {
        "beta1",
        "beta2",
    }
    assert "weight_decay" in constants(T.AdamW(weights()))
    assert "weight_decay" not in constants(T.AdamW(weights(), weight_decay=0.0))
    assert constants(T.RMSprop(weights(), alpha=0.5)) == {
        "alpha",
        "eps",
        "weight_decay",
        "momentum",
    }
    values = read(T.SGD(weights(), lr=0.1))
    assert values.loss_scaling.constant and values.loss_scaling.number == 1
    assert not values.clips


def test_constants_of_poptorch_are_what_is_not_given() -> None:
    assert constants(optim.SGD(weights(), lr=0.01, momentum=0.0)) == {"dampening", "weight_decay"}
    assert constants(optim.Adam(weights(), betas=(0.9, 0.99))) == {"eps", "weight_decay"}
    everything = optim.RMSprop(weights(), alpha=0.9, eps=1e-3, momentum=0.1, weight_decay=0.1)
    assert constants(everything) == {"alpha"}
    marked = optim.LAMB(weights(), max_weight_norm=3.0)
    marked.variable_attrs.markAsConstant("max_weight_norm")
    marked.variable_attrs.markAsConstant("lr")
    marked.variable_attrs.markAsVariable("betas")
    assert constants(marked) == {"eps", "weight_decay", "max_weight_norm"}
    scaled = read(optim.SGD(weights(), loss_scaling=3.0, max_grad_norm=2.0))
    assert not scaled.loss_scaling.constant and not scaled.max_grad_norm.constant
    assert scaled.clips


def test_tensors_and_named_parameters() -> None:
    module = torch.nn.Linear(2, 3)
    betas = (torch.tensor(0.5), torch.tensor(0.75))
    optimizer = T.Adam(module.named_parameters(), lr=torch.tensor(0.25), betas=betas)
    (group,) = read(optimizer).groups
    assert group.numbers["lr"].number == 0.25
    assert (group.numbers["beta1"].number, group.numbers["beta2"].number) == (0.5, 0.75)
    assert [tuple(p.shape) for p in group.parameters] == [(3, 2), (3,)]


def test_types() -> None:
    half = torch.float16
    values = read(optim.Adam(weights(), accum_type=half, first_order_momentum_accum_type=half))
    assert (values.accum_type, values.first_type, values.second_type) == (half, half, torch.float32)
    assert values.needs_running_mean
    assert not read(optim.Adam(weights())).needs_running_mean
    combined = optim.SGD(weights(), use_combined_accum=True, accum_type=half)
    assert not read(combined).needs_running_mean


def test_scalars_have_documented_names() -> None:
    values = read(
        optim.SGD([{"params": weights()}, {"params": weights(), "lr": 0.5}], lr=0.1, momentum=0.9)
    )
    assert {name: float(number) for name, number in variable_numbers(values).items()} == {
        "scaledLearningRate2___default___FLOAT": pytest.approx(0.1),
        "scaledMomentum2___default___FLOAT": pytest.approx(0.9),
        "scaledLearningRate2___specific___group1": pytest.approx(0.5),
        "scaledMomentum2___specific___group1": pytest.approx(0.9),
    }
    adam = read(optim.Adam(weights(), lr=0.1, betas=(0.5, 0.6), eps=1e-3, weight_decay=0.2))
    assert set(variable_numbers(adam)) == {
        f"{prefix}___default___FLOAT"
        for prefix in ("learningRate", "adamBeta1", "adamBeta2", "adamEps", "weightDecay")
    }
    assert group_scalars(adam, 0)["rate"].number == 0.1
    scaled = read(optim.SGD(weights(), lr=0.1, loss_scaling=8.0))
    assert variable_numbers(scaled)["lossScaling_FLOAT"] == np.float32(8)


class Mine(optim.Adam):
    """An optimizer of a user."""


def test_unsupported_types() -> None:
    with pytest.raises(AssertionError, match=r"Unsupported optimizer type\. Types supported .*SGD"):
        read(T.Adagrad(weights()))
    with pytest.raises(AssertionError, match="Unsupported optimizer type"):
        AttributeWatch().see(T.Adagrad(weights()))
    assert read(Mine(weights())).kind is OptimizerKind.ADAM


def set_in_group(**numbers: Any) -> Any:
    return lambda optimizer: optimizer.param_groups[0].update(numbers)


@pytest.mark.parametrize(
    ("optimizer", "change", "error", "text"),
    [
        (T.SGD, set_in_group(lr=-1.0), ValueError, "group 0: wanted lr .* given -1.0"),
        (T.SGD, set_in_group(momentum=-0.5), ValueError, "momentum .* given -0.5"),
        (T.SGD, set_in_group(dampening=-0.5), ValueError, "dampening .* given -0.5"),
        (T.SGD, set_in_group(weight_decay=math.nan), ValueError, "weight_decay .* given nan"),
        (T.SGD, set_in_group(nesterov=True, dampening=0.1), ValueError, "Nesterov .* dampening"),
        (T.Adam, set_in_group(betas=(0.9, 1.0)), ValueError, r"betas below 1; given \(0.9, 1.0\)"),
        (T.Adam, set_in_group(amsgrad=True), ValueError, "Only non-amsgrad Adam/AdamW"),
    ],
)
def test_numbers_out_of_range(optimizer: Any, change: Any, error: type, text: str) -> None:
    one = optimizer(weights(), lr=0.1)
    change(one)
    with pytest.raises(error, match=text):
        read(one)


def test_globals_out_of_range() -> None:
    for name, value in (
        ("max_grad_norm", math.nan),
        ("max_grad_norm", -1.0),
        ("loss_scaling", 0.0),
        ("loss_scaling", math.inf),
        ("loss_scaling", math.nan),
    ):
        optimizer = optim.Adam(weights())
        setattr(optimizer, name, value)
        with pytest.raises(ValueError, match=f"Adam: wanted .*{name}"):
            read(optimizer)
    with pytest.raises(ValueError, match="velocity_scaling > 0"):
        read(optim.SGD(weights(), velocity_scaling=0.0, use_combined_accum=True))


def test_centered_must_agree() -> None:
    groups = [{"params": weights()}, {"params": weights(), "centered": True}]
    text = "All parameter groups must have the same value for the 'centered' attribute"
    with pytest.raises(AssertionError, match=text):
        read(T.RMSprop(groups))


def test_variables_change_and_constants_do_not() -> None:
    optimizer = optim.SGD(weights(), lr=0.1, weight_decay=0.1)
    compiled = read(optimizer)
    optimizer.param_groups[0].update(lr=0.5, weight_decay=0.0)
    new = with_numbers_of(compiled, read(optimizer))
    assert variable_numbers(new)["scaledLearningRate0___default___FLOAT"] == np.float32(0.5)
    assert variable_numbers(new)["weightDecay___default___FLOAT"] == 0
    optimizer.param_groups[0]["momentum"] = 0.5
    with pytest.raises(ValueError, match=r"momentum of group 0 was compiled in as 0.0 .* 0.5"):
        with_numbers_of(compiled, read(optimizer))
    optimizer.param_groups[0]["momentum"] = 0.0
    optimizer.loss_scaling = 4.0
    with pytest.raises(ValueError, match=r"loss_scaling was compiled in as 1.0 .* 4\.0"):
        with_numbers_of(compiled, read(optimizer))


def test_a_variable_of_torch_stays_one_at_its_default() -> None:
    optimizer = T.SGD(weights(), lr=0.1, momentum=0.9)
    compiled = read(optimizer)
    optimizer.param_groups[0]["momentum"] = 0.0
    new = with_numbers_of(compiled, read(optimizer))
    assert variable_numbers(new)["scaledMomentum2___default___FLOAT"] == 0


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (lambda: T.Adam(weights()), "type SGD2; given ADAM"),
        (lambda: optim.SGD(weights(), lr=0.1, use_combined_accum=True), "given SGD1"),
        (
            lambda: T.SGD([{"params": weights()[:1]}, {"params": weights()[1:]}], lr=0.1),
            "number of parameter groups 1; given 2",
        ),
        (lambda: T.SGD(weights()[:1], lr=0.1), "number of parameters in group 0 2; given 1"),
        (
            lambda: optim.SGD(weights(), lr=0.1, velocity_accum_type=torch.float16),
            "first_type torch.float32; given torch.float16",
        ),
        (lambda: optim.SGD(weights(), lr=0.1, nesterov=True, momentum=0.9), "nesterov in group 0"),
    ],
)
def test_another_structure(other: Any, text: str) -> None:
    compiled = read(T.SGD(weights(), lr=0.1))
    with pytest.raises(ValueError, match=text):
        with_numbers_of(compiled, read(other()))


def test_attributes_without_effect() -> None:
    optimizer = optim.SGD(weights(), lr=0.1, use_combined_accum=False)
    optimizer.early = 1
    optimizer.param_groups[0]["early"] = 1
    watch = AttributeWatch()
    with logged() as messages:
        watch.see(optimizer)
        watch.see(optimizer)
    assert messages == []
    optimizer.late, optimizer.later = 1, 2
    optimizer.param_groups[0]["initial_lr"] = 0.1
    optimizer.defaults["other"] = 1
    with logged() as messages:
        watch.see(optimizer)
        optimizer.latest = 3
        watch.see(optimizer)
    assert [text for _, text in messages] == [
        "Ignoring unexpected optimizer attribute in SGD2 optimizer: ['late', 'later']",
        "Ignoring unexpected group 0 attribute in SGD2 optimizer: ['initial_lr']",
        "Ignoring unexpected default group variable in SGD2 optimizer: ['other']",
    ]


def test_relaxed_attributes() -> None:
    optimizer = T.AdamW(weights())
    watch = AttributeWatch(relaxed=True)
    watch.see(optimizer)
    optimizer.late = 1
    with logged(logging.DEBUG) as messages:
        watch.see(optimizer)
    ((level, _),) = messages
    assert level == logging.DEBUG


@pytest.mark.parametrize("kind", [T.SGD, T.Adam, T.AdamW, T.RMSprop, optim.SGD, optim.LAMB])
def test_expected_attributes(kind: Any) -> None:
    watch = AttributeWatch()
    with logged() as messages:
        watch.see(T.SGD(weights(), lr=0.1))
        watch.see(kind(weights(), lr=0.1))
    assert messages == []


def test_later_subclasses_and_maximize_are_told_once() -> None:
    watch = AttributeWatch()
    plain = optim.SGD(weights(), lr=0.1)
    watch.see(plain)
    with logged() as messages:
        for _ in range(2):
            watch.see(Mine(weights()))
    assert [text[:20] for _, text in messages] == ["Optimizer `Mine` sub"]
    plain.param_groups[0]["maximize"] = True
    with logged() as messages:
        for _ in range(2):
            watch.see(plain)
    assert [text[:25] for _, text in messages] == ["SGD: maximize=True has no"]


def test_globals_of_optimizers_of_torch() -> None:
    optimizer = T.SGD(weights(), lr=0.1)
    assert read(optimizer).loss_scaling == Value(1.0, True)
    assert read(optimizer).max_grad_norm == Value(math.inf, True)
    optimizer.loss_scaling, optimizer.max_grad_norm = 1024.0, 2.0
    assert read(optimizer).loss_scaling == Value(1024.0, False)
    assert read(optimizer).max_grad_norm == Value(2.0, False)


def test_subclasses_and_maximize() -> None:
    with logged() as messages:
        AttributeWatch().see(Mine(weights(), maximize=True))
    (_, subclass), (_, maximize) = messages
    assert subclass.startswith(
        "Optimizer `Mine` subclassed from classes in poptorch.optim or torch.optim are unlikely to "
        "behave as intended. "
    )
    assert "maximize=True" in maximize

"""Classes of poptorch.optim: arguments, marks, pickles and state dictionaries."""

from __future__ import annotations

import copy
import inspect
import io
import math
import pickle
from typing import Any

import pytest
import torch

import poptorch
from poptorch import optim
from poptorch.optim import LAMB, SGD, Adam, AdamW, RMSprop
from tests.python.poptorch.log_testing import logged

HALF = torch.float16


def weights() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(3, 2)), torch.nn.Parameter(torch.randn(4))]


ORDER = {
    SGD: "lr momentum dampening weight_decay nesterov maximize foreach differentiable loss_scaling "
    "velocity_scaling use_combined_accum accum_type velocity_accum_type max_grad_norm",
    Adam: "lr betas eps weight_decay amsgrad foreach maximize capturable differentiable fused "
    "loss_scaling accum_type first_order_momentum_accum_type second_order_momentum_accum_type "
    "max_grad_norm",
    AdamW: "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused "
    "loss_scaling bias_correction accum_type first_order_momentum_accum_type "
    "second_order_momentum_accum_type max_grad_norm",
    RMSprop: "lr alpha eps weight_decay momentum centered foreach maximize differentiable "
    "loss_scaling accum_type first_order_momentum_accum_type second_order_momentum_accum_type "
    "use_tf_variant",
    LAMB: "lr betas eps weight_decay bias_correction loss_scaling max_weight_norm accum_type "
    "first_order_momentum_accum_type second_order_momentum_accum_type",
}


@pytest.mark.parametrize("kind", ORDER)
def test_arguments_are_in_the_documented_order(kind: type) -> None:
    parameters = list(inspect.signature(kind).parameters.values())[1:]
    named = [p for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
    assert [p.name for p in named] == ORDER[kind].split()
    assert all(p.default is None for p in named)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_defaults_are_those_of_torch(name: str) -> None:
    own, theirs = getattr(optim, name)(weights()), getattr(torch.optim, name)(weights())
    assert isinstance(own, type(theirs)) and isinstance(own, optim.Optimizer)
    assert own.defaults == theirs.defaults
    assert own.loss_scaling == 1.0
    assert own.accum_type == torch.float32
    assert name == "RMSprop" or own.max_grad_norm == math.inf


def test_defaults_of_lamb() -> None:
    lamb = LAMB(weights())
    assert isinstance(lamb, torch.optim.Optimizer) and isinstance(lamb, optim.Optimizer)
    assert lamb.defaults == {
        "lr": 1e-3,
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 1e-2,
        "max_weight_norm": 65500.0,
    }
    assert lamb.bias_correction and lamb.max_weight_norm == 65500.0
    assert lamb.param_groups[0]["max_weight_norm"] == 65500.0


@pytest.mark.parametrize("kind", ORDER)
def test_step_of_the_host_trains(kind: type) -> None:
    parameters = weights()
    optimizer = kind(parameters, lr=0.01)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = sum(p.square().sum() for p in parameters)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_lamb_calls_the_closure() -> None:
    parameters = weights()
    optimizer = LAMB(parameters)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = parameters[0].sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == pytest.approx(weights()[0].sum().item())


@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_amsgrad_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"Only non-amsgrad Adam/AdamW optimizers are supported\."):
        kind(weights(), amsgrad=True)


@pytest.mark.parametrize(
    ("kind", "argument"),
    [(SGD, "velocity_accum_type"), (SGD, "accum_type")]
    + [
        (kind, name)
        for kind in (Adam, AdamW, RMSprop, LAMB)
        for name in (
            "accum_type",
            "first_order_momentum_accum_type",
            "second_order_momentum_accum_type",
        )
    ],
)
def test_accumulation_types(kind: Any, argument: str) -> None:
    assert getattr(kind(weights(), **{argument: HALF}), argument) == HALF
    text = r"Accumulation types must be either torch.float32\s+or torch.float16"
    with pytest.raises(AssertionError, match=text):
        kind(weights(), **{argument: torch.float64})


def test_keywords_of_newer_torch_pass_through() -> None:
    assert Adam(weights(), decoupled_weight_decay=True).defaults["decoupled_weight_decay"] is True
    assert RMSprop(weights(), capturable=True).defaults["capturable"] is True
    with pytest.raises(
        TypeError, match=r"SGD: unexpected argument 'betas': torch .* has .*momentum"
    ):
        SGD(weights(), betas=(0.9, 0.9))


def test_velocity_scaling_is_of_the_combined_variant() -> None:
    combined = SGD(weights(), velocity_scaling=2.0, use_combined_accum=True)
    assert combined.param_groups[0]["velocity_scaling"] == 2.0
    own = SGD([{"params": weights(), "velocity_scaling": 4.0}], use_combined_accum=True)
    assert own.param_groups[0]["velocity_scaling"] == 4.0
    assert own.defaults["velocity_scaling"] == 1.0
    with logged() as messages:
        SGD(weights(), velocity_scaling=2.0)
    ((_, text),) = messages
    assert "velocity_scaling is ignored" in text


def test_what_is_given_is_variable() -> None:
    marks = SGD(weights(), lr=0.1, momentum=0.0, loss_scaling=2.0).variable_attrs
    assert not marks.isConstant("momentum") and not marks.isConstant("loss_scaling")
    for name in ("weight_decay", "dampening", "velocity_scaling", "max_grad_norm"):
        assert marks.isConstant(name)
    marks.markAsVariable("weight_decay")
    marks.markAsConstant("momentum")
    assert marks.isConstant("momentum") and not marks.isConstant("weight_decay")
    for call in (marks.isConstant, marks.markAsConstant, marks.markAsVariable):
        with pytest.raises(AssertionError, match="Unknown attribute 'betas'"):
            call("betas")


@pytest.mark.parametrize("kind", ORDER)
def test_schedulers_work(kind: Any) -> None:
    optimizer = kind(weights(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05


STATE = {
    "ipu_state": {"Accl1___w": torch.ones(2), "Step___w": torch.tensor(3.0)},
    "ipu_param": {"learningRate___default___FLOAT": torch.tensor(0.1)},
}


@pytest.mark.parametrize("kind", ORDER)
@pytest.mark.parametrize("with_state", [True, False])
def test_pickles_keep_what_torch_does_not_know(kind: Any, with_state: bool) -> None:
    optimizer = kind(weights(), lr=0.1, loss_scaling=4.0)
    optimizer.variable_attrs.markAsConstant("loss_scaling")
    if with_state:
        optimizer.set_state_dict(STATE)
    for copied in (pickle.loads(pickle.dumps(optimizer)), copy.deepcopy(optimizer)):
        assert copied.loss_scaling == 4.0
        assert copied.variable_attrs.isConstant("loss_scaling")
        assert copied.accum_type == torch.float32
        assert copied.has_state() == with_state
        assert copied.host_state_is_dirty == with_state
        assert not copied.ipu_state_is_dirty
        if with_state:
            state = copied.state_dict()["ipu_state"]
            assert torch.equal(state["Accl1___w"], torch.ones(2))
        again = pickle.loads(pickle.dumps(copied))
        assert again.has_state() == with_state


def test_state_dictionary_before_any_run() -> None:
    optimizer = Adam(weights(), lr=0.1)
    state = optimizer.state_dict()
    assert state["ipu_state"] is None and state["ipu_param"] is None
    assert set(state) == {"ipu_state", "ipu_param", "state", "param_groups"}
    optimizer.load_state_dict(state)
    assert not optimizer.host_state_is_dirty and not optimizer.has_state()


class Device:
    """An executor that has state to bring."""

    def __init__(self, optimizer: optim.Optimizer) -> None:
        self.optimizer, self.reads = optimizer, 0

    def bring(self) -> None:
        if self.optimizer.ipu_state_is_dirty:
            self.reads += 1
            self.optimizer.set_state_dict(STATE)
            self.optimizer.ipu_state_is_dirty = False


def test_state_is_read_when_it_is_newer() -> None:
    optimizer = Adam(weights(), lr=0.1)
    device = Device(optimizer)
    optimizer.connect(device.bring)
    assert optimizer.state_dict()["ipu_state"] is None and device.reads == 0
    optimizer.ipu_state_is_dirty = True
    assert optimizer.state_dict()["ipu_state"] == STATE["ipu_state"]
    optimizer.state_dict()
    assert device.reads == 1
    # A pickle has the newest state too.
    optimizer.ipu_state_is_dirty = True
    assert pickle.loads(pickle.dumps(optimizer)).has_state() and device.reads == 2
    optimizer.disconnect()
    optimizer.ipu_state_is_dirty = True
    assert optimizer.state_dict()["ipu_state"] == STATE["ipu_state"] and device.reads == 2
    optimizer.connect(device.bring)
    del device
    optimizer.state_dict()  # what it was connected to is gone


def test_loading_takes_groups_and_state() -> None:
    optimizer = Adam(weights(), lr=0.1)
    optimizer.set_state_dict(STATE)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other = Adam(weights(), lr=0.7)
    other.load_state_dict(torch.load(file))
    assert other.param_groups[0]["lr"] == 0.1
    assert other.host_state_is_dirty and other.has_state()
    assert torch.equal(other.state_dict()["ipu_state"]["Step___w"], torch.tensor(3.0))


def test_what_cannot_be_loaded() -> None:
    optimizer = Adam(weights(), lr=0.1)
    with pytest.raises(RuntimeError, match="Cannot load optimizer state dictionary because it is "):
        optimizer.load_state_dict({})
    native = torch.optim.Adam(weights(), lr=0.3).state_dict()
    with pytest.raises(RuntimeError, match="Only IPU optimizer states can be loaded onto the IPU"):
        optimizer.load_state_dict(native)
    assert not optimizer.host_state_is_dirty
    with pytest.raises(KeyError):
        optimizer.load_state_dict({"ipu_state": {}, "ipu_param": {}})


def test_optim_is_exported() -> None:
    assert poptorch.optim is optim

"""The optimizer of an executor: numbers written between runs, state read and loaded."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

import poptorch
from poptorch import optim
from poptorch._optimizer_device import DeviceOptimizer
from tests.python.poptorch.log_testing import logged
from tests.python.poptorch.update_program import UpdateProgram


def parameters() -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(3, 2)), torch.nn.Parameter(torch.randn(4))]


def gradients(steps: int) -> list[list[np.ndarray]]:
    random = np.random.default_rng(1)
    return [[random.normal(size=shape) for shape in ((3, 2), (4,))] for _ in range(steps)]


class Training:
    """What an executor does with its optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.device = DeviceOptimizer(optimizer, poptorch.Options())
        self.program: UpdateProgram | None = None

    def compile(self) -> None:
        self.program = UpdateProgram(self.device.optimizer, values=self.device.values_to_compile())
        self.device.compiled(self.program.session, self.program.values, self.program.state)
        self.program.session.__enter__()
        self.device.attached()

    def run(self, step: list[np.ndarray]) -> None:
        if self.program is None:
            self.compile()
        assert self.program is not None
        self.device.before_run()
        self.program.run(step)

    def destroy(self) -> None:
        assert self.program is not None
        self.device.read_back()
        self.device.destroyed()
        self.program.session.__exit__(None, None, None)

    def weights(self) -> list[np.ndarray]:
        assert self.program is not None
        return self.program.weights()


def assert_equal(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def uninterrupted(steps: int = 6) -> list[np.ndarray]:
    training = Training(optim.AdamW(parameters(), lr=0.1))
    for step in gradients(steps):
        training.run(step)
    return training.weights()


def test_numbers_are_written_when_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = optim.SGD(parameters(), lr=0.5, momentum=0.0)
    training = Training(optimizer)
    (step,) = gradients(1)
    training.run(step)
    written: list[dict[str, Any]] = []
    assert training.program is not None
    session = training.program.session
    write = session.set_variables
    monkeypatch.setattr(
        session, "set_variables", lambda values: written.append(values) or write(values)
    )
    training.device.set(optimizer)
    assert written == []
    optimizer.param_groups[0]["lr"] = 0.25
    training.run(step)
    training.device.set(optimizer)
    assert written == [{"scaledLearningRate2___default___FLOAT": np.float32(0.25)}]
    training.run(step)
    wanted = [p.detach().numpy() - 1.25 * g for p, g in zip(parameters(), step, strict=True)]
    for found, other in zip(training.weights(), wanted, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-5, atol=1e-6)
    # What is refused changes nothing.
    optimizer.param_groups[0].update(lr=7.0, weight_decay=0.5)
    with pytest.raises(ValueError, match="weight_decay of group 0 was compiled in"):
        training.device.set(optimizer)
    assert len(written) == 1


def test_values_are_those_of_the_last_set() -> None:
    optimizer = optim.SGD(parameters(), lr=0.5)
    training = Training(optimizer)
    optimizer.param_groups[0]["lr"] = 9.0
    optimizer.variable_attrs.markAsVariable("momentum")
    values = training.device.values_to_compile()
    assert values.groups[0].numbers["lr"].number == 0.5
    assert not values.groups[0].numbers["momentum"].constant
    native = torch.optim.SGD(parameters(), lr=0.5, momentum=0.9)
    training = Training(native)
    native.param_groups[0]["momentum"] = 0.0
    momentum = training.device.values_to_compile().groups[0].numbers["momentum"]
    assert (momentum.number, momentum.constant) == (0.9, False)


def test_state_is_none_before_the_device_has_it() -> None:
    optimizer = optim.AdamW(parameters(), lr=0.1)
    training = Training(optimizer)
    assert optimizer.state_dict()["ipu_state"] is None
    training.compile()
    state = optimizer.state_dict()
    assert set(state["ipu_state"]) == {
        f"{prefix}___p{index}" for prefix in ("Accl1", "Accl2", "Step") for index in (0, 1)
    }
    assert state["ipu_param"] == {"learningRate___default___FLOAT": pytest.approx(0.1)}


def test_state_of_moments() -> None:
    optimizer = optim.AdamW(parameters(), lr=0.1, betas=(0.75, 0.5))
    training = Training(optimizer)
    (step,) = gradients(1)
    training.run(step)
    first = optimizer.state_dict()["ipu_state"]
    np.testing.assert_allclose(first["Accl1___p0"], 0.25 * step[0], rtol=1e-6)
    np.testing.assert_allclose(first["Accl2___p1"], 0.5 * step[1] ** 2, rtol=1e-6)
    assert first["Step___p1"] == 1
    training.run(step)
    assert first["Step___p1"] == 1  # a copy
    assert optimizer.state_dict()["ipu_state"]["Step___p1"] == 2


@pytest.mark.parametrize("pickled", [True, False])
def test_training_goes_on_from_a_state(pickled: bool) -> None:
    steps = gradients(6)
    optimizer = optim.AdamW(parameters(), lr=0.1)
    training = Training(optimizer)
    for step in steps[:3]:
        training.run(step)
    weights = [torch.nn.Parameter(torch.tensor(w)) for w in training.weights()]
    if pickled:
        other = pickle.loads(pickle.dumps(optimizer))
        for parameter, weight in zip(other.param_groups[0]["params"], weights, strict=True):
            parameter.data = weight.data
    else:
        other = optim.AdamW(weights, lr=0.1)
        other.load_state_dict(optimizer.state_dict())
    again = Training(other)
    for step in steps[3:]:
        again.run(step)
    assert not other.host_state_is_dirty
    assert_equal(again.weights(), uninterrupted())


def test_state_that_is_loaded_between_runs() -> None:
    steps = gradients(6)
    optimizer = optim.AdamW(parameters(), lr=0.1)
    training = Training(optimizer)
    for step in steps[:3]:
        training.run(step)
    state = optimizer.state_dict()
    weights = training.weights()
    training.run(steps[5])
    assert training.program is not None
    training.program.session.set_variables(dict(zip(("p0", "p1"), weights, strict=True)))
    optimizer.load_state_dict(state)
    # What was loaded is what is given until the next run.
    assert optimizer.state_dict()["ipu_state"]["Step___p0"] == 3
    for step in steps[3:]:
        training.run(step)
    assert_equal(training.weights(), uninterrupted())


def test_another_optimizer_object() -> None:
    steps = gradients(6)
    first = optim.AdamW(parameters(), lr=0.1)
    training = Training(first)
    for step in steps[:3]:
        training.run(step)
    # Without a state of its own it goes on with that of the device.
    second = optim.AdamW(parameters(), lr=0.1)
    training.device.set(second)
    assert first.state_dict()["ipu_state"]["Step___p0"] == 3
    for step in steps[3:]:
        training.run(step)
    assert_equal(training.weights(), uninterrupted())
    assert second.state_dict()["ipu_state"]["Step___p0"] == 6
    # The first one is no longer connected, and has its own state.
    assert first.state_dict()["ipu_state"]["Step___p0"] == 3
    training.device.set(first)
    training.run(steps[0])
    assert first.state_dict()["ipu_state"]["Step___p0"] == 4
    with pytest.raises(ValueError, match="type ADAMW; given SGD2"):
        training.device.set(optim.SGD(parameters(), lr=0.1))
    assert training.device.optimizer is first


def test_destroyed_programs_leave_their_state() -> None:
    steps = gradients(6)
    optimizer = optim.AdamW(parameters(), lr=0.1)
    training = Training(optimizer)
    for step in steps[:3]:
        training.run(step)
    training.destroy()
    assert optimizer.state_dict()["ipu_state"]["Step___p0"] == 3
    for parameter, weight in zip(
        optimizer.param_groups[0]["params"], training.weights(), strict=True
    ):
        parameter.data = torch.tensor(weight)
    again = Training(optimizer)
    for step in steps[3:]:
        again.run(step)
    assert_equal(again.weights(), uninterrupted())


def test_missing_and_extra_keys() -> None:
    optimizer = optim.AdamW(parameters(), lr=0.1)
    training = Training(optimizer)
    training.run(gradients(1)[0])
    state = optimizer.state_dict()
    del state["ipu_state"]["Accl1___p0"]
    state["ipu_state"]["Accl1___other"] = torch.ones(1)
    state["ipu_state"]["Accl2___p0"] = torch.full((3, 2), 5.0)
    before = optimizer.state_dict()["ipu_state"]["Accl1___p0"]
    optimizer.load_state_dict(state)
    with logged() as messages:
        training.device.before_run()
    assert [text for _, text in messages] == [
        "The loaded optimizer state has no 'Accl1___p0': the device keeps its value"
    ]
    after = optimizer.state_dict()["ipu_state"]
    assert torch.equal(after["Accl1___p0"], before)
    assert torch.equal(after["Accl2___p0"], torch.full((3, 2), 5.0))


def test_state_that_does_not_fit() -> None:
    optimizer = optim.AdamW(parameters(), lr=0.1)
    training = Training(optimizer)
    (step,) = gradients(1)
    training.run(step)
    good = optimizer.state_dict()
    for key, value, error in (
        ("Accl1___p0", torch.ones(7), "Accl1___p0.*shape"),
        ("Step___p1", torch.tensor(9.0), "'Step___p1' is 9.0 and was 1.0 for another weight"),
    ):
        bad = optimizer.state_dict()
        bad["ipu_state"] = {**bad["ipu_state"], key: value}
        optimizer.load_state_dict(bad)
        with pytest.raises(ValueError, match=error):
            training.run(step)
        optimizer.load_state_dict(good)
    training.run(step)
    assert optimizer.state_dict()["ipu_state"]["Step___p0"] == 2


def test_optimizers_of_torch_have_numbers_only() -> None:
    optimizer = torch.optim.AdamW(parameters(), lr=0.1)
    training = Training(optimizer)
    for step in gradients(6):
        training.device.set(optimizer)
        training.run(step)
    training.destroy()
    assert set(optimizer.state_dict()) == {"state", "param_groups"}
    assert_equal(training.weights(), uninterrupted())

"""Models of transformers and torchvision, steps of AdamW, beside eager torch.

PANDO_MODEL_STEPS is the number of steps; without it the slowest models make fewer than 50.
"""

import copy
import os

import pytest
import torch

import poptorch
from tests.python.poptorch import model_zoo

STEPS = {"resnet18": 10, "resnet50": 15, "mobilenet": 25, "efficientnet": 15}
# With a larger rate their losses are chaotic: the rounding of one sum changes those of a few steps
# later in the first digit, in torch alone as well.
RATES = {"resnet18": 1e-5, "resnet50": 1e-5, "efficientnet": 1e-5}


def steps_of(name: str) -> int:
    return int(os.environ.get("PANDO_MODEL_STEPS", STEPS.get(name, 50)))


def adamw(name: str, model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=RATES.get(name, 1e-3))


def eager_losses(model: torch.nn.Module, name: str, dtype: torch.dtype) -> list[float]:
    model = copy.deepcopy(model).to(dtype)
    if name == "mixtral":
        # Torch's grouped products have no float64: an expert after the other.
        model.model.set_experts_implementation("eager")
    optimizer = adamw(name, model)
    losses = []
    for step in range(steps_of(name)):
        given = model_zoo.inputs(name, step)
        loss, _ = model(*(t.to(dtype) if t.is_floating_point() else t for t in given))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def cost_of_rounding(model: torch.nn.Module, name: str, exact: torch.Tensor) -> torch.Tensor:
    """What float32 costs torch itself up to each step."""
    errors = [(torch.tensor(eager_losses(model, name, torch.float32)) - exact).abs()]
    if name.startswith("resnet"):
        # So sensitive that one order of the sums may be lucky in the first steps: the worse of two.
        with torch.backends.mkldnn.flags(enabled=False):
            errors.append((torch.tensor(eager_losses(model, name, torch.float32)) - exact).abs())
    return torch.stack(errors).amax(0).cummax(0).values


@pytest.mark.parametrize("name", model_zoo.MODELS)
def test_losses_are_those_of_eager_torch(name):
    model = model_zoo.make(name)
    exact = torch.tensor(eager_losses(model, name, torch.float64))
    # More than a few times what torch itself loses is a fault.
    allowed = 8 * cost_of_rounding(model, name, exact) + 2e-5 * exact.abs()
    trained = poptorch.trainingModel(model, optimizer=adamw(name, model))
    losses = torch.tensor(
        [float(trained(*model_zoo.inputs(name, s))[0]) for s in range(steps_of(name))]
    )
    worst = (losses - exact).abs() - allowed
    assert worst.max() <= 0, f"step {int(worst.argmax())}: {losses} {exact}"


MICRO_BATCHES = 8
PLACEMENTS = {
    "pipelined": lambda: poptorch.PipelinedExecution(poptorch.AutoStage.SameAsIpu),
    "phases": lambda: poptorch.SerialPhasedExecution("first", "second"),
    "replicated": None,
}


def state_after_steps(placement: str | None) -> dict[str, torch.Tensor]:
    """The weights of BERT after 10 updates of 8 micro-batches each."""
    model = model_zoo.make("bert")
    options = poptorch.Options()
    replicas = 2 if placement == "replicated" else 1
    options.replicationFactor(replicas)
    options.Training.gradientAccumulation(MICRO_BATCHES // replicas)
    strategy = PLACEMENTS.get(placement or "")
    if strategy is not None:
        network = model.model
        poptorch.BeginBlock(network.bert.embeddings, "first", ipu_id=0)
        poptorch.BeginBlock(network.bert.encoder.layer[1], "second", ipu_id=1)
        options.setExecutionStrategy(strategy())
    trained = poptorch.trainingModel(model, options, adamw("bert", model))
    for step in range(10):
        parts = [model_zoo.inputs("bert", step * MICRO_BATCHES + i) for i in range(MICRO_BATCHES)]
        trained(*(torch.cat(part) for part in zip(*parts, strict=True)))
    return model.state_dict()


@pytest.fixture(scope="module")
def plain_state():
    return state_after_steps(None)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_weights_do_not_depend_on_the_placement(placement, plain_state):
    untrained = model_zoo.make("bert").state_dict()
    for name, value in state_after_steps(placement).items():
        change = float((plain_state[name] - untrained[name]).abs().max())
        # The biases of keys have no gradient but rounding, which AdamW takes for one.
        allowed = max(2e-2 * change, 2e-6)
        torch.testing.assert_close(value, plain_state[name], rtol=1e-4, atol=allowed)


def state_after_updates(name: str, folder) -> dict[str, torch.Tensor]:
    """The weights and statistics after updates of several micro-batches; phases if in a folder."""
    model = model_zoo.make(name)
    options = poptorch.Options()
    options.Training.gradientAccumulation(2)
    if folder is not None:
        options.fit_in("64GiB", folder)
    # AdamW would make steps of rounding, where batch norm takes a weight's gradient away.
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    trained = poptorch.trainingModel(model, options, optimizer)
    for step in range(3):
        parts = [model_zoo.inputs(name, 2 * step + i) for i in range(2)]
        trained(*(torch.cat(part) for part in zip(*parts, strict=True)))
    if folder is not None:
        assert trained.fitPlan().phases > 4
    return model.state_dict()


@pytest.mark.parametrize("name", ["resnet18", "mobilenet"])
def test_statistics_of_batches_are_the_same_in_phases(name, in_phases, tmp_path):
    given, wanted = state_after_updates(name, tmp_path), state_after_updates(name, None)
    untrained = model_zoo.make(name).state_dict()
    for key, value in given.items():
        change = float((wanted[key] - untrained[key]).abs().max())
        torch.testing.assert_close(value, wanted[key], rtol=1e-5, atol=max(1e-2 * change, 1e-7))

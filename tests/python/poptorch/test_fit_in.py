"""Models in phases, beside the same models whole in memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import torch

import poptorch
from pando.memory_budget import SPARE_BYTES
from pando.process_memory import claimed_bytes
from poptorch import _compilation
from tests.python.poptorch.phased import check_same, options_of

STEPS = 3
BATCH = 2
WORDS = 11
WIDTH = 8


class Block(torch.nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.layer = torch.nn.Linear(width, width)

    def forward(self, x, scale):
        return x + torch.tanh(self.layer(self.norm(x))) * scale


class Network(torch.nn.Module):
    """An embedding, blocks, a head tied to the embedding, and a value that all blocks read."""

    def __init__(self, blocks=3, width=WIDTH, tied=True):
        super().__init__()
        torch.manual_seed(4)
        self.embedding = torch.nn.Embedding(WORDS, width)
        self.blocks = torch.nn.ModuleList([Block(width) for _ in range(blocks)])
        self.head = torch.nn.Linear(width, WORDS, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, words, labels=None):
        x = self.embedding(words)
        scale = torch.sigmoid(x.mean())
        for block in self.blocks:
            x = block(x, scale)
        logits = self.head(x)
        if labels is None:
            return logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return loss, logits


def words(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randint(WORDS, (count, 5), generator=generator),
        torch.randint(WORDS, (count, 5), generator=generator),
    )


def train(executor, options, steps=STEPS, first=0):
    micro_batches = options.Training.gradient_accumulation * options.replication_factor
    count = BATCH * micro_batches * options.device_iterations
    return [executor(*words(count, first + step)) for step in range(steps)]


def trained(model, options, optimizer):
    executor = poptorch.trainingModel(model, options, optimizer(model.parameters()))
    results = train(executor, options)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    return executor, results, state


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
    "lamb": lambda p: poptorch.optim.LAMB(p, lr=0.01),
    "adam_float16": lambda p: poptorch.optim.Adam(
        p, lr=0.01, first_order_momentum_accum_type=torch.float16, loss_scaling=64.0
    ),
    "clipped": lambda p: poptorch.optim.AdamW(p, lr=0.01, max_grad_norm=0.1, loss_scaling=8.0),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("accumulation", "iterations"), [(1, 1), (3, 1), (1, 2), (2, 2)])
def test_training_is_that_of_the_whole_program(
    in_phases, tmp_path, name, accumulation, iterations
) -> None:
    wanted = trained(Network(), options_of(None, accumulation, iterations), OPTIMIZERS[name])
    given = trained(Network(), options_of(tmp_path, accumulation, iterations), OPTIMIZERS[name])
    plan = given[0].fitPlan()
    assert (plan.phases, plan.graphs) == (5, 3)
    assert plan.remote_bytes > 0
    for one, other in zip(given[1], wanted[1], strict=True):
        check_same(one, other)
    check_same(given[2].values(), wanted[2].values())


def test_a_limited_norm_is_that_of_torch(in_phases, tmp_path) -> None:
    model, eager = Network(), Network()
    options, limit = options_of(tmp_path), 0.05
    executor = poptorch.trainingModel(
        model, options, poptorch.optim.SGD(model.parameters(), lr=0.5, max_grad_norm=limit)
    )
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.5)
    for step, (loss, _) in enumerate(train(executor, options)):
        wanted, _ = eager(*words(BATCH, step))
        torch.testing.assert_close(loss, wanted.detach(), rtol=1e-5, atol=1e-5)
        optimizer.zero_grad()
        wanted.backward()
        assert torch.nn.utils.clip_grad_norm_(eager.parameters(), limit) > limit
        optimizer.step()
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-5, atol=1e-5)


def test_training_is_that_of_torch(in_phases, tmp_path) -> None:
    model, eager = Network(), Network()
    _, losses, state = trained(model, options_of(tmp_path), OPTIMIZERS["adamw"])
    optimizer = OPTIMIZERS["adamw"](eager.parameters())
    for step, (loss, _) in enumerate(losses):
        wanted, _ = eager(*words(BATCH, step))
        torch.testing.assert_close(loss, wanted.detach(), rtol=1e-5, atol=1e-5)
        optimizer.zero_grad()
        wanted.backward()
        optimizer.step()
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("iterations", [1, 3])
def test_inference_is_that_of_torch(in_phases, tmp_path, iterations) -> None:
    model = Network()
    executor = poptorch.inferenceModel(model, options_of(tmp_path, iterations=iterations))
    given, _ = words(BATCH * iterations, 0)
    with torch.no_grad():
        wanted = torch.cat([model(part) for part in given.split(BATCH)])
    torch.testing.assert_close(executor(given), wanted, rtol=1e-5, atol=1e-5)


def test_inference_follows_training(in_phases, tmp_path) -> None:
    model = Network()
    options = options_of(tmp_path)
    trainer, *_ = trained(model, options, OPTIMIZERS["sgd"])
    infers = poptorch.inferenceModel(model, options_of(tmp_path))
    first = infers(words(BATCH, 7)[0])
    train(trainer, options)
    second = infers(words(BATCH, 7)[0])
    assert not torch.allclose(first, second)
    trainer.destroy()
    with torch.no_grad():
        torch.testing.assert_close(second, model(words(BATCH, 7)[0]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["adamw", "lamb"])
def test_state_survives_giving_the_device_up(in_phases, tmp_path, name) -> None:
    options = options_of(tmp_path)
    model, whole = Network(), Network()
    executor, *_ = trained(model, options, OPTIMIZERS[name])
    executor.detachFromDevice()
    executor.attachToDevice()
    given = train(executor, options, first=STEPS)
    other, *_ = trained(whole, options_of(), OPTIMIZERS[name])
    for one, wanted in zip(given, train(other, options, first=STEPS), strict=True):
        check_same(one, wanted)


def test_a_model_without_a_device_has_its_weights_already(in_phases, tmp_path) -> None:
    executor, _, state = trained(Network(), options_of(tmp_path), OPTIMIZERS["sgd"])
    executor.detachFromDevice()
    executor.copyWeightsToHost()
    check_same(executor.model.state_dict().values(), state.values())


def test_checkpoints_go_on_with_the_same_bits(in_phases, tmp_path) -> None:
    options = options_of(tmp_path)
    folder = tmp_path / "checkpoints"
    executor, *_ = trained(Network(), options, OPTIMIZERS["adamw"])
    moved = []
    saved = executor.saveCheckpoint(folder, step=STEPS, extra={"a": 1}, progress=moved.append)
    assert sum(moved) == executor.fitPlan().remote_bytes
    wanted = train(executor, options, first=STEPS)

    model = Network()
    resumed = poptorch.trainingModel(
        model, options_of(tmp_path), OPTIMIZERS["adamw"](model.parameters())
    )
    resumed.compile(*words(BATCH, 0))
    loaded = resumed.loadCheckpoint(folder)
    assert (loaded.path, loaded.step, loaded.extra) == (saved.path, STEPS, {"a": 1})
    for one, other in zip(train(resumed, options, first=STEPS), wanted, strict=True):
        assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_ctrl_c_while_a_checkpoint_is_loaded(in_phases, tmp_path) -> None:
    options = options_of(tmp_path)
    folder = tmp_path / "checkpoints"
    executor, *_ = trained(Network(), options, OPTIMIZERS["adamw"])
    executor.saveCheckpoint(folder, step=STEPS)
    wanted = train(executor, options, first=STEPS)

    model = Network()
    resumed = poptorch.trainingModel(
        model, options_of(tmp_path), OPTIMIZERS["adamw"](model.parameters())
    )
    resumed.compile(*words(BATCH, 0))
    with pytest.raises(KeyboardInterrupt):
        resumed.loadCheckpoint(folder, progress=lambda _: signal.raise_signal(signal.SIGINT))
    # The module reads what was loaded, and training goes on with it.
    assert resumed.copyWeightsToHostIfNeeded()
    for one, other in zip(train(resumed, options, first=STEPS), wanted, strict=True):
        assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_a_model_that_fits_is_whole(tmp_path) -> None:
    executor, results, _ = trained(Network(), options_of(tmp_path), OPTIMIZERS["sgd"])
    plan = executor.fitPlan()
    assert plan.phases == 1 and plan.remote_bytes == 0
    assert "whole in memory" in str(plan)
    assert plan.total_bytes < plan.memory_bytes == 64 << 30
    _, wanted, _ = trained(Network(), options_of(), OPTIMIZERS["sgd"])
    for one, other in zip(results, wanted, strict=True):
        check_same(one, other)


class Perceptrons(torch.nn.Module):
    """Residual blocks whose wide results wait for their gradients: 8 MiB in each of 12 blocks."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(256) for _ in range(12)])
        self.wide = torch.nn.ModuleList([torch.nn.Linear(256, 1024) for _ in range(12)])
        self.narrow = torch.nn.ModuleList([torch.nn.Linear(1024, 256) for _ in range(12)])

    def forward(self, x, y):
        for norm, wide, narrow in zip(self.norms, self.wide, self.narrow, strict=True):
            x = x + narrow(torch.nn.functional.gelu(wide(norm(x))))
        return torch.nn.functional.mse_loss(x, y)


def test_a_model_that_almost_fits_computes_products_again(tmp_path) -> None:
    generator = torch.Generator().manual_seed(6)
    batch = [torch.randn(2048, 256, generator=generator) for _ in range(2)]

    def run(memory):
        model = Perceptrons()
        options = poptorch.Options().showCompilationProgressBar(False).fit_in(memory, tmp_path)
        executor = poptorch.trainingModel(
            model, options, torch.optim.SGD(model.parameters(), lr=0.05)
        )
        losses = [float(executor(*batch)) for _ in range(3)]
        plan = executor.fitPlan()
        executor.destroy()
        return losses, plan, list(model.parameters())

    run("64GiB")  # what libraries take when they first run is not the model's
    wanted, whole, weights = run("64GiB")
    staging, freed = 16 << 20, 48 << 20
    room = claimed_bytes() + SPARE_BYTES + staging
    losses, plan, others = run(room + whole.device_bytes - freed)
    assert plan.phases == 1, plan
    assert plan.device_bytes <= whole.device_bytes - freed // 2
    assert plan.total_bytes <= plan.memory_bytes
    torch.testing.assert_close(losses, wanted)
    torch.testing.assert_close(others, weights)


LARGE = 1024
KEEPS_TO_ITS_MEMORY = """
import sys

import torch

import poptorch
from pando.process_memory import peak_resident_bytes, resident_bytes
from tests.python.poptorch.test_fit_in import LARGE, Network, words

# What libraries take when they first run is not the model's.
poptorch.trainingModel(Network())(*words(2, 0))
with poptorch.parameters_in_files(sys.argv[1]):
    model = Network(blocks=32, width=LARGE)
# Weights, gradients and moments of 32 blocks are 512 MiB; the program spares 192 MiB for others.
limit = resident_bytes() + (192 << 20) + (160 << 20)
options = poptorch.Options().showCompilationProgressBar(False).fit_in(limit, sys.argv[1])
executor = poptorch.trainingModel(model, options, torch.optim.AdamW(model.parameters()))
losses = [float(executor(*words(2, 0))[0]) for _ in range(4)]
state = model.state_dict()
plan = executor.fitPlan()
assert plan.phases == 34, plan
assert plan.total_bytes <= limit, plan
assert losses[-1] < losses[0], losses
assert peak_resident_bytes() <= limit, (peak_resident_bytes(), limit)
print("kept", state["blocks.31.layer.weight"].shape)
"""


def test_a_model_that_does_not_fit_whole_is_in_phases_and_keeps_to_its_memory(tmp_path) -> None:
    command = [sys.executable, "-c", KEEPS_TO_ITS_MEMORY, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "kept torch.Size([1024, 1024])\n", done.stderr


def test_parameters_in_files_are_those_that_torch_draws(tmp_path) -> None:
    plain = Network(width=LARGE)
    with poptorch.parameters_in_files(tmp_path):
        model = Network(width=LARGE)
    for (name, one), (_, other) in zip(
        model.named_parameters(), plain.named_parameters(), strict=True
    ):
        assert torch.equal(one, other), name
        assert one.requires_grad
    assert model.head.weight is model.embedding.weight
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    loaded = torch.load(tmp_path / "weights.pt")
    assert torch.equal(loaded["blocks.0.layer.weight"], plain.blocks[0].layer.weight)


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        (["blocks.7"], "the blocks ['blocks.7'] are no modules of the model"),
        (["norm"], "there are ['embedding', 'blocks', 'blocks.0'"),
        ([], "no module of it was called that repeats"),
    ],
)
def test_what_phases_cannot_do_is_told(in_phases, tmp_path, blocks, error) -> None:
    options = options_of(tmp_path, blocks=blocks)
    module = Network()
    executor = poptorch.trainingModel(module, options, torch.optim.SGD(module.parameters(), lr=1))
    with pytest.raises(poptorch.Error) as caught:
        executor(*words(BATCH, 0))
    assert error in str(caught.value)
    assert not executor.isCompiled()
    assert all(parameter.isfinite().all() for parameter in module.parameters())


def scales_found(folder, accumulation):
    """Losses, the factors of the loss scale and the weights of training in half precision."""
    # Of a tied weight the parts that phases give are counted, in place of their sum.
    model = Network(tied=False).half()
    options = options_of(folder, accumulation)
    options.Training.setAutomaticLossScaling(True)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.01, loss_scaling=2.0**12)
    executor = poptorch.trainingModel(model, options, optimizer)
    losses, factors = [], []
    for step in range(5):
        losses.append(executor(*words(BATCH * accumulation, step))[0])
        factors.append(float(optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"]))
    return losses, factors, list(model.state_dict().values())


@pytest.mark.parametrize("accumulation", [1, 3])
def test_a_loss_scale_follows_the_gradients(in_phases, tmp_path, accumulation) -> None:
    given, wanted = scales_found(tmp_path, accumulation), scales_found(None, accumulation)
    assert given[1] == wanted[1]
    assert max(given[1]) > min(given[1])
    check_same(given[0], wanted[0])
    check_same(given[2], wanted[2])


def test_memory_that_the_process_has_already_is_refused(tmp_path) -> None:
    options = poptorch.Options().fit_in("100MiB", tmp_path)
    executor = poptorch.inferenceModel(Network(), options)
    with pytest.raises(poptorch.Error, match=r"fit_in: the program alone takes .*give more memory"):
        executor(words(BATCH, 0)[0])


def test_a_disk_without_room_is_refused_before_the_first_step(
    in_phases, tmp_path, monkeypatch
) -> None:
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    executor = poptorch.inferenceModel(Network(), options_of(tmp_path))
    with pytest.raises(poptorch.Error, match="which has 100 B left: give another folder"):
        executor(words(BATCH, 0)[0])


def test_plans_are_told_of_those_that_have_one(tmp_path) -> None:
    executor = poptorch.inferenceModel(Network(), options_of())
    with pytest.raises(poptorch.Error, match="not been compiled"):
        executor.fitPlan()
    executor(words(BATCH, 0)[0])
    with pytest.raises(poptorch.Error, match="the options name no memory"):
        executor.fitPlan()


def test_a_folder_that_is_missing_is_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"there is no folder '.*nowhere'; make it first"):
        poptorch.Options().fit_in("1GiB", tmp_path / "nowhere")


def test_gradients_can_be_anchored(in_phases, tmp_path) -> None:
    def gradient(options):
        options.anchorTensor("g", "Gradient___blocks.1.layer.weight")
        executor, *_ = trained(Network(), options, OPTIMIZERS["sgd"])
        return executor.getAnchoredTensor("g")

    torch.testing.assert_close(gradient(options_of(tmp_path, 2)), gradient(options_of(None, 2)))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_disk_that_fills_up_leaves_the_module_usable(in_phases, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        # Somebody else may take the room after it was looked at.
        monkeypatch.setattr(_compilation, "check_disk", lambda *_: None)
        model = Network()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        executor = poptorch.trainingModel(
            model, options_of(folder), OPTIMIZERS["sgd"](model.parameters())
        )
        with pytest.raises(poptorch.Error, match=r"No space left[\s\S]*attachToDevice"):
            executor(*words(BATCH, 0))
        executor.destroy()
        for name, value in model.state_dict().items():
            assert torch.equal(value, before[name])
        assert model(*words(BATCH, 0))[0].isfinite()
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_states_can_be_anchored(in_phases, tmp_path, accumulation) -> None:
    weight = "blocks.1.layer.weight"
    names = [f"UpdatedVar___{weight}", f"Accl1___{weight}", f"Step___{weight}"]

    def anchored(options: poptorch.Options) -> list[torch.Tensor]:
        options.outputMode(poptorch.OutputMode.All)
        for name in names:
            options.anchorTensor(name, name)
        executor, *_ = trained(Network(), options, OPTIMIZERS["adamw"])
        assert set(names) <= set(executor.getTensorNames())
        return [executor.getAnchoredTensor(name) for name in names]

    given = anchored(options_of(tmp_path, accumulation, iterations=2))
    check_same(given, anchored(options_of(None, accumulation, iterations=2)))

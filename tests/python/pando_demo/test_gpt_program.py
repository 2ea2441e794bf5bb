"""The phased training program of the decoder, against PyTorch and against itself."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import popart
from pando.checkpoint import CheckpointError
from pando.process_memory import claimed_bytes
from pando.session_info import phase_times
from pando.text_data import Batch, TextBatches
from pando_demo.gpt_network import SHAPES, GptShape, initial_values, parse_count, shape_of
from pando_demo.gpt_program import BETA1, BETA2, EPSILON
from pando_demo.gpt_training import GptOptions, GptTrainer, default_warmup_steps

SHAPE = GptShape(layers=3, hidden=32, heads=4, sequence=16, vocabulary=257)
MICRO_BATCH, MICRO_BATCHES = 2, 3
LEARNING_RATE = 3e-3
STEPS = 6


def batches(steps: int = STEPS, seed: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    size = (steps, MICRO_BATCHES, MICRO_BATCH, SHAPE.sequence + 1)
    return np.minimum(rng.geometric(0.2, size), SHAPE.vocabulary - 1).astype(np.int32)


def options(folder: Path, **changes: object) -> GptOptions:
    plain = GptOptions(
        micro_batch=MICRO_BATCH,
        micro_batches=MICRO_BATCHES,
        learning_rate=LEARNING_RATE,
        warmup_steps=0,
        seed=3,
        folder=folder,
        threads=2,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def batch_of(data: np.ndarray) -> Batch:
    return Batch(data[..., :-1].copy(), data[..., 1:].copy())


def all_weights(trainer: GptTrainer, kind: str = "fwd") -> dict[str, list[np.ndarray]]:
    return {
        key.replace(f".{kind}.", "."): [trainer.read_row(key, i) for i in range(buffer.entries)]
        for key, buffer in trainer.program.buffers.items()
        if f".{kind}." in key
    }


def train(given: GptOptions, data: np.ndarray) -> tuple[list[float], dict[str, list[np.ndarray]]]:
    with GptTrainer(SHAPE, given) as trainer:
        trainer.initialise()
        losses = [trainer.step(batch_of(step)) for step in data]
        return losses, {
            f"{kind}.{key}": rows
            for kind in ("fwd", "moment1", "moment2")
            for key, rows in all_weights(trainer, kind).items()
        }


def state(seed: int = 3) -> dict[str, list[np.ndarray]]:
    values: dict[str, list[np.ndarray]] = {}
    for key, _, value in initial_values(SHAPE, seed):
        values.setdefault(key, []).append(value)
    return values


def torch_loss(p: dict[str, list[torch.Tensor]], data: torch.Tensor) -> torch.Tensor:
    tokens, labels = data[:, :-1].long(), data[:, 1:].long()
    b, s = tokens.shape
    x = p["embedding.tokens"][0][tokens] + p["embedding.positions"][0]
    for i in range(SHAPE.layers):
        w = {key.removeprefix("block."): rows[i] for key, rows in p.items() if "block" in key}

        def norm(name: str, t: torch.Tensor, w: dict[str, torch.Tensor] = w) -> torch.Tensor:
            return F.layer_norm(t, (SHAPE.hidden,), w[f"{name}.weight"], w[f"{name}.bias"])

        def linear(name: str, t: torch.Tensor, w: dict[str, torch.Tensor] = w) -> torch.Tensor:
            return t @ w[f"{name}.weight"] + w[f"{name}.bias"]

        heads = (b, s, 3, SHAPE.heads, SHAPE.hidden // SHAPE.heads)
        q, k, v = linear("qkv", norm("norm1", x)).reshape(heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear("proj", attended.transpose(1, 2).reshape(b, s, SHAPE.hidden))
        x = x + linear("ff2", F.gelu(linear("ff1", norm("norm2", x)), approximate="tanh"))
    x = F.layer_norm(x, (SHAPE.hidden,), p["head.norm.weight"][0], p["head.norm.bias"][0])
    scores = x @ p["head.output.weight"][0] + p["head.output.bias"][0]
    return F.cross_entropy(scores.reshape(-1, SHAPE.vocabulary), labels.reshape(-1))


def train_with_torch(data: np.ndarray) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
    parameters = {
        key: [torch.from_numpy(v.copy()).requires_grad_() for v in rows]
        for key, rows in state().items()
    }
    flat = [t for rows in parameters.values() for t in rows]
    adam = torch.optim.Adam(flat, LEARNING_RATE, (BETA1, BETA2), EPSILON)
    losses = []
    for step in data:
        adam.zero_grad()
        of_step = [torch_loss(parameters, torch.from_numpy(batch)) for batch in step]
        torch.stack(of_step).mean().backward()
        adam.step()
        losses.append([loss.item() for loss in of_step])
    return np.array(losses).mean(axis=1), {
        key: [t.detach().numpy() for t in rows] for key, rows in parameters.items()
    }


def same(one: dict[str, list[np.ndarray]], other: dict[str, list[np.ndarray]]) -> None:
    assert one.keys() == other.keys()
    for key, rows in one.items():
        for row, (mine, theirs) in enumerate(zip(rows, other[key], strict=True)):
            np.testing.assert_array_equal(mine, theirs, f"{key} of layer {row}")


def test_training_is_that_of_pytorch(tmp_path: Path) -> None:
    data = batches()
    wanted_losses, wanted = train_with_torch(data)
    losses, values = train(options(tmp_path), data)
    np.testing.assert_allclose(losses, wanted_losses, rtol=2e-5)
    assert wanted_losses[0] > wanted_losses[-1]
    for key, rows in wanted.items():
        for row, value in enumerate(rows):
            # Adam divides by the root of the second moment: tiny gradients make large differences.
            mine = values[f"fwd.{key}"][row]
            np.testing.assert_allclose(mine, value, atol=2e-4, err_msg=f"{key} of layer {row}")
            if key == "block.qkv.bias":
                # The keys' bias changes no score: its gradient is rounding alone.
                value = np.delete(value, slice(SHAPE.hidden, 2 * SHAPE.hidden))
                mine = np.delete(mine, slice(SHAPE.hidden, 2 * SHAPE.hidden))
            close = np.isclose(mine, value, rtol=1e-3, atol=1e-5)
            assert np.mean(close) > 0.98, f"{key} of layer {row}"


@pytest.mark.parametrize("changes", [{"io_mode": "compute"}, {"memory_bytes": 4 << 30}])
def test_files_and_memory_give_the_same_bits(tmp_path: Path, changes: dict[str, object]) -> None:
    data = batches(3)
    losses, values = train(options(tmp_path), data)
    assert not [*tmp_path.glob("*/*.remote")]
    in_ram_losses, in_ram = train(options(tmp_path, tier="ram", **changes), data)
    assert losses == in_ram_losses
    same(values, in_ram)


def test_micro_batches_add_up_to_a_batch(tmp_path: Path) -> None:
    data = batches(3)
    losses, values = train(options(tmp_path), data)
    whole = data.reshape(3, 1, MICRO_BATCHES * MICRO_BATCH, -1)
    size = {"micro_batch": MICRO_BATCHES * MICRO_BATCH, "micro_batches": 1}
    other_losses, others = train(options(tmp_path, **size), whole)
    np.testing.assert_allclose(losses, other_losses, rtol=1e-5)
    for key in ("fwd.block.qkv.weight", "fwd.head.output.weight", "fwd.embedding.tokens"):
        np.testing.assert_allclose(values[key], others[key], atol=2e-4)


def test_evaluation_changes_nothing(tmp_path: Path) -> None:
    first, second = batches(2)
    with GptTrainer(SHAPE, options(tmp_path)) as trainer:
        trainer.initialise()
        before = all_weights(trainer)
        loss = trainer.evaluate(batch_of(first))
        same(before, all_weights(trainer))
        assert trainer.evaluate(batch_of(first)) == loss
        assert trainer.step(batch_of(first)) == pytest.approx(loss, rel=1e-5)
        assert trainer.evaluate(batch_of(first)) < loss
        trainer.evaluate(batch_of(second))
        assert trainer.steps_done == 1


def text() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 60, 4000).astype(np.uint16)


def test_a_resumed_training_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    def run(trainer: GptTrainer, data: TextBatches, steps: int) -> list[float]:
        return [trainer.step(data.next()) for _ in range(steps)]

    with GptTrainer(SHAPE, options(tmp_path)) as trainer:
        trainer.initialise()
        wanted = run(trainer, TextBatches(text(), trainer.sequences, 7), 6)
        values = all_weights(trainer, "moment2")
    with GptTrainer(SHAPE, options(tmp_path)) as trainer:
        trainer.initialise()
        data = TextBatches(text(), trainer.sequences, 7)
        losses = run(trainer, data, 4)
        trainer.save(data)
    with GptTrainer(SHAPE, options(tmp_path, tier="ram")) as trainer:
        data = TextBatches(text(), trainer.sequences, 8)
        assert trainer.resume(data).step == 4
        losses += run(trainer, data, 2)
        same(values, all_weights(trainer, "moment2"))
    assert losses == wanted


def test_a_training_that_cannot_be_resumed(tmp_path: Path) -> None:
    data = TextBatches(text(), (MICRO_BATCHES, MICRO_BATCH, SHAPE.sequence), 7)
    with GptTrainer(SHAPE, options(tmp_path)) as trainer:
        with pytest.raises(CheckpointError, match="no checkpoint"):
            trainer.resume(data)
        trainer.save(data)
    other_rate = GptTrainer(SHAPE, options(tmp_path, learning_rate=1.0))
    with other_rate, pytest.raises(ValueError, match="learning_rate"):
        other_rate.resume(data)
    other_warmup = GptTrainer(SHAPE, options(tmp_path, warmup_steps=9))
    with other_warmup, pytest.raises(ValueError, match="'warmup_steps': 9"):
        other_warmup.resume(data)
    other_size = GptTrainer(replace(SHAPE, layers=2), options(tmp_path))
    with other_size, pytest.raises(CheckpointError, match="another model"):
        other_size.resume(data)


def test_a_phase_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    # The process may have grown in other tests, so the limit counts from what it has now.
    given = options(tmp_path, memory_bytes=claimed_bytes() + (400 << 20), threads=1)
    with pytest.raises(popart.OutOfMemoryException, match="the limit is") as error:
        GptTrainer(GptShape(2, 4096, 16, 64), given)
    assert "Block" in str(error.value)
    assert "the phase 'layers_backward' needs most" in str(error.value)
    with pytest.raises(ValueError, match="give more memory"):
        GptTrainer(SHAPE, options(tmp_path, memory_bytes=1 << 20))


def test_the_rate_rises_linearly(tmp_path: Path) -> None:
    trainer = GptTrainer(SHAPE, options(tmp_path, warmup_steps=8))
    wanted = LEARNING_RATE * np.minimum(np.arange(1, 21) / 8, 1)
    np.testing.assert_allclose([trainer.rate(i) for i in range(1, 21)], wanted)
    assert GptTrainer(SHAPE, options(tmp_path)).rate(1) == LEARNING_RATE


def test_larger_networks_warm_up_for_longer(tmp_path: Path) -> None:
    steps = [default_warmup_steps(shape) for shape in SHAPES.values()]
    assert steps == sorted(steps) and steps[0] == 20
    twice = replace(SHAPES["1.5B"], layers=2 * SHAPES["1.5B"].layers)
    assert default_warmup_steps(twice) == pytest.approx(2 * steps[-1], rel=0.01)
    trainer = GptTrainer(SHAPE, options(tmp_path, warmup_steps=None))
    assert trainer.warmup_steps == default_warmup_steps(SHAPE)


def test_shapes() -> None:
    for name, shape in SHAPES.items():
        assert shape.parameters == pytest.approx(parse_count(name), rel=0.03)
        total = sum(value.size for _, _, value in initial_values(replace(shape, layers=1), 1))
        assert total == replace(shape, layers=1).parameters
        if shape.hidden > 600:
            break
    assert 12 * SHAPES["1.5B"].parameters > 18e9
    assert shape_of("1.4B")[0] == "1.5B"
    assert shape_of("100000000")[0] == "124M"
    for wrong in ("", "-1", "many", "nan", "0M"):
        with pytest.raises(ValueError, match="number of parameters"):
            shape_of(wrong)
    with pytest.raises(ValueError, match="do not divide"):
        GptShape(1, 100, 3)
    with pytest.raises(ValueError, match="layers must be at least 1"):
        GptShape(0, 64, 4)


@pytest.mark.parametrize("tier", ["file", "ram"])
def test_the_time_of_every_phase_is_known(tmp_path: Path, tier: str) -> None:
    data = batches(3)
    with GptTrainer(SHAPE, options(tmp_path, profile=True, tier=tier)) as trainer:
        trainer.initialise()
        start = time.perf_counter()
        for step in data:
            trainer.step(batch_of(step))
        seconds = time.perf_counter() - start
        in_steps = {phase.name: phase for phase in phase_times(trainer.session)}
        trainer.evaluate(batch_of(data[0]))
        phases = {phase.name: phase for phase in phase_times(trainer.session)}
    training = [
        "embedding_forward",
        "layers_forward",
        "head",
        "layers_backward",
        "embedding_backward",
    ]
    ends = ["end of the run"] if tier == "file" else []
    assert [name for name in in_steps if name] == [*training, *ends]
    assert [name for name in phases if name] == [*training, "evaluation", *ends]
    assert sum(phase.seconds for phase in in_steps.values()) < seconds
    for name in training:
        phase = in_steps[name]
        assert phase.compute_seconds > 0 and phase.waiting_seconds >= 0 and phase.io_seconds > 0
        assert phases[name] == phase, "an evaluation is no part of training"
    steps, layers = len(data), SHAPE.layers
    weights = 4 * SHAPE.layer_parameters * layers
    hidden = 4 * MICRO_BATCH * MICRO_BATCHES * SHAPE.sequence * SHAPE.hidden * layers
    forward, backward = in_steps["layers_forward"], in_steps["layers_backward"]
    # Each layer reads and writes an input or gradient, backward ones read both.
    assert forward.bytes_loaded == steps * (weights + hidden)
    assert forward.bytes_stored == steps * hidden
    assert backward.bytes_loaded == steps * (3 * weights + 2 * hidden)
    assert backward.bytes_stored == steps * (3 * weights + hidden)

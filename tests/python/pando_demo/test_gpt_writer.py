"""Texts that a trained decoder writes, against passes over the whole text in PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pando.sampling import sample_tokens
from pando.text_data import END_OF_TEXT, TextBatches
from pando_demo.gpt_network import GptShape, variable_shapes
from pando_demo.gpt_training import GptOptions, GptTrainer
from pando_demo.gpt_writer import GptWriter, readable

SHAPE = GptShape(layers=3, hidden=32, heads=4, sequence=24)
PROMPT = np.frombuffer(b"ro", np.uint8).astype(np.int32)
TEXTS, COUNT = 2, 23
Weights = dict[str, list[np.ndarray]]


def trained(options: GptOptions, steps: int = 120) -> tuple[Weights, GptWriter]:
    """Weights after some steps on words, and a writer with those weights, which is entered."""
    rng = np.random.default_rng(3)
    words = rng.choice([b"row ", b"load ", b"store "], 2000)
    tokens = np.frombuffer(b"".join(words), np.uint8).astype(np.uint16)
    batches = TextBatches(tokens, (2, 4, SHAPE.sequence), 1)
    with GptTrainer(SHAPE, options) as trainer:
        trainer.initialise()
        for _ in range(steps):
            trainer.step(batches.next())
        weights = {
            key: [trainer.read_weight(key, row) for row in range(rows)]
            for key, (_, rows) in variable_shapes(SHAPE).items()
        }
        writer = GptWriter(SHAPE, TEXTS, options)
        writer.__enter__()
        writer.take_weights(trainer.read_weight)
    return weights, writer


@pytest.fixture(scope="module", params=["ram", "file"])
def written_by(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Weights, GptWriter]:
    folder = tmp_path_factory.mktemp("state")
    options = GptOptions(4, 2, learning_rate=0.01, tier=request.param, folder=folder, threads=2)
    weights, writer = trained(options)
    request.addfinalizer(lambda: writer.__exit__(None, None, None))
    return weights, writer


def torch_scores(weights: Weights, text: np.ndarray) -> np.ndarray:
    """Scores of the next token behind every position of a text (n,), in one pass, in float64."""
    p = {key: [torch.from_numpy(row).double() for row in rows] for key, rows in weights.items()}

    def norm(name: str, row: int, t: torch.Tensor) -> torch.Tensor:
        weight, bias = p[f"{name}.weight"][row], p[f"{name}.bias"][row]
        return torch.nn.functional.layer_norm(t, (SHAPE.hidden,), weight, bias)

    def linear(name: str, row: int, t: torch.Tensor) -> torch.Tensor:
        return t @ p[f"{name}.weight"][row] + p[f"{name}.bias"][row]

    tokens = torch.from_numpy(text).long()
    x = p["embedding.tokens"][0][tokens] + p["embedding.positions"][0][: text.size]
    hidden_after = torch.ones(text.size, text.size, dtype=torch.bool).triu(1)
    for i in range(SHAPE.layers):
        qkv = linear("block.qkv", i, norm("block.norm1", i, x))
        q, k, v = qkv.reshape(text.size, 3, SHAPE.heads, -1).permute(1, 2, 0, 3)
        products = q @ k.transpose(1, 2) / (SHAPE.hidden // SHAPE.heads) ** 0.5
        seen = products.masked_fill(hidden_after, -torch.inf).softmax(-1) @ v
        x = x + linear("block.proj", i, seen.transpose(0, 1).reshape(text.size, -1))
        inner = linear("block.ff1", i, norm("block.norm2", i, x))
        x = x + linear("block.ff2", i, torch.nn.functional.gelu(inner, approximate="tanh"))
    return linear("head.output", 0, norm("head.norm", 0, x)).numpy()


def best(scores: np.ndarray) -> np.ndarray:
    return sample_tokens(scores, np.random.default_rng(0), temperature=0)


def test_the_best_tokens_are_those_of_passes_over_the_whole_text(
    written_by: tuple[Weights, GptWriter],
) -> None:
    weights, writer = written_by
    text = PROMPT
    for _ in range(COUNT):
        text = np.append(text, torch_scores(weights, text)[-1].argmax())
    given = writer.write(PROMPT, COUNT, best)
    np.testing.assert_array_equal(given, np.tile(text[PROMPT.size :], (TEXTS, 1)))
    # It has learnt, and so the test compares more than the scores of its first weights.
    assert readable(given[0]).split()[1] in ("row", "load", "store")


def test_texts_do_not_see_each_other(written_by: tuple[Weights, GptWriter]) -> None:
    weights, writer = written_by
    texts = np.random.default_rng(5).integers(0, 256, (TEXTS, SHAPE.sequence))
    # The caches still hold what was written before: it must not be seen.
    given = np.stack([writer.scores(texts[:, i], i) for i in range(SHAPE.sequence)], 1)
    wanted = np.stack([torch_scores(weights, text) for text in texts])
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-4)


def test_writing_ends_with_the_text(written_by: tuple[Weights, GptWriter]) -> None:
    _, writer = written_by
    tokens = iter([[65, END_OF_TEXT], [66, 67], [END_OF_TEXT, 68], [69, 70]])
    given = writer.write(PROMPT, 10, lambda _: np.array(next(tokens)))
    np.testing.assert_array_equal(given, [[65, 66, END_OF_TEXT], [END_OF_TEXT, 67, 68]])
    assert [readable(text) for text in given] == ["AB", ""]


def test_writing_can_be_stopped(written_by: tuple[Weights, GptWriter]) -> None:
    _, writer = written_by
    answers = iter([False] * 4 + [True])
    # The prompt's first token gives nothing to write.
    assert writer.write(PROMPT, 10, best, lambda: next(answers)).shape == (TEXTS, 3)


@pytest.mark.parametrize(("prompt", "count"), [(0, 1), (2, 24), (26, 0), (1, -1)])
def test_texts_have_room_for_what_is_written(
    written_by: tuple[Weights, GptWriter], prompt: int, count: int
) -> None:
    _, writer = written_by
    with pytest.raises(ValueError, match=f"at most 25 tokens.* prompt of {prompt} and {count}"):
        writer.write(np.zeros(prompt, np.int32), count, best)


def test_positions_are_checked(written_by: tuple[Weights, GptWriter]) -> None:
    _, writer = written_by
    for position in (-1, SHAPE.sequence):
        with pytest.raises(ValueError, match=f"one of the 24 .* given {position}"):
            writer.scores(np.zeros(TEXTS, np.int32), position)


def test_what_is_shown_is_text() -> None:
    raw = np.frombuffer("a\té\x1b[2J\n".encode() + b"\xff", np.uint8)
    assert readable(raw.astype(np.int32)) == "a\té\ufffd[2J\n\ufffd"
    assert readable(np.array([65, END_OF_TEXT, 66])) == "A"
    assert readable(np.array([], np.int32)) == ""


def test_a_writer_leaves_no_files(tmp_path: Path) -> None:
    with GptWriter(SHAPE, 1, GptOptions(tier="file", folder=tmp_path)) as writer:
        assert [*tmp_path.glob("**/*.remote")]
        assert writer.memory_bytes > 0
    assert not [*tmp_path.glob("**/*.remote")]

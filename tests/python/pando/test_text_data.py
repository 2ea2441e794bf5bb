"""Text as tokens and batches."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from pando import text_data
from pando.text_data import END_OF_TEXT, TextBatches, read_tokens


def test_tokens_are_bytes(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes("Ähre".encode() + b"\0\xff")
    assert read_tokens(file).tolist() == [*"Ähre".encode(), 0, 255, END_OF_TEXT]


def test_the_default_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_data, "DEFAULT_ROOT", tmp_path)
    with pytest.raises(FileNotFoundError, match="perl-doc"):
        read_tokens()
    (tmp_path / "5.1" / "pod").mkdir(parents=True)
    (tmp_path / "5").symlink_to("5.1")
    for name in ("b", "a"):
        (tmp_path / "5.1" / "pod" / f"{name}.pod").write_text(name)
    assert read_tokens().tolist() == [ord("a"), END_OF_TEXT, ord("b"), END_OF_TEXT]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no text file"):
        read_tokens(tmp_path / "missing")
    for make in (os.mkfifo, os.mkdir):
        make(tmp_path / make.__name__)
        with pytest.raises(OSError, match="no regular file"):
            read_tokens(tmp_path / make.__name__)
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty"):
        read_tokens(tmp_path / "empty")


def test_batches_keep_the_held_out_part_apart() -> None:
    tokens = np.arange(1000, dtype=np.uint16)
    data = TextBatches(tokens, (2, 3, 8), seed=1)
    held_out = 50
    for _ in range(20):
        batch = data.next()
        assert batch.tokens.shape == batch.labels.shape == (2, 3, 8)
        assert batch.tokens.dtype == batch.labels.dtype == np.int32
        np.testing.assert_array_equal(batch.labels, batch.tokens + 1)
        assert batch.labels.max() < 1000 - held_out
    first, second = data.validation(), data.validation()
    np.testing.assert_array_equal(first.tokens, second.tokens)
    assert first.tokens.min() == 1000 - held_out
    assert first.labels.max() == 999


def test_the_generator_decides_the_batches() -> None:
    tokens = np.arange(1000, dtype=np.uint16)
    one, other = (TextBatches(tokens, (1, 4, 8), seed) for seed in (1, 2))
    assert not np.array_equal(one.next().tokens, other.next().tokens)
    other.generator.bit_generator.state = one.generator.bit_generator.state
    np.testing.assert_array_equal(one.next().tokens, other.next().tokens)


def test_a_text_that_is_too_short() -> None:
    TextBatches(np.zeros(18, np.uint16), (1, 1, 8), 1).next()
    with pytest.raises(ValueError, match="at least 18"):
        TextBatches(np.zeros(17, np.uint16), (1, 1, 8), 1)

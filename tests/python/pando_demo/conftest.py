"""What tests of the demos of decoders share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest

from pando import checkpoint
from pando.text_data import Batch, TextBatches


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Sentences of few words."""
    rng = np.random.default_rng(2)
    words = ["graph", "row", "phase", "memory", "load", "store"]
    file = tmp_path / "text"
    file.write_text(" ".join(words[i] for i in rng.integers(0, len(words), 3000)))
    return file


@pytest.fixture
def rows_of() -> Callable[[Path], dict[str, bytes]]:
    """Gives the files of the newest checkpoint of a run."""

    def files(folder: Path) -> dict[str, bytes]:
        newest = checkpoint.checkpoints(folder / "checkpoints")[-1]
        return {file.name: file.read_bytes() for file in newest.glob("*.safetensors")}

    return files


@pytest.fixture
def third_step_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], AbstractContextManager[None]]:
    """Makes contexts in which the user presses Ctrl-C when the third batch is taken."""
    taken = TextBatches.next

    @contextmanager
    def interrupting() -> Iterator[None]:
        count = 0

        def take(data: TextBatches) -> Batch:
            nonlocal count
            count += 1
            if count == 3:
                signal.raise_signal(signal.SIGINT)
            return taken(data)

        with monkeypatch.context() as patch:
            patch.setattr(TextBatches, "next", take)
            yield

    return interrupting

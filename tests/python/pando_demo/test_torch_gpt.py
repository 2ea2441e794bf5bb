"""The demo that trains a GPT-2 of transformers, tiny and on a text of its own."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
import torch

from pando import checkpoint
from pando.process_memory import parse_bytes
from pando_demo.gpt_network import GptShape
from pando_demo.torch_gpt import EXIT_INTERRUPTED, main
from pando_demo.torch_gpt_model import ScoresAt, make_model, write
from poptorch import _compilation

TINY = ["--layers", "2", "--hidden", "32", "--heads", "2", "--sequence", "32", "--warmup-steps"]


@pytest.fixture(autouse=True)
def _limit_of_before() -> Iterator[None]:
    """The program limits the memory of its process, in which other tests run after these."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.fixture
def in_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are in phases although they would fit."""
    monkeypatch.setattr(_compilation, "may_be_whole", lambda *_: False)


def arguments(text: Path, folder: Path, *more: str) -> list[str]:
    given = ["--data", str(text), "--folder", str(folder), "--learning-rate", "0.01"]
    return [*TINY, "1", *given, "--memory", "64GiB", *more]


@pytest.mark.usefixtures("in_phases")
def test_it_learns_and_writes(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    assert main(arguments(text, folder, "--steps", "25", "--write", "20", "--prompt", "row")) == 0
    out = capsys.readouterr().out
    assert "in 4 phases of 3 kinds" in out
    first, last = map(
        float, re.findall(r"^loss +([\d.]+) at first, ([\d.]+) at last", out, re.M)[0]
    )
    assert last < 0.7 * first
    texts = re.split(r"^text \d+$", out, flags=re.MULTILINE)[1:]
    assert len(texts) == 3
    assert all(one.strip().startswith("row") for one in texts)
    assert len(checkpoint.checkpoints(folder / "checkpoints")) == 1
    # No file stays that the run worked in.
    assert not [*folder.glob("**/*.remote")]


@pytest.mark.usefixtures("in_phases")
def test_stopping_and_going_on_changes_nothing(
    text: Path,
    tmp_path: Path,
    third_step_is_interrupted: Callable[[], AbstractContextManager[None]],
    rows_of: Callable[[Path], dict[str, bytes]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(arguments(text, tmp_path / "whole", "--steps", "5", "--write", "0")) == 0
    stopped = tmp_path / "stopped"
    with third_step_is_interrupted():
        given = arguments(text, stopped, "--steps", "5", "--write", "0")
        assert main(given) == EXIT_INTERRUPTED
    assert "--resume goes on" in capsys.readouterr().out
    resume = ["--steps", "2", "--resume", "--save-every", "1", "--write", "0"]
    assert main(arguments(text, stopped, *resume)) == 0
    assert rows_of(stopped) == rows_of(tmp_path / "whole")
    assert len(checkpoint.checkpoints(stopped / "checkpoints")) == 1


def test_the_process_keeps_to_its_memory(text: Path, tmp_path: Path) -> None:
    # Weights, moments and gradients of 12 layers are 0.6 GB, the process without them 0.65 GB.
    size = ["--layers", "12", "--hidden", "512", "--heads", "8", "--memory", "960MiB"]
    given = arguments(text, tmp_path / "out", *size, "--steps", "2", "--write", "1", "--no-save")
    command = [sys.executable, "-m", "pando_demo.torch_gpt", *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "in 14 phases of 3 kinds" in done.stdout
    for peak in re.findall(r"^peak resident memory +(.*)$", done.stdout, re.M):
        assert parse_bytes(peak) < parse_bytes("960MiB")
    assert not (tmp_path / "out" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (["--memory", "100MiB"], "transformers alone take"),
        (["--resume"], "there is no checkpoint in"),
        (["--data", "/nowhere"], "There is no text file /nowhere"),
        (["--write", "100"], "there is room for 31"),
    ],
)
@pytest.mark.usefixtures("in_phases")
def test_what_cannot_be_done_is_told(
    text: Path, tmp_path: Path, more: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(text, tmp_path / "out", *more)) == 1
    assert error in capsys.readouterr().err


def test_the_plan_alone_makes_no_model(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(text, tmp_path / "out", "--plan")) == 0
    out = capsys.readouterr().out
    assert "of weights of the module" in out and "drawing" not in out


def test_bytes_are_chosen_by_the_scores_of_the_last_one(tmp_path: Path) -> None:
    shape = GptShape(2, 32, 2, sequence=16)
    model = make_model(shape, tmp_path, seed=3).eval()
    with torch.no_grad():
        written = write(
            ScoresAt(model), b"ab", 2, 5, lambda scores: scores.argmax(1).astype(np.int32), bool
        )
        tokens = torch.tensor([[97, 98]])
        for _ in range(5):
            following = model(tokens).logits[:, -1].argmax(1, keepdim=True)
            tokens = torch.cat([tokens, following], dim=1)
    assert written.tolist() == [tokens[0].tolist()] * 2

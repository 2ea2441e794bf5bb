"""The demo that trains a decoder, tiny and on a text of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pando import checkpoint
from pando.process_memory import parse_bytes
from pando.sampling import sample_tokens
from pando_demo import gpt_text
from pando_demo.gpt import EXIT_INTERRUPTED, main, parse_arguments

TINY = ["--layers", "2", "--hidden", "32", "--heads", "2", "--sequence", "32", "--threads", "2"]


def arguments(text: Path, folder: Path, *more: str) -> list[str]:
    return [*TINY, "--data", str(text), "--folder", str(folder), "--learning-rate", "0.01", *more]


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    lines = capsys.readouterr().out.splitlines()
    pairs = [line.strip().split("  ", 1) for line in lines if "  " in line.strip()]
    return {name: value.strip() for name, value in pairs}


def test_it_learns_and_leaves_a_report(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    assert main(arguments(text, folder, "--steps", "30", "--validate-every", "10")) == 0
    facts = shown(capsys)
    first, _, last = facts["loss"].partition(" at first, ")
    assert float(last.removesuffix(" at last")) < 0.7 * float(first)
    assert facts["loss on held-out text"].count("after") == 4
    assert facts["steps"] == "30 of 256 tokens"
    assert facts["memory limit"] == "none"
    for name in ("loaded per step", "stored per step", "peak resident memory", "time per step"):
        assert float(facts[name].split()[0].replace(",", "")) > 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "BlockBackward" in page and "Time by phase" in page
    assert facts["layers_backward"].startswith("computing ")
    assert "evaluation" not in facts and "<td>evaluation</td>" in page
    assert len(checkpoint.checkpoints(folder / "checkpoints")) == 1
    # No file stays that the run worked in.
    assert not [*folder.glob("**/*.remote")]


def texts_of(out: str) -> list[str]:
    """The texts at the end of what the demo shows."""
    parts = re.split(r"^text \d+$", out, flags=re.MULTILINE)
    return [textwrap.dedent(part.strip("\n")) for part in parts[1:]]


def test_it_ends_with_texts_of_the_trained_network(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learnt = ["--steps", "200", "--no-save", "--prompt", "row ", "--texts", "2", "--write", "28"]
    assert main(arguments(text, tmp_path / "out", *learnt, "--temperature", "0")) == 0
    out = capsys.readouterr().out
    first, second = texts_of(out)
    assert "texts   2 of 28 bytes, at the end" in out and "for texts" in out
    assert first == second and first.startswith("row ")
    # All words but the last, which may be cut.
    words = ["graph", "row", "phase", "memory", "load", "store"]
    assert len(first.split()) > 3 and set(first.split()[:-1]) <= set(words)
    assert not [*(tmp_path / "out").glob("**/*.remote")]


def test_texts_that_do_not_fit_are_left_out(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpt_text.GptWriter, "memory_bytes", 900 << 30)
    assert main(arguments(text, tmp_path / "out", "--steps", "1", "--no-save")) == 0
    out = capsys.readouterr().out
    assert "none, since writing needs 900 GiB of memory beside training" in out
    assert "for texts" not in out and texts_of(out) == []


def test_texts_are_drawn(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--steps", "1", "--no-save", "--prompt", "a"]
    runs = []
    for more in (["--seed", "1"], ["--seed", "1"], ["--seed", "2"], ["--write", "0"]):
        assert main(arguments(text, tmp_path / "out", *given, *more)) == 0
        runs.append(texts_of(capsys.readouterr().out))
    one, again, other, none = runs
    assert one == again != other and none == []
    assert len(one) == 3 and len(set(one)) == 3


def test_stopping_while_it_writes_keeps_the_run(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sampled = gpt_text.sample_tokens

    def third_is_interrupted(*given: Any) -> np.ndarray:
        nonlocal count
        count += 1
        if count == 3:
            signal.raise_signal(signal.SIGINT)
        return sampled(*given)

    count = 0
    monkeypatch.setattr(gpt_text, "sample_tokens", third_is_interrupted)
    given = ["--steps", "1", "--prompt", "row", "--temperature", "0"]
    assert main(arguments(text, tmp_path / "out", *given)) == 0
    assert count == 3 and len(texts_of(capsys.readouterr().out)) == 3
    assert (tmp_path / "out" / "report.html").exists()


def test_a_failure_while_it_writes_costs_no_training(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(scores: np.ndarray, *_: Any) -> np.ndarray:
        return sample_tokens(np.full_like(scores, np.nan), np.random.default_rng(0))

    monkeypatch.setattr(gpt_text, "sample_tokens", broken)
    assert main(arguments(text, tmp_path / "out", "--steps", "1")) == 0
    shown = capsys.readouterr()
    assert "No text was written: wanted scores that are finite" in shown.err
    assert texts_of(shown.out) == []
    assert "No text was written" in (tmp_path / "out" / "report.html").read_text()
    assert checkpoint.checkpoints(tmp_path / "out" / "checkpoints")


def test_stopping_and_going_on_changes_nothing(
    text: Path,
    tmp_path: Path,
    third_step_is_interrupted: Callable[[], AbstractContextManager[None]],
    rows_of: Callable[[Path], dict[str, bytes]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(arguments(text, tmp_path / "whole", "--steps", "6")) == 0
    stopped = tmp_path / "stopped"
    with third_step_is_interrupted():
        assert main(arguments(text, stopped, "--steps", "6")) == EXIT_INTERRUPTED
    assert "--resume goes on" in capsys.readouterr().out
    assert checkpoint.checkpoints(stopped / "checkpoints")[-1].name == "step-0000000003"
    resume = ["--steps", "3", "--resume", "--save-every", "1", "--seed", "1"]
    assert main(arguments(text, stopped, *resume)) == 0
    assert rows_of(stopped) == rows_of(tmp_path / "whole")
    assert len(checkpoint.checkpoints(stopped / "checkpoints")) == 1


def test_the_process_keeps_to_its_memory(text: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pando_demo.gpt"]
    given = arguments(text, tmp_path / "out", "--steps", "2", "--memory", "500MiB", "--no-save")
    done = subprocess.run([*command, *given], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    facts = dict(
        line.split("  ", 1) for line in done.stdout.splitlines() if line and "  " in line.strip()
    )
    peak = facts["peak resident memory"].strip()
    assert parse_bytes(peak) < parse_bytes("500MiB")
    assert facts["memory limit"].strip().startswith("500")
    assert not (tmp_path / "out" / "checkpoints").exists()


def test_what_does_not_fit_is_refused(text: Path, tmp_path: Path) -> None:
    wide = ["--hidden", "2048", "--memory", "500MiB"]
    given = arguments(text, tmp_path / "out", *wide)
    command = [sys.executable, "-m", "pando_demo.gpt", *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "bytes of device memory; the limit is" in done.stderr
    assert "frame of BlockBackward" in done.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--data", "/none/text"], "no text file"),
        (["--data", "/dev/null"], "no regular file"),
        (["--params", "many"], "number of parameters"),
        (["--hidden", "33"], "do not divide"),
        (["--resume"], "no checkpoint"),
        (["--folder", "/proc/none"], "/proc/none"),
        (["--memory", "1MiB"], "give more memory"),
        (["--sequence", "30000"], "sequences of 30000"),
        (["--write", "32"], "room for 31"),
        (["--write", "1", "--prompt", "longer than the sequences of the network"], "room for 0"),
        (["--prompt", ""], "at least one byte"),
    ],
)
def test_bad_input_is_one_line(
    text: Path,
    tmp_path: Path,
    more: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pando_demo.gpt.limit_private_memory", lambda limit: limit)
    assert main(arguments(text, tmp_path / "out", "--steps", "1", *more)) == 1
    assert message in capsys.readouterr().err


def test_an_empty_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").touch()
    assert main(arguments(tmp_path / "empty", tmp_path / "out")) == 1
    assert "is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--steps", "0"],
        ["--memory", "much"],
        ["--batch", "3"],
        ["--tier", "tape"],
        ["--write", "-1"],
        ["--temperature", "-0.5"],
        ["--temperature", "nan"],
        ["--top-k", "0"],
    ],
)
def test_arguments_are_checked(wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(wrong)


def test_bytes() -> None:
    assert parse_bytes("4GiB") == 4 << 30
    assert parse_bytes("1.5 MiB") == 3 << 19
    assert parse_bytes("512k") == 512 << 10
    assert parse_bytes("7") == 7
    for wrong in ("", "GiB", "-1", "1PiB", "0", "4 G B"):
        with pytest.raises(ValueError, match="number of bytes"):
            parse_bytes(wrong)

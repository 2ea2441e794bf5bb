"""The demo on a small data set of its own."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from pando.loss_watch import LossWatch
from pando_demo.images import main, parse_arguments


def write_data(folder: Path) -> None:
    """Four classes of 8 x 8 patterns under noise, in IDX files."""
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 200, (4, 8, 8))
    for prefix, count in (("train", 1003), ("t10k", 97)):
        labels = rng.integers(0, 4, count)
        images = np.clip(patterns[labels] + rng.integers(0, 56, (count, 8, 8)), 0, 255)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            header = struct.pack(">HBB", 0, 8, array.ndim)
            header += struct.pack(f">{array.ndim}I", *array.shape)
            (folder / f"{prefix}-{kind}-ubyte").write_bytes(header + array.astype("u1").tobytes())


def test_it_trains_and_leaves_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_data(tmp_path)
    report = tmp_path / "out" / "report.html"
    assert main(["--data", str(tmp_path), "--report", str(report), "--threads", "1"]) == 0
    shown = dict(
        line.split("  ", 1) for line in capsys.readouterr().out.splitlines() if "  " in line
    )
    accuracy = float(shown["accuracy on the test images"].strip().removesuffix(" %"))
    assert accuracy > 95
    assert shown["report"].strip() == str(report)
    assert shown["training"].strip() == "1 epoch(s) of 125 steps of 8"
    assert "MatMul" in report.read_text(encoding="utf-8")


def test_a_missing_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path / "none")]) == 1
    assert "no data folder" in capsys.readouterr().err


def test_a_batch_larger_than_the_data_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_data(tmp_path)
    assert main(["--data", str(tmp_path), "--batch-size", "2000"]) == 1
    assert "1 to 1003" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "-3", "some"])
def test_counts_must_be_positive(text: str) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["--epochs", text])


def test_a_loss_that_is_not_finite_is_reported_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    watch = LossWatch()
    for loss in (1.0, float("nan"), 2.0, float("inf")):
        watch.add(np.float32(loss))
    assert watch.first_bad_step == 2 and watch.num_steps == 4
    assert capsys.readouterr().out == "The loss is nan at step 2; training goes on.\n"

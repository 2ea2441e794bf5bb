"""The Python examples, run as a user runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pando.datasets import DEFAULT_FOLDER

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


@pytest.mark.skipif(not DEFAULT_FOLDER.is_dir(), reason=f"{DEFAULT_FOLDER} is not installed")
def test_train_mnist() -> None:
    command = [sys.executable, str(EXAMPLES / "train_mnist.py"), "--steps", "1000"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-4000:]
    assert len(re.findall(r"^step \d+/1000: loss \d\.\d+$", result.stdout, re.M)) == 2
    accuracy = float(re.findall(r"accuracy on the test images: ([\d.]+) %", result.stdout)[0])
    assert accuracy > 70


def test_train_gpt(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("All state is in files; a phase has what it needs. " * 200)
    command = [sys.executable, str(EXAMPLES / "train_gpt.py"), str(text), "--steps", "20"]
    command += ["--hidden", "64", "--folder", str(tmp_path / "state")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-4000:]
    before, after = map(float, re.findall(r"held-out text: ([\d.]+)", result.stdout))
    assert after < before - 1
    assert re.search(r"^step 20/20: loss \d", result.stdout, re.M)
    assert re.search(r"^\d{6,} bytes loaded and \d{6,} stored", result.stdout, re.M)


def test_train_torch_gpt(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("All state is in files; a phase has what it needs. " * 200)
    command = [sys.executable, str(EXAMPLES / "train_torch_gpt.py"), str(text)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-4000:]
    losses = [
        float(loss) for loss in re.findall(r"^step \d+/20: loss ([\d.]+)$", result.stdout, re.M)
    ]
    assert len(losses) == 20 and losses[-1] < losses[0] - 1
    assert "of 4 GiB" in result.stdout
    assert (tmp_path / "torch-gpt-state" / "checkpoints" / "step-0000000020").is_dir()

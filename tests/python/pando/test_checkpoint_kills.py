"""Training killed at random instants goes on from its last checkpoint with the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("checkpoint_program.py")
STEPS = 12
# More on demand: PANDO_KILLS=200 pytest tests/python/pando/test_checkpoint_kills.py
KILLS = int(os.environ.get("PANDO_KILLS", "10"))


def start(folder, result, tier, remote):
    arguments = [folder, STEPS, result, tier, remote]
    paths = [str(PROGRAM.parents[3]), *filter(None, sys.path)]
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]


def run_until_kill(process, lines, delay):
    """Kills it `delay` seconds after it has printed `lines` lines; whether it was still running."""
    for _ in range(lines):
        if not process.stdout.readline():
            break
    try:
        process.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        process.kill()
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (0, -9), errors[-3000:]
    return process.returncode == -9


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight")
    result = folder / "result.npz"
    finish(start(folder / "checkpoints", result, "ram", ""))
    return dict(np.load(result))


@pytest.mark.parametrize("tier", ["ram", "file"])
def test_kills_cost_nothing(tmp_path, straight, tier):
    rng = np.random.default_rng(20260802)
    kills = 0
    trainings = 0
    while kills < KILLS // 2:
        folder = tmp_path / f"training-{trainings}"
        result = folder / "result.npz"
        folder.mkdir()
        trainings += 1
        while not result.exists():
            process = start(folder / "checkpoints", result, tier, tmp_path / "remote")
            if kills >= KILLS // 2:
                finish(process)
                continue
            # The first line comes when the last checkpoint has been loaded; a step with its
            # checkpoint takes some milliseconds.
            kills += run_until_kill(process, int(rng.integers(1, 5)), float(rng.uniform(0, 0.03)))
        got = dict(np.load(result))
        for name, value in straight.items():
            np.testing.assert_array_equal(got[name], value)
    if tier == "file":
        # The last one that ended well removed what the killed ones had left.
        assert [path.name for path in (tmp_path / "remote").iterdir()] == ["pando.lock"]

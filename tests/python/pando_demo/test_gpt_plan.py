"""What the decoder's demo says that it will take, beside what it takes."""

from __future__ import annotations

import re
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pando import process_memory
from pando.disk_bandwidth import Bandwidth, disk_bandwidth
from pando.text_data import TextBatches
from pando_demo import gpt_plan
from pando_demo.gpt import main
from pando_demo.gpt_network import SHAPES, GptShape, variable_shapes
from pando_demo.gpt_plan import MachineRates, RunSize, TimeEstimate, duration_text
from pando_demo.gpt_training import GptOptions, GptTrainer
from pando_demo.gpt_writer import GptWriter

SMALL = GptShape(3, 128, 2, 32)
ARGUMENTS = ["--layers", "3", "--hidden", "128", "--heads", "2", "--sequence", "32"]
Usage = namedtuple("Usage", "total used free")


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_bytes_are_those_of_a_run(tmp_path: Path) -> None:
    options = GptOptions(2, 2, threads=1, folder=tmp_path)
    size = RunSize(SMALL, options, steps=2, saves=2)
    batches = TextBatches(np.arange(5000, dtype=np.uint16) % 257, (2, 2, 32), 1)
    with GptTrainer(SMALL, options) as trainer:
        trainer.initialise()
        before = trainer.session._pb_session.program.io_report
        trainer.step(batches.next())
        after = trainer.session._pb_session.program.io_report
        assert trainer.remote_bytes() == size.row_bytes
        # What was still on its way to the disk need not be read from it.
        loaded = after.bytes_loaded + after.bytes_from_stores
        loaded -= before.bytes_loaded + before.bytes_from_stores
        assert loaded == size.step_loaded_bytes
        assert after.bytes_stored - before.bytes_stored == size.step_stored_bytes
        trainer.save(batches)
        most = written = 0

        def watch(num_bytes: int) -> None:
            nonlocal most, written
            written += num_bytes
            most = max(most, folder_bytes(tmp_path))

        trainer.save(batches, watch)
        read: list[int] = []
        trainer.resume(batches, read.append)
    assert written == sum(read) == size.row_bytes
    # Rows of files begin at multiples of 4 KiB, and 12 of 16 variables are vectors.
    assert size.disk_bytes <= most < 1.2 * size.disk_bytes


def test_operations_are_eight_for_each_weight_and_token() -> None:
    for shape in SHAPES.values():
        size = RunSize(shape, GptOptions(4, 2), steps=1)
        # Two forward, twice, and four backward; attention adds some percent.
        weights = 8 * size.tokens * shape.layers * shape.layer_parameters
        assert weights < size.step_flops < 1.1 * weights
        assert 3.9 < size.step_flops / size.evaluation_flops <= 4


def test_time_is_the_longer_of_computation_and_transfers() -> None:
    size = RunSize(SHAPES["1.5B"], GptOptions(1, 1), steps=1)
    quick_disk = TimeEstimate.of(size, MachineRates(2e11, Bandwidth(1e12, 1e12)))
    quick_processor = TimeEstimate.of(size, MachineRates(1e18, Bandwidth(1e9, 1e9)))
    assert quick_disk.step == pytest.approx(size.step_flops / 2e11)
    # 28 bytes a weight and some layer inputs.
    assert quick_processor.step == pytest.approx(28 * size.shape.parameters / 1e9, rel=0.05)
    in_ram = RunSize(SHAPES["25M"], GptOptions(tier="ram"), steps=1, saves=0)
    assert in_ram.disk_bytes == 0
    assert TimeEstimate.of(in_ram, MachineRates(1e11, Bandwidth(1, 1))).step < 60


@pytest.mark.parametrize(
    ("saves", "earlier", "copies"), [(0, True, 0), (1, False, 1), (5, False, 2), (5, True, 1)]
)
def test_a_new_checkpoint_is_beside_the_old_one(saves: int, earlier: bool, copies: int) -> None:
    size = RunSize(SMALL, GptOptions(), 5, saves=saves, earlier_checkpoint=earlier)
    assert size.disk_bytes == (1 + copies) * size.row_bytes


@pytest.mark.parametrize(
    ("saves", "earlier", "copies"), [(0, False, 0), (1, False, 1), (1, True, 0)]
)
def test_texts_take_a_copy_of_the_weights_at_the_end(
    saves: int, earlier: bool, copies: int, tmp_path: Path
) -> None:
    options = GptOptions(folder=tmp_path)
    weights = 4 * SMALL.parameters
    size = RunSize(SMALL, options, 5, 2, saves, earlier_checkpoint=earlier, texts=2, passes=9)
    # With an earlier checkpoint the moment of the save needs more.
    writing = max(copies * size.row_bytes + weights, size.new_checkpoints * size.row_bytes)
    assert size.disk_bytes == size.row_bytes + writing
    with GptWriter(SMALL, 2, options) as writer:
        writer.take_weights(lambda key, row: np.zeros(variable_shapes(SMALL)[key][0], np.float32))
        # Rows of files begin at multiples of 4 KiB.
        assert weights <= folder_bytes(tmp_path) < 1.5 * weights
    assert replace(size, passes=0).writer_disk_bytes == 0
    assert replace(size, options=GptOptions(tier="ram")).writer_disk_bytes == 0


def test_a_pass_takes_the_longer_of_its_operations_and_the_weights() -> None:
    shape = SHAPES["25M"]
    size = RunSize(shape, GptOptions(), 5, texts=3, passes=100)
    # Two for each weight of a product and each text.
    tables = (shape.vocabulary + shape.sequence) * shape.hidden
    assert size.pass_flops == pytest.approx(6 * (shape.parameters - tables), rel=0.01)
    slow_disk = MachineRates(1e15, Bandwidth(4e6, 8e6))
    once = shape.parameters / 1e6
    assert TimeEstimate.of(size, slow_disk).texts == pytest.approx(101.5 * once)
    slow_cores = MachineRates(size.pass_flops, Bandwidth(1e18, 1e18))
    assert TimeEstimate.of(size, slow_cores).texts == pytest.approx(100)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text"
    file.write_text("a text of some words " * 500)
    return file


def test_the_plan_comes_first(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    arguments = [*ARGUMENTS, "--data", str(text), "--folder", str(folder), "--steps", "1"]
    assert main([*arguments, "--plan"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["disk", "memory", "time", "texts"]
    assert "are free" in lines[0] and "are available" in lines[1] and "1 steps of" in lines[2]
    assert folder_bytes(folder) == 0
    assert main(arguments) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line]
    assert shown[:3] == ["disk", "memory", "time"] and "loss" in shown


def test_what_the_disk_cannot_hold_is_refused(
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "not" / "yet"
    arguments = [*ARGUMENTS, "--data", str(text), "--folder", str(folder), "--steps", "1"]
    asked: list[Path] = []

    def usage(path: Path) -> Usage:
        asked.append(path)
        return Usage(1 << 40, 0, 3 << 20)

    monkeypatch.setattr(gpt_plan.shutil, "disk_usage", usage)
    assert main(arguments) == 1
    message = capsys.readouterr().err
    assert asked == [tmp_path] and not folder.exists()
    for part in (str(folder), "3 MiB are free", "of a checkpoint", "--no-save", "--params"):
        assert part in message


def test_what_memory_cannot_hold_is_refused(
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("pando_demo.gpt.available_bytes", lambda: 100 << 20)
    folder = tmp_path / "out"
    arguments = [*ARGUMENTS, "--data", str(text), "--folder", str(folder), "--tier", "ram"]
    assert main([*arguments, "--no-save"]) == 1
    message = capsys.readouterr().err
    assert "100 MiB are available" in message and "--tier file" in message


def test_state_in_ram_counts_for_the_limit(
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("pando_demo.gpt.limit_private_memory", lambda limit: limit)
    limit = (process_memory.claimed_bytes() >> 20) + 400
    arguments = ["--data", str(text), "--folder", str(tmp_path), "--memory", f"{limit}MiB"]
    # 25 million weights with moments.
    assert main([*arguments, "--plan", "--tier", "ram", "--batch", "2", "--sequence", "64"]) == 1
    available = re.search(r"([\d.]+) (M|G)iB are available", capsys.readouterr().err)
    assert available is not None
    # A process of many tests may have more than 1 GiB by now.
    mib = float(available[1]) * (1024 if available[2] == "G" else 1)
    assert mib == pytest.approx(limit, rel=1e-3)
    assert main([*arguments, "--plan", "--batch", "2", "--sequence", "64"]) == 0


def test_a_container_may_have_less(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process_memory, "_CGROUP", tmp_path)
    whole = process_memory.available_bytes()
    (tmp_path / "memory.current").write_text("6000000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert process_memory.available_bytes() == pytest.approx(whole, rel=0.2)
    (tmp_path / "memory.max").write_text("10000000\n")
    resident = process_memory.resident_bytes()
    assert process_memory.available_bytes() == pytest.approx(4000000 + resident, rel=0.1)


def test_bandwidth_of_a_disk(tmp_path: Path) -> None:
    measured = disk_bandwidth(tmp_path, 3 << 20)
    assert measured.reading > 0 and measured.writing > 0
    assert list(tmp_path.iterdir()) == []
    # A file system in memory may not have O_DIRECT.
    assert disk_bandwidth(Path("/dev/shm"), 1).writing > 0


def test_durations() -> None:
    assert [duration_text(s) for s in (0.21, 45.4, 89, 700, 12000)] == [
        *("0.2 s", "45 s", "89 s", "12 min", "3 h 20 min"),
    ]

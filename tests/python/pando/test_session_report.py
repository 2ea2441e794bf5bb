"""Phases and timeline of profiled sessions: bytes against known sizes, times against each other."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from pando import session_info
from pando.phase_report import PhaseTime, Traffic, buffer_traffic, phase_text
from pando.report import MemoryPlan, TrainingReport, report_html
from pando.settings import use_session_settings
from pando.timeline import phase_boxes
from popxl import ops
from popxl.ops import collectives

ELEMENTS = 1000
BYTES = 4 * ELEMENTS
RUNS = 3
TIERS = ["ram", "file"]


def phased_program(replicas: int = 1) -> tuple[popxl.Ir, popxl.HostToDeviceStream]:
    """`first` loads two rows and stores one, `second` loads what it stored; a loop in neither scope
    loads and stores three rows."""
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((ELEMENTS,), popxl.float32, "x")
        rows = popxl.remote_buffer((ELEMENTS,), popxl.float32, 4)
        halves = popxl.remote_buffer((ELEMENTS // 2,), popxl.float32, 1)
        out = popxl.d2h_stream((ELEMENTS,), popxl.float32, "y")
        with popxl.name_scope("first"):
            x = ops.host_load(stream)
            total = ops.remote_load(rows, 0) + ops.remote_load(rows, 1) + x
            if replicas > 1:
                total = collectives.replicated_all_reduce(total)
            ops.remote_store(rows, 2, total)
        with popxl.name_scope("second"):
            half = ops.remote_load(rows, 2)[: ELEMENTS // 2] * 0.5
            ops.remote_store(halves, 0, half)

        def shift(row: popxl.Tensor) -> popxl.Tensor:
            ops.remote_store(rows, row, ops.remote_load(rows, row) + 1.0)
            return row + 1

        graph = ir.create_graph(shift, popxl.TensorSpec((), popxl.int32))
        ops.repeat(graph, 3, popxl.constant(0, popxl.int32))
        ops.host_store(out, total)
    return ir, stream


def session_of(ir: popxl.Ir, folder: Path, tier: str, profile: bool = True) -> popxl.Session:
    with use_session_settings(remote_tier=tier, remote_folder=folder, profile=profile):
        return popxl.Session(ir)


def by_name(phases: list[PhaseTime]) -> dict[str, PhaseTime]:
    result = {phase.name: phase for phase in phases}
    assert len(result) == len(phases)
    return result


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("replicas", [1, 2])
def test_bytes_are_exact_and_times_agree(tmp_path: Path, tier: str, replicas: int) -> None:
    ir, stream = phased_program(replicas)
    session = session_of(ir, tmp_path, tier)
    x = np.ones((replicas, ELEMENTS)[replicas == 1 :], np.float32)
    with session:
        for _ in range(RUNS):
            session.run({stream: x})
        phases = by_name(session_info.phase_times(session))
        assert session_info.phase_times(session)[0].name == ""
    first, second = phases["first"], phases["second"]
    assert first.buffers == {1: Traffic(2 * BYTES * RUNS, BYTES * RUNS)}
    assert second.buffers == {1: Traffic(BYTES * RUNS, 0), 2: Traffic(0, BYTES // 2 * RUNS)}
    assert first.host_bytes_loaded == BYTES * RUNS and first.host_bytes_stored == 0
    (loop,) = [p for name, p in phases.items() if "shift" in name]
    assert loop.buffers == {1: Traffic(3 * BYTES * RUNS, 3 * BYTES * RUNS)}
    assert phases[""].host_bytes_stored == BYTES * RUNS and not phases[""].buffers
    assert buffer_traffic(list(phases.values())) == {
        1: Traffic(6 * BYTES * RUNS, 4 * BYTES * RUNS),
        2: Traffic(0, BYTES // 2 * RUNS),
    }
    for phase in phases.values():
        assert 0 <= phase.waiting_seconds <= phase.seconds
        assert 0 <= phase.exchange_seconds <= phase.seconds
        assert phase.compute_seconds == pytest.approx(
            phase.seconds - phase.waiting_seconds - phase.exchange_seconds
        )
        assert (phase.io_seconds > 0) == bool(phase.buffers)
    assert (first.exchange_seconds > 0) == (replicas > 1)
    assert ("end of the run" in phases) == (tier == "file")


def program_with_branches(devices: int = 1) -> tuple[popxl.Ir, popxl.HostToDeviceStream]:
    """A flag chooses between `forward`, a call of `last`, ops of no scope and, by a second
    conditional that is always taken, `update`; and, in the other branch, `check`. Both have
    `forward` in common."""
    ir = popxl.Ir()
    spec = popxl.TensorSpec((ELEMENTS,), popxl.float32)
    with ir.main_graph, popxl.in_sequence():
        flag = ops.host_load(stream := popxl.h2d_stream((), popxl.bool, "flag"))
        with popxl.name_scope("first"), popxl.ipu(devices - 1):
            x = ops.sqrt(popxl.variable(np.full(ELEMENTS, 4, np.float32), name="x"))
            if devices > 1:
                x = ops.ipu_copy(x, 0)
        rows = popxl.remote_buffer((ELEMENTS,), popxl.float32, 1)

        def last(x: popxl.Tensor) -> popxl.Tensor:
            with popxl.name_scope("inner"):
                return ops.softmax(x, 0)

        def update(x: popxl.Tensor) -> popxl.Tensor:
            with popxl.name_scope("update"):
                return ops.softmax(x * 3.0, 0)

        def same(x: popxl.Tensor) -> popxl.Tensor:
            return x + 0.0

        def train(x: popxl.Tensor) -> popxl.Tensor:
            with popxl.name_scope("forward"):
                x = ops.exp(x)
                ops.remote_store(rows, 0, x)
                if devices > 1:
                    x = ops.ipu_copy(ops.log(ops.ipu_copy(x, 1)), 0)
            (x,) = ops.call(last_graph, x)
            x = ops.cumsum(x, 0)
            always = popxl.constant(True, popxl.bool)
            (x,) = ops.conditional(always, update_graph, same_graph, [x], [x])
            return x

        def check(x: popxl.Tensor) -> popxl.Tensor:
            with popxl.name_scope("forward"):
                x = ops.exp(x)
            with popxl.name_scope("check"):
                return ops.cumsum(x, 0)

        last_graph = ir.create_graph(last, spec)
        update_graph, same_graph = (ir.create_graph(graph, spec) for graph in (update, same))
        chosen = [ir.create_graph(branch, spec) for branch in (train, check)]
        (result,) = ops.conditional(flag, *chosen, [x], [x])
        with popxl.name_scope("end"):
            ops.host_store(popxl.d2h_stream((ELEMENTS,), popxl.float32), result * 2.0)
    return ir, stream


@pytest.mark.parametrize("devices", [1, 2])
def test_phases_go_on_in_the_branches_of_conditionals(tmp_path: Path, devices: int) -> None:
    ir, stream = program_with_branches(devices)
    runs = 20
    graphs = [f"program_with_branches.{name}" for name in ("last_subgraph(0)", "train_subgraph(3)")]
    in_train = ["forward", *graphs, "update"]
    found: dict[bool, dict[str, PhaseTime]] = {}
    for flag in (True, False):
        with session_of(ir, tmp_path, "ram") as session:
            start = time.perf_counter()
            for _ in range(runs):
                session.run({stream: np.array(flag)})
            seconds = time.perf_counter() - start
            rows = [p for p in session_info.phase_times(session) if p.device == 0]
            boxes = session_info.timeline(session)[0].boxes
        found[flag] = by_name(rows)
        # The boxes that lie in no other one are those of the main graph: all that the device did.
        outer = sum(box.end - box.start for box in boxes if box.depth == 0)
        inner = {box.phase for box in boxes if box.depth > 0}
        assert 0 < outer < seconds
        total = sum(phase.seconds for phase in rows)
        assert total < seconds
        for phase in rows:
            assert 0 <= phase.waiting_seconds + phase.exchange_seconds <= phase.seconds
        drawn = [box.phase for box in phase_boxes(boxes)]
        in_branch = in_train if flag else ["forward", "check"]
        assert [name for name in drawn if name not in ("first", "end")] == in_branch
        assert inner >= set(in_branch)
    taken = [name for name in found[True] if name]
    first = ["first"] if devices == 1 else []
    assert [name for name in taken if name != "first"] == [*in_train, "end"]
    assert taken[:1] == first or devices == 2
    others = [name for name in found[False] if name not in ("", "first")]
    assert others == ["forward", "check", "end"]
    assert found[True]["forward"].buffers == {1: Traffic(0, BYTES * runs)}
    assert not found[False]["forward"].buffers
    assert (found[True]["forward"].exchange_seconds > 0) == (devices > 1)


def test_the_phases_of_addons_are_their_graphs(tmp_path: Path) -> None:
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        spec = popxl.TensorSpec((ELEMENTS,), popxl.float32)
        buffers = addons.remote.NamedRemoteBuffers(w=addons.create_remote_buffer(spec, entries=2))
        load, names = addons.load_remote_graph(buffers, entries=2)
        store = addons.store_remote_graph(buffers, entries=2)
        for row in range(2):
            loaded = addons.NamedTensors.pack(names, load.call(row))
            store.bind(addons.NamedTensors(w=loaded.w * 2.0)).call(row)
    with session_of(ir, tmp_path, "file") as session:
        session.run()
        phases = by_name(session_info.phase_times(session))
    # Inlined, and still known.
    assert phases["load_remote_subgraph(0)"].bytes_loaded == 2 * BYTES
    assert phases["store_remote_subgraph(1)"].bytes_stored == 2 * BYTES


def test_nothing_is_recorded_when_it_is_not_asked_for(tmp_path: Path) -> None:
    ir, stream = phased_program()
    with session_of(ir, tmp_path, "ram", profile=False) as session:
        session.run({stream: np.ones(ELEMENTS, np.float32)})
        assert session_info.phase_times(session) == []
        assert session_info.timeline(session) == []
        report = session_info.session_report(session)
    assert "no phases were recorded" in report.text()
    assert "Time by phase" not in report.html() and "Timeline" not in report.html()
    assert "Pipeline" not in report.html() and report.as_dict()["pipelines"] == []


@pytest.mark.parametrize("tier", TIERS)
def test_the_timeline_is_that_of_the_last_run(tmp_path: Path, tier: str) -> None:
    ir, stream = phased_program()
    with session_of(ir, tmp_path, tier) as session:
        lanes = []
        for _ in range(2):
            session.run({stream: np.ones(ELEMENTS, np.float32)})
            lanes.append(session_info.timeline(session))
    shapes = [[(b.depth, b.name, b.phase) for b in run[0].boxes] for run in lanes]
    assert shapes[0] == shapes[1]
    names = [lane.name for lane in lanes[1]]
    assert names == ["device 0"] + ["I/O thread 0", "I/O thread 1"] * (tier == "file")
    open_boxes: list[Any] = []
    for box in lanes[1][0].boxes:
        assert 0 <= box.start <= box.end
        open_boxes = open_boxes[: box.depth]
        assert len(open_boxes) == box.depth
        if open_boxes:  # lies within the call around it
            assert open_boxes[-1].start <= box.start and box.end <= open_boxes[-1].end
        open_boxes.append(box)
    assert max(box.depth for box in lanes[1][0].boxes) == 1  # the loop's
    transfers = [box for lane in lanes[1][1:] for box in lane.boxes]
    assert sum(box.name.startswith("store") for box in transfers) == (5 if tier == "file" else 0)
    # Two of six loads follow a store of their row: the device may copy the value itself.
    loads = sum(box.name.startswith("load") for box in transfers)
    assert 4 <= loads <= 6 if tier == "file" else loads == 0
    for lane in lanes[1][1:]:
        for before, after in zip(lane.boxes, lane.boxes[1:], strict=False):
            assert before.end <= after.start


def test_devices_have_lanes_of_their_own() -> None:
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph:
        stream = popxl.h2d_stream((8, 8), popxl.float32)
        out = popxl.d2h_stream((8, 8), popxl.float32)
        with addons.pipelined_execution(4) as pipeline:
            with pipeline.stage(0), popxl.ipu(0):
                x = ops.host_load(stream)
                y = (x @ x).copy_to_ipu(1)
            with pipeline.stage(1), popxl.ipu(1):
                ops.host_store(out, y @ y)
    with use_session_settings(profile=True):
        session = popxl.Session(ir)
    with session:
        session.run({stream: np.ones((4, 8, 8), np.float32)})
        report = session_info.session_report(session, "pipeline")
    assert [lane.name for lane in report.timeline] == ["device 0", "device 1"]
    for lane in report.timeline:
        products = [box for box in lane.boxes if "MatMul" in box.name]
        assert len(products) == 4
    assert {phase.device for phase in report.phases} == {0, 1}
    assert all(0 <= phase.exchange_seconds <= phase.seconds for phase in report.phases)
    assert ">device 1<" in report.html()


def test_text_json_and_html_say_the_same(tmp_path: Path) -> None:
    ir, stream = phased_program()
    with session_of(ir, tmp_path / "remote", "file") as session:
        session.run({stream: np.ones(ELEMENTS, np.float32)})
        report = session_info.session_report(session, "Phases <of> a program")
    text = report.text()
    assert text.startswith("Phases <of> a program\n")
    (line,) = [line for line in text.splitlines() if line.startswith("second ")]
    assert line.endswith("3.906 KiB  1.953 KiB")
    assert "remote buffer 2: 0 B loaded, 1.953 KiB stored" in text
    found = json.loads(report.json())
    assert {phase["name"] for phase in found["phases"]} >= {"first", "second", "end of the run"}
    (second,) = [phase for phase in found["phases"] if phase["name"] == "second"]
    assert second["remote_buffers"]["1"] == {"bytes_loaded": BYTES, "bytes_stored": 0}
    assert found["memory"]["persistent_bytes"] == report.memory.persistent_bytes
    assert len(found["timeline"]) == 3 and found["ops"]
    html = report.write_html(tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    tree = ElementTree.fromstring(html.replace('<meta charset="utf-8">', "").split("\n", 1)[1])
    assert tree.findtext(".//h1") == "Phases <of> a program"
    rows = [[cell.text for cell in row] for row in tree.iter("tr")]
    phase_rows = rows[: len(report.phases) + 2]
    assert phase_rows[-1][0] == "total" and rows[len(phase_rows)][0] == "op"
    assert [row[7:] for row in rows if row[0] == "second"] == [["3.906 KiB", "1.953 KiB"]]
    assert "http" not in html and "<script" not in html and "src=" not in html
    shown = repr(report)
    assert len(shown.splitlines()) == 6 and "Phases <of> a program" in shown
    assert "Phases &lt;of&gt; a program" in report._repr_html_()


def test_a_table_without_names_and_traffic() -> None:
    phases = [PhaseTime("", 0, 0.5, 0.1, 0.2, 0.0, 0, 0)]
    lines = phase_text(phases).splitlines()
    words = "(no phase) 0 500 ms 200 ms 100 ms 200 ms 0 µs 0 B 0 B"
    assert lines[1].split() == words.split()
    assert phases[0].overlap is None
    assert PhaseTime("a", 0, 1.0, 0.25, 0.0, 1.0, 0, 0).overlap == 0.75


def test_training_reports_show_phases_when_they_are_given() -> None:
    memory = MemoryPlan(1, 1, [1])
    plain = TrainingReport("t", [], np.ones(3), memory, [])
    assert "Time by phase" not in report_html(plain)
    phases = [PhaseTime("forward", 0, 0.5, 0.1, 0.0, 0.3, 0, 0, {1: Traffic(5, 0)})]
    shown = TrainingReport("t", [], np.ones(3), memory, [], phases=phases)
    assert "<td>forward</td>" in report_html(shown)

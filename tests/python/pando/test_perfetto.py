"""The trace of a profiled run: the trace-event format, nesting, and that nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popxl
import popxl_addons as addons
from pando import session_info
from pando.perfetto import trace
from pando.settings import use_session_settings
from pando.timeline import MOST_BOXES, Box, Lane, timeline_section, timeline_svg
from popxl import ops


@pytest.fixture(scope="module")
def report() -> session_info.SessionReport:
    """The program has two devices, a loop, and remote buffers."""
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph:
        stream = popxl.h2d_stream((8, 8), popxl.float32)
        out = popxl.d2h_stream((8, 8), popxl.float32)
        with addons.pipelined_execution(4) as pipeline:
            with pipeline.stage(0), popxl.ipu(0), popxl.name_scope("first"):
                x = ops.host_load(stream)
                y = (x @ x).copy_to_ipu(1)
            with pipeline.stage(1), popxl.ipu(1):
                ops.host_store(out, ops.gelu(y @ y))
    with use_session_settings(profile=True):
        session = popxl.Session(ir)
    with session:
        session.run({stream: np.ones((4, 8, 8), np.float32)})
        return session_info.session_report(session, "pipeline")


def events(content: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in content["traceEvents"] if event["ph"] == kind]


def test_events_have_what_the_format_requires(report: session_info.SessionReport) -> None:
    content = trace(report.timeline, "pipeline")
    assert content["displayTimeUnit"] in ("ms", "ns")
    for event in content["traceEvents"]:
        assert event["ph"] in ("X", "M")
        assert isinstance(event["name"], str) and event["name"]
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0
            assert isinstance(event["cat"], str) and "," not in event["cat"]
    names = {e["args"]["name"] for e in events(content, "M") if "name" in e["args"]}
    assert {"pipeline, replica 0", "device 0", "device 1"} <= names


def test_every_box_is_an_event_of_its_lane(report: session_info.SessionReport) -> None:
    content = trace(report.timeline, "pipeline")
    threads = {
        e["args"]["name"]: e["tid"] for e in events(content, "M") if e["name"] == "thread_name"
    }
    for lane in report.timeline:
        found = [e for e in events(content, "X") if e["tid"] == threads[lane.name]]
        assert [e["name"] for e in found] == [box.name for box in lane.boxes]
        starts = [e["ts"] * 1e-6 for e in found]
        np.testing.assert_allclose(starts, [box.start for box in lane.boxes], atol=1e-9)


def test_events_of_a_thread_nest(report: session_info.SessionReport) -> None:
    """Complete events must lie within or beside each other, or a viewer misplaces them."""
    content = trace(report.timeline, "pipeline")
    for thread in {event["tid"] for event in events(content, "X")}:
        open_ends: list[float] = []
        found = [e for e in events(content, "X") if e["tid"] == thread]
        for event in found:
            start, end = round(event["ts"], 3), round(event["ts"] + event["dur"], 3)
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], event
            open_ends.append(end)
        assert found == sorted(found, key=lambda event: event["ts"])


def test_the_file_is_the_trace(report: session_info.SessionReport, tmp_path: Path) -> None:
    path = report.write_perfetto(tmp_path / "new" / "run.perfetto.json")
    assert json.loads(path.read_text()) == trace(report.timeline, "pipeline")


def test_without_a_timeline_the_way_out_is_named(tmp_path: Path) -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        ops.host_store(popxl.d2h_stream((), popxl.float32), popxl.constant(1.0))
    with popxl.Session(ir) as session:
        session.run()
        report = session_info.session_report(session)
    with pytest.raises(ValueError, match="profile=True"):
        report.write_perfetto(tmp_path / "run.perfetto.json")


def test_a_long_timeline_is_drawn_as_phases_and_refers_to_the_trace() -> None:
    count = MOST_BOXES + 1
    boxes = [Box(i, i + 1.0, 0, f"op {i}", f"phase {i * 4 // count}") for i in range(count)]
    long, short = [Lane("device 0", boxes)], [Lane("device 0", boxes[:10])]
    assert timeline_svg(long).count("<rect") == 4
    assert timeline_svg(short).count("<rect") == 11
    assert "run.perfetto.json" in timeline_section(long, "run.perfetto.json")
    assert "write_perfetto()" in timeline_section(long)

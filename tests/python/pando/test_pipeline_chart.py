"""Pipelines in the report of a session: text, JSON and picture against the known timetable."""

from __future__ import annotations

import json
from collections.abc import Iterable
from xml.etree import ElementTree

import numpy as np

import popxl
import popxl_addons as addons
from pando import _core, session_info
from pando.pipeline_chart import MOST_COLUMNS, pipeline_svg
from popxl import ops


def texts_of(element: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in element.findall("text")]


def number(element: ElementTree.Element, key: str) -> float:
    return float(element.attrib[key])


def relu_pipeline(stages: int, steps: int) -> _core.PipelineSchedule:
    ir = popxl.Ir()
    x = None
    with ir.main_graph, addons.pipelined_execution(steps) as pipeline:
        for k in range(stages):
            with pipeline.stage(k):
                x = ops.relu(popxl.constant(1.0) if x is None else x)
    return pipeline.schedule


def test_a_session_reports_its_pipelines() -> None:
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph:
        schedules = []
        source = popxl.h2d_stream((2,), popxl.float32)
        target = popxl.d2h_stream((2,), popxl.float32)
        with addons.pipelined_execution(4) as pipeline:
            with pipeline.stage(0), popxl.ipu(0):
                x = (ops.host_load(source) + 1.0).copy_to_ipu(1)
            with pipeline.stage(1), popxl.ipu(1):
                ops.host_store(target, x + 1.0)
        schedules.append(pipeline.schedule)
        with addons.pipelined_execution(6) as pipeline, pipeline.stage(0):
            ops.print_tensor(popxl.constant(1.0))
        schedules.append(pipeline.schedule)
    with popxl.Session(ir) as session:
        session.run({source: np.ones((4, 2), np.float32)})
        report = session_info.session_report(session, "two pipelines")
    assert [str(s) for s in session_info.pipelines(session)] == [str(s) for s in schedules]
    assert "\n\n" + "".join(f"{schedule}\n" for schedule in schedules) in report.text()
    first, second = json.loads(report.json())["pipelines"]
    assert first == {
        "graph": schedules[0].graph,
        "steps": 4,
        "cycles": 5,
        "main_begin": 1,
        "main_end": 4,
        "stages": [{"graph": schedules[0].stages[k].graph, "devices": [k]} for k in range(2)],
    }
    assert second["cycles"] == 6 and [s["devices"] for s in second["stages"]] == [[0]]
    html = report.html()
    page = ElementTree.fromstring(html.replace('<meta charset="utf-8">', "").split("\n", 1)[1])
    pictures = [svg for svg in page.iter("svg") if svg.get("class") == "pipeline"]
    wanted = [ElementTree.tostring(ElementTree.fromstring(pipeline_svg(s))) for s in schedules]
    assert [ElementTree.tostring(svg) for svg in pictures] == wanted
    assert schedules[0].graph + ": 2 stages, 4 micro-batches" in html


def check_cells(picture: ElementTree.Element, stages: int, cycles: Iterable[int]) -> None:
    """A cell below the number of its cycle and beside its stage for every micro-batch."""
    names = [text for text in picture.findall("text") if text.text != "…"]
    columns = {number(text, "x"): text.text for text in names}
    rows = {number(text, "y"): text.text for text in names}
    found = set()
    for cell in picture.findall("g"):
        (label,) = cell.findall("text")
        found.add((rows[number(label, "y")], columns[number(label, "x")], label.text))
        cycle, stage = columns[number(label, "x")], rows[number(label, "y")]
        assert cell.findtext("title") == f"{stage}, cycle {cycle}: micro-batch {label.text}"
    steps = max(cycles) - stages + 2
    assert found == {
        (f"stage {k} on device 0", str(cycle), str(cycle - k))
        for k in range(stages)
        for cycle in cycles
        if 0 <= cycle - k < steps
    }


def test_every_micro_batch_has_a_cell() -> None:
    picture = ElementTree.fromstring(pipeline_svg(relu_pipeline(3, 6)))
    check_cells(picture, 3, range(8))
    assert {"cycle", "ramp up", "main", "ramp down"} <= set(texts_of(picture))
    picture = ElementTree.fromstring(pipeline_svg(relu_pipeline(2, 4)))
    check_cells(picture, 2, range(5))
    assert {"up", "main", "down"} <= set(texts_of(picture)), "one word in one column"
    picture = ElementTree.fromstring(pipeline_svg(relu_pipeline(1, 2)))
    check_cells(picture, 1, range(2))
    assert texts_of(picture) == ["cycle", "0", "1", "main", "stage 0 on device 0"]


def test_many_cycles_and_many_stages_have_room() -> None:
    schedule = relu_pipeline(3, 100)
    picture = ElementTree.fromstring(pipeline_svg(schedule))
    shown = [cycle for cycle in schedule.shown_cycles(MOST_COLUMNS) if cycle is not None]
    assert len(shown) == MOST_COLUMNS and {0, 1, 2, 99, 100, 101} < set(shown)
    check_cells(picture, 3, shown)
    assert texts_of(picture).count("…") == 3
    picture = ElementTree.fromstring(pipeline_svg(relu_pipeline(40, 80)))
    assert number(picture, "width") > 80 * 18

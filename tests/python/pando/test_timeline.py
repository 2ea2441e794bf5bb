"""The picture of a timeline: geometry in the SVG and as a browser lays it out."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pando.report import page
from pando.timeline import (
    LEAST_WIDTH,
    Box,
    Lane,
    colours_of,
    lane_rows,
    phase_boxes,
    timeline_section,
    timeline_svg,
)
from tests.python.pando.browser import BROWSER, evaluate

LANES = [
    Lane(
        "device 0",
        [
            Box(0.0, 0.2, 0, "Load", "forward"),
            Box(0.2, 0.6, 0, "layer(0)", "forward"),
            Box(0.2, 0.4, 1, "MatMul <a>", "forward"),
            Box(0.4, 0.6, 1, "Gelu", "forward"),
            Box(0.6, 1.0, 0, "Adam", "update"),
        ],
    ),
    Lane("I/O thread 0", [Box(0.1, 0.5, 0, "load buffer 1 row 0", "update")]),
]


def boxes_of(svg: str) -> dict[str, dict[str, float]]:
    """By tooltip up to the colon."""
    found = {}
    for rect in ElementTree.fromstring(svg).iter("rect"):
        name = (rect.findtext("title") or "").split(":")[0]
        found[name] = {key: float(rect.attrib[key]) for key in ("x", "y", "width", "height")}
    return found


def test_phases_join_what_follows_each_other() -> None:
    assert phase_boxes(LANES[0].boxes) == [
        Box(0.0, 0.6, 0, "forward", "forward"),
        Box(0.6, 1.0, 0, "update", "update"),
    ]
    assert [len(row) for row in lane_rows(LANES[0])] == [2, 3, 2]
    assert [len(row) for row in lane_rows(LANES[1])] == [1]


def test_phases_go_on_in_boxes_of_no_phase() -> None:
    boxes = [
        Box(0.0, 0.1, 0, "HostLoad", ""),
        Box(0.1, 0.9, 0, "If", ""),
        Box(0.1, 0.4, 1, "layer(0)", "forward"),
        Box(0.2, 0.3, 2, "MatMul", "forward"),
        Box(0.4, 0.8, 1, "If", ""),
        Box(0.5, 0.6, 2, "Adam", "update"),
        Box(0.6, 0.7, 2, "Adam", "update"),
        Box(0.8, 0.9, 1, "Gelu", "forward"),
        Box(0.9, 1.0, 0, "Log", "forward"),
    ]
    assert phase_boxes(boxes) == [
        Box(0.1, 0.4, 0, "forward", "forward"),
        Box(0.5, 0.7, 0, "update", "update"),
        Box(0.8, 1.0, 0, "forward", "forward"),
    ]


def test_boxes_are_where_their_times_say() -> None:
    found = boxes_of(timeline_svg(LANES))
    scale = found["forward"]["width"] / 0.6
    for lane in LANES:
        for box in lane.boxes:
            drawn = found[box.name]
            assert drawn["width"] == pytest.approx((box.end - box.start) * scale, abs=0.02)
            assert drawn["x"] - found["forward"]["x"] == pytest.approx(box.start * scale, abs=0.02)
    levels = [found[name]["y"] for name in ("forward", "layer(0)", "Gelu", "load buffer 1 row 0")]
    assert levels == sorted(set(levels))


def test_very_short_boxes_are_drawn_as_one() -> None:
    many = [Box(i * 1e-6, i * 1e-6 + 5e-7, 0, f"op {i}", "") for i in range(10000)]
    svg = timeline_svg([Lane("device 0", [*many, Box(0.5, 1.0, 0, "long", "")])])
    found = boxes_of(svg)
    assert len(found) == 2
    assert found["10000 from op 0 on"]["width"] >= LEAST_WIDTH


def test_nothing_to_draw() -> None:
    assert timeline_svg([]) == timeline_svg([Lane("device 0", [])]) == "<p>no run was recorded</p>"


def test_colours_belong_to_phases() -> None:
    colours = colours_of(LANES)
    assert list(colours) == ["forward", "update"] and len(set(colours.values())) == 2
    many = [Lane("device 0", [Box(i, i + 1, 0, "op", f"phase {i}") for i in range(20)])]
    found = list(colours_of(many).values())
    assert all(a != b for a, b in itertools.pairwise(found))


MEASURE = """(() => {
  const boxes = {};
  for (const rect of document.querySelectorAll(".timeline rect")) {
    const box = rect.getBoundingClientRect();
    boxes[rect.querySelector("title").textContent.split(":")[0]] =
      [box.left, box.top, box.width, box.height];
  }
  return {boxes: boxes, width: document.documentElement.scrollWidth, view: window.innerWidth};
})()"""


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
def test_a_browser_shows_it(tmp_path: Path) -> None:
    found = evaluate(page("Timeline", timeline_section(LANES)), MEASURE, tmp_path)
    boxes = found["boxes"]
    assert boxes.keys() == boxes_of(timeline_svg(LANES)).keys()
    scale = boxes["forward"][2] / 0.6
    assert scale > 600, "the picture uses the width of the window"
    for box in LANES[0].boxes:
        left, _, width, height = boxes[box.name]
        assert width == pytest.approx((box.end - box.start) * scale, abs=1)
        assert left - boxes["forward"][0] == pytest.approx(box.start * scale, abs=1)
        assert height > 8
        assert left >= 0 and left + width <= found["view"]
    assert found["width"] <= found["view"], "nothing sticks out of the window"

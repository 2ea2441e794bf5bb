"""The report: its numbers against NumPy, its file as XML."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from pando.plots import bar_chart, bytes_text, line_chart, nice_ticks, step_chart
from pando.report import (
    MemoryPlan,
    OpTime,
    TrainingReport,
    bucketed,
    merged_op_times,
    report_html,
    write_report,
)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0, 2.37), (-3, 8), (0, 1e-6), (5, 5), (0, 0), (0, 3.3e9)]
)
def test_ticks_are_even_and_span_the_values(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low and ticks[-1] >= high
    assert 2 <= len(ticks) <= 9
    np.testing.assert_allclose(np.diff(ticks), ticks[1] - ticks[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5 MiB"), (3 << 30, "3 GiB")],
)
def test_bytes_have_a_unit(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_losses_are_bucketed_without_those_that_are_not_finite() -> None:
    losses = np.arange(10, dtype=np.float32)
    losses[3] = np.nan
    losses[8:] = np.inf
    steps, means, lows, highs = bucketed(losses, max_points=5)
    np.testing.assert_allclose(steps, [0.5, 2.5, 4.5, 6.5])
    np.testing.assert_allclose(means, [0.5, 2, 4.5, 6.5])
    np.testing.assert_allclose(lows, [0, 2, 4, 6])
    np.testing.assert_allclose(highs, [1, 2, 5, 7])
    assert [part.size for part in bucketed(np.full(4, np.nan))] == [0, 0, 0, 0]
    assert [part.size for part in bucketed(np.empty(0))] == [0, 0, 0, 0]


def test_op_times_are_merged_and_sorted() -> None:
    times = [OpTime("MatMul", 2, 0.1), OpTime("Add", 1, 0.15), OpTime("MatMul", 3, 0.4)]
    assert merged_op_times(times) == [OpTime("MatMul", 5, 0.5), OpTime("Add", 1, 0.15)]
    assert len(merged_op_times([OpTime(str(i), 1, i) for i in range(20)])) == 15


def points_of(svg: str, tag: str) -> np.ndarray:
    element = ElementTree.fromstring(svg).find(f".//{tag}")
    assert element is not None
    return np.array([[float(v) for v in p.split(",")] for p in element.attrib["points"].split()])


def test_a_line_keeps_proportions() -> None:
    ys = [0.0, 1.0, 4.0]
    points = points_of(line_chart([0, 1, 2], ys, ys, ys, "x", "y"), "polyline")
    across, up = np.diff(points[:, 0]), -np.diff(points[:, 1])
    np.testing.assert_allclose(across[0], across[1], atol=0.11)
    np.testing.assert_allclose(up[1] / up[0], 3, rtol=0.01)


def test_steps_hold_their_value() -> None:
    points = points_of(step_chart([1024, 2048], 4096, "peak", "x", "y"), "polygon")
    assert points[0, 1] == points[1, 1] and points[2, 1] == points[3, 1]
    assert points[1, 0] == points[2, 0]


def test_bars_are_proportional_and_names_are_escaped() -> None:
    tree = ElementTree.fromstring(bar_chart([("a<b>&", 2.0, "two"), ("c", 1.0, "one")]))
    widths = [float(rect.attrib["width"]) for rect in tree.iter("rect")]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)
    assert "a<b>&" in [text.text for text in tree.iter("text")]


def report(losses: np.ndarray, timeline: list[int], times: list[OpTime]) -> TrainingReport:
    memory = MemoryPlan(1000, 500, timeline)
    return TrainingReport("Run <1>", [("accuracy", "84 %")], losses, memory, times, ["NaN seen"])


@pytest.mark.parametrize("empty", [False, True])
def test_the_page_is_well_formed_and_complete(tmp_path: Path, empty: bool) -> None:
    losses = np.empty(0, np.float32) if empty else np.linspace(2, 0.4, 1000)
    times = [] if empty else [OpTime("MatMul 'fc1/matmul'", 10, 0.002)]
    content = report(losses, [] if empty else [100, 500, 200], times)
    path = write_report(tmp_path / "new" / "report.html", content)
    text = path.read_text(encoding="utf-8")
    assert text == report_html(content)
    page = ElementTree.fromstring(text.replace('<meta charset="utf-8">', "").split("\n", 1)[1])
    assert page.findtext(".//h1") == "Run <1>"
    assert [cell.text for cell in page.iter("td")] == ["accuracy", "84 %"]
    assert len(list(page.iter("svg"))) == 3
    assert "http" not in text and "src=" not in text, "the page must not need other files"
    assert page.findtext(".//strong") == "NaN seen"
    if not empty:
        assert "planned peak 1.465 KiB" in text and "200.0 µs, 100.0 %" in text

"""The report: its numbers against NumPy, its file as XML."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pando.op_times import (
    OpTime,
    kind_times,
    merged_op_times,
    op_time_section,
    op_time_summary,
    op_time_text,
)
from pando.plots import byte_ticks, bytes_text, line_chart, nice_ticks, step_chart
from pando.report import (
    AliveTensor,
    MemoryPlan,
    TrainingReport,
    bucketed,
    loss_summary,
    memory_summary,
    report_html,
    write_report,
)
from pando.timeline import Box, Lane
from tests.python.pando.browser import BROWSER, evaluate


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
    many = merged_op_times([OpTime(f"op {i}", 2, float(i)) for i in range(20)])
    assert len(many) == 16
    assert many[-1] == OpTime("5 other ops", 10, 0.0 + 1 + 2 + 3 + 4)
    assert sum(time.seconds for time in many) == sum(range(20))


TIMES = [
    OpTime("MatMul 'fc1/matmul'", 10, 0.006),
    OpTime("Adam 'w'", 20, 0.003),
    OpTime("MatMul 'fc2/matmul'", 10, 0.001),
]


def test_the_table_of_ops_has_columns_of_their_own_that_add_up() -> None:
    tree = ElementTree.fromstring(f"<div>{op_time_section(TIMES)}</div>")
    rows = [[cell.text or "" for cell in row] for row in tree.iter("tr")]
    assert rows == [
        ["op", "calls", "total", "per call", "share"],
        ["MatMul 'fc1/matmul'", "10", "6 ms", "600 µs", "60.0 %"],
        ["Adam 'w'", "20", "3 ms", "150 µs", "30.0 %"],
        ["MatMul 'fc2/matmul'", "10", "1 ms", "100 µs", "10.0 %"],
        ["total", "40", "10 ms", "", "100.0 %"],
    ]
    lines = op_time_text(TIMES).splitlines()
    assert lines[1].split() == ["10", "6", "ms", "600", "µs", "60.0", "%", "MatMul", "'fc1/matmul'"]
    assert kind_times(TIMES) == [("MatMul", pytest.approx(0.007)), ("Adam", pytest.approx(0.003))]
    summary = op_time_summary(TIMES)
    assert "MatMul 70 %, Adam 30 % of 10 ms" in summary
    assert "The longest is MatMul 'fc1/matmul', 60 %, 600 µs a call" in summary
    assert op_time_text([]) == "" and "No time was recorded" in op_time_section([])


def test_sentences_tell_what_the_data_say() -> None:
    losses = np.linspace(2, 1, 100)
    losses[40], losses[50] = 0.25, np.nan
    assert loss_summary(losses) == (
        f"From {losses[:4].mean():.4g} to {losses[-4:].mean():.4g} (means of 4 steps) in 100 "
        "steps; the least is 0.25 at step 40. 1 losses are not finite and not drawn."
    )
    assert loss_summary(np.full(3, np.nan)) == "No loss is finite."
    assert loss_summary(np.empty(0)) == "No step was taken."
    alive = [AliveTensor(name, size, 0) for name, size in (("a", 512), ("b", 2048), ("c", 1024))]
    assert memory_summary(MemoryPlan(1024, 3584, [100, 3584, 50], alive)) == (
        "At most 4.5 KiB, in instruction 1 of 3; 1 KiB of it are variables and constants. The "
        "largest that is alive then: b (2 KiB), c (1 KiB), a (512 B)."
    )
    assert repr(MemoryPlan(1024, 3584, [0] * 5000)) == (
        "MemoryPlan(peak 4.5 KiB: 1 KiB of variables and constants, 3.5 KiB of temporaries in "
        "5,000 instructions)"
    )


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


def test_ticks_of_bytes_are_round_in_their_unit() -> None:
    assert [bytes_text(tick) for tick in byte_ticks(0, 3.1 * 2**20)] == [
        "0 B",
        "1 MiB",
        "2 MiB",
        "3 MiB",
        "4 MiB",
    ]
    assert byte_ticks(0, 5 * 2**40)[-1] >= 5 * 2**40


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
    assert [cell.text for cell in page.iter("td")][:2] == ["accuracy", "84 %"]
    assert len(list(page.iter("svg"))) == 2
    assert not path.with_suffix(".perfetto.json").exists(), "nothing was recorded"
    assert "http" not in text and "src=" not in text, "the page must not need other files"
    assert page.findtext(".//strong") == "NaN seen"
    if not empty:
        assert "planned peak 1.465 KiB" in text and "<td>200 µs</td><td>100.0 %</td>" in text


def test_the_trace_of_the_timeline_lies_beside_the_page(tmp_path: Path) -> None:
    content = report(np.ones(3), [1], [])
    lanes = [Lane("device 0", [Box(0.0, 0.5, 0, "MatMul", "")])]
    path = write_report(tmp_path / "run.html", replace(content, timeline=lanes))
    trace = json.loads((tmp_path / "run.perfetto.json").read_text())
    assert [e["name"] for e in trace["traceEvents"] if e["ph"] == "X"] == ["MatMul"]
    assert "run.perfetto.json" in path.read_text(encoding="utf-8")


OVERLAPS = """(() => {
  const faults = [];
  for (const svg of document.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((t) => [t, t.getBoundingClientRect()]);
    for (const [i, [text, a]] of texts.entries()) {
      if (a.left < frame.left - 1 || a.right > frame.right + 1) {
        faults.push(`${text.textContent} sticks out`);
      }
      for (const [other, b] of texts.slice(i + 1)) {
        const apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top ||
          b.bottom <= a.top;
        if (!apart) faults.push(`${text.textContent} over ${other.textContent}`);
      }
    }
  }
  return {faults: faults, texts: document.querySelectorAll("svg text").length};
})()"""


@pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
@pytest.mark.parametrize("scale", [1, 1023, 1023 * 2**10, 1023 * 2**20, 1e5 * 2**30])
def test_no_text_of_a_chart_lies_over_another(tmp_path: Path, scale: float) -> None:
    losses = np.linspace(2.3, 0.4, 1000) * scale
    memory = MemoryPlan(int(scale), int(scale / 2), [int(scale / 7)] * 20 + [int(scale / 2)] * 5)
    content = TrainingReport("Run", [], losses, memory, TIMES)
    found = evaluate(report_html(content), OVERLAPS, tmp_path)
    assert found["faults"] == []
    assert found["texts"] > 20

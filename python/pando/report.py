"""The HTML report of a training run: one file, with its charts drawn in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np

from pando.op_times import OpTime, op_time_section
from pando.perfetto import write_trace
from pando.phase_report import PhaseTime, phase_section
from pando.plots import bytes_text, line_chart, step_chart
from pando.timeline import Lane, timeline_section

MAX_POINTS = 240
LARGEST_TENSORS = 3


@dataclass(frozen=True)
class AliveTensor:
    """One that is alive when the program needs most memory."""

    name: str
    bytes: int
    # Within the frame of a call, which stands before it and has room for it.
    depth: int


@dataclass(frozen=True)
class MemoryPlan:
    """Device memory that a program takes, as planned, in bytes of one replica.

    Attributes:
        persistent_bytes: Variables and constants.
        peak_frame_bytes: Temporaries, at most.
        timeline: Temporaries alive while instruction i of the main function runs.
        alive_at_peak: The tensors that are alive when most memory is needed.
    """

    persistent_bytes: int
    peak_frame_bytes: int
    # Bytes of temporaries alive while instruction i of the main function runs.
    timeline: Sequence[int]
    alive_at_peak: Sequence[AliveTensor] = ()

    @property
    def peak_bytes(self) -> int:
        """Variables, constants and temporaries at the peak."""
        return self.persistent_bytes + self.peak_frame_bytes

    def __repr__(self) -> str:
        return (
            f"MemoryPlan(peak {bytes_text(self.peak_bytes)}: {bytes_text(self.persistent_bytes)} "
            f"of variables and constants, {bytes_text(self.peak_frame_bytes)} of temporaries in "
            f"{len(self.timeline):,} instructions)"
        )


@dataclass(frozen=True)
class TrainingReport:
    """What the report of a training run shows.

    Attributes:
        title: The heading.
        facts: Name and value, in order.
        losses: float32, one per step.
        memory: The plan of device memory.
        op_times: How long the ops took.
        notes: Sentences that stand out.
        phases: What the phases did in the profiled run.
        timeline: When what ran in the profiled run.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    losses: np.ndarray
    memory: MemoryPlan
    op_times: Sequence[OpTime]
    notes: Sequence[str] = field(default_factory=tuple)
    # These two are of the profiled run.
    phases: Sequence[PhaseTime] = field(default_factory=tuple)
    timeline: Sequence[Lane] = field(default_factory=tuple)


def bucketed(losses: np.ndarray, max_points: int = MAX_POINTS) -> tuple[np.ndarray, ...]:
    """Averages losses over stretches of the training, for a chart.

    Losses that are not finite are left out, and with them stretches that hold no others.

    Args:
        losses: One per step.
        max_points: How many stretches at most.

    Returns:
        Middle step, mean, least and greatest loss of each stretch: four float64 arrays.
    """
    if losses.size == 0:
        return tuple(np.empty((4, 0)))
    stretches = np.array_split(np.arange(losses.size), min(max_points, losses.size))
    rows = []
    for steps in stretches:
        values = losses[steps].astype(np.float64)
        values = values[np.isfinite(values)]
        if values.size:
            rows.append((steps.mean(), values.mean(), values.min(), values.max()))
    return tuple(np.array(rows, dtype=np.float64).reshape(-1, 4).T)


def loss_summary(losses: np.ndarray) -> str:
    """What the chart of losses tells: how they began and ended.

    Args:
        losses: One per step.

    Returns:
        A sentence or two.
    """
    finite = np.flatnonzero(np.isfinite(losses))
    if finite.size == 0:
        return "No loss is finite." if losses.size else "No step was taken."
    values = losses[finite].astype(np.float64)
    part = max(1, values.size // 20)
    least = int(np.argmin(values))
    text = (
        f"From {values[:part].mean():.4g} to {values[-part:].mean():.4g} (means of {part} "
        f"step{'s' * (part > 1)}) in {losses.size:,} steps; the least is {values[least]:.4g} at "
        f"step {finite[least]:,}."
    )
    bad = losses.size - finite.size
    return text + (f" {bad:,} losses are not finite and not drawn." if bad else "")


def memory_summary(memory: MemoryPlan) -> str:
    """What the chart tells: the peak, when it is, and the largest tensors that are alive then.

    Args:
        memory: The plan.

    Returns:
        A sentence or two.
    """
    text = f"At most {bytes_text(memory.peak_bytes)}"
    if memory.timeline:
        peak = max(range(len(memory.timeline)), key=lambda i: memory.timeline[i])
        text += f", in instruction {peak:,} of {len(memory.timeline):,}"
    text += f"; {bytes_text(memory.persistent_bytes)} of it are variables and constants."
    tensors = sorted(memory.alive_at_peak, key=lambda t: -t.bytes)[:LARGEST_TENSORS]
    if tensors:
        named = ", ".join(f"{t.name} ({bytes_text(t.bytes)})" for t in tensors)
        text += f" The largest that is alive then: {named}."
    return text


def _loss_section(losses: np.ndarray) -> str:
    steps, means, lows, highs = bucketed(losses)
    chart = line_chart(
        steps.tolist(), means.tolist(), lows.tolist(), highs.tolist(), "training step", "loss"
    )
    stretch = math.ceil(losses.size / MAX_POINTS) if losses.size else 1
    return (
        f"<h2>Loss</h2><p>{loss_summary(losses)}</p>{chart}<p>Mean of every {stretch} steps; the "
        "band goes from the least to the greatest loss of those steps.</p>"
    )


def memory_section(memory: MemoryPlan) -> str:
    """The memory over the program as a section of an HTML report.

    Args:
        memory: The plan.

    Returns:
        HTML with a chart.
    """
    totals = [memory.persistent_bytes + alive for alive in memory.timeline]
    label = f"planned peak {bytes_text(memory.peak_bytes)}"
    chart = step_chart(
        totals, memory.peak_bytes, label, "instruction of the training program", "memory"
    )
    return (
        f"<h2>Memory over the program</h2><p>{escape(memory_summary(memory))}</p>{chart}"
        "<p>Variables and constants, and what is alive beside them while each instruction runs.</p>"
    )


_STYLE = """
body { font-family: sans-serif; color: #223; max-width: 760px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } td { padding: 2px 14px 2px 0; }
td:first-child { color: #667; } h2 { margin-top: 1.6em; } p { color: #667; font-size: 13px; }
svg { max-width: 100%; height: auto; }
.numbers th, .numbers td { padding: 2px 10px 2px 0; text-align: right; font-size: 13px;
  white-space: nowrap; }
.numbers th:first-child, .numbers td:first-child { text-align: left; }
.numbers .bar { background: linear-gradient(#bcd3ec, #bcd3ec) no-repeat left / 0% 100%;
  min-width: 300px; }
.wide { width: calc(100vw - 3em); position: relative; left: 50%; margin-left: calc(1.5em - 50vw); }
"""


def report_html(report: TrainingReport, trace_file: str = "") -> str:
    """The report of a training run.

    Args:
        report: What it shows.
        trace_file: The name of the timeline's trace beside the page; empty for none.

    Returns:
        A whole page.
    """
    facts = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in report.facts
    )
    notes = "".join(f"<p><strong>{escape(note)}</strong></p>" for note in report.notes)
    sections = (
        _loss_section(report.losses)
        + memory_section(report.memory)
        + (phase_section(report.phases) if report.phases else "")
        + (timeline_section(report.timeline, trace_file) if report.timeline else "")
        + op_time_section(report.op_times)
    )
    return page(report.title, f"{notes}<table>{facts}</table>\n{sections}")


def page(title: str, body: str) -> str:
    """A whole HTML page: no scripts, nothing from elsewhere.

    Args:
        title: Text of the title and heading.
        body: HTML below the heading.

    Returns:
        HTML.
    """
    title = escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>{body}"
        "</body></html>\n"
    )


def write_report(path: str | Path, report: TrainingReport) -> Path:
    """Writes the page, making its folder, and beside it the trace of its timeline.

    Args:
        path: The page; the trace is named for it, `report.perfetto.json` beside `report.html`.
        report: What it shows. Without a timeline there is no trace.

    Returns:
        The absolute path of the page.

    Raises:
        OSError: A file cannot be written.
    """
    target = Path(path).expanduser().resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    trace = target.with_suffix(".perfetto.json")
    if report.timeline:
        write_trace(trace, report.timeline, report.title)
    target.write_text(report_html(report, trace.name), encoding="utf-8")
    return target

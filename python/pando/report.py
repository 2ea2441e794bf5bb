"""The HTML report of a training run: one file, with its charts drawn in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np

from pando.phase_report import PhaseTime, phase_section
from pando.plots import bar_chart, bytes_text, line_chart, step_chart
from pando.timeline import Lane, timeline_section

MAX_POINTS = 240
TOP_OPS = 15


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of device memory that a program takes, as planned."""

    persistent_bytes: int
    peak_frame_bytes: int
    # Bytes of temporaries alive while instruction i of the main function runs.
    timeline: Sequence[int]

    @property
    def peak_bytes(self) -> int:
        return self.persistent_bytes + self.peak_frame_bytes


@dataclass(frozen=True)
class OpTime:
    """How often and how long one op ran."""

    op: str
    calls: int
    seconds: float


@dataclass(frozen=True)
class TrainingReport:
    """What the report shows."""

    title: str
    facts: Sequence[tuple[str, str]]
    losses: np.ndarray
    memory: MemoryPlan
    op_times: Sequence[OpTime]
    notes: Sequence[str] = field(default_factory=tuple)
    # Of the profiled run.
    phases: Sequence[PhaseTime] = field(default_factory=tuple)
    timeline: Sequence[Lane] = field(default_factory=tuple)


def bucketed(losses: np.ndarray, max_points: int = MAX_POINTS) -> tuple[np.ndarray, ...]:
    """Middle step, mean, least and greatest of up to `max_points` stretches of the losses.

    Losses that are not finite are left out, and with them stretches that hold no others.
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


def merged_op_times(times: Sequence[OpTime], count: int = TOP_OPS) -> list[OpTime]:
    """The `count` ops that took longest, times of equal names added up."""
    totals: dict[str, tuple[int, float]] = {}
    for time in times:
        calls, seconds = totals.get(time.op, (0, 0.0))
        totals[time.op] = (calls + time.calls, seconds + time.seconds)
    merged = [OpTime(op, calls, seconds) for op, (calls, seconds) in totals.items()]
    return sorted(merged, key=lambda time: -time.seconds)[:count]


def _loss_section(losses: np.ndarray) -> str:
    steps, means, lows, highs = bucketed(losses)
    chart = line_chart(
        steps.tolist(), means.tolist(), lows.tolist(), highs.tolist(), "training step", "loss"
    )
    stretch = math.ceil(losses.size / MAX_POINTS) if losses.size else 1
    return (
        "<h2>Loss</h2>" + chart + f"<p>Mean of every {stretch} steps; the band goes from the "
        "least to the greatest loss of those steps.</p>"
    )


def memory_section(memory: MemoryPlan) -> str:
    totals = [memory.persistent_bytes + alive for alive in memory.timeline]
    label = f"planned peak {bytes_text(memory.peak_bytes)}"
    chart = step_chart(
        totals, memory.peak_bytes, label, "instruction of the training program", "memory"
    )
    return (
        "<h2>Memory over the program</h2>"
        + chart
        + f"<p>{bytes_text(memory.persistent_bytes)} of variables and constants, and what is alive "
        "beside them while each instruction runs.</p>"
    )


def time_section(times: Sequence[OpTime]) -> str:
    total = sum(time.seconds for time in times)
    rows = [
        (
            time.op,
            time.seconds,
            f"{time.seconds / time.calls * 1e6:.1f} µs, {100 * time.seconds / total:.1f} %",
        )
        for time in merged_op_times(times)
        if time.calls and total > 0
    ]
    return (
        "<h2>Time by op</h2>"
        + bar_chart(rows)
        + f"<p>The {TOP_OPS} ops that take longest: time per call and share of all recorded time, "
        "from a separate profiled run of the same program.</p>"
    )


_STYLE = """
body { font-family: sans-serif; color: #223; max-width: 760px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } td { padding: 2px 14px 2px 0; }
td:first-child { color: #667; } h2 { margin-top: 1.6em; } p { color: #667; font-size: 13px; }
svg { max-width: 100%; height: auto; }
.phases th, .phases td { padding: 2px 10px 2px 0; text-align: right; font-size: 13px;
  white-space: nowrap; }
.phases th:first-child, .phases td:first-child { text-align: left; }
.wide { width: calc(100vw - 3em); position: relative; left: 50%; margin-left: calc(1.5em - 50vw); }
"""


def report_html(report: TrainingReport) -> str:
    """The whole page."""
    facts = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in report.facts
    )
    notes = "".join(f"<p><strong>{escape(note)}</strong></p>" for note in report.notes)
    sections = (
        _loss_section(report.losses)
        + memory_section(report.memory)
        + (phase_section(report.phases) if report.phases else "")
        + (timeline_section(report.timeline) if report.timeline else "")
        + time_section(report.op_times)
    )
    return page(report.title, f"{notes}<table>{facts}</table>\n{sections}")


def page(title: str, body: str) -> str:
    """A whole page: no scripts, nothing from elsewhere."""
    title = escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>{body}"
        "</body></html>\n"
    )


def write_report(path: str | Path, report: TrainingReport) -> Path:
    """Writes the page to `path`, making its folder; returns the absolute path."""
    target = Path(path).expanduser().resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(report_html(report), encoding="utf-8")
    return target

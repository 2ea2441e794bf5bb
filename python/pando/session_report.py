"""The report of a session: memory, pipelines, phases, ops and the timeline.

As text, JSON and HTML.

    with use_session_settings(profile=True):
        session = popxl.Session(ir)
    with session:
        session.run(inputs)
        report = session_info.session_report(session, "my program")
    print(report.text())
    report.write_html("report.html")

Times need a session that profiles, and are taken before it is left.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pando._core import PipelineSchedule
from pando.phase_report import PhaseTime, phase_section, phase_text, phases_json, seconds_text
from pando.pipeline_chart import pipeline_section, pipelines_json
from pando.plots import bytes_text
from pando.report import MemoryPlan, OpTime, memory_section, merged_op_times, page, time_section
from pando.timeline import Lane, timeline_json, timeline_section


@dataclass(frozen=True)
class AliveTensor:
    """One that is alive when the program needs most memory."""

    name: str
    bytes: int
    # Within the frame of a call, which stands before it and has room for it.
    depth: int


@dataclass(frozen=True)
class SessionReport:
    """What `session_info.session_report` found."""

    title: str
    memory: MemoryPlan
    alive_at_peak: Sequence[AliveTensor]
    phases: Sequence[PhaseTime]
    op_times: Sequence[OpTime]
    timeline: Sequence[Lane]
    pipelines: Sequence[PipelineSchedule] = ()
    # How remote buffers in files are read and written; empty when there are none.
    io_method: str = ""

    def text(self) -> str:
        memory = self.memory
        lines = [
            self.title,
            "",
            f"memory: {bytes_text(memory.peak_bytes)} at most, "
            f"{bytes_text(memory.persistent_bytes)} of it variables and constants",
            *(f"  {bytes_text(t.bytes):>10}  {'  ' * t.depth}{t.name}" for t in self.alive_at_peak),
            *([f"remote buffers in files: {self.io_method}"] if self.io_method else []),
            "",
            *(str(schedule) for schedule in self.pipelines),
            phase_text(self.phases),
            "",
            *(
                f"{seconds_text(time.seconds):>8}  {time.calls:>7} x  {time.op}"
                for time in merged_op_times(self.op_times)
            ),
        ]
        return "\n".join(lines).rstrip() + "\n"

    def as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "memory": {
                "persistent_bytes": self.memory.persistent_bytes,
                "peak_frame_bytes": self.memory.peak_frame_bytes,
                "timeline": list(self.memory.timeline),
                "alive_at_peak": [
                    {"name": t.name, "bytes": t.bytes, "depth": t.depth} for t in self.alive_at_peak
                ],
            },
            "io_method": self.io_method,
            "pipelines": pipelines_json(self.pipelines),
            "phases": phases_json(self.phases),
            "ops": [
                {"op": time.op, "calls": time.calls, "seconds": time.seconds}
                for time in self.op_times
            ],
            "timeline": timeline_json(self.timeline),
        }

    def json(self) -> str:
        return json.dumps(self.as_dict(), indent=1)

    def html(self) -> str:
        sections = memory_section(self.memory)
        if self.io_method:
            sections += f"<p>Remote buffers in files: {html.escape(self.io_method)}.</p>"
        if self.pipelines:
            sections += pipeline_section(self.pipelines)
        if self.phases:
            sections += phase_section(self.phases)
        if self.timeline:
            sections += timeline_section(self.timeline)
        if self.op_times:
            sections += time_section(self.op_times)
        return page(self.title, sections)

    def write_html(self, path: str | Path) -> Path:
        """Writes the page, making its folder; returns the absolute path."""
        target = Path(path).expanduser().resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.html(), encoding="utf-8")
        return target

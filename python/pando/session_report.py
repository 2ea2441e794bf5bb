"""The report of a session: memory, pipelines, phases, ops and the timeline.

As text, JSON and HTML.

    with use_session_settings(profile=True):
        session = popxl.Session(ir)
    with session:
        session.run(inputs)
        report = session_info.session_report(session, "my program")
    print(report.text())
    report.write_html("report.html")
    report.write_perfetto("report.perfetto.json")

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
from pando.op_times import OpTime, op_time_section, op_time_summary, op_time_text
from pando.perfetto import write_trace
from pando.phase_report import PhaseTime, phase_section, phase_summary, phase_text, phases_json
from pando.pipeline_chart import pipeline_section, pipelines_json
from pando.plots import bytes_text
from pando.report import MemoryPlan, memory_section, memory_summary, page
from pando.timeline import Lane, timeline_json, timeline_section, timeline_summary


@dataclass(frozen=True)
class SessionReport:
    """What `session_info.session_report` found.

    Attributes:
        title: The heading.
        memory: The plan of device memory.
        phases: What the phases did; empty without profiling.
        op_times: How long the ops took; empty without profiling.
        timeline: When what ran in the last run; empty without profiling.
        pipelines: The timetables of the program's pipelines.
        io_method: How remote buffers in files are read and written; empty when there are none.
    """

    title: str
    memory: MemoryPlan
    phases: Sequence[PhaseTime]
    op_times: Sequence[OpTime]
    timeline: Sequence[Lane]
    pipelines: Sequence[PipelineSchedule] = ()
    # How remote buffers in files are read and written; empty when there are none.
    io_method: str = ""

    def text(self) -> str:
        """The report for a terminal.

        Returns:
            Several lines.
        """
        memory = self.memory
        lines = [
            self.title,
            "",
            f"memory: {bytes_text(memory.peak_bytes)} at most, "
            f"{bytes_text(memory.persistent_bytes)} of it variables and constants",
            *(
                f"  {bytes_text(t.bytes):>10}  {'  ' * t.depth}{t.name}"
                for t in memory.alive_at_peak
            ),
            *([f"remote buffers in files: {self.io_method}"] if self.io_method else []),
            "",
            *(str(schedule) for schedule in self.pipelines),
            phase_text(self.phases),
            "",
            op_time_text(self.op_times),
        ]
        return "\n".join(lines).rstrip() + "\n"

    def as_dict(self) -> dict[str, Any]:
        """The report as data for JSON.

        Returns:
            Dicts, lists, numbers and texts.
        """
        return {
            "title": self.title,
            "memory": {
                "persistent_bytes": self.memory.persistent_bytes,
                "peak_frame_bytes": self.memory.peak_frame_bytes,
                "timeline": list(self.memory.timeline),
                "alive_at_peak": [
                    {"name": t.name, "bytes": t.bytes, "depth": t.depth}
                    for t in self.memory.alive_at_peak
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
        """The report for programs.

        Returns:
            JSON text.
        """
        return json.dumps(self.as_dict(), indent=1)

    def __repr__(self) -> str:
        """What the sections tell.

        Returns:
            A line each.
        """
        lines = [f"SessionReport {self.title!r}", f"  memory: {memory_summary(self.memory)}"]
        if self.phases:
            lines.append(f"  phases: {phase_summary(self.phases)}")
        if self.op_times:
            lines.append(f"  ops: {op_time_summary(self.op_times)}")
        if self.timeline:
            lines.append(f"  timeline: {timeline_summary(self.timeline)}")
        return "\n".join([*lines, "  text(), json(), write_html(path), write_perfetto(path)"])

    def _repr_html_(self) -> str:
        """The page's sections, in a notebook."""
        return f"<h1>{html.escape(self.title)}</h1>{self._sections()}"

    def html(self) -> str:
        """The report for a browser.

        Returns:
            A whole page without scripts.
        """
        return page(self.title, self._sections())

    def _sections(self) -> str:
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
            sections += op_time_section(self.op_times)
        return sections

    def write_html(self, path: str | Path) -> Path:
        """Writes the page.

        Args:
            path: The file; its folder is made.

        Returns:
            The absolute path.
        """
        target = Path(path).expanduser().resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.html(), encoding="utf-8")
        return target

    def write_perfetto(self, path: str | Path) -> Path:
        """Writes the timeline as a trace for Perfetto (ui.perfetto.dev), making its folder.

        Args:
            path: The file, by custom `NAME.perfetto.json`.

        Returns:
            The absolute path.

        Raises:
            ValueError: The session recorded no timeline.
            OSError: The file cannot be written.
        """
        if not self.timeline:
            raise ValueError(
                "no timeline was recorded: make the session with use_session_settings(profile=True)"
            )
        return write_trace(path, self.timeline, self.title)

"""Sessions with engine options, and what the engine tells about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import popxl
from pando._core import PipelineSchedule
from pando.op_times import OpTime
from pando.phase_report import PhaseTime, Traffic
from pando.report import AliveTensor, MemoryPlan
from pando.session_report import SessionReport
from pando.settings import use_session_settings
from pando.timeline import Box, Lane


def open_session(ir: popxl.Ir, threads: int = 0, profile: bool = False) -> popxl.Session:
    """A session on this machine.

    Args:
        ir: The program.
        threads: The threads of all replicas together; 0 means one for every core.
        profile: Whether the time of every op is recorded.

    Returns:
        The session, compiled and not yet entered.
    """
    with use_session_settings(num_threads=threads, profile=profile):
        return popxl.Session(ir, "cpu")


def _engine(session: popxl.Session) -> Any:
    """The core's session below the popxl one."""
    return session._pb_session


def memory_plan(session: popxl.Session) -> MemoryPlan:
    """The compiler's plan of device memory.

    Args:
        session: A session, entered or not.

    Returns:
        Bytes of the plan, of one replica.
    """
    memory = _engine(session).program.memory
    return MemoryPlan(
        memory.persistent_bytes,
        memory.peak_frame_bytes,
        [int(b) for b in memory.timeline],
        [AliveTensor(t.name, int(t.bytes), int(t.depth)) for t in memory.alive_at_peak],
    )


def cache_file(session: popxl.Session) -> Path | None:
    """The file that the compiled program was read from.

    Args:
        session: A session.

    Returns:
        The file, or None if this session compiled the program.
    """
    file = str(_engine(session).program.compile_report.cache_file)
    return Path(file) if file else None


def actual_peak_bytes(session: popxl.Session) -> int:
    """The most device memory that was held at once.

    Args:
        session: A session.

    Returns:
        Bytes, since the session was entered.
    """
    return int(_engine(session).actual_peak_bytes())


def op_times(session: popxl.Session) -> list[OpTime]:
    """How long each op took since the session was entered.

    Args:
        session: A session that was made to profile, inside its context.

    Returns:
        A row for each op.
    """
    return [OpTime(row.op, row.calls, row.seconds) for row in _engine(session).trace()]


def phase_times(session: popxl.Session) -> list[PhaseTime]:
    """What each phase did since the session was entered.

    Args:
        session: A session that was made to profile, inside its context.

    Returns:
        A row for each phase and virtual device, of the first replica.
    """
    return [
        PhaseTime(
            row.name,
            row.device,
            row.seconds,
            row.waiting_seconds,
            row.exchange_seconds,
            row.io_seconds,
            row.host_bytes_loaded,
            row.host_bytes_stored,
            {
                buffer: Traffic(traffic.bytes_loaded, traffic.bytes_stored)
                for buffer, traffic in row.buffers.items()
            },
        )
        for row in _engine(session).program.phases()
    ]


def timeline(session: popxl.Session) -> list[Lane]:
    """When what ran in the last run.

    Args:
        session: A session that was made to profile, inside its context.

    Returns:
        A lane for each virtual device and I/O thread of the first replica.
    """
    return [
        Lane(lane.name, [Box(e.start, e.end, e.depth, e.name, e.phase) for e in lane.events])
        for lane in _engine(session).program.timeline()
    ]


def pipelines(session: popxl.Session) -> list[PipelineSchedule]:
    """The timetables of the pipelines of a program.

    Args:
        session: A session of the program.

    Returns:
        One for each pipeline; `print` shows it as a table.
    """
    return list(session.ir._pipelines)


def session_report(session: popxl.Session, title: str = "Pando session") -> SessionReport:
    """All that is known of a session.

    Args:
        session: A session, inside its context; times are there if it was made to profile.
        title: The heading of the report.

    Returns:
        The report, as text, JSON and HTML.
    """
    return SessionReport(
        title,
        memory_plan(session),
        phase_times(session),
        op_times(session),
        timeline(session),
        pipelines(session),
        str(_engine(session).program.io_method),
    )

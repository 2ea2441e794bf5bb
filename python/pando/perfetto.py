"""The timeline of a run as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

The trace-event format in JSON: complete events ("ph": "X") in microseconds since the run began, and
metadata events that name processes and threads. One process is the replica, one thread a virtual
device or an I/O thread; the phases of a device are a thread of their own above it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pando.timeline import Box, Lane, phase_boxes

REPLICA = 0  # the one that a profiled run records


def _metadata(kind: str, thread: int, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": REPLICA, "tid": thread, "args": arguments}


def _event(box: Box, thread: int) -> dict[str, Any]:
    start = round(box.start * 1e6, 3)
    return {
        "ph": "X",
        "name": box.name,
        "cat": box.phase or "no phase",
        "ts": start,
        # The end is rounded, not the duration: inner events stay within outer ones.
        "dur": round(round(box.end * 1e6, 3) - start, 3),
        "pid": REPLICA,
        "tid": thread,
        "args": {"phase": box.phase, "depth": box.depth},
    }


def _threads(lanes: Sequence[Lane]) -> Iterator[tuple[str, Sequence[Box]]]:
    for lane in lanes:
        phases = phase_boxes(lane.boxes) if lane.name.startswith("device") else []
        if phases:
            yield f"{lane.name}: phases", phases
        yield lane.name, lane.boxes


def trace(lanes: Sequence[Lane], title: str) -> dict[str, Any]:
    """The trace as data for `json.dump`.

    Args:
        lanes: What `session_info.timeline` gives; times in seconds since the run began.
        title: Stands beside the replica's name.

    Returns:
        The trace-event format, with complete events and metadata events.
    """
    events = [_metadata("process_name", 0, name=f"{title}, replica {REPLICA}")]
    for thread, (name, boxes) in enumerate(_threads(lanes)):
        events.append(_metadata("thread_name", thread, name=name))
        events.append(_metadata("thread_sort_index", thread, sort_index=thread))
        events += [_event(box, thread) for box in boxes]
    return {"displayTimeUnit": "ms", "traceEvents": events}


def write_trace(path: str | Path, lanes: Sequence[Lane], title: str) -> Path:
    """Writes the trace as JSON, making its folder.

    Args:
        path: The file, by custom `NAME.perfetto.json`.
        lanes: What `session_info.timeline` gives.
        title: Stands beside the replica's name.

    Returns:
        The absolute path.

    Raises:
        OSError: The file cannot be written.
    """
    target = Path(path).expanduser().resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8") as file:
        json.dump(trace(lanes, title), file)
    return target

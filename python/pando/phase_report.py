"""What the phases of a program did: compute, I/O and waiting, as text, for JSON and in HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from pando.plots import bytes_text

# The row for what belongs to no phase has this name.
UNNAMED = "(no phase)"


@dataclass(frozen=True)
class Traffic:
    """Bytes between the device and one remote buffer.

    Attributes:
        bytes_loaded: To the device.
        bytes_stored: To the buffer.
    """

    bytes_loaded: int
    bytes_stored: int


@dataclass(frozen=True)
class PhaseTime:
    """One phase of the main program on one virtual device, over all recorded runs.

    A phase is what bears one outermost name scope in the main graph or, outside of any, the calls
    of one graph. Its time is compute, waiting and exchange; transfers go on during other phases
    too, so `io_seconds` may be larger or smaller than the waiting for them.

    Attributes:
        name: The name of the phase; empty for what belongs to none.
        device: The virtual device.
        seconds: From the begin to the end of its instructions.
        waiting_seconds: The part in remote transfers: waiting for I/O threads, or copying from and
            to RAM.
        exchange_seconds: The part in collectives, and waiting for other devices.
        io_seconds: How long its remote transfers took, on whichever thread.
        host_bytes_loaded: From the host.
        host_bytes_stored: To the host.
        buffers: Id of a remote buffer -> its traffic.
    """

    name: str
    device: int
    seconds: float
    # In remote transfers: waiting for I/O threads, or copying from and to RAM.
    waiting_seconds: float
    # In collectives, and waiting for other devices.
    exchange_seconds: float
    # How long its remote transfers took, on whichever thread.
    io_seconds: float
    host_bytes_loaded: int
    host_bytes_stored: int
    # By id of the remote buffer.
    buffers: Mapping[int, Traffic] = field(default_factory=dict)

    @property
    def compute_seconds(self) -> float:
        """Its time without waiting and exchange."""
        return self.seconds - self.waiting_seconds - self.exchange_seconds

    @property
    def bytes_loaded(self) -> int:
        """From all remote buffers together."""
        return sum(traffic.bytes_loaded for traffic in self.buffers.values())

    @property
    def bytes_stored(self) -> int:
        """To all remote buffers together."""
        return sum(traffic.bytes_stored for traffic in self.buffers.values())

    @property
    def overlap(self) -> float | None:
        """The share of its I/O that the program did not wait for; None without I/O."""
        if self.io_seconds <= 0:
            return None
        return max(0.0, 1 - self.waiting_seconds / self.io_seconds)


def seconds_text(seconds: float) -> str:
    """A time with a fitting unit.

    Args:
        seconds: The time.

    Returns:
        Three digits with s, ms or µs.
    """
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


_HEADINGS = ("phase", "device", "time", "compute", "waiting", "exchange", "I/O", "loaded", "stored")


def _row(phase: PhaseTime) -> tuple[str, ...]:
    return (
        phase.name or UNNAMED,
        str(phase.device),
        seconds_text(phase.seconds),
        seconds_text(phase.compute_seconds),
        seconds_text(phase.waiting_seconds),
        seconds_text(phase.exchange_seconds),
        seconds_text(phase.io_seconds),
        bytes_text(phase.bytes_loaded),
        bytes_text(phase.bytes_stored),
    )


def _total(phases: Sequence[PhaseTime]) -> tuple[str, ...]:
    seconds = [
        sum(getattr(phase, name) for phase in phases)
        for name in (
            "seconds",
            "compute_seconds",
            "waiting_seconds",
            "exchange_seconds",
            "io_seconds",
        )
    ]
    loaded = sum(phase.bytes_loaded for phase in phases)
    stored = sum(phase.bytes_stored for phase in phases)
    return (
        "total",
        "",
        *(seconds_text(value) for value in seconds),
        bytes_text(loaded),
        bytes_text(stored),
    )


def phase_text(phases: Sequence[PhaseTime]) -> str:
    """A table of phases for a terminal.

    Args:
        phases: The phases.

    Returns:
        One line per phase, a total, and the traffic of every remote buffer.
    """
    if not phases:
        return "no phases were recorded: make the session with use_session_settings(profile=True)"
    rows = [_HEADINGS, *(_row(phase) for phase in phases), _total(phases)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    for buffer, traffic in sorted(buffer_traffic(phases).items()):
        lines.append(
            f"remote buffer {buffer}: {bytes_text(traffic.bytes_loaded)} loaded, "
            f"{bytes_text(traffic.bytes_stored)} stored"
        )
    return "\n".join(lines)


def buffer_traffic(phases: Sequence[PhaseTime]) -> dict[int, Traffic]:
    """The traffic of every remote buffer in all phases together.

    Args:
        phases: The phases.

    Returns:
        Id of the buffer -> bytes.
    """
    total: dict[int, Traffic] = {}
    for phase in phases:
        for buffer, traffic in phase.buffers.items():
            before = total.get(buffer, Traffic(0, 0))
            total[buffer] = Traffic(
                before.bytes_loaded + traffic.bytes_loaded,
                before.bytes_stored + traffic.bytes_stored,
            )
    return total


def phase_summary(phases: Sequence[PhaseTime]) -> str:
    """What the table tells: the longest phase, waiting, and how much of the I/O was hidden.

    Args:
        phases: The phases.

    Returns:
        A sentence or two.
    """
    total = sum(phase.seconds for phase in phases)
    if total <= 0:
        return "No time was recorded."
    longest = max(phases, key=lambda phase: phase.seconds)
    waiting = sum(phase.waiting_seconds for phase in phases)
    io = sum(phase.io_seconds for phase in phases)
    text = (
        f"The longest phase is {longest.name or UNNAMED} with {100 * longest.seconds / total:.0f} "
        f"% of {seconds_text(total)}. "
    )
    if io <= 0:
        return text + "Nothing was loaded from or stored to remote buffers."
    hidden = max(0.0, 1 - waiting / io)
    return text + (
        f"Waiting for remote memory took {100 * waiting / total:.0f} %; computation hid "
        f"{100 * hidden:.0f} % of {seconds_text(io)} of transfers."
    )


def phases_json(phases: Sequence[PhaseTime]) -> list[dict[str, Any]]:
    """Phases as data for JSON.

    Args:
        phases: The phases.

    Returns:
        A dict for each.
    """
    return [
        {
            "name": phase.name,
            "device": phase.device,
            "seconds": phase.seconds,
            "compute_seconds": phase.compute_seconds,
            "waiting_seconds": phase.waiting_seconds,
            "exchange_seconds": phase.exchange_seconds,
            "io_seconds": phase.io_seconds,
            "host_bytes_loaded": phase.host_bytes_loaded,
            "host_bytes_stored": phase.host_bytes_stored,
            "remote_buffers": {
                str(buffer): {"bytes_loaded": t.bytes_loaded, "bytes_stored": t.bytes_stored}
                for buffer, t in phase.buffers.items()
            },
        }
        for phase in phases
    ]


def _cells(row: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"


def phase_section(phases: Sequence[PhaseTime]) -> str:
    """Phases as a section of an HTML report.

    Args:
        phases: The phases.

    Returns:
        HTML with a table.
    """
    rows = "".join(_cells(_row(phase), "td") for phase in phases)
    return (
        f"<h2>Time by phase</h2><p>{escape(phase_summary(phases))}</p>"
        '<table class="numbers">'
        + _cells(_HEADINGS, "th")
        + rows
        + _cells(_total(phases), "td")
        + "</table><p>Of the first replica. Compute, waiting for remote memory and exchange with "
        "other replicas and devices make up the time of a phase; I/O is how long its transfers "
        "took, on whichever thread.</p>"
    )

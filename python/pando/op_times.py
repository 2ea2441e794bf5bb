"""The time that ops took: as a table of text and of HTML, and what it tells in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pando.phase_report import seconds_text

TOP_OPS = 15


@dataclass(frozen=True)
class OpTime:
    """How often and how long one op ran.

    Attributes:
        op: Its description, such as `MatMul 'fc1/matmul'`.
        calls: How often it ran.
        seconds: In all these calls together.
    """

    op: str
    calls: int
    seconds: float

    @property
    def kind(self) -> str:
        """The kind of the op, such as `MatMul`."""
        return self.op.split()[0] if self.op else ""


def merged_op_times(times: Sequence[OpTime], count: int = TOP_OPS) -> list[OpTime]:
    """The ops that took longest.

    Args:
        times: A row for each op.
        count: How many ops at most.

    Returns:
        Rows by falling time; times of equal names are added up. What the others took together is
        one more row at the end, named for how many they are.
    """
    totals: dict[str, tuple[int, float]] = {}
    for time in times:
        calls, seconds = totals.get(time.op, (0, 0.0))
        totals[time.op] = (calls + time.calls, seconds + time.seconds)
    merged = [OpTime(op, calls, seconds) for op, (calls, seconds) in totals.items()]
    merged.sort(key=lambda time: -time.seconds)
    rest = merged[count:]
    if not rest:
        return merged
    name = f"{len(rest)} other ops" if len(rest) > 1 else rest[0].op
    others = OpTime(name, sum(t.calls for t in rest), sum(t.seconds for t in rest))
    return [*merged[:count], others]


def kind_times(times: Sequence[OpTime]) -> list[tuple[str, float]]:
    """The time of each kind of op.

    Args:
        times: A row for each op.

    Returns:
        Kinds and seconds, the longest first.
    """
    totals: dict[str, float] = {}
    for time in times:
        totals[time.kind] = totals.get(time.kind, 0.0) + time.seconds
    return sorted(totals.items(), key=lambda item: -item[1])


_HEADINGS = ("op", "calls", "total", "per call", "share")


def _rows(times: Sequence[OpTime]) -> list[tuple[str, ...]]:
    total = sum(time.seconds for time in times)
    rows = [
        (
            time.op,
            f"{time.calls:,}",
            seconds_text(time.seconds),
            seconds_text(time.seconds / time.calls),
            f"{100 * time.seconds / total:.1f} %",
        )
        for time in merged_op_times(times)
        if time.calls and total > 0
    ]
    calls = sum(time.calls for time in times)
    return [*rows, ("total", f"{calls:,}", seconds_text(total), "", "100.0 %")] if rows else []


def op_time_text(times: Sequence[OpTime]) -> str:
    """The ops that took longest, as a table for a terminal.

    Args:
        times: A row for each op.

    Returns:
        One line per op; empty when nothing was recorded.
    """
    rows = _rows(times)
    if not rows:
        return ""
    table = [_HEADINGS, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(1, len(_HEADINGS))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True))
        + f"  {row[0]}"
        for row in table
    )


def op_time_summary(times: Sequence[OpTime]) -> str:
    """What the table tells: the kinds of op and the one op that took most.

    Args:
        times: A row for each op.

    Returns:
        A sentence or two.
    """
    total = sum(time.seconds for time in times)
    if total <= 0:
        return "No time was recorded."
    kinds = [f"{kind} {100 * s / total:.0f} %" for kind, s in kind_times(times)[:3]]
    longest = merged_op_times(times, 1)[0]
    return (
        f"By kind of op: {', '.join(kinds)} of {seconds_text(total)}. The longest is {longest.op}, "
        f"{100 * longest.seconds / total:.0f} %, {seconds_text(longest.seconds / longest.calls)} a "
        "call."
    )


def op_time_section(times: Sequence[OpTime]) -> str:
    """The ops that took longest, as a section of an HTML report.

    Args:
        times: A row for each op.

    Returns:
        HTML with a table; bars behind the names show the shares.
    """
    rows = _rows(times)
    if not rows:
        return "<h2>Time by op</h2><p>No time was recorded.</p>"
    heading = "".join(f"<th>{name}</th>" for name in _HEADINGS)
    body = ""
    for row in rows:
        share = row[-1].split()[0] if row[0] != "total" else "0"
        bar = f' style="background-size: {share}% 100%"'
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        body += f'<tr><td class="bar"{bar}>{escape(row[0])}</td>{cells}</tr>'
    return (
        f"<h2>Time by op</h2><p>{escape(op_time_summary(times))}</p>"
        f'<table class="numbers">{"<tr>" + heading + "</tr>"}{body}</table>'
        "<p>Of a profiled run. Total is all calls together; the shares add up to all recorded "
        "time.</p>"
    )

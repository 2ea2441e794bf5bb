"""The timeline of a profiled run: a lane per device and I/O thread, boxes for calls and ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from pando.phase_report import seconds_text
from pando.plots import GRID, INK, nice_ticks

WIDTH, LEFT, RIGHT, ROW, GAP = 1200, 104, 16, 16, 10
# Deeper calls are within the boxes around them.
MOST_ROWS = 4
# A longer timeline is drawn as phases only: a trace viewer shows the rest better.
MOST_BOXES = 5000
# Boxes of fewer pixels are drawn as one with their neighbours.
LEAST_WIDTH = 0.5
_LETTER = 6.2
COLOURS = ("#9ec5e8", "#f3c08f", "#a9d6a4", "#e6a6b5", "#c3b3e6", "#e3d48a", "#8fd0cc", "#d3b59c")
_NO_PHASE = "#d5d8de"


@dataclass(frozen=True)
class Box:
    """Something that ran.

    Attributes:
        start: Seconds since the run began.
        end: Seconds since the run began.
        depth: Within how many calls.
        name: What ran.
        phase: The phase that it belongs to; empty for none.
    """

    start: float
    end: float
    depth: int
    name: str
    phase: str


@dataclass(frozen=True)
class Lane:
    """What one thread ran.

    Attributes:
        name: The name of the virtual device or I/O thread.
        boxes: By start; inner ones follow those around them.
    """

    name: str
    boxes: Sequence[Box]

    def __repr__(self) -> str:
        end = max((box.end for box in self.boxes), default=0.0)
        return f"Lane({self.name!r}, {len(self.boxes):,} boxes, {seconds_text(end)})"


def phase_boxes(boxes: Sequence[Box]) -> list[Box]:
    """Stretches of the main program that belong to one phase each.

    A phase goes on in what belongs to no phase: conditionals.

    Args:
        boxes: The boxes of one device.

    Returns:
        A box for each stretch.
    """
    result: list[Box] = []
    deepest = 0
    for box in boxes:
        if box.depth > deepest:
            continue
        deepest = box.depth if box.phase else box.depth + 1
        if result and result[-1].phase == box.phase:
            last = result.pop()
            box = Box(last.start, box.end, 0, last.name, last.phase)
        else:
            box = Box(box.start, box.end, 0, box.phase, box.phase)
        result.append(box)
    return [box for box in result if box.phase]


def lane_rows(lane: Lane, most_rows: int = MOST_ROWS) -> list[list[Box]]:
    """What is drawn below each other for a lane.

    Args:
        lane: The lane.
        most_rows: How many rows at most.

    Returns:
        A row of phases, if there are any, then rows of calls by depth.
    """
    rows = [
        row
        for depth in range(most_rows)
        if (row := [box for box in lane.boxes if box.depth == depth])
    ]
    phases = phase_boxes(lane.boxes) if lane.name.startswith("device") else []
    return [phases, *rows][:most_rows] if phases else rows


def colours_of(lanes: Sequence[Lane]) -> dict[str, str]:
    """The colours of phases.

    Args:
        lanes: All lanes.

    Returns:
        Phase -> colour, in the order in which they begin; neighbours differ.
    """
    boxes = sorted((box for lane in lanes for box in lane.boxes), key=lambda box: box.start)
    phases = dict.fromkeys(box.phase for box in boxes if box.phase)
    return {phase: COLOURS[index % len(COLOURS)] for index, phase in enumerate(phases)}


def _joined(boxes: Sequence[Box], pixels_per_second: float) -> Iterator[tuple[Box, int]]:
    """Boxes with how many they stand for: those too narrow to see become one."""
    pending: Box | None = None
    count = 0
    for box in boxes:
        narrow = (box.end - box.start) * pixels_per_second < LEAST_WIDTH
        if (
            pending is not None
            and narrow
            and ((box.start - pending.end) * pixels_per_second < LEAST_WIDTH)
        ):
            pending = Box(pending.start, box.end, box.depth, pending.name, pending.phase)
            count += 1
            continue
        if pending is not None:
            yield pending, count
            pending = None
        if narrow:
            pending, count = box, 1
        else:
            yield box, 1
    if pending is not None:
        yield pending, count


def _box_svg(box: Box, count: int, y: float, scale: float, colours: dict[str, str]) -> str:
    x = LEFT + box.start * scale
    width = max((box.end - box.start) * scale, LEAST_WIDTH)
    name = box.name if count == 1 else f"{count} from {box.name} on"
    tip = f"{name}: {seconds_text(box.end - box.start)} at {seconds_text(box.start)}"
    if box.phase and box.phase != box.name:
        tip += f", phase {box.phase}"
    rect = (
        f'<rect x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{ROW - 2}" '
        f'fill="{colours.get(box.phase, _NO_PHASE)}"><title>{escape(tip)}</title></rect>'
    )
    letters = int((width - 4) / _LETTER)
    if count > 1 or letters < 3:
        return rect
    short = box.name if len(box.name) <= letters else f"{box.name[: letters - 1]}…"
    return (
        rect + f'<text x="{x + 2:.2f}" y="{y + ROW - 5:.1f}" fill="{INK}" pointer-events="none">'
        f"{escape(short)}</text>"
    )


def is_long(lanes: Sequence[Lane]) -> bool:
    """Whether a timeline has too many boxes for a picture of all of them.

    Args:
        lanes: All lanes.

    Returns:
        True if only the phases are drawn.
    """
    return sum(len(lane.boxes) for lane in lanes) > MOST_BOXES


def timeline_svg(lanes: Sequence[Lane]) -> str:
    """The timeline as a picture; hovering over a box tells what it is.

    A long one shows the phases only.

    Args:
        lanes: All lanes.

    Returns:
        SVG.
    """
    end = max((box.end for lane in lanes for box in lane.boxes), default=0.0)
    if end <= 0:
        return "<p>no run was recorded</p>"
    scale = (WIDTH - LEFT - RIGHT) / end
    colours = colours_of(lanes)
    most_rows = 1 if is_long(lanes) else MOST_ROWS
    parts: list[str] = []
    y = 22.0
    for lane in lanes:
        rows = lane_rows(lane, most_rows)
        top = y
        parts.append(f'<g class="lane"><title>{escape(lane.name)}</title>')
        parts.append(
            f'<text x="{LEFT - 8}" y="{top + ROW - 5:.1f}" text-anchor="end" fill="{INK}">'
            f"{escape(lane.name)}</text>"
        )
        for row in rows:
            parts += [_box_svg(box, count, y, scale, colours) for box, count in _joined(row, scale)]
            y += ROW
        y = max(y, top + ROW) + GAP
        parts.append("</g>")
    grid = []
    for tick in nice_ticks(0, end, 10):
        if tick > end:
            continue
        x = LEFT + tick * scale
        grid.append(
            f'<line x1="{x:.1f}" y1="18" x2="{x:.1f}" y2="{y - GAP:.1f}" stroke="{GRID}"/>'
            f'<text x="{x:.1f}" y="13" text-anchor="middle" fill="{INK}">'
            f"{seconds_text(tick)}</text>"
        )
    return (
        f'<svg class="timeline" viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}" height="{y:.0f}" '
        f'role="img" font-family="sans-serif" font-size="10">{"".join(grid)}{"".join(parts)}</svg>'
    )


def busy_seconds(lane: Lane) -> float:
    """How long a lane did something.

    Args:
        lane: The lane.

    Returns:
        The time of its outermost boxes together.
    """
    return sum(box.end - box.start for box in lane.boxes if box.depth == 0)


def timeline_summary(lanes: Sequence[Lane]) -> str:
    """What the picture tells: how long the run took and how busy each lane was.

    Args:
        lanes: All lanes.

    Returns:
        A sentence or two.
    """
    end = max((box.end for lane in lanes for box in lane.boxes), default=0.0)
    if end <= 0:
        return "No run was recorded."
    busy = ", ".join(f"{lane.name} {100 * busy_seconds(lane) / end:.0f} %" for lane in lanes)
    return f"The run took {seconds_text(end)}. Busy: {busy}."


def timeline_section(lanes: Sequence[Lane], trace_file: str = "") -> str:
    """The timeline as a section of an HTML report.

    Args:
        lanes: All lanes.
        trace_file: The name of its trace beside the page; empty for none.

    Returns:
        HTML with the picture.
    """
    shown = (
        "for each device its phases; what it ran within them is too much for a picture"
        if is_long(lanes)
        else "for each device its phases, and below them what it ran, calls above what they call. "
        "Very short boxes that follow each other are drawn as one"
    )
    where = f"{trace_file} beside this page" if trace_file else "the file of write_perfetto()"
    return (
        f"<h2>Timeline</h2><p>{escape(timeline_summary(lanes))}</p>"
        f'<div class="wide">{timeline_svg(lanes)}</div>'
        f"<p>The last profiled run of the first replica: {shown}. To look closer, open "
        f"{escape(where)} in Perfetto (ui.perfetto.dev, or any viewer of trace events).</p>"
    )


def timeline_json(lanes: Sequence[Lane]) -> list[dict[str, Any]]:
    """The timeline as data for JSON.

    Args:
        lanes: All lanes.

    Returns:
        A dict for each lane.
    """
    return [
        {
            "name": lane.name,
            "events": [
                {"start": b.start, "end": b.end, "depth": b.depth, "name": b.name, "phase": b.phase}
                for b in lane.boxes
            ],
        }
        for lane in lanes
    ]

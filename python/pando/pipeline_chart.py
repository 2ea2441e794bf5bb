"""The timetable of a pipeline as a picture: a row per stage, a column per cycle."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from pando._core import PipelineSchedule
from pando.plots import GRID, INK
from pando.timeline import COLOURS

WIDTH, LEFT, RIGHT, TOP, ROW = 720, 130, 24, 34, 24
MOST_COLUMNS = 24
LEAST_COLUMN_WIDTH, MOST_COLUMN_WIDTH = 18, 40


def stage_name(schedule: PipelineSchedule, stage: int) -> str:
    """What a stage is called in charts.

    Args:
        schedule: The timetable.
        stage: Its number.

    Returns:
        Text such as `stage 1 on device 0, 2`.
    """
    devices = ", ".join(map(str, schedule.stages[stage].devices))
    return f"stage {stage}" + (f" on device {devices}" if devices else "")


def _parts(schedule: PipelineSchedule) -> dict[str, range]:
    """The cycles of each part; those that a pipeline of one stage lacks are empty."""
    return {
        "ramp up": range(schedule.main_begin),
        "main": range(schedule.main_begin, schedule.main_end),
        "ramp down": range(schedule.main_end, schedule.num_cycles),
    }


def _text(x: float, y: float, content: str, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}">'
        f"{escape(content)}</text>"
    )


def _cell(schedule: PipelineSchedule, stage: int, cycle: int, x: float, width: float) -> str:
    """Nothing for a stage without work."""
    index = schedule.micro_batch(stage, cycle)
    if index is None:
        return ""
    y = TOP + stage * ROW
    tip = f"{stage_name(schedule, stage)}, cycle {cycle}: micro-batch {index}"
    return (
        f'<g><title>{escape(tip)}</title><rect x="{x + 1:.1f}" y="{y + 1}" '
        f'width="{width - 2:.1f}" height="{ROW - 2}" fill="{COLOURS[index % len(COLOURS)]}"/>'
        + _text(x + width / 2, y + ROW - 8, str(index))
        + "</g>"
    )


def _headings(schedule: PipelineSchedule, x: dict[int, float], width: float, end: int) -> str:
    """The numbers of the cycles, of which `x` tells the left ends, and the parts above them."""
    text = _text(LEFT - 8, TOP - 6, "cycle", "end")
    text += "".join(_text(left + width / 2, TOP - 6, str(cycle)) for cycle, left in x.items())
    for name, cycles in _parts(schedule).items():
        if not cycles:
            continue
        left = x[cycles[0]]
        # One column has room for one word.
        shown = name if len(cycles) > 1 else name.split()[-1]
        text += f'<line x1="{left:.1f}" y1="6" x2="{left:.1f}" y2="{end}" stroke="{GRID}"/>'
        text += _text(left + 3, 14, shown, "start")
    return text


def pipeline_svg(schedule: PipelineSchedule) -> str:
    """A timetable as a picture: a row per stage, a column per cycle.

    Args:
        schedule: The timetable.

    Returns:
        SVG; a column of dots stands for main cycles that are left out.
    """
    cycles = schedule.shown_cycles(MOST_COLUMNS)
    stages = range(len(schedule.stages))
    bottom = TOP + ROW * len(stages)
    width = (WIDTH - LEFT - RIGHT) / len(cycles)
    width = min(max(width, LEAST_COLUMN_WIDTH), MOST_COLUMN_WIDTH)
    end = round(max(WIDTH, LEFT + width * len(cycles) + RIGHT))
    x = {cycle: LEFT + column * width for column, cycle in enumerate(cycles) if cycle is not None}
    parts = [_headings(schedule, x, width, bottom)]
    for k in stages:
        y = TOP + k * ROW + ROW - 8
        parts.append(_text(LEFT - 8, y, stage_name(schedule, k), "end"))
        if None in cycles:
            parts.append(_text(LEFT + (cycles.index(None) + 0.5) * width, y, "…"))
        parts += [_cell(schedule, k, cycle, left, width) for cycle, left in x.items()]
    return (
        f'<svg class="pipeline" viewBox="0 0 {end} {bottom + 4}" width="{end}" '
        f'height="{bottom + 4}" role="img" font-family="sans-serif" font-size="10">'
        f"{''.join(parts)}</svg>"
    )


def pipeline_section(schedules: Sequence[PipelineSchedule]) -> str:
    """Timetables as a section of an HTML report.

    Args:
        schedules: The timetables.

    Returns:
        HTML with a picture for each.
    """
    pictures = "".join(
        f"<p>{escape(str(schedule).splitlines()[0])}</p>{pipeline_svg(schedule)}"
        for schedule in schedules
    )
    return (
        f"<h2>Pipeline</h2>{pictures}<p>The micro-batch that each stage works on in each cycle. "
        "What stands below each other is independent, so that devices do it side by side.</p>"
    )


def pipelines_json(schedules: Sequence[PipelineSchedule]) -> list[dict[str, Any]]:
    """Timetables as data for JSON.

    Args:
        schedules: The timetables.

    Returns:
        A dict for each.
    """
    return [
        {
            "graph": schedule.graph,
            "steps": schedule.steps,
            "cycles": schedule.num_cycles,
            "main_begin": schedule.main_begin,
            "main_end": schedule.main_end,
            "stages": [
                {"graph": stage.graph, "devices": list(stage.devices)} for stage in schedule.stages
            ],
        }
        for schedule in schedules
    ]

"""Small SVG charts: lines and steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 280
RIGHT, TOP, BOTTOM = 16, 14, 46
# Room at the left of the numbers for the label of the axis, and of one character of a number.
LABEL_ROOM, CHARACTER = 34, 7.2
INK, GRID, MAIN, LIGHT = "#334", "#dde", "#2563a8", "#bcd3ec"

Formatter = Callable[[float], str]


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers for an axis.

    Args:
        low: The least value, finite.
        high: The greatest value, finite.
        count: About how many numbers.

    Returns:
        Rising numbers that span low to high.
    """
    if high <= low:
        high = low + (abs(low) or 1.0)
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def byte_ticks(low: float, high: float) -> list[float]:
    """Numbers for an axis of bytes, round in the binary unit that the greatest value is written in.

    Args:
        low: The least value, finite.
        high: The greatest value, finite.

    Returns:
        Rising numbers that span low to high.
    """
    scale = 1.0
    while max(abs(low), abs(high)) / scale >= 1024 and scale < 1 << 30:
        scale *= 1024
    return [tick * scale for tick in nice_ticks(low / scale, high / scale)]


def number_text(value: float) -> str:
    """A number with four digits.

    Args:
        value: The number.

    Returns:
        Text.
    """
    return f"{value:.4g}"


def bytes_text(value: float) -> str:
    """A number of bytes with a binary unit.

    Args:
        value: The bytes.

    Returns:
        Text such as `1.5 MiB`.
    """
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} GiB"


@dataclass(frozen=True)
class _Axes:
    """Maps data to the pixels of the plotting area, which begins at `left`."""

    left: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        span = (self.x_high - self.x_low) or 1.0
        return self.left + (value - self.x_low) / span * (WIDTH - self.left - RIGHT)

    def y(self, value: float) -> float:
        span = (self.y_high - self.y_low) or 1.0
        return HEIGHT - BOTTOM - (value - self.y_low) / span * (HEIGHT - TOP - BOTTOM)


def _text(x: float, y: float, content: str, anchor: str = "middle", extra: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK}"{extra}>'
        f"{escape(content)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def _svg(parts: Sequence[str], height: float = HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" role="img" '
        f'font-family="sans-serif" font-size="12">{"".join(parts)}</svg>'
    )


def _frame(
    axes: _Axes, y_ticks: Sequence[float], x_label: str, y_label: str, y_format: Formatter
) -> list[str]:
    parts = []
    for tick in y_ticks:
        y = axes.y(tick)
        parts.append(_line(axes.left, y, WIDTH - RIGHT, y, f'stroke="{GRID}"'))
        parts.append(_text(axes.left - 6, y + 4, y_format(tick), "end"))
    for tick in nice_ticks(axes.x_low, axes.x_high, 8):
        if axes.x_low <= tick <= axes.x_high:
            parts.append(_text(axes.x(tick), HEIGHT - BOTTOM + 18, number_text(tick)))
    parts.append(_text((axes.left + WIDTH - RIGHT) / 2, HEIGHT - 8, x_label))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(_text(14, middle, y_label, extra=f' transform="rotate(-90 14 {middle:.1f})"'))
    return parts


def _axes_for(xs: Sequence[float], y_ticks: Sequence[float], y_format: Formatter) -> _Axes:
    left = LABEL_ROOM + CHARACTER * max(len(y_format(tick)) for tick in y_ticks)
    return _Axes(left, min(xs), max(xs), y_ticks[0], y_ticks[-1])


def _points(axes: _Axes, xs: Sequence[float], ys: Sequence[float]) -> str:
    return " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in zip(xs, ys, strict=True))


def _no_data(message: str) -> str:
    return _svg([_text(WIDTH / 2, 30, message)], 50)


def line_chart(
    xs: Sequence[float],
    ys: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    x_label: str,
    y_label: str,
) -> str:
    """A line over a band.

    Args:
        xs: Rising positions, finite like all values.
        ys: The line.
        lows: The lower edge of the band.
        highs: The upper edge of the band.
        x_label: Text below the axis.
        y_label: Text beside the axis.

    Returns:
        SVG.
    """
    if not xs:
        return _no_data("no finite values")
    y_ticks = nice_ticks(min(0.0, *lows), max(highs))
    axes = _axes_for(xs, y_ticks, number_text)
    band_xs = [*xs, *reversed(xs)]
    band_ys = [*highs, *reversed(lows)]
    parts = _frame(axes, y_ticks, x_label, y_label, number_text)
    parts.append(f'<polygon points="{_points(axes, band_xs, band_ys)}" fill="{LIGHT}"/>')
    line_style = f'fill="none" stroke="{MAIN}" stroke-width="1.6"'
    parts.append(f'<polyline points="{_points(axes, xs, ys)}" {line_style}/>')
    return _svg(parts)


def step_chart(
    values: Sequence[float], mark: float, mark_label: str, x_label: str, y_label: str
) -> str:
    """Bytes that change in steps: value i holds from i to i + 1.

    Args:
        values: The bytes.
        mark: Where a dashed horizontal line is drawn.
        mark_label: Text at that line.
        x_label: Text below the axis.
        y_label: Text beside the axis.

    Returns:
        SVG.
    """
    if not values:
        return _no_data("no instructions")
    xs: list[float] = []
    ys: list[float] = []
    for index, value in enumerate(values):
        xs += [index, index + 1]
        ys += [value, value]
    y_ticks = byte_ticks(min(0.0, *values), max(*values, mark))
    axes = _axes_for(xs, y_ticks, bytes_text)
    parts = _frame(axes, y_ticks, x_label, y_label, bytes_text)
    base = f"{axes.x(xs[-1]):.1f},{axes.y(0):.1f} {axes.x(0):.1f},{axes.y(0):.1f}"
    parts.append(
        f'<polygon points="{_points(axes, xs, ys)} {base}" fill="{LIGHT}" stroke="{MAIN}"/>'
    )
    y = axes.y(mark)
    dashes = f'stroke="{INK}" stroke-dasharray="5 4"'
    parts.append(_line(axes.left, y, WIDTH - RIGHT, y, dashes))
    parts.append(_text(WIDTH - RIGHT - 4, y - 5, mark_label, "end"))
    return _svg(parts)

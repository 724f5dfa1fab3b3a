"""Charts over time as inline SVG, all with the same time axis and the faults behind them. Knows no
history; colours are the page's.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from raftka.chaos.report_series import Points, Span

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1100, 128, 12, 8, 20
PLOT = WIDTH - LEFT - RIGHT
LANE = 16
COLOURS = 8
TEXT = 11


class Axis:
    """Seconds to the right."""

    def __init__(self, seconds: float, faults: Sequence[Span]) -> None:
        self.seconds = max(seconds, 1e-3)
        self.faults = faults  # `what` is (kind, said, group)

    def x(self, at_s: float) -> float:
        return round(LEFT + PLOT * min(max(at_s, 0.0), self.seconds) / self.seconds, 1)

    def bands(self, height: float) -> str:
        return "".join(
            f'<rect class="band {each.what[2]}" x="{self.x(each.from_s)}" y="{TOP}" '
            f'width="{self._width(each)}" height="{height}"/>'
            for each in self.faults
        )

    def _width(self, span: Span) -> float:
        return max(1.0, round(self.x(span.to_s) - self.x(span.from_s), 1))

    def rectangle(self, span: Span, y: float, height: float, classes: str, said: str) -> str:
        title = f"<title>{escape(said)} ({span.from_s:.1f} to {span.to_s:.1f} s)</title>"
        return (
            f'<rect class="{classes}" x="{self.x(span.from_s)}" y="{y}" '
            f'width="{self._width(span)}" height="{height}" rx="2">{title}</rect>'
        )

    def ticks(self, height: float) -> str:
        step = nice_s(self.seconds / 8)
        found = []
        for i in range(int(self.seconds / step) + 1):
            x = self.x(i * step)
            found.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{TOP + height}"/>')
            found.append(
                f'<text x="{x}" y="{TOP + height + 14}" '
                f'text-anchor="middle">{clock(i * step, step)}</text>'
            )
        return "".join(found)

    def frame(self, height: float, inside: str) -> str:
        cursor = f'<line class="cursor" y1="{TOP}" y2="{TOP + height}" x1="-9" x2="-9"/>'
        shape = f'viewBox="0 0 {WIDTH} {height + TOP + BOTTOM}" data-seconds="{self.seconds}"'
        return f'<svg class="chart" {shape} role="img">{inside}{cursor}</svg>'


def nice(about: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(about))
    return next((times * power for times in (1, 2, 5) if times * power >= about), 10 * power)


def nice_s(about: float) -> float:
    """Round up to a time that divides minutes or hours."""
    return (
        next(
            (step for step in (15, 30, 60, 120, 300, 600, 900, 1800, 3600) if step >= about),
            nice(about),
        )
        if about > 10
        else nice(about)
    )


def clock(at_s: float, step: float) -> str:
    if step >= 15:
        return f"{int(at_s) // 60}:{int(at_s) % 60:02}"
    return f"{at_s:g} s"


def short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def curves(
    axis: Axis,
    lines: Mapping[str, Points],
    *,
    height: float = 120,
    logarithmic: bool = False,
    first_colour: int = 0,
    top: float | None = None,
) -> str:
    """Draw curves; values above `top` are cut there."""
    values = [value for points in lines.values() for _, value in points if value is not None]
    top, low = top or max(values, default=1.0) or 1.0, 0.0
    if logarithmic:
        low, top = 1.0, max(10.0, 10 ** math.ceil(math.log10(top)))

    def y(value: float) -> float:
        part = (
            math.log10(max(value, low) / low) / math.log10(top / low)
            if logarithmic
            else min(value / top, 1.0)
        )
        return round(TOP + height * (1 - part), 1)

    step = nice(top / 3)
    marks = (
        [10.0**i for i in range(int(math.log10(top)) + 1)]
        if logarithmic
        else [i * step for i in range(int(top / step) + 1)]
    )
    grid = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{LEFT + PLOT}" y1="{y(each)}" y2="{y(each)}"/>'
        for each in marks
    )
    grid += "".join(
        f'<text x="{LEFT - 6}" y="{y(each) + 4}" text-anchor="end">{short(each)}</text>'
        for each in marks
    )
    paths = "".join(
        f'<path class="line c{(i + first_colour) % COLOURS}" '
        f'd="{_path(axis, points, y)}"><title>{escape(name)}</title></path>'
        for i, (name, points) in enumerate(lines.items())
    )
    return axis.frame(height, axis.bands(height) + grid + axis.ticks(height) + paths)


def _path(axis: Axis, points: Points, y: object) -> str:
    parts, pen_down = [], False
    for at_s, value in points:
        if value is None:
            pen_down = False
            continue
        parts.append(f"{'L' if pen_down else 'M'}{axis.x(at_s)},{y(value)}")  # type: ignore[operator]
        pen_down = True
    return "".join(parts)


def legend(names: Iterable[str], first_colour: int = 0) -> str:
    items = (
        f'<span><i class="c{(i + first_colour) % COLOURS}"></i>{escape(name)}</span>'
        for i, name in enumerate(names)
    )
    return f'<p class="legend">{"".join(items)}</p>'


def lanes(
    axis: Axis, rows: Sequence[tuple[str, Sequence[tuple[Span, str, str]]]], *, banded: bool = True
) -> str:
    """A row each: its name, and spans with their class and what they say."""
    height = LANE * max(1, len(rows))
    inside = axis.bands(height) if banded else ""
    inside += axis.ticks(height)
    for i, (name, parts) in enumerate(rows):
        y = TOP + i * LANE
        inside += f'<text x="{LEFT - 6}" y="{y + LANE - 4}" text-anchor="end">{escape(name)}</text>'
        inside += "".join(
            axis.rectangle(span, y + 1.5, LANE - 3, classes, said) for span, classes, said in parts
        )
    return axis.frame(height, inside)

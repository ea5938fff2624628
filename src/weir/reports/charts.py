"""Charts as SVG.

The colour of a curve is a CSS variable, so that a chart fits a light and a dark page. Its values are also in
it as data for the pointer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from weir.reports.scale import Frame, marks, number, thinned, time_marks

LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 10.0, 24.0
HEADROOM = 1.08
"""Length of an axis relative to the largest drawn value."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Values by interval, and their style."""

    name: str
    colour: str  # name of a CSS variable with the colour
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Span:
    """The time of a chart, and the length of its intervals."""

    start_s: float
    width_s: float
    intervals: int

    @property
    def end_s(self) -> float:
        """Return its end."""
        return self.start_s + self.width_s * self.intervals


def stacked(
    curves: Sequence[Curve], span: Span, *, capacity: float, size: tuple[int, int], label: str, unit: str
) -> str:
    """Return a chart of stacked areas with a line for the capacity."""
    thin, per_point = _thin(curves, size[0])
    points = len(thin[0].values) if thin else 0
    tops = [0.0] * points
    heights = [sum(values) for values in zip(*(curve.values for curve in thin), strict=True)]
    frame = _frame(size, span, HEADROOM * max([capacity, *heights]))
    parts = [_grid(frame, span)]
    for curve in thin:
        below = tops
        tops = [low + value for low, value in zip(below, curve.values, strict=True)]
        path = _line(frame, _middles_s(span, points, per_point), tops) + _back(
            frame, _middles_s(span, points, per_point), below
        )
        parts.append(f'<path class="area" style="fill:{curve.colour}" d="{path}"/>')
    if capacity:
        parts.append(_rule(frame, capacity, f"{number(capacity)} {unit}"))
    return _svg(size, frame, parts, thin, span, per_point, label, unit)


def lines(
    curves: Sequence[Curve],
    span: Span,
    *,
    size: tuple[int, int],
    label: str,
    unit: str,
    rule: tuple[float, str] | None = None,
    wash: bool = False,
) -> str:
    """Return a chart of lines over time, optionally with a dashed quota line and a shaded last curve."""
    thin, per_point = _thin(curves, size[0])
    points = len(thin[0].values) if thin else 0
    most = max([value for curve in thin for value in curve.values] + [rule[0] if rule else 0.0])
    frame = _frame(size, span, HEADROOM * most)
    parts = [_grid(frame, span)]
    xs = _middles_s(span, points, per_point)
    for curve in thin:
        path = _line(frame, xs, curve.values)
        if wash and curve is thin[-1]:
            area = path + _back(frame, xs, [0.0] * points)
            parts.append(f'<path class="wash" style="fill:{curve.colour}" d="{area}"/>')
        parts.append(f'<path class="line" style="stroke:{curve.colour}" d="{path}"/>')
    if rule is not None:
        parts.append(_rule(frame, *rule))
    return _svg(size, frame, parts, thin, span, per_point, label, unit)


def steps_up(
    curves: Sequence[tuple[str, str, Sequence[tuple[float, float]]]],
    x_marks: Sequence[tuple[float, str]],
    *,
    size: tuple[int, int],
    label: str,
) -> str:
    """Return a cumulative distribution over an axis with its own marks."""
    low, high = x_marks[0][0], x_marks[-1][0]
    frame = Frame(LEFT, TOP, size[0] - LEFT - RIGHT, size[1] - TOP - BOTTOM, low, high, 1.0)
    parts = [_level(frame, share, f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    parts += [_moment(frame, position, name) for position, name in x_marks]
    for name, colour, points in curves:
        path = "M" + "L".join(f"{frame.x(x):.1f} {frame.y(y):.1f}" for x, y in points)
        parts.append(
            f'<path class="line" style="stroke:{colour}" d="{path}"><title>{escape(name)}</title></path>'
        )
    return _open(size, label) + "".join(parts) + "</svg>"


# Pieces


def _thin(curves: Sequence[Curve], width: int) -> tuple[list[Curve], int]:
    """Return the curves with as many points as fit the width, and the intervals of each point."""
    thin = [(curve, *thinned(curve.values, max(60, width // 2))) for curve in curves]
    curves = [Curve(curve.name, curve.colour, values) for curve, values, _ in thin]
    return curves, thin[0][2] if thin else 1


def _frame(size: tuple[int, int], span: Span, y_high: float) -> Frame:
    width, height = size
    return Frame(LEFT, TOP, width - LEFT - RIGHT, height - TOP - BOTTOM, span.start_s, span.end_s, y_high)


def _middles_s(span: Span, points: int, per_point: int) -> list[float]:
    """Return the middle of each interval; the first and the last point are at the edges."""
    middles = [span.start_s + (index + 0.5) * per_point * span.width_s for index in range(points)]
    if middles:
        middles[0], middles[-1] = span.start_s, span.end_s
    return middles


def _line(frame: Frame, xs: Sequence[float], ys: Sequence[float]) -> str:
    return "M" + "L".join(f"{frame.x(x):.1f} {frame.y(y):.1f}" for x, y in zip(xs, ys, strict=True))


def _back(frame: Frame, xs: Sequence[float], ys: Sequence[float]) -> str:
    points = zip(reversed(xs), reversed(ys), strict=True)
    return "L" + "L".join(f"{frame.x(x):.1f} {frame.y(y):.1f}" for x, y in points) + "Z"


def _grid(frame: Frame, span: Span) -> str:
    levels = "".join(
        _level(frame, mark, number(mark)) for mark in marks(frame.y_high, 4 if frame.height > 120 else 2)
    )
    about = max(3, int(frame.width // 110))
    moments = "".join(
        _moment(frame, moment_s, name) for moment_s, name in time_marks(span.start_s, span.end_s, about)
    )
    return levels + moments


def _level(frame: Frame, value: float, name: str) -> str:
    y, left = frame.y(value), frame.left
    return (
        f'<line class="grid" x1="{left:.0f}" x2="{left + frame.width:.0f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" text-anchor="end" x="{left - 6:.0f}" y="{y + 3.5:.1f}">{escape(name)}</text>'
    )


def _moment(frame: Frame, value: float, name: str) -> str:
    x, y = frame.x(value), frame.top + frame.height
    anchor = "start" if x < frame.left + 12 else "end" if x > frame.left + frame.width - 12 else "middle"
    return f'<text class="tick" text-anchor="{anchor}" x="{x:.1f}" y="{y + 16:.1f}">{escape(name)}</text>'


def _rule(frame: Frame, value: float, name: str) -> str:
    y = frame.y(value)
    right = frame.left + frame.width
    above = y - 4 if y > frame.top + 12 else y + 12
    return (
        f'<line class="rule" x1="{frame.left:.0f}" x2="{right:.0f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="ruled" text-anchor="end" x="{right - 4:.0f}" y="{above:.1f}">{escape(name)}</text>'
    )


def _open(size: tuple[int, int], label: str, data: str = "") -> str:
    return (
        f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{escape(label, quote=True)}"{data}>'
    )


def _svg(
    size: tuple[int, int],
    frame: Frame,
    parts: Sequence[str],
    curves: Sequence[Curve],
    span: Span,
    per_point: int,
    label: str,
    unit: str,
) -> str:
    read: Mapping[str, object] = {
        "left": frame.left,
        "width": frame.width,
        "top": frame.top,
        "height": frame.height,
        "start": span.start_s,
        "step": span.width_s * per_point,
        "unit": unit,
        "curves": [
            [curve.name, curve.colour, [round(value, 1) for value in curve.values]] for curve in curves
        ],
    }
    data = f' data-read="{escape(json.dumps(read, separators=(",", ":")), quote=True)}"'
    return _open(size, label, data) + "".join(parts) + "</svg>"


def key(entries: Sequence[tuple[str, str]]) -> str:
    """Return the legend of the colours."""
    items = "".join(f'<li><i style="background:{colour}"></i>{escape(name)}</li>' for name, colour in entries)
    return f'<ul class="key">{items}</ul>'


def share_points(values: Sequence[float], bounds: Sequence[float]) -> list[float]:
    """Return for each bound the fraction of values up to it."""
    if not values:
        return [1.0 for _ in bounds]
    ordered = sorted(values)
    shares, position = [], 0
    for bound in bounds:
        while position < len(ordered) and ordered[position] <= bound:
            position += 1
        shares.append(position / len(ordered))
    assert all(low <= high for low, high in pairwise(shares))
    return shares

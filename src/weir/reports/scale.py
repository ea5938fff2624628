"""Axes: round numbers for marks, and positions of values on the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from weir.model.resources import span

DAY_S = 86400.0
_HOUR_S = 3600.0
_STEPS_S = (
    *(60.0, 300.0, 900.0),
    *(hours * _HOUR_S for hours in (1, 2, 3, 6, 12)),
    *(days * DAY_S for days in (1, 2, 4, 7, 14, 28, 91)),
)


@dataclass(frozen=True, slots=True)
class Frame:
    """The area of a chart's curves, and the values at its edges."""

    left: float
    top: float
    width: float
    height: float
    x_low: float
    x_high: float
    y_high: float

    def x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        span_ = self.x_high - self.x_low
        return self.left + self.width * ((value - self.x_low) / span_ if span_ else 0.0)

    def y(self, value: float) -> float:
        """Return the vertical position of a value, inside the area."""
        part = min(1.0, max(0.0, value / self.y_high)) if self.y_high else 0.0
        return self.top + self.height * (1 - part)


def marks(high: float, about: int) -> list[float]:
    """Return about `about` round values from 0 to `high`."""
    raw = high / about
    size = 10.0 ** floor(log10(raw)) if raw > 0 else 1.0
    step = next(size * step for step in (1, 2, 2.5, 5, 10) if size * step >= raw * (1 - 1e-9))
    return [step * index for index in range(int(high / step + 1e-9) + 1)]


def time_marks(low_s: float, high_s: float, about: int) -> list[tuple[float, str]]:
    """Return about `about` round moments between two times, each with its label."""
    wanted_s = max(1.0, (high_s - low_s) / about)
    step_s = next((step for step in _STEPS_S if step >= wanted_s), _STEPS_S[-1])
    first = ceil((low_s - 1e-6) / step_s)
    return [
        (index * step_s, _moment(index * step_s, step_s)) for index in range(first, int(high_s // step_s) + 1)
    ]


def _moment(at_s: float, step_s: float) -> str:
    if step_s >= DAY_S:
        return f"day {round(at_s / DAY_S)}"
    return span(at_s) if at_s else "0"


def number(value: float) -> str:
    """Return a number with three significant digits and separated thousands."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.2f}".rstrip("0").rstrip(".")


def thinned(values: Sequence[float], most: int) -> tuple[list[float], int]:
    """Return at most `most` values, each the mean of equally many neighbours, and their number."""
    per_point = max(1, ceil(len(values) / most))
    return [
        sum(part) / len(part)
        for part in (values[start : start + per_point] for start in range(0, len(values), per_point))
    ], per_point

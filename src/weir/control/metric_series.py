"""Series of values over time, for curves: bounded, and coarser the longer they run."""

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable

POINTS_MAX = 400
"""Limit of points of a series; beyond it, neighbours are merged in pairs."""
NAMES_MAX = 40
"""Limit of the series of one workload; later ones are ignored."""
POINT_BYTES = 16
GPU, GPU_MEMORY, CPU, MEMORY = "gpu", "gpu_memory", "cpu", "memory"
UNITS = {GPU: "fraction", GPU_MEMORY: "bytes", CPU: "cores", MEMORY: "bytes"}
"""Names of measured series, with their units."""

Point = tuple[float, float]
"""A time, and a value."""


class MetricSeries:
    """A series. `every_s` is the least distance of its points."""

    __slots__ = ("_points_max", "_times", "_values", "every_s")

    def __init__(
        self, points: Iterable[Point] = (), *, every_s: float = 0.0, points_max: int = POINTS_MAX
    ) -> None:
        self.every_s = every_s
        self._points_max = points_max
        kept = list(points)[-points_max:]
        self._times = array("d", (at_s for at_s, _ in kept))
        self._values = array("d", (value for _, value in kept))

    def __len__(self) -> int:
        return len(self._times)

    @property
    def points(self) -> list[Point]:
        """Return the points, oldest first."""
        return list(zip(self._times, self._values, strict=True))

    def add(self, at_s: float, value: float) -> None:
        """Add a value that isn't older than the last one."""
        times, values = self._times, self._values
        if not math.isfinite(value) or (times and at_s <= times[-1]):
            return
        if times and at_s - times[-1] < self.every_s:
            values[-1] = (values[-1] + value) / 2
            return
        times.append(at_s)
        values.append(value)
        if len(times) > self._points_max:
            self._halve()

    def _halve(self) -> None:
        values = self._values
        means = [(first + second) / 2 for first, second in zip(values[::2], values[1::2], strict=False)]
        odd = [values[-1]] if len(values) % 2 else []
        self._times, self._values = self._times[::2], array("d", means + odd)
        self.every_s = (self._times[-1] - self._times[0]) / (self._points_max / 2)

    @property
    def middle_s(self) -> float:
        """Return the time of the middle point."""
        return self._times[len(self._times) // 2]

    def drop_before(self, at_s: float) -> bool:
        """Drop the points before a time; return True if there were any."""
        gone = bisect_left(self._times, at_s)
        del self._times[:gone]
        del self._values[:gone]
        return bool(gone)


def add_points(
    series: dict[str, MetricSeries], name: str, points: Iterable[Point], points_max: int = POINTS_MAX
) -> None:
    """Add points to the series of a name, if the workload may have one more."""
    metric = series.get(name)
    if metric is None:
        if len(series) >= NAMES_MAX:
            return
        metric = series[name] = MetricSeries(points_max=points_max)
    for at_s, value in points:
        metric.add(at_s, value)

"""Curves of the last hours, on every replica: of reported values, and of measured use.

Reported values come from the statuses of workloads: each write of a report has the points since the write
before, so all replicas have the same curves, whichever of them took the messages. Each replica measures use.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from math import inf

from weir.api.series import SeriesAnswer, SeriesRow
from weir.control.clock import in_utc
from weir.control.metric_series import (
    CPU,
    GPU,
    GPU_MEMORY,
    POINT_BYTES,
    UNITS,
    MetricSeries,
    Point,
    add_points,
)
from weir.kubernetes.query.usage.recent_usage import KEPT_S
from weir.kubernetes.query.workloads.index import WorkloadIndexEntry
from weir.kubernetes.usage.cluster_use import MeasuredUse

BYTES_MAX = 128 << 20
"""Limit of the memory of all curves; beyond it, the longest silent workload loses the older half of its
points."""
MEASURED_BYTES_MAX = 64 << 20
"""The same, of the curves of measured use: 3 of each of 3,300 workloads at full length."""
SERIES_BYTES = 400
"""Memory of a curve besides its points: its name, and the objects that hold it."""
SKEW_S_MAX = 300.0
"""Time by which the clock of another replica may be ahead."""
STORED_EVERY_S = 60.0
"""Least time between two writes of the curves of a workload into the database."""
POINTS_EACH_MINUTE = 1000
"""Limit of a workload's points in a write each STORED_EVERY_S; with more, it is written less often."""
ALONE = "Without a database, Weir keeps those of the last 6 hours, and since it was started."
MEASURED_ALONE = "Weir keeps that of the last 6 hours, and since it was started."
Series = Mapping[str, Sequence[Point]]
"""Points of curves by name."""


@dataclass(slots=True)
class WorkloadSeries:
    """Curves of one workload. `complete_s`: earlier points are missing. `stored_s`: later ones wait."""

    complete_s: float
    last_s: float = 0.0
    stored_s: float = 0.0
    tried_s: float = -inf  # monotonic time of the last write
    count: int = 0  # points
    stored_count: int = 0  # points in the database
    size: int = 0
    series: dict[str, MetricSeries] = field(default_factory=dict)

    def points(self) -> dict[str, list[Point]]:
        """Return a copy of the points."""
        return {name: metric.points for name, metric in self.series.items() if len(metric)}

    @property
    def written_count(self) -> int:
        """Return the number of points of the next write, about: it has those in the database, too."""
        return max(self.count, self.stored_count)

    def due_s(self, every_s: float) -> float:
        """Return the monotonic time of the next write."""
        return self.tried_s + every_s * max(1.0, self.written_count / POINTS_EACH_MINUTE)


class RecentSeries:
    """Curves of all workloads, bounded in memory. Any thread may call it."""

    def __init__(self, began_s: float, bytes_max: int = BYTES_MAX) -> None:
        self._began_s = began_s
        self._bytes_max = bytes_max
        self._workloads: OrderedDict[int, WorkloadSeries] = OrderedDict()  # the most recent report last
        self._size = 0
        self._lost = 0
        self._led_s = inf  # time since which this replica stores
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._workloads)

    @property
    def size(self) -> int:
        """Return the memory of all curves in bytes, about."""
        return self._size

    def take(self, workload: WorkloadIndexEntry, now_s: float) -> None:
        """Remove and return the points in a workload's object, which have no other reader."""
        recent, report = workload.object.report.recent, workload.object.status.report
        if report is not None and report.recent:
            report.recent = []
        series = {metric.name: pairs for metric in recent if (pairs := _pairs(metric.points, now_s))}
        with self._lock:
            if series:
                self._add(workload.number, series, now_s)
            self._bound(now_s)

    def measure(self, measured: Mapping[int, MeasuredUse], now_s: float) -> None:
        """Process the use of workloads by their numbers, unknown parts left out."""
        for number, use in measured.items():
            values = ((GPU, use.fraction), (GPU_MEMORY, use.memory), (CPU, use.cores))
            series = {name: [(now_s, value)] for name, value in values if value is not None}
            with self._lock:
                if series:
                    self._add(number, series, now_s)
        with self._lock:
            self._bound(now_s)

    def series_of(self, number: int, now_s: float) -> tuple[Series, float]:
        """Return the curves of a workload, and the time before which it may have reported more."""
        with self._lock:
            workload, oldest_s = self._workloads.get(number), now_s - KEPT_S
            points = {} if workload is None else workload.points()
            complete_s = self._began_s if workload is None else workload.complete_s
        within = {name: [point for point in some if point[0] >= oldest_s] for name, some in points.items()}
        return {name: some for name, some in within.items() if some}, max(complete_s, oldest_s)

    def unstored(
        self, most: int, points_max: int, every_s: float = STORED_EVERY_S
    ) -> dict[int, tuple[Series, float]]:
        """Return curves with points to store, and the times of the last ones; the longest waiting first.

        Those of one workload may have more than `points_max` points.
        """
        now_s = time.monotonic()
        with self._lock:
            due = [
                (workload.tried_s, number)
                for number, workload in self._workloads.items()
                if workload.last_s > workload.stored_s and now_s >= workload.due_s(every_s)
            ]
            batch: dict[int, tuple[Series, float]] = {}
            for _, number in nsmallest(most, due):
                workload = self._workloads[number]
                points_max -= workload.written_count
                if batch and points_max < 0:
                    break
                workload.tried_s = now_s
                batch[number] = workload.points(), workload.last_s
        return batch

    def stored(self, done: Mapping[int, tuple[float, int]]) -> None:
        """Record the time up to which curves are stored, and their points in the database."""
        with self._lock:
            for number, (until_s, count) in done.items():
                workload = self._workloads.get(number)
                if workload is not None:
                    workload.stored_s, workload.stored_count = until_s, count

    def lead(self, now_s: float) -> None:
        """Start storing. The former leader may have stored any points so far."""
        with self._lock:
            self._lost, self._led_s = 0, now_s
            for workload in self._workloads.values():
                workload.stored_s, workload.tried_s = 0.0, -inf

    def lost(self) -> int:
        """Return the number of curves that were dropped before they were stored, since the last call."""
        with self._lock:
            lost, self._lost = self._lost, 0
        return lost

    # Called with the lock held

    def _add(self, number: int, recent: Series, now_s: float) -> None:
        workload = self._workloads.get(number)
        if workload is None:
            workload = self._workloads[number] = WorkloadSeries(self._began_s)
        for name, points in recent.items():
            add_points(workload.series, name, points)
            workload.last_s = max(workload.last_s, *(at_s for at_s, _ in points))
        self._expire(workload, now_s - KEPT_S)
        self._resize(workload)
        self._workloads.move_to_end(number)

    def _bound(self, now_s: float) -> None:
        """Forget workloads without a recent report, and the oldest points beyond the limit."""
        while self._workloads:
            number, first = next(iter(self._workloads.items()))
            is_old = first.last_s < now_s - KEPT_S
            if not is_old and self._size <= self._bytes_max:
                return
            middles = [metric.middle_s for metric in first.series.values() if len(metric) > 1]
            if is_old:
                self._expire(first, inf)
            elif middles:
                _drop(first, min(middles))
            if is_old or not middles:
                self._size -= first.size
                self._began_s = max(self._began_s, first.last_s)
                del self._workloads[number]
            else:
                self._resize(first)
                self._workloads.move_to_end(number)

    def _expire(self, workload: WorkloadSeries, before_s: float) -> None:
        """Drop points that are too old; count them if this leader should have stored them."""
        if _drop(workload, before_s):
            self._lost += max(workload.stored_s, self._led_s) < min(before_s, workload.last_s)

    def _resize(self, workload: WorkloadSeries) -> None:
        workload.count = sum(len(metric) for metric in workload.series.values())
        size = SERIES_BYTES * len(workload.series) + POINT_BYTES * workload.count
        self._size += size - workload.size
        workload.size = size


def _drop(workload: WorkloadSeries, before_s: float) -> bool:
    """Drop the points before a time; return True if there were any."""
    dropped = [metric.drop_before(before_s) for metric in workload.series.values()]
    if any(dropped):
        workload.complete_s = max(workload.complete_s, before_s)
    return any(dropped)


def _pairs(points: Sequence[Sequence[float]], now_s: float) -> list[Point]:
    """Return the points that aren't too old, nor of a clock far ahead: no later ones could follow them."""
    pairs = [(point[0], point[1]) for point in points if len(point) == 2]
    return [pair for pair in pairs if now_s - KEPT_S <= pair[0] <= now_s + SKEW_S_MAX]


def series_answer(name: str, reported: Series, measured: Series, note: str | None) -> bytes:
    """Return the answer with the curves of a workload: some milliseconds of work for the largest."""
    rows = [
        SeriesRow(name=metric_name, kind="reported", points=[*points])
        for metric_name, points in reported.items()
    ]
    rows += [
        SeriesRow(name=metric_name, kind="measured", unit=UNITS[metric_name], points=[*points])
        for metric_name, points in measured.items()
    ]
    return SeriesAnswer(name=name, stands_in=False, series=rows, note=note).model_dump_json().encode()


def missing_note(
    submitted_s: float, reported_s: float, measured_s: float, trouble: str | None = None
) -> str | None:
    """Return why curves of a workload don't begin with it; None if they do.

    `reported_s` and `measured_s`: earlier points may be missing. `trouble`: why a database doesn't answer.
    """
    notes = []
    if reported_s > submitted_s:
        notes.append(f"Reported values are shown from {in_utc(reported_s)} on. {trouble or ALONE}")
    if measured_s > submitted_s:
        notes.append(f"Measured use is shown from {in_utc(measured_s)} on. {MEASURED_ALONE}")
    return " ".join(notes) or None

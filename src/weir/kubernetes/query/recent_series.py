"""Curves of reported values of the last hours, on every replica, from the statuses of workloads.

Each write of a report has the points since the write before. So all replicas have the same curves, whichever
of them took the messages.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import nsmallest
from math import inf

from weir.api.series import SeriesAnswer, SeriesRow
from weir.control.metric_series import POINT_BYTES, MetricSeries, Point, add_points
from weir.kubernetes.query.recent_usage import KEPT_S
from weir.kubernetes.query.workload_index import WorkloadIndexEntry

BYTES_MAX = 128 << 20
"""Memory of all curves; beyond, the workload that reported longest ago loses the older half of its points."""
SERIES_BYTES = 400
"""Memory of a curve besides its points: its name, and the objects that hold it."""
SKEW_S_MAX = 300.0
"""Time by which the clock of another replica may be ahead."""
STORED_EVERY_S = 60.0
"""Least time between two writes of the curves of a workload into the database."""
ALONE = "Without a database, Weir keeps those of the last 6 hours, and since it was started."
Series = Mapping[str, Sequence[Point]]
"""Points of curves by name."""


@dataclass(slots=True)
class WorkloadSeries:
    """Curves of one workload. `complete_s`: earlier points are missing. `stored_s`: later ones wait."""

    complete_s: float
    last_s: float = 0.0
    stored_s: float = 0.0
    tried_s: float = -STORED_EVERY_S  # monotonic time of the last write
    size: int = 0
    series: dict[str, MetricSeries] = field(default_factory=dict)

    def points(self) -> dict[str, list[Point]]:
        """Return a copy of the points."""
        return {name: each.points for name, each in self.series.items() if len(each)}


class RecentSeries:
    """Curves of all workloads by their number, bounded in memory. Any thread may call it."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self._workloads: OrderedDict[int, WorkloadSeries] = OrderedDict()  # the last one reported last
        self._size = 0
        self._lost = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._workloads)

    @property
    def size(self) -> int:
        """Return the memory of all curves in bytes, about."""
        return self._size

    def take(self, workload: WorkloadIndexEntry, now_s: float) -> None:
        """Take the points out of the object of a workload: nothing else reads them."""
        recent, report = workload.object.report.recent, workload.object.status.report
        if report is not None and report.recent:
            report.recent = []
        with self._lock:
            if recent:
                self._add(
                    workload.number, [(each.name, _pairs(each.points, now_s)) for each in recent], now_s
                )
            self._bound(now_s)

    def of(self, number: int, now_s: float) -> tuple[Series, float]:
        """Return the curves of a workload, and the time before which it may have reported more."""
        with self._lock:
            found, oldest_s = self._workloads.get(number), now_s - KEPT_S
            points = {} if found is None else found.points()
            complete_s = self._began_s if found is None else found.complete_s
        within = {name: [each for each in some if each[0] >= oldest_s] for name, some in points.items()}
        return {name: some for name, some in within.items() if some}, max(complete_s, oldest_s)

    def unstored(self, most: int, every_s: float = STORED_EVERY_S) -> dict[int, tuple[Series, float]]:
        """Return curves with points to store, and the times of the last ones; the longest waiting first."""
        now_s = time.monotonic()
        with self._lock:
            due = [
                (each.tried_s, number)
                for number, each in self._workloads.items()
                if each.last_s > each.stored_s and now_s >= each.tried_s + every_s
            ]
            found: dict[int, tuple[Series, float]] = {}
            for _, number in nsmallest(most, due):
                each = self._workloads[number]
                each.tried_s = now_s
                found[number] = each.points(), each.last_s
        return found

    def stored(self, until_s: Mapping[int, float]) -> None:
        """Take note of the times up to which curves are stored, by number."""
        with self._lock:
            for number, at_s in until_s.items():
                if number in self._workloads:
                    self._workloads[number].stored_s = at_s

    def lead(self) -> None:
        """Begin to store. The leader before may have stored any of the points, and those dropped since."""
        with self._lock:
            self._lost = 0
            for each in self._workloads.values():
                each.stored_s, each.tried_s = 0.0, -STORED_EVERY_S

    def lost(self) -> int:
        """Return the number of curves that were dropped before they were stored, since the last call."""
        with self._lock:
            lost, self._lost = self._lost, 0
        return lost

    # With the lock

    def _add(self, number: int, recent: Sequence[tuple[str, Sequence[Point]]], now_s: float) -> None:
        found = self._workloads.get(number)
        if found is None:
            found = self._workloads[number] = WorkloadSeries(self._began_s)
        for name, points in recent:
            add_points(found.series, name, points)
            found.last_s = max(found.last_s, max((at_s for at_s, _ in points), default=0.0))
        self._drop(found, now_s - KEPT_S)
        self._resize(found)
        self._workloads.move_to_end(number)

    def _bound(self, now_s: float) -> None:
        """Forget workloads that reported too long ago, and the oldest points if there are too many."""
        while self._workloads:
            number, first = next(iter(self._workloads.items()))
            if first.last_s >= now_s - KEPT_S and self._size <= BYTES_MAX:
                return
            middles = [each.middle_s for each in first.series.values() if len(each) > 1]
            is_over = first.last_s < now_s - KEPT_S or not middles
            self._drop(first, inf if is_over else min(middles))
            if is_over:
                self._size -= first.size
                self._began_s = max(self._began_s, first.last_s)
                del self._workloads[number]
            else:
                self._resize(first)
                self._workloads.move_to_end(number)

    def _drop(self, workload: WorkloadSeries, before_s: float) -> None:
        """Drop the points before a time."""
        dropped = [each.drop_before(before_s) for each in workload.series.values()]
        if any(dropped):
            workload.complete_s = max(workload.complete_s, before_s)
            self._lost += workload.stored_s < min(before_s, workload.last_s)

    def _resize(self, workload: WorkloadSeries) -> None:
        size = sum(SERIES_BYTES + POINT_BYTES * len(each) for each in workload.series.values())
        self._size += size - workload.size
        workload.size = size


def _pairs(points: Sequence[Sequence[float]], now_s: float) -> list[Point]:
    """Return the points that aren't of a clock that is far ahead: no later ones could follow them."""
    return [(each[0], each[1]) for each in points if len(each) == 2 and each[0] <= now_s + SKEW_S_MAX]


def series_answer(name: str, series: Series, note: str | None) -> bytes:
    """Return the answer with the curves of a workload: some milliseconds of work for the largest."""
    rows = [SeriesRow(name=each, kind="reported", points=[*points]) for each, points in series.items()]
    return SeriesAnswer(name=name, stands_in=False, series=rows, note=note).model_dump_json().encode()


def missing_note(complete_s: float, trouble: str | None) -> str:
    """Return why the curves of a workload may not begin with it. `trouble`: why a database doesn't answer."""
    begin = f"Reported values are shown from {datetime.fromtimestamp(complete_s, UTC):%Y-%m-%d %H:%M} UTC on"
    return f"{begin}. {trouble or ALONE}"

"""Writer of the reports of jobs into the status of their workloads, at a bounded rate.

Every replica takes messages, whether it leads or not, and every replica sees the status. So the leader, lists
and a replica that is started later know the same. The newest values, and a few points of each curve, wait in
memory; a workload is written once in some seconds, and all workloads together at a bounded rate.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from structlog import get_logger

from weir.api.reported_values import merged_values
from weir.control.fair_queue import Turns
from weir.control.metric_series import MetricSeries, add_points
from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.decoding import IgnoredObject
from weir.kubernetes.api.errors import ApiError, ApiRefused
from weir.kubernetes.api.object_numbers import at_s, moment
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.crd.schemas import API_VERSION
from weir.kubernetes.query.workloads.index import WorkloadIndex, WorkloadIndexEntry

EVERY_S = 10.0
"""Least time between two writes of a workload."""
WRITES_PER_S = 20.0
"""Writes of one replica. With more workloads, each is written less often."""
WRITES_AT_ONCE = 20
"""Writes between two choices of the workloads that are due, among which namespaces take turns."""
LATE_S = 60.0
"""Time after which a report without a checkpoint is as urgent as one with it."""
UNMADE_S_MAX = 120.0
"""Time that a message waits for the object of its workload."""
WORKLOADS_MAX = 20_000
RECENT_MAX = 8
"""Points of a curve in one write."""
CURVES_MAX = 100_000
"""Curves of all reports that wait: with all their points, 55 MB. Beyond, only the newest values are kept."""
_AGAIN_S = 1.0
_LOG = get_logger(__name__)


@dataclass(slots=True)
class PendingReport:
    """Reports of the pods of a workload since the last write. `owner` is the owner of the pods."""

    owner: str
    since_s: float
    at_s: float
    step: int | None = None
    values: dict[str, float] = field(default_factory=dict)
    checkpointed_s: float | None = None
    busy_until_s: float | None = None
    busy_why: str = ""
    recent: dict[str, MetricSeries] = field(default_factory=dict)

    def is_urgent(self, now_s: float) -> bool:
        """Return True if decisions depend on the report, or if it is late."""
        decides = self.checkpointed_s is not None or self.busy_until_s is not None
        return decides or now_s >= self.since_s + LATE_S

    def state(self, step: int | None, values: Mapping[str, float]) -> None:
        """Set the step and the values of one message."""
        self.step, self.values = step, dict(values)
        for name, value in values.items():
            add_points(self.recent, name, ((self.at_s, value),), RECENT_MAX)

    def add(self, newer: "PendingReport") -> None:
        """Take over a newer report of the same owner."""
        self.at_s = newer.at_s
        for name, series in newer.recent.items():
            add_points(self.recent, name, series.points, RECENT_MAX)
        if newer.step is not None:
            self.step = newer.step
        self.values = merged_values(self.values, newer.values)
        if newer.checkpointed_s is not None:
            self.checkpointed_s = max(newer.checkpointed_s, self.checkpointed_s or 0.0)
        if newer.busy_until_s is not None:
            self.busy_until_s, self.busy_why = newer.busy_until_s, newer.busy_why


class ReportWriter:
    """The reports that wait, by workload, and the task that writes them. Belongs to the event loop."""

    def __init__(
        self, api: ApiClient, workloads: WorkloadIndex, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._workloads = workloads
        self._now_s = now_s
        self._pending: dict[str, PendingReport] = {}
        self._curves = 0  # number of curves among them
        self._written_s: dict[str, float] = {}
        self._turns = Turns()
        self._woken = asyncio.Event()
        self.writes = 0
        """Number of writes so far."""

    def add(self, key: str, report: PendingReport) -> bool:
        """Queue a report for writing; return False if too many are queued."""
        if key not in self._pending and len(self._pending) >= WORKLOADS_MAX:
            return False
        if self._curves >= CURVES_MAX:
            report.recent.clear()
        pending = self._uncounted(key)
        if pending is not None and pending.owner == report.owner:
            pending.add(report)
            report = pending
        self._put(key, report)
        self._woken.set()
        return True

    def _uncounted(self, key: str) -> PendingReport | None:
        """Return the report that waits, if any, in its place: its curves count again once it is put there."""
        pending = self._pending.get(key)
        self._curves -= 0 if pending is None else len(pending.recent)
        return pending

    def _put(self, key: str, report: PendingReport) -> None:
        self._pending[key] = report
        self._curves += len(report.recent)

    async def run(self) -> None:
        """Write reports until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._pending:
                for key in self.due():
                    await self._write(key)
                    await asyncio.sleep(1.0 / WRITES_PER_S)
                await asyncio.sleep(_AGAIN_S / 4)

    def due(self) -> list[str]:
        """Return the next workloads to write: namespaces take turns, each with its checkpoints first."""
        now_s = self._now_s()
        self._written_s = {key: at_s for key, at_s in self._written_s.items() if now_s < at_s + EVERY_S}
        keys = [key for key in self._pending if key not in self._written_s]
        keys.sort(key=lambda key: not self._pending[key].is_urgent(now_s))
        return list(islice(self._turns.take(keys, _namespace), WRITES_AT_ONCE))

    async def _write(self, key: str) -> None:
        report, (namespace, _, name) = self._pending.pop(key), key.partition("/")
        self._curves -= len(report.recent)
        workload = self._workloads.named(namespace, name)
        if workload is None or workload.object.spec.owner.uid != report.owner:
            self._keep(key, report, self._now_s() - EVERY_S + _AGAIN_S)
            return
        self._written_s[key] = self._now_s()
        self.writes += 1
        body = {"metadata": {"uid": workload.uid}, "status": {"report": changed_fields(workload, report)}}
        try:
            path = path_of(API_VERSION, "workloads", namespace, name)
            await self._api.patch(path, body, Patch.MERGE, IgnoredObject)
        except ApiRefused as error:
            if error.status == 429 or error.status >= 500:
                self._keep(key, report, self._now_s())
            elif error.status not in (404, 409):  # else the object was deleted or replaced
                _LOG.warning("report_not_written", workload=key, why=str(error)[:300])
        except ApiError:
            self._keep(key, report, self._now_s())

    def _keep(self, key: str, report: PendingReport, tried_s: float) -> None:
        """Write a report later, unless its workload has no object for too long."""
        self._written_s[key] = tried_s
        newer = self._uncounted(key)
        if newer is not None:
            if newer.owner == report.owner:
                report.add(newer)
            else:
                report = newer
        if self._now_s() < report.since_s + UNMADE_S_MAX or newer is not None:
            self._put(key, report)


def _namespace(key: str) -> str:
    return key.partition("/")[0]


def changed_fields(workload: WorkloadIndexEntry, report: PendingReport) -> dict[str, Any]:
    """Return the merge patch of the status' report; the report of an earlier owner of the name goes."""
    stated = workload.object.status.report
    before = workload.object.report
    values = merged_values(before.values, report.values)
    gone: Mapping[str, None] = dict.fromkeys(
        name for name in (stated.values if stated is not None else ()) if name not in values
    )
    fields: dict[str, Any] = {
        "owner": report.owner,
        "at": moment(report.at_s),
        "step": before.step if report.step is None else report.step,
        "values": {**values, **gone},
        "recent": [
            {"name": name, "points": [[round(at_s, 3), value] for at_s, value in series.points]}
            for name, series in report.recent.items()
        ],
    }
    checkpointed_s = max(report.checkpointed_s or 0.0, at_s(before.checkpointed_at) or 0.0)
    fields["checkpointedAt"] = moment(checkpointed_s) if checkpointed_s else None
    if report.busy_until_s is not None:
        fields |= {"busyUntil": moment(report.busy_until_s), "busyWhy": report.busy_why}
    elif before is not stated:
        fields |= {"busyUntil": None, "busyWhy": ""}
    return fields

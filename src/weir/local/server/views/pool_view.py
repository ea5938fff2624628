"""View of the pool: a row for each workload that isn't over, kept current by events.

Observes control, and the facts and effects between control and the backend. The control thread keeps
mutable views of workloads and, once a step, makes rows of the changed ones. Rows are immutable, so any
thread may read them without waiting. Pending reasons are kept beside them, one for all equivalent workloads
(`PendingReasons`).
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from threading import Lock

from weir.api.answers import EvictionRow, Explanation, PodRow, Status, WorkloadRow
from weir.control.journal import WorkloadRecord
from weir.control.outbox import EventObserver
from weir.control.port import (
    Effect,
    EndWorkload,
    Fact,
    PodExit,
    PodExited,
    PodRunning,
    SaveProgress,
    StartPod,
    StopPod,
)
from weir.local.pods.running_pods import RunningPod
from weir.local.server.views.array_view import ArrayViews
from weir.local.server.views.live_rows import LiveRows
from weir.local.server.views.reported_progress import NOTHING_REPORTED, Reported, with_progress
from weir.local.server.views.workload_view import (
    WorkloadView,
    by_uid,
    with_runtime_until,
    without_place,
    workload_row,
    workload_view,
)
from weir.model.reasons import EvictionCause, suspension_reason
from weir.model.workloads import Workload
from weir.state.events import (
    Checkpointed,
    PodAssigned,
    PodKey,
    PodStopped,
    PodStopping,
    WorkloadChanged,
    WorkloadEnded,
    WorkloadSuspended,
)

ENDED_MAX = 512
"""Number of recently ended workloads kept in memory."""


class PoolView(EventObserver):
    """Rows of the pool. Any thread may call `add`; the control thread calls everything else."""

    def __init__(self, clock: Callable[[], float] = time.time, reported: Reported = NOTHING_REPORTED) -> None:
        self._clock = clock
        self._reported = reported
        self.workloads: dict[str, WorkloadView] = {}
        self.rows = LiveRows()  # by number: live workloads
        self.ended: dict[int, WorkloadRow] = {}  # recently ended workloads
        self.arrays = ArrayViews()
        self.reasons: dict[str, Explanation] = {}  # reasons of pending workloads that aren't suspended
        self.starting: set[PodKey] = set()  # started pods that aren't reported as running yet
        self._dirty: dict[str, None] = {}
        self._swapping = Lock()  # the control thread swaps lines, and other threads add some
        self.handlers = {
            PodAssigned: self._assigned,
            PodStopping: self._stopping,
            PodStopped: self._stopped,
            WorkloadSuspended: self._held,
            WorkloadEnded: self._ended,
            Checkpointed: self._saved,
            WorkloadChanged: self._changed,
        }

    # Queries

    def uid_of(self, name: str) -> int | None:
        """Return the number of a workload that isn't over; None if there is none."""
        line = self.workloads.get(name)
        return None if line is None else line.uid

    def row(self, name: str) -> WorkloadRow | None:
        """Return the row of a workload that isn't over, with its reason; None if there is none."""
        line = self.workloads.get(name)
        row = self.arrays.row(name) if line is None else self.rows.get(line.uid)
        return None if row is None else self.with_reason(row)

    def row_of(self, uid: int) -> WorkloadRow | None:
        """Return the row of a workload by its number, also of one that ended recently.

        The answer is None if it is unknown.
        """
        row = self.rows.get(uid) or self.arrays.row_of(uid)
        if row is None:  # in this order, because `publish` adds the ended row before it removes the live one
            return self.ended.get(uid)
        return self.with_reason(row)

    def spec_of(self, name: str) -> Workload | None:
        """Return the specification of a workload or an array that isn't over; None if there is none."""
        line = self.workloads.get(name)
        if line is not None:
            return line.spec
        array = self.arrays.named(name)
        return None if array is None else array.record.record.workload

    def is_live(self, name: str) -> bool:
        """Return True if a workload or an array of this name isn't over."""
        return self.spec_of(name) is not None

    def all(self) -> list[WorkloadRow]:
        """Return all workloads that aren't over, newest first, without their reasons."""
        rows = list(self.rows.values())
        rows.sort(key=by_uid, reverse=True)
        return rows

    def listed(self) -> list[WorkloadRow]:
        """Return the rows of lists: all workloads and arrays that aren't over, without indices of arrays."""
        rows = [row for row in list(self.rows.values()) if row.index is None]
        rows += self.arrays.rows()
        rows.sort(key=by_uid, reverse=True)
        return rows

    def with_reason(self, row: WorkloadRow) -> WorkloadRow:
        """Return a row with its pending reason and its progress, if known, and its run time up to now."""
        row = with_progress(with_runtime_until(row, self._clock()), self._reported.get(row.name))
        if row.reason is not None or row.status != "pending":
            return row
        why = self.reasons.get(row.name if row.array is None else self.arrays.waiting_index(row.name))
        return row if why is None else row.model_copy(update={"reason": why})

    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """Return the numbers of running and pending workloads by project."""
        running, pending = self.rows.counts()
        pending.update(self.arrays.not_queued())
        return running, pending

    def pod_rows(self, line: WorkloadView) -> list[PodRow]:
        """Return the pods of a workload, by group and index."""
        rows = []
        for group_index, group in enumerate(line.spec.groups):
            for index in range(group.count):
                key = PodKey(line.spec.name, group_index, index)
                row = line.pods.get(key) or line.past.get(key)
                rows.append(row or PodRow(name=line.pod_name(key), status="pending"))
        return rows

    # New workloads

    def begin(
        self,
        records: Iterable[WorkloadRecord],
        devices: Callable[[Workload], float],
        evictions: Mapping[int, EvictionRow],
    ) -> None:
        """Rebuild the view for a control that connects. `evictions` are the last stored ones, by number."""
        lines = {record.workload.name: workload_view(record, devices(record.workload)) for record in records}
        for view in lines.values():
            view.evicted = evictions.get(view.uid)
        latest = max((line.uid for line in lines.values()), default=0)
        with self._swapping:
            for name, old in self.workloads.items():
                line = lines.get(name)
                if line is not None and old.uid == line.uid:
                    line.past = {**old.past, **without_place(old.pods)}
                    line.evicted = old.evicted
                    line.utilization = old.utilization
                    line.activity, line.activity_since_s = old.activity, old.activity_since_s
                    line.idle_warning = old.idle_warning
                    line.used_gpu_s, line.idle_gpu_s = old.used_gpu_s, old.idle_gpu_s
                elif line is None and old.uid > latest and old.ended is None:
                    lines[name] = old  # stored after the others were read
            self.workloads = lines
            self.reasons.clear()
            self.rows = LiveRows(workload_row(line) for line in lines.values())
            self._dirty.clear()
            self.starting.clear()
        self.arrays.begin(self.rows.values())

    def add(self, record: WorkloadRecord) -> WorkloadRow:
        """Add a workload that is now in the store."""
        line = workload_view(record, record.devices)
        row = workload_row(line)
        with self._swapping:
            self.workloads[record.workload.name] = line
            self.rows[line.uid] = row
        return row

    # Calls of readers

    # Facts and effects between control and the backend

    def facts(self, facts: Iterable[Fact]) -> None:
        """Process facts before control does."""
        for fact in facts:
            if isinstance(fact, PodRunning):
                self._runs(fact)
            elif isinstance(fact, PodExited):
                self._exited(fact, fact.sentence or fact.how.value)

    def run_now(self, pods: Iterable[RunningPod]) -> None:
        """Mark pods as running whose process is known to run."""
        for pod in pods:
            key = pod.place.pod
            if pod.since_s is not None and key in self.starting:
                line = self.workloads.get(key.workload)
                if line is not None and line.uid == pod.uid:
                    self._runs(PodRunning(pod.place, pod.start, pod.at_s))

    def effects(self, effects: Iterable[Effect]) -> None:
        """Handle effects that were carried out."""
        for effect in effects:
            if isinstance(effect, StartPod):
                line = self.workloads.get(effect.place.pod.workload)
                if line is not None and effect.place.pod in line.pods:
                    line.change_pod(effect.place.pod, start=effect.start)
            elif isinstance(effect, StopPod):
                self._stops(effect)
            elif isinstance(effect, SaveProgress):
                line = self.workloads.get(effect.workload)
                if line is not None:
                    line.ran_s, line.restarts = effect.status.ran_s, effect.status.restarts
                    line.wall_s = effect.status.wall_s
                    line.add_progress(effect.status.idle)
                    self._dirty[effect.workload] = None
            elif isinstance(effect, EndWorkload):
                line = self.workloads.get(effect.workload)
                if line is not None:
                    line.ended = effect
                    line.ran_s, line.wall_s = effect.ran_s, effect.wall_s
                    self._dirty[effect.workload] = None

    def publish(self) -> list[WorkloadRow]:
        """Make rows of workloads that changed since the last call, ended ones with their outcome."""
        changed = []
        for name in self._dirty:
            line = self.workloads.get(name)
            if line is None:
                continue
            row = workload_row(line)
            if line.ended is None:
                self.rows[line.uid] = row
                row = self.with_reason(row)
            else:
                self.add_ended(row)
                del self.workloads[name]  # the name is free before a reader can see the end
                self.reasons.pop(name, None)
                self.rows.pop(line.uid, None)
            changed.append(row)
        self._dirty.clear()
        return changed

    def add_ended(self, row: WorkloadRow) -> None:
        """Add the row of a workload or an array that is over."""
        self.ended[row.uid] = row
        if len(self.ended) > ENDED_MAX:
            with suppress(KeyError):
                del self.ended[next(iter(self.ended))]

    # Events

    def touch(self, name: str) -> WorkloadView | None:
        """Return a workload whose row is made again at the end of the step; None if there is none."""
        line = self.workloads.get(name)
        if line is not None:
            self._dirty[name] = None
        return line

    def _assigned(self, event: PodAssigned) -> None:
        pod = event.place.pod
        line = self.touch(pod.workload)
        if line is None:
            return
        before = line.pods.get(pod)
        if before is not None and before.status == "running":
            return
        if not line.pods:
            line.begin(event.at_s)
            line.stopping = None
        runs = before is not None and before.start is not None
        if not runs:
            self.starting.add(pod)
        status: Status = "running" if runs else "starting"
        line.place_pod(event.place, status, event.at_s, before.start if before else None)
        self.reasons.pop(pod.workload, None)

    def _runs(self, fact: PodRunning) -> None:
        """Mark a pod as running: its process started, or a new control found it."""
        line = self.touch(fact.place.pod.workload)
        if line is None:
            return
        pod = line.pods.get(fact.place.pod)
        if pod is None:
            if not line.pods:
                line.begin(fact.at_s)
            status: Status = "stopping" if fact.stopping else "running"
            line.place_pod(fact.place, status, fact.at_s, fact.start)
        self.starting.discard(fact.place.pod)
        if pod is not None and pod.status == "starting" and (pod.start is None or pod.start == fact.start):
            line.change_pod(fact.place.pod, status="running", start=fact.start)

    def _stopping(self, event: PodStopping) -> None:
        line = self.touch(event.pod.workload)
        if line is not None and event.pod in line.pods:
            line.change_pod(event.pod, status="stopping", since_s=event.at_s)
        if line is not None and event.cause is not None:
            line.evicted = self._eviction(event.cause, event.at_s)

    def _eviction(self, cause: EvictionCause, at_s: float) -> EvictionRow:
        """Return the workload that benefits from an eviction, with its current person and project."""
        line = self.workloads.get(cause.by) if cause.by is not None else None
        return EvictionRow(
            at_s=at_s,
            rule=cause.rule.value,
            sentence=cause.sentence,
            by=cause.by,
            by_user=None if line is None else line.spec.user,
            by_project=None if line is None else line.spec.project,
            choice=cause.choice,
        )

    def _stops(self, effect: StopPod) -> None:
        line = self.touch(effect.pod.workload)
        if line is not None:
            line.stopping = Explanation(why=effect.cause.rule.value, sentence=effect.cause.sentence)

    def _exited(self, fact: PodExited, how: str) -> None:
        self.starting.discard(fact.pod)
        line = self.touch(fact.pod.workload)
        pod = None if line is None else line.pods.get(fact.pod)
        if line is not None and pod is not None and (pod.start is None or pod.start == fact.start):
            gone = pod.model_copy(update={"since_s": fact.at_s, "start": fact.start, "exit": how})
            line.past |= without_place({fact.pod: gone})
            if fact.how is PodExit.DONE:
                line.change_pod(fact.pod, exit=how)

    def _stopped(self, event: PodStopped) -> None:
        line = self.touch(event.pod.workload)
        if line is None:
            return
        line.pods.pop(event.pod, None)
        self.starting.discard(event.pod)
        if not line.pods:
            kept_s = line.ran_s if event.kept_s is None else event.kept_s
            ran_s = line.ran_s + (0.0 if line.started_s is None else event.at_s - line.started_s)
            line.stopped_by = "" if line.stopping is None else line.stopping.why
            line.lost_s = max(0.0, ran_s - kept_s)
            line.started_s = None
            line.waits_since_s = event.at_s
            line.stopping = line.activity = line.idle_warning = None
            if event.kept_s is not None:
                line.ran_s = event.kept_s

    def _held(self, event: WorkloadSuspended) -> None:
        line = self.touch(event.workload)
        if line is not None:
            reason = suspension_reason(event.code, event.reason, event.until_s)
            line.suspended = reason if event.suspended else None
            self.reasons.pop(event.workload, None)

    def _changed(self, event: WorkloadChanged) -> None:
        line = self.touch(event.workload.name)
        if line is not None:
            line.spec = event.workload

    def _ended(self, event: WorkloadEnded) -> None:
        line = self.touch(event.workload)
        if line is not None:
            line.started_s = None
            line.past |= without_place(line.pods)
            self.starting.difference_update(line.pods)
            line.pods.clear()

    def _saved(self, event: Checkpointed) -> None:
        line = self.workloads.get(event.workload)
        if line is not None:
            line.saved_s = event.at_s

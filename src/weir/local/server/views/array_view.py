"""Arrays that aren't over, as lists show them: one row each, with the number of indices by status.

The control thread notes the status of indices that are queued, the array's own thread everything else. Rows
are immutable, so any thread may read them.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weir.api.workload_list import ArrayCounts, Status, WorkloadRow
from weir.control.journal import WorkloadRecord
from weir.control.port import CancelRequested, Gate, GateChanged
from weir.control.start_gates import closed_gates
from weir.model.array_indices import read_indices
from weir.model.reasons import Reason, ReasonCode, suspension_reason
from weir.service.pending_reasons import explanation
from weir.state.events import WorkloadChanged, WorkloadSuspended
from weir.store.records import ArrayRecord

ArrayFact = CancelRequested | WorkloadSuspended | GateChanged | WorkloadChanged
"""Facts that may be about an array."""
OVER: frozenset[str] = frozenset(("succeeded", "failed", "stopped"))


@dataclass(slots=True)
class ArrayView:
    """Counts the indices of an array until it is over."""

    record: ArrayRecord
    facts: deque[ArrayFact] = field(default_factory=deque)  # facts for the feed's thread
    live: dict[int, WorkloadRow] = field(default_factory=dict)  # rows of queued indices by their number
    stored: Mapping[str, int] = field(default_factory=dict)  # queued indices by stored state
    gates: dict[Gate, Reason] = field(default_factory=dict)
    suspended: Reason | None = None
    stopped: str | None = None  # sentence about its stop
    first_started_s: float | None = None

    @property
    def name(self) -> str:
        """Return the name of the array."""
        return self.record.record.workload.name

    @property
    def queued(self) -> list[WorkloadRow]:
        """Return the rows of the queued indices, in the order of the array."""
        return sorted(self.live.values(), key=lambda row: row.index or 0)

    @property
    def not_queued(self) -> int:
        """Return the number of indices that weren't queued yet."""
        return len(self.record.indices) - sum(self.stored.values()) - self.record.skipped

    def counts(self) -> ArrayCounts:
        """Return the indices by status. The running ones are at most those that the store has as live."""
        stored, skipped = self.stored, self.record.skipped
        ended = {state: stored.get(state, 0) for state in ("succeeded", "failed", "stopped")}
        ended["stopped"] += skipped
        live = max(0, len(self.record.indices) - sum(ended.values()))
        running = min(live, sum(row.status != "pending" for row in self.queued))
        plan = self.record.record.array
        return ArrayCounts(
            written="" if plan is None else plan.written,
            size=len(self.record.indices),
            pending=live - running,
            running=running,
            **ended,
        )

    def row(self) -> WorkloadRow:
        """Return the row of the array. Its GPUs are those of running indices, or the request of one index."""
        record, counts = self.record.record, self.counts()
        spec = record.workload
        reason = self.suspended or next(iter(self.gates.values()), None)
        status: Status = "running" if counts.running else "pending"
        return WorkloadRow.model_construct(
            uid=self.record.uid,
            name=spec.name,
            project=spec.project,
            user=spec.user,
            type=spec.type.value,
            status=status,
            priority=spec.priority,
            preemptible=spec.preemptible,
            devices=record.devices * max(1, counts.running),
            pods=spec.pods * counts.size,
            pods_running=sum(row.pods_running for row in self.queued),
            submitted_s=record.submitted_at_s,
            first_started_s=self.first_started_s,
            started_s=self.first_started_s if counts.running else None,
            reason=explanation(reason) if reason is not None and not counts.running else None,
            array=counts,
        )


def new_array(record: WorkloadRecord) -> ArrayRecord:
    """Return an array that was just submitted."""
    assert record.array is not None, "it was submitted as an array"
    whole = read_indices(record.array.written)
    return ArrayRecord(record, whole, record.array.only or whole.indices, begun=False)


def array_view(record: ArrayRecord) -> ArrayView:
    """Return the view of a stored array."""
    view = ArrayView(record)
    if not record.begun:
        view.gates = {
            closed.gate: suspension_reason(ReasonCode(closed.gate.value), closed.reason, closed.until_s)
            for closed in closed_gates(record.record)
        }
    if record.record.suspended is not None:
        view.suspended = suspension_reason(ReasonCode.SUSPENDED, record.record.suspended)
    if record.record.withdrawn_s is not None:
        view.stopped = ""
    return view


class ArrayViews:
    """Makes the rows of the arrays of a pool."""

    def __init__(self) -> None:
        self.by_uid: dict[int, ArrayView] = {}
        self._names: dict[str, int] = {}

    def add(self, record: ArrayRecord) -> ArrayView:
        """Add an array; a known one stays."""
        view = self.by_uid.setdefault(record.uid, array_view(record))
        self._names[view.name] = record.uid
        return view

    def remove(self, view: ArrayView) -> None:
        """Remove an array that is over."""
        if self._names.get(view.name) == view.record.uid:
            del self._names[view.name]
        self.by_uid.pop(view.record.uid, None)

    def named(self, name: str) -> ArrayView | None:
        """Return the array of a name; None if there is none."""
        uid = self._names.get(name)
        return None if uid is None else self.by_uid.get(uid)

    def row(self, name: str) -> WorkloadRow | None:
        """Return the row of the array of a name; None if there is none."""
        view = self.named(name)
        return None if view is None else view.row()

    def row_of(self, uid: int) -> WorkloadRow | None:
        """Return the row of the array with a number; None if there is none."""
        view = self.by_uid.get(uid)
        return None if view is None else view.row()

    def rows(self) -> list[WorkloadRow]:
        """Return the rows of all arrays."""
        return [view.row() for view in list(self.by_uid.values())]

    def not_begun(self) -> list[WorkloadRecord]:
        """Return the arrays of which nothing was queued yet: their conditions may not be met."""
        return [view.record.record for view in list(self.by_uid.values()) if not view.record.begun]

    def waiting_index(self, name: str) -> str:
        """Return the name of the first queued index of an array that is pending; an empty text if none is."""
        view = self.named(name)
        queued = [] if view is None else view.queued
        return next((row.name for row in queued if row.status == "pending"), "")

    def not_queued(self) -> Counter[str]:
        """Return the number of indices that weren't queued yet, by project."""
        counts: Counter[str] = Counter()
        for view in list(self.by_uid.values()):
            counts[view.record.record.workload.project] += max(0, view.not_queued)
        return counts

    def begin(self, rows: Iterable[WorkloadRow]) -> None:
        """Note the indices that a new control knows, and forget those that ended meanwhile."""
        live_rows = {row.uid: row for row in rows if row.index is not None}
        latest = max(live_rows, default=0)
        for view in list(self.by_uid.values()):
            for uid in [uid for uid in list(view.live) if uid not in live_rows and uid <= latest]:
                view.live.pop(uid, None)
        self.note(live_rows.values())

    def note(self, rows: Iterable[WorkloadRow]) -> set[int]:
        """Note the status of indices; return the numbers of their arrays."""
        changed = set()
        for row in rows:
            view = None if row.array_uid is None else self.by_uid.get(row.array_uid)
            if view is None or row.index is None:
                continue
            changed.add(view.record.uid)
            if row.first_started_s is not None:
                earlier_s = view.first_started_s
                view.first_started_s = min(row.first_started_s, earlier_s or row.first_started_s)
            if row.status in OVER:
                view.live.pop(row.uid, None)
            else:
                view.live[row.uid] = row
        return changed

    def shown(self, rows: Iterable[WorkloadRow]) -> list[WorkloadRow]:
        """Return the rows that lists show for these: an array in place of its indices."""
        shown: dict[int, WorkloadRow] = {}
        for row in rows:
            if row.index is None:
                shown[row.uid] = row
            elif row.array_uid is not None and row.array_uid not in shown:
                array = self.row_of(row.array_uid)
                if array is not None:
                    shown[array.uid] = array
        return list(shown.values())

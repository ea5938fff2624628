"""Feed of arrays: a thread that queues the indices of arrays, few at a time, and ends arrays.

An array of any size has at most PENDING_MAX pending indices in the engine, so that decisions take no longer.
The next ones follow as these start. All changes of an array pass through this thread.
"""

import threading
from collections.abc import Callable
from dataclasses import replace

from structlog import get_logger

from weir.api.workload_list import ArrayCounts, Explanation, WorkloadRow
from weir.control.port import CancelRequested, GateChanged, LifecycleRule
from weir.local.server.state.pool_state import PoolState
from weir.local.server.views.array_view import ArrayFact, ArrayView
from weir.model.reasons import ReasonCode, suspension_reason
from weir.model.resources import end_clause, span
from weir.state.events import WorkloadChanged, WorkloadOutcome
from weir.store.errors import NoSuchWorkload, WorkloadOver
from weir.store.workloads.arrays import ArrayEnd

PENDING_MAX = 64
"""Pending indices of one array in the engine; a step may start all of them."""
BETWEEN_S = 0.05
"""Time between two turns: all ends within it are processed in one turn."""
AGAIN_S = 1.0
"""Time after which a turn that failed is repeated."""
_LOG = get_logger(__name__)


class ArrayFeed:
    """Queues the next indices of arrays, in a thread. Any thread may call `wake`."""

    def __init__(self, pool: PoolState, on_control: Callable[[WorkloadRow], None]) -> None:
        """Create the thread; `on_control` passes the row of an array that ended to the control thread."""
        self._pool = pool
        self._on_control = on_control
        self._dirty: set[int] = set()
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._failure: str | None = None
        self._thread = threading.Thread(target=self._run, name="weir-arrays", daemon=True)

    def start(self) -> None:
        """Begin to queue indices."""
        self._thread.start()

    def close(self) -> None:
        """End the thread after its present array."""
        self._closing.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def trouble(self) -> str | None:
        """Return why arrays make no progress; None if they do."""
        return self._failure if self._thread.is_alive() else "The thread of the arrays has ended."

    def begin(self) -> None:
        """Process the stored arrays. Called on the control thread when control connects."""
        for record in self._pool.store.arrays.live():
            view = self._pool.view.arrays.add(record)
            view.first_started_s = self._pool.store.arrays.first_started_s(record.uid)
            self.wake(record.uid)

    def wake(self, uid: int) -> None:
        """Check an array soon."""
        self._dirty.add(uid)
        self._woken.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._woken.wait()
            self._woken.clear()
            self._failure = None
            for _ in range(len(self._dirty)):
                uid = self._dirty.pop()
                view = self._pool.view.arrays.by_uid.get(uid)
                if view is None or self._closing.is_set():
                    continue
                try:
                    self._turn(view)
                except Exception as error:  # noqa: BLE001 - it costs this turn, and no other array
                    self._failure = f"Array {view.name} doesn't go on: {error}"
                    _LOG.warning("array_turn_failed", array=view.name, why=str(error))
                    self.wake(uid)
            self._closing.wait(AGAIN_S if self._failure else BETWEEN_S)

    def _turn(self, view: ArrayView) -> None:
        """Pass facts on, queue indices, and end the array if nothing is left."""
        uid, stored = view.record.uid, self._pool.store.arrays
        while view.facts:
            self._take(view, view.facts[0])
            view.facts.popleft()
        record = stored.get(uid)
        if record is not None:
            view.record = record
        view.stored = stored.counts(uid)
        if view.stopped is None and view.suspended is None and not view.gates:
            self._queue(view)
        live = view.stored.get("live", 0)
        if live or (view.not_queued and view.stopped is None):
            row = self._pool.view.with_reason(view.row())
            self._pool.stream.send([("workload", row, None)])
        else:
            self._end(view)

    def _queue(self, view: ArrayView) -> None:
        number = self._number_to_queue(view)
        if number <= 0:
            return
        pool = self._pool
        records = pool.store.arrays.queue(view.record.uid, number, pool.clock())
        for record in records:
            row = pool.view.add(record)
            pool.view.arrays.note([row])
            pool.backend.submitted(record)
        view.record = replace(view.record, begun=True)
        view.stored = {**view.stored, "live": view.stored.get("live", 0) + len(records)}

    def _number_to_queue(self, view: ArrayView) -> int:
        """Return the number of indices to queue now."""
        pending = sum(row.status == "pending" for row in view.queued)
        number = min(PENDING_MAX - pending, view.not_queued)
        at_once = view.record.whole.at_once
        return number if at_once is None else min(number, at_once - view.stored.get("live", 0))

    def _take(self, view: ArrayView, fact: ArrayFact) -> None:
        """Apply a fact about the array, and pass it on to its queued indices."""
        queued = [row.name for row in view.queued]
        if isinstance(fact, WorkloadChanged):
            for name in queued:
                self._set_priority(name, fact)
            return
        if isinstance(fact, GateChanged):
            if fact.gated:
                code = ReasonCode(fact.gate.value)
                view.gates[fact.gate] = suspension_reason(code, fact.reason, fact.until_s)
            else:
                view.gates.pop(fact.gate, None)
            return
        if isinstance(fact, CancelRequested):
            if fact.rule is LifecycleRule.DEPENDENCY:
                self._pool.store.workloads.cancel(view.name, fact.at_s).result()
            view.stopped = fact.sentence or (f"It was stopped by {fact.by}." if fact.by else "")
        elif fact.suspended:
            view.suspended = suspension_reason(ReasonCode.SUSPENDED, fact.reason)
        else:
            view.suspended = None
        for name in queued:
            self._pool.backend.tell(replace(fact, workload=name))

    def _set_priority(self, name: str, fact: WorkloadChanged) -> None:
        try:
            record = self._pool.store.workloads.set_priority(name, fact.workload.priority).result()
        except (NoSuchWorkload, WorkloadOver):
            return  # the index has ended meanwhile
        self._pool.backend.changed(record, fact.at_s)

    def _end(self, view: ArrayView) -> None:
        """Write down that the array is over."""
        pool, record = self._pool, view.record.record
        counts = view.counts()
        counts = counts.model_copy(update={"stopped": counts.stopped + counts.pending, "pending": 0})
        how, at_s = outcome(counts, stopped=view.stopped is not None), pool.clock()
        first_s = view.first_started_s
        ran_s = 0.0 if first_s is None else max(0.0, at_s - first_s)
        sentence = f"{self._end_clause(view, how, at_s)}: {_indices(how, counts)}."
        if how is WorkloadOutcome.STOPPED and view.stopped:
            sentence = f"{sentence} {view.stopped}"
        end = ArrayEnd(how, at_s, sentence, counts, ran_s)
        pool.store.arrays.end(view.record.uid, end)
        row = view.row().model_copy(
            update={
                "status": how.value,
                "ended_s": at_s,
                "array": counts,
                "devices": record.devices,
                "ran_s": ran_s,
                "ran_before_s": ran_s,
                "reason": Explanation(why=how.value, sentence=sentence),
            }
        )
        pool.view.add_ended(row)
        pool.view.arrays.remove(view)
        pool.stream.send([("workload", row, None)])
        self._on_control(row)

    def _end_clause(self, view: ArrayView, how: WorkloadOutcome, at_s: float) -> str:
        """Return how an array ended, with its time since the submission and the run time of all indices."""
        total_s = at_s - view.record.record.submitted_at_s
        if view.first_started_s is None:
            return end_clause(view.name, how.value, total_s, None)
        runs = span(self._pool.store.arrays.index_runs_s(view.record.uid))
        return f"{view.name} {how.value} after {span(total_s)}, in which its indices ran for {runs} in all"


def outcome(counts: ArrayCounts, *, stopped: bool) -> WorkloadOutcome:
    """Return the outcome of an array by the outcomes of its indices."""
    if counts.succeeded == counts.size:
        return WorkloadOutcome.SUCCEEDED
    if counts.failed and not stopped:
        return WorkloadOutcome.FAILED
    return WorkloadOutcome.STOPPED


def _indices(how: WorkloadOutcome, counts: ArrayCounts) -> str:
    """Return the indices of an ended array by their end."""
    return f"all {counts.size:,} indices" if how is WorkloadOutcome.SUCCEEDED else counts.sentence

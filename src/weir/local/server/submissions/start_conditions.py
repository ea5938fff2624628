"""Conditions for the first start of a workload: a wall-clock time, and the outcome of other workloads.

A submission names other workloads; their numbers are stored, so a later workload of the same name means
nothing. The backend closes the gates of a workload (`weir.control.start_gates`), and this module opens them.
A workload whose condition can't be met any more is stopped.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from weir.api.answers import Status, WorkloadRow
from weir.api.submissions import Submission
from weir.control.clock import Clock
from weir.control.journal import (
    NO_CONDITIONS,
    Dependency,
    DependencyCondition,
    StartConditions,
    WorkloadRecord,
)
from weir.control.port import CancelRequested, Gate, GateChanged, LifecycleRule
from weir.control.start_gates import begin_gate, closed_gates, dependency_gate, is_met, never_met
from weir.local.server.http.problem_details import FieldErrors
from weir.local.server.state.pool_state import PoolState
from weir.local.server.state.workload_lookup import find_workload, live_name
from weir.model.reasons import Reason, ReasonCode, suspension_reason
from weir.state.events import WorkloadOutcome

DEPENDENCIES_MAX = 64
"""Workloads that one may depend on."""
_CONDITIONS = {
    "after": DependencyCondition.STARTED,
    "after_ok": DependencyCondition.SUCCEEDED,
    "after_not_ok": DependencyCondition.FAILED,
    "after_any": DependencyCondition.ENDED,
}
_ENDS: frozenset[Status] = frozenset(("succeeded", "failed", "stopped"))


def _is_met(condition: DependencyCondition, row: WorkloadRow) -> bool | None:
    return is_met(condition, has_started=row.first_started_s is not None, outcome=_outcome_of(row))


def _outcome_of(row: WorkloadRow) -> WorkloadOutcome | None:
    return WorkloadOutcome(row.status) if row.status in _ENDS else None


async def start_conditions(
    submission: Submission, pool: PoolState, batch: Collection[str] = ()
) -> StartConditions:
    """Return the conditions of a submission that aren't met yet.

    `batch` are the names of workloads that are submitted with it: dependencies on them have no number yet.

    Raises:
        RequestRefused: a workload doesn't exist, or a condition can't be met.
    """
    names = {key: list(getattr(submission, key)) for key in _CONDITIONS}
    if not any(names.values()):
        begin = submission.begin
        return NO_CONDITIONS if begin is None else StartConditions(begin)
    fields = FieldErrors("The submission")
    total = sum(len(listed) for listed in names.values())
    if total > DEPENDENCIES_MAX:
        key = next(key for key, listed in names.items() if listed)
        text = f"{key}: {total} workloads are named; name at most {DEPENDENCIES_MAX}"
        fields.add((key,), text)
        fields.refuse_if_any()
    dependencies: dict[Dependency, None] = {}
    for key, condition in _CONDITIONS.items():
        for index, name in enumerate(names[key]):
            if name in batch:
                dependencies[Dependency(name, 0, condition)] = None
                continue
            dependency = await _dependency(name, condition, pool, fields, (key, index))
            if dependency is not None:
                dependencies[dependency] = None
    fields.refuse_if_any()
    return StartConditions(submission.begin, tuple(dependencies))


async def _dependency(
    name: str, condition: DependencyCondition, pool: PoolState, fields: FieldErrors, path: tuple[str, int]
) -> Dependency | None:
    """Return the dependency, or None if it is met. Record an error if it can't be met."""
    row = pool.view.row(live_name(pool.view, name))
    if row is None:
        stored = await asyncio.to_thread(find_workload, pool.store, name)
        if stored is None:
            text = f"{path[0]}: there is no workload {name}; `weir list -A` shows which there are"
            fields.add(path, text)
            return None
        row = stored.row
    met = _is_met(condition, row)
    if met is False:
        text = f"{path[0]}: {row.name} {_outcome(row)} already, so this could never start; leave it out"
        fields.add(path, text)
    return Dependency(row.name, row.uid, condition) if met is None else None


def unmet_condition(record: WorkloadRecord, clock: Clock) -> Reason | None:
    """Return the reason for which a new workload may not start yet; None if it may."""
    begin_s = record.conditions.begin_wall_s
    for gate in closed_gates(record):
        if gate.gate is not Gate.BEGIN_TIME or (begin_s is not None and clock.from_wall(begin_s) > clock()):
            return suspension_reason(ReasonCode(gate.gate.value), gate.reason)
    return None


def _outcome(row: WorkloadRow) -> str:
    return "was stopped" if row.status == "stopped" else row.status


@dataclass(slots=True)
class _Waiting:
    """A workload with closed gates, and the condition of each."""

    name: str
    begin_wall_s: float | None
    dependencies: dict[Dependency, None] = field(default_factory=dict)


class StartGates:
    """Opens the gates of workloads. All but `add` belongs to the control thread."""

    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._new: deque[WorkloadRecord] = deque()
        self._released: deque[int] = deque()
        self._waiting: dict[int, _Waiting] = {}
        self._dependants: dict[int, set[int]] = {}  # waiting workloads by the number of the other workload

    def begin(self, records: Iterable[WorkloadRecord]) -> None:
        """Rebuild everything for a control that connects."""
        self._waiting.clear()
        self._dependants.clear()
        self._new.extendleft(record for record in records if record.conditions != NO_CONDITIONS)

    def add(self, record: WorkloadRecord) -> None:
        """Add a new workload that the backend knows already: the next turn opens its gates. Any thread."""
        if record.conditions != NO_CONDITIONS:
            self._new.append(record)

    def release(self, record: WorkloadRecord) -> list[GateChanged]:
        """Return facts that open all gates of a workload. From any thread."""
        self._released.append(record.launch.uid)
        name = record.workload.name
        return [GateChanged(name, False, gate=gate) for gate in (Gate.BEGIN_TIME, Gate.DEPENDENCY)]

    def turn(self, now_s: float) -> float | None:
        """Open the gates that are due; return the time of the next one, None without further gates."""
        while self._new:
            self._take(self._new.popleft())
        while self._released:
            self._waiting.pop(self._released.popleft(), None)
        next_s: float | None = None
        for waiting in self._waiting.values():
            if waiting.begin_wall_s is None:
                continue
            begin_s = self._pool.clock.from_wall(waiting.begin_wall_s)
            if begin_s <= now_s:
                waiting.begin_wall_s = None
                self._pool.tell(GateChanged(waiting.name, False, gate=Gate.BEGIN_TIME))
            else:
                next_s = begin_s if next_s is None else min(next_s, begin_s)
        return next_s

    def changed(self, rows: Iterable[WorkloadRow]) -> None:
        """Look at the workloads that depend on these."""
        for row in rows:
            for uid in tuple(self._dependants.get(row.uid, ())):
                self._look(uid, (row,))
            if row.ended_s is not None:
                self._dependants.pop(row.uid, None)
                self._waiting.pop(row.uid, None)

    def _take(self, record: WorkloadRecord) -> None:
        uid, conditions = record.launch.uid, record.conditions
        if uid in self._waiting or record.status.starts or self._pool.view.row_of(uid) is None:
            return
        waiting = _Waiting(record.workload.name, conditions.begin_wall_s)
        waiting.dependencies.update(dict.fromkeys(conditions.dependencies))
        self._waiting[uid] = waiting
        if conditions.begin_wall_s is not None:
            until_s = self._pool.clock.from_wall(conditions.begin_wall_s)
            self._pool.tell(begin_gate(waiting.name, conditions.begin_wall_s, until_s))
        for dependency in conditions.dependencies:
            self._dependants.setdefault(dependency.uid, set()).add(uid)
        self._look(uid, [row for dependency in conditions.dependencies if (row := self._row(dependency.uid))])

    def _row(self, uid: int) -> WorkloadRow | None:
        row = self._pool.view.row_of(uid)
        if row is not None:
            return row
        stored = self._pool.store.workloads.get(uid)
        return None if stored is None else stored.row

    def _look(self, uid: int, rows: Iterable[WorkloadRow]) -> None:
        """Drop the dependencies of a workload that these rows meet; stop it if one can't be met."""
        waiting = self._waiting.get(uid)
        if waiting is None or not waiting.dependencies:
            return
        by_uid, before = {row.uid: row for row in rows}, len(waiting.dependencies)
        for dependency in tuple(waiting.dependencies):
            row = by_uid.get(dependency.uid)
            met = None if row is None else _is_met(dependency.condition, row)
            if met is False and row is not None:
                outcome = _outcome_of(row)
                assert outcome is not None, "only an end decides it"
                self._stop(uid, dependency, row.name, outcome)
                return
            if met:
                del waiting.dependencies[dependency]
        if not waiting.dependencies:
            self._pool.tell(GateChanged(waiting.name, False, gate=Gate.DEPENDENCY))
        elif len(waiting.dependencies) < before:
            self._pool.tell(dependency_gate(waiting.name, tuple(waiting.dependencies)))

    def _stop(self, uid: int, dependency: Dependency, name: str, outcome: WorkloadOutcome) -> None:
        """Stop a workload whose dependency has this name and outcome, and all that can't start without it.

        A chain is stopped in one turn: none of it has started, so what becomes of each is known.
        """
        unmet = [(uid, dependency, name, outcome)]
        while unmet:
            uid, dependency, name, outcome = unmet.pop()
            stopped = self._waiting.pop(uid, None)
            if stopped is None:
                continue
            sentence = never_met(stopped.name, name, dependency.condition, outcome)
            now_s = self._pool.clock()
            self._pool.tell(
                CancelRequested(stopped.name, now_s, sentence=sentence, rule=LifecycleRule.DEPENDENCY)
            )
            unmet += [
                (dependant, dependency, stopped.name, WorkloadOutcome.STOPPED)
                for dependant in self._dependants.get(uid, ())
                if (waiting := self._waiting.get(dependant)) is not None
                for dependency in waiting.dependencies
                if dependency.uid == uid and _cannot_be_met_by_stopped(dependency.condition)
            ]


def _cannot_be_met_by_stopped(condition: DependencyCondition) -> bool:
    return is_met(condition, has_started=False, outcome=WorkloadOutcome.STOPPED) is False

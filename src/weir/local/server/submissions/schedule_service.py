"""Schedules of a pool: kept, and run when they are due. Belongs to the event loop.

A run that was missed, as the server was down or the clock was set forward, is caught up once. Several missed
runs give one workload. Times are those of the wall clock.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from structlog import get_logger

from weir.api.cron_times import (
    check_schedule,
    extra_run_name,
    last_time,
    next_time,
    read_cron,
    read_zone,
    run_name,
)
from weir.api.name_endings import random_ending
from weir.api.schedules import ScheduleAsked, ScheduleRow
from weir.api.submissions import Submission
from weir.control.journal import WorkloadRecord
from weir.local.server.access.absent_person import owner_of, present_person
from weir.local.server.access.account_mode import PoolAccounts
from weir.local.server.access.authorization import Action, Person, RoleLookup, may, require
from weir.local.server.http.problem_details import FieldErrors, RequestRefused, read_as
from weir.local.server.state.pool_state import PoolState
from weir.local.server.submissions.submitter import ReadSubmission, Submitter
from weir.store.errors import StoreFailed, StoreRefusal
from weir.store.workloads.new_rows import new_row
from weir.store.workloads.schedules import RUNS_MAX, ScheduleRecord

LOOKS_EVERY_S = 1.0
SCHEDULES_MAX = 1000
PER_PERSON_MAX = 100
"""Schedules of one person."""
LATE_S = 90.0
"""A run that begins later than this after its time is said to be late."""
BACK_S = 86_400.0
"""Times of runs that are farther ahead than this were set by a wrong clock."""
_NAME_LENGTH_KEPT = 42
"""Length of a schedule's name in the longer name of a run: with its time and a random ending, 63."""
_LOG = get_logger(__name__)


Stop = Callable[[str, Person], Awaitable[object]]


class Schedules:
    """Queues the runs of schedules at their times."""

    def __init__(
        self, pool: PoolState, submitter: Submitter, accounts: PoolAccounts, roles: RoleLookup, stop: Stop
    ) -> None:
        """Create them; `stop` ends a workload for a person."""
        self._stop_workload = stop
        self._pool = pool
        self._submitter = submitter
        self._accounts = accounts
        self._roles = roles
        self._lock = asyncio.Lock()
        self._records = {record.name: record for record in pool.store.schedules.all()}
        self._ahead_s: float | None = None  # of the wall clock, at the last look

    def rows(self, person: Person) -> list[ScheduleRow]:
        """Return the schedules of the projects that a person may see."""
        return [
            self._row(record) for record in self._records.values() if may(person, Action.VIEW, record.project)
        ]

    def row(self, name: str, person: Person) -> ScheduleRow:
        """Return a schedule.

        Raises:
            RequestRefused: there is none, or the person may not see it.
        """
        record = self._get(name)
        require(person, Action.VIEW, record.project)
        return self._row(record)

    async def set(
        self, name: str, asked: ScheduleAsked, raw: Mapping[str, Any], size: int, person: Person
    ) -> ScheduleRow:
        """Create or change a schedule.

        Raises:
            RequestRefused: it is invalid, or not allowed for this person.
        """
        fields = FieldErrors("The schedule")
        check_schedule(asked, fields)
        fields.refuse_if_any()
        async with self._lock:
            old = self._records.get(name)
            if old is not None:
                require(person, Action.CONTROL, old.project, owner=old.user)
            elif self._has_most(person):
                text = f"You have {PER_PERSON_MAX} schedules, the maximum for one person: remove one."
                raise RequestRefused(409, text)
            elif len(self._records) >= SCHEDULES_MAX:
                raise RequestRefused(409, f"The pool has {SCHEDULES_MAX} schedules, the maximum: remove one.")
            await self._submitter.check(asked.workload, size, person)
            record = ScheduleRecord(
                name,
                asked.workload.project,
                person.user,
                owner_of(person),
                read_cron(asked.cron),
                asked.zone,
                asked.concurrency,
                raw,
                asked.suspended,
                runs=() if old is None else old.runs,
            )
            return self._row(await self._keep(self._scheduled(record)))

    async def suspend(self, name: str, person: Person, *, suspended: bool) -> ScheduleRow:
        """Suspend a schedule, or resume it; runs in between aren't caught up.

        Raises:
            RequestRefused: there is none, or the person may not change it.
        """
        async with self._lock:
            record = self._get(name)
            require(person, Action.CONTROL, record.project, owner=record.user)
            if not suspended:
                _usable_zone(record)
            return self._row(await self._keep(self._scheduled(replace(record, suspended=suspended))))

    async def run(self, name: str, person: Person) -> ScheduleRow:
        """Queue a run now, with the rights of the schedule's person; its times stay.

        Raises:
            RequestRefused: there is no such schedule, the person may not change it, or an earlier run forbids
                another.
        """
        async with self._lock:
            record = self._get(name)
            require(person, Action.CONTROL, record.project, owner=record.user)
            active = self._active(record)
            if active and record.concurrency == "forbid":
                text = f"{active[0]} isn't over, and this schedule forbids two runs at a time."
                raise RequestRefused(409, text)
            now_s = self._wall_s()
            after = replace(record, last_wall_s=now_s, last=None, said="")
            await self._queue(record, after, extra_run_name(name, _usable_zone(record), now_s))
            return self._row(self._records[name])

    async def delete(self, name: str, person: Person) -> None:
        """Delete a schedule; its workloads stay.

        Raises:
            RequestRefused: there is none, or the person may not change it.
        """
        async with self._lock:
            record = self._get(name)
            require(person, Action.CONTROL, record.project, owner=record.user)
            await asyncio.wrap_future(self._pool.store.schedules.delete_soon(name))
            self._records.pop(name, None)

    async def watch(self) -> None:
        """Look every second, for ever."""
        while True:
            await asyncio.sleep(LOOKS_EVERY_S)
            try:
                await self.look()
            except Exception as error:  # noqa: BLE001 - one bad schedule may not end the others
                _LOG.warning("schedules_look_failed", kind=type(error).__name__, why=str(error))

    async def look(self) -> None:
        """Run the schedules that are due."""
        is_set_back, now_s = self._is_set_back(), self._wall_s()
        for name, record in list(self._records.items()):
            if record.suspended:
                continue
            try:
                async with self._lock:
                    if self._records.get(name) is record:
                        current = await self._corrected(record) if is_set_back else record
                        await self._look_at(current, now_s)
            except StoreFailed as error:
                _LOG.warning("schedules_wait", schedule=name, why=str(error))
                self._ahead_s = None  # times that couldn't be stored are corrected at the next look
            except Exception as error:  # noqa: BLE001 - one bad schedule may not end the others
                _LOG.warning("schedule_failed", schedule=name, kind=type(error).__name__, why=str(error))
                if self._records.get(name) is record:
                    self._records[name] = replace(record, said=f"It can't run: {error}"[:500])

    async def _look_at(self, record: ScheduleRecord, now_s: float) -> None:
        """Run one schedule if it is due."""
        if record.last_wall_s is not None and record.last_wall_s > now_s + BACK_S:
            # A clock that was ahead may have been corrected
            await self._keep(self._scheduled(replace(record, last_wall_s=None)))
        elif record.next_wall_s is not None and record.next_wall_s <= now_s:
            await self._run(record, now_s)

    def _is_set_back(self) -> bool:
        """Return True if the wall clock was set back since the last look; at the first look, too."""
        before_s, self._ahead_s = self._ahead_s, self._pool.clock.ahead_s
        return before_s is None or self._ahead_s < before_s

    async def _corrected(self, record: ScheduleRecord) -> ScheduleRecord:
        """Correct the next time of a schedule after the wall clock was set back.

        A schedule that was made or changed while the clock was ahead would not run before that time.
        """
        fresh = self._scheduled(record)
        if record.next_wall_s and fresh.next_wall_s and fresh.next_wall_s < record.next_wall_s:
            return await self._keep(fresh)
        return record

    async def _run(self, record: ScheduleRecord, now_s: float) -> None:
        """Queue the workload of the newest run that is due."""
        zone = read_zone(record.zone)
        at_s = last_time(record.cron, zone, now_s) or record.next_wall_s
        assert at_s is not None, "it is due"
        if record.next_wall_s is not None and at_s < record.next_wall_s:
            at_s = record.next_wall_s
        missed = next_time(record.cron, zone, record.next_wall_s or at_s)
        note = "Earlier runs were missed; this one stands for them." if (missed or now_s) < now_s else ""
        if not note and now_s - at_s > LATE_S:
            note = "It began late."
        after = replace(
            record, next_wall_s=next_time(record.cron, zone, now_s), last_wall_s=at_s, last=None, said=note
        )
        try:
            await self._queue(record, after, run_name(record.name, zone, at_s))
        except (RequestRefused, StoreRefusal) as refused:
            detail = refused.detail if isinstance(refused, RequestRefused) else str(refused)
            await self._keep(replace(after, said=f"Refused: {detail}"[:500]))
        except StoreFailed as error:
            # Retried at the next check
            _LOG.warning("schedule_not_run", schedule=record.name, why=str(error))

    async def _queue(self, record: ScheduleRecord, after: ScheduleRecord, name: str) -> None:
        pool = self._pool
        person = await present_person(
            record.owner, pool.store.tokens.all, self._accounts, self._roles, pool.clock.with_time_off()
        )
        active = self._active(record)
        if active and record.concurrency == "forbid":
            await self._keep(replace(after, said=f"Skipped: {active[0]} isn't over."))
            return
        text = json.dumps({**record.asked, "name": self._free_name(record, name)})
        read = partial(read_as, Submission, text, f"Schedule {record.name}", pool.priority_classes)
        submission = await asyncio.to_thread(read)
        if active and record.concurrency == "replace":
            for workload in active:
                await self._stop(workload, person)

        def write(
            records: Sequence[WorkloadRecord], asked: Sequence[Mapping[str, object]]
        ) -> "Future[list[WorkloadRecord]]":
            row = new_row(records[0], asked[0])
            return pool.store.schedules.run_soon(record, after, records[0], row)

        read_submission = ReadSubmission(submission, dict(record.asked), len(text))
        made, _ = await self._submitter.submit(read_submission, person, write)
        runs = (*after.runs, made.launch.uid)[-RUNS_MAX:]
        self._records[record.name] = replace(after, last=made.workload.name, runs=runs)

    def _free_name(self, record: ScheduleRecord, name: str) -> str:
        """Return the name of a run; a longer one if a workload that isn't a run of the schedule has it.

        Names of runs are easy to guess, and workloads of all projects share the names.
        """
        taken = self._pool.view.row(name)
        if taken is None or taken.uid in record.runs:
            return name
        return f"{record.name[:_NAME_LENGTH_KEPT]}{name.removeprefix(record.name)}-{random_ending()}"

    async def _stop(self, name: str, person: Person) -> None:
        """Stop an earlier run."""
        try:
            await self._stop_workload(name, person)
        except (RequestRefused, StoreRefusal):
            _LOG.info("earlier_run_not_stopped", workload=name)  # the run has ended by itself

    def _active(self, record: ScheduleRecord) -> list[str]:
        """Return the names of its workloads that aren't over."""
        rows = (self._pool.view.row_of(uid) for uid in record.runs)
        return [row.name for row in rows if row is not None and row.ended_s is None]

    def _scheduled(self, record: ScheduleRecord) -> ScheduleRecord:
        """Return a schedule with its next time from now on, after its last run."""
        if record.suspended:
            return replace(record, next_wall_s=None)
        now_s, last_s = self._wall_s(), record.last_wall_s
        after_s = last_s if last_s is not None and now_s < last_s <= now_s + BACK_S else now_s
        next_s = next_time(record.cron, read_zone(record.zone), after_s)
        return replace(record, next_wall_s=next_s)

    async def _keep(self, record: ScheduleRecord) -> ScheduleRecord:
        await asyncio.wrap_future(self._pool.store.schedules.set_soon(record))
        self._records[record.name] = record
        return record

    def _has_most(self, person: Person) -> bool:
        own_count = sum(record.user == person.user for record in self._records.values())
        return own_count >= PER_PERSON_MAX and not may(person, Action.EXCEED_LIMITS)

    def _get(self, name: str) -> ScheduleRecord:
        record = self._records.get(name)
        if record is None:
            text = f"There is no schedule {name[:80]}; `weir schedule list` shows which there are."
            raise RequestRefused(404, text)
        return record

    def _wall_s(self) -> float:
        return self._pool.clock.on_wall(self._pool.clock())

    def _row(self, record: ScheduleRecord) -> ScheduleRow:
        command = record.asked.get("command") or record.asked.get("run") or []
        return ScheduleRow.model_validate(
            {
                "name": record.name,
                "project": record.project,
                "user": record.user,
                "cron": record.cron,
                "zone": record.zone,
                "concurrency": record.concurrency,
                "suspended": record.suspended,
                "next_s": record.next_wall_s,
                "last_s": record.last_wall_s,
                "last": record.last,
                "said": record.said,
                "active": self._active(record),
                "command": [command] if isinstance(command, str) else list(command),
            }
        )


def _usable_zone(record: ScheduleRecord) -> ZoneInfo:
    """Return the time zone of a schedule.

    Raises:
        RequestRefused: the machine doesn't know it any more.
    """
    try:
        return read_zone(record.zone)
    except ValueError as error:
        raise RequestRefused(409, f"{record.name} can't run: {error}.") from None

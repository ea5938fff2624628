"""The store as everyone else sees it: one class over the modules of this package."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from sqlalchemy import update

from weir.api.answers import UsageReport
from weir.api.history import HistoryReport
from weir.api.workload_list import WorkloadRow
from weir.control.journal import Journal, WorkloadRecord
from weir.model.queues import Queue
from weir.store.arrays import ArrayTable
from weir.store.database import Database
from weir.store.errors import NotSuspended
from weir.store.event_history import EventHistory, filters
from weir.store.history_report import HistoryReports, Prices
from weir.store.journal import StoreJournal
from weir.store.memberships import MembershipTable
from weir.store.notification_outbox import NotificationOutbox
from weir.store.queues import QueueTable
from weir.store.records import (
    HistoryEvent,
    MembershipRecord,
    RecordPage,
    Retention,
    StoredWorkload,
    TokenRecord,
    TokenRole,
    UsagePoint,
    UsageSamples,
    WorkloadFilter,
)
from weir.store.samples import UsageTables, mark_probed
from weir.store.schedules import ScheduleTable
from weir.store.session_starts import SessionStarts
from weir.store.sweeps import SweepTable
from weir.store.tables import pool
from weir.store.templates import TemplateTable
from weir.store.tokens import TokenTable
from weir.store.trace_export import export_trace
from weir.store.usage import By, UsageReports
from weir.store.workloads import WorkloadTable

NOTHING_ASKED: Mapping[str, object] = {}


class Store:
    """The database of one pool, opened by one process at a time.

    Every method may be called from any thread. Changes of state return once they are durable, or a future
    for that (`_soon`); concurrent ones share a commit. A power cut may lose the last events and samples.

    Every method raises StoreFailed (an OSError) if the disk is full or broken: then nothing of it is kept.
    """

    journal: Journal
    """Journal of the local backend; see `weir.control.journal`."""
    outbox: NotificationOutbox
    """Rules of notifications, and what is to be sent."""

    def __init__(
        self, url: str | None, home: Path, *, retention: Retention | None = None, begin_again: bool = False
    ) -> None:
        """Open the database, bring its schema up to date, check that it is the home's, start the writer.

        `url` None: SQLite in `home`/weir.db. Otherwise an SQLAlchemy URL (`postgresql+psycopg://...`).
        `begin_again`: make one pool of a home and a database that don't belong together.
        """
        self._database = Database(url, home, begin_again=begin_again)
        retention = retention or Retention()
        self.outbox = NotificationOutbox(self._database)
        self._history = EventHistory(self._database, self.outbox)
        self.journal = StoreJournal(self._database, self._history)
        self._workloads = WorkloadTable(self._database)
        self.arrays = ArrayTable(self._database, self._history)
        self.schedules = ScheduleTable(self._database)
        self.session_starts = SessionStarts(self._database)
        self.templates = TemplateTable(self._database)
        self._queues = QueueTable(self._database)
        self._tokens = TokenTable(self._database)
        self._memberships = MembershipTable(self._database)
        self._uses = UsageTables(self._database, retention)
        self._usage = UsageReports(self._database, retention)
        self._reports = HistoryReports(self._database, retention, self._usage)
        self.sweeps = SweepTable(self._database)

    def close(self) -> None:
        """Write queued work, and close. Idempotent."""
        self._database.close()

    @property
    def pool_id(self) -> str:
        """Identity of the pool: the same in its home and its database."""
        return self._database.opened.id

    @property
    def has_leftovers(self) -> bool:
        """Return True if processes of workloads that this database doesn't know may still run."""
        return self._database.opened.has_leftovers

    def leftovers_ended(self) -> None:
        """Remember that no such process runs any more."""
        self._database.write(lambda connection: connection.execute(update(pool).values(has_leftovers=False)))

    @property
    def lost(self) -> str | None:
        """Return why the lock of the pool may be another server's; None if it is ours."""
        return self._database.lost

    @property
    def trouble(self) -> str | None:
        """Return why the last write failed; None if it didn't."""
        return self._database.trouble

    def probe(self) -> None:
        """Commit something that means nothing, to see that it can be. Raises StoreFailed."""
        self._database.write(mark_probed, durable=False).result()

    # Workloads

    def submit(self, record: WorkloadRecord, asked: Mapping[str, object] = NOTHING_ASKED) -> WorkloadRecord:
        """Queue a workload; return its record with its number, `launch.uid`.

        `asked` is the submission as received, for reruns; it must be JSON.

        Raises:
            NameTaken: a live workload has the name.
            NoSuchQueue: there is no such project.
        """
        return self.submit_soon(record, asked).result()

    def submit_soon(
        self, record: WorkloadRecord, asked: Mapping[str, object] = NOTHING_ASKED
    ) -> "Future[WorkloadRecord]":
        """Submit without waiting, as `submit`."""
        return self._workloads.submit(record, asked)

    def submit_all_soon(
        self, records: Sequence[WorkloadRecord], asked: Sequence[Mapping[str, object]]
    ) -> "Future[list[WorkloadRecord]]":
        """Submit all or none, as `submit`; a dependency without a number is on a record before it."""
        return self._workloads.submit_all(records, asked)

    def cancel(self, name: str, at_s: float) -> WorkloadRecord:
        """Cancel a workload for good; repeating it does no harm. Raises NoSuchWorkload, WorkloadOver."""
        return self.cancel_soon(name, at_s).result()

    def cancel_soon(self, name: str, at_s: float) -> "Future[WorkloadRecord]":
        """Cancel without waiting, as `cancel`."""
        return self._workloads.change(
            name, lambda record: {"withdrawn_s": at_s} if record.withdrawn_s is None else {}
        )

    def suspend(self, name: str, why: str) -> WorkloadRecord:
        """Suspend a workload. Raises NoSuchWorkload, WorkloadOver."""
        return self.suspend_soon(name, why).result()

    def suspend_soon(self, name: str, why: str) -> "Future[WorkloadRecord]":
        """Suspend without waiting, as `suspend`."""
        return self._workloads.change(name, lambda _: {"held": why})

    def set_priority_soon(self, name: str, priority: int) -> "Future[WorkloadRecord]":
        """Change the priority without waiting; the new record. Fails as `suspend` does."""
        return self._workloads.set_priority(name, priority)

    def resume(self, name: str) -> WorkloadRecord:
        """Resume a workload. Raises NoSuchWorkload, WorkloadOver, NotSuspended."""
        return self.resume_soon(name).result()

    def resume_soon(self, name: str) -> "Future[WorkloadRecord]":
        """Resume without waiting, as `resume`."""
        return self._workloads.change(name, _released)

    def drop_conditions_soon(self, name: str) -> "Future[WorkloadRecord]":
        """Remove the conditions of a first start without waiting.

        Raises NoSuchWorkload, WorkloadOver, NotSuspended (it has none, or has started).
        """
        return self._workloads.drop_conditions(name)

    def workload(self, name: str) -> StoredWorkload | None:
        """Return the newest workload of this name, over or not."""
        return self._workloads.newest(name)

    def workload_of(self, uid: int) -> StoredWorkload | None:
        """Return the workload with this number."""
        return self._workloads.of(uid)

    def ended_between(self, since_s: float, until_s: float) -> list[int]:
        """Return the numbers of the workloads that ended at `since_s` or later and before `until_s`."""
        return self._workloads.ended_between(since_s, until_s)

    def delete_launch_specs(self, before_s: float) -> list[int]:
        """Remove command, environment and submission of workloads that ended before; return their numbers."""
        self.sweeps.delete_launch_specs(before_s)
        return self._workloads.delete_launch_specs(before_s)

    def workloads(
        self,
        wanted: WorkloadFilter,
        *,
        live: Mapping[int, str] | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> RecordPage[WorkloadRow]:
        """Return a page of workloads, newest first (by uid, which is also the key of the next page).

        `live` has the status (starting, running, stopping) of workloads that aren't over, by uid; others
        are pending. `wanted.statuses` selects by it, and the lines show it.
        """
        return self._workloads.page(wanted, live or {}, after, limit)

    # The quota tree

    def queues(self) -> tuple[Queue, ...]:
        """Return the whole quota tree, parents before children, as `QueuesSet` takes it."""
        return self._queues.all()

    def set_queue(self, queue: Queue, member: MembershipRecord | None = None) -> tuple[Queue, ...]:
        """Make a department or project, or change it; the tree after it. Raises QueueUnsound, QueueInUse.

        `member`: a first membership of it; a pool that is killed has both or neither.
        """
        if member is None:
            return self._queues.set(queue)
        with self._tokens.changing:
            tree = self._queues.set(queue, member)
            self._memberships.read()
        return tree

    def delete_queue(self, name: str) -> tuple[Queue, ...]:
        """Take one out, and its name out of all tokens; the tree after it. Raises NoSuchQueue, QueueInUse."""
        with self._tokens.changing:
            tree = self._queues.delete(name)
            self._tokens.project_deleted(name)
            self._memberships.queue_deleted(name)
            self.outbox.rules.read()
        return tree

    # Access

    @property
    def memberships(self) -> tuple[MembershipRecord, ...]:
        """Return all memberships, from memory; each change makes a new tuple."""
        return self._memberships.all

    def set_membership(self, membership: MembershipRecord) -> None:
        """Create a membership, or change its role. Raises NoSuchQueue, QueueUnsound (too many)."""
        with self._tokens.changing:
            self._memberships.set(membership)

    def delete_membership(self, scope: str, kind: str, name: str) -> bool:
        """Delete a membership; return False if there was none."""
        with self._tokens.changing:
            return self._memberships.delete(scope, kind, name)

    def make_token(
        self,
        user: str,
        role: TokenRole,
        projects: Sequence[str] = (),
        *,
        text: str | None = None,
        label: str = "",
        expires_s: float | None = None,
        now_s: float | None = None,
    ) -> tuple[TokenRecord, str]:
        """Make a token and return it with its text. The text is shown only now: the store keeps its SHA-256.

        `text`: use this one (of 20 characters at least). Making the same one again changes its row.
        Raises NoSuchQueue (a project isn't there).
        """
        return self._tokens.make(user, role, projects, text, label, expires_s, now_s)

    def rotate_token(self, id_: int, expires_s: float | None, now_s: float) -> tuple[TokenRecord, str]:
        """Another text for a token; the old one is worth nothing from now on. Raises NoSuchToken."""
        return self._tokens.rotate(id_, expires_s, now_s)

    def token(self, text: str) -> TokenRecord | None:
        """Return the token with this text, expired or not, from memory."""
        return self._tokens.of(text)

    def token_with(self, hashed: str) -> TokenRecord | None:
        """Return the token whose text has this hash, expired or not, from memory."""
        return self._tokens.with_hash(hashed)

    def token_used(self, id_: int, at_s: float) -> None:
        """Record that a token is used; `write_token_uses` writes it, at most once a minute for each token."""
        self._tokens.used(id_, at_s)

    def write_token_uses(self) -> None:
        """Write down soon when tokens were last used."""
        self._tokens.write_uses()

    def tokens(self) -> tuple[TokenRecord, ...]:
        """Return all tokens, by number."""
        return self._tokens.all()

    def delete_token(self, id_: int) -> None:
        """Revoke a token. Raises NoSuchToken."""
        self._tokens.delete(id_)

    # The history

    def record(self, happenings: Sequence[HistoryEvent]) -> None:
        """Write events down soon.

        Not the ends of workloads: the journal records those (kind "ended", with `numbers["how"]`) in the
        transaction that ends them, once for each. Where an event is a workload's, give its `uid` too.
        """
        self._history.record(happenings)

    def listen(self, hear: Callable[[Sequence[HistoryEvent]], None]) -> Callable[[], None]:
        """Call this with new events as soon as they are stored, in the order of their numbers, ends too.

        `hear` is called on the writer's thread and must be quick; the answer stops it.
        """
        return self._history.listen(hear)

    def events(
        self,
        *,
        workload: str | None = None,
        uid: int | None = None,
        project: str | None = None,
        projects: Mapping[str, float] | None = None,
        kind: str | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> RecordPage[HistoryEvent]:
        """Return a page of events, newest first; `after` is the number of the last one seen.

        `projects`: only those of these projects, each from the moment on at which it was made.
        """
        where = filters(workload=workload, uid=uid, project=project, projects=projects, kind=kind)
        return self._history.page(where, after, limit)

    # Use

    def sample(self, samples: UsageSamples) -> None:
        """Add the usage of `UsageMeter.take` to the sums of its minutes, hours and days; written soon."""
        self._uses.add(samples)

    def sampled_s(self) -> float | None:
        """Return the time up to which usage is stored, for `UsageMeter.watch`; None if nothing is stored."""
        return self._uses.sampled_s()

    def usage(self, since_s: float, until_s: float, by: By, *, now_s: float | None = None) -> UsageReport:
        """Return sums by key.

        If minutes or hours aren't kept any more, the span is widened to the next sums; the report states it.
        """
        return self._usage.report(since_s, until_s, time.time() if now_s is None else now_s, by)

    def history(
        self, since_s: float, until_s: float, by: By, *, now_s: float, prices: Prices | None = None
    ) -> HistoryReport:
        """Return the figures of a period for planning: usage, waits, time to quota, evictions and cost."""
        return self._reports.report(since_s, until_s, now_s, by, prices or Prices())

    def trace(
        self, since_s: float, until_s: float, *, projects: Mapping[str, float], models: Collection[str]
    ) -> str:
        """Return the ended workloads of a period as a trace for `weir simulate`, in CSV."""
        return export_trace(self._database, since_s, until_s, projects=projects, models=models)

    def chart(
        self,
        since_s: float,
        until_s: float,
        *,
        points: int = 240,
        project: str | None = None,
        uid: int | None = None,
        device: tuple[str, int] | None = None,
        now_s: float | None = None,
    ) -> Sequence[UsagePoint]:
        """Return at most this many points of a project, workload, device (node, index), or of the pool."""
        return self._usage.chart(
            since_s,
            until_s,
            time.time() if now_s is None else now_s,
            points=points,
            project=project,
            uid=uid,
            device=device,
        )

    def tidy(self, now_s: float) -> int:
        """Delete what is older than the retention period, in small steps; return the number of rows."""
        return self._uses.tidy(now_s) + self.outbox.tidy(now_s)


def _released(record: WorkloadRecord) -> dict[str, None]:
    if record.suspended is None:
        raise NotSuspended(f"{record.workload.name} isn't suspended: there is nothing to resume.")
    return {"held": None}

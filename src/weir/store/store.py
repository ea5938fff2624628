"""The store for the other packages: its tables, and the changes that concern several tables."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from sqlalchemy import update

from weir.control.journal import Journal
from weir.model.queues import Queue
from weir.store.database.database import Database
from weir.store.history.events import EventHistory
from weir.store.history.session_starts import SessionStarts
from weir.store.history.trace_export import export_trace
from weir.store.notifications.outbox import NotificationOutbox
from weir.store.projects.memberships import MembershipTable
from weir.store.projects.queues import QueueTable
from weir.store.projects.templates import TemplateTable
from weir.store.projects.tokens import TokenTable
from weir.store.records import MembershipRecord, Retention
from weir.store.reports.period import HistoryReports
from weir.store.reports.usage import UsageReports
from weir.store.tables import pool
from weir.store.usage.samples import UsageTables, mark_probed
from weir.store.workloads.arrays import ArrayTable
from weir.store.workloads.journal import StoreJournal
from weir.store.workloads.schedules import ScheduleTable
from weir.store.workloads.sweeps import SweepTable
from weir.store.workloads.table import WorkloadTable


class Store:
    """The database of one pool, opened by one process at a time.

    Every method, of its tables too, may be called from any thread. Changes of state return once they are
    durable, or a future for that; concurrent ones share a commit. A power cut may lose the last events and
    samples.

    Every method raises StoreFailed (an OSError) if the disk is full or broken: then nothing of it is kept.
    """

    journal: Journal
    """Journal of the local backend; see `weir.control.journal`."""
    outbox: NotificationOutbox
    """Rules of notifications, and messages to send."""

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
        self.events = EventHistory(self._database, self.outbox)
        self.journal = StoreJournal(self._database, self.events)
        self.workloads = WorkloadTable(self._database)
        self.arrays = ArrayTable(self._database, self.events)
        self.schedules = ScheduleTable(self._database)
        self.session_starts = SessionStarts(self._database)
        self.templates = TemplateTable(self._database)
        self._queues = QueueTable(self._database)
        self.tokens = TokenTable(self._database)
        self._memberships = MembershipTable(self._database)
        self.samples = UsageTables(self._database, retention)
        self.usage = UsageReports(self._database, retention)
        self.reports = HistoryReports(self._database, retention, self.usage)
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
        """Return why another server may hold the lock of the pool; None if this one does."""
        return self._database.lost

    @property
    def trouble(self) -> str | None:
        """Return why the last write failed; None if it didn't."""
        return self._database.trouble

    def probe(self) -> None:
        """Commit a row without meaning, to check that commits work. Raises StoreFailed."""
        self._database.write(mark_probed, durable=False).result()

    def delete_launch_specs(self, before_s: float) -> list[int]:
        """Remove command, environment and submission of workloads that ended before; return their numbers."""
        self.sweeps.delete_launch_specs(before_s)
        return self.workloads.delete_launch_specs(before_s)

    # The quota tree

    def queues(self) -> tuple[Queue, ...]:
        """Return the whole quota tree, parents before children, as `QueuesSet` takes it."""
        return self._queues.all()

    def set_queue(
        self, queue: Queue, member: MembershipRecord | None = None, followed: Sequence[Queue] = ()
    ) -> tuple[Queue, ...]:
        """Make a department or project, or change it; the tree after it. Raises QueueUnsound, QueueInUse.

        `member`: a first membership of it. `followed`: departments whose quotas follow the change.
        A pool that is killed has all or nothing.
        """
        if member is None:
            return self._queues.set(queue, followed=followed)
        with self.tokens.changing:
            tree = self._queues.set(queue, member, followed)
            self._memberships.read()
        return tree

    def delete_queue(self, name: str, followed: Sequence[Queue] = ()) -> tuple[Queue, ...]:
        """Take one out, and its name out of all tokens; the tree after it. Raises NoSuchQueue, QueueInUse.

        `followed`: departments whose quotas follow the change.
        """
        with self.tokens.changing:
            tree = self._queues.delete(name, followed)
            self.tokens.project_deleted(name)
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
        with self.tokens.changing:
            self._memberships.set(membership)

    def delete_membership(self, scope: str, kind: str, name: str) -> bool:
        """Delete a membership; return False if there was none."""
        with self.tokens.changing:
            return self._memberships.delete(scope, kind, name)

    # The history

    def trace(
        self, since_s: float, until_s: float, *, projects: Mapping[str, float], models: Collection[str]
    ) -> str:
        """Return the ended workloads of a period as a trace for `weir simulate`, in CSV."""
        return export_trace(self._database, since_s, until_s, projects=projects, models=models)

    def tidy(self, now_s: float) -> int:
        """Delete rows older than the retention period, in small steps; return their number."""
        return self.samples.tidy(now_s) + self.outbox.tidy(now_s)

"""The store as everyone else sees it: one class over the rooms' own modules."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Literal

from weir.backends.local.journal import Journal, Kept
from weir.model.pool import UsageReport
from weir.model.queues import Queue
from weir.store.rows import (
    Happening,
    Listed,
    Page,
    Point,
    Recollected,
    Recorded,
    Retention,
    Samples,
    Submitted,
    TokenRow,
    Wanted,
)

By = Literal["project", "department", "user", "type", "node"]


class Store:
    """The database of one pool, opened by one process at a time.

    Every method may be called from any thread. Methods that change state (workloads, queues, tokens, the
    journal) return once it is durable; what many threads ask for at once shares one commit. Those that end
    in `_soon` return a future for it instead (`asyncio.wrap_future` awaits it). Events and samples are
    written soon and without waiting for the disk: a power cut may lose the last of them, never more.

    Raises, from every method: StoreFailed (an OSError) when the disk is full or broken, in which case
    nothing of the call is kept; and the Refusal named at the method.
    """

    journal: Journal
    """What the local backend writes down; see `weir.backends.local.journal`."""

    def __init__(self, url: str | None, home: Path, *, retention: Retention | None = None) -> None:
        """Open the database, bring its schema up to date, start the writer.

        `url` None: SQLite in `home`/weir.db. Otherwise an SQLAlchemy URL (`postgresql+psycopg://...`).
        """
        raise NotImplementedError

    def close(self) -> None:
        """Write what is queued, and close. Idempotent."""
        raise NotImplementedError

    # Workloads

    def submit(self, asked: Submitted) -> Kept:
        """Queue a workload: `kept.launch.uid` is its number. Raises NameTaken, NoSuchQueue (its project)."""
        raise NotImplementedError

    def submit_soon(self, asked: Submitted) -> "Future[Kept]":
        """As `submit`."""
        raise NotImplementedError

    def withdraw(self, name: str, at_s: float) -> Kept:
        """A person wants it stopped for good. Raises NoSuchWorkload, WorkloadOver. A second time changes nothing."""
        raise NotImplementedError

    def withdraw_soon(self, name: str, at_s: float) -> "Future[Kept]":
        """As `withdraw`."""
        raise NotImplementedError

    def hold(self, name: str, why: str) -> Kept:
        """A person suspends it. Raises NoSuchWorkload, WorkloadOver."""
        raise NotImplementedError

    def hold_soon(self, name: str, why: str) -> "Future[Kept]":
        """As `hold`."""
        raise NotImplementedError

    def release(self, name: str) -> Kept:
        """A person lets it go on. Raises NoSuchWorkload, WorkloadOver."""
        raise NotImplementedError

    def release_soon(self, name: str) -> "Future[Kept]":
        """As `release`."""
        raise NotImplementedError

    def workload(self, name: str) -> Recorded | None:
        """The newest workload of this name, over or not."""
        raise NotImplementedError

    def workload_of(self, uid: int) -> Recorded | None:
        """The workload with this number."""
        raise NotImplementedError

    def workloads(
        self,
        wanted: Wanted,
        *,
        live: Mapping[int, str] | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> Page[Listed]:
        """A page of workloads, newest first (by uid, which is also the key of the next page).

        `live` says the status (starting, running, stopping) of those that aren't over, by uid; what it
        doesn't name is pending. It is what `wanted.statuses` is asked of, and stands in the lines.
        """
        raise NotImplementedError

    # The quota tree

    def queues(self) -> tuple[Queue, ...]:
        """All of it, parents before children: what `QueuesSet` takes."""
        raise NotImplementedError

    def set_queue(self, queue: Queue) -> tuple[Queue, ...]:
        """Make a department or project, or change it; the tree after it. Raises QueueUnsound, QueueInUse."""
        raise NotImplementedError

    def delete_queue(self, name: str) -> tuple[Queue, ...]:
        """Take one out; the tree after it. Raises NoSuchQueue, QueueInUse."""
        raise NotImplementedError

    # Tokens

    def make_token(
        self,
        user: str,
        role: Literal["admin", "member"],
        projects: Sequence[str] = (),
        *,
        text: str | None = None,
    ) -> tuple[TokenRow, str]:
        """A new token and its text, which is shown this once: the store keeps only its SHA-256.

        `text`: use this one (of 20 characters at least). Making the same one again changes its row.
        """
        raise NotImplementedError

    def token(self, text: str) -> TokenRow | None:
        """Who asks with this text; answered from memory."""
        raise NotImplementedError

    def tokens(self) -> tuple[TokenRow, ...]:
        """All tokens, by number."""
        raise NotImplementedError

    def delete_token(self, id_: int) -> None:
        """A token is no longer good. Raises NoSuchToken."""
        raise NotImplementedError

    # The history

    def record(self, happenings: Sequence[Happening]) -> None:
        """Write events down soon. Not the ends of workloads: the journal records those (kind "ended", with
        `numbers["how"]`) in the transaction that ends them, once for each.
        """
        raise NotImplementedError

    def listen(self, hear: Callable[[Sequence[Recollected]], None]) -> Callable[[], None]:
        """Be told of events the moment they are in the history, in the order of their numbers, ends too.

        `hear` is called on the writer's thread and must be quick; the answer stops it.
        """
        raise NotImplementedError

    def events(
        self,
        *,
        workload: str | None = None,
        uid: int | None = None,
        project: str | None = None,
        projects: Sequence[str] | None = None,
        kind: str | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> Page[Recollected]:
        """A page of events, newest first; `after` is the number of the last one seen."""
        raise NotImplementedError

    def events_since(self, id_: int, limit: int = 1000) -> Sequence[Recollected]:
        """Those with a higher number, oldest first: what a stream that was broken off has missed."""
        raise NotImplementedError

    # Use

    def sample(self, samples: Samples) -> None:
        """Add a minute (`Meter.take`) to the sums of its minute, hour and day."""
        raise NotImplementedError

    def usage(self, since_s: float, until_s: float, by: By) -> UsageReport:
        """Sums by key. Where minutes or hours aren't kept any more, the span is widened to what is; the
        report says to what.
        """
        raise NotImplementedError

    def chart(
        self,
        since_s: float,
        until_s: float,
        *,
        points: int = 240,
        project: str | None = None,
        uid: int | None = None,
        device: tuple[str, int] | None = None,
    ) -> Sequence[Point]:
        """At most so many points of a project, a workload, a device (node, index) or, with none, the pool."""
        raise NotImplementedError

    def tidy(self, now_s: float) -> int:
        """Forget what is older than the retention says, in small steps; how many rows. Call it every hour."""
        raise NotImplementedError

"""History of one replica: its memory for the database, its writer while it leads, and its reader."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as TookTooLong
from functools import partial
from typing import Any

from weir.api.answers import QueueRow
from weir.kubernetes.api.changes import Change, ObjectSet
from weir.kubernetes.history.options import HistoryOptions
from weir.kubernetes.history.stored_answers import StoredAnswers
from weir.kubernetes.history.unstored import UnstoredChanges
from weir.kubernetes.history.writer import HistoryWriter, SessionsSeen
from weir.kubernetes.query.usage.past_workloads import UsageHistoryEntry
from weir.kubernetes.query.usage.recent_series import RecentSeries
from weir.kubernetes.query.usage.recent_usage import RecentUsage
from weir.kubernetes.query.workloads.event_index import EventIndex
from weir.kubernetes.query.workloads.index import WorkloadIndex, WorkloadIndexEntry

FIRST_NAMESPACE = "kube-system"
"""Namespace whose uid is the identity of a cluster."""
LOOP_S = 30.0
"""Time within which the event loop copies the recent past for the writer."""


class HistoryService:
    """The history of one replica. All calls are on the event loop."""

    def __init__(
        self,
        options: HistoryOptions,
        workloads: WorkloadIndex,
        events: EventIndex,
        usage: RecentUsage,
        series: RecentSeries,
        queues: Callable[[], Mapping[str, QueueRow]],
        clock: Callable[[], float],
    ) -> None:
        self._usage = usage
        self._clock = clock
        self._unstored = UnstoredChanges(workloads, events)
        self._next_writer = partial(
            HistoryWriter,
            options,
            unstored=self._unstored,
            workloads=workloads,
            events=events,
            usage=usage,
            series=series,
            recent=self._recent,
            queues=queues,
            clock=clock,
        )
        self._loop = asyncio.get_running_loop()
        self._cluster = ""
        self._writer: HistoryWriter | None = None
        self.sessions_seen: SessionsSeen = lambda _starts, _known_s: None
        """Called with the sessions of the past weeks while this replica writes, on the writer's thread."""
        self.answers = StoredAnswers(options, lambda: self._cluster)

    @property
    def writes(self) -> bool:
        """Return True if this replica is the one that stores the history."""
        return self._writer is not None

    @property
    def trouble(self) -> str:
        """Return why this replica, if it leads, stores nothing; empty if all is well."""
        return "" if self._writer is None else self._writer.trouble

    @property
    def written_s(self) -> float:
        """Return the time of the last write of this replica; 0 if it has not written."""
        return 0.0 if self._writer is None else self._writer.written_s

    def changed(self, _key: str, workload: WorkloadIndexEntry | None, _at_s: float) -> None:
        """Record a changed workload."""
        if workload is not None:
            self._unstored.change(workload)

    def see_namespaces(self, changes: Sequence[Change[Any]]) -> None:
        """Determine the identity of the cluster from its first namespace."""
        for change in changes:
            if isinstance(change, ObjectSet) and change.key == FIRST_NAMESPACE:
                self._cluster = change.object.metadata.uid

    def lead(self) -> None:
        """Begin to write."""
        self._writer = self._next_writer(cluster=self._cluster)
        self._writer.sessions_seen = self.sessions_seen
        self._writer.start()

    async def stop(self) -> None:
        """Stop writing, because this replica stops leading or ends."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await asyncio.to_thread(writer.close)

    def close(self) -> None:
        """Stop answering."""
        self.answers.close()

    def _recent(self, since_s: float) -> list[UsageHistoryEntry]:
        """Return the recent past, for the thread of the writer."""
        copied = self._usage.copied(since_s, self._clock())
        future = asyncio.run_coroutine_threadsafe(copied, self._loop)
        try:
            return future.result(LOOP_S)
        except TookTooLong:
            future.cancel()
            raise ValueError("The event loop has no time for the history.") from None

"""Writer of the history, in its own thread, while this replica leads.

Scheduling never waits for the database. While the database can't be reached, the changes wait in memory, and
the pauses between attempts grow. Changes beyond the memory's limit are dropped and counted, and the history
states the gap.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Event, Thread
from typing import Any, TypeVar

from structlog import get_logger

from weir.api.answers import QueueRow
from weir.control.clock import in_utc
from weir.control.session_headroom import WEEK_S, WEEKS_MAX, SessionStart
from weir.kubernetes.history.options import HistoryOptions
from weir.kubernetes.history.records import (
    early_events,
    event_record,
    signature,
    workload_record,
)
from weir.kubernetes.history.retention import retention_of
from weir.kubernetes.history.series_text import joined, text_of
from weir.kubernetes.history.unstored import Unstored, UnstoredChanges
from weir.kubernetes.history.usage_samples import STEP_S, sample_periods, usage_samples
from weir.kubernetes.query.usage.past_workloads import UsageHistoryEntry
from weir.kubernetes.query.usage.recent_series import STORED_EVERY_S, RecentSeries
from weir.kubernetes.query.usage.recent_usage import KEPT_S, RecentUsage
from weir.kubernetes.query.workloads.event_index import EventIndex
from weir.kubernetes.query.workloads.index import WorkloadIndex, WorkloadIndexEntry
from weir.store.cluster.records import ClusterHistoryEntry
from weir.store.cluster.writer import ClusterHistory

EVERY_S = 2.0
"""Time between two writes of changes."""
PAUSE_S, PAUSE_S_MAX = 1.0, 60.0
"""Pauses after failures: the first one, and the longest."""
LATE_S = 60.0
"""Delay before usage is stored: an object arrives some time after the change that it states."""
SKEW_S_MAX = 300.0
"""Difference between the clocks of two leaders that is waited for."""
TIDY_EVERY_S = 3600.0
LEARN_EVERY_S = 300.0
LAST_WRITE_S = 2.0
"""Time that the end of a leadership waits for the last write."""
SERIES_AT_ONCE = 40
"""Workloads whose curves are written in one round. With more, those of each are written less often."""
POINTS_AT_ONCE = 20_000
"""Points of those curves: all of a workload are written again, which takes Python some 2 us for each."""
EVENTS_KEPT_S = 3600.0
"""Time for which an API server keeps Events."""
CURVES = "workloads' older reported values"
_LOG = get_logger(__name__)
SessionsSeen = Callable[[Sequence[SessionStart], float], None]
Recent = Callable[[float], list[UsageHistoryEntry]]
Item = TypeVar("Item")
Made = TypeVar("Made")


class HistoryWriter:
    """The thread of one leadership. `recent` and `queues` may be called from the thread."""

    def __init__(
        self,
        options: HistoryOptions,
        cluster: str,
        unstored: UnstoredChanges,
        workloads: WorkloadIndex,
        events: EventIndex,
        usage: RecentUsage,
        series: RecentSeries,
        recent: Recent,
        queues: Callable[[], Mapping[str, QueueRow]],
        clock: Callable[[], float],
    ) -> None:
        """Create the thread. `clock` is that of the times in objects, and one that can't be set."""
        self._options = options
        self._clock = clock
        self._cluster = cluster
        self._unstored = unstored
        self._workloads = workloads
        self._events = events
        self._usage = usage
        self._series = series
        self._recent = recent
        self._queues = queues
        self._history: ClusterHistory | None = None
        self._signatures: dict[str, tuple[Any, ...]] = {}  # signatures in the database, by uid
        self._sampled_s: float | None = None
        self._tidy_s = self._learn_s = 0.0
        self.sessions_seen: SessionsSeen = lambda _starts, _known_s: None
        """Called with the sessions of the past weeks, and the time from which they are known."""
        self._failed_s = PAUSE_S
        self._trouble = ""  # the last failure
        self.written_s = 0.0
        """Time of the last write."""
        self._closing = Event()
        self._thread = Thread(target=self._run, name="weir-history", daemon=True)

    @property
    def trouble(self) -> str:
        """Return why nothing is stored now; empty if all is well. A hanging database is noticed late."""
        history = self._history
        return self._trouble or (None if history is None else history.trouble) or ""

    def start(self) -> None:
        """Begin to write."""
        self._series.lead(self._clock())
        self._thread.start()

    def close(self) -> None:
        """Write once more if the database answers at once, and end."""
        self._closing.set()
        self._thread.join(LAST_WRITE_S)

    # The thread

    def _run(self) -> None:
        pause_s = 0.0
        while not self._closing.wait(pause_s):
            pause_s = self._round()
        if self._history is not None:
            self._round()
            self._let_go()

    def _round(self) -> float:
        """Write the pending changes; return the time until the next round."""
        try:
            history = self._history = self._history or self._open()
            self._write(history, self._unstored.take(self._clock()))
            self._sample(history)
            self._tidy(history)  # before the curves are written: it deletes those of unknown workloads
            self._write_series(history)
            self._tell_gap(history)
            self._learn(history)
        except Exception as error:  # noqa: BLE001 - whatever it is, a later round may succeed
            self._let_go()
            sentence = str(error) if isinstance(error, OSError | ValueError) else ""
            if not sentence:
                _LOG.error("history_failed", exc_info=error)
            elif sentence != self._trouble:
                _LOG.warning("history_not_written", why=sentence)
            self._trouble = sentence or f"{type(error).__name__}: {error}"
            self._failed_s = min(PAUSE_S_MAX, 2 * self._failed_s)
            return self._failed_s
        if self._trouble:
            _LOG.info("history_written_again")
        self._trouble, self._failed_s, self.written_s = "", PAUSE_S, self._clock()
        return EVERY_S

    def _let_go(self) -> None:
        """Close the database. The next opening reads the stored state from it."""
        history, self._history = self._history, None
        if history is not None:
            history.close()

    def _open(self) -> ClusterHistory:
        """Open the database, and store all that the API server shows: a leader may have ended early."""
        history = ClusterHistory(self._options.read_url(), self._cluster, retention_of(self._options.keep_s))
        try:
            self._sampled_s = self._usage.unstored_s = history.sampled_s()
            self._unstored.stored_until(self._sampled_s or 0.0)
            self._signatures.clear()
            removed = self._unstored.take(
                self._clock()
            ).removed  # taken first: later removals belong to the next round
            present = self._workloads.all()
            self._write(
                history, Unstored([workload.key for workload in present], removed, self._events.keys())
            )
            workloads = (*present, *self._workloads.all(), *self._unstored.removed())
            numbers = {workload.number for workload in workloads}
            vanished = history.close_vanished(numbers, self._clock())
            self._tell_absence(history)
        except BaseException:
            history.close()
            raise
        _LOG.info("history_opened", workloads=len(present), vanished=vanished)
        return history

    def _write(self, history: ClusterHistory, taken: Unstored) -> None:
        try:
            records = [*_made(lambda removal: self._record(*removal), taken.removed)]
            changed, signatures = [], {}
            for key in taken.workloads:
                namespace, _, name = key.partition("/")
                workload = self._workloads.named(namespace, name)
                if workload is None or self._signatures.get(workload.identity) == signature(workload):
                    continue
                signatures[workload.identity] = signature(workload)
                changed.append(workload)
            records += _made(self._record, changed)
            now_s, events = self._clock(), self._events.some(taken.events)
            early = set() if self._closing.is_set() else early_events(events, now_s)
            ripe = [event for event in events if event[0].metadata.key not in early]
            history.write(records, [*_made(lambda event: event_record(event, now_s), ripe)])
        except BaseException:
            self._unstored.give_back(taken)
            raise
        self._unstored.put_off(early)
        self._signatures |= signatures
        for removed, _ in taken.removed:
            self._signatures.pop(removed.identity, None)

    def _record(self, workload: WorkloadIndexEntry, removed_s: float | None = None) -> ClusterHistoryEntry:
        first_s = self._usage.first_started_s(workload.identity)
        return workload_record(
            workload, self._queues(), self._clock(), first_started_s=first_s, removed_s=removed_s
        )

    def _sample(self, history: ClusterHistory) -> None:
        """Store the use of GPUs up to some time ago."""
        now_s = self._clock()
        until_s = (now_s - LATE_S) // STEP_S * STEP_S
        since_s = self._sampled_s
        if since_s is None:
            since_s = (now_s - KEPT_S) // STEP_S * STEP_S
        elif since_s > now_s + SKEW_S_MAX:
            self._tell_clock(history, since_s, now_s)
            since_s = until_s - STEP_S
        if since_s >= until_s:
            return
        past, queues = self._recent(since_s), self._queues()
        for from_s, to_s in sample_periods(since_s, until_s):
            history.sample(usage_samples(past, queues, from_s, to_s))
            self._sampled_s = self._usage.unstored_s = to_s

    def _write_series(self, history: ClusterHistory) -> None:
        """Store new points of curves: of some workloads in a round, at the end of all."""
        ends = self._closing.is_set()
        every_s = 0.0 if ends else STORED_EVERY_S
        while recent := self._series.unstored(SERIES_AT_ONCE, POINTS_AT_ONCE, every_s):
            stored, texts, done = history.series([*recent]), {}, {}
            for number, (series, until_s) in recent.items():
                made = joined(stored.get(number), series)
                done[number] = until_s, sum(len(points) for points in made.values())
                texts[number] = text_of(made)
            history.write_series(
                {number: text for number, text in texts.items() if text != stored.get(number)}
            )
            self._series.stored(done)
            if not ends:
                return

    def _tell_clock(self, history: ClusterHistory, stored_s: float, now_s: float) -> None:
        """Store that an earlier leader's clock was ahead, and begin the use of GPUs at the present time."""
        sentence = (
            f"A leader's clock was ahead: it stored the use of GPUs for times up to {in_utc(stored_s)}, and "
            f"its use before {in_utc(now_s)} is uncertain."
        )
        _LOG.warning("history_clock_was_ahead", why=sentence)
        history.tell_gap(sentence, now_s, now_s)

    def _tell_gap(self, history: ClusterHistory) -> None:
        """Store a gap for changes that were dropped from memory while the database was away."""
        lost = self._unstored.lost()
        lost += Counter({CURVES: self._series.lost()})
        if lost:
            until_s = self._clock()
            since_s = self.written_s or self._usage.began_s
            loss = " and ".join(f"{count:,} {kind}" for kind, count in sorted(lost.items()))
            sentence = (
                f"The database of the history was away too long: {loss} up to {in_utc(until_s)} are missing."
            )
            _LOG.warning("history_gap", why=sentence)
            history.tell_gap(sentence, since_s, until_s)

    def _tell_absence(self, history: ClusterHistory) -> None:
        """Store that no leader wrote the history for longer than the API server keeps Events."""
        known_s = max(self._clock() - KEPT_S, self._usage.began_s - EVENTS_KEPT_S)
        stored_s = self._sampled_s
        if stored_s is not None and stored_s + LATE_S + 2 * STEP_S < known_s:
            sentence = (
                f"No leader wrote the history from {in_utc(stored_s)} to {in_utc(known_s)}: events of that "
                "time, and workloads that were deleted in it, are missing."
            )
            _LOG.warning("history_gap", why=sentence)
            history.tell_gap(sentence, stored_s, known_s)

    def _tidy(self, history: ClusterHistory) -> None:
        if time.monotonic() >= self._tidy_s:
            self._tidy_s = time.monotonic() + TIDY_EVERY_S
            history.tidy(self._clock(), [workload.number for workload in self._unstored.removed()])

    def _learn(self, history: ClusterHistory) -> None:
        """Read the sessions of the past weeks again."""
        if time.monotonic() >= self._learn_s and not self._closing.is_set():
            self._learn_s = time.monotonic() + LEARN_EVERY_S
            self.sessions_seen(*history.session_starts(self._clock() - (WEEKS_MAX + 1) * WEEK_S))


def _made(make: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """Yield the records of items. An item whose record fails doesn't affect the others."""
    for item in items:
        try:
            yield make(item)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it
            _LOG.error("history_record_failed", exc_info=error)

"""History of a cluster, as the leader writes it.

Everything is keyed by the names and uids of the API server, so that it may be written again: by the next
leader, or after a commit whose answer was lost. A workload that ended has one end and is counted once.
"""

import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, delete, select, update

from weir.api.answers import EventRow, Explanation
from weir.api.workload_list import EvictionRow, WorkloadRow
from weir.control.session_headroom import SessionStart
from weir.model.resources import span
from weir.store.cluster.records import GAP, PENDING, ClusterEvent, ClusterHistoryEntry
from weir.store.cluster.tables import EVENT_COLUMNS, cluster_events, cluster_series, cluster_workloads
from weir.store.database.codec import as_json, mapping_of
from weir.store.database.database import Database
from weir.store.database.dialects import insert_new, put_all, storable_row
from weir.store.history.events import EventHistory
from weir.store.history.session_starts import SessionStarts
from weir.store.history.workload_sums import STOPPED, EndTimes, add_ends
from weir.store.notifications.outbox import NotificationOutbox
from weir.store.records import HistoryEvent, Retention, UsageSamples
from weir.store.tables import BEGAN, ENDED, LIVE, events, marks, workloads
from weir.store.usage.samples import UsageTables

TOGETHER_MAX = 500
"""Keys of one query: databases limit its parameters."""
FORGOTTEN_TOGETHER = 2000
STOPPING = "stopping"
VANISHED = "Its object was deleted while no leader of Weir was running, or wrote the history."
Item = TypeVar("Item")
_uid = workloads.c.uid


@dataclass(slots=True)
class _Changes:
    """Rows of one transaction, and the workloads that begin or end with them."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    stated: list[dict[str, Any]] = field(default_factory=list)
    told: list[ClusterEvent] = field(default_factory=list)
    events: list[HistoryEvent] = field(default_factory=list)
    ended: list[EndTimes] = field(default_factory=list)


class ClusterHistory:
    """The database of a cluster's history, opened by one process at a time. Any thread may call.

    Raises, from every method: StoreFailed (an OSError).
    """

    def __init__(self, url: str, cluster: str, retention: Retention) -> None:
        """Open the database, bring its schema up to date, and check that it is of this cluster."""
        self._database = Database(url, None, cluster=cluster)
        self._history = EventHistory(self._database, NotificationOutbox(self._database))
        self._uses = UsageTables(self._database, retention)
        self._retention = retention

    @property
    def trouble(self) -> str | None:
        """Return why writes fail now; None if they succeed, as far as is known."""
        return self._database.trouble

    def close(self) -> None:
        """Write queued work, and close."""
        self._database.close()

    def sampled_s(self) -> float | None:
        """Return the time up to which usage is stored; None if nothing is stored."""
        return self._uses.sampled_s()

    def sample(self, samples: UsageSamples) -> None:
        """Add usage, and return when it is stored."""
        if self.sampled_s() is None:
            began = {"name": BEGAN, "at_s": samples.since_s}
            self._do(partial(insert_new, table=marks, rows=[began]))
        added = self._uses.add(samples)
        if added is not None:
            added.result()

    def write(self, changed: Sequence[ClusterHistoryEntry], told: Sequence[ClusterEvent]) -> None:
        """Store workloads in their present state, and events; return once committed. Idempotent."""
        for some in _parts(changed):
            self._do(partial(self._write, changed=some))
        for few in _parts(told):
            self._do(partial(insert_new, table=cluster_events, rows=[_event(event) for event in few]))

    def series(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the stored curves of workloads by number."""
        wanted = select(cluster_series).where(cluster_series.c.uid.in_(numbers))
        return {row.uid: row.series for row in self._database.rows(wanted)}

    def write_series(self, series: Mapping[int, str]) -> None:
        """Store the curves of workloads in place of earlier ones, and return when they are stored."""
        rows = [{"uid": number, "series": text} for number, text in series.items()]
        self._do(partial(put_all, table=cluster_series, rows=rows))

    def close_vanished(self, present: Collection[int], now_s: float) -> int:
        """End the live workloads that the API server doesn't have any more; return how many."""
        live = select(_uid).where(workloads.c.state == LIVE)
        uids = self._database.values(live)
        gone = [uid for uid in uids if uid not in present]
        for some in _parts(gone):
            self._do(partial(self._close, uids=some, at_s=now_s))
        return len(gone)

    def session_starts(self, since_s: float) -> tuple[list[SessionStart], float]:
        """Return the sessions submitted since a time, and the time from which all of them are known."""
        starts, known_s = SessionStarts(self._database).since(since_s)
        began_s = self._database.value(select(marks.c.at_s).where(marks.c.name == BEGAN))
        return starts, inf if began_s is None else max(known_s, float(began_s))

    def tell_gap(self, sentence: str, since_s: float, until_s: float) -> None:
        """Record that data of a time is missing, once for each start."""
        source = f"{GAP}:{since_s:.3f}"
        numbers: dict[str, object] = {"since_s": since_s, "until_s": until_s}
        number = _number(until_s, source)
        row = EventRow(id=number, at_s=until_s, kind=GAP, sentence=sentence, numbers=numbers)
        self.write([], [ClusterEvent(source, "", row)])

    def tidy(self, now_s: float, unstored: Collection[int] = ()) -> int:
        """Delete rows older than the retention period, in small steps; return their number.

        The `unstored` workloads are stored later. Their curves may be there already, and stay.
        """
        gone = self._uses.tidy(now_s)
        old = cluster_events.c.at_s < now_s - self._retention.events_s
        gone += self._forget(select(cluster_events.c.source).where(old), cluster_events.c.source)
        for number in (cluster_workloads.c.uid, cluster_series.c.uid):
            orphans = (
                select(number)
                .outerjoin(workloads, _uid == number)
                .where(_uid.is_(None), number.not_in(unstored))
            )
            gone += self._forget(orphans, number)
        return gone

    def _forget(self, which: Any, key: Any) -> int:
        gone = 0
        few = which.limit(FORGOTTEN_TOGETHER)
        while keys := self._database.values(few):
            for some in _parts(keys):
                self._do(partial(_delete, key=key, keys=some))
            gone += len(keys)
        return gone

    def _do(self, work: Any) -> None:
        done: Future[Any] = self._database.write(work)
        done.result()

    # Called in a transaction of the writer

    def _write(self, connection: Connection, changed: Sequence[ClusterHistoryEntry]) -> None:
        uids = [workload.row.uid for workload in changed]
        stored = {row.uid: row for row in connection.execute(_KNOWN.where(_uid.in_(uids)))}
        changed = [workload for workload in changed if not _is_late(workload, stored.get(workload.row.uid))]
        told_of = set(connection.execute(_ENDS.where(events.c.uid.in_(uids))).scalars())
        self._free_names(connection, changed)
        changes = _Changes()
        # Ended workloads first, because they free their names
        for workload in sorted(changed, key=lambda workload: workload.is_live):
            _add(changes, workload, stored.get(workload.row.uid), has_end=workload.row.uid in told_of)
        self._store(connection, changes)

    def _free_names(self, connection: Connection, changed: Sequence[ClusterHistoryEntry]) -> None:
        """End stored workloads whose name a new live workload has, and whose own end wasn't observed."""
        live = {workload.row.name: workload.row for workload in changed if workload.is_live}
        ending = {workload.row.uid for workload in changed if not workload.is_live}
        namesakes = select(_uid, workloads.c.name).where(
            workloads.c.name.in_(list(live)), workloads.c.state == LIVE
        )
        for uid, name in connection.execute(namesakes).all():
            if uid != live[name].uid and uid not in ending:
                self._close(connection, [uid], live[name].submitted_s)

    def _close(self, connection: Connection, uids: Sequence[int], at_s: float) -> None:
        changes = _Changes()
        told_of = set(connection.execute(_ENDS.where(events.c.uid.in_(uids))).scalars())
        for row in connection.execute(_STORED.where(_uid.in_(uids), workloads.c.state == LIVE)).all():
            end_s = max(at_s, row.submitted_s)
            times = EndTimes([row[4 + index] or "" for index in range(4)], *row[2:4], end_s)
            if row.uid not in told_of:  # a former leader may have stored it as live after its end
                _end(changes, row.uid, row.name, times, "stopped", VANISHED)
            stated = dict(mapping_of(row.stated))
            stated["row"] |= {"status": "stopped", "ended_s": end_s, "pods_running": 0}
            stated["row"]["reason"] = {"why": "stopped", "sentence": VANISHED, "numbers": {}}
            values = {"state": "stopped", "ended_s": end_s, "sentence": VANISHED}
            connection.execute(update(workloads).where(_uid == row.uid).values(values))
            condition = cluster_workloads.c.uid == row.uid
            connection.execute(update(cluster_workloads).where(condition).values(stated=as_json(stated)))
        self._store(connection, changes)

    def _store(self, connection: Connection, changes: _Changes) -> None:
        put_all(connection, workloads, changes.rows)
        put_all(connection, cluster_workloads, changes.stated)
        insert_new(connection, cluster_events, [_event(event) for event in changes.told])
        add_ends(connection, changes.ended)
        self._history.write(connection, changes.events)


_KINDS = ("project", "department", "user", "type")
_ENDS = select(events.c.uid).where(events.c.kind == ENDED)
_JOINED = workloads.join(cluster_workloads, cluster_workloads.c.uid == _uid)
_KNOWN = select(
    _uid,
    workloads.c.state,
    workloads.c.first_started_s,
    workloads.c.started_s,
    workloads.c.ended_s,
    cluster_workloads.c.why,
    cluster_workloads.c.evicted_s,
).select_from(_JOINED)
_STORED = select(
    *(workloads.c[name] for name in ("uid", "name", "submitted_s", "first_started_s", *_KINDS)),
    cluster_workloads.c.stated,
).select_from(_JOINED)


def _is_late(workload: ClusterHistoryEntry, stored: Any) -> bool:
    """Return True if a live workload was seen before its stored end: a leader that was slow wrote it last."""
    ended_s = None if stored is None else stored.ended_s
    return workload.is_live and ended_s is not None and workload.seen_s <= ended_s


def _add(changes: _Changes, workload: ClusterHistoryEntry, stored: Any, *, has_end: bool) -> None:
    """Add the rows of a workload as it is now, and its events since it was stored."""
    seen = workload.row
    first_s = (None if stored is None else stored.first_started_s) or seen.first_started_s or seen.started_s
    started_s = seen.started_s or (None if stored is None else stored.started_s) or first_s
    row = seen if workload.is_live else _with_last_start(workload, started_s)
    reason = row.reason if row.status == PENDING else None
    why = None if reason is None else reason.why
    evicted_s = None if row.evicted is None else row.evicted.at_s
    before_s = None if stored is None else stored.evicted_s
    if row.status == STOPPING:
        evicted_s = before_s  # it may still save a checkpoint: the eviction is final once its pods are gone
    changes.rows.append(storable_row(_row(workload, row, first_s) | {"started_s": started_s}))
    full = row.model_copy(update={"first_started_s": first_s, "ended_s": changes.rows[-1]["ended_s"]})
    changes.stated.append(
        {
            "uid": row.uid,
            "namespace": workload.namespace,
            "name": workload.name,
            "owner": workload.owner,
            "why": why,
            "evicted_s": evicted_s,
            "stated": as_json({**workload.stated, "row": full.model_dump(mode="json")}),
        }
    )
    if reason is not None and (stored is None or stored.why != why):
        changes.told.append(_reason(workload, reason))
    if row.evicted is not None and evicted_s not in (None, before_s):
        changes.events.append(_eviction(row, row.evicted))
    if not workload.is_live and not has_end:
        end_s = max(row.submitted_s, row.ended_s or workload.seen_s)
        keys = [changes.rows[-1][kind] or "" for kind in _KINDS]
        times = EndTimes(keys, row.submitted_s, first_s, end_s)
        _end(changes, row.uid, row.name, times, row.status, changes.rows[-1]["sentence"])


def _eviction(row: WorkloadRow, evicted: EvictionRow) -> HistoryEvent:
    """Return the event of an eviction. Without a known loss it has none, which reports count as nothing."""
    numbers: dict[str, object] = {"rule": evicted.rule, "gpus": row.devices}
    if evicted.lost_gpu_s is not None and row.devices:
        numbers["lost_s"] = evicted.lost_gpu_s / row.devices
    return HistoryEvent(
        evicted.at_s, STOPPED, evicted.sentence, row.uid, row.name, row.project, numbers=numbers
    )


def _end(changes: _Changes, uid: int, name: str, times: EndTimes, how: str, sentence: str) -> None:
    plain = sentence or f"{name} {how} {span(times.ended_s - times.submitted_s)} after its submission."
    about = uid, name, times.keys[0]
    changes.events.append(HistoryEvent(times.ended_s, ENDED, plain, *about, numbers={"how": how}))
    changes.ended.append(times)


def _with_last_start(workload: ClusterHistoryEntry, started_s: float | None) -> WorkloadRow:
    """Return the row of a workload that is over: its object may have lost its start before it was deleted."""
    row = workload.row
    if row.started_s is not None or started_s is None:
        return row
    ran_s = row.ran_s or max(0.0, (row.ended_s or workload.seen_s) - started_s)
    return row.model_copy(update={"started_s": started_s, "ran_s": ran_s})


def _row(workload: ClusterHistoryEntry, row: WorkloadRow, first_started_s: float | None) -> dict[str, Any]:
    ended_s = None if workload.is_live else max(row.submitted_s, row.ended_s or workload.seen_s)
    return {
        "uid": row.uid,
        "name": row.name,
        "project": row.project,
        "department": workload.department,
        "user": row.user,
        "namespace": workload.namespace,
        "type": row.type,
        "state": LIVE if workload.is_live else row.status,
        "priority": row.priority,
        "preemptible": row.preemptible,
        "devices": row.devices,
        "pods": row.pods,
        "submitted_s": row.submitted_s,
        "started_s": row.started_s,
        "ended_s": ended_s,
        "ran_s": row.kept_s,
        "wall_s": row.ran_s,
        "first_started_s": first_started_s,
        "sentence": "" if workload.is_live or row.reason is None else row.reason.sentence,
        "starts": 0,
        "settled": 0,
        "failures": 0,
        "restarts": row.restarts,
    }


def _reason(workload: ClusterHistoryEntry, reason: Explanation) -> ClusterEvent:
    row, at_s = workload.row, workload.seen_s
    source = f"{PENDING}:{row.uid}:{at_s:.3f}"
    told = EventRow(
        id=_number(at_s, source),
        at_s=at_s,
        kind=PENDING,
        workload=row.name,
        project=row.project,
        sentence=reason.sentence,
        numbers={"why": reason.why, **reason.numbers},
    )
    return ClusterEvent(source, workload.namespace, told)


def _number(at_s: float, source: str) -> int:
    """Return the number of an event: later ones have higher numbers, which a float holds exactly."""
    return int(at_s * 1000) << 11 | zlib.crc32(source.encode()) >> 21


def _event(event: ClusterEvent) -> dict[str, Any]:
    columns = {name: getattr(event.row, name) for name in EVENT_COLUMNS}
    columns |= {"source": event.source, "namespace": event.namespace, "numbers": as_json(event.row.numbers)}
    return storable_row(columns)


def _delete(connection: Connection, key: Column[Any], keys: Sequence[Any]) -> None:
    connection.execute(delete(key.table).where(key.in_(keys)))


def _parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for first in range(0, len(items), TOGETHER_MAX):
        yield items[first : first + TOGETHER_MAX]

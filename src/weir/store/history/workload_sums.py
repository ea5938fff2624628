"""Sums over ended workloads by day and by 30 days, so that reports of a year don't read a year of workloads.

They change in the transaction that ends a workload or stores its event. A sum has one kind of key (project,
department, user, type, or rule of an eviction). So a report reads only the sums of its keys.

`ended` counts workloads by the day on which they ended. `submitted` counts the same workloads by the day of
their submission, and `waits` by the day of their first start. Live workloads are in none of them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, func, or_, select, tuple_

from weir.model.reasons import EvictionRule
from weir.store.database.dialects import put_all
from weir.store.history.histogram import Histogram, bucket_of, packed_histogram, unpacked_histogram
from weir.store.records import HistoryEvent
from weir.store.tables import DAY, MONTH, workload_sums, workloads

STOPPED, QUOTA_MET = "stopped", "quota_met"
"""Kinds of events that are summed up; see `COUNTED_EVENTS`."""
EVICTION_RULES: Final = frozenset((*(rule.value for rule in EvictionRule), "drained"))
"""Rules whose stops count as evictions."""
KINDS = ("project", "department", "user", "type")
RULE = "rule"
READ_TOGETHER: Final = 200
"""Keys of one query: databases limit its parameters."""

SumKey = tuple[str, int, str]
"""Kind, day and key."""
Piece = tuple[int, int, int]
"""The sums of one span length, from the first instant to before the second."""
_sums = workload_sums.c
_KEY = (_sums.kind, _sums.span_s, _sums.at_s, _sums.key)
_WORKLOAD = select(
    *(workloads.c[name] for name in ("uid", *KINDS, "submitted_s", "first_started_s", "ended_s"))
)


@dataclass(slots=True)
class WorkloadSum:
    """A sum of one key."""

    ended: int = 0
    submitted: int = 0
    waits: Histogram = field(default_factory=Counter)
    evicted: int = 0
    lost_gpu_s: float = 0.0
    # Times from pending to running, of workloads in quota
    reclaims: Histogram = field(default_factory=Counter)

    def add(self, other: "WorkloadSum") -> None:
        """Add other sums to these."""
        self.ended += other.ended
        self.submitted += other.submitted
        self.evicted += other.evicted
        self.lost_gpu_s += other.lost_gpu_s
        self.waits.update(other.waits)
        self.reclaims.update(other.reclaims)

    def columns(self) -> dict[str, Any]:
        """Return the values of its row."""
        return {
            "ended": self.ended,
            "submitted": self.submitted,
            "evicted": self.evicted,
            "lost_gpu_s": self.lost_gpu_s,
            "waits": packed_histogram(self.waits),
            "reclaims": packed_histogram(self.reclaims),
        }


@dataclass(frozen=True, slots=True)
class EndTimes:
    """Times of a workload that has ended. `keys` are its project, department, user and type."""

    keys: Sequence[str]
    submitted_s: float
    first_started_s: float | None
    ended_s: float


Additions = defaultdict[SumKey, WorkloadSum]


def number_of(numbers: Mapping[str, Any], name: str) -> float:
    """Return a number of an event; zero if it has no such number."""
    value = numbers.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def lost_gpu_s(numbers: Mapping[str, Any]) -> float:
    """Return the GPU time that an eviction lost."""
    return number_of(numbers, "lost_s") * number_of(numbers, "gpus")


def add_ends(connection: Connection, ended: Iterable[EndTimes]) -> None:
    """Add workloads in the transaction that ends them."""
    additions: Additions = defaultdict(WorkloadSum)
    for workload in ended:
        _add_end(additions, workload)
    _add(connection, additions)


def add_events(connection: Connection, happened: Sequence[HistoryEvent]) -> None:
    """Add evictions and reclaimed quotas in the transaction that stores their events."""
    counted = [event for event in happened if event.uid is not None and event.kind in (STOPPED, QUOTA_MET)]
    if not counted:
        return
    keys: dict[int, Sequence[str]] = {}
    uids = list({event.uid for event in counted})
    for first in range(0, len(uids), READ_TOGETHER):
        where = workloads.c.uid.in_(uids[first : first + READ_TOGETHER])
        keys |= {row.uid: _keys_of(row) for row in connection.execute(_WORKLOAD.where(where))}
    additions: Additions = defaultdict(WorkloadSum)
    for event in counted:
        if event.uid is not None and event.uid in keys:
            _add_event(additions, keys[event.uid], event.kind, event.at_s, event.numbers)
    _add(connection, additions)


def sums_between(connection: Connection, kind: str, pieces: Sequence[Piece]) -> defaultdict[str, WorkloadSum]:
    """Return the sums of some spans, by key."""
    rows: defaultdict[str, list[Row[Any]]] = defaultdict(list)
    if pieces:
        for row in connection.execute(
            select(workload_sums).where(in_pieces(workload_sums, pieces, _sums.kind == kind))
        ):
            rows[row.key].append(row)
    sums: defaultdict[str, WorkloadSum] = defaultdict(WorkloadSum)
    for key, own in rows.items():
        sums[key] = _summed(own)
    return sums


def counts_between(
    connection: Connection, kind: str, pieces: Sequence[Piece]
) -> Sequence[tuple[str, int, int]]:
    """Return how many workloads ended in some spans, and how many of the ended were submitted, by key."""
    if not pieces:
        return ()
    query = (
        select(_sums.key, func.sum(_sums.ended), func.sum(_sums.submitted))
        .where(in_pieces(workload_sums, pieces, _sums.kind == kind))
        .group_by(_sums.key)
    )
    return [(key, int(ended), int(submitted)) for key, ended, submitted in connection.execute(query)]


def whole_days(first_s: float, end_s: float) -> tuple[list[Piece], list[tuple[float, float]]]:
    """Divide a period into sums of 30 days and of days, and into the parts of days at its ends."""
    day, last = int(-(-first_s // DAY)) * DAY, int(end_s // DAY) * DAY
    if day >= last:
        return [], [(first_s, end_s)]
    pieces: list[Piece] = []
    month, last_month = -(-day // MONTH) * MONTH, last // MONTH * MONTH
    if month < last_month:
        pieces.append((MONTH, month, last_month))
        pieces += [piece for piece in ((DAY, day, month), (DAY, last_month, last)) if piece[1] < piece[2]]
    else:
        pieces.append((DAY, day, last))
    return pieces, [part for part in ((first_s, float(day)), (float(last), end_s)) if part[0] < part[1]]


def _keys_of(row: Row[Any]) -> tuple[str, ...]:
    return tuple(getattr(row, kind) or "" for kind in KINDS)


def _day(at_s: float) -> int:
    return int(at_s // DAY) * DAY


def _add_end(additions: Additions, workload: EndTimes) -> None:
    submitted, ended = _day(workload.submitted_s), _day(workload.ended_s)
    first_s = workload.first_started_s
    bucket = None if first_s is None else bucket_of(first_s - workload.submitted_s)
    for kind, key in zip(KINDS, workload.keys, strict=True):
        additions[kind, ended, key].ended += 1
        additions[kind, submitted, key].submitted += 1
        if first_s is not None and bucket is not None:
            additions[kind, _day(first_s), key].waits[bucket] += 1


def _add_event(
    additions: Additions, keys: Sequence[str], event: str, at_s: float, numbers: Mapping[str, Any]
) -> None:
    rule = numbers.get("rule")
    if event == STOPPED and rule not in EVICTION_RULES:
        return
    named = [*zip(KINDS, keys, strict=True), *([(RULE, str(rule))] if event == STOPPED else [])]
    for kind, key in named:
        into = additions[kind, _day(at_s), key]
        if event == STOPPED:
            into.evicted += 1
            into.lost_gpu_s += lost_gpu_s(numbers)
        else:
            into.reclaims[bucket_of(number_of(numbers, "waited_s"))] += 1


def _add(connection: Connection, additions: Mapping[SumKey, WorkloadSum]) -> None:
    """Add to the sums of days and of 30 days; only the writer calls it, so there are no races."""
    into: defaultdict[tuple[str, int, int, str], WorkloadSum] = defaultdict(WorkloadSum)
    for (kind, day, key), addition in additions.items():
        into[kind, DAY, day, key].add(addition)
        into[kind, MONTH, day // MONTH * MONTH, key].add(addition)
    keys = list(into)
    for first in range(0, len(keys), READ_TOGETHER):
        some = keys[first : first + READ_TOGETHER]
        for row in connection.execute(select(workload_sums).where(tuple_(*_KEY).in_(some))):
            into[row.kind, row.span_s, row.at_s, row.key].add(_summed([row]))
    names = [column.name for column in _KEY]
    put_all(
        connection,
        workload_sums,
        [dict(zip(names, key, strict=True)) | total.columns() for key, total in into.items()],
    )


def in_pieces(table: Table, pieces: Sequence[Piece], *extra: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition that selects the sums of some spans; `extra` conditions hold for each of them."""
    return or_(
        *(
            and_(*extra, table.c.span_s == span_s, table.c.at_s >= first, table.c.at_s < end)
            for span_s, first, end in pieces
        )
    )


def _summed(rows: Sequence[Row[Any]]) -> WorkloadSum:
    return WorkloadSum(
        sum(row.ended for row in rows),
        sum(row.submitted for row in rows),
        unpacked_histogram(b"".join(row.waits for row in rows)),
        sum(row.evicted for row in rows),
        sum(row.lost_gpu_s for row in rows),
        unpacked_histogram(b"".join(row.reclaims for row in rows)),
    )

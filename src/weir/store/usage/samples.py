"""Usage, summed by minute, hour and day when it is added, so that no roll-up is needed.

A sum of a day is a row like that of a minute. So totals agree at every resolution, and shorter retention of
the finer sums only deletes rows.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Table, delete, func, select

from weir.store.database.database import Database
from weir.store.database.dialects import add_up, put
from weir.store.records import Retention, UsageSamples
from weir.store.tables import (
    DAY,
    HOUR,
    LONG_SPANS,
    MINUTE,
    MONTH,
    NOT_OVER,
    SAMPLED,
    SPANS,
    arrays,
    device_uses,
    events,
    marks,
    pool_uses,
    submissions,
    uses,
    workload_sums,
    workload_uses,
    workloads,
)

PROBED = "probed"
PIECES_MAX = 24 * 60
"""Minutes a long stretch is spread over; a longer one is spread over hours, and one of months over days."""
FORGOTTEN_TOGETHER = 2000
"""Rows that are deleted in one transaction: others wait for it."""

Values = Mapping[str, Any]


class UsageTables:
    """Adds usage up by minute, hour and day, and deletes old sums."""

    def __init__(self, database: Database, retention: Retention) -> None:
        self._database = database
        self.retention = retention

    def sampled_s(self) -> float | None:
        """Return the time up to which usage is stored; None before the first sample."""
        mark = select(marks.c.at_s).where(marks.c.name == SAMPLED)
        at_s: float | None = self._database.value(mark)
        return at_s

    def add(self, samples: UsageSamples) -> "Future[None] | None":
        """Add the usage between two moments; None if there is no time between them."""
        pieces = list(_pieces(samples.since_s, samples.until_s))
        if not pieces:
            return None
        usage = [asdict(use) for use in samples.uses]
        tables = (
            (uses, _spread(usage, pieces, uses, LONG_SPANS)),
            (pool_uses, _spread([_pool_sums(usage)] if usage else (), pieces, pool_uses, LONG_SPANS)),
            (workload_uses, _spread(map(asdict, samples.workloads), pieces, workload_uses)),
            (device_uses, _spread(map(asdict, samples.devices), pieces, device_uses)),
        )

        def work(connection: Connection) -> None:
            for table, rows in tables:
                add_up(connection, table, rows, most=("memory_max",))
            put(connection, marks, {"name": SAMPLED, "at_s": samples.until_s})

        return self._database.write(work, durable=False)

    def tidy(self, now_s: float) -> int:
        """Delete samples older than the retention period.

        Minutes are deleted by whole hours, and hours by whole days: the finer sums stay as long as a report
        may need any of them.
        """
        keep = self.retention
        before_s = {
            MINUTE: (now_s - keep.minutes_s) // HOUR * HOUR,
            HOUR: (now_s - keep.hours_s) // DAY * DAY,
            DAY: (now_s - keep.days_s) // DAY * DAY,
            MONTH: (now_s - keep.days_s) // DAY * DAY - MONTH + 1,
        }
        gone = 0
        for table in (uses, pool_uses, workload_uses, device_uses, workload_sums):
            for span_s in LONG_SPANS:
                gone += self._forget_sums(table, span_s, before_s[span_s])
        gone += self._forget_workloads(now_s - keep.workloads_s)
        return gone + self._forget_events(now_s - keep.events_s)

    def _forget_sums(self, table: Table, span_s: int, before_s: float) -> int:
        """Delete sums, always all of one time, since the tables are indexed by time."""
        old = (table.c.span_s == span_s, table.c.at_s < before_s)
        gone = 0
        while True:
            instants = self._database.rows(
                select(table.c.at_s, func.count()).where(*old).group_by(table.c.at_s).limit(500)
            )
            if not instants:
                return gone
            together: list[int] = []
            rows = 0
            for at_s, count in instants:
                together.append(at_s)
                rows += count
                if rows >= FORGOTTEN_TOGETHER:
                    break
            where = (table.c.span_s == span_s, table.c.at_s.in_(together))
            gone += self._delete(table, where)

    def _forget_workloads(self, before_s: float) -> int:
        old = (
            select(workloads.c.uid)
            .where(workloads.c.ended_s < before_s, workloads.c.state.not_in(NOT_OVER))
            .limit(FORGOTTEN_TOGETHER)
        )
        gone = 0
        while uids := self._database.values(old):
            self._delete(submissions, (submissions.c.uid.in_(uids),))
            self._delete(workload_uses, (workload_uses.c.uid.in_(uids),))
            self._delete(arrays, (arrays.c.uid.in_(uids),))
            gone += self._delete(workloads, (workloads.c.uid.in_(uids),))
        return gone

    def _forget_events(self, before_s: float) -> int:
        """Delete old events, except the newest, whose number the next one follows."""
        last = select(func.max(events.c.id)).scalar_subquery()
        old = (
            select(events.c.id)
            .where(events.c.at_s < before_s, events.c.id < last)
            .order_by(events.c.id)
            .limit(FORGOTTEN_TOGETHER)
        )
        gone = 0
        while ids := self._database.values(old):
            gone += self._delete(events, (events.c.id.in_(ids),))
        return gone

    def _delete(self, table: Table, where: Sequence[Any]) -> int:
        statement = delete(table).where(*where)
        work = self._database.write(lambda connection: connection.execute(statement).rowcount, durable=False)
        return work.result()


def mark_probed(connection: Connection) -> None:
    """Write a row that means nothing, for a probe of the database."""
    put(connection, marks, {"name": PROBED, "at_s": 0.0})


def _pieces(since_s: float, until_s: float) -> Iterator[tuple[float, float]]:
    """Yield the minutes (hours, days) between two moments: each beginning and its part of the whole."""
    whole_s = until_s - since_s
    if whole_s <= 0:
        return
    step_s = next((span_s for span_s in SPANS if whole_s <= PIECES_MAX * span_s), DAY)
    at_s = since_s
    while at_s < until_s:
        end_s = min(until_s, (at_s // step_s + 1) * step_s)
        yield at_s, (end_s - at_s) / whole_s
        at_s = end_s


def _pool_sums(usage: Sequence[Values]) -> Values:
    names = [column.name for column in pool_uses.columns if not column.primary_key]
    return {name: sum(row[name] for row in usage) for name in names}


def _spread(
    rows: Iterable[Values],
    pieces: Sequence[tuple[float, float]],
    table: Table,
    spans: Sequence[int] = SPANS,
) -> list[dict[str, Any]]:
    """Return the additions to the sums of each span. Counts can't be split and go to the last span."""
    keys = [column.name for column in table.primary_key if column.name not in ("span_s", "at_s")]
    sums: dict[tuple[Any, ...], dict[str, Any]] = {}
    counted = {"preempted", "memory_max"}
    shares: dict[tuple[int, int], float] = defaultdict(float)
    for at_s, part in pieces:
        for span_s in spans:
            shares[span_s, int(at_s // span_s) * span_s] += part
    last = pieces[-1][0]
    for row in rows:
        key = tuple(row[name] for name in keys)
        for (span_s, at_s), part in shares.items():
            totals = sums.setdefault((span_s, at_s, key), {"span_s": span_s, "at_s": at_s} | _key(row, keys))
            is_last = at_s == int(last // span_s) * span_s
            for name, value in row.items():
                if name in keys:
                    continue
                if name == "memory_max":
                    totals[name] = max(totals.get(name, 0), value)
                elif name in counted:
                    totals[name] = totals.get(name, 0) + (value if is_last else 0)
                else:
                    totals[name] = totals.get(name, 0.0) + value * part
    return list(sums.values())


def _key(row: Values, keys: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in keys}

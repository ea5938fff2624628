"""Usage reports: whole days from sums by day, the ends from sums by hour and minute."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from sqlalchemy import Connection, RowMapping, and_, func, or_, select, union_all

from weir.api.answers import UsageReport, UsageRow
from weir.api.history import HistoryPoint
from weir.store.database.database import ReadableDatabase
from weir.store.history.workload_sums import Piece, in_pieces
from weir.store.records import Retention
from weir.store.reports.period_sums import Kind, workload_counts
from weir.store.reports.scope import EVERYTHING, ReportScope
from weir.store.tables import (
    DAY,
    HOUR,
    LIVE,
    LONG_SPANS,
    MINUTE,
    SAMPLED,
    SPANS,
    STATE_SUMS,
    marks,
    pool_uses,
    uses,
    workload_uses,
    workloads,
)

By = Kind | Literal["node"]
POINTS_MAX = 2000
_SUMS = ("allocated_gpu_s", "seen_gpu_s", "used_gpu_s", "over_quota_gpu_s", "waiting_s", "preempted")
_DRAWN = ("allocated_gpu_s", "used_gpu_s", "over_quota_gpu_s", "waiting_s")
_REPORTED = (*_SUMS, *STATE_SUMS)


def pieces(
    since_s: float,
    until_s: float,
    now_s: float,
    retention: Retention,
    spans: Sequence[int] = LONG_SPANS,
) -> list[Piece]:
    """Return the fewest sums that cover a period; its ends are widened to the finest sums kept there."""
    first = _floored(since_s, now_s, retention)
    end = -_floored(-until_s, now_s, retention, at_s=until_s)
    chosen: list[Piece] = []
    _divide(first, end, spans[::-1], now_s, retention, chosen)
    return sorted(chosen, key=lambda piece: piece[1])


def _floored(value_s: float, now_s: float, retention: Retention, at_s: float | None = None) -> int:
    span_s = _finest(value_s if at_s is None else at_s, now_s, retention)
    return int(value_s // span_s) * span_s


def _finest(at_s: float, now_s: float, retention: Retention) -> int:
    """Return the shortest span whose sums are kept for a moment."""
    if at_s >= now_s - retention.minutes_s:
        return MINUTE
    return HOUR if at_s >= now_s - retention.hours_s else DAY


def _divide(
    first: int, end: int, spans: Sequence[int], now_s: float, retention: Retention, chosen: list[Piece]
) -> None:
    """Use the longest sums inside the period, and shorter ones for the rest at both ends."""
    if first >= end:
        return
    span_s = spans[0]
    from_s, to_s = -(-first // span_s) * span_s, end // span_s * span_s
    if from_s >= to_s:
        _divide(first, end, spans[1:], now_s, retention, chosen)
        return
    chosen.append((span_s, from_s, to_s))
    _divide(first, from_s, spans[1:], now_s, retention, chosen)
    _divide(to_s, end, spans[1:], now_s, retention, chosen)


class UsageReports:
    """Reports over a database."""

    def __init__(self, database: ReadableDatabase, retention: Retention) -> None:
        self._database = database
        self._retention = retention

    def report(
        self, since_s: float, until_s: float, by: By, *, now_s: float, scope: ReportScope = EVERYTHING
    ) -> UsageReport:
        """Return sums by key, of some workloads or of all.

        If minutes or hours aren't kept any more, the span is widened to the next sums; the report states it.
        """
        period_pieces = pieces(since_s, until_s, now_s, self._retention)
        if not period_pieces:
            return UsageReport(since_s=since_s, until_s=until_s, by=by, rows=[])
        first, end = period_pieces[0][1], period_pieces[-1][2]

        def read(connection: Connection) -> dict[str, dict[str, Any]]:
            rows: dict[str, dict[str, Any]] = {}
            for key, values in _sums(connection, period_pieces, by, scope):
                rows[key] = {**rows.get(key, {}), **values}
            counts = (
                _on_nodes(
                    connection, pieces(since_s, until_s, now_s, self._retention, SPANS), first, end, scope
                )
                if by == "node"
                else _counts(connection, first, end, by, scope)
            )
            for key, values in counts:
                rows[key] = {**rows.get(key, {}), **values}
            return rows

        read_rows = self._database.read(read)
        rows = [_row(key, values) for key, values in read_rows.items()]
        rows.sort(key=lambda row: (-row.allocated_gpu_s, -row.waiting_s, row.key))
        return UsageReport(since_s=float(first), until_s=float(end), by=by, rows=rows)

    def chart(
        self,
        since_s: float,
        until_s: float,
        *,
        now_s: float,
        points: int = 240,
        scope: ReportScope = EVERYTHING,
    ) -> list[HistoryPoint]:
        """Return the usage of the workloads in scope as at most `points` points of equal length.

        The last point covers the time up to the last stored sample only.
        """
        points = max(1, min(points, POINTS_MAX))
        long_s = until_s - since_s
        finest = _finest(since_s, now_s, self._retention)
        span_s = next((span for span in SPANS if span >= finest and long_s <= points * span), DAY)
        step_s = span_s * max(1, -(-int(long_s) // (span_s * points)))
        table = pool_uses if scope == EVERYTHING else uses
        first, end = int(since_s // step_s) * step_s, until_s
        at_s = table.c.at_s - table.c.at_s % step_s
        query = (
            select(at_s.label("at_s"), *(func.sum(table.c[name]).label(name) for name in _DRAWN))
            .where(
                table.c.span_s == span_s, table.c.at_s >= first, table.c.at_s < end, *scope.conditions(uses)
            )
            .group_by(at_s)
            .order_by(at_s)
        )
        stored = select(marks.c.at_s).where(marks.c.name == SAMPLED)

        def read(connection: Connection) -> tuple[Sequence[RowMapping], float]:
            sampled_s = connection.execute(stored).scalar()
            rows = connection.execute(query).mappings().all()
            return rows, until_s if sampled_s is None else min(until_s, sampled_s)

        rows, known_s = self._database.read(read)
        return [
            HistoryPoint(
                at_s=row["at_s"],
                span_s=min(step_s, max(MINUTE, known_s - row["at_s"])),
                **{name: row[name] for name in _DRAWN},
            )
            for row in rows
        ]


def _sums(
    connection: Connection, period_pieces: Sequence[Piece], by: By, scope: ReportScope
) -> Iterator[tuple[str, dict[str, Any]]]:
    key = uses.c[by]
    sums = (func.sum(uses.c[name]).label(name) for name in _REPORTED)
    query = select(key, *sums).where(in_pieces(uses, period_pieces), *scope.conditions(uses))
    if by == "node":
        query = query.where(key != "")
    for row in connection.execute(query.group_by(key)).mappings():
        yield row[by], {name: row[name] for name in _REPORTED}


def _counts(
    connection: Connection, first: int, end: int, by: Kind, scope: ReportScope
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the workloads that were live in the period, and those that ended in it."""
    for name, count, ended in workload_counts(connection, by, first, end, scope):
        yield name, {"workloads": count, "ended": ended}


def _on_nodes(
    connection: Connection, period_pieces: Sequence[Piece], first: int, end: int, scope: ReportScope
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield by node the number of workloads that held devices there, and how many ended in the period.

    Those that did not end in the period are counted and subtracted, since they are few unless the period is
    long ago. They are live, ended later, or ended shortly before with a last sample inside the period.

    Sums of each length of span are separate queries: an OR would read them twice.
    """
    node, uid, ended_s = workload_uses.c.node, workload_uses.c.uid, workloads.c.ended_s
    chosen = select(workloads.c.uid).where(*scope.conditions(workloads))
    in_scope = () if scope == EVERYTHING else (uid.in_(chosen),)
    ran = union_all(
        *(select(node, uid).where(in_pieces(workload_uses, [piece]), *in_scope) for piece in period_pieces)
    )
    runs = ran.subquery()
    held = select(runs.c.node, func.count(runs.c.uid.distinct())).group_by(runs.c.node)
    others = union_all(
        select(workloads.c.uid).where(workloads.c.state == LIVE),
        select(workloads.c.uid).where(ended_s >= end),
        select(workloads.c.uid).where(ended_s >= first - DAY, ended_s < first),
    )
    span_s = workload_uses.c.span_s + 0  # an expression, so that the index on numbers is used
    within = (
        and_(span_s == length_s, workload_uses.c.at_s >= from_s, workload_uses.c.at_s < to_s)
        for length_s, from_s, to_s in period_pieces
    )
    not_ended = (
        select(node, func.count(uid.distinct()))
        .where(uid.in_(others), or_(*within), *in_scope)
        .group_by(node)
    )
    other = {row[0]: int(row[1]) for row in connection.execute(not_ended)}
    for name, count in connection.execute(held):
        yield name, {"workloads": count, "ended": count - other.get(name, 0)}


def _row(key: str, values: dict[str, Any]) -> UsageRow:
    seen = values.get("seen_gpu_s", 0.0)
    used = values.get("used_gpu_s", 0.0)
    is_known = any(values.get(name) for name in STATE_SUMS)
    return UsageRow(
        key=key,
        allocated_gpu_s=values.get("allocated_gpu_s", 0.0),
        used_gpu_s=used if seen else None,
        idle_gpu_s=max(0.0, seen - used) if seen else None,
        over_quota_gpu_s=values.get("over_quota_gpu_s", 0.0),
        waiting_s=values.get("waiting_s", 0.0),
        workloads=values.get("workloads", 0),
        ended=values.get("ended", 0),
        preempted=values.get("preempted", 0),
        **{name: values.get(name, 0.0) if is_known else None for name in STATE_SUMS},
    )

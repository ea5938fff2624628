"""Reports of a period, with which people decide. REST, the dashboard and the command line share them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Float, Numeric, cast, func, literal, select

from weir.api.answers import UsageRow
from weir.api.history import EvictionRuleRow, HistoryReport, HistoryRow, WaitTimes
from weir.store.database.codec import mapping_of
from weir.store.database.database import ReadableDatabase
from weir.store.history.histogram import Histogram, rank, rounded_percentiles
from weir.store.history.workload_sums import QUOTA_MET, WorkloadSum, in_pieces, number_of
from weir.store.records import Retention
from weir.store.reports.period_sums import read_period
from weir.store.reports.scope import EVERYTHING, ReportScope
from weir.store.reports.usage import By, UsageReports, pieces
from weir.store.tables import COUNTED_EVENTS, events, uses, workloads

POINTS = 180
EXACT_MAX: Final = 10_000
"""Times of a report whose percentiles are exact; those of more, or of deleted records, are rounded."""
_ALL = "all"
_NO_SUM: Final = WorkloadSum()

Times = tuple[Mapping[str, WaitTimes], WaitTimes]
"""Percentiles by key, and of all together."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of an hour of a GPU, by the name of its node; None if no price is set."""

    currency: str | None = None
    of_node: Callable[[str], float | None] = lambda _: None


class HistoryReports:
    """Reports over a database."""

    def __init__(self, database: ReadableDatabase, retention: Retention, usage: UsageReports) -> None:
        self._database = database
        self._retention = retention
        self._usage = usage

    def report(
        self,
        since_s: float,
        until_s: float,
        by: By,
        *,
        now_s: float,
        prices: Prices | None = None,
        scope: ReportScope = EVERYTHING,
    ) -> HistoryReport:
        """Return the figures of a period for planning, of some workloads or of all."""
        prices = prices or Prices()
        usage = self._usage.report(since_s, until_s, by, now_s=now_s, scope=scope)
        period_pieces = pieces(since_s, until_s, now_s, self._retention)
        first, end = usage.since_s, usage.until_s

        def read(connection: Connection) -> _Facts:
            sums = read_period(connection, "type" if by == "node" else by, first, end, scope)
            waits = {name: total.waits for name, total in sums.by_key.items() if total.waits}
            reclaims = {name: total.reclaims for name, total in sums.by_key.items() if total.reclaims}
            return _Facts(
                _times(waits, by, partial(_exact_waits, connection, first, end, by, scope)),
                _times(reclaims, by, partial(_exact_reclaims, connection, first, end, by, scope)),
                {} if by == "node" else sums.by_key,
                sums.by_rule,
                _costs(connection, period_pieces, by, scope, prices) if prices.currency is not None else {},
            )

        facts = self._database.read(read)
        rows = _rows({row.key: row for row in usage.rows}, facts, prices)
        return HistoryReport(
            since_s=first,
            until_s=end,
            by=by,
            currency=prices.currency,
            rows=rows,
            total=_total(rows, facts, prices),
            rules=_by_rule(facts.by_rule),
            points=self._usage.chart(since_s, until_s, now_s=now_s, points=POINTS, scope=scope),
        )


@dataclass(frozen=True, slots=True)
class _Facts:
    waits: Times
    to_quota: Times
    sums: Mapping[str, WorkloadSum]
    by_rule: Mapping[str, WorkloadSum]
    costs: Mapping[str, float]


def percentiles(values: Iterable[float]) -> WaitTimes:
    """Return the nearest-rank percentiles of times."""
    ranked = sorted(values)
    if not ranked:
        return WaitTimes()
    p50_s, p90_s, p95_s = (ranked[rank(len(ranked), part)] for part in (50, 90, 95))
    return WaitTimes(count=len(ranked), p50_s=p50_s, p90_s=p90_s, p95_s=p95_s)


def _times(histograms: Mapping[str, Histogram], by: By, exact: Callable[[], Times]) -> Times:
    """Return exact percentiles if the times are few and still recorded, otherwise rounded ones."""
    total: Histogram = Counter()
    for counts in histograms.values():
        total.update(counts)
    if 0 < total.total() <= EXACT_MAX:
        by_key, together = exact()
        if together.count == total.total():
            return by_key, together
    rounded = (
        {} if by == "node" else {name: rounded_percentiles(counts) for name, counts in histograms.items()}
    )
    return rounded, rounded_percentiles(total)


def _exact_waits(connection: Connection, first: float, end: float, by: By, scope: ReportScope) -> Times:
    """Return the waits of workloads that first started in a period.

    The database counts equal tenths of a second: they are far fewer than workloads.
    """
    seconds = cast(
        workloads.c.first_started_s - workloads.c.submitted_s, Numeric
    )  # PostgreSQL rounds no floats
    wait = func.round(seconds, 1, type_=Float())
    key = _key(by)
    query = (
        select(wait, key, func.count())
        .where(
            workloads.c.first_started_s >= first,
            workloads.c.first_started_s < end,
            *scope.conditions(workloads),
        )
        .group_by(wait, key)
    )
    counts: defaultdict[str, Counter[float]] = defaultdict(Counter)
    together: Counter[float] = Counter()
    for wait_s, name, count in connection.execute(query):
        counts[name][max(0.0, float(wait_s))] += count
        together[max(0.0, float(wait_s))] += count
    by_key = {name: percentiles(own.elements()) for name, own in counts.items()}
    return {} if by == "node" else by_key, percentiles(together.elements())


def _exact_reclaims(connection: Connection, first: float, end: float, by: By, scope: ReportScope) -> Times:
    """Return how long owners waited for GPUs of their quota in a period."""
    query = (
        select(_key(by), events.c.numbers)
        .select_from(events.join(workloads, workloads.c.uid == events.c.uid))
        .where(COUNTED_EVENTS, events.c.kind == QUOTA_MET, events.c.at_s >= first, events.c.at_s < end)
        .where(*scope.conditions(workloads))
    )
    times: defaultdict[str, list[float]] = defaultdict(list)
    for name, text in connection.execute(query):
        times[name].append(number_of(mapping_of(text), "waited_s"))
    by_key = {name: percentiles(own) for name, own in times.items()}
    return {} if by == "node" else by_key, percentiles(time_s for own in times.values() for time_s in own)


def _key(by: By) -> ColumnElement[Any]:
    return literal("") if by == "node" else func.coalesce(workloads.c[by], "")


def _costs(
    connection: Connection,
    period_pieces: Sequence[tuple[int, int, int]],
    by: By,
    scope: ReportScope,
    prices: Prices,
) -> dict[str, float]:
    costs: defaultdict[str, float] = defaultdict(float)
    query = (
        select(uses.c[by], uses.c.node, func.sum(uses.c.allocated_gpu_s))
        .where(in_pieces(uses, period_pieces), uses.c.node != "", *scope.conditions(uses))
        .group_by(uses.c[by], uses.c.node)
    )
    for key, node, allocated_gpu_s in connection.execute(query) if period_pieces else ():
        price = prices.of_node(node)
        if price is not None:
            costs[key] += price * allocated_gpu_s / 3600
    return costs


def _rows(usage: Mapping[str, UsageRow], facts: _Facts, prices: Prices) -> list[HistoryRow]:
    waits, to_quota = facts.waits[0], facts.to_quota[0]
    evicted = [name for name, total in facts.sums.items() if total.evicted]
    rows = [
        HistoryRow(
            **dict(usage.get(key) or _no_usage(key)),
            waits=waits.get(key, WaitTimes()),
            to_quota=to_quota.get(key, WaitTimes()),
            evicted=facts.sums.get(key, _NO_SUM).evicted,
            lost_gpu_s=facts.sums.get(key, _NO_SUM).lost_gpu_s,
            cost=None if prices.currency is None else facts.costs.get(key, 0.0),
        )
        for key in dict.fromkeys([*usage, *waits, *evicted, *to_quota])
        if key or key in usage
    ]
    return sorted(rows, key=lambda row: (-row.allocated_gpu_s, -row.waiting_s, row.key))


def _no_usage(key: str) -> UsageRow:
    return UsageRow(
        key=key,
        allocated_gpu_s=0.0,
        used_gpu_s=None,
        idle_gpu_s=None,
        over_quota_gpu_s=0.0,
        waiting_s=0.0,
        workloads=0,
        ended=0,
        preempted=0,
    )


def _total(rows: Sequence[HistoryRow], facts: _Facts, prices: Prices) -> HistoryRow:
    seen = [row for row in rows if row.used_gpu_s is not None]
    return HistoryRow(
        key=_ALL,
        allocated_gpu_s=sum(row.allocated_gpu_s for row in rows),
        used_gpu_s=sum(row.used_gpu_s or 0.0 for row in seen) if seen else None,
        idle_gpu_s=sum(row.idle_gpu_s or 0.0 for row in seen) if seen else None,
        over_quota_gpu_s=sum(row.over_quota_gpu_s for row in rows),
        waiting_s=sum(row.waiting_s for row in rows),
        workloads=sum(row.workloads for row in rows),
        ended=sum(row.ended for row in rows),
        preempted=sum(row.preempted for row in rows),
        waits=facts.waits[1],
        to_quota=facts.to_quota[1],
        evicted=sum(total.evicted for total in facts.by_rule.values()),
        lost_gpu_s=sum(total.lost_gpu_s for total in facts.by_rule.values()),
        cost=None if prices.currency is None else sum(row.cost or 0.0 for row in rows),
    )


def _by_rule(sums: Mapping[str, WorkloadSum]) -> list[EvictionRuleRow]:
    return [
        EvictionRuleRow(rule=rule, count=total.evicted, lost_gpu_s=total.lost_gpu_s)
        for rule, total in sorted(sums.items(), key=lambda pair: (-pair[1].evicted, pair[0]))
        if total.evicted
    ]

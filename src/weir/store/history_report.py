"""Reports of a period, with which people decide. REST, the dashboard and the command line share them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Float, Numeric, cast, func, literal, select

from weir.api.answers import UsageRow
from weir.api.history import EvictionRuleRow, HistoryPoint, HistoryReport, HistoryRow, WaitTimes
from weir.model.reasons import EvictionRule
from weir.store.codec import mapping_of
from weir.store.database import Database
from weir.store.records import Retention, UsagePoint
from weir.store.tables import events, uses, workloads
from weir.store.usage import By, UsageReports, in_pieces, pieces

STOPPED, QUOTA_MET = "stopped", "quota_met"
EVENTS_MAX: Final = 200_000
"""Evictions and reclaims of one report, the newest ones."""
POINTS = 180
RULES: Final = frozenset((*(rule.value for rule in EvictionRule), "drained"))
"""Rules whose stops count as evictions."""
_ALL = "all"


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of an hour of a GPU, by the name of its node; None if no price is set."""

    currency: str | None = None
    of_node: Callable[[str], float | None] = lambda _: None


class HistoryReports:
    """Reports over a database."""

    def __init__(self, database: Database, retention: Retention, usage: UsageReports) -> None:
        self._database = database
        self._retention = retention
        self._usage = usage

    def report(self, since_s: float, until_s: float, now_s: float, by: By, prices: Prices) -> HistoryReport:
        """Return everything about a period."""
        usage = self._usage.report(since_s, until_s, now_s, by)
        found = pieces(since_s, until_s, now_s, self._retention)
        first, end = usage.since_s, usage.until_s

        def read(connection: Connection) -> _Facts:
            return _Facts(
                *_waits(connection, first, end, by),
                _events(connection, QUOTA_MET, first, end, by),
                _events(connection, STOPPED, first, end, by),
                _costs(connection, found, by, prices) if prices.currency is not None else {},
            )

        facts = self._database.read(read)
        rows = _rows({row.key: row for row in usage.rows}, facts, prices)
        points = self._usage.chart(
            since_s, until_s, now_s, points=POINTS, project=None, uid=None, device=None
        )
        return HistoryReport(
            since_s=first,
            until_s=end,
            by=by,
            currency=prices.currency,
            rows=rows,
            total=_total(rows, facts, prices),
            rules=_by_rule(facts.stops),
            points=[_point(point) for point in points],
        )


@dataclass(frozen=True, slots=True)
class _Facts:
    waits: Mapping[str, WaitTimes]
    all_waits: WaitTimes
    reclaims: Sequence[tuple[str, Mapping[str, Any]]]
    stops: Sequence[tuple[str, Mapping[str, Any]]]
    costs: Mapping[str, float]


def percentiles(values: Iterable[float]) -> WaitTimes:
    """Return the nearest-rank percentiles of times."""
    ranked = sorted(values)
    if not ranked:
        return WaitTimes()
    return WaitTimes(
        count=len(ranked), p50_s=ranked[_rank(len(ranked), 50)], p90_s=ranked[_rank(len(ranked), 90)]
    )


def _rank(count: int, percent: int) -> int:
    return (count * percent + 99) // 100 - 1


def _waits(
    connection: Connection, first: float, end: float, by: By
) -> tuple[dict[str, WaitTimes], WaitTimes]:
    """Return the waits of workloads that first started in a period, by key and of all together.

    The database counts equal tenths of a second, which are far fewer than workloads.
    """
    key: ColumnElement[Any] = literal("") if by == "node" else func.coalesce(workloads.c[by], "")
    seconds = cast(
        workloads.c.first_started_s - workloads.c.submitted_s, Numeric
    )  # PostgreSQL rounds no floats
    wait = func.round(seconds, 1, type_=Float())
    query = (
        select(wait, key, func.count())
        .where(workloads.c.first_started_s >= first, workloads.c.first_started_s < end)
        .group_by(wait, key)
    )
    counts: defaultdict[str, Counter[float]] = defaultdict(Counter)
    together: Counter[float] = Counter()
    for wait_s, name, count in connection.execute(query):
        counts[name][max(0.0, float(wait_s))] += count
        together[max(0.0, float(wait_s))] += count
    by_key = {name: _counted_percentiles(own) for name, own in counts.items()}
    return {} if by == "node" else by_key, _counted_percentiles(together)


def _counted_percentiles(counts: Mapping[float, int]) -> WaitTimes:
    """Return the nearest-rank percentiles of times, each with its number."""
    total = sum(counts.values())
    if not total:
        return WaitTimes()
    found: list[float] = []
    passed = 0
    for time_s in sorted(counts):
        passed += counts[time_s]
        while len(found) < 2 and passed > _rank(total, (50, 90)[len(found)]):
            found.append(time_s)
    return WaitTimes(count=total, p50_s=found[0], p90_s=found[1])


def _events(
    connection: Connection, kind: str, first: float, end: float, by: By
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the numbers of events of a kind in a period, each with its key."""
    key = literal("") if by == "node" else func.coalesce(workloads.c[by], "")
    query = (
        select(key, events.c.numbers)
        .select_from(events.join(workloads, workloads.c.uid == events.c.uid))
        .where(events.c.kind == kind, events.c.at_s >= first, events.c.at_s < end)
        .order_by(events.c.id.desc())
        .limit(EVENTS_MAX)
    )
    return [(name, mapping_of(text)) for name, text in connection.execute(query)]


def _costs(
    connection: Connection, found: Sequence[tuple[int, int, int]], by: By, prices: Prices
) -> dict[str, float]:
    costs: defaultdict[str, float] = defaultdict(float)
    query = (
        select(uses.c[by], uses.c.node, func.sum(uses.c.allocated_gpu_s))
        .where(in_pieces(uses, found), uses.c.node != "")
        .group_by(uses.c[by], uses.c.node)
    )
    for key, node, allocated_gpu_s in connection.execute(query) if found else ():
        price = prices.of_node(node)
        if price is not None:
            costs[key] += price * allocated_gpu_s / 3600
    return costs


def _number(numbers: Mapping[str, Any], name: str) -> float:
    value = numbers.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _lost(numbers: Mapping[str, Any]) -> float:
    return _number(numbers, "lost_s") * _number(numbers, "gpus")


def _is_eviction(numbers: Mapping[str, Any]) -> bool:
    return numbers.get("rule") in RULES


def _rows(usage: Mapping[str, UsageRow], facts: _Facts, prices: Prices) -> list[HistoryRow]:
    evicted: Counter[str] = Counter()
    lost: defaultdict[str, float] = defaultdict(float)
    times: defaultdict[str, list[float]] = defaultdict(list)
    for key, numbers in facts.stops:
        if _is_eviction(numbers):
            evicted[key] += 1
            lost[key] += _lost(numbers)
    for key, numbers in facts.reclaims:
        times[key].append(_number(numbers, "waited_s"))
    keys = dict.fromkeys([*usage, *facts.waits, *evicted, *times])
    rows = [
        HistoryRow(
            **dict(usage.get(key) or _no_usage(key)),
            waits=facts.waits.get(key, WaitTimes()),
            to_quota=percentiles(times[key]),
            evicted=evicted[key],
            lost_gpu_s=lost[key],
            cost=None if prices.currency is None else facts.costs.get(key, 0.0),
        )
        for key in keys
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
    stops = [numbers for _, numbers in facts.stops if _is_eviction(numbers)]
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
        waits=facts.all_waits,
        to_quota=percentiles(_number(numbers, "waited_s") for _, numbers in facts.reclaims),
        evicted=len(stops),
        lost_gpu_s=sum(_lost(numbers) for numbers in stops),
        cost=None if prices.currency is None else sum(row.cost or 0.0 for row in rows),
    )


def _by_rule(stops: Sequence[tuple[str, Mapping[str, Any]]]) -> list[EvictionRuleRow]:
    count: Counter[str] = Counter()
    lost: defaultdict[str, float] = defaultdict(float)
    for _, numbers in stops:
        if _is_eviction(numbers):
            rule = str(numbers["rule"])
            count[rule] += 1
            lost[rule] += _lost(numbers)
    return [
        EvictionRuleRow(rule=rule, count=number, lost_gpu_s=lost[rule])
        for rule, number in count.most_common()
    ]


def _point(point: UsagePoint) -> HistoryPoint:
    return HistoryPoint(
        at_s=point.at_s,
        span_s=point.span_s,
        allocated_gpu_s=point.allocated_gpu_s,
        used_gpu_s=point.used_gpu_s,
        over_quota_gpu_s=point.over_quota_gpu_s,
        waiting_s=point.waiting_s,
    )

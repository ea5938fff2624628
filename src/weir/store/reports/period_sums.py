"""Numbers of a period: sums of its whole days, and rows for the parts of days at its ends."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Column, ColumnElement, Connection, and_, func, not_, or_, select

from weir.store.database.codec import mapping_of
from weir.store.history.histogram import bucket_of
from weir.store.history.workload_sums import (
    EVICTION_RULES,
    RULE,
    STOPPED,
    WorkloadSum,
    counts_between,
    lost_gpu_s,
    number_of,
    sums_between,
    whole_days,
)
from weir.store.reports.scope import EVERYTHING, ReportScope
from weir.store.tables import COUNTED_EVENTS, IS_ARRAY, LIVE, MONTH, NOT_OVER, events, workloads

Kind = Literal["project", "department", "user", "type"]
Part = tuple[float, float]
_AHEAD_S = 1000 * MONTH
"""Length of a period that ends after everything that is stored."""

_ENDED_S = workloads.c.ended_s


@dataclass(frozen=True, slots=True)
class PeriodSums:
    """Sums of a period by key, and of its evictions by rule."""

    by_key: dict[str, WorkloadSum]
    by_rule: dict[str, WorkloadSum]


def read_period(
    connection: Connection, kind: Kind, first_s: float, end_s: float, scope: ReportScope = EVERYTHING
) -> PeriodSums:
    """Return the waits, evictions and reclaims of a period, live workloads' too.

    Those of some workloads are counted from their rows: the sums of days have one kind of key each.
    """
    pieces, parts = _divided(first_s, end_s, scope)
    by_key, by_rule = sums_between(connection, kind, pieces), sums_between(connection, RULE, pieces)
    if parts:
        _add_waits(connection, kind, by_key, _in(workloads.c.first_started_s, parts), scope)
        _add_events(connection, kind, by_key, by_rule, parts, scope)
    if pieces:
        days = min(piece[1] for piece in pieces), max(piece[2] for piece in pieces)
        is_live = and_(workloads.c.state == LIVE, _in(workloads.c.first_started_s, [days]))
        _add_waits(connection, kind, by_key, is_live)
    return PeriodSums(by_key, by_rule)


def workload_counts(
    connection: Connection, kind: Kind, first_s: float, end_s: float, scope: ReportScope = EVERYTHING
) -> Iterator[tuple[str, int, int]]:
    """Yield the number of workloads that were live in a period, and of those that ended in it, by key.

    The first is the number of live workloads, and of those that ended since `first_s`, less those that were
    submitted since `end_s`: a workload ends after its submission.
    """
    ended: defaultdict[str, int] = defaultdict(int)
    workloads_of: defaultdict[str, int] = defaultdict(int)
    pieces, parts = _divided(first_s, end_s, scope)
    days = [(name, count) for name, count, _ in counts_between(connection, kind, pieces)]
    for name, count in (*_counted(connection, kind, parts, _ENDED_S, scope), *days):
        ended[name] += count
        workloads_of[name] += count
    later, rest = _divided(end_s, (end_s + _AHEAD_S) // MONTH * MONTH, scope)
    for name, since, submitted in counts_between(connection, kind, later):
        workloads_of[name] += since - submitted
    for name, since in _counted(connection, kind, rest, _ENDED_S, scope):
        workloads_of[name] += since
    for name, submitted in _counted(connection, kind, rest, workloads.c.submitted_s, scope):
        workloads_of[name] -= submitted
    for name, live in _live(connection, kind, end_s, scope):
        workloads_of[name] += live
    for name, count in workloads_of.items():
        if count > 0 or ended[name]:
            yield name, max(count, ended[name]), ended[name]


def _divided(
    first_s: float, end_s: float, scope: ReportScope
) -> tuple[list[tuple[int, int, int]], list[Part]]:
    """Divide a period into sums of days and into the rest; of some workloads, all of it is rest."""
    if scope == EVERYTHING:
        return whole_days(first_s, end_s)
    return [], [(first_s, end_s)] if first_s < end_s else []


def _key(kind: Kind) -> ColumnElement[str]:
    return func.coalesce(workloads.c[kind], "")


def _in(column: Column[Any], parts: Sequence[Part]) -> ColumnElement[bool]:
    return or_(*(and_(column >= first, column < end) for first, end in parts))


def _counted(
    connection: Connection, kind: Kind, parts: Sequence[Part], column: Column[Any], scope: ReportScope
) -> Iterator[tuple[str, int]]:
    """Yield the number of ended workloads with a time in some parts, by key."""
    if parts:
        key = _key(kind)
        over = workloads.c.state.not_in(NOT_OVER), not_(IS_ARRAY)
        query = (
            select(key, func.count())
            .where(_in(column, parts), *over, *scope.conditions(workloads))
            .group_by(key)
        )
        yield from ((name, count) for name, count in connection.execute(query))


def _live(connection: Connection, kind: Kind, end_s: float, scope: ReportScope) -> Iterator[tuple[str, int]]:
    key = _key(kind)
    conditions = workloads.c.state == LIVE, workloads.c.submitted_s < end_s, *scope.conditions(workloads)
    query = select(key, func.count()).where(*conditions).group_by(key)
    yield from ((name, count) for name, count in connection.execute(query))


def _add_waits(
    connection: Connection,
    kind: Kind,
    by_key: defaultdict[str, WorkloadSum],
    where: ColumnElement[bool],
    scope: ReportScope = EVERYTHING,
) -> None:
    query = select(_key(kind), workloads.c.first_started_s - workloads.c.submitted_s).where(
        where, *scope.conditions(workloads)
    )
    for name, wait_s in connection.execute(query):
        by_key[name].waits[bucket_of(wait_s)] += 1


def _add_events(
    connection: Connection,
    kind: Kind,
    by_key: defaultdict[str, WorkloadSum],
    by_rule: defaultdict[str, WorkloadSum],
    parts: Sequence[Part],
    scope: ReportScope,
) -> None:
    query = (
        select(_key(kind), events.c.kind, events.c.numbers)
        .select_from(events.join(workloads, workloads.c.uid == events.c.uid))
        .where(COUNTED_EVENTS, _in(events.c.at_s, parts), *scope.conditions(workloads))
    )
    for name, event, text in connection.execute(query):
        numbers = mapping_of(text)
        if event != STOPPED:
            by_key[name].reclaims[bucket_of(number_of(numbers, "waited_s"))] += 1
        elif numbers.get("rule") in EVICTION_RULES:
            for into in (by_key[name], by_rule[str(numbers["rule"])]):
                into.evicted += 1
                into.lost_gpu_s += lost_gpu_s(numbers)

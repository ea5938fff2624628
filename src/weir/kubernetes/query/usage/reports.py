"""Reports over the last hours: the answers for `weir report`."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate
from statistics import quantiles
from typing import Any, Literal, get_args

from weir.api.answers import QueueRow, UsageReport, UsageRow
from weir.api.comma_lists import comma_words
from weir.api.history import By, EvictionRuleRow, HistoryPoint, HistoryReport, HistoryRow, WaitTimes
from weir.kubernetes.query.aggregation.refusals import QueryRefused
from weir.kubernetes.query.usage.nodes import on_nodes
from weir.kubernetes.query.usage.past_workloads import UsageHistoryEntry
from weir.kubernetes.query.usage.recent_usage import (
    KEPT_S,
    WORKLOADS_MAX,
    RecentUsage,
    evictions_between,
    over_quota_s,
    over_quota_spans,
    quota_of,
)

POINT_S = 300.0
ClusterBy = Literal["project", "department", "user", "type", "node"]
_KEYS: tuple[ClusterBy, ...] = get_args(ClusterBy)
RECENT_KEYS: frozenset[ClusterBy] = frozenset(("node",))
"""Keys of reports that a database doesn't keep: their sums would be too many."""


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """A report: a period, the kind of its rows, and its workloads, by default all.

    No namespace and no projects choose all.
    """

    since_s: float
    until_s: float
    by: ClusterBy
    namespace: str = ""
    projects: Sequence[str] = ()

    def takes(self, past: UsageHistoryEntry) -> bool:
        """Return True if the report counts a workload."""
        return self.namespace in ("", past.namespace) and (not self.projects or past.project in self.projects)

    @property
    def is_recent_alone(self) -> bool:
        """Return True if no database answers it."""
        return self.by in RECENT_KEYS


def report_request(
    params: Mapping[str, str],
    number: Callable[[str, float], float],
    now_s: float,
    namespace: str,
    kept_s: float = KEPT_S,
) -> ReportRequest:
    """Return the report that a request asks for, within the time that is known.

    Raises:
        QueryRefused: a parameter can't be used.
    """
    by: Any = params.get("by", "project")
    if by in get_args(By) and by not in _KEYS:
        raise QueryRefused(
            422,
            f"by: a cluster's history is by {', '.join(_KEYS)}: the objects of workloads, from which it is "
            f"read, don't state a {by}.",
        )
    if by not in _KEYS:
        raise QueryRefused(422, f"by: {by[:100]!r} is none of {', '.join(_KEYS)}.")
    since_s, until_s = number("since", now_s - KEPT_S), number("until", now_s)
    oldest_s = now_s - (KEPT_S if by in RECENT_KEYS else kept_s)
    since_s, until_s = min(now_s, max(oldest_s, since_s)), min(now_s, max(oldest_s, until_s))
    projects = comma_words(params.get("project"))
    return ReportRequest(min(since_s, until_s), until_s, by, namespace, projects)


def recent_part(request: ReportRequest, now_s: float) -> ReportRequest:
    """Return the request for the last KEPT_S seconds of a report: the part whose usage is in memory."""
    oldest_s = now_s - KEPT_S
    since_s, until_s = max(oldest_s, request.since_s), max(oldest_s, request.until_s)
    return replace(request, since_s=since_s, until_s=until_s)


def note_of(usage: RecentUsage, request: ReportRequest, *, has_database: bool) -> str:
    """Return how far back the history goes, in a sentence."""
    sentence = "A cluster without a database has a history of the last 6 hours."
    if has_database and request.is_recent_alone:
        sentence = f"The history by {request.by} goes back 6 hours."
    if request.since_s < usage.complete_s:
        full = datetime.fromtimestamp(usage.complete_s, UTC)
        return (
            f"{sentence} It has {WORKLOADS_MAX:,} workloads at most: some that ended before "
            f"{full:%H:%M} UTC are missing."
        )
    if request.since_s >= usage.began_s:
        return sentence
    return f"{sentence} Workloads that were deleted before Weir was started are missing."


def usage_report(
    past: Sequence[UsageHistoryEntry], queues: Mapping[str, QueueRow], request: ReportRequest, note: str
) -> UsageReport:
    """Return the use of GPUs by one kind of key."""
    rows = [UsageRow(key=key, **sums) for key, _, sums in _with_sums(past, queues, request)]
    return UsageReport(since_s=request.since_s, until_s=request.until_s, by=request.by, rows=rows, note=note)


def history_report(
    past: Sequence[UsageHistoryEntry], queues: Mapping[str, QueueRow], request: ReportRequest, note: str
) -> HistoryReport:
    """Return use, waits and evictions by one kind of key."""
    selected = [entry for entry in past if request.takes(entry)]
    since_s, until_s = request.since_s, request.until_s
    rules: defaultdict[str, list[float]] = defaultdict(list)
    for eviction in evictions_between(selected, since_s, until_s):
        rules[eviction.rule].append(eviction.lost_gpu_s or 0.0)
    return HistoryReport(
        since_s=since_s,
        until_s=until_s,
        by=request.by,
        rows=[
            _history_row(key, entries, sums, request)
            for key, entries, sums in _with_sums(past, queues, request)
        ],
        total=_history_row("total", past, _sums(past, queues, request), request),
        rules=[
            EvictionRuleRow(rule=rule, count=len(lost), lost_gpu_s=sum(lost))
            for rule, lost in sorted(rules.items())
        ],
        points=_points(past, queues, request),
        note=note,
    )


def _with_sums(
    past: Sequence[UsageHistoryEntry], queues: Mapping[str, QueueRow], request: ReportRequest
) -> Iterator[tuple[str, list[UsageHistoryEntry], dict[str, Any]]]:
    """Yield each key with its workloads and sums. A node has its part of its projects' time over quota."""
    over: dict[str, float] = {}
    if request.by == "node":
        for row in usage_report(past, queues, replace(request, by="project"), "").rows:
            over[row.key] = row.over_quota_gpu_s / row.allocated_gpu_s if row.allocated_gpu_s else 0.0
    for key, entries in _grouped(past, queues, request):
        sums = _sums(entries, queues, request)
        if request.by == "node":
            sums["over_quota_gpu_s"] = sum(
                over.get(one.project, 0.0) * span.gpus * (end_s - from_s)
                for one in entries
                for from_s, end_s, span in one.between(request.since_s, request.until_s)
            )
        yield key, entries, sums


def _grouped(
    past: Sequence[UsageHistoryEntry], queues: Mapping[str, QueueRow], request: ReportRequest
) -> list[tuple[str, list[UsageHistoryEntry]]]:
    """Return the workloads by key: those keys that the namespace of the request has used."""
    if request.by == "node":
        by_node = on_nodes(entry for entry in past if request.takes(entry))
        within = request.since_s, request.until_s
        return [
            (key, by_node[key])
            for key in sorted(by_node)
            if any(entry.is_within(*within) for entry in by_node[key])
        ]
    groups: dict[str, list[UsageHistoryEntry]] = {}
    used = set()
    for entry in past:
        key = _key(entry, queues, request.by)
        groups.setdefault(key, []).append(entry)
        if request.takes(entry) and entry.is_within(request.since_s, request.until_s):
            used.add(key)
    return [(key, groups[key]) for key in sorted(used)]


def _key(past: UsageHistoryEntry, queues: Mapping[str, QueueRow], by: ClusterBy) -> str:
    if by == "type":
        return past.type
    if by == "user":
        return past.user or "-"
    if by == "project":
        return past.project
    row = queues.get(past.project)
    return (row.parent if row is not None else None) or "-"


def _sums(
    past: Sequence[UsageHistoryEntry], queues: Mapping[str, QueueRow], request: ReportRequest
) -> dict[str, Any]:
    since_s, until_s = request.since_s, request.until_s
    selected = [entry for entry in past if request.takes(entry)]
    spans = [part for entry in selected for part in entry.between(since_s, until_s)]
    measured = [entry.measured(since_s, until_s) for entry in selected]
    seen_gpu_s, used_gpu_s = (sum(sums) for sums in zip(*measured, strict=True)) if measured else (0.0, 0.0)
    return {
        "allocated_gpu_s": sum(span.gpus * (end_s - start_s) for start_s, end_s, span in spans),
        "used_gpu_s": used_gpu_s if seen_gpu_s else None,
        "idle_gpu_s": max(0.0, seen_gpu_s - used_gpu_s) if seen_gpu_s else None,
        "over_quota_gpu_s": sum(
            over_quota_s(entries, quota_of(queues, project), since_s, until_s, request.takes)
            for project, entries in _by_project(past).items()
        ),
        "waiting_s": sum(end_s - start_s for start_s, end_s, span in spans if span.waits),
        "workloads": sum(entry.is_within(since_s, until_s) for entry in selected),
        "ended": sum(entry.ended_s is not None and since_s <= entry.ended_s < until_s for entry in selected),
        "preempted": sum(1 for _ in evictions_between(selected, since_s, until_s)),
    }


def _history_row(
    key: str, past: Sequence[UsageHistoryEntry], sums: Mapping[str, Any], request: ReportRequest
) -> HistoryRow:
    waits = sorted(
        entry.first_started_s - entry.submitted_s
        for entry in past
        if request.takes(entry)
        and entry.first_started_s is not None
        and request.since_s <= entry.first_started_s < request.until_s
    )
    selected = [entry for entry in past if request.takes(entry)]
    evictions = list(evictions_between(selected, request.since_s, request.until_s))
    lost_gpu_s = sum(eviction.lost_gpu_s or 0.0 for eviction in evictions)
    return HistoryRow(
        key=key, **sums, waits=_wait_times(waits), evicted=len(evictions), lost_gpu_s=lost_gpu_s
    )


def _wait_times(waits: Sequence[float]) -> WaitTimes:
    if not waits:
        return WaitTimes()
    parts = quantiles(waits, n=20, method="inclusive") if len(waits) > 1 else [waits[0]] * 19
    p50_s, p90_s, p95_s = (max(0.0, parts[index]) for index in (9, 17, 18))
    return WaitTimes(count=len(waits), p50_s=p50_s, p90_s=p90_s, p95_s=p95_s)


def _points(
    past: Sequence[UsageHistoryEntry], queues: Mapping[str, QueueRow], request: ReportRequest
) -> list[HistoryPoint]:
    """Return the curves of all workloads, in steps of some minutes."""
    since_s, until_s = request.since_s, request.until_s
    length_s = until_s - since_s
    count = max(0, math.ceil(length_s / POINT_S))
    allocated, used, over, waiting = (_Curve(count) for _ in range(4))
    for entry in past:
        if not request.takes(entry):
            continue
        for start_s, end_s, span in entry.between(since_s, until_s):
            if span.gpus:
                allocated.add(start_s - since_s, end_s - since_s, span.gpus)
            if span.waits:
                waiting.add(start_s - since_s, end_s - since_s, 1.0)
        for start_s, end_s, gpus in entry.used_spans(since_s, until_s):
            used.add(start_s - since_s, end_s - since_s, gpus)
    for project, each_past in _by_project(past).items():
        quota = quota_of(queues, project)
        for start_s, end_s, gpus in over_quota_spans(each_past, quota, since_s, until_s, request.takes):
            over.add(start_s - since_s, end_s - since_s, gpus)
    curves = zip(allocated.sums(), used.sums(), over.sums(), waiting.sums(), strict=True)
    return [
        HistoryPoint(
            at_s=since_s + index * POINT_S,
            span_s=min(POINT_S, length_s - index * POINT_S),
            allocated_gpu_s=allocated_gpu_s,
            used_gpu_s=used_gpu_s,
            over_quota_gpu_s=over_quota_gpu_s,
            waiting_s=waiting_s,
        )
        for index, (allocated_gpu_s, used_gpu_s, over_quota_gpu_s, waiting_s) in enumerate(curves)
    ]


def _by_project(past: Sequence[UsageHistoryEntry]) -> dict[str, list[UsageHistoryEntry]]:
    """Return the workloads of each project."""
    by_project: dict[str, list[UsageHistoryEntry]] = {}
    for entry in past:
        by_project.setdefault(entry.project, []).append(entry)
    return by_project


class _Curve:
    """Sums of amounts over time by point. A span costs the same, however many points it covers."""

    def __init__(self, count: int) -> None:
        self._parts = [0.0] * (count + 1)  # sums over a part of a point
        self._changes = [0.0] * (count + 1)  # changes of the amount for whole points

    def add(self, from_s: float, until_s: float, amount: float) -> None:
        """Add an amount between two times, counted from the start of the curve."""
        first, last = int(from_s // POINT_S), int(until_s // POINT_S)
        parts, changes = self._parts, self._changes
        if first == last:
            parts[first] += amount * (until_s - from_s)
            return
        parts[first] += amount * ((first + 1) * POINT_S - from_s)
        parts[last] += amount * (until_s - last * POINT_S)
        changes[first + 1] += amount
        changes[last] -= amount

    def sums(self) -> list[float]:
        """Return the sum of each point."""
        lasting = accumulate(self._changes)
        sums = [part + amount * POINT_S for part, amount in zip(self._parts, lasting, strict=True)]
        return sums[:-1]

"""Use of GPUs in the last hours, from the objects of workloads: a history without a database.

Each workload has a few spans of time, in which it waited or held GPUs. The objects themselves state their
times, so that a replica that has just begun knows the past of every workload whose object is still there.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from weir.api.answers import QueueRow
from weir.kubernetes.api.object_numbers import at_s
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.usage.nodes import gpus_by_node
from weir.kubernetes.query.usage.past_workloads import USE_S, PastEviction, UsageHistoryEntry, UsageSpan
from weir.kubernetes.query.workloads.index import WorkloadIndexEntry
from weir.kubernetes.query.workloads.rows import gpus_of, phase_status
from weir.kubernetes.usage.cluster_use import ClusterUse

KEPT_S = 6 * 3600.0
WORKLOADS_MAX = 50_000
COPIED_AT_ONCE = 500
"""Number of workloads whose past is copied before the event loop continues."""
SPANS_MAX = 64
"""Spans of a workload; earlier ones are merged."""
_WAITS, _HOLDS = frozenset(("pending",)), frozenset(("starting", "running", "stopping"))


class RecentUsage:
    """The past of all workloads by their identity. All calls are on the event loop."""

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        self.unstored_s: float | None = None
        """Time from which the past isn't in a database yet; None if that doesn't matter."""
        self.complete_s = 0.0
        """Time before which workloads ended that had to be forgotten early."""
        self._past: dict[str, UsageHistoryEntry] = {}
        self._identities: dict[str, str] = {}  # uids of present workloads, by key

    def __len__(self) -> int:
        return len(self._past)

    def changed(self, key: str, workload: WorkloadIndexEntry | None, now_s: float) -> None:
        """Process the present state of a workload; None: its object was deleted."""
        identity = self._identities.get(key)
        if identity is not None and (workload is None or workload.identity != identity):
            del self._identities[key]
            past = self._past.get(identity)
            if past is not None and past.ended_s is None:
                past.ended_s = now_s
                _add(past, UsageSpan(now_s, 0.0, waits=False))
        if workload is None:
            return
        self._identities[key] = workload.identity
        entry = self._past.get(workload.identity)
        if entry is None:
            if len(self._past) >= WORKLOADS_MAX:
                self._make_way(now_s)
            if len(self._past) >= WORKLOADS_MAX:
                return
            self._past[workload.identity] = _first(workload, now_s)
        else:
            _update(entry, workload.object, now_s)

    def first_started_s(self, identity: str) -> float | None:
        """Return when a workload first started, from any thread; None if that isn't known."""
        past = self._past.get(identity)
        return None if past is None else past.first_started_s

    def used(self, use: ClusterUse) -> None:
        """Add the measured use of devices since the last reading."""
        at_s = int(use.at_s // USE_S) * USE_S
        oldest_s = use.at_s - KEPT_S
        for key, measured in use.workloads.items():
            past = self._past.get(self._identities.get(key, ""))
            if past is None or not measured.seen_s:
                continue
            seen_s, used_s = past.uses.get(at_s, (0.0, 0.0))
            past.uses[at_s] = seen_s + measured.seen_s, used_s + measured.used_s
            for old_s in [old_s for old_s in past.uses if old_s < oldest_s]:
                del past.uses[old_s]

    def _make_way(self, now_s: float) -> None:
        """Forget old workloads, or else some of those that ended first."""
        self._forget(now_s)
        if len(self._past) < WORKLOADS_MAX:
            return
        over = sorted((past.ended_s, uid) for uid, past in self._past.items() if past.ended_s is not None)
        for ended_s, uid in over[: max(1, WORKLOADS_MAX // 10)]:
            del self._past[uid]
            self.complete_s = max(self.complete_s, ended_s)

    def _forget(self, now_s: float, unstored_s: float | None = None) -> None:
        """Forget workloads that have been over for long enough."""
        oldest_s = min(now_s - KEPT_S, now_s if unstored_s is None else unstored_s)
        for uid, past in list(self._past.items()):
            if past.ended_s is not None and past.ended_s < oldest_s:
                del self._past[uid]

    async def copied(self, since_s: float, now_s: float) -> list[UsageHistoryEntry]:
        """Return the past of the workloads that were not over at a time.

        The event loop goes on meanwhile: a copy of the past of all workloads takes a second.
        """
        self._forget(now_s, self.unstored_s)
        kept, copies = list(self._past.values()), list[UsageHistoryEntry]()
        for start in range(0, len(kept), COPIED_AT_ONCE):
            few = kept[start : start + COPIED_AT_ONCE]
            copies += [_copy(past) for past in few if past.ended_s is None or past.ended_s > since_s]
            await asyncio.sleep(0)
        return copies


def _copy(past: UsageHistoryEntry) -> UsageHistoryEntry:
    return replace(past, spans=[*past.spans], evictions=[*past.evictions], uses={**past.uses})


def quota_of(queues: Mapping[str, QueueRow], project: str) -> float:
    """Return the quota of GPUs of a project; infinity if it has none."""
    row = queues.get(project)
    return math.inf if row is None else row.quota.get("gpu", math.inf)


def over_quota_s(
    past: Sequence[UsageHistoryEntry],
    quota: float,
    since_s: float,
    until_s: float,
    is_mine: Callable[[UsageHistoryEntry], bool],
) -> float:
    """Return the GPU seconds above a project's quota; of some workloads, their part by their usage."""
    spans = over_quota_spans(past, quota, since_s, until_s, is_mine)
    return sum(gpus * (end_s - start_s) for start_s, end_s, gpus in spans)


def over_quota_spans(
    past: Sequence[UsageHistoryEntry],
    quota: float,
    since_s: float,
    until_s: float,
    is_mine: Callable[[UsageHistoryEntry], bool],
) -> Iterator[tuple[float, float, float]]:
    """Yield the start, the end and the GPUs of each time above a project's quota."""
    steps: list[tuple[float, float, float]] = []  # time, change of all, change of those
    for entry in past:
        for start_s, end_s, span in entry.between(since_s, until_s):
            if span.gpus:
                own_gpus = span.gpus if is_mine(entry) else 0.0
                steps += [(start_s, span.gpus, own_gpus), (end_s, -span.gpus, -own_gpus)]
    steps.sort(key=lambda step: step[0])
    held = mine_held = 0.0
    before_s = since_s
    for time_s, change, own_gpus in steps:
        if held > quota and time_s > before_s:
            yield before_s, time_s, (held - quota) * (mine_held / held)
        held, mine_held, before_s = held + change, mine_held + own_gpus, time_s


def _first(workload: WorkloadIndexEntry, now_s: float) -> UsageHistoryEntry:
    """Return the past of a workload as its object states it."""
    workload_object, status = workload.object, phase_status(workload.object)
    submitted_s = at_s(workload_object.status.submitted_at) or at_s(workload.created) or now_s
    started_s, ended_s = at_s(workload_object.status.started_at), at_s(workload_object.status.ended_at)
    past = UsageHistoryEntry(
        workload.namespace,
        workload_object.spec.project or "-",
        workload_object.spec.type or "train",
        submitted_s,
    )
    past.user = workload_object.spec.user
    past.spans = [UsageSpan(submitted_s, 0.0, waits=True)]
    if started_s is not None:
        past.first_started_s = started_s
        gpus = gpus_of(workload_object)
        _add(past, UsageSpan(started_s, gpus, waits=False, nodes=gpus_by_node(workload_object, gpus)))
    if status not in _WAITS | _HOLDS:
        past.ended_s = ended_s or now_s
        _add(past, UsageSpan(past.ended_s, 0.0, waits=False))
    elif status in _WAITS and started_s is not None:
        evicted = workload_object.status.last_eviction
        since_s = (
            at_s(workload_object.status.since) or (None if evicted is None else at_s(evicted.at)) or now_s
        )
        _add(past, UsageSpan(since_s, 0.0, waits=True))
    elif status in _HOLDS and started_s is None:
        past.first_started_s = now_s
        _add(past, _holding(workload_object, now_s))
    _note_eviction(past, workload_object)
    return past


def _update(past: UsageHistoryEntry, workload_object: WorkloadObject, now_s: float) -> None:
    status = phase_status(workload_object)
    if status in _HOLDS:
        if past.first_started_s is None:
            past.first_started_s = at_s(workload_object.status.started_at) or now_s
        past.ended_s = None
        _add(past, _holding(workload_object, now_s))
    elif status in _WAITS:
        past.ended_s = None
        _add(past, UsageSpan(now_s, 0.0, waits=True))
    else:
        past.ended_s = past.ended_s or at_s(workload_object.status.ended_at) or now_s
        _add(past, UsageSpan(past.ended_s, 0.0, waits=False))
    _note_eviction(past, workload_object)


def _holding(workload_object: WorkloadObject, now_s: float) -> UsageSpan:
    gpus = _held(workload_object)
    return UsageSpan(now_s, gpus, waits=False, nodes=gpus_by_node(workload_object, gpus))


def _held(workload_object: WorkloadObject) -> float:
    """Return the GPUs of a workload's running pods, as a part of all its GPUs."""
    status, gpus = workload_object.status, gpus_of(workload_object)
    if status.phase == "Running" and 0 < status.pods_running < status.pods:
        return gpus * status.pods_running / status.pods
    return gpus


def _note_eviction(past: UsageHistoryEntry, workload_object: WorkloadObject) -> None:
    last = workload_object.status.last_eviction
    if last is None:
        return
    eviction = PastEviction(at_s(last.at) or 0.0, last.rule, last.lost_gpu_seconds)
    before = past.evictions
    if before and (before[-1].at_s, before[-1].rule) == (eviction.at_s, eviction.rule):
        before = before[:-1]  # the same eviction with new figures, after a later checkpoint report
    past.evictions = [*before[-SPANS_MAX:], eviction]


def _add(past: UsageHistoryEntry, span: UsageSpan) -> None:
    """Add a span unless it is the last one still; times that objects state never run backwards."""
    last = past.spans[-1]
    if (span.gpus, span.waits, span.nodes) == (last.gpus, last.waits, last.nodes):
        return
    past.spans.append(replace(span, from_s=max(span.from_s, last.from_s)))
    if len(past.spans) > SPANS_MAX:
        del past.spans[0]


def evictions_between(
    past: Iterable[UsageHistoryEntry], since_s: float, until_s: float
) -> Iterator[PastEviction]:
    """Yield the evictions in a period."""
    for entry in past:
        yield from (eviction for eviction in entry.evictions if since_s <= eviction.at_s < until_s)

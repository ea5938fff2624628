"""Use of GPUs in a period as rows for the database, from the past that a replica has in memory."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from weir.api.answers import QueueRow
from weir.kubernetes.query.usage.past_workloads import USE_S, UsageHistoryEntry
from weir.kubernetes.query.usage.recent_usage import evictions_between, over_quota_s, quota_of
from weir.store.records import UsageSample, UsageSamples

STEP_S = float(USE_S)
"""Times of samples are multiples of this: measured use is summed over it."""
HOUR_S = 3600.0

Group = tuple[str, str, str, str, str]
"""Project, department, namespace, type, user."""


def sample_periods(since_s: float, until_s: float) -> Iterator[tuple[float, float]]:
    """Divide a time into periods, each within one hour."""
    while since_s < until_s:
        end_s = min(until_s, (since_s // HOUR_S + 1) * HOUR_S)
        yield since_s, end_s
        since_s = end_s


def usage_samples(
    past: Sequence[UsageHistoryEntry], queues: Mapping[str, QueueRow], since_s: float, until_s: float
) -> UsageSamples:
    """Return the usage of a period."""
    within = [entry for entry in past if entry.is_within(since_s, until_s) or entry.uses]
    groups: dict[Group, list[UsageHistoryEntry]] = defaultdict(list)
    projects: dict[str, list[UsageHistoryEntry]] = defaultdict(list)
    for entry in within:
        row = queues.get(entry.project)
        department = (row.parent if row is not None else None) or ""
        groups[entry.project, department, entry.namespace, entry.type, entry.user].append(entry)
        projects[entry.project].append(entry)
    held = {key: _held(entries, since_s, until_s) for key, entries in groups.items()}
    by_namespace: dict[tuple[str, str], float] = defaultdict(float)
    for (project, _, namespace, _, _), gpu_s in held.items():
        by_namespace[project, namespace] += gpu_s
    over = {
        key: over_quota_s(
            projects[key[0]], quota_of(queues, key[0]), since_s, until_s, partial(_is_in, key[1])
        )
        for key, gpu_s in by_namespace.items()
        if gpu_s
    }
    samples = []
    for key, entries in groups.items():
        whole = by_namespace[key[0], key[2]]
        part = held[key] / whole if whole else 0.0
        samples.append(
            _sample(key, entries, since_s, until_s, held[key], part * over.get((key[0], key[2]), 0.0))
        )
    return UsageSamples(since_s, until_s, [sample for sample in samples if sample is not None])


def _sample(
    group: Group,
    entries: Sequence[UsageHistoryEntry],
    since_s: float,
    until_s: float,
    held_gpu_s: float,
    over_gpu_s: float,
) -> UsageSample | None:
    seen = used = waiting_s = 0.0
    for entry in entries:
        for at_s, (seen_gpu_s, used_gpu_s) in entry.uses.items():
            if since_s <= at_s < until_s:
                seen += seen_gpu_s
                used += used_gpu_s
        waiting_s += sum(
            end_s - start_s for start_s, end_s, span in entry.between(since_s, until_s) if span.waits
        )
    preempted = sum(1 for _ in evictions_between(entries, since_s, until_s))
    if not (held_gpu_s or seen or waiting_s or preempted):
        return None
    project, department, namespace, type_, user = group
    return UsageSample(
        project,
        department,
        user,
        type_,
        "",
        allocated_gpu_s=held_gpu_s,
        seen_gpu_s=seen,
        used_gpu_s=used,
        over_quota_gpu_s=over_gpu_s,
        waiting_s=waiting_s,
        preempted=preempted,
        namespace=namespace,
    )


def _held(entries: Sequence[UsageHistoryEntry], since_s: float, until_s: float) -> float:
    return sum(
        span.gpus * (end_s - start_s)
        for entry in entries
        for start_s, end_s, span in entry.between(since_s, until_s)
    )


def _is_in(namespace: str, past: UsageHistoryEntry) -> bool:
    return past.namespace == namespace

"""Suggestions that change the claim: priority, preemptibility, another project, a larger quota."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from weir.api.answers import Suggestion
from weir.model.queues import Queue
from weir.model.resources import GPU, written
from weir.model.workloads import PREEMPTIBLE_BELOW, WHOLE_MILLI
from weir.service.suggestion_phrases import starts, suggestion
from weir.service.what_if import WhatIf
from weir.state.cluster import Cluster
from weir.state.shapes import GPU_ROW

CLASSES_TRIED_MAX = 6
"""Limit of priority classes that are tried."""
PROJECTS_TRIED_MAX = 4
"""Limit of other projects that are tried, those with most quota left first."""


def as_preemptible(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest to make the workload preemptible."""
    spec = trials.job.spec
    if spec.preemptible:
        return
    outcome = trials.tried(replace(spec, preemptible=True))
    if outcome is not None:
        sentence = f"If it may be preempted, {starts(outcome)}"
        yield suggestion(sentence, {"preemptible": True}, outcome)


def with_priority(trials: WhatIf, highest: int) -> Iterator[Suggestion]:
    """Suggest a priority above those of all other work in its project."""
    job = trials.job
    priority = trials.read(partial(_highest_priority, name=trials.name)) + 1
    if not job.spec.priority < priority <= highest:
        return
    outcome = trials.tried(replace(job.spec, priority=priority))
    if outcome is not None:
        sentence = f"With priority {priority} instead of {job.spec.priority} {starts(outcome)}"
        change = {"priority": priority, "preemptible": job.spec.preemptible}
        yield suggestion(sentence, change, outcome)


def _highest_priority(cluster: Cluster, name: str) -> int:
    """Return the highest priority of the work that a workload competes with in its project."""
    job = cluster.jobs[name]
    running = cluster.running.get(job.project, {}).values()
    pending = [
        member for queued in cluster.waiting_of.get(job.project, ()) for _, _, member in queued.members
    ]
    return max([other.priority for other in (*running, *pending) if other is not job], default=job.priority)


def with_class(trials: WhatIf, priorities: tuple[int, ...]) -> Iterator[Suggestion]:
    """Suggest the lowest existing priority that lets the workload start, without regard to side effects."""
    job = trials.job
    higher = sorted(priority for priority in priorities if priority > job.spec.priority)
    for priority in higher[:CLASSES_TRIED_MAX]:
        # a priority class may set preemptibility, if the workload doesn't
        outcomes = [
            trials.tried(replace(job.spec, priority=priority, preemptible=preemptible))
            for preemptible in {job.spec.preemptible, priority < PREEMPTIBLE_BELOW}
        ]
        outcome = outcomes[0]
        if outcome is not None and all(result is not None for result in outcomes):
            sentence = f"With priority {priority} instead of {job.spec.priority} {starts(outcome)}"
            yield suggestion(sentence, {"priority": priority}, outcome)
            return


def in_other_project(trials: WhatIf, projects: Sequence[str]) -> Iterator[Suggestion]:
    """Suggest another project of the requester, that with most quota left first."""
    spec = trials.job.spec
    others = [name for name in projects if name != spec.project]
    used = trials.read(partial(_over_quota_by, projects=others)) if others else []
    for _, name in sorted(used)[:PROJECTS_TRIED_MAX]:
        outcome = trials.tried(replace(spec, project=name))
        if outcome is not None:
            sentence = f"In project {name} instead of {spec.project} {starts(outcome)}"
            yield suggestion(sentence, {"project": name}, outcome)
            return


def _over_quota_by(cluster: Cluster, projects: Sequence[str]) -> list[tuple[int, str]]:
    """Return the GPUs that projects hold beyond their quota, negative if some of it is left."""
    ledger = cluster.ledger
    positions = [(ledger.position[name], name) for name in projects if name in ledger.position]
    return [
        (ledger.allocated[position][GPU_ROW] - ledger.quota[position][GPU_ROW], name)
        for position, name in positions
    ]


def with_quota(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest the quota, and if necessary the limit, that would cover the workload in its project."""
    queue, request, needed = trials.read(partial(_quota_needed, name=trials.name))
    quota, limit = queue.quota.get(GPU, 0), queue.limit.get(GPU)
    if not request or needed <= quota:
        return
    changed = replace(queue, quota={**queue.quota, GPU: needed})
    change: dict[str, object] = {"quota": {queue.name: needed // WHOLE_MILLI}}
    also = ""
    if limit is not None and limit < needed:
        changed = replace(changed, limit={**queue.limit, GPU: needed})
        change["limit"] = {queue.name: needed // WHOLE_MILLI}
        also = " and its limit"
    outcome = trials.tried(trials.job.spec, queue=changed)
    if outcome is not None:
        amounts = f"{written(GPU, needed)} GPUs instead of {written(GPU, quota)}"
        sentence = f"With a quota{also} of {amounts} for project {queue.name} {starts(outcome)}"
        yield suggestion(sentence, change, outcome)


def _quota_needed(cluster: Cluster, name: str) -> tuple[Queue, int, int]:
    """Return a workload's project, the GPUs that it requests next, and the quota that covers them."""
    ledger, job = cluster.ledger, cluster.jobs[name]
    request = 0 if job.waiting is None else dict(job.waiting.step.request).get(GPU_ROW, 0)
    needed = -(-(ledger.allocated[job.project][GPU_ROW] + request) // WHOLE_MILLI) * WHOLE_MILLI
    return ledger.queues[job.project], request, needed

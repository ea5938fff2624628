"""Suggestions that change the claim: priority, preemptibility, another project, a larger quota."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from weir.api.answers import Suggestion
from weir.model.resources import GPU, written
from weir.model.workloads import PREEMPTIBLE_BELOW, WHOLE_MILLI
from weir.service.suggestion_phrases import starts, suggestion
from weir.service.what_if import WhatIf
from weir.state.shapes import GPU_ROW

CLASSES_TRIED_MOST = 6
"""Priority classes that are tried."""
PROJECTS_TRIED_MOST = 4
"""Other projects that are tried, those with most quota left first."""


def as_preemptible(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest that it may be preempted."""
    spec = trials.job.spec
    if spec.preemptible:
        return
    outcome = trials.tried(replace(spec, preemptible=True))
    if outcome is not None:
        sentence = f"If it may be preempted, {starts(trials, outcome)}"
        yield suggestion(sentence, {"preemptible": True}, outcome)


def with_priority(trials: WhatIf, highest: int) -> Iterator[Suggestion]:
    """Suggest a priority above everyone else's of its project."""
    job = trials.job
    others = [
        each.spec.priority
        for each in trials.cluster.jobs.values()
        if each.project == job.project and each is not job
    ]
    priority = max(others, default=job.spec.priority) + 1
    if not job.spec.priority < priority <= highest:
        return
    outcome = trials.tried(replace(job.spec, priority=priority))
    if outcome is not None:
        sentence = f"With priority {priority} instead of {job.spec.priority} {starts(trials, outcome)}"
        change = {"priority": priority, "preemptible": job.spec.preemptible}
        yield suggestion(sentence, change, outcome)


def with_class(trials: WhatIf, priorities: tuple[int, ...]) -> Iterator[Suggestion]:
    """Suggest the lowest existing priority that lets it start, whatever else it changes."""
    job = trials.job
    higher = sorted(priority for priority in priorities if priority > job.spec.priority)
    for priority in higher[:CLASSES_TRIED_MOST]:
        # a class may change if it is preemptible, unless the work states that itself
        outcomes = [
            trials.tried(replace(job.spec, priority=priority, preemptible=preemptible))
            for preemptible in {job.spec.preemptible, priority < PREEMPTIBLE_BELOW}
        ]
        outcome = outcomes[0]
        if outcome is not None and all(each is not None for each in outcomes):
            sentence = f"With priority {priority} instead of {job.spec.priority} {starts(trials, outcome)}"
            yield suggestion(sentence, {"priority": priority}, outcome)
            return


def in_other_project(trials: WhatIf, projects: Sequence[str]) -> Iterator[Suggestion]:
    """Suggest another project of the requester, that with most quota left first."""
    spec, ledger = trials.job.spec, trials.cluster.ledger
    left: list[tuple[int, str]] = []
    for name in projects:
        at = ledger.position.get(name)
        if at is not None and name != spec.project:
            left.append((ledger.allocated[at][GPU_ROW] - ledger.quota[at][GPU_ROW], name))
    for _, name in sorted(left)[:PROJECTS_TRIED_MOST]:
        outcome = trials.tried(replace(spec, project=name))
        if outcome is not None:
            sentence = f"In project {name} instead of {spec.project} {starts(trials, outcome)}"
            yield suggestion(sentence, {"project": name}, outcome)
            return


def with_quota(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest the quota, and if necessary the limit, that would cover the workload in its project."""
    ledger = trials.cluster.ledger
    job = trials.cluster.jobs[trials.job.name]  # it is another object after each trial
    queue = ledger.queues[job.project]
    request = 0 if job.waiting is None else dict(job.waiting.step.request).get(GPU_ROW, 0)
    needed = -(-(ledger.allocated[job.project][GPU_ROW] + request) // WHOLE_MILLI) * WHOLE_MILLI
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
    queues = [changed if each is queue else each for each in ledger.queues]
    outcome = trials.tried(job.spec, queues=queues)
    if outcome is not None:
        amounts = f"{written(GPU, needed)} GPUs instead of {written(GPU, quota)}"
        sentence = f"With a quota{also} of {amounts} for project {queue.name} {starts(trials, outcome)}"
        yield suggestion(sentence, change, outcome)

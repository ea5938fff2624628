"""Suggestions to wait: for expected ends of running workloads, or for the end of one of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from weir.api.answers import Suggestion
from weir.model.resources import span
from weir.model.workloads import WorkloadType
from weir.service.suggestion_phrases import names_phrase, starts, suggestion
from weir.service.what_if import WhatIf
from weir.state.jobs import Job

ENDS_TRIED_MOST = 6
"""Running workloads whose end is tried, of its own project and of others each."""
_ENDING_TYPES = frozenset({WorkloadType.TRAIN})
"""Types that end by themselves."""
_ENDING_SOON_MOST = 256
"""Number of expected ends of running workloads that are tried, in their order."""


@dataclass(frozen=True, slots=True)
class _ExpectedEnd:
    """Expected end of a running workload; `earliest_s` is None where only its maximum is known."""

    latest_s: float
    name: str
    earliest_s: float | None = None
    samples: int = 0


def after_expected_ends(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest to wait for the fewest expected ends that suffice, in their order."""
    job, now_s = trials.job, trials.now_s
    ends = [end for other in _running(trials) if (end := _end_of(trials, other)) is not None]
    ending = sorted(ends, key=lambda end: (end.latest_s, end.name))[:_ENDING_SOON_MOST]
    low, high = 1, len(ending)
    found = False
    while low <= high:
        middle = (low + high) // 2
        if trials.tried(job.spec, [end.name for end in ending[:middle]]) is not None:
            high, found = middle - 1, True
        else:
            low = middle + 1
    if found:
        needed = ending[:low]
        latest_s = max(now_s, *(end.latest_s for end in needed))
        names = f"{names_phrase([end.name for end in needed])} {'has' if low == 1 else 'have'} ended"
        yield Suggestion(
            sentence=f"If it waits, it starts {_by(needed, now_s)}, when {names}.", at_s=latest_s
        )


def _by(ends: list[_ExpectedEnd], now_s: float) -> str:
    """Return when the last of them has ended: a learned range with its samples, or the latest time."""
    latest_s = max(0.0, max(end.latest_s for end in ends) - now_s)
    earliest = [end.earliest_s for end in ends if end.earliest_s is not None]
    if len(earliest) < len(ends):
        return f"in {span(latest_s)} at the latest"
    samples = min(end.samples for end in ends)
    return (
        f"in {span(max(0.0, max(earliest) - now_s))} to {span(latest_s)} "
        f"(estimated from {samples} ended workloads like {'it' if len(ends) > 1 else ends[0].name})"
    )


def _end_of(trials: WhatIf, job: Job) -> _ExpectedEnd | None:
    """Return when a running workload ends, by its maximum run time and by training runs alike that ended.

    A service runs until it is stopped, so only its maximum run time counts.
    """
    if job.started_s is None:
        return None
    now_s, spec = trials.now_s, job.spec
    ran_s = job.ran_s + now_s - job.started_s
    most_s = None if spec.max_runtime_s is None else now_s + max(0.0, spec.max_runtime_s - ran_s)
    learned = trials.cluster.runtimes.remaining_range(job.like, ran_s) if spec.type in _ENDING_TYPES else None
    if learned is None:
        return None if most_s is None else _ExpectedEnd(most_s, spec.name)
    latest_s = now_s + learned.high_s if most_s is None else min(most_s, now_s + learned.high_s)
    return _ExpectedEnd(latest_s, spec.name, min(latest_s, now_s + learned.low_s), learned.samples)


def after_one_end(trials: WhatIf) -> Iterator[Suggestion]:
    """Yield ends of running workloads: of its own project, then of others."""
    job = trials.job
    for own in (True, False):
        others = [each for each in _running(trials) if (each.project == job.project) == own]
        others.sort(key=lambda each: (abs(each.devices_milli - job.devices_milli), each.spec.name))
        for other in others[:ENDS_TRIED_MOST]:
            outcome = trials.tried(job.spec, [other.spec.name])
            if outcome is not None:
                of = "" if own else f" of project {other.spec.project}"
                sentence = f"If {other.spec.name}{of} ended, {starts(trials, outcome)}"
                yield suggestion(sentence, {"ended": other.spec.name}, outcome)
                break


def _running(trials: WhatIf) -> list[Job]:
    return [
        job
        for jobs in trials.cluster.running.values()
        for job in jobs.values()
        if job is not trials.job and job.running_pods()
    ]

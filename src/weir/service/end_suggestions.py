"""Suggestions to wait: for expected ends of running workloads, or for the end of one of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain
from typing import TypeVar

from weir.api.answers import Suggestion
from weir.engine.refusals.holder_phrases import names_phrase
from weir.model.resources import span
from weir.model.workloads import WorkloadType
from weir.service.equal_ends import without_equals
from weir.service.suggestion_phrases import suggestion, when
from weir.service.what_if import WhatIf
from weir.state.cluster import Cluster
from weir.state.jobs import Job

ENDS_TRIED_MAX = 6
"""Limit of running workloads whose end is tried: of its own project, and as many of others."""
_ENDING_TYPES = frozenset({WorkloadType.TRAIN})
"""Types that end by themselves."""
_ENDING_SOON_MAX = 256
"""Limit of expected ends of running workloads that are tried, in their order."""
_READ_AT_ONCE = 2000
"""Number of running workloads that are read at once; decisions may happen between two reads."""
Read = TypeVar("Read")


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

    def expected(cluster: Cluster, jobs: Iterable[Job]) -> list[_ExpectedEnd]:
        return [end for other in jobs if (end := _end_of(cluster, other, now_s)) is not None]

    ends = chain.from_iterable(_of_running(trials, expected))
    ending = nsmallest(_ENDING_SOON_MAX, ends, key=lambda end: (end.latest_s, end.name))
    low, high = 1, len(ending)
    suffices = False
    while low <= high:
        middle = (low + high) // 2
        if trials.tried(job.spec, [end.name for end in ending[:middle]]) is not None:
            high, suffices = middle - 1, True
        else:
            low = middle + 1
    if suffices:
        needed = ending[:low]
        latest_s = max(now_s, *(end.latest_s for end in needed))
        ended = names_phrase([end.name for end in needed], "and")
        names = f"{ended} {'has' if low == 1 else 'have'} ended"
        yield Suggestion(
            sentence=f"If it waits, it starts {_by(needed, now_s)}, when {names}.", at_s=latest_s
        )


def _by(ends: list[_ExpectedEnd], now_s: float) -> str:
    """Return the time at which all these ends are expected: a range with its samples, or the latest time."""
    latest_s = max(0.0, max(end.latest_s for end in ends) - now_s)
    earliest = [end.earliest_s for end in ends if end.earliest_s is not None]
    if len(earliest) < len(ends):
        return f"in {span(latest_s)} at the latest"
    samples = min(end.samples for end in ends)
    return (
        f"in {span(max(0.0, max(earliest) - now_s))} to {span(latest_s)} "
        f"(estimated from {samples} ended workloads like {'it' if len(ends) > 1 else ends[0].name})"
    )


def _end_of(cluster: Cluster, job: Job, now_s: float) -> _ExpectedEnd | None:
    """Return when a running workload ends, by its maximum run time, or by similar training runs that ended.

    The answer is None if the end is unknown. A service runs until it is stopped, so only its maximum run time
    counts.
    """
    if job.started_s is None:
        return None
    spec = job.spec
    is_learned = spec.type in _ENDING_TYPES and cluster.runtimes.may_range(job.like)
    if spec.max_runtime_s is None and not is_learned:
        return None
    ran_s = job.ran_s + now_s - job.started_s
    most_s = None if spec.max_runtime_s is None else now_s + max(0.0, spec.max_runtime_s - ran_s)
    learned = cluster.runtimes.remaining_range(job.like, ran_s) if is_learned else None
    if learned is None:
        return None if most_s is None else _ExpectedEnd(most_s, spec.name)
    latest_s = now_s + learned.high_s if most_s is None else min(most_s, now_s + learned.high_s)
    return _ExpectedEnd(latest_s, spec.name, min(latest_s, now_s + learned.low_s), learned.samples)


def after_one_end(trials: WhatIf) -> Iterator[Suggestion]:
    """Yield ends of running workloads: of its own project, then of others."""
    asked = trials.job.spec
    for is_other in (False, True):
        for name, project in _near_in_size(trials, is_other):
            outcome = trials.tried(asked, [name])
            if outcome is not None:
                suffix = f" of project {project}" if is_other else ""
                yield suggestion(
                    f"It would start {when(outcome)} if {name}{suffix} ended.", {"ended": name}, outcome
                )
                break


def _near_in_size(trials: WhatIf, is_other: bool) -> list[tuple[str, str]]:
    """Return a few running workloads with their projects: the nearest in size to the pending one.

    They are of its own project, or of others if `is_other`. Of workloads whose ends have the same
    consequences only one is returned.
    """
    size_milli = trials.job.devices_milli
    equal = 0

    def by_size(_: Cluster, jobs: Iterable[Job]) -> list[tuple[int, str, str]]:
        return [(abs(job.devices_milli - size_milli), job.name, job.spec.project) for job in jobs]

    near: list[tuple[int, str, str]] = []
    for part in _of_running(trials, by_size, lambda project: (project != trials.job.project) is is_other):
        near = nsmallest(ENDS_TRIED_MAX, [*near, *part])
        equal += sum(difference == 0 for difference, _, _ in part)
        if is_other and equal >= ENDS_TRIED_MAX:
            break  # later ones are no nearer in size
    project_of = {name: project for _, name, project in near}
    names = trials.read(lambda cluster: without_equals(cluster, project_of))
    return [(name, project_of[name]) for name in names]


def _of_running(
    trials: WhatIf,
    read: Callable[[Cluster, Iterable[Job]], list[Read]],
    counts: Callable[[int], bool] = lambda _: True,
) -> Iterator[list[Read]]:
    """Yield results of `read` for other running workloads of the chosen projects, some at a time."""
    running = trials.read(
        lambda cluster: [
            job for project, jobs in cluster.running.items() if counts(project) for job in jobs.values()
        ]
    )
    for start in range(0, len(running), _READ_AT_ONCE):
        part = running[start : start + _READ_AT_ONCE]

        def look(cluster: Cluster, part: list[Job] = part) -> list[Read]:
            return read(
                cluster, [job for job in part if job.started_s is not None and job.name != trials.name]
            )

        yield trials.read(look)

"""Changes that would let a pending workload start; each was tried on a copy of the cluster."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from weir.api.answers import Suggestion
from weir.model.policy import Policy
from weir.model.resources import CPU, MEMORY, amount, span, written
from weir.model.workloads import (
    PREEMPTIBLE_BELOW,
    WHOLE_MILLI,
    PodGroup,
    Request,
    TopologyRequest,
    Workload,
    WorkloadType,
)
from weir.service.cluster_copy import ClusterFacts
from weir.service.what_if import WhatIf, WhatIfExhausted, WhatIfOutcome
from weir.state.jobs import Job
from weir.state.shapes import CPU_ROW, MEMORY_ROW

SHARES_MILLI = (500, 250, 100)
"""Shares of a device that are tried in place of a whole one."""
ENDS_TRIED_MOST = 6
"""Running workloads whose end is tried, of its own project and of others each."""
CLASSES_TRIED_MOST = 6
"""Priority classes that are tried."""
_ENDING_TYPES = frozenset({WorkloadType.TRAIN})
"""Types that end by themselves."""
_NAMED_MOST = 3
_ENDING_SOON_MOST = 256
"""Number of expected ends of running workloads that are tried, in their order."""


@dataclass(frozen=True, slots=True)
class SuggestionOptions:
    """Limits of suggestions in a pool.

    `priorities` are the only allowed ones, None if any is; `shares` of GPUs may be suggested; a
    workload of fewer pods is the same with a lower minimum, if pods are `others_make`: only their owner
    determines their number.
    """

    highest_priority: int
    priorities: tuple[int, ...] | None = None
    shares: bool = True
    others_make: bool = False


def suggestions(
    picture: ClusterFacts, policy: Policy, name: str, possible: SuggestionOptions
) -> list[Suggestion]:
    """Return changes that would let it start now, or about when it starts if it only needs time.

    Nothing while it runs or others are being stopped for it.
    """
    trials = WhatIf(picture, policy, name)
    if trials.job.is_running or trials.job.stopping or name in trials.cluster.nominated:
        return []
    found: list[Suggestion] = []
    with suppress(WhatIfExhausted):
        for each in _suggested(trials, possible):
            found.append(each)  # noqa: PERF402 - results before the limit of trials count
    return found


def _suggested(trials: WhatIf, possible: SuggestionOptions) -> Iterator[Suggestion]:
    if trials.job.held:
        yield from _resumed(trials)
        return
    yield from _smaller(trials, possible.others_make)
    if possible.shares:
        yield from _as_share(trials)
    for one in (_with_less, _unbound, _as_preemptible):
        yield from one(trials)
    if possible.priorities is None:
        yield from _more_urgent(trials, possible.highest_priority)
    else:
        yield from _of_higher_class(trials, possible.priorities)
    yield from _later(trials)
    yield from _ends(trials)


def _resumed(trials: WhatIf) -> Iterator[Suggestion]:
    outcome, until_s = trials.tried(trials.job.spec), trials.job.held_until_s
    if outcome is not None and until_s is not None:
        left = span(max(1.0, round(until_s - trials.now_s)))
        sentence = f"If it waits, it is tried again in {left}, and starts {_then(trials, outcome)}."
        yield Suggestion(sentence=sentence, at_s=until_s)
    elif outcome is not None:
        yield Suggestion(
            sentence=f"If it is resumed, {_starts(trials, outcome)}", change={"suspended": False}
        )


# Its request


def _smaller(trials: WhatIf, others_make: bool) -> Iterator[Suggestion]:
    """Fewer devices for its one pod, or fewer pods."""
    spec = trials.job.spec
    if len(spec.groups) != 1:
        return
    group = spec.groups[0]
    if group.count > 1:
        elastic = others_make or trials.job.is_elastic
        size, outcome = _largest(
            trials, sum(trials.job.needed) - 1, lambda pods: _with_pods(spec, pods, elastic=elastic)
        )
        if outcome is not None:
            pods = f"{size} pods" if size > 1 else "1 pod"
            what = "as its minimum " if elastic else ""
            sentence = f"With {pods} {what}instead of {sum(trials.job.needed)} {_starts(trials, outcome)}"
            yield Suggestion(sentence=sentence, change={"pods": size})
    if group.request.is_whole and group.request.devices > 1:
        size, outcome = _largest(
            trials, group.request.devices - 1, lambda devices: _with_request(spec, devices=devices)
        )
        if outcome is not None:
            each = " for each pod" if group.count > 1 else ""
            sentence = (
                f"With {_devices(size)} instead of {group.request.devices}{each} {_starts(trials, outcome)}"
            )
            yield Suggestion(sentence=sentence, change={"gpus": size})


def _largest(
    trials: WhatIf, most: int, variant: Callable[[int], Workload]
) -> tuple[int, WhatIfOutcome | None]:
    """Return the largest size that starts, by bisection; smaller sizes start too."""
    low, found = 0, None
    high = most
    while low < high:
        middle = (low + high + 1) // 2
        outcome = trials.tried(variant(middle))
        if outcome is not None:
            low, found = middle, outcome
        else:
            high = middle - 1
    return low, found


def _as_share(trials: WhatIf) -> Iterator[Suggestion]:
    spec = trials.job.spec
    if len(spec.groups) != 1 or not spec.groups[0].request.is_whole or spec.groups[0].request.devices != 1:
        return
    for milli in SHARES_MILLI:
        outcome = trials.tried(_with_request(spec, share_milli=milli))
        if outcome is not None:
            share = milli / WHOLE_MILLI
            sentence = (
                f"With a share of {share:g} of a device instead of a whole one {_starts(trials, outcome)}"
            )
            yield Suggestion(sentence=sentence, change={"gpus": share})
            return


def _with_less(trials: WhatIf) -> Iterator[Suggestion]:
    """Suggest a CPU or memory request that one node can satisfy now."""
    spec, cluster = trials.job.spec, trials.cluster
    if len(spec.groups) != 1 or not cluster.nodes:
        return
    request = spec.groups[0].request
    memory = min(request.memory, int(cluster.free_capacity.free[MEMORY_ROW].max()) >> 20 << 20)
    cpu_milli = min(request.cpu_milli, int(cluster.free_capacity.free[CPU_ROW].max()) // 100 * 100)
    change: dict[str, object] = {}
    if 0 < memory < request.memory:
        change["memory"] = written(MEMORY, memory)
        memory = amount(MEMORY, str(change["memory"]))
    if 0 < cpu_milli < request.cpu_milli:
        change["cpu"] = written(CPU, cpu_milli)
    if not change:
        return
    less = replace(request, memory=memory, cpu_milli=cpu_milli)
    outcome = trials.tried(replace(spec, groups=(replace(spec.groups[0], request=less),)))
    if outcome is not None:
        before = {"memory": written(MEMORY, request.memory), "cpu": written(CPU, request.cpu_milli)}
        parts = [f"{name} {value} instead of {before[name]}" for name, value in change.items()]
        sentence = f"With {' and '.join(parts)} {_starts(trials, outcome)}"
        yield Suggestion(sentence=sentence, change=change)


def _unbound(trials: WhatIf) -> Iterator[Suggestion]:
    spec = trials.job.spec
    asked = spec.topology
    if asked is None or asked.required is None:
        return
    wished = TopologyRequest(asked.name, None, asked.preferred or asked.required)
    outcome = trials.tried(replace(spec, topology=wished))
    if outcome is not None:
        sentence = f"If its pods need not share one {asked.required}, {_starts(trials, outcome)}"
        change = {"topology": {"name": asked.name, "preferred": wished.preferred}}
        yield Suggestion(sentence=sentence, change=dict(change))


# Its rights


def _as_preemptible(trials: WhatIf) -> Iterator[Suggestion]:
    spec = trials.job.spec
    if spec.preemptible:
        return
    outcome = trials.tried(replace(spec, preemptible=True))
    if outcome is not None:
        sentence = f"If it may be preempted, {_starts(trials, outcome)}"
        yield Suggestion(sentence=sentence, change={"preemptible": True})


def _more_urgent(trials: WhatIf, highest: int) -> Iterator[Suggestion]:
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
        sentence = f"With priority {priority} instead of {job.spec.priority} {_starts(trials, outcome)}"
        yield Suggestion(
            sentence=sentence, change={"priority": priority, "preemptible": job.spec.preemptible}
        )


def _of_higher_class(trials: WhatIf, priorities: tuple[int, ...]) -> Iterator[Suggestion]:
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
            sentence = f"With priority {priority} instead of {job.spec.priority} {_starts(trials, outcome)}"
            yield Suggestion(sentence=sentence, change={"priority": priority})
            return


# Others


@dataclass(frozen=True, slots=True)
class _ExpectedEnd:
    """Expected end of a running workload; `earliest_s` is None where only its maximum is known."""

    latest_s: float
    name: str
    earliest_s: float | None = None
    samples: int = 0


def _later(trials: WhatIf) -> Iterator[Suggestion]:
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
        names = f"{_named([end.name for end in needed])} {'has' if low == 1 else 'have'} ended"
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


def _ends(trials: WhatIf) -> Iterator[Suggestion]:
    """Yield ends of running workloads: of its own project, then of others."""
    job = trials.job
    for own in (True, False):
        others = [each for each in _running(trials) if (each.project == job.project) == own]
        others.sort(key=lambda each: (abs(each.devices_milli - job.devices_milli), each.spec.name))
        for other in others[:ENDS_TRIED_MOST]:
            outcome = trials.tried(job.spec, [other.spec.name])
            if outcome is not None:
                of = "" if own else f" of project {other.spec.project}"
                sentence = f"If {other.spec.name}{of} ended, {_starts(trials, outcome)}"
                yield Suggestion(sentence=sentence, change={"ended": other.spec.name})
                break


def _running(trials: WhatIf) -> list[Job]:
    return [
        job
        for jobs in trials.cluster.running.values()
        for job in jobs.values()
        if job is not trials.job and job.running_pods()
    ]


# Words


def _when(trials: WhatIf, outcome: WhatIfOutcome) -> str:
    if not outcome.stops:
        return "now"
    stops = [_whose(trials, name) for name in outcome.stops]
    return f"as soon as {_named(stops)} {'has' if len(stops) == 1 else 'have'} stopped"


def _starts(trials: WhatIf, outcome: WhatIfOutcome) -> str:
    return f"it starts {_when(trials, outcome)}."


def _then(trials: WhatIf, outcome: WhatIfOutcome) -> str:
    return "then" if not outcome.stops else _when(trials, outcome)


def _whose(trials: WhatIf, name: str) -> str:
    """Return a workload's name with its owner and project, for the person who has to stop it."""
    spec = trials.cluster.jobs[name].spec
    return f"{name} of {spec.user} in {spec.project}" if spec.user else f"{name} in {spec.project}"


def _named(names: list[str]) -> str:
    more = len(names) - _NAMED_MOST
    if more > 0:
        return f"{', '.join(names[:_NAMED_MOST])} and {more} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _devices(count: int) -> str:
    return f"{count} devices" if count > 1 else "1 device"


def _with_pods(spec: Workload, pods: int, *, elastic: bool) -> Workload:
    """Return it with this number of pods, all of them required; elastic work keeps the others optional."""
    group = spec.groups[0]
    smaller = replace(group, count=group.count if elastic else pods, min=min(group.min, pods))
    return replace(spec, groups=(smaller,), min_pods=min(spec.min_pods, pods))


def _with_request(spec: Workload, *, devices: int | None = None, share_milli: int | None = None) -> Workload:
    group = spec.groups[0]
    request: Request = group.request
    if devices is not None:
        request = replace(request, devices=devices)
    if share_milli is not None:
        request = replace(request, share_milli=share_milli)
    changed: PodGroup = replace(group, request=request)
    return replace(spec, groups=(changed,))

"""What would let a waiting workload start: each was tried, and is said only if the trial started it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from weir.cluster.jobs import Job
from weir.model.files.words import PRIORITY_MAX
from weir.model.policy import Policy
from weir.model.pool import Suggestion
from weir.model.resources import span
from weir.model.workloads import WHOLE_MILLI, PodGroup, Request, TopologyRequest, Workload
from weir.server.copying import Picture
from weir.server.trials import Outcome, OutOfTrials, Trials

SHARES_MILLI = (500, 250, 100)
"""Shares of a device that are tried in place of a whole one."""
ENDS_TRIED_MOST = 6
"""Running workloads whose end is tried, of its own project and of others each."""
_NAMED_MOST = 3
_ENDING_SOON_MOST = 256
"""Running workloads that are waited for at most, in the order in which they end."""


def suggestions(picture: Picture, policy: Policy, name: str) -> list[Suggestion]:
    """What would let it start now or, if it is a matter of time, about when."""
    trials = Trials(picture, policy, name)
    if trials.job.is_running or trials.job.stopping:
        return []
    found: list[Suggestion] = []
    with suppress(OutOfTrials):
        for each in _suggested(trials):
            found.append(each)  # noqa: PERF402 - what was found before it ran out of trials counts
    return found


def _suggested(trials: Trials) -> Iterator[Suggestion]:
    if trials.job.held:
        yield from _resumed(trials)
        return
    for one in (_smaller, _as_share, _unbound, _as_preemptible, _more_urgent, _later, _ends):
        yield from one(trials)


def _resumed(trials: Trials) -> Iterator[Suggestion]:
    outcome, until_s = trials.tried(trials.job.spec), trials.job.held_until_s
    if outcome is not None and until_s is not None:
        left = span(max(1.0, round(until_s - trials.now_s)))
        sentence = f"If it waits, it is tried again in {left}, and starts {_then(outcome)}."
        yield Suggestion(sentence=sentence, at_s=until_s)
    elif outcome is not None:
        yield Suggestion(sentence=f"If it is resumed, it starts {_when(outcome)}.", change={"held": False})


# What it asks for


def _smaller(trials: Trials) -> Iterator[Suggestion]:
    """Fewer devices for its one pod, or fewer pods."""
    spec = trials.job.spec
    if len(spec.groups) != 1:
        return
    group = spec.groups[0]
    if group.count > 1:
        size, outcome = _largest(trials, sum(trials.job.needed) - 1, lambda pods: _with_pods(spec, pods))
        if outcome is not None:
            pods = f"{size} pods" if size > 1 else "1 pod"
            what = "as its minimum " if trials.job.is_elastic else ""
            sentence = f"With {pods} {what}instead of {sum(trials.job.needed)} it starts {_when(outcome)}."
            yield Suggestion(sentence=sentence, change={"pods": size})
    if group.request.is_whole and group.request.devices > 1:
        size, outcome = _largest(
            trials, group.request.devices - 1, lambda devices: _with_request(spec, devices=devices)
        )
        if outcome is not None:
            each = " for each pod" if group.count > 1 else ""
            sentence = (
                f"With {_devices(size)} instead of {group.request.devices}{each} it starts {_when(outcome)}."
            )
            yield Suggestion(sentence=sentence, change={"gpus": size})


def _largest(trials: Trials, most: int, variant: Callable[[int], Workload]) -> tuple[int, Outcome | None]:
    """The largest size that starts, by halving; what starts at a size starts at a smaller one too."""
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


def _as_share(trials: Trials) -> Iterator[Suggestion]:
    spec = trials.job.spec
    if len(spec.groups) != 1 or not spec.groups[0].request.is_whole or spec.groups[0].request.devices != 1:
        return
    for milli in SHARES_MILLI:
        outcome = trials.tried(_with_request(spec, share_milli=milli))
        if outcome is not None:
            share = milli / WHOLE_MILLI
            sentence = (
                f"With a share of {share:g} of a device instead of a whole one it starts {_when(outcome)}."
            )
            yield Suggestion(sentence=sentence, change={"gpus": share})
            return


def _unbound(trials: Trials) -> Iterator[Suggestion]:
    spec = trials.job.spec
    asked = spec.topology
    if asked is None or asked.required is None:
        return
    wished = TopologyRequest(asked.name, None, asked.preferred or asked.required)
    outcome = trials.tried(replace(spec, topology=wished))
    if outcome is not None:
        sentence = f"If its pods need not share one {asked.required}, it starts {_when(outcome)}."
        change = {"topology": {"name": asked.name, "preferred": wished.preferred}}
        yield Suggestion(sentence=sentence, change=dict(change))


# Its rights


def _as_preemptible(trials: Trials) -> Iterator[Suggestion]:
    spec = trials.job.spec
    if spec.preemptible:
        return
    outcome = trials.tried(replace(spec, preemptible=True))
    if outcome is not None:
        sentence = f"If it may be preempted, it starts {_when(outcome)}."
        yield Suggestion(sentence=sentence, change={"preemptible": True})


def _more_urgent(trials: Trials) -> Iterator[Suggestion]:
    """Before everyone else of its project."""
    job = trials.job
    others = [
        each.spec.priority
        for each in trials.cluster.jobs.values()
        if each.project == job.project and each is not job
    ]
    priority = max(others, default=job.spec.priority) + 1
    if not job.spec.priority < priority <= PRIORITY_MAX:
        return
    outcome = trials.tried(replace(job.spec, priority=priority))
    if outcome is not None:
        sentence = f"With priority {priority} instead of {job.spec.priority} it starts {_when(outcome)}."
        yield Suggestion(
            sentence=sentence, change={"priority": priority, "preemptible": job.spec.preemptible}
        )


# Others


def _later(trials: Trials) -> Iterator[Suggestion]:
    """How many of those that run have to end, in the order in which they are expected to."""
    job, now_s = trials.job, trials.now_s
    ending = sorted(
        (end_s, other.spec.name)
        for other in _running(trials)
        if (end_s := _ends_s(trials, other)) is not None
    )[:_ENDING_SOON_MOST]
    low, high = 1, len(ending)
    found = False
    while low <= high:
        middle = (low + high) // 2
        if trials.tried(job.spec, [name for _, name in ending[:middle]]) is not None:
            high, found = middle - 1, True
        else:
            low = middle + 1
    if found:
        at_s = max(ending[low - 1][0], now_s)
        names = _named([name for _, name in ending[:low]])
        verb = "has" if low == 1 else "have"
        sentence = f"If it waits, it starts in about {span(at_s - now_s)}, when {names} {verb} ended."
        yield Suggestion(sentence=sentence, at_s=at_s)


def _ends_s(trials: Trials, job: Job) -> float | None:
    """When it ends at the latest, or by what workloads like it took."""
    if job.started_s is None:
        return None
    ran_s = job.ran_s + trials.now_s - job.started_s
    times = []
    if job.spec.max_runtime_s is not None:
        times.append(job.spec.max_runtime_s - ran_s)
    learned_s = trials.cluster.runtimes.remaining_s(job.like, ran_s)
    if learned_s is not None:
        times.append(learned_s)
    return trials.now_s + min(times) if times else None


def _ends(trials: Trials) -> Iterator[Suggestion]:
    """The end of one that runs: of its own project, then of another."""
    job = trials.job
    for own in (True, False):
        others = [each for each in _running(trials) if (each.project == job.project) == own]
        others.sort(key=lambda each: (abs(each.devices_milli - job.devices_milli), each.spec.name))
        for other in others[:ENDS_TRIED_MOST]:
            outcome = trials.tried(job.spec, [other.spec.name])
            if outcome is not None:
                of = "" if own else f" of project {other.spec.project}"
                sentence = f"If {other.spec.name}{of} ended, it starts {_when(outcome)}."
                yield Suggestion(sentence=sentence, change={"ended": other.spec.name})
                break


def _running(trials: Trials) -> list[Job]:
    return [
        job
        for jobs in trials.cluster.running.values()
        for job in jobs.values()
        if job is not trials.job and job.running_pods()
    ]


# Words


def _when(outcome: Outcome) -> str:
    if not outcome.stops:
        return "now"
    return f"as soon as {_named(list(outcome.stops))} {'has' if len(outcome.stops) == 1 else 'have'} stopped"


def _then(outcome: Outcome) -> str:
    return "then" if not outcome.stops else _when(outcome)


def _named(names: list[str]) -> str:
    more = len(names) - _NAMED_MOST
    if more > 0:
        return f"{', '.join(names[:_NAMED_MOST])} and {more} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _devices(count: int) -> str:
    return f"{count} devices" if count > 1 else "1 device"


def _with_pods(spec: Workload, pods: int) -> Workload:
    """With so many pods, all of them needed; elastic ones keep what is beyond their minimum."""
    group = spec.groups[0]
    elastic = sum(spec.needed()) < spec.pods
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

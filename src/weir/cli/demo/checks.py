"""Checks of the tour's claims against the observations. Pure functions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from weir.api.answers import EventRow
from weir.cli.demo.baseline import done
from weir.cli.demo.jobs import EVALS, GANG, GPUS, NOTEBOOK, OFTEN, PARTS, PROJECTS, SWEEP
from weir.cli.demo.observations import Observations
from weir.cli.output.formatting import counted, number
from weir.model.reasons import rule_phrase

_SLACK_S = 0.5
"""Delay after a checkpoint until the pool knows of it."""
_STOPS = re.compile(r"(?m)^(?:stops at|done after) step (\d+)")
_GOES_ON = re.compile(r"(?m)^goes on from step (\d+)")


class Check(NamedTuple):
    """A measurement as a sentence, and if it fulfils the claim."""

    sentence: str
    holds: bool


@dataclass
class DemoOutcome:
    """Everything known at the end of the tour."""

    seen: Observations
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)  # output of each start, by job
    saved_s: Mapping[str, Sequence[float]] = field(default_factory=dict)
    began_s: Sequence[float] = ()  # start times of the gang's processes
    # Last line of output by job, when run without others
    alone: Mapping[str, str] = field(default_factory=dict)


def checks(facts: DemoOutcome) -> list[Check]:
    """Return all checks, in the order of the tour."""
    return [
        _borrowed(facts.seen),
        _came_back(facts.seen),
        _together(facts),
        _cheapest(facts),
        _shared(facts.seen),
        _at_once(facts.seen),
        _resumed(facts),
        _same(facts),
        _ended(facts.seen),
    ]


def _borrowed(seen: Observations) -> Check:
    project = SWEEP[0].project
    allocated, quota = seen.most_held.get(project, 0.0), PROJECTS[project][1]
    borrowed = number(max(0.0, allocated - quota))
    sentence = (
        f"{project} ran on {number(allocated)} of {GPUS} idle GPUs with a quota of {quota}"
        f", {borrowed} of them borrowed."
    )
    return Check(sentence, allocated == GPUS)


def _came_back(seen: Observations) -> Check:
    gave, rules = _stopped_for(seen, GANG.name)
    waited = _waited_s(seen, GANG.name)
    had = (
        "never started"
        if waited is None
        else f"had its project's 4 GPUs {waited:.1f} s after it was submitted"
    )
    rule = ", ".join(map(rule_phrase, sorted(rules))) or "no rule"
    return Check(
        f"{GANG.name} {had}: {counted(len(gave), 'job')} stopped for it ({rule}).",
        waited is not None and len(gave) == 4 and rules == {"reclaim_quota"},
    )


def _together(facts: DemoOutcome) -> Check:
    starts = _events(facts.seen, "started", GANG.name)
    pods = starts[0].numbers.get("pods") if starts else 0
    began = sorted(facts.began_s)
    if len(starts) != 1 or pods != 4 or len(began) != 4:
        return Check(f"Its processes did not start together: {len(began)} of 4 did.", holds=False)
    apart_ms = 1000 * (began[-1] - began[0])
    return Check(f"Its 4 processes were started as one, within {apart_ms:.0f} ms.", holds=True)


def _cheapest(facts: DemoOutcome) -> Check:
    """Check that no victim had more unsaved work than a job that ran on."""
    worst, lost, ran_on_s = 0.0, [0.0], [0.0]
    victim_count = 0
    for asker in (GANG.name, *(part.name for part in EVALS), NOTEBOOK.name):
        gave, _ = _stopped_for(facts.seen, asker)
        stopped = {name: _unsaved_s(facts, name, at_s) for name, at_s in gave.items()}
        if not stopped:
            continue
        at_s = min(gave.values())
        ran_on = [
            _unsaved_s(facts, part.name, at_s)
            for part in SWEEP
            if part.name not in gave and _runs(facts.seen, part.name, at_s)
        ]
        victim_count += len(stopped)
        if ran_on:
            worst = max(worst, max(stopped.values()) - min(ran_on))
        if asker == GANG.name:
            lost, ran_on_s = sorted(stopped.values()), sorted(ran_on) or [0.0]
    sentence = (
        f"The evicted jobs had the least to lose: {lost[0]:.1f} to {lost[-1]:.1f} s since their checkpoints, "
        f"against {ran_on_s[0]:.1f} to {ran_on_s[-1]:.1f} s of the jobs that ran on."
    )
    return Check(sentence, victim_count > 0 and worst <= _slack_s(facts))


def _shared(seen: Observations) -> Check:
    names = frozenset(part.name for part in EVALS)
    first, other = sorted(names)
    holds = any(names <= group for group in seen.together)
    how = "ran at once, half of one device each" if holds else "never ran on one device at once"
    return Check(f"{first} and {other} {how}.", holds)


def _at_once(seen: Observations) -> Check:
    starts = _events(seen, "started", NOTEBOOK.name)
    waited = _waited_s(seen, NOTEBOOK.name)
    if not starts or waited is None:
        return Check(f"{NOTEBOOK.name} never started.", holds=False)
    waiting = sum(_waits(seen, part.name, starts[0].at_s) for part in SWEEP)
    past = counted(waiting, "job")
    sentence = f"{NOTEBOOK.name} started {waited:.1f} s after its submission, ahead of {past} in the queue."
    return Check(sentence, len(starts) == 1 and waiting > 0)


def _resumed(facts: DemoOutcome) -> Check:
    names = facts.seen.stopped_for_others()
    steps = {name: resumptions(facts.logs.get(name, ())) for name in names}
    exact = bool(names) and all(pairs and all(a == b for a, b in pairs) for pairs in steps.values())
    resumed_at = ", ".join(
        " and ".join(str(went_on) for _, went_on in pairs) or "none" for pairs in steps.values()
    )
    phrase = (
        "went on at the very step they were stopped at"
        if exact
        else "did not all go on where they were stopped"
    )
    return Check(f"{counted(len(names), 'stopped job')} {phrase}: {resumed_at}.", exact)


def _same(facts: DemoOutcome) -> Check:
    names = facts.seen.stopped_for_others()
    same = [name for name in names if is_same(facts, name)]
    sentence = (
        f"{len(same)} of {len(names)} ended with the loss and the weights of an undisturbed run, bit by bit."
    )
    return Check(sentence, bool(names) and len(same) == len(names))


def _ended(seen: Observations) -> Check:
    well = [part.name for part in PARTS.values() if part.steps and seen.status(part.name) == "succeeded"]
    total = sum(1 for part in PARTS.values() if part.steps)
    return Check(f"{len(well)} of {total} training jobs ended well.", len(well) == total)


# Parts of the checks


def resumptions(logs: Sequence[str]) -> list[tuple[int, int | None]]:
    """Return for each stop the step it came at, and the step the job continued from.

    A run may be stopped before it has begun: the one after it continues. A run may also be stopped when it
    has just done its last step: the one after it finds nothing left to do.
    """
    pairs: list[tuple[int, int | None]] = []
    begun = [log for log in logs if _GOES_ON.search(log) or _STOPS.search(log)]
    for before, after in pairwise([*begun, ""]):
        stopped = _STOPS.search(before)
        if stopped and (after or done(before) is None):
            went_on = _GOES_ON.search(after)
            pairs.append((int(stopped[1]), int(went_on[1]) if went_on else None))
    return pairs


def is_same(facts: DemoOutcome, name: str) -> bool:
    """Return True if a job's result equals its reference run in all digits."""
    logs = facts.logs.get(name, ())
    ended = done(logs[-1]) if logs else None
    return ended is not None and ended == facts.alone.get(name)


def _events(seen: Observations, kind: str, name: str) -> list[EventRow]:
    return [event for event in seen.events if event.kind == kind and event.workload == name]


def _stopped_for(seen: Observations, asker: str) -> tuple[dict[str, float], set[str]]:
    """Return the victims of a workload with the times of their evictions, and the rules."""
    evictions = [
        event for event in seen.events if event.kind == "stopping" and event.numbers.get("by") == asker
    ]
    return (
        {event.workload: event.at_s for event in evictions if event.workload},
        {str(event.numbers.get("rule")) for event in evictions},
    )


def _waited_s(seen: Observations, name: str) -> float | None:
    """Return the time from a job's submission to its first process; None if it never started."""
    starts, detail = _events(seen, "started", name), seen.details.get(name)
    return starts[0].at_s - detail.submitted_s if starts and detail else None


def _runs(seen: Observations, name: str, at_s: float) -> bool:
    """Return True if a job was running at a time, without notice to stop."""
    last = [event.kind for event in seen.events if event.workload == name and event.at_s < at_s]
    return next(
        (kind == "started" for kind in reversed(last) if kind in ("started", "stopping", "ended")), False
    )


def _waits(seen: Observations, name: str, at_s: float) -> bool:
    """Return True if a job was pending at a time, after an eviction."""
    last = [event.kind for event in seen.events if event.workload == name and event.at_s <= at_s]
    return next(
        (kind != "started" for kind in reversed(last) if kind in ("started", "stopping", "ended")), False
    )


def _slack_s(facts: DemoOutcome) -> float:
    """Return the tolerated delay of a checkpoint report: two steps of the jobs that save often.

    On a busy machine both grow. Jobs that save seldom have many times as much to lose.
    """
    often = [facts.saved_s.get(part.name, ()) for part in SWEEP if part.words[-1] == str(OFTEN)]
    apart = [later - sooner for saved in often for sooner, later in pairwise(saved)]
    return max(_SLACK_S, median(apart) if apart else 0.0)


def _unsaved_s(facts: DemoOutcome, name: str, at_s: float) -> float:
    """Return the time since a job's last checkpoint or start."""
    began = [event.at_s for event in _events(facts.seen, "started", name) if event.at_s <= at_s]
    saved = [saved_s for saved_s in facts.saved_s.get(name, ()) if saved_s <= at_s]
    return at_s - max([0.0, *began[-1:], *saved[-1:]])

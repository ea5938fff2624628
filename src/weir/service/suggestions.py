"""Changes that would let a pending workload start; each was tried on a copy of the cluster."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from weir.api.answers import Suggestion
from weir.model.policy import Policy
from weir.model.reasons import ReasonCode
from weir.model.resources import span
from weir.service.claim_suggestions import (
    as_preemptible,
    in_other_project,
    with_class,
    with_priority,
    with_quota,
)
from weir.service.cluster_copy import ClusterFacts
from weir.service.constraint_suggestions import other_model, without_constraint, without_required_level
from weir.service.end_suggestions import after_expected_ends, after_one_end
from weir.service.outage_suggestions import before_outages
from weir.service.request_suggestions import as_share, fewer_devices, with_less
from weir.service.suggestion_phrases import starts, then
from weir.service.what_if import WhatIf, WhatIfExhausted


@dataclass(frozen=True, slots=True)
class SuggestionOptions:
    """Limits of suggestions in a pool.

    `priorities` are the only allowed ones, None if any is; `projects` are those that the requester may submit
    to; `shares` of GPUs may be suggested; a workload of fewer pods is the same with a lower minimum, if pods
    are `others_make`: only their owner determines their number.
    """

    highest_priority: int
    priorities: tuple[int, ...] | None = None
    projects: tuple[str, ...] = ()
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
    yield from fewer_devices(trials, possible.others_make)
    if possible.shares:
        yield from as_share(trials)
    for one in (with_less, before_outages, other_model, without_constraint, without_required_level):
        yield from one(trials)
    yield from as_preemptible(trials)
    if possible.priorities is None:
        yield from with_priority(trials, possible.highest_priority)
    else:
        yield from with_class(trials, possible.priorities)
    yield from in_other_project(trials, possible.projects)
    yield from after_expected_ends(trials)
    yield from after_one_end(trials)
    yield from with_quota(trials)


def _resumed(trials: WhatIf) -> Iterator[Suggestion]:
    outcome, until_s = trials.tried(trials.job.spec), trials.job.held_until_s
    if outcome is not None and until_s is not None:
        left = span(max(1.0, round(until_s - trials.now_s)))
        verb = "may begin" if trials.job.held_code is ReasonCode.BEGIN_TIME else "is tried again"
        sentence = f"If it waits, it {verb} in {left}, and starts {then(trials, outcome)}."
        yield Suggestion(sentence=sentence, at_s=until_s)
    if outcome is not None and (until_s is None or trials.job.held_code is ReasonCode.BEGIN_TIME):
        free = "" if trials.job.held_code is ReasonCode.SUSPENDED else " without its conditions"
        sentence = f"If it is resumed{free}, {starts(trials, outcome)}"
        yield Suggestion(sentence=sentence, change={"suspended": False})

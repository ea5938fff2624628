"""Changes that would let a pending workload start; each was tried on a branch of the state."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from weir.api.answers import Suggestion
from weir.model.reasons import ReasonCode
from weir.model.resources import span
from weir.service.claim_suggestions import (
    as_preemptible,
    in_other_project,
    with_class,
    with_priority,
    with_quota,
)
from weir.service.constraint_suggestions import other_model, without_constraint, without_required_level
from weir.service.decision_state import StateReader
from weir.service.end_suggestions import after_expected_ends, after_one_end
from weir.service.outage_suggestions import before_outages
from weir.service.request_suggestions import as_share, fewer_devices, with_less
from weir.service.suggestion_phrases import starts, then
from weir.service.what_if import WhatIf, WhatIfExhausted

Suggest = Callable[[WhatIf], Iterable[Suggestion]]


@dataclass(frozen=True, slots=True)
class SuggestionOptions:
    """Limits of suggestions in a pool.

    `priorities` are the only allowed ones, None if any is; `projects` are those that the requester may submit
    to; with `shares`, shares of GPUs may be suggested. With `others_make`, an owner determines the number of
    pods: a workload of fewer pods is then suggested as a lower minimum.
    """

    highest_priority: int
    priorities: tuple[int, ...] | None = None
    projects: tuple[str, ...] = ()
    shares: bool = True
    others_make: bool = False


@dataclass(frozen=True, slots=True)
class SuggestionsFound:
    """Suggestions, and the kinds of changes whose trials ended early for lack of time."""

    suggestions: tuple[Suggestion, ...] = ()
    untried: tuple[str, ...] = ()


def suggestions(ask: StateReader, name: str, possible: SuggestionOptions) -> SuggestionsFound:
    """Return changes that would let the workload start now, or roughly when it starts if it only needs time.

    The answer is empty while it runs or others are being stopped for it. Changes of few trials come first.

    Raises:
        KeyError: there is no workload of this name.
        ControlUnavailable: nothing can be read now.
    """
    trials = WhatIf(ask, name)
    if trials.job.starts:
        return SuggestionsFound()
    kinds: list[tuple[str, Suggest]] = (
        [("resuming it", _resumed)] if trials.job.held else list(_kinds(possible))
    )
    results: list[Suggestion] = []
    for index, (_, suggest) in enumerate(kinds):
        try:
            for result in suggest(trials):
                results.append(result)  # noqa: PERF402 - results before the limit of trials count
        except WhatIfExhausted:
            return SuggestionsFound(tuple(results), tuple([phrase for phrase, _ in kinds[index:]]))
    return SuggestionsFound(tuple(results))


def _kinds(possible: SuggestionOptions) -> Iterator[tuple[str, Suggest]]:
    """Yield the kinds of changes, each as a noun, in the order in which they are tried."""
    yield "fewer GPUs or pods", lambda trials: fewer_devices(trials, possible.others_make)
    if possible.shares:
        yield "a share of a GPU", as_share
    yield "less CPU or memory", with_less
    yield "an end before an outage", before_outages
    yield "another GPU model", other_model
    yield "fewer constraints on nodes", without_constraint
    yield "several topology domains", without_required_level
    yield "being preemptible", as_preemptible
    priorities = possible.priorities
    if priorities is None:
        yield "another priority", lambda trials: with_priority(trials, possible.highest_priority)
    else:
        yield "another priority", lambda trials: with_class(trials, priorities)
    yield "another project", lambda trials: in_other_project(trials, possible.projects)
    yield "a larger quota", with_quota
    yield "expected ends of running work", after_expected_ends
    yield "the end of one running workload", after_one_end


def _resumed(trials: WhatIf) -> Iterator[Suggestion]:
    outcome, until_s = trials.tried(trials.job.spec), trials.job.held_until_s
    if outcome is not None and until_s is not None:
        left = span(max(1.0, round(until_s - trials.now_s)))
        verb = "may begin" if trials.job.held_code is ReasonCode.BEGIN_TIME else "is tried again"
        sentence = f"If it waits, it {verb} in {left}, and starts {then(outcome)}."
        yield Suggestion(sentence=sentence, at_s=until_s)
    if outcome is not None and (until_s is None or trials.job.held_code is ReasonCode.BEGIN_TIME):
        free = "" if trials.job.held_code is ReasonCode.SUSPENDED else " without its conditions"
        sentence = f"If it is resumed{free}, {starts(outcome)}"
        yield Suggestion(sentence=sentence, change={"suspended": False})

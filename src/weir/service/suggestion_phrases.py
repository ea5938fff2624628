"""Phrases that suggestions share: the time of a start, and the loss of the stopped work."""

from collections.abc import Mapping

from weir.api.answers import Suggestion
from weir.engine.preemption.eviction_reasons import cost_phrase
from weir.engine.refusals.holder_phrases import names_phrase
from weir.service.what_if import WhatIfOutcome


def when(outcome: WhatIfOutcome) -> str:
    """Return the time of the start: now, or after evictions, with the names of the victims."""
    if not outcome.stops:
        return "now"
    owners, are = names_phrase(list(outcome.owners), "and"), "is" if len(outcome.stops) == 1 else "are"
    return f"once {owners} {are} evicted"


def starts(outcome: WhatIfOutcome) -> str:
    """Return the clause at the end of most suggestions."""
    return f"it starts {when(outcome)}."


def then(outcome: WhatIfOutcome) -> str:
    """Return the time of the start, as a clause for a sentence that already names a time."""
    return "then" if not outcome.stops else when(outcome)


def suggestion(sentence: str, change: Mapping[str, object], outcome: WhatIfOutcome) -> Suggestion:
    """Return a suggestion, with the loss that its evictions cause."""
    return Suggestion(sentence=f"{sentence}{_cost(outcome)}", change=dict(change))


def _cost(outcome: WhatIfOutcome) -> str:
    """Return the work that the evictions lose, as a sentence; empty without evictions."""
    if not outcome.stops:
        return ""
    return f" That costs {cost_phrase(outcome.lost, outcome.restarts, len(outcome.stops))}."


def gpus_phrase(count: int) -> str:
    """Return a number of GPUs in words."""
    return f"{count} GPUs" if count > 1 else "1 GPU"

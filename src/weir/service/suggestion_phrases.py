"""Phrases that suggestions share: the time of a start, and the cost for the stopped work."""

from collections.abc import Mapping

from weir.api.answers import Suggestion
from weir.engine.eviction_reasons import cost_phrase
from weir.engine.holder_phrases import names_phrase
from weir.service.what_if import WhatIfOutcome


def when(outcome: WhatIfOutcome) -> str:
    """Return when it starts: now, or after the work that has to stop, by owner and project."""
    if not outcome.stops:
        return "now"
    owners, has = names_phrase(list(outcome.owners), "and"), "has" if len(outcome.stops) == 1 else "have"
    return f"as soon as {owners} {has} stopped"


def starts(outcome: WhatIfOutcome) -> str:
    """Return the clause that ends most suggestions."""
    return f"it starts {when(outcome)}."


def then(outcome: WhatIfOutcome) -> str:
    """Return when it starts after a time was named."""
    return "then" if not outcome.stops else when(outcome)


def suggestion(sentence: str, change: Mapping[str, object], outcome: WhatIfOutcome) -> Suggestion:
    """Return a suggestion with its cost for the work that has to stop."""
    return Suggestion(sentence=f"{sentence}{_cost(outcome)}", change=dict(change))


def _cost(outcome: WhatIfOutcome) -> str:
    """Return the loss of the stopped work, as a sentence; empty if nothing stops."""
    if not outcome.stops:
        return ""
    return f" That costs {cost_phrase(outcome.lost, outcome.restarts, len(outcome.stops))}."


def devices_phrase(count: int) -> str:
    """Return a number of devices in words."""
    return f"{count} devices" if count > 1 else "1 device"

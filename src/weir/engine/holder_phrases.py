"""Phrases for holders of capacity: amounts by holder, names of workloads, disruption budgets."""

from collections.abc import Mapping, Sequence

from weir.engine.node_refusals import amount_phrase
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI

MAX_BUDGETS = 16
"""Budgets in the numbers of a reason."""
PROTECTED = "workloads that"
"""Start of the words for usage that budgets protect."""
REFUSED = "workloads whose eviction was refused a moment ago"
_NAMED_MOST = 4


def amounts_phrase(resource: str, holders: Mapping[str, int]) -> str:
    """Return the amounts by holder as a part of a sentence: of budgets, then the largest first.

    A budget is always named. People can change it, while the other holders only have what is theirs.
    """
    ordered = sorted(holders.items(), key=lambda item: (not item[0].startswith(PROTECTED), -item[1], item[0]))
    return "; ".join(
        f"{amount_phrase(resource, units)} {'is' if units == WHOLE_MILLI else 'are'} held by {holder}"
        if resource == GPU
        else f"{amount_phrase(resource, units)} held by {holder}"
        for holder, units in ordered[:_NAMED_MOST]
    )


def names_phrase(names: Sequence[str]) -> str:
    """Return a few of these names and the number of the others."""
    more = len(names) - _NAMED_MOST
    return ", ".join(names[:_NAMED_MOST]) + (f" and {more} more" if more > 0 else "")


def budgets_protect(names: Sequence[str]) -> str:
    """Return that these disruption budgets protect something: a few of them and the number of the others."""
    kind, verb = "PodDisruptionBudget", "protects" if len(names) == 1 else "protect"
    return f"{kind}{'' if len(names) == 1 else 's'} {names_phrase(names)} {verb}"

"""Protection of running work from eviction, and phrases for it: amounts by holder, names, budgets."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from weir.engine.refusals.node_refusals import amount_phrase
from weir.model.resources import GPU
from weir.model.workloads import WHOLE_MILLI
from weir.state.jobs import Job

MAX_BUDGETS = 16
"""Number of budgets that a reason lists."""
PROTECTED = "workloads that"
"""Start of the words for usage that budgets protect."""
_NAMED_MAX = 4


class Protection(StrEnum):
    """Causes that protect a running workload from eviction, by precedence."""

    FIXED = "fixed"  # it is non-preemptible
    PRIORITY = "priority"  # same project, and its priority isn't lower
    CLAIM = "claim"  # the requester has no claim on its queue
    QUEUE = "queue"  # its queue isn't above its quota or share
    CYCLE = "cycle"  # the requester was evicted for it a moment ago
    MIN_RUNTIME = "min_runtime"
    REFUSED = "refused"  # its eviction was refused a moment ago
    BUDGETS = "budgets"  # disruption budgets allow no eviction


_HOLDERS = {
    Protection.FIXED: "non-preemptible work of {project}",
    Protection.PRIORITY: "its own project at no lower priority",
    Protection.CLAIM: "{project}, on which it has no claim",
    Protection.QUEUE: "{project}, which is not over its share",
    Protection.CYCLE: "work of {project} for which it was stopped a moment ago",
    Protection.MIN_RUNTIME: "work of {project} within its minimum run time",
    Protection.REFUSED: "workloads whose eviction was refused a moment ago",
    Protection.BUDGETS: f"{PROTECTED} {{protect}}",
}
_PROTECTIONS = {
    Protection.FIXED: "it is non-preemptible",
    Protection.PRIORITY: "its priority is no lower",
    Protection.CLAIM: "{claimant} has no claim on {project}",
    Protection.QUEUE: "{project} is not over its share",
    Protection.CYCLE: "{requester} was stopped for it a moment ago",
    Protection.MIN_RUNTIME: "it is within its minimum run time",
    Protection.REFUSED: "its eviction was refused a moment ago",
    Protection.BUDGETS: "{protect} it",
}


def amounts_phrase(resource: str, holders: Mapping[str, int]) -> str:
    """Return the amounts by holder as a part of a sentence: of budgets, then the largest first.

    A budget is always named, because people can change it. The other holders only have what they are entitled
    to.
    """
    ordered = sorted(holders.items(), key=lambda item: (not item[0].startswith(PROTECTED), -item[1], item[0]))
    return "; ".join(
        f"{amount_phrase(resource, units)} {'is' if units == WHOLE_MILLI else 'are'} held by {holder}"
        if resource == GPU
        else f"{amount_phrase(resource, units)} held by {holder}"
        for holder, units in ordered[:_NAMED_MAX]
    )


def holder_phrase(protection: Protection, project: str, budgets: Sequence[str]) -> str:
    """Return the holder of an amount: work of a project with this protection."""
    return _HOLDERS[protection].format(project=project, protect=budgets_protect(budgets))


def protection_phrase(
    protection: Protection | None, victim: Job, requester: Job, budgets: Sequence[str]
) -> str:
    """Return the protection of a workload from a requester, as a sentence about the workload."""
    if protection is None:
        return "it can't be evicted as a whole"
    return _PROTECTIONS[protection].format(
        project=victim.spec.project,
        requester=requester.name,
        claimant=requester.spec.project,
        protect=budgets_protect(budgets),
    )


def names_phrase(names: Sequence[str], conjunction: str = "") -> str:
    """Return some of these names and the number of the others, with `conjunction` before the last name."""
    others = len(names) - _NAMED_MAX
    if others > 0:
        return f"{', '.join(names[:_NAMED_MAX])} and {others} more"
    if conjunction and len(names) > 1:
        return f"{', '.join(names[:-1])} {conjunction} {names[-1]}"
    return ", ".join(names)


def budgets_protect(names: Sequence[str]) -> str:
    """Return the words for protection by these disruption budgets: some names and the number of others."""
    kind, verb = "PodDisruptionBudget", "protects" if len(names) == 1 else "protect"
    return f"{kind}{'' if len(names) == 1 else 's'} {names_phrase(names)} {verb}"

"""GPUs in the namespaces of projects that another scheduler has given to pods.

Such pods use GPUs of the cluster, and no quota counts them. Mostly they were created without a scheduler's
name while the webhook was unavailable. The scheduler of a pod can't be changed, so the project's status names
these pods.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NEVER_QUOTA = ("DaemonSet", "Node")
"""Kinds of owners whose pods name their node from the beginning: no scheduler charges them to a quota."""
PODS_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class OtherHolder:
    """A pod with GPUs on a node, and the scheduler that it names."""

    gpus: int
    scheduler: str


def remarks_of_projects(
    holders: Mapping[str, OtherHolder], projects_of: Mapping[str, Iterable[str]]
) -> dict[tuple[str, str], str]:
    """Return a remark for each project with such pods in its namespaces; `holders` are by namespace/name."""
    held: dict[str, list[str]] = defaultdict(list)
    for key in holders:
        for project in projects_of.get(key.partition("/")[0], ()):
            held[project].append(key)
    return {("Project", project): _remark(sorted(keys), holders) for project, keys in held.items()}


def _remark(keys: list[str], holders: Mapping[str, OtherHolder]) -> str:
    gpus = sum(holders[key].gpus for key in keys)
    schedulers = sorted({holders[key].scheduler for key in keys})
    named, left = keys[:PODS_NAMED_MAX], len(keys) - PODS_NAMED_MAX
    pods = ", ".join(named) + (f" and {left} more" if left > 0 else "")
    return (
        f"{gpus} GPUs in its namespaces are outside its quota, given by {', '.join(schedulers)} to {pods}: "
        "delete such pods, and create them again"
    )

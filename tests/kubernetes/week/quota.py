"""Usage and limits of projects and departments, counted from pods and the quota tree."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tests.kubernetes.week.pods import PodView, size
from tests.kubernetes.week.snapshot import Gang, Snapshot, total_milli
from tools.controlplane.api import Object

UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Holdings:
    """Thousandths of devices by queue."""

    allocated: Mapping[str, int]
    fixed: Mapping[str, int]  # of it, what is held by work that isn't preemptible


def holdings(snapshot: Snapshot) -> Holdings:
    """Count what Weir's pods hold, by project and by the departments above.

    A pod on a node that is gone holds nothing. The garbage collector of pods removes it up to a minute later.
    """
    allocated: dict[str, int] = defaultdict(int)
    fixed: dict[str, int] = defaultdict(int)
    for gang in snapshot.gangs.values():
        project = snapshot.project_of(gang)
        if project not in snapshot.projects:
            continue
        there = (pod for pod in gang.holding if pod.is_weirs and pod.node in snapshot.nodes)
        held = total_milli(there, snapshot.nodes)
        for queue in snapshot.path(project):
            allocated[queue["metadata"]["name"]] += held
            fixed[queue["metadata"]["name"]] += 0 if may_be_evicted(snapshot, gang) else held
    return Holdings(allocated, fixed)


def quota(queue: Object, word: str = "quota") -> int:
    """Return the quota or limit of GPUs in thousandths; a limit that isn't written is unlimited."""
    written = (queue["spec"].get(word) or {}).get("gpu")
    if written is None:
        return UNLIMITED if word == "limit" else 0
    return UNLIMITED if written == "unlimited" else size(str(written)) * 1000


def asks(pods: list[PodView]) -> int:
    """Return thousandths of devices that pods ask for."""
    return sum(pod.milli for pod in pods)


def needed(gang: Gang) -> list[PodView]:
    """Return the pending pods that start next: the missing minimum of a gang, or else one pod."""
    there = sum(pod.holds and not pod.deleting for pod in gang.pods)
    missing = gang.needs - there
    waiting = sorted(gang.waiting, key=lambda pod: pod.name)
    return waiting[: max(1, missing)] if there else waiting[: max(1, gang.needs)]


def may_be_evicted(snapshot: Snapshot, gang: Gang) -> bool:
    """Return True if the work says that it is preemptible, and no disruption budget could protect it for good."""
    return gang.preemptible and not any(budgets_of(snapshot, pod) for pod in gang.pods)


def budgets_of(snapshot: Snapshot, pod: PodView) -> list[str]:
    """Return the disruption budgets that select a pod."""
    found = []
    for (namespace, name), budget in snapshot.of["poddisruptionbudgets"].items():
        wanted = (budget["spec"].get("selector") or {}).get("matchLabels") or {}
        if namespace == pod.namespace and all(pod.labels.get(key) == value for key, value in wanted.items()):
            found.append(name)
    return found

"""Owners that wait while others hold over their quota what may be taken: found by trying single victims and pairs.

It errs on the side of silence: victims are whole workloads without any disruption budget, whose project and
departments stay at their quotas or above them when all victims are gone.
"""

from collections.abc import Iterator
from itertools import combinations

from tests.kubernetes.week.oracle import Waiting
from tests.kubernetes.week.quota import asks, may_be_evicted, quota
from tests.kubernetes.week.snapshot import Gang, Snapshot, total_milli

VICTIMS_MAX = 2
CANDIDATES_MAX = 12


def waiting_owner(waiting: Waiting) -> str:
    """Return what an owner could take and doesn't, or nothing."""
    if not waiting.is_ready or not asks(waiting.next) or not _in_quota(waiting) or waiting.passes_limit:
        return ""
    if any(pod.deleting for pod in waiting.gang.pods) or waiting.fits_now() is not None:
        return ""
    candidates = list(_victims(waiting))[:CANDIDATES_MAX]
    for count in range(1, VICTIMS_MAX + 1):
        for victims in combinations(candidates, count):
            if _stay_over(waiting, victims) and _fits_without(waiting, victims):
                names = ", ".join(f"{each.full_name} ({each.milli // 1000} GPUs)" for each in victims)
                return f"{waiting.gang.full_name} is within the quota of {waiting.project}; it could take {names}"
    return ""


def _in_quota(waiting: Waiting) -> bool:
    asked = asks(waiting.next)
    held = waiting.holdings.allocated
    return all(held.get(queue["metadata"]["name"], 0) + asked <= quota(queue) for queue in waiting.path)


def _victims(waiting: Waiting) -> Iterator[Gang]:
    snapshot = waiting.snapshot
    for gang in sorted(snapshot.gangs.values(), key=lambda each: (each.milli, each.full_name)):
        project = snapshot.project_of(gang)
        if not gang.holding or project in ("", waiting.project) or project not in snapshot.projects:
            continue
        free_to_go = may_be_evicted(snapshot, gang) and all(
            pod.is_weirs and pod.phase == "Running" and not pod.deleting and not pod.nominated
            for pod in gang.holding
        )
        if free_to_go and not _stopped_for(waiting, gang) and _recorded_preemptible(snapshot, gang):
            yield gang


def _recorded_preemptible(snapshot: Snapshot, gang: Gang) -> bool:
    """Return True if no pod was started as work that isn't preemptible."""
    workload = snapshot.workloads.get((gang.namespace, gang.name)) or {}
    allocations = (workload.get("status") or {}).get("allocations") or []
    return bool(allocations) and not any(each.get("preemptible") is False for each in allocations)


def _stopped_for(waiting: Waiting, gang: Gang) -> bool:
    """Return True if the one that waits was itself stopped for this one, or for work of its project."""
    workload = waiting.snapshot.workloads.get((waiting.gang.namespace, waiting.gang.name)) or {}
    by = ((workload.get("status") or {}).get("lastEviction") or {}).get("by", "")
    return bool(by) and by == gang.full_name


def _stay_over(waiting: Waiting, victims: tuple[Gang, ...]) -> bool:
    """Return True if every queue that gives stays at its quota or over it."""
    snapshot, gone = waiting.snapshot, {}
    own = {queue["metadata"]["name"] for queue in waiting.path}
    for gang in victims:
        held = total_milli(gang.holding, snapshot.nodes)
        for queue in snapshot.path(snapshot.project_of(gang)):
            gone[queue["metadata"]["name"]] = gone.get(queue["metadata"]["name"], 0) + held
    for gang in victims:
        for queue in snapshot.path(snapshot.project_of(gang)):
            name = queue["metadata"]["name"]
            stays = waiting.holdings.allocated.get(name, 0) - gone[name]
            if name not in own and stays < quota(queue):
                return False
    return True


def _fits_without(waiting: Waiting, victims: tuple[Gang, ...]) -> bool:
    gone = {pod.uid for gang in victims for pod in gang.pods}
    nodes = waiting.free_nodes()
    for node in nodes.values():
        node.pods = [pod for pod in node.pods if pod.uid not in gone]
    return waiting.place_on(nodes) is not None

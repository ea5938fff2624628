"""The workload of a gang, as the engine gets it: groups, minima, and whether it is ready to be started."""

from collections.abc import Container, Mapping

from weir.kubernetes.state.gangs import Gang, TrackedPod
from weir.kubernetes.state.pod_info import PodInfo
from weir.kubernetes.state.services import minimum_of_service, preemptible_by_replicas
from weir.kubernetes.translate.kinds import GangMinimum
from weir.model.workloads import PodGroup, Workload
from weir.state.events import PodKey

LOWEST_PRIORITY = -(1 << 31)
"""Priority of a workload that bound itself past its quota: all others of its project may preempt it."""


def workload_of(gang: Gang) -> Workload:
    """Return the workload for the engine."""
    assert gang.head is not None
    head = gang.head
    derived, annotations = head.derived, head.annotations
    needed = _needed(gang, head)
    gang.whole = max(1, needed.min_pods)
    needed = gang.members.left_of(needed)
    gang.needed = max(1, needed.min_pods)
    if derived.native is not None and derived.native.stops_whole:
        gang.needed = max(gang.needed, _held(gang))
    gang.needed = minimum_of_service(gang, gang.needed)
    _trim(gang)
    counts = [max(1, len(group.slots)) for group in gang.groups]
    minima = _minima(gang, needed.minima, counts)
    limits = (annotations.max_runtime_s, head.pod_request.max_runtime_s)
    return Workload(
        name=gang.name,
        project=gang.project or "",
        user=annotations.user or "",
        groups=tuple(
            PodGroup(_group_name(gang, at), group.request, count, least)
            for at, (group, count, least) in enumerate(zip(gang.groups, counts, minima, strict=True))
        ),
        min_pods=min(gang.needed, sum(counts)),
        submitted_s=head.submitted_s,
        type=annotations.type or derived.type,
        priority=LOWEST_PRIORITY if gang.overrun and gang.self_bound else gang.priority,
        preemptible=(_is_preemptible(gang) and (gang.lapsed or not gang.protected)) or gang.overrun,
        overrun=gang.overrun and gang.self_bound,
        protected=gang.protected and not (gang.overrun or gang.lapsed),
        lapsed=gang.lapsed and not gang.overrun,
        max_runtime_s=min((each for each in limits if each), default=None),
        idle_limit_s=annotations.idle_limit_s,
        topology=gang.topology,
        restart_s=gang.restart_s,
        grace_s=head.pod_request.grace_s,
        can_preempt=all(
            tracked.info is None or tracked.info.pod_request.can_preempt for tracked in gang.pods()
        ),
    )


def wants_more(gang: Gang) -> bool:
    """Return True if a pod waits for a node without which the workload can go on."""
    if gang.head is None or all(tracked.holds or tracked.deleting for tracked in gang.pods()):
        return False
    there = _held(gang) + sum(gang.members.placed.values())
    return there >= max(1, _needed(gang, gang.head).min_pods)


def _needed(gang: Gang, head: PodInfo) -> GangMinimum:
    """Return the minimum of a gang, of all schedulers."""
    succeeded = len(gang.succeeded) + gang.members.succeeded
    return head.derived.needed(head.annotations.min_pods, succeeded)


def _is_preemptible(gang: Gang) -> bool:
    """Return True if its pods may use more than the quota: as they say, or by replicas, or by priority."""
    by_replicas = preemptible_by_replicas(gang)
    stated = gang.head is not None and gang.head.annotations.preemptible is not None
    return gang.is_preemptible if stated or by_replicas is None else by_replicas


def _held(gang: Gang) -> int:
    """Return the number of its pods that have a node and stay there."""
    return sum(tracked.holds and not tracked.stopping for tracked in gang.pods())


def _group_name(gang: Gang, at: int) -> str:
    """Return the role of a group, and a number where several groups have it."""
    role = gang.groups[at].role or "pods"
    alike = sum(1 for group in gang.groups[:at] if (group.role or "pods") == role)
    return f"{role}-{alike + 1}" if alike else role


def _trim(gang: Gang) -> None:
    """Remove slots without a pod from the end, except those that the gang needs."""
    spare = sum(len(group.slots) for group in gang.groups) - gang.needed
    for group in reversed(gang.groups):
        while spare > 0 and group.slots and group.slots[-1] is None:
            group.slots.pop()
            spare -= 1
    while len(gang.groups) > 1 and not gang.groups[-1].slots:
        gang.groups.pop()


def _minima(gang: Gang, by_role: Mapping[str, int], counts: list[int]) -> list[int]:
    """Return the minimum of each group, where a role's pods are of several groups."""
    left = dict(by_role)
    minima = []
    for group, count in zip(gang.groups, counts, strict=True):
        least = min(left.get(group.role, 0), count)
        left[group.role] = left.get(group.role, 0) - least
        minima.append(least)
    return minima


def absent_pods(gang: Gang, is_node: Container[str]) -> frozenset[PodKey]:
    """Return the slots without a pod that runs or could be placed."""
    name = gang.name
    over = gang.is_over() is not None
    return frozenset(
        PodKey(name, at, index)
        for at, group in enumerate(gang.groups)
        for index in range(max(1, len(group.slots)))
        if index >= len(group.slots)
        or (tracked := group.slots[index]) is None
        or (tracked.node not in is_node if tracked.holds else over or tracked.wait)
    )


def closed_gate(gang: Gang, absent: int) -> str | None:
    """Return why it isn't ready to be started, in a sentence; None if it is."""
    if gang.is_over() is not None:
        return "It is over."
    assert gang.head is not None
    if is_restarting(gang):
        return f"It was stopped. Weir resumes its {gang.key.kind} once its pods are gone."
    if gang.head.derived.suspended or gang.idle.is_ordered:
        return (
            f"It is suspended: {gang.idle.suspended_for}." if gang.idle.suspended_for else "It is suspended."
        )
    if gang.refusal:
        return gang.refusal  # what it holds runs on
    ready = sum(max(1, len(group.slots)) for group in gang.groups) - absent
    if ready >= gang.needed:
        return None
    return _shortage(gang, ready)


def is_restarting(gang: Gang) -> bool:
    """Return True if Weir suspends its owner in place of evictions, and resumes it."""
    return gang.restart.is_under_way or (gang.head is not None and gang.head.derived.restarts)


def _shortage(gang: Gang, ready: int) -> str:
    """Return why too few pods can be placed, in a sentence."""
    waits = first_waiting(gang)
    if waits is not None and gang.whole == 1:
        return waits.wait
    ready += sum(gang.members.placed.values())
    placed = f"{ready} of {gang.whole} pods are ready to be placed"
    if waits is not None:
        return f"{placed}; {waits.name}: {waits.wait}"
    if gang.members.next_pending is not None:
        name, scheduler = gang.members.next_pending
        return f"{placed}; {name}: It waits for the scheduler {scheduler}."
    there = gang.count + gang.members.count
    awaits = f" {gang.awaits}" if gang.awaits and not there else ""
    return f"{there} of {gang.whole} pods {'exists' if there == 1 else 'exist'}.{awaits}"


def first_waiting(gang: Gang) -> TrackedPod | None:
    """Return the pod that is named where some of its pods aren't ready to be placed."""
    waiting = (each for each in gang.pods() if not each.holds and each.wait)
    return min(waiting, key=lambda each: (each.deleting, each.created_s, each.name), default=None)

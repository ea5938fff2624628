"""The workload of a gang, as the engine gets it: groups, minima, and whether it is ready to be started."""

from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence

from weir.kubernetes.state.gangs.gang import Gang, PodGroupSlots, TrackedPod
from weir.kubernetes.state.gangs.owner_state import maker_of
from weir.kubernetes.state.gangs.services import minimum_of_service, preemptible_by_replicas
from weir.kubernetes.state.owners.pod_info import PodInfo
from weir.kubernetes.translate.kinds import GangMinimum
from weir.model.reasons import as_sentence
from weir.model.workloads import PodGroup, Workload
from weir.state.events import PodKey

LOWEST_PRIORITY = -(1 << 31)
"""Priority of work that bound itself past its quota: all other work of its project may preempt it."""


def workload_of(gang: Gang, is_node: Container[str]) -> Workload:
    """Return the workload for the engine. `is_node`: nodes that control knows."""
    assert gang.head is not None
    head = gang.head
    derived, annotations = head.derived, head.annotations
    needed = minimum_of(gang, head)
    gang.whole = max(1, needed.min_pods)
    needed = gang.members.left_of(needed)
    gang.needed = max(1, needed.min_pods)
    held = sum(_runs_on(tracked, is_node) for tracked in gang.pods())
    if derived.native is not None and derived.native.stops_whole:
        gang.needed = max(gang.needed, held)
    gang.needed = minimum_of_service(gang, gang.needed, held)
    _trim(gang, needed.minima)
    counts = [max(1, len(group.slots)) for group in gang.groups]
    min_pods = min(gang.needed, sum(counts))
    minima = _minima(gang, needed.minima, counts, min_pods, is_node)
    limits = (annotations.max_runtime_s, head.pod_request.max_runtime_s)
    return Workload(
        name=gang.name,
        project=gang.project or "",
        user=annotations.user or "",
        groups=tuple(
            PodGroup(_group_name(gang, group_index), group.request, count, least)
            for group_index, (group, count, least) in enumerate(zip(gang.groups, counts, minima, strict=True))
        ),
        min_pods=min_pods,
        submitted_s=head.submitted_s,
        type=annotations.type or derived.type,
        priority=LOWEST_PRIORITY if gang.overrun and gang.self_bound else gang.priority,
        preemptible=(_is_preemptible(gang) and (gang.lapsed or not gang.protected)) or gang.overrun,
        overrun=gang.overrun and gang.self_bound,
        protected=gang.protected and not (gang.overrun or gang.lapsed),
        lapsed=gang.lapsed and not gang.overrun,
        max_runtime_s=min((limit for limit in limits if limit), default=None),
        idle_limit_s=annotations.idle_limit_s,
        topology=gang.topology,
        restart_s=gang.restart_s,
        grace_s=_longest_grace_s(gang),
        can_preempt=all(
            tracked.info is None or tracked.info.pod_request.can_preempt for tracked in gang.pods()
        ),
    )


def _longest_grace_s(gang: Gang) -> float | None:
    """Return the longest grace period of the pods of a workload; None if none states one."""
    stated = (tracked.info.pod_request.grace_s for tracked in gang.pods() if tracked.info is not None)
    return max((grace_s for grace_s in stated if grace_s is not None), default=None)


def wants_more(gang: Gang) -> bool:
    """Return True if an elastic pod waits for a node, without which the workload can run."""
    if gang.head is None or all(tracked.holds or tracked.deleting for tracked in gang.pods()):
        return False
    held = Counter(
        group.role for group in gang.groups for tracked in group.slots if tracked and _stays(tracked)
    )
    held.update(gang.members.placed)
    minimum = minimum_of(gang, gang.head)
    least = max(1, minimum.min_pods)
    return counted_pods(held, minimum.minima, least) >= least


def minimum_of(gang: Gang, head: PodInfo) -> GangMinimum:
    """Return the minimum of a gang, counting pods of all schedulers."""
    succeeded = Counter(gang.succeeded.values()) + Counter(gang.members.succeeded)
    return head.derived.needed(head.annotations.min_pods, succeeded)


def _is_preemptible(gang: Gang) -> bool:
    """Return True if its pods may exceed the quota, by annotation, by replicas, or by priority."""
    by_replicas = preemptible_by_replicas(gang)
    stated = gang.head is not None and gang.head.annotations.preemptible is not None
    return gang.is_preemptible if stated or by_replicas is None else by_replicas


def _stays(tracked: TrackedPod) -> bool:
    return tracked.holds and not tracked.stopping


def _runs_on(tracked: TrackedPod, is_node: Container[str]) -> bool:
    """Return True if a pod stays on its node, and control knows that node."""
    return _stays(tracked) and tracked.node in is_node


def _group_name(gang: Gang, group_index: int) -> str:
    """Return the role of a group, with a number if several groups have this role."""
    role = gang.groups[group_index].role or "pods"
    alike = sum(1 for group in gang.groups[:group_index] if (group.role or "pods") == role)
    return f"{role}-{alike + 1}" if alike else role


def _trim(gang: Gang, minima: Mapping[str, int]) -> None:
    """Remove slots without a pod from the end, except those that the gang or one of its roles needs."""
    slots: Counter[str] = Counter()
    for group in gang.groups:
        slots[group.role] += len(group.slots)
    spare = slots.total() - gang.needed
    for group in reversed(gang.groups):
        least = minima.get(group.role, 0)
        while spare > 0 and slots[group.role] > least and group.slots and group.slots[-1] is None:
            group.slots.pop()
            slots[group.role] -= 1
            spare -= 1
    while len(gang.groups) > 1 and not gang.groups[-1].slots:
        gang.groups.pop()


def _minima(
    gang: Gang, by_role: Mapping[str, int], counts: list[int], min_pods: int, is_node: Container[str]
) -> list[int]:
    """Return the minimum of each group: the minima by role, and then other pods up to `min_pods`.

    Several groups may have one role, since its pods have different requests. Pods with a node come first,
    then those that can be placed: no running pod is stopped for a new one, and no gang waits for a lost one.
    """
    if len(counts) == 1:
        return [min(by_role.get(gang.groups[0].role, 0), counts[0])]
    available = [_by_availability(group, is_node) for group in gang.groups]
    minima = [0] * len(counts)

    def grow(ats: Sequence[int], most: int) -> None:
        for rank in (1, 2, None):
            for group_index in ats:
                existing = counts[group_index] if rank is None else sum(available[group_index][:rank])
                growth = max(0, min(most, existing - minima[group_index]))
                minima[group_index] += growth
                most -= growth

    roles: dict[str, list[int]] = {}
    for group_index, group in enumerate(gang.groups):
        roles.setdefault(group.role, []).append(group_index)
    for ats in roles.values():
        ats.sort(key=lambda group_index: -_youngest_s(gang.groups[group_index]))
    for role, ats in roles.items():
        grow(ats, by_role.get(role, 0))
    grow([group_index for ats in roles.values() for group_index in ats], min_pods - sum(minima))
    return minima


def _by_availability(group: PodGroupSlots, is_node: Container[str]) -> tuple[int, int]:
    """Return the pods of a group that have a node and stay there, and those that can be placed."""
    pods = [tracked for tracked in group.slots if tracked is not None]
    held = sum(_runs_on(tracked, is_node) for tracked in pods)
    return held, sum(not tracked.holds and not tracked.wait for tracked in pods)


def _youngest_s(group: PodGroupSlots) -> float:
    return max((tracked.created_s for tracked in group.slots if tracked is not None), default=0.0)


def absent_pods(gang: Gang, is_node: Container[str]) -> frozenset[PodKey]:
    """Return the slots without a pod that runs or could be placed."""
    name = gang.name
    over = gang.is_over() is not None
    return frozenset(
        PodKey(name, group_index, index)
        for group_index, group in enumerate(gang.groups)
        for index in range(max(1, len(group.slots)))
        if index >= len(group.slots)
        or (tracked := group.slots[index]) is None
        or (tracked.node not in is_node if tracked.holds else over or tracked.wait)
    )


def counted_pods(existing: Mapping[str, int], minima: Mapping[str, int], min_pods: int) -> int:
    """Return how many pods, given by role, count for the minimum of a gang.

    Pods of one role never count for another. Pods of a role that the gang doesn't know count for any.
    """
    with_minimum = sum(count for role, count in existing.items() if role in minima)
    by_role = sum(min(existing.get(role, 0), least) for role, least in minima.items())
    elastic = min(with_minimum - by_role, max(0, min_pods - sum(minima.values())))
    return by_role + elastic + sum(existing.values()) - with_minimum


def closed_gate(gang: Gang, absent: Collection[PodKey] = ()) -> str | None:
    """Return why the workload isn't ready to start, in a sentence; None if it is."""
    if gang.is_over() is not None:
        return "It is over."
    assert gang.head is not None
    if is_restarting(gang):
        return f"It was stopped. Weir resumes its {gang.key.kind} once its pods are gone."
    if gang.head.derived.suspended or gang.idle.is_ordered:
        return _suspension(gang)
    if gang.refusal:
        return gang.refusal  # its running pods continue
    ready, lacking = Counter[str](), Counter(pod.group for pod in absent)
    for group_index, group in enumerate(gang.groups):
        ready[group.role] += max(1, len(group.slots)) - lacking[group_index]
    minimum = minimum_of(gang, gang.head)
    if counted_pods(ready, gang.members.left_of(minimum).minima, gang.needed) >= gang.needed:
        return None
    return _shortage(gang, ready, minimum.minima)


def _suspension(gang: Gang) -> str:
    """Return why a suspended workload has no pods, and the program or the command that resumes it."""
    assert gang.head is not None
    if gang.idle.suspended_for:
        return f"It is suspended: {gang.idle.suspended_for}."
    stated = gang.head.derived.stated_suspension
    if stated is None or not stated.field:
        return "It is suspended."
    so = "" if gang.count else ", so it has no pods"
    then = "Once it is resumed,"
    if stated.resumer:
        then = f"{as_sentence(stated.resumer)} Then"
    elif stated.command and maker_of(gang).kind != "Job":
        then = f"Once `{stated.command}` resumes it,"
    return f"It is suspended: {stated.field} is true{so}. {then} it enters the queue of {gang.project}."


def is_restarting(gang: Gang) -> bool:
    """Return True if Weir has suspended the owner instead of evicting pods, and will resume it."""
    return gang.restart.is_under_way or (gang.head is not None and gang.head.derived.restarts)


def _shortage(gang: Gang, ready: Counter[str], minima: Mapping[str, int]) -> str:
    """Return why too few pods can be placed, in a sentence."""
    waits = first_waiting(gang)
    if waits is not None and gang.whole == 1:
        return waits.wait
    placed = counted_pods(ready + Counter(gang.members.placed), minima, gang.whole)
    placed_text = f"{placed} of {gang.whole} pods are ready to be placed"
    if waits is not None:
        return f"{placed_text}; {waits.name}: {waits.wait}"
    if gang.members.next_pending is not None:
        name, scheduler = gang.members.next_pending
        return f"{placed_text}; {name}: It waits for the scheduler {scheduler}."
    existing = counted_pods(pods_by_role(gang), minima, gang.whole) + gang.members.pending
    if existing >= gang.whole:
        return "Another scheduler has placed its pods."
    awaits = f" {gang.awaits}" if gang.awaits and not existing else ""
    return f"{existing} of {gang.whole} pods {'exists' if existing == 1 else 'exist'}.{awaits}"


def pods_by_role(gang: Gang) -> Counter[str]:
    """Return the pods of a gang by role: those that exist and those that other schedulers have placed."""
    counts = Counter(group.role for group in gang.groups for tracked in group.slots if tracked is not None)
    counts.update(gang.members.placed)
    return counts


def first_waiting(gang: Gang) -> TrackedPod | None:
    """Return the pod to name in a sentence if some pods aren't ready to be placed; None if all are.

    The answer is None if all are ready.
    """
    waiting = (pod for pod in gang.pods() if not pod.holds and pod.wait)
    return min(waiting, key=lambda pod: (pod.deleting, pod.created_s, pod.name), default=None)

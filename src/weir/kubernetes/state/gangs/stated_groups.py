"""Pods and requests of a workload as its object states them."""

from collections.abc import Iterator
from itertools import zip_longest

from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.state.gangs.workload import counted_pods, minimum_of, pods_by_role
from weir.model.workloads import PodGroup, Request


def counts_without_replaced(
    gang: Gang, groups: tuple[PodGroup, ...], before: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the pods of each group, without terminating pods that have a replacement.

    `before` are the counts as they were last.
    """
    counts = []
    for at, group in enumerate(groups):
        slots = gang.groups[at].slots if at < len(gang.groups) else ()
        deleting = sum(tracked is not None and tracked.deleting for tracked in slots)
        was = before[at] if at < len(before) else group.count
        counts.append(was if group.count - deleting <= was < group.count else group.count)
    return tuple(counts)


def groups_in_use(gang: Gang, groups: tuple[PodGroup, ...]) -> tuple[PodGroup, ...]:
    """Return those that have pods or are needed: pods may have gone over to another group."""
    pairs = zip_longest(groups, gang.groups[: len(groups)])
    used = tuple(
        pod_group for pod_group, group in pairs if pod_group.min or group is None or not group.is_empty
    )
    return used or groups


def absent_requests(gang: Gang) -> Iterator[Request]:
    """Return the requests of pods that it needs and that don't exist, as far as they are known."""
    assert gang.head is not None
    there, minima = pods_by_role(gang), minimum_of(gang, gang.head).minima
    left = gang.whole - counted_pods(there, minima, gang.whole) - gang.members.pending
    by_role = {group.role: group.request for group in reversed(gang.groups)}
    for role, least in minima.items():
        lacking = max(0, min(least - there[role], left))
        left -= lacking
        if role in by_role:
            yield from [by_role[role]] * lacking
    yield from [gang.head.request] * max(0, left)

"""State of a workload's owner: has it ended, will it make more pods, can it be suspended.

A workload without pods isn't over: the Job controller pauses after evictions, quotas of other systems refuse
pods, controllers restart. The owner decides, by its deletion, its conditions, and the number of pods that it
wants.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.state.owners.chain import Body
from weir.kubernetes.state.owners.index import Owners
from weir.kubernetes.state.owners.scheduling_groups import SchedulingGroups
from weir.kubernetes.translate.kinds import BY_OWNER, BY_POD, GangKey, OwnerTemplate, WorkloadKinds
from weir.kubernetes.translate.owner_suspensions import StatedSuspension
from weir.state.events import WorkloadOutcome

_DEPTH_MAX = 8
"""Limit of levels of owners that are followed downwards."""
_JOB = ("batch/v1", "Job")
_LEAVES_JOBS_ALONE = "CronJob"

NEVER_WAS_S = -1.0
"""Time of a workload whose pods now belong to another workload; it has had none of its own."""


class OwnerState(NamedTuple):
    """State of a workload's owner, from the fields in the table of kinds."""

    exists: bool
    over: WorkloadOutcome | None = None
    over_s: float = 0.0  # time of its end, as its conditions state it; 0: unknown
    suspension: StatedSuspension | None = None  # None: it isn't suspended
    restarts: bool = False  # True: Weir has suspended it, and will resume it
    expects_pods: bool = False  # True: its controller will create pods of this workload


def owner_state(
    key: GangKey, body: Body | None, kinds: WorkloadKinds, below: Callable[[str], Iterable[Body]]
) -> OwnerState | None:
    """Return the state of a workload's owner; None if the owner doesn't show whether pods will come.

    `below` returns the known objects that an object controls, by its uid.
    """
    if body is None:
        return OwnerState(exists=False)
    wants = kinds.wants(body)
    if wants is None:
        return None
    if wants.gang == BY_OWNER and not wants.below:
        comes = bool(wants.pods)
    elif wants.gang == BY_POD:
        comes = False
    else:
        under = list(_descendants(key.uid, below))
        if wants.gang != BY_OWNER:
            under = [
                descendant
                for descendant in under
                if descendant["metadata"].get("labels", {}).get(wants.gang) == key.gang
            ]
            if not under and wants.over is None:
                return None
        comes = any(_makes_pods(kinds.wants(descendant)) for descendant in under)
    return OwnerState(True, wants.over, wants.over_s, wants.suspension, wants.restarts, comes)


def _makes_pods(wants: OwnerTemplate | None) -> bool:
    return wants is not None and wants.pods > 0 and wants.over is None


def _descendants(uid: str, below: Callable[[str], Iterable[Body]]) -> list[Body]:
    """Return the objects under an owner, level by level."""
    descendants: list[Body] = []
    level = [uid]
    for _ in range(_DEPTH_MAX):
        bodies = [body for parent_uid in level for body in below(parent_uid)]
        if not bodies:
            break
        descendants += bodies
        level = [str(body["metadata"].get("uid", "")) for body in bodies]
    return descendants


def maker_of(gang: Gang) -> GangKey:
    """Return the object that makes its pods: usually its owner, also if its pods name a pod group."""
    native = None if gang.head is None else gang.head.derived.native
    return gang.key if native is None or native.maker is None else native.maker


def suspension_refusal(gang: Gang | None, owners: Owners) -> str:
    """Return why Weir can't suspend a workload, as a clause; empty if it can, None if it is gone.

    Weir suspends a Job, and its controller deletes the pods. The suspension is a field of the Job, so a
    restart of Weir loses nothing.
    """
    if gang is None:
        return "it is gone"
    if gang.idle.refusal:
        return gang.idle.refusal
    maker = maker_of(gang)
    if (maker.api_version, maker.kind) != _JOB:
        return f"it can suspend Jobs, and no {maker.kind}"
    above = owners.controller(maker.uid)
    if above is not None and above.kind != _LEAVES_JOBS_ALONE:
        return f"its Job belongs to {above.kind} {above.name}"
    return ""


def owner_is_gone(gang: Gang, owners: Owners, groups: SchedulingGroups) -> bool:
    """Return True if the owner of a workload, or its pod group, was deleted, and the Workload with it."""
    return groups.is_gone(gang.key.uid) or _is_gone(gang.key, owners)


def maker_is_gone(gang: Gang, owners: Owners) -> bool:
    """Return True if the object that made its pods was deleted, so that its annotations can't be read."""
    return _is_gone(maker_of(gang), owners)


def _is_gone(key: GangKey, owners: Owners) -> bool:
    is_watched = key.kind != "Pod" and owners.is_watched(key.api_version, key.kind)
    return is_watched and owners.body(key.namespace, key.uid) is None


def see_owner(
    gang: Gang, owners: Owners, groups: SchedulingGroups, *, is_late: bool, has_object: bool
) -> None:
    """Find out whether a workload without pods is over.

    While the kind of its owner can't be read, the `Workload` object decides: it is deleted with the owner.
    """
    if gang.empty_since_s == NEVER_WAS_S:
        gang.left = True
        return
    key, is_gone = maker_of(gang), groups.is_gone(gang.key.uid)
    is_unread = owners.is_unread(key.api_version, key.kind)
    state, body = None, owners.body(key.namespace, key.uid)
    if key.kind != "Pod" and (body is not None or owners.is_watched(key.api_version, key.kind)):
        state = owner_state(key, body, owners.kinds, owners.below)
    if state is None:
        suspended = gang.head is not None and gang.head.derived.suspended
        waits = has_object if is_unread else suspended
        gang.left = gang.newer or is_gone or key.kind == "Pod" or (is_late and not waits)
        return
    if gang.head is not None and state.exists:
        derived = replace(
            gang.head.derived,
            over=state.over,
            over_s=state.over_s,
            stated_suspension=state.suspension,
            restarts=state.restarts,
        )
        gang.head = replace(gang.head, derived=derived)
    waits = (
        state.exists
        and (state.expects_pods or state.suspension is not None)
        and (has_object or not is_unread)
    )
    gang.left = gang.newer or is_gone or not state.exists or (is_late and not waits)
    gang.awaits = gang.backoff.sentence(body, gang.needed) if state.expects_pods else ""

"""Resolve pods again after something they depend on has changed, and move them to their workloads."""

from operator import attrgetter

from weir.control.port import PodExit
from weir.kubernetes.state.gangs.gang import AllocationOrigin, Gang, TrackedPod
from weir.kubernetes.state.gangs.owner_state import NEVER_WAS_S
from weir.kubernetes.state.nodes.states import NodeStates
from weir.kubernetes.state.owners.pod_info import PodInfo
from weir.kubernetes.state.pods.resolver import PodResolver
from weir.kubernetes.state.pods.tracker import PodTracker
from weir.kubernetes.state.unreadable import UnreadableObjects, held_roughly, rough
from weir.kubernetes.state.workloads.registry import WorkloadRegistry
from weir.kubernetes.translate.claim_constraints import claim_needs
from weir.model.workloads import Request

_KNOWN = "The devices of its claims are known now."
_RECOUNTED = "The devices of its claims count for another pod now."


class StalePods:
    """Pods to resolve again."""

    def __init__(
        self,
        pods: PodTracker,
        node_states: NodeStates,
        resolver: PodResolver,
        registry: WorkloadRegistry,
        unreadable: UnreadableObjects,
    ) -> None:
        self._pods = pods
        self._node_states = node_states
        self._resolver = resolver
        self._registry = registry
        self._unreadable = unreadable

    def read(self) -> None:
        """Resolve pods again, and move them to their workloads."""
        stale = self._resolver.take_stale()
        moving: list[tuple[TrackedPod, Gang]] = []
        for tracked in sorted([self._pods.by_key[key] for key in stale], key=attrgetter("created_s", "key")):
            try:
                self._resolve(tracked, moving)
            except Exception as error:  # noqa: BLE001 - the others have to be read
                self._set_aside(tracked, error)
        for left in dict.fromkeys(tracked.gang for tracked, _ in moving if tracked.gang is not None):
            left.regroup()
        moving = [(tracked, gang) for tracked, gang in moving if self._moves_out(tracked)]
        for tracked, gang in moving:  # second, because it may use groups that other pods have left
            self._move_in(tracked, gang)

    def _resolve(self, tracked: TrackedPod, moving: list[tuple[TrackedPod, Gang]]) -> None:
        key = tracked.key
        before, over = tracked.info, bool(tracked.over)
        info = self._resolver.read(key, bound=tracked.bound, assumed=tracked.assumed, over=over)
        is_recounted = self._resolver.resource_claims.take_recounted(key)
        if not is_recounted:
            info = self._registry.as_bound(tracked, info)
        self._pods.leave_ended(tracked)
        tracked.info = info
        gang = self._gang_of(info)
        if tracked.unreadable:
            tracked.unreadable = ""
            self._unreadable.clear("pods", key)
            self._node_states.set_foreign_pod(key, None)
        if tracked.over:
            if tracked.over == "Succeeded":
                gang.succeeded[key] = info.derived.role
                self._registry.dirty[gang] = None
            gang.last_over = gang.last_over or tracked.over
            gang.head = info
            return
        if (
            tracked.gang is not gang
            or before is None
            or before.request != info.request
            or (before.derived.role != info.derived.role)
        ):
            if before is not None and _was_inferred(tracked, before.request, info.request):
                self._pods.infer_again(tracked, _KNOWN)
            elif is_recounted and tracked.gang is not None:
                self._pods.infer_again(tracked, _RECOUNTED)
            moving.append((tracked, gang))
        elif tracked.guessed and not info.is_guess and not _has_what_was_written(tracked):
            self._pods.infer_again(tracked, _KNOWN)
        tracked.guessed = tracked.guessed and info.is_guess
        self._registry.dirty[gang] = None

    def _set_aside(self, tracked: TrackedPod, error: Exception) -> None:
        """Exclude an unreadable pod: it isn't placed, and its devices count as foreign usage."""
        tracked.unreadable = self._unreadable.note("pods", tracked.key, tracked.uid, error)
        self._pods.leave(tracked, PodExit.LOST)
        self._pods.leave_ended(tracked)
        tracked.info, tracked.settled = None, False
        if tracked.bound and not tracked.over:
            body = rough(self._resolver.pod(tracked.key).spec, tracked.node, tracked.phase)
            self._node_states.set_foreign_pod(
                tracked.key, held_roughly(body, tracked.node, self._resolver.devices)
            )

    def _moves_out(self, tracked: TrackedPod) -> bool:
        """Remove a pod from a workload it no longer belongs to; return False if it stays."""
        info, gang = tracked.info, tracked.gang
        assert info is not None
        if gang is None:
            return True
        group = gang.groups[tracked.group]
        if gang.key == info.gang and group.role == info.derived.role and group.request == info.request:
            return False
        self._registry.dirty[gang] = None
        if tracked.reported_start:
            gang.leave(tracked, self._pods.now_s, PodExit.LOST, "It is something else now.")
            tracked.start = 0
        else:
            gang.leave(tracked, self._pods.now_s, PodExit.LOST)
        if tracked.bound:
            tracked.settled = False  # its devices have to fit what it requests now
        self._pods.note_empty(gang)
        if not gang.count and gang.key != info.gang and not gang.starts:
            gang.empty_since_s = NEVER_WAS_S  # its owners weren't all known before
        return True

    def _move_in(self, tracked: TrackedPod, to: Gang) -> None:
        assert tracked.info is not None
        to.join(tracked, tracked.info)
        to.empty_since_s, to.left, to.adopted, to.foreseen = None, False, False, 0

    def _gang_of(self, info: PodInfo) -> Gang:
        gang = self._registry.gang_of(info)
        if not gang.count:
            self._pods.note_empty(gang)
        return gang


def _has_what_was_written(tracked: TrackedPod) -> bool:
    """Return True if a pod holds the devices that its binding's annotation names."""
    return tracked.claimed is not None and tracked.claimed.devices == tracked.devices


def _was_inferred(tracked: TrackedPod, before: Request, now: Request) -> bool:
    """Return True if a running pod's GPUs were inferred while its claims or their devices were unknown."""
    is_inferred = tracked.guessed or tracked.origin is AllocationOrigin.POD
    if tracked.gang is None or not is_inferred or not claim_needs(now):
        return False
    return (before.devices, before.share_milli) != (now.devices, now.share_milli)

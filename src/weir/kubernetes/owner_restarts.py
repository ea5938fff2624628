"""Stops of workloads by the suspension of their owner, and the resumption of owners without pods."""

from collections.abc import Iterator

from weir.kubernetes.api.paths import path_of
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.state.gangs.gang import Gang, TrackedPod
from weir.kubernetes.state.gangs.owner_state import maker_of
from weir.kubernetes.translate.owner_suspensions import suspended_by
from weir.kubernetes.writes.operations import (
    Outcome,
    SuspendOwner,
    WriteDone,
    WriteNotSent,
    WriteRefused,
    WriteUnknown,
)
from weir.kubernetes.writes.statuses.statuses import StatusWriter

AGAIN_S = 30.0
"""Interval at which the resumption of an owner is repeated until its object shows it."""
_FOR_NOW = (408, 429)
"""Refusals of an API server that is overloaded: the same write may pass later."""
_UNDONE = "It was resumed before its pods were gone."


class OwnerRestarts:
    """Suspends and resumes owners. The owners show their suspension, so a restart loses nothing."""

    def __init__(self, state: ClusterState, statuses: StatusWriter) -> None:
        self._state = state
        self._statuses = statuses
        self._under_way: dict[Gang, None] = {}  # suspended by this process, and not yet without pods
        # Time of the resumption by owner, until its object shows it
        self._resumed_at_s: dict[str, float] = {}

    def stop(self, gang: Gang, tracked: TrackedPod, needed_by: str) -> list[SuspendOwner] | None:
        """Return the writes that stop a pod by the suspension of its owner; None if it is to be evicted.

        The pods of an owner that is suspended already are evicted: the owner doesn't fail by that. A pod that
        outlived an earlier suspension is evicted too: people may have changed its owner since.
        """
        suspension = None if gang.head is None else gang.head.derived.suspension
        if gang.head is None or tracked.info is None or gang.head.derived.suspended or suspension is None:
            return None
        if tracked.suspends or tracked.info.derived.role not in suspension.roles:
            return None
        tracked.suspends = True
        if gang.restart.is_ordered:
            return []
        gang.restart.order()
        self._under_way[gang] = None
        self._state.registry.dirty[gang] = None
        owner = maker_of(gang)
        path = path_of(owner.api_version, suspension.resource, owner.namespace, owner.name)
        scheduler = self._state.scheduler
        return [
            SuspendOwner(path, owner.uid, gang, suspension.field, scheduler=scheduler, needed_by=needed_by)
        ]

    def take_outcome(self, gang: Gang, outcome: Outcome, now_s: float) -> None:
        """Process the outcome of a suspension."""
        orders = self._state.orders
        if isinstance(outcome, WriteDone | WriteUnknown):
            orders.restart_accepted(gang, now_s, is_certain=isinstance(outcome, WriteDone))
        elif isinstance(outcome, WriteRefused | WriteNotSent):
            status = outcome.status if isinstance(outcome, WriteRefused) else 0
            for_good = 400 <= status < 500 and status not in _FOR_NOW
            orders.restart_refused(gang, outcome.sentence, now_s, for_good=for_good)
            if for_good:
                self._statuses.say(gang, "SuspensionRefused", outcome.sentence, "Evicting")

    def take(self, now_s: float) -> Iterator[SuspendOwner]:
        """Yield writes that resume owners; keep pods running whose owner was resumed by others."""
        for gang in list(self._under_way):
            if gang.restart.is_undone:
                self._state.orders.restart_refused(gang, _UNDONE, now_s, for_good=True)
            if not gang.count or not gang.restart.is_under_way:
                gang.restart.end()
                del self._under_way[gang]
        owners = self._state.resolver.owners
        for uid in self._resumed_at_s.keys() - owners.marked:
            if now_s >= self._resumed_at_s[uid] + AGAIN_S:  # else a person suspended it a second time
                del self._resumed_at_s[uid]
        for uid in owners.marked:
            resumed = self._resumption(uid, now_s)
            if resumed is not None:
                self._resumed_at_s[uid] = now_s
                self._state.pods.look_again(now_s + AGAIN_S, uid)
                yield resumed

    def _resumption(self, uid: str, now_s: float) -> SuspendOwner | None:
        """Return the write that resumes a marked owner, or that removes a mark without a suspension.

        The answer is None if nothing is due.

        The mark alone says that it is this Weir's: its workload may be forgotten, or be a pod group.
        """
        body, state = self._state.resolver.owners.marked[uid], self._state
        namespace = str(body["metadata"].get("namespace", ""))
        if suspended_by(body) != state.scheduler or namespace not in state.managed:
            return None
        if now_s < self._resumed_at_s.get(uid, -AGAIN_S) + AGAIN_S:
            return None
        wants = state.resolver.owners.kinds.wants(body)
        if wants is None or wants.mark is None or wants.over is not None:
            return None
        gangs = state.registry.owned_by((uid, *state.resolver.groups.made_by((uid,))))
        if any(gang.restart.is_under_way for gang in gangs if gang.key.namespace == namespace):
            return None  # without a suspension, its write may be in progress
        if wants.suspension is not None and self._has_pods(namespace, uid):
            return None
        path = path_of(str(body["apiVersion"]), wants.mark.resource, namespace, body["metadata"]["name"])
        return SuspendOwner(path, uid, None, wants.mark.field, suspends=False, scheduler=state.scheduler)

    def _has_pods(self, namespace: str, uid: str) -> bool:
        """Return True if pods of an owner are left; ended ones count, because its controller counts them.

        A Job below it keeps earlier tries. Pods of another namespace may name it as their owner, too.
        """
        owners, pods = self._state.resolver.owners, self._state.pods.by_key
        pod_keys = [
            key for key in owners.pods_below(uid) if key in pods and key.partition("/")[0] == namespace
        ]
        return any(pods[key].deleting or not (pods[key].over and owners.keeps_ended(key)) for key in pod_keys)

"""Oracle of pending pods, computed from the API objects: an independent answer to compare Weir's reasons with.

The oracle only speaks where it is sure. Each check returns a sentence about what is false, or nothing.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from time import time

from tests.kubernetes.week.fit import is_unclear, matches, place
from tests.kubernetes.week.operators import is_owner_suspended
from tests.kubernetes.week.pods import PodView
from tests.kubernetes.week.quota import UNLIMITED, Holdings, asks, may_be_evicted, needed, quota
from tests.kubernetes.week.snapshot import Gang, NodeView, Snapshot

CAPACITY_RESERVED = (
    "SchedulingGated",
    "VolumeNotReady",
    "GangIncomplete",
    "Suspended",
    "OwnerMissing",
    "Refused",
)
"""Reasons of work that isn't ready: quotas and nodes aren't looked at then."""
PASSING = (
    "WaitingForEviction",
    "CapacityReserved",
    "OlderClaim",
    "WorkloadEnded",
    "PreemptionCycle",
    "TopologyNotFound",
    "Retrying",
    "Stopped",
)
RACK = "example.com/rack"
_ENDS_MEETING = {
    "after": ("Running", "Succeeded", "Failed"),
    "after-ok": ("Succeeded",),
    "after-not-ok": ("Failed",),
    "after-any": ("Succeeded", "Failed"),
}
"""Phases of another workload that meet a condition, by the annotation that states it."""


class Waiting:
    """A gang with pending pods, and the cluster around it."""

    def __init__(self, snapshot: Snapshot, gang: Gang, holdings: Holdings) -> None:
        self.snapshot = snapshot
        self.gang = gang
        self.holdings = holdings
        self.project = snapshot.project_of(gang)
        self.next = needed(gang)
        self.path = snapshot.path(self.project) if self.project in snapshot.projects else []

    @property
    def is_ready(self) -> bool:
        """Return True if nothing but quotas and nodes can keep it from starting, as far as the objects say."""
        return bool(self.path) and not (
            self.is_gated
            or self.lacks_volume
            or self.lacks_claim
            or self.lacks_group
            or self.is_incomplete
            or self.is_suspended
            or self.is_broken
            or self.begins_later
            or self.depends
        )

    @property
    def is_gated(self) -> bool:
        return any(pod.gates for pod in self.gang.waiting)

    @property
    def lacks_volume(self) -> bool:
        return any(not self._is_bound(pod, claim) for pod in self.gang.waiting for claim in pod.claims)

    def _is_bound(self, pod: PodView, claim: str) -> bool:
        found = self.snapshot.of["persistentvolumeclaims"].get((pod.namespace, claim))
        return found is not None and found["status"].get("phase") == "Bound"

    @property
    def lacks_claim(self) -> bool:
        """Return True if a resource claim of a pod isn't there, or is going."""
        claims = self.snapshot.of["resourceclaims"]
        owned = {
            reference["uid"]
            for claim in claims.values()
            if "deletionTimestamp" not in claim["metadata"]
            for reference in claim["metadata"].get("ownerReferences") or []
        }

        def is_there(pod: PodView, source: dict[str, str]) -> bool:
            if "resourceClaimTemplateName" in source:
                return pod.uid in owned
            found = claims.get((pod.namespace, source["resourceClaimName"]))
            return found is not None and "deletionTimestamp" not in found["metadata"]

        return any(
            not is_there(pod, source)
            for pod in self.gang.waiting
            for source in pod.spec.get("resourceClaims") or []
        )

    @property
    def lacks_group(self) -> bool:
        """Return True if the pod group that a pod names isn't there."""
        groups = self.snapshot.of["podgroups"]
        return any(pod.group and (pod.namespace, pod.group) not in groups for pod in self.gang.waiting)

    @property
    def begins_later(self) -> bool:
        written = self.gang.word("begin")
        return bool(written) and datetime.fromisoformat(written).timestamp() > time()

    @property
    def depends(self) -> bool:
        return any(self.gang.word(condition) for condition in _ENDS_MEETING)

    @property
    def may_depend(self) -> bool:
        """Return True unless each workload it depends on is seen in a phase that meets the condition."""
        for condition, phases in _ENDS_MEETING.items():
            name = self.gang.word(condition)
            other = self.snapshot.workloads.get((self.gang.namespace, f"job-{name}")) or {}
            if name and (other.get("status") or {}).get("phase") not in phases:
                return True
        return False

    @property
    def is_incomplete(self) -> bool:
        """Return True if fewer pods exist than the gang needs.

        A pod on a node that is gone is lost, until the garbage collector of pods removes it some time later.
        """
        alive = [pod for pod in self.gang.pods if pod.phase in ("Pending", "Running") and not pod.deleting]
        there = sum(not pod.node or pod.node in self.snapshot.nodes for pod in alive)
        return there < self.gang.needs

    @property
    def is_suspended(self) -> bool:
        return is_owner_suspended(self.gang.owner.found or {})

    @property
    def is_broken(self) -> bool:
        """Return True if pods of it failed: Weir and its controller pause then."""
        status = (self.gang.owner.found or {}).get("status") or {}
        failed = any(pod.phase == "Failed" for pod in self.gang.pods)
        return failed or bool(status.get("failed")) or bool(self.gang.word("max-runtime"))

    @property
    def passes_limit(self) -> bool:
        asked = asks(self.next)
        return any(self._held(queue) + asked > quota(queue, "limit") for queue in self.path)

    @property
    def passes_quota(self) -> bool:
        """Return True if its work isn't preemptible and would exceed a quota for such work."""
        if self.gang.preemptible and may_be_evicted(self.snapshot, self.gang):
            return False
        asked = asks(self.next)
        return any(
            self.holdings.fixed[queue["metadata"]["name"]] + asked > self._own(queue) for queue in self.path
        )

    def _own(self, queue: object) -> int:
        assert isinstance(queue, dict)
        written = queue["spec"].get("quota")
        return quota(queue) if written and "gpu" in written else UNLIMITED

    def _held(self, queue: object) -> int:
        assert isinstance(queue, dict)
        return self.holdings.allocated.get(queue["metadata"]["name"], 0)

    def free_nodes(self) -> dict[str, NodeView]:
        """Return the nodes with the capacity that other pending pods are nominated for taken off."""
        nodes = self.snapshot.free()
        for pod in self.snapshot.pods:
            mine = self.snapshot.by_pod.get(pod.uid) is self.gang
            if pod.nominated in nodes and not pod.node and not mine:
                nodes[pod.nominated].pods.append(pod)
        return nodes

    def fits_now(self) -> dict[str, str] | None:
        """Return a placement of all that starts next, with no eviction."""
        return self.place_on(self.free_nodes())

    def place_on(self, nodes: dict[str, NodeView]) -> dict[str, str] | None:
        """Return a placement of all that starts next on these nodes; None where there is none, or it is unclear."""
        if any(is_unclear(pod) for pod in self.next):
            return None
        wish = self.gang.topology
        if not wish or ":required=" not in wish:
            return place(self.next, nodes)
        if not wish.endswith(f"={RACK}"):
            return None
        racks = {node.labels.get(RACK, "") for node in nodes.values()} - {""}
        for rack in sorted(racks):
            inside = {name: node for name, node in nodes.items() if node.labels.get(RACK) == rack}
            if (found := place(self.next, inside)) is not None:
                return found
        return None

    def could_ever_fit(self) -> bool:
        """Return True if some node could take each pod when idle."""
        return all(any(matches(pod, node) for node in self.snapshot.nodes.values()) for pod in self.next)


def false_reasons(waiting: Waiting) -> Iterator[tuple[PodView, str]]:
    """Yield the pods of a gang whose condition says what isn't so, with what is."""
    for pod in waiting.gang.waiting:
        check = _CHECKS.get(pod.condition)
        if pod.condition and check is not None and (sentence := check(waiting, pod)):
            yield pod, f"{pod.full_name} says {pod.condition} ({pod.message}), but {sentence}"


def _gated(waiting: Waiting, pod: PodView) -> str:
    return "" if waiting.is_gated else "no pod of it has a gate"


def _volume(waiting: Waiting, pod: PodView) -> str:
    return "" if waiting.lacks_volume else "all its volume claims are bound"


def _claim(waiting: Waiting, pod: PodView) -> str:
    return "" if waiting.lacks_claim else "all its resource claims are there"


def _ownerless(waiting: Waiting, pod: PodView) -> str:
    return f"its pod group {pod.group} is there" if pod.group and not waiting.lacks_group else ""


def _begins(waiting: Waiting, pod: PodView) -> str:
    return "" if waiting.begins_later else "the time of its start has come"


def _depends(waiting: Waiting, pod: PodView) -> str:
    return "" if waiting.may_depend else "what it depends on has come to pass"


def _incomplete(waiting: Waiting, pod: PodView) -> str:
    if waiting.is_incomplete or waiting.is_gated or waiting.lacks_volume:
        return ""
    return f"{len(waiting.gang.pods)} pods exist, and it needs {waiting.gang.needs}"


def _over_limit(waiting: Waiting, pod: PodView) -> str:
    return "" if waiting.passes_limit or not waiting.path else "it would pass no limit"


def _over_quota(waiting: Waiting, pod: PodView) -> str:
    return "" if waiting.passes_quota or not waiting.path else "it would pass no quota for such work"


def _unschedulable(waiting: Waiting, pod: PodView) -> str:
    if not waiting.is_ready or pod.uid not in {each.uid for each in waiting.next}:
        return ""
    if waiting.passes_limit and waiting.could_ever_fit():
        return "it would exceed a limit"
    if waiting.passes_quota and waiting.could_ever_fit():
        return "it would exceed a quota for work that isn't preemptible"
    found = waiting.fits_now()
    return f"it fits: {found}" if found else ""


def _evicting(waiting: Waiting, pod: PodView) -> str:
    if any(each.deleting for each in waiting.snapshot.pods):
        return ""
    return "no pod is being stopped"


def _refused(waiting: Waiting, pod: PodView) -> str:
    leaving = any("deletionTimestamp" in each["metadata"] for each in waiting.path)
    legal = waiting.path and not leaving
    return f"it is in the project {waiting.project}, which is there" if legal else ""


_CHECKS: dict[str, Callable[[Waiting, PodView], str]] = {
    "SchedulingGated": _gated,
    "VolumeNotReady": _volume,
    "ClaimNotReady": _claim,
    "OwnerMissing": _ownerless,
    "BeginTime": _begins,
    "Dependency": _depends,
    "GangIncomplete": _incomplete,
    "LimitExceeded": _over_limit,
    "QuotaExceeded": _over_quota,
    "Unschedulable": _unschedulable,
    "WaitingForEviction": _evicting,
    "Refused": _refused,
}

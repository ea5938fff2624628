"""The plan: the result of a cycle, and the GPUs and pods by which it changes the usage of each project."""

from dataclasses import dataclass, field
from typing import Protocol

from weir.engine.refusals.refusals import PendingRefusal
from weir.engine.usage.quota_overlay import UsageOverlay
from weir.model.reasons import EvictionCause, EvictionRule
from weir.state.cluster import Cluster
from weir.state.events import Placement, PodKey
from weir.state.jobs import EquivalenceClass, Pod
from weir.state.shapes import GPU_ROW, PODS_ROW

_NO_CHANGE = [0, 0]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod to be stopped. `moves`: the same plan nominates another node for it.

    `overrides`: disruption budgets are ignored.
    """

    pod: PodKey
    cause: EvictionCause
    moves: bool = False
    overrides: bool = False


@dataclass(frozen=True, slots=True)
class NominatedPods:
    """Capacity nominated for pods of a workload; `freed_by` are the workloads stopped or moved for it."""

    workload: str
    places: tuple[Placement, ...]
    freed_by: tuple[str, ...] = ()


class ClassRefusals(Protocol):
    """Refusals of the classes of pending workloads in one state."""

    @property
    def is_current(self) -> bool:
        """Return True if the cluster hasn't changed since."""
        ...

    def of_class(self, queued: EquivalenceClass) -> PendingRefusal:
        """Return the refusal of the oldest workload of a class."""
        ...

    def of_member(self, queued: EquivalenceClass, index: int) -> PendingRefusal:
        """Return the refusal of one workload of a class."""
        ...


@dataclass(slots=True)
class Plan:
    """Binds, evictions and nominations, and the refusals of the other pending workloads.

    `refusals` hold until the plan is carried out or the cluster changes otherwise. `drops` are workloads
    whose nomination is released, `blocked` those whose nominated capacity is blocked since a time, or no
    longer (None). `wake_s` is the next time at which the plan could change without an event;
    None if never.
    """

    binds: list[Placement] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    nominations: list[NominatedPods] = field(default_factory=list)
    drops: list[str] = field(default_factory=list)
    blocked: dict[str, float | None] = field(default_factory=dict)
    wake_s: float | None = None
    refusals: ClassRefusals | None = field(default=None, compare=False, repr=False)

    @property
    def acts(self) -> bool:
        """Return True if the plan changes anything."""
        return bool(self.binds or self.evictions or self.nominations or self.drops or self.blocked)

    def stopped(self) -> dict[str, EvictionRule | None]:
        """Return the rule by which each workload is stopped; None if pods of it only move."""
        rules: dict[str, EvictionRule | None] = {}
        for eviction in self.evictions:
            if eviction.moves:
                rules.setdefault(eviction.pod.workload, None)
            else:
                rules[eviction.pod.workload] = eviction.cause.rule
        return rules


def key_of(pod: Pod) -> PodKey:
    """Return the key of a pod."""
    return PodKey(pod.job.name, pod.group, pod.index)


def assert_accounted(cluster: Cluster, overlay: UsageOverlay, plan: Plan) -> None:
    """Assert that a cycle charged its bindings and nominations, and released its evictions.

    The quota checks of the cycle read these sums. If one is wrong, the plan may exceed a limit. Sums of
    departments follow those of their projects.
    """
    if not overlay.charged and not plan.acts:
        return
    ledger, changes = cluster.ledger, _changes(cluster, plan)
    for queue in overlay.charged:
        if queue in changes or ledger.queues[queue].is_project:
            used, held = overlay.used[queue], ledger.allocated[queue]
            charged = [used[GPU_ROW] - held[GPU_ROW], used[PODS_ROW] - held[PODS_ROW]]
            planned = changes.pop(queue, _NO_CHANGE)
            assert charged == planned, (
                f"{ledger.queues[queue].name}: {charged} charged, {planned} in the plan"
            )
    assert all(change == _NO_CHANGE for change in changes.values()), (
        f"not charged, but in the plan: {changes}"
    )


def _changes(cluster: Cluster, plan: Plan) -> dict[int, list[int]]:
    """Return the change of each project by a plan: thousandths of GPUs, and pods."""
    changes: dict[int, list[int]] = {}
    jobs, node_at, device_memory = cluster.jobs, cluster.node_at, cluster.device_memory
    for places in (plan.binds, *[nominated.places for nominated in plan.nominations]):
        for place in places:
            key = place.pod
            job = jobs[key.workload]
            if key.workload in cluster.nominated and job.pods[key.group][key.index].nomination is not None:
                continue  # already charged when it was nominated
            shape, change = job.shapes[key.group], changes.setdefault(job.project, [0, 0])
            if shape.devices:
                change[0] += shape.charge_on(device_memory[node_at[place.node]])
            change[1] += 1
    for eviction in plan.evictions:
        key = eviction.pod
        job = jobs[key.workload]
        change = changes.setdefault(job.project, [0, 0])
        change[0] -= job.pods[key.group][key.index].charge_milli()
        change[1] -= 1
    return changes

"""The plan: the result of a cycle."""

from dataclasses import dataclass, field

from weir.model.reasons import EvictionCause
from weir.state.events import Placement, PodKey
from weir.state.jobs import Pod


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


@dataclass(slots=True)
class Plan:
    """Binds, evictions and nominations. `weir.engine.pending_reasons` explains why other workloads wait.

    `drops` are workloads whose nomination is released. `wake_s` is the next time at which the plan could
    change without an event; None if never.
    """

    binds: list[Placement] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    nominations: list[NominatedPods] = field(default_factory=list)
    drops: list[str] = field(default_factory=list)
    wake_s: float | None = None

    @property
    def acts(self) -> bool:
        """Return True if the plan changes anything."""
        return bool(self.binds or self.evictions or self.nominations or self.drops)


def key_of(pod: Pod) -> PodKey:
    """Return the key of a pod."""
    return PodKey(pod.job.name, pod.group, pod.index)

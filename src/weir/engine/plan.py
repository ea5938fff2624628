"""The plan: the result of a cycle."""

from dataclasses import dataclass, field
from typing import Protocol

from weir.engine.refusals.refusals import PendingRefusal
from weir.model.reasons import EvictionCause, EvictionRule
from weir.state.events import Placement, PodKey
from weir.state.jobs import EquivalenceClass, Pod


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

    def of_class(self, of: EquivalenceClass) -> PendingRefusal:
        """Return the refusal of the oldest workload of a class."""
        ...

    def of_member(self, of: EquivalenceClass, at: int) -> PendingRefusal:
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
        found: dict[str, EvictionRule | None] = {}
        for eviction in self.evictions:
            if eviction.moves:
                found.setdefault(eviction.pod.workload, None)
            else:
                found[eviction.pod.workload] = eviction.cause.rule
        return found


def key_of(pod: Pod) -> PodKey:
    """Return the key of a pod."""
    return PodKey(pod.job.name, pod.group, pod.index)

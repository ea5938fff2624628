"""The plan: the result of a cycle."""

from dataclasses import dataclass, field

from weir.model.reasons import EvictionCause
from weir.state.events import Placement, PodKey


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod to be stopped. `moves`: it has a new place promised in the same plan.

    `overrides`: whatever its disruption budgets say.
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
    """Binds, evictions and nominations; why the rest waits, `weir.engine.pending_reasons` says when asked.

    `drops` are workloads whose promised room is given up. `wake_s` is the next time at which the
    plan could change though nothing happens; None if never.
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

"""What a cycle answers."""

from dataclasses import dataclass, field

from weir.cluster.events import Place, PodKey
from weir.cluster.jobs import PendingClass
from weir.model.reasons import Cause, Why


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod to be stopped. `moves` says that it has a new place promised in the same plan."""

    pod: PodKey
    cause: Cause
    moves: bool = False


@dataclass(frozen=True, slots=True)
class Promise:
    """Room to keep for pods of a workload; `freed_by` are the workloads being stopped or moved for it."""

    workload: str
    places: tuple[Place, ...]
    freed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a class of workloads wasn't placed, by numbers; `weir.decide.explain` makes the sentence."""

    why: Why
    queue: int = -1
    row: int = -1
    have: int = 0
    want: int = 0
    most: int = 0
    group: int = -1
    names: tuple[str, ...] = ()
    note: str = ""


@dataclass(slots=True)
class Plan:
    """Binds, evictions, promises, and why the rest waits.

    `drops` are workloads whose promised room is given up. `wake_s` is the next time at which the
    plan could change though nothing happens; None if never.
    """

    binds: list[Place] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    drops: list[str] = field(default_factory=list)
    refusals: dict[PendingClass, Refusal] = field(default_factory=dict)
    wake_s: float | None = None

    @property
    def acts(self) -> bool:
        """Whether it changes anything."""
        return bool(self.binds or self.evictions or self.promises or self.drops)

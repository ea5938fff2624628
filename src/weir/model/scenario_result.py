"""What came of a scenario that was played: plain data, the same for a test, a report and a terminal.

Pods are named `workload/group/index`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from weir.model.scenario import Status


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What one cycle did: pods bound, pods evicted (moves too), pods room is being freed for."""

    bound: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResult:
    """Where a pod stands. `reason` is a sentence, `why` its class; `evicted_by` the last to take its room."""

    status: Status
    node: str | None = None
    gpus: tuple[int, ...] = ()
    reason: str | None = None
    why: str | None = None
    evicted_by: str | None = None


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """A scenario after its cycles."""

    name: str
    cycles: tuple[CycleResult, ...] = ()
    pods: Mapping[str, PodResult] = field(default_factory=dict)

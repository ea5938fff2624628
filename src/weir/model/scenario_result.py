"""Result of a scenario: plain data, the same for a test, a report and a terminal.

Pods are named `workload/group/index`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from weir.model.scenario import Status


@dataclass(frozen=True, slots=True)
class CycleResult:
    """Actions of one cycle: pods bound, pods evicted or moved, pods with a nomination."""

    bound: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResult:
    """State of a pod. `reason` is a sentence, `why` its code; `evicted_by` the last beneficiary."""

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

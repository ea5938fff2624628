"""A scenario: a cluster at one instant, and the expected result.

Tests, bug reports, snapshots and simulations use the same format. Times are seconds relative to the
scenario's instant; the past is negative. `weir.scenario_io` reads and writes scenarios.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from weir.model.budgets import DisruptionBudget
from weir.model.nodes import Node, Topology
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.reasons import ReasonCode
from weir.model.workloads import Workload

Status = Literal["running", "pending", "waiting"]
"""Status of a pod; `waiting` is pending while capacity is freed for it."""


Placed = Mapping[tuple[int, int], tuple[str, tuple[int, ...]]]
"""Node and devices of pods that already run, by the position of their group and their index."""


@dataclass(frozen=True, slots=True)
class WorkloadPast:
    """History of a workload before the scenario's instant, as far as decisions need it.

    Without `started_s` it started when it was submitted, if any of its pods is `placed`. `absent` are pods
    (position of the group, index) that it needs and that don't exist yet.
    """

    placed: Placed = field(default_factory=dict)
    started_s: float | None = None
    checkpointed_s: float | None = None
    waits_since_s: float | None = None
    ran_s: float = 0.0
    short_since_s: float | None = None
    stopped_for: tuple[tuple[str, float], ...] = ()
    absent: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expectation of a workload, or of one pod with its `gpus`; None isn't checked.

    `status` and `node` hold for each pod (a node for the running ones only); `running`, `pending`
    and `nodes` count where pods are interchangeable. `nodes` without a repetition are the nodes its
    running pods are on, all of them and no other. With one, they name a node for each running pod.
    """

    status: Status | None = None
    node: str | None = None
    running: int | None = None
    pending: int | None = None
    nodes: tuple[str, ...] | None = None
    gpus: tuple[int, ...] | None = None
    reason: ReasonCode | None = None
    evicted_by: str | None = None


@dataclass(frozen=True, slots=True)
class Expect:
    """Expectations of a scenario after `cycles` that hold for `stable` further ones.

    `pods` are named `workload/group/index`. `max_evictions` counts those of all cycles, moves too.
    """

    cycles: int = 2
    stable: int = 5
    max_evictions: int | None = None
    workloads: Mapping[str, Expectation] = field(default_factory=dict)
    pods: Mapping[str, Expectation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario. `queues` are departments, then projects, parents before children.

    `protected` are the names of the budgets that protect the pods of a group, by workload and position.
    """

    name: str
    nodes: tuple[Node, ...]
    topologies: tuple[Topology, ...]
    queues: tuple[Queue, ...]
    workloads: tuple[Workload, ...]
    policy: Policy
    tick_s: float = 1.0
    past: Mapping[str, WorkloadPast] = field(default_factory=dict)
    expect: Expect = field(default_factory=Expect)
    budgets: tuple[DisruptionBudget, ...] = ()
    protected: Mapping[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a file, with its correction. Line 0 is the file itself."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"


class InvalidFile(Exception):
    """A file has mistakes; `mistakes` are all of them, in the order of the file."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = list(mistakes)

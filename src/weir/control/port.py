"""The backend port: the backend reports facts and applies effects.

This file is the whole interface between a backend and the rest of Weir. A backend promises:

- The first `events()` of a connection reports everything: nodes, queues, topologies, checkpoints, nominations
(`Nominated`) and unfinished workloads (`WorkloadSubmitted`, with the run time they kept). Of these it reports
saved progress (`StatusRecovered`), and running pods and those with an unsettled exit (`PodRunning`). After
all of a workload's pods come their `PodExited`. Later calls report changes.
- `WorkloadChanged`, `GateChanged`, `PodStopping` (something other than control stops the pod) and
  `WorkloadFinished` come from backends whose pods are made by others. There, control only
  starts and stops pods.
- Where disruption budgets protect pods, `BudgetSet` comes before the `PodProtected` that name it. A plan's
  `StopPod` that a backend can't carry out is answered by `StopRefused`: the pod runs on, and the backend
  doesn't try it again.
- Facts may come late and twice. Facts about one object (a node, a workload with its pods) come in
  the order in which they became true; those about different objects in any order.
- `apply` carries effects out in order. It may break off after any of them; each is whole or not at
  all, and repeating one that was carried out does no harm.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple, Protocol

from weir.model.activity import Activity
from weir.model.reasons import EvictionCause
from weir.model.record import record
from weir.state.events import (
    BudgetRemoved,
    BudgetSet,
    Checkpointed,
    HistoryRestored,
    NodeLost,
    NodeSet,
    Nominated,
    Placement,
    PodKey,
    PodProtected,
    PodStopping,
    QueuesSet,
    StopRefused,
    TopologiesSet,
    WorkloadChanged,
    WorkloadOutcome,
    WorkloadSubmitted,
    WorkloadSuspended,
)


class PodExit(StrEnum):
    """Kinds of pod exits, as the backend saw them."""

    DONE = "done"  # by itself, successfully
    FAILED = "failed"  # by itself, not successfully
    STOPPED = "stopped"  # on request, with any exit code
    LOST = "lost"  # its node was lost, or the start failed there


class LifecycleRule(StrEnum):
    """Rules by which control, instead of the engine, stops a pod or ends a workload."""

    GANG_FAILED = "gang_failed"
    FAILED_OFTEN = "failed_often"
    FAILED_FOR_GOOD = "failed_for_good"
    MAX_RUNTIME = "max_runtime"
    IDLE = "idle"
    LIFETIME = "lifetime"
    WITHDRAWN = "withdrawn"
    SUSPENDED = "suspended"
    DRAINED = "drained"
    DEPENDENCY = "dependency"


@record()
class LifecycleCause:
    """Cause of a stop or an end by control, as data and as one sentence."""

    rule: LifecycleRule
    sentence: str
    numbers: Mapping[str, object] = field(default_factory=dict)


class IdleProgress(NamedTuple):
    """Position of a workload on the idle ladder, in its `run`-th restart.

    `idle_s` is idle time measured so far, `noticed_s` the idle time at the last of `notices`. No idle time
    counts before `excused_until_s`.
    """

    idle_s: float = 0.0
    notices: int = 0
    noticed_s: float = 0.0
    unprotected: bool = False
    is_idle: bool = False
    excused_until_s: float | None = None
    run: int = 0


NOT_IDLE = IdleProgress()


@record()
class WorkloadProgress:
    """Progress of a workload that a backend stores, so that a restart of control loses nothing.

    The progress includes the exits of all starts up to `settled`, which needn't be reported again.
    """

    starts: int = 0  # number of the last start of any pod
    settled: int = 0
    failures: int = 0  # consecutive failures since its last checkpoint
    ran_s: float = 0.0  # run time that it keeps
    retry_at_s: float | None = None  # no start before this time
    restarts: int = 0  # number of runs of its gang before the present or next one
    wall_s: float = 0.0  # wall time of its ended runs
    first_started_s: float | None = None
    idle: IdleProgress = NOT_IDLE


# Facts of the port; other facts are events of the cluster


@record()
class StatusRecovered:
    """Stored progress of a workload, as the backend reports it after a restart."""

    workload: str
    status: WorkloadProgress


@record()
class PodRunning:
    """A pod runs on its node: found at a relist, or its start is confirmed."""

    place: Placement
    start: int
    at_s: float
    stopping: bool = False


@record()
class PodExited:
    """The start of a pod with this number is over, and its capacity is free.

    `code` is its exit code as a shell has it: 128 and more for a signal. `final`: another start of the same
    pod would end in the same way. `own_loss`: the pod's processes may have caused the loss of the pod. A
    cluster that deletes pods or refuses bindings is not such a cause, and has its own pauses.
    """

    pod: PodKey
    start: int
    how: PodExit
    at_s: float
    sentence: str = ""  # cause of the end in a sentence, if the backend knows more than `how`
    code: int | None = None
    final: bool = False
    own_loss: bool = False


@record()
class UtilizationSampled:
    """Utilization of a workload's devices, 0 to 1, up to this time, from a backend without other samples."""

    workload: str
    fraction: float
    at_s: float


@record()
class ActivitySampled:
    """State of a workload up to this time, from a backend that samples processes; None: not certain yet.

    `quiet_s` is idle time that was measured before the state was certain.
    """

    workload: str
    activity: Activity | None
    at_s: float
    quiet_s: float = 0.0


@record()
class IdleExcused:
    """Idle time isn't counted until a time: a person extended it (`by`), or the workload reports work."""

    workload: str
    until_s: float
    at_s: float
    by: str = ""
    why: str = ""


@record()
class CancelRequested:
    """A workload has to be stopped for good, on a person's request or by a rule with a sentence."""

    workload: str
    at_s: float
    by: str = ""
    sentence: str = ""
    rule: LifecycleRule = LifecycleRule.WITHDRAWN


class Gate(StrEnum):
    """Kinds of gates, each with its own reason of a pending workload."""

    SCHEDULING = "scheduling"
    BEGIN_TIME = "begin_time"
    DEPENDENCY = "dependency"


@record()
class GateChanged:
    """A gate was set or removed. Running pods continue, unlike with a suspension."""

    workload: str
    gated: bool
    reason: str = ""
    gate: Gate = Gate.SCHEDULING
    until_s: float | None = None  # it opens automatically then


@record()
class NodeDrained:
    """A node is drained: its workloads are stopped and queued again, unless they may run until they end.

    With `devices`, only these are drained, and the workloads on them are stopped.
    """

    node: str
    at_s: float
    sentence: str
    keeps_running: bool = False
    devices: tuple[int, ...] | None = None


@record()
class WorkloadFinished:
    """A workload has ended, by the report of its pods' owner. Its pods have released everything."""

    workload: str
    how: WorkloadOutcome
    at_s: float


Fact = (
    NodeSet
    | NodeLost
    | QueuesSet
    | TopologiesSet
    | WorkloadSubmitted
    | WorkloadChanged
    | WorkloadSuspended
    | GateChanged
    | Checkpointed
    | HistoryRestored
    | Nominated
    | StatusRecovered
    | PodRunning
    | PodStopping
    | StopRefused
    | BudgetSet
    | BudgetRemoved
    | PodProtected
    | PodExited
    | UtilizationSampled
    | ActivitySampled
    | IdleExcused
    | CancelRequested
    | NodeDrained
    | WorkloadFinished
)


# Effects


@record()
class StartPod:
    """Start a pod on its node. `start` is unique among all starts of its workload's pods."""

    place: Placement
    start: int


@record()
class StopPod:
    """Send a pod the notice to stop; `grace_s` later it is killed.

    `moves`: the pod has a new placement already. `overrides`: the stop ignores its disruption budgets.
    """

    pod: PodKey
    start: int
    grace_s: float
    cause: EvictionCause | LifecycleCause
    moves: bool = False
    overrides: bool = False


@record()
class ReserveNomination:
    """Store a nomination until its pods start or it is released."""

    nomination: Nominated


@record()
class ReleaseNomination:
    """Delete the nomination of a workload."""

    workload: str


@record()
class SaveProgress:
    """Store the progress of a workload."""

    workload: str
    status: WorkloadProgress


@record()
class KeepSuspension:
    """Store that a workload is suspended for this reason, until a person resumes it."""

    workload: str
    reason: str


@record()
class EndWorkload:
    """End a workload: the backend need not report it any more.

    `ran_s` is the run time it kept, or its whole run if it succeeded; `started_s` when it last started.
    `wall_s` is the wall time of all its runs. `exit_code` is that of the pod that failed first, 0 on success.
    """

    workload: str
    how: WorkloadOutcome
    at_s: float
    sentence: str = ""
    ran_s: float = 0.0
    started_s: float | None = None
    cause: LifecycleCause | None = None  # None: it ended by itself
    wall_s: float = 0.0
    first_started_s: float | None = None
    exit_code: int | None = None


Effect = (
    StartPod | StopPod | ReserveNomination | ReleaseNomination | SaveProgress | KeepSuspension | EndWorkload
)


class Backend(Protocol):
    """Reports nodes and pods; starts and stops pods."""

    def events(self) -> Iterable[Fact]:
        """Return the facts since the last call; everything at the first call."""
        ...

    def apply(self, effects: Sequence[Effect]) -> None:
        """Carry these effects out, in order."""
        ...

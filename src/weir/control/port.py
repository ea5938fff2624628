"""The backend port: facts come in, effects go out, one method each way.

Everything a backend is to the rest of Weir is in this file. A backend promises:

- The first `events()` of a connection is the whole picture: nodes, queues and topologies, workloads
  that aren't over (`WorkloadSubmitted`, with the run they kept), what control had it remember of them
  (`StatusFound`), their pods that run and those whose exit isn't settled in it (`PodRuns`; after all of
  a workload's the `PodExited`), saved states, and room kept (`Promised`). After that, what changed.
- `WorkloadChanged`, `Gated`, `PodStopping` (someone else than control has a pod end) and `Finished` come
  from backends whose pods others make: there control starts and stops pods, and nothing else.
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
from typing import Protocol

from weir.model.nouns import noun
from weir.model.reasons import Cause
from weir.state.events import (
    BudgetRemoved,
    BudgetSet,
    Checkpointed,
    End,
    NodeLost,
    NodeSet,
    PastKnown,
    Place,
    PodKey,
    PodProtected,
    PodStopping,
    Promised,
    QueuesSet,
    StopRefused,
    TopologiesSet,
    WorkloadChanged,
    WorkloadHeld,
    WorkloadSubmitted,
)


class Exit(StrEnum):
    """How a pod ended, as the backend saw it."""

    DONE = "done"  # by itself, successfully
    FAILED = "failed"  # by itself, not successfully
    STOPPED = "stopped"  # after it was told to, whatever it then said
    LOST = "lost"  # its node is gone, or it could not be started there


class LifeRule(StrEnum):
    """Why control stops a pod, or ends a workload, by itself, without a plan of the engine."""

    GANG_FAILED = "gang_failed"
    FAILED_OFTEN = "failed_often"
    FAILED_FOR_GOOD = "failed_for_good"
    MAX_RUNTIME = "max_runtime"
    IDLE = "idle"
    LIFETIME = "lifetime"
    WITHDRAWN = "withdrawn"
    SUSPENDED = "suspended"


@noun()
class LifeCause:
    """Why control stops a pod or ends a workload, as data and as one sentence."""

    rule: LifeRule
    sentence: str
    numbers: Mapping[str, object] = field(default_factory=dict)


@noun()
class Status:
    """What control has a backend remember of a workload, so that a restart of control loses nothing.

    Exits of starts up to `settled` are accounted for here and needn't be reported again.
    """

    starts: int = 0  # number of the last start of any of its pods
    settled: int = 0
    failures: int = 0  # since it last saved its state
    ran_s: float = 0.0  # run it keeps
    retry_at_s: float | None = None  # not to be started before
    restarts: int = 0  # of its gang: how often it has run before its next run, or the one it is in
    wall_s: float = 0.0  # wall time of its runs that are over
    first_started_s: float | None = None


# Facts only the port knows; the others are events of the cluster


@noun()
class StatusFound:
    """What the backend remembers of a workload."""

    workload: str
    status: Status


@noun()
class PodRuns:
    """A pod holds its place: found at a relist, or the confirmation that it was started."""

    place: Place
    start: int
    at_s: float
    stopping: bool = False


@noun()
class PodExited:
    """The start of a pod with this number is over and its room is free.

    `code` is its exit code as a shell has it: 128 and more for a signal. `final`: another start of the
    same pod would end the same way. `own_loss`: the pod's processes may have caused their own loss; a
    cluster that deletes pods or refuses bindings has its own pauses.
    """

    pod: PodKey
    start: int
    how: Exit
    at_s: float
    said: str = ""  # how it ended, in a sentence, where the backend knows more than `how`
    code: int | None = None
    final: bool = False
    own_loss: bool = False


@noun()
class UseSeen:
    """What a workload really used of all its devices together, from 0 to 1, as measured up to this time."""

    workload: str
    fraction: float
    at_s: float


@noun()
class Withdrawn:
    """A person wants a workload stopped for good."""

    workload: str
    at_s: float
    by: str = ""


@noun()
class Gated:
    """Whether a workload is ready to be started at all; unlike one that is suspended, what runs goes on."""

    workload: str
    gated: bool
    reason: str = ""


@noun()
class Finished:
    """A workload is over: whoever makes its pods says so. None of them holds anything any more."""

    workload: str
    how: End
    at_s: float


Fact = (
    NodeSet
    | NodeLost
    | QueuesSet
    | TopologiesSet
    | WorkloadSubmitted
    | WorkloadChanged
    | WorkloadHeld
    | Gated
    | Checkpointed
    | PastKnown
    | Promised
    | StatusFound
    | PodRuns
    | PodStopping
    | StopRefused
    | BudgetSet
    | BudgetRemoved
    | PodProtected
    | PodExited
    | UseSeen
    | Withdrawn
    | Finished
)


# Effects


@noun()
class StartPod:
    """Start a pod at its place. `start` counts all starts of its workload's pods: no number comes twice."""

    place: Place
    start: int
    cause: str


@noun()
class StopPod:
    """Tell a pod to stop; after `grace_s` it is ended.

    `moves`: it has a new place already. `overrides`: whatever its disruption budgets say.
    """

    pod: PodKey
    start: int
    grace_s: float
    cause: Cause | LifeCause
    moves: bool = False
    overrides: bool = False


@noun()
class KeepRoom:
    """Remember room that is promised, until its pods are started or it is left."""

    promised: Promised


@noun()
class LeaveRoom:
    """Forget the room promised to a workload."""

    workload: str


@noun()
class SetStatus:
    """Remember this of a workload."""

    workload: str
    status: Status


@noun()
class EndWorkload:
    """A workload is over: report nothing of it any more.

    `ran_s` is the run it kept, or its whole run if it succeeded; `started_s` when it last started.
    `wall_s` is the wall time of all its runs, `exit_code` that of the pod that failed first, 0 on success.
    """

    workload: str
    how: End
    at_s: float
    sentence: str = ""
    ran_s: float = 0.0
    started_s: float | None = None
    cause: LifeCause | None = None  # where it didn't end by itself
    wall_s: float = 0.0
    first_started_s: float | None = None
    exit_code: int | None = None


Effect = StartPod | StopPod | KeepRoom | LeaveRoom | SetStatus | EndWorkload


class Backend(Protocol):
    """Where nodes and pods come from, and who starts and stops them."""

    def events(self) -> Iterable[Fact]:
        """The facts since the last call; at the first call the whole picture."""
        ...

    def apply(self, effects: Sequence[Effect]) -> None:
        """Carry these effects out, in order."""
        ...

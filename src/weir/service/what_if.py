"""Trials of changes: each is decided by the real engine, on a branch of the state.

A branch shares the state but for the few workloads of the trial, and its cache begins with what the engine
knows. So a trial costs about as much as one decision. It runs on the thread of the state, between two
decisions, and never changes the state, not even by a failure. Other requests wait for one trial at most.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic, thread_time
from typing import TypeVar

from weir.engine.cycle import decide
from weir.engine.plan import Eviction
from weir.engine.victims.eviction_price import devices_of, lost_work, restart_cost
from weir.model.queues import Queue
from weir.model.reasons import ReasonCode
from weir.model.workloads import Request, Workload
from weir.service.control_thread import ControlUnavailable
from weir.service.decision_state import DecisionState, StateReader
from weir.state.branch import replace_quota
from weir.state.cluster import Cluster
from weir.state.events import WorkloadEnded, WorkloadOutcome, WorkloadSubmitted
from weir.state.jobs import Pod
from weir.state.reduce import reduce

TRIALS_MAX = 60
SECONDS_MAX = 1.5
"""Limit of the trials in processor time, so that a busy machine finds as much as an idle one."""
WAIT_S_MAX = 20.0
"""Limit of the time for the whole answer, since the scheduler has more urgent work."""
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """Outcome of a trial that starts the workload: the workloads that must stop first.

    `owners` names them with their owners. `lost` is their loss in device seconds: work since the last
    checkpoint, and restarts. `restarts` is the part of the restarts.
    """

    stops: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    lost: float = 0.0
    restarts: float = 0.0


class WhatIfExhausted(Exception):
    """The limit of trials is reached, or the workload isn't pending any more."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """The pending workload of the request, in its state at the first question.

    `starts` is True if the workload has capacity, or others are being stopped for it.
    """

    spec: Workload
    project: int
    starts: bool
    held: bool
    held_code: ReasonCode
    held_until_s: float | None
    needed: tuple[int, ...]
    is_elastic: bool
    devices_milli: int
    now_s: float


@dataclass(slots=True)
class WhatIf:
    """Trials of variants of one workload. `clock` measures their cost for the thread of the state."""

    ask: StateReader
    name: str
    clock: Callable[[], float] = thread_time
    job: PendingRequest = field(init=False)
    _spent_s: float = 0.0
    _tried: int = 0
    _until_s: float = field(default_factory=lambda: monotonic() + WAIT_S_MAX)

    def __post_init__(self) -> None:
        """Read the workload.

        Raises:
            KeyError: no workload has this name.
            ControlUnavailable: nothing can be read now.
        """
        self.job = self.ask(partial(_pending_request, name=self.name))

    @property
    def now_s(self) -> float:
        """Return the time of the first question."""
        return self.job.now_s

    def read(self, look: Callable[[Cluster], Found]) -> Found:
        """Return the result of reading the cluster.

        Raises:
            WhatIfExhausted: enough was tried.
        """
        return self._ask(lambda state: look(state.cluster))

    def tried(
        self, variant: Workload, gone: Sequence[str] = (), queue: Queue | None = None
    ) -> WhatIfOutcome | None:
        """Try a variant; return None if it doesn't start.

        Args:
            variant: the changed workload.
            gone: the workloads that end first.
            queue: a changed queue; None if no queue changes.

        Raises:
            WhatIfExhausted: enough was tried.
        """
        self._tried += 1
        return self._ask(partial(self._outcome, variant=variant, gone=gone, queue=queue))

    def _ask(self, read: Callable[[DecisionState], Found]) -> Found:
        if self._tried > TRIALS_MAX or self._spent_s > SECONDS_MAX or monotonic() > self._until_s:
            raise WhatIfExhausted

        def timed(state: DecisionState) -> Found:
            if self.name not in state.cluster.jobs:
                raise WhatIfExhausted
            began_s = self.clock()
            try:
                return read(state)
            finally:
                self._spent_s += self.clock() - began_s

        try:
            return self.ask(timed)
        except ControlUnavailable:
            raise WhatIfExhausted from None

    def _outcome(
        self, state: DecisionState, *, variant: Workload, gone: Sequence[str], queue: Queue | None
    ) -> WhatIfOutcome | None:
        job = state.cluster.jobs[self.name]
        if job.is_running or job.stopping:
            raise WhatIfExhausted
        is_replaced = job.held or variant is not job.spec
        ends = [other for other in gone if other in state.cluster.jobs]
        names = [*ends, self.name] if is_replaced else ends
        cluster = state.branch(names, (variant.project, variant.user))
        if queue is not None:
            replace_quota(cluster, queue)
        for other in names:
            reduce(cluster, WorkloadEnded(other, WorkloadOutcome.STOPPED, state.now_s))
        if is_replaced:
            reduce(cluster, WorkloadSubmitted(variant, variant.submitted_s, job.ran_s))
            cluster.jobs[variant.name].waits_since_s = job.waits_since_s
        return _decided(state, cluster, variant)


def with_request(spec: Workload, request: Request) -> Workload:
    """Return a workload with another request of its first, and only, group."""
    return replace(spec, groups=(replace(spec.groups[0], request=request),))


def _pending_request(state: DecisionState, name: str) -> PendingRequest:
    job = state.cluster.jobs[name]
    return PendingRequest(
        spec=job.spec,
        project=job.project,
        starts=job.is_running or job.stopping > 0 or name in state.cluster.nominated,
        held=job.held,
        held_code=job.held_code,
        held_until_s=job.held_until_s,
        needed=tuple(job.needed),
        is_elastic=job.is_elastic,
        devices_milli=job.devices_milli,
        now_s=state.now_s,
    )


def _decided(state: DecisionState, cluster: Cluster, variant: Workload) -> WhatIfOutcome | None:
    """Return the outcome of a decision on a branch for the variant; None if the workload doesn't start."""
    plan = decide(cluster, state.policy, state.now_s, state.cache_for(cluster))
    bound = [0] * len(variant.groups)
    for place in plan.binds:
        if place.pod.workload == variant.name:
            bound[place.pod.group] += 1
    if all(have >= need for have, need in zip(bound, variant.needed(), strict=True)):
        return WhatIfOutcome()
    for nominated in plan.nominations:
        if nominated.workload == variant.name:
            stops = nominated.freed_by
            owners = tuple([_owner_phrase(cluster, name) for name in stops])
            return WhatIfOutcome(stops, owners, *_lost(state, cluster, plan.evictions, stops))
    return None


def _lost(
    state: DecisionState, cluster: Cluster, evictions: Sequence[Eviction], stopped: Sequence[str]
) -> tuple[float, float]:
    """Return the device seconds that these evictions lose, and the part of them for restarts."""
    pods: dict[str, list[Pod]] = {}
    for eviction in evictions:
        key = eviction.pod
        if key.workload in stopped:
            pods.setdefault(key.workload, []).append(cluster.jobs[key.workload].pods[key.group][key.index])
    price, now_s = state.policy.price, state.now_s
    lost = sum(
        [lost_work(cluster.jobs[name], devices_of(evicted), price, now_s) for name, evicted in pods.items()]
    )
    return lost, sum([restart_cost(cluster.jobs[name], price) for name in pods])


def _owner_phrase(cluster: Cluster, name: str) -> str:
    """Return a workload's name with its owner and project."""
    spec = cluster.jobs[name].spec
    return f"{name} of {spec.user} in {spec.project}" if spec.user else f"{name} in {spec.project}"

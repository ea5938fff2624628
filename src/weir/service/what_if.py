"""Trials of changes: each is tried on a copy of the cluster, with the real engine.

A trial replaces the workload by a variant, and may end other workloads first; then the engine decides once.
A bound workload starts now; a nominated one starts as soon as its victims have stopped. Afterwards the copy
is restored, so that one copy serves all trials.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import thread_time

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.eviction_price import devices_of, lost_work
from weir.engine.plan import Eviction
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import Workload
from weir.service.cluster_copy import ClusterFacts, copy_cluster
from weir.state.events import Event, QueuesSet, WorkloadEnded, WorkloadOutcome, WorkloadSubmitted
from weir.state.jobs import Pod
from weir.state.reduce import reduce
from weir.state.request_mix import RequestMix

TRIALS_MOST = 60
SECONDS_MOST = 1.5
"""Limit in processor time of the thread, so that a busy machine finds as much as an idle one."""


@dataclass(frozen=True, slots=True)
class WhatIfOutcome:
    """Outcome of a trial that starts the workload: the workloads that must stop first.

    `lost` is what they lose: work since the last checkpoint and a restart, in device seconds.
    """

    stops: tuple[str, ...] = ()
    lost: float = 0.0


class WhatIfExhausted(Exception):
    """Enough was tried."""


class WhatIf:
    """Trials of variants of one workload."""

    def __init__(
        self, picture: ClusterFacts, policy: Policy, name: str, clock: Callable[[], float] = thread_time
    ) -> None:
        self.cluster = copy_cluster(picture)
        self.job = self.cluster.jobs[name]
        self.now_s = picture.now_s
        self._policy = policy
        self._cache = EngineCache()
        self._clock = clock
        self._until_s = clock() + SECONDS_MOST
        self._left = TRIALS_MOST
        self._ran_s = self.job.ran_s
        self._waits_since_s = self.job.waits_since_s
        self._mix = self.cluster.mix
        self._events: dict[str, list[Event]] = {}
        for event in picture.events:
            of = _workload_of(event)
            if of is not None:
                self._events.setdefault(of, []).append(event)

    def tried(
        self, variant: Workload, gone: Sequence[str] = (), queues: Sequence[Queue] = ()
    ) -> WhatIfOutcome | None:
        """Try a variant; return None if it doesn't start.

        Args:
            variant: the workload as it would be.
            gone: the workloads that end first.
            queues: the quota tree as it would be; empty for the present one.

        Raises:
            WhatIfExhausted: enough was tried.
        """
        if not self._left or self._clock() > self._until_s:
            raise WhatIfExhausted
        self._left -= 1
        cluster, name, present = self.cluster, variant.name, self.cluster.ledger.queues
        if queues:
            reduce(cluster, QueuesSet(tuple(queues)))
        for other in (name, *gone):
            reduce(cluster, WorkloadEnded(other, WorkloadOutcome.STOPPED, self.now_s))
        reduce(cluster, WorkloadSubmitted(variant, variant.submitted_s, self._ran_s))
        cluster.jobs[name].waits_since_s = self._waits_since_s
        self._keep_mix()
        outcome = self._decided(variant)
        reduce(cluster, WorkloadEnded(name, WorkloadOutcome.STOPPED, self.now_s))
        if queues:
            reduce(cluster, QueuesSet(present))
        for other in (*gone, name):
            for event in self._events[other]:
                reduce(cluster, event)
        cluster.jobs[name].waits_since_s = self._waits_since_s
        self._keep_mix()
        return outcome

    def _keep_mix(self) -> None:
        """Restore the request mix, which trials must not change."""
        mix = RequestMix()
        mix.drawn, mix.free_capacity, mix.version = (
            self._mix.drawn,
            self._mix.free_capacity,
            self._mix.version,
        )
        self.cluster.mix = mix

    def _decided(self, variant: Workload) -> WhatIfOutcome | None:
        plan = decide(self.cluster, self._policy, self.now_s, self._cache)
        bound = [0] * len(variant.groups)
        for place in plan.binds:
            if place.pod.workload == variant.name:
                bound[place.pod.group] += 1
        if all(have >= need for have, need in zip(bound, variant.needed(), strict=True)):
            return WhatIfOutcome()
        for nominated in plan.nominations:
            if nominated.workload == variant.name:
                return WhatIfOutcome(nominated.freed_by, self._lost(plan.evictions, nominated.freed_by))
        return None

    def _lost(self, evictions: Sequence[Eviction], stopped: Sequence[str]) -> float:
        """Return what the evicted pods of these workloads lose."""
        pods: dict[str, list[Pod]] = {}
        for eviction in evictions:
            key = eviction.pod
            if key.workload in stopped:
                pod = self.cluster.jobs[key.workload].pods[key.group][key.index]
                pods.setdefault(key.workload, []).append(pod)
        prices, jobs = self._policy.price, self.cluster.jobs
        return sum([lost_work(jobs[name], devices_of(of), prices, self.now_s) for name, of in pods.items()])


def _workload_of(event: Event) -> str | None:
    """Return the workload of an event."""
    place = getattr(event, "place", None)
    pod = getattr(event, "pod", None) if place is None else place.pod
    if pod is not None:
        found: str = pod.workload
        return found
    workload = getattr(event, "workload", None)
    if isinstance(workload, Workload):
        return workload.name
    return workload if isinstance(workload, str) else None

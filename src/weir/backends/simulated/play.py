"""A scenario played cycle by cycle: the tiny cluster every test of the engine runs on.

The engine sees the state and answers with a plan; every bound pod runs at once, an evicted pod is
pending again at the end of the cycle, a promised one waits. Then the clock moves by the tick.
There is no control loop in between, so what a scenario shows is the engine alone.
"""

from dataclasses import dataclass

from weir.backends.simulated.populate import populate
from weir.cluster.events import Place, PodAssigned, PodKey, PodStopped, PodStopping, Promised, PromiseDropped
from weir.cluster.jobs import Job
from weir.cluster.reduce import reduce
from weir.cluster.state import Cluster
from weir.decide.cycle import decide
from weir.decide.memo import Memo
from weir.decide.plan import Eviction, Plan, Promise
from weir.model.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did."""

    bound: tuple[Place, ...]
    evicted: tuple[Eviction, ...]
    promised: tuple[Promise, ...]

    @property
    def acts(self) -> bool:
        """Whether a pod was bound or evicted."""
        return bool(self.bound or self.evicted)


class Play:
    """A scenario while it is played."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.cluster: Cluster = populate(scenario)
        self.memo = Memo()
        self.now_s = 0.0
        self.cycles: list[Cycle] = []
        self.plan = Plan()

    def cycle(self) -> Cycle:
        """Play one cycle and remember it."""
        plan = self.plan = decide(self.cluster, self.scenario.policy, self.now_s, self.memo)
        self._carry_out(plan)
        done = Cycle(tuple(plan.binds), tuple(plan.evictions), tuple(plan.promises))
        self.cycles.append(done)
        return done

    def _carry_out(self, plan: Plan) -> None:
        cluster, now_s = self.cluster, self.now_s
        for workload in plan.drops:
            reduce(cluster, PromiseDropped(workload))
        for place in plan.binds:
            reduce(cluster, PodAssigned(place, now_s))
        for eviction in plan.evictions:
            reduce(cluster, PodStopping(eviction.pod, now_s, eviction.cause))
        for promise in plan.promises:
            reduce(cluster, Promised(promise.workload, promise.places, now_s, promise.freed_by))
        self.now_s = now_s + self.scenario.tick_s
        kept = {}
        for name in {eviction.pod.workload for eviction in plan.evictions}:
            kept[name] = kept_run_s(cluster.jobs[name])
        for eviction in plan.evictions:
            reduce(cluster, PodStopped(eviction.pod, self.now_s, kept[eviction.pod.workload]))


def kept_run_s(job: Job) -> float | None:
    """The run a workload keeps that is being stopped as a whole; None while some of it runs on."""
    if job.started_s is None or job.running_pods():
        return None
    return job.ran_s if job.saved_s is None else job.ran_s + (job.saved_s - job.started_s)


def pod_name(job: Job, pod: PodKey) -> str:
    """A pod as people name it: `workload/group/index`."""
    return f"{pod.workload}/{job.spec.groups[pod.group].name}/{pod.index}"

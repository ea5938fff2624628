"""Run a scenario cycle by cycle: the small cluster of every engine test.

The engine sees the state and returns a plan. Every bound pod runs at once, an evicted pod is pending again
at the end of the cycle, a nominated one waits. Then the clock advances by the tick. There is no control
loop in between, so a scenario shows the engine alone.
"""

from weir.control.lifecycle_state import kept_runtime_s
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.explanation.pending_reasons import pending_reason
from weir.engine.plan import Plan
from weir.model.scenario import Scenario
from weir.model.scenario_result import CycleResult, PodResult, ScenarioResult
from weir.simulation.disruption_budgets import SimulatedBudgets
from weir.simulation.initial_events import build_cluster
from weir.state.events import (
    Nominated,
    NominationBlocked,
    NominationReleased,
    PodAssigned,
    PodKey,
    PodStopped,
    PodStopping,
)
from weir.state.jobs import Job, Phase, Pod
from weir.state.reduce import reduce


def play(scenario: Scenario, cycles: int, stable: int = 0) -> ScenarioResult:
    """Play `cycles` cycles, and `stable` further ones: pods are shown as they are before the further ones."""
    played = ScenarioRunner(scenario)
    done = [played.cycle() for _ in range(cycles)]
    pods = played.pods()
    done += [played.cycle() for _ in range(stable)]
    return ScenarioResult(scenario.name, tuple(done), pods)


class ScenarioRunner:
    """Plays a scenario cycle by cycle."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.cluster = build_cluster(scenario)
        self.cache = EngineCache()
        self.now_s = 0.0
        self.plan = Plan()
        self._budgets = SimulatedBudgets(scenario)
        self._evicted_by: dict[PodKey, str] = {}

    def cycle(self) -> CycleResult:
        """Play one cycle."""
        plan = self.plan = decide(self.cluster, self.scenario.policy, self.now_s, self.cache)
        self._carry_out(plan)
        waiting = [pod for job in self.cluster.nominated.values() for pod in nominated_pods(job)]
        return CycleResult(
            bound=tuple(self.name_of(place.pod) for place in plan.binds),
            evicted=tuple(self.name_of(eviction.pod) for eviction in plan.evictions),
            waiting=tuple(sorted(self.name_of(pod) for pod in waiting)),
        )

    def pods(self) -> dict[str, PodResult]:
        """Return the state of every pod, in the order of the scenario."""
        results = {}
        for workload in self.scenario.workloads:
            job = self.cluster.jobs[workload.name]
            for group in job.pods:
                for pod in group:
                    results[self.name_of(key_of(pod))] = self._played(pod)
        return results

    def name_of(self, pod: PodKey) -> str:
        """Return the name of a pod as people write it."""
        group = self.cluster.jobs[pod.workload].spec.groups[pod.group]
        return f"{pod.workload}/{group.name}/{pod.index}"

    def _played(self, pod: Pod) -> PodResult:
        by = self._evicted_by.get(key_of(pod))
        if pod.phase is Phase.RUNNING:
            return PodResult("running", self.cluster.node_names[pod.node], pod.devices, evicted_by=by)
        given = pending_reason(self.cluster, self.scenario.policy, pod.job, self.now_s)
        return PodResult(
            "waiting" if pod.phase is Phase.NOMINATED else "pending",
            reason=given.sentence if given else None,
            why=given.why.value if given else None,
            evicted_by=by,
        )

    def _carry_out(self, plan: Plan) -> None:
        cluster, now_s = self.cluster, self.now_s
        for workload in plan.drops:
            reduce(cluster, NominationReleased(workload))
        for workload, since_s in plan.blocked.items():
            reduce(cluster, NominationBlocked(workload, since_s))
        for eviction in plan.evictions:
            reduce(cluster, PodStopping(eviction.pod, now_s, eviction.cause))
            self._budgets.stopped(eviction.pod)
            if eviction.cause.by is not None:
                self._evicted_by[eviction.pod] = eviction.cause.by
        for nominated in plan.nominations:
            reduce(cluster, Nominated(nominated.workload, nominated.places, now_s, nominated.freed_by))
        for place in plan.binds:
            reduce(cluster, PodAssigned(place, now_s))
        self.now_s = now_s + self.scenario.tick_s
        kept_s = {
            eviction.pod.workload: _kept_s(cluster.jobs[eviction.pod.workload]) for eviction in plan.evictions
        }
        for eviction in plan.evictions:
            reduce(cluster, PodStopped(eviction.pod, self.now_s, kept_s[eviction.pod.workload]))
        for fact in self._budgets.facts(cluster):
            reduce(cluster, fact)


def _kept_s(job: Job) -> float | None:
    """Return the run that a workload keeps while all of it is stopping; None while some of it runs."""
    return None if job.running_pods() else kept_runtime_s(job)


def nominated_pods(job: Job) -> list[PodKey]:
    """Return the pods that wait for nominated capacity."""
    return [key_of(pod) for group in job.pods for pod in group if pod.nomination is not None]


def key_of(pod: Pod) -> PodKey:
    """Return the engine's key of a pod."""
    return PodKey(pod.job.spec.name, pod.group, pod.index)

"""A world while it runs: the engine decides, its plans are carried out, and the world does what it does."""

from collections import deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import cycle

from hypothesis import assume

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.state.cluster import Cluster
from weir.state.events import (
    Checkpointed,
    Event,
    NodeLost,
    NodeSet,
    Nominated,
    NominationBlocked,
    NominationReleased,
    PodAssigned,
    PodKey,
    PodStopped,
    PodStopping,
    QueuesSet,
    TopologiesSet,
    WorkloadChanged,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
    WorkloadSuspended,
)
from weir.state.jobs import Job, Phase, Pod
from weir.state.reduce import reduce
from weir.state.runtime_history import MIN_SAMPLES

from .random_cluster import NETWORK, Does, Step, World, altered, changed, resized, single


class Running:
    """A running world. `journal` has every event in order."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cluster = Cluster()
        self.cache = EngineCache()
        self.now_s = 0.0
        self.journal: list[Event] = []
        self.plans: list[Plan] = []
        self._looks: list[Callable[[Plan], None]] = []
        self.going: dict[PodKey, int] = {}  # pods being stopped, and the cycles that takes yet
        self._stops_after = cycle(world.stops_after)
        self.to_come = deque(world.workloads)
        self.tell(TopologiesSet((NETWORK,)))
        for node in world.nodes:
            self.tell(NodeSet(node))
        self.tell(QueuesSet(world.queues))

    def before(self, look: Callable[[Plan], None]) -> None:
        """Have every plan looked at before it is carried out."""
        self._looks.append(look)

    def learn_run_times(self) -> None:
        """Have workloads ended of each project: those of every other one ran long."""
        projects = [queue.name for queue in self.world.queues if queue.is_project]
        for index, project in enumerate(projects):
            for number in range(2 * MIN_SAMPLES):
                ended = single(f"{project}-ended-{number}", project, 1 + number % 2)
                self.tell(WorkloadSubmitted(ended, self.now_s))
                ran_s = 1e5 if index % 2 else 10.0
                self.tell(WorkloadEnded(ended.name, WorkloadOutcome.SUCCEEDED, self.now_s, ran_s))

    # What happens

    def tell(self, event: Event) -> None:
        """An event is reduced."""
        self.journal.append(event)
        reduce(self.cluster, event)

    def run(self) -> Iterator[Step]:
        """Do every step of the world; each is named when it has been done."""
        for step in self.world.steps:
            self.do(*step)
            yield step

    def do(self, does: Does, which: int) -> None:
        """Do one step; `which` chooses among the possible targets."""
        if does is Does.CYCLE:
            self.cycle()
        elif does is Does.SUBMIT:
            self.submit(1 + which % 5)
        elif does is Does.WAIT:
            self.now_s += 100.0 * which
        elif does is Does.ALTER:
            index = which % len(self.world.nodes)
            if self.cluster.nodes[index] is not None:
                self.tell(NodeSet(altered(self.world.nodes[index], which)))
        elif does in (Does.LOSE, Does.RETURN):
            self._node(does, which)
        else:
            self._job(does, which)

    def submit(self, most: int = 1_000) -> None:
        """The next workloads are submitted."""
        for _ in range(min(most, len(self.to_come))):
            workload = self.to_come.popleft()
            self.tell(WorkloadSubmitted(workload, workload.submitted_s))

    def _job(self, does: Does, which: int) -> None:
        jobs = sorted(self.cluster.jobs.values(), key=lambda job: job.spec.name)
        running = [job for job in jobs if job.started_s is not None]
        if does is Does.HOLD or does is Does.RELEASE:
            if jobs:
                name = jobs[which % len(jobs)].spec.name
                self.tell(WorkloadSuspended(name, does is Does.HOLD, "a test says so"))
            return
        if does is Does.RESIZE or does is Does.CHANGE:
            if jobs:
                self._change(jobs[which % len(jobs)], does, which)
            return
        if not running:
            return
        job = running[which % len(running)]
        if does is Does.END:
            for pod in pods_of(job):
                self.going.pop(key_of(pod), None)
            self.tell(
                WorkloadEnded(job.spec.name, WorkloadOutcome.SUCCEEDED, self.now_s, 100.0 * (1 + which))
            )
        elif does is Does.SAVE:
            self.tell(Checkpointed(job.spec.name, self.now_s))
        elif does is Does.CRASH:
            pods = [pod for pod in pods_of(job) if pod.phase in (Phase.RUNNING, Phase.STOPPING)]
            self._gone(pods[which % len(pods)])

    def _change(self, job: Job, does: Does, which: int) -> None:
        projects = [queue.name for queue in self.world.queues if queue.is_project]
        spec = resized(job.spec, which) if does is Does.RESIZE else changed(job.spec, which, projects)
        keys = [
            PodKey(spec.name, group_index, index)
            for group_index, group in enumerate(spec.groups)
            for index in range(group.count)
        ]
        absent = keys[which % len(keys) :: 2] if which % 4 == 0 else []
        self.tell(WorkloadChanged(spec, self.now_s, frozenset(absent)))
        stopping = {key_of(pod) for pod in pods_of(job) if pod.phase is Phase.STOPPING}
        for pod in [pod for pod in self.going if pod.workload == spec.name and pod not in stopping]:
            del self.going[pod]

    def _gone(self, pod: Pod) -> None:
        self.going.pop(key_of(pod), None)
        self.tell(PodStopped(key_of(pod), self.now_s))

    def _node(self, does: Does, which: int) -> None:
        nodes = self.cluster.nodes
        indices = [index for index, node in enumerate(nodes) if (node is not None) is (does is Does.LOSE)]
        if not indices:
            return
        index = indices[which % len(indices)]
        if does is Does.RETURN:
            self.tell(NodeSet(self.world.nodes[index]))
            return
        self.tell(NodeLost(self.world.nodes[index].name))
        for pod in list(self.cluster.pods_on[index]):
            self._gone(pod)

    # Cycles

    def cycle(self) -> Plan:
        """Run a cycle, carry out its plan, and return it."""
        plan = decide(self.cluster, self.world.policy, self.now_s, self.cache)
        self.plans.append(plan)
        for look in self._looks:
            look(plan)
        self.carry_out(plan)
        return plan

    def carry_out(self, plan: Plan) -> None:
        """Do what a plan says; stops take the cycles they take."""
        for workload in plan.drops:
            self.tell(NominationReleased(workload))
        for workload, since_s in plan.blocked.items():
            self.tell(NominationBlocked(workload, since_s))
        for eviction in plan.evictions:
            self.tell(PodStopping(eviction.pod, self.now_s, eviction.cause))
            self.going[eviction.pod] = next(self._stops_after)
        for promise in plan.nominations:
            self.tell(Nominated(promise.workload, promise.places, self.now_s, promise.freed_by))
        for place in plan.binds:
            self.tell(PodAssigned(place, self.now_s))
        self.now_s += self.world.tick_s
        for pod in list(self.going):
            self.going[pod] -= 1
            if not self.going[pod]:
                del self.going[pod]
                self.tell(PodStopped(pod, self.now_s))

    def settle(self, cycles_max: int, quiet: int = 4) -> bool:
        """Play cycles until nothing happens in `quiet` of them in a row; whether that came to pass."""
        still = 0
        for _ in range(cycles_max):
            still = 0 if self.cycle().acts or self.going else still + 1
            if still == quiet:
                return True
        return False


def settled(world: World, cycles_max: int) -> Running:
    """Return a world in which all is submitted and nothing happens any more; the example is rejected if it does."""
    running = Running(world)
    for _ in running.run():
        pass
    running.submit()
    assume(running.settle(cycles_max))
    return running


def pods_of(job: Job) -> list[Pod]:
    """Return all pods of a job."""
    return [pod for group in job.pods for pod in group]


def key_of(pod: Pod) -> PodKey:
    """The name of a pod to the engine."""
    return PodKey(pod.job.spec.name, pod.group, pod.index)


def replayed(journal: list[Event], times: int = 1) -> Cluster:
    """Return the cluster of a journal, with each event applied this number of times."""
    cluster = Cluster()
    for event in journal:
        for _ in range(times):
            reduce(cluster, deepcopy(event))
    return cluster

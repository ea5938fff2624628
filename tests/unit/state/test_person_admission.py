"""Admission under limits of a person: order, kinds that don't block one another, and its cost."""

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.explanation.pending_reasons import pending_reason
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import PersonLimits, Queue
from weir.model.workloads import PodGroup, Request, Workload, WorkloadType
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, PodAssigned, QueuesSet, WorkloadChanged, WorkloadSubmitted
from weir.state.reduce import reduce

CAPACITY = {"cpu": 640_000, "memory": 640 << 30, "pods": 999}
BUILD, TRAIN = WorkloadType.BUILD, WorkloadType.TRAIN


def cluster_with(**limits: int) -> Cluster:
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("n", 8, 16 << 30, CAPACITY)))
    reduce(cluster, QueuesSet((Queue("p", quota={"gpu": 8000}, person_limits=PersonLimits(**limits)),)))
    return cluster


def submit(
    cluster: Cluster,
    name: str,
    gpus: int = 1,
    *,
    type_: WorkloadType = TRAIN,
    priority: int = 50,
    at_s: float = 0.0,
) -> Workload:
    group = PodGroup("0", Request(devices=gpus, cpu_milli=1))
    workload = Workload(name, "p", (group,), 1, at_s, user="mia", type=type_, priority=priority)
    reduce(cluster, WorkloadSubmitted(workload, at_s))
    return workload


def admitted(cluster: Cluster) -> set[str]:
    return {name for name, job in cluster.jobs.items() if not job.withheld}


def start(cluster: Cluster) -> set[str]:
    """Carry out one decision; return what starts."""
    binds = decide(cluster, Policy(), 1.0, EngineCache()).binds
    for place in binds:
        reduce(cluster, PodAssigned(place, 1.0))
    return {place.pod.workload for place in binds}


def test_sessions_beyond_their_limit_block_no_other_work() -> None:
    cluster = cluster_with(sessions=1, running=4)
    for index in range(400):
        submit(cluster, f"build-{index:03}", 0, type_=BUILD, priority=100, at_s=float(index))
    submit(cluster, "train", at_s=500.0)
    assert admitted(cluster) == {"build-000", "train"}
    assert start(cluster) == {"build-000", "train"}


def test_large_workload_is_not_overtaken_for_good() -> None:
    cluster = cluster_with(gpus_milli=4000)
    submit(cluster, "small", 3)
    assert start(cluster) == {"small"}
    submit(cluster, "large", 4, at_s=1.0)
    submit(cluster, "tiny", 1, at_s=2.0)
    submit(cluster, "none", 0, at_s=3.0)
    assert admitted(cluster) == {"small", "none"}, "what is left is kept for the older one"
    why = pending_reason(cluster, Policy(), cluster.jobs["tiny"], 3.0)
    assert why is not None
    assert why.sentence == (
        "mia may use 4 GPUs at once in project p, and the rest is kept for large, which comes first; "
        "it waits for the end of small"
    )


def test_workload_beyond_the_limit_by_itself_blocks_no_other() -> None:
    cluster = cluster_with(gpus_milli=2000)
    submit(cluster, "huge", 4, priority=100)
    submit(cluster, "small", 2, at_s=1.0)
    assert admitted(cluster) == {"small"}


def test_priority_comes_before_age() -> None:
    cluster = cluster_with(running=1)
    first = submit(cluster, "first")
    submit(cluster, "urgent", priority=90, at_s=5.0)
    assert admitted(cluster) == {"urgent"}
    raised = Workload("first", "p", first.groups, 1, 0.0, user="mia", priority=95)
    reduce(cluster, WorkloadChanged(raised, 6.0))
    assert admitted(cluster) == {"first"}


def test_limits_are_of_each_person() -> None:
    cluster = cluster_with(running=1)
    submit(cluster, "mine")
    group = PodGroup("0", Request(devices=1))
    reduce(cluster, WorkloadSubmitted(Workload("theirs", "p", (group,), 1, 0.0, user="ben"), 0.0))
    assert admitted(cluster) == {"mine", "theirs"}


def test_admission_looks_at_what_it_admits_and_not_at_all_that_waits() -> None:
    """The lines are looked at through a counter: ten thousand workloads wait."""
    cluster = cluster_with(running=2, sessions=1, gpus_milli=4000)
    for index in range(10_000):
        submit(cluster, f"w{index:05}", index % 2, type_=BUILD if index % 3 else TRAIN, at_s=float(index))
    (usage,) = cluster.admission.persons.values()
    looks = 0

    class Counted(dict):  # type: ignore[type-arg]
        def __getitem__(self, key: str) -> object:
            nonlocal looks
            looks += 1
            return super().__getitem__(key)

    usage.entries = Counted(usage.entries)
    usage.next_admitted()
    assert looks <= 8

"""The position of a pending workload follows priority, then age, over all classes of its project."""

import random

from weir.model.nodes import Node
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.service.queue_position import queue_position
from weir.state.cluster import Cluster
from weir.state.events import NodeSet, QueuesSet, WorkloadSubmitted, WorkloadSuspended
from weir.state.reduce import reduce


def pool(count: int) -> Cluster:
    """Return a pool in which workloads of several sizes, priorities and ages are pending in two projects."""
    cluster, dice = Cluster(), random.Random(3)
    reduce(cluster, NodeSet(Node("n", 4, 16 << 30, {"cpu": 64_000, "memory": 64 << 30, "pods": 99})))
    reduce(cluster, QueuesSet((Queue("p"), Queue("q"))))
    for index in range(count):
        group = PodGroup("0", Request(devices=dice.choice([1, 2, 4])))
        priority, submitted_s = dice.choice([50, 60, 70]), float(dice.randrange(10))
        project = dice.choice("pq")
        spec = Workload(f"w{index}", project, (group,), 1, submitted_s, priority=priority)
        reduce(cluster, WorkloadSubmitted(spec, submitted_s))
    return cluster


def test_places_are_those_of_a_list_by_priority_age_and_name() -> None:
    cluster = pool(120)
    for project in "pq":
        jobs = [job for job in cluster.jobs.values() if job.spec.project == project]
        jobs.sort(key=lambda job: (-job.priority, job.submitted_s, job.name))
        positions = [queue_position(cluster, job.name) for job in jobs]
        assert positions == [(place, len(jobs)) for place in range(1, len(jobs) + 1)]


def test_a_suspended_workload_has_no_place_and_an_unknown_one_neither() -> None:
    cluster = pool(20)
    _, before = queue_position(cluster, "w3")
    reduce(cluster, WorkloadSuspended("w3", True))
    assert queue_position(cluster, "w3") == (None, before - 1)
    assert queue_position(cluster, "nothing") == (None, 0)

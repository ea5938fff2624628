"""State after the end of a workload: only learned run times stay."""

import gc

import pytest

from weir.model.nodes import Node
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.cluster import Cluster
from weir.state.events import (
    NodeSet,
    Placement,
    PodAssigned,
    PodKey,
    QueuesSet,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
)
from weir.state.jobs import Pod
from weir.state.reduce import reduce
from weir.state.runtime_history import MAX_SAMPLES, MIN_SAMPLES, RuntimeHistory, RuntimeKey

NAMES = (("team", 1000), ("team",), ())


def test_a_job_that_is_over_needs_no_collector():
    cluster = Cluster()
    reduce(cluster, NodeSet(Node("n", 8, 16 << 30, {"cpu": 64_000, "memory": 512 << 30, "pods": 110})))
    reduce(cluster, QueuesSet((Queue("team"),)))
    spec = Workload("gone", "team", (PodGroup("worker", Request(devices=1), count=2, min=2),), 2, 0.0)

    def pods():
        return [pod for pod in gc.get_objects() if type(pod) is Pod and pod.job.spec is spec]

    gc.disable()
    try:
        reduce(cluster, WorkloadSubmitted(spec, 0.0))
        for index in range(2):
            reduce(cluster, PodAssigned(Placement(PodKey("gone", 0, index), "n", (index,)), 1.0))
        assert len(pods()) == 2
        reduce(cluster, WorkloadEnded("gone", WorkloadOutcome.SUCCEEDED, 60.0, 59.0))
        assert not pods()
    finally:
        gc.enable()


def test_the_closest_kind_of_which_enough_have_ended_is_believed():
    times, one = RuntimeHistory(), RuntimeKey(NAMES)
    assert times.remaining_s(one, 30.0) is None
    for run_s in range(MIN_SAMPLES - 1):
        times.ended(one, 100.0 + run_s)
    assert times.remaining_s(one, 30.0) == 30.0  # of none enough: it is half way
    times.ended(RuntimeKey(NAMES[1:]), 1000.0)
    assert times.remaining_s(one, 30.0) == pytest.approx((sum(range(100, 109)) + 1000) / 10 - 30)
    times.ended(one, 109.0)
    assert times.remaining_s(one, 30.0) == pytest.approx(sum(range(100, 110)) / 10 - 30)
    assert times.remaining_s(one, 104.5) == pytest.approx(sum(range(105, 110)) / 5 - 104.5)


def test_a_learned_run_time_is_asked_again_when_it_no_longer_holds():
    times = RuntimeHistory()
    for run_s in (*[100.0] * MIN_SAMPLES, 200.0, 300.0):
        times.ended(RuntimeKey(((),)), run_s)
    one = RuntimeKey(NAMES)
    for ran_s in (0.0, 99.0, 150.0, 250.0, 99.0):
        assert times.remaining_s(one, ran_s) == times.remaining_s(RuntimeKey(NAMES), ran_s)
    for _ in range(MIN_SAMPLES):
        times.ended(RuntimeKey((("team",),)), 120.0)  # a closer likeness is believed from now on
    assert times.remaining_s(one, 99.0) == 21.0
    assert times.remaining_s(one, 150.0) == times.remaining_s(RuntimeKey(NAMES), 150.0) == 100.0
    for _ in range(MIN_SAMPLES):
        times.ended(RuntimeKey((("team",),)), 160.0)
    assert times.remaining_s(one, 150.0) == 10.0


def test_what_ended_long_ago_is_forgotten():
    times, one = RuntimeHistory(), RuntimeKey(NAMES)
    for _ in range(MAX_SAMPLES):
        times.ended(one, 10.0)
    assert times.remaining_s(one, 0.0) == 10.0
    for _ in range(MAX_SAMPLES + MAX_SAMPLES // 16):
        times.ended(one, 500.0)
    assert times.remaining_s(one, 0.0) == 500.0

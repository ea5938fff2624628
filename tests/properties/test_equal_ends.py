"""Running workloads that count as equal: if the end of one lets a pending workload start, that of each does."""

from dataclasses import replace

from hypothesis import given

from weir.model.workloads import PodGroup, Request
from weir.service.decision_state import DecisionState
from weir.service.equal_ends import without_equals
from weir.service.what_if import WhatIf

from .budget import examples
from .random_cluster import HOSTNAME, POLICIES, Does, World, worlds
from .running import settled

ASKED_MAX = 3
NODES = 3


def uniform(world: World) -> World:
    """Return the world with equal nodes, and with workloads that differ in a few things."""
    nodes = [
        replace(world.nodes[0], name=f"n{index}", labels={HOSTNAME: f"n{index}"}) for index in range(NODES)
    ]
    workloads = [
        replace(
            workload,
            project=world.workloads[index % 2].project,
            groups=(PodGroup("0", Request(devices=1 + (index % 5 == 0))),),
            min_pods=1,
            user="",
            priority=50 + (index % 7 == 0),
            preemptible=index % 3 > 0,
        )
        for index, workload in enumerate(world.workloads)
    ]
    return replace(world, nodes=tuple(nodes), workloads=tuple(workloads))


@examples(40)
@given(worlds(policies=POLICIES, happens=(Does.CYCLE, Does.SUBMIT, Does.END, Does.SAVE), steps_max=10))
def test_ends_of_equal_workloads_have_the_same_outcome(world: World) -> None:
    running = settled(uniform(world), 20)
    cluster = running.cluster
    cluster.now_s = running.now_s
    state = DecisionState(cluster, running.cache, world.policy, running.now_s)
    names = [
        name for jobs in cluster.running.values() for name, job in jobs.items() if job.started_s is not None
    ]
    pending = [
        job for queued in cluster.waiting.values() for _, _, job in queued.members if not job.is_running
    ]
    for job in pending[:ASKED_MAX]:
        trials = WhatIf(lambda read: read(state), job.name)
        if trials.job.starts:
            continue
        for index, name in enumerate(names):
            for other in names[index + 1 :]:
                if without_equals(cluster, [name, other]) == [name]:
                    one, same = trials.tried(job.spec, [name]), trials.tried(job.spec, [other])
                    assert (one is None) is (same is None), f"{job.name} after {name} or {other}"

"""The state that events update in place is the state those facts make, however they come to be told."""

from hypothesis import given

from weir.state.cluster import Cluster
from weir.state.events import (
    Checkpointed,
    NodeLost,
    NodeSet,
    Nominated,
    Placement,
    PodAssigned,
    PodStopping,
    QueuesSet,
    TopologiesSet,
    WorkloadSubmitted,
    WorkloadSuspended,
)
from weir.state.jobs import Phase
from weir.state.reduce import reduce

from .budget import examples
from .cluster_view import differs, picture
from .random_cluster import CHANGING, World, worlds
from .running import Running, key_of, pods_of, replayed


@examples(24)
@given(worlds(happens=CHANGING, topology=True, rules=True))
def test_the_state_is_the_one_rebuilt_from_how_things_are(world: World) -> None:
    running = Running(world)
    for _ in running.run():
        assert not differs(picture(running.cluster, history=False), picture(rebuilt(running), history=False))


@examples(20)
@given(worlds(happens=CHANGING, topology=True, rules=True))
def test_a_repeated_event_changes_nothing(world: World) -> None:
    running = Running(world)
    for _ in running.run():
        pass
    assert not differs(picture(replayed(running.journal, times=2)), picture(running.cluster))


@examples(20)
@given(worlds(happens=CHANGING, topology=True, rules=True))
def test_new_quotas_change_nothing_but_the_quotas(world: World) -> None:
    running = Running(world)
    for step, _ in enumerate(running.run()):
        if step % 3 == 0:
            before = picture(running.cluster)
            running.tell(QueuesSet(world.queues))
            assert not differs(before, picture(running.cluster))


def rebuilt(running: Running) -> Cluster:
    """The same state from the facts as they are now: nothing of how they came about."""
    old, fresh = running.cluster, Cluster()
    reduce(fresh, QueuesSet(running.world.queues))
    reduce(fresh, TopologiesSet(tuple(old.topologies.values())))
    for node in running.world.nodes:
        reduce(fresh, NodeSet(node))
    for job in old.jobs.values():
        name = job.spec.name
        absent = frozenset(key_of(pod) for pod in pods_of(job) if pod.phase is Phase.ABSENT)
        reduce(fresh, WorkloadSubmitted(job.spec, job.spec.submitted_s, job.ran_s, absent))
        for pod in pods_of(job):
            if pod.phase in (Phase.RUNNING, Phase.STOPPING):
                place = Placement(key_of(pod), old.node_names[pod.node], pod.devices)
                reduce(fresh, PodAssigned(place, job.started_s or 0.0))
        if job.saved_s is not None:
            reduce(fresh, Checkpointed(name, job.saved_s))
        for pod in pods_of(job):
            if pod.phase is Phase.STOPPING:
                reduce(fresh, PodStopping(key_of(pod), running.now_s))
        promised = tuple(
            Placement(key_of(pod), old.node_names[pod.nomination[0]], pod.nomination[1])
            for pod in pods_of(job)
            if pod.nomination is not None
        )
        if promised:
            reduce(fresh, Nominated(name, promised, running.now_s))
        if job.held:
            reduce(fresh, WorkloadSuspended(name, True, job.held_why))
    for index, node in enumerate(old.nodes):
        if node is None:
            reduce(fresh, NodeLost(old.node_names[index]))
    return fresh

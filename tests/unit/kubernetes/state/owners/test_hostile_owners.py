"""A project member who changes his own MPIJobs and pods so that Weir doesn't stop them, or writes without end."""

from typing import Any

from tests.unit.kubernetes.small_world import maker, pod, reference
from tests.unit.kubernetes.test_owner_restart import PATH, PODS, ROLE, Site, evicted, mpi, suspensions

from weir.kubernetes.writes.operations import WriteDone

OTHER = maker("MPIJob", "kubeflow.org/v1", "other", "m2", {"mpiReplicaSpecs": {"Worker": {"replicas": 3}}})


def running(owner: dict[str, Any]) -> Site:
    site = Site(owner)
    site.has_pods()
    site.step()
    site.has_pods(on="n1")
    site.step()
    return site


def adopt(site: Site, owner: dict[str, Any]) -> None:
    """Give all pods to another owner, as everyone who may change pods can."""
    for at, name in enumerate(PODS):
        role, gpus, devices = {ROLE: name.partition("-")[0]}, 2 if at else 0, ("", "0,1", "2,3")[at]
        where: Any = {"on": "n1", "start": 1, "devices": devices, "uid": f"{name}-1"}
        site.hear("pods", pod(name, owner=reference(owner), gpus=gpus, labels=role, **where))


def test_pods_that_change_their_owner_while_it_is_suspended_are_evicted() -> None:
    site = running(mpi())
    (order,) = suspensions(site.reclaim())
    site.backend.take_outcome(order, WriteDone())
    site.hear("owners", mpi(suspend=True, marked=True), OTHER)
    site.step()
    adopt(site, OTHER)
    writes = [each for _ in range(4) for each in site.step(31.0)]
    assert evicted(writes) == set(PODS)
    assert all(not each.suspends for each in suspensions(writes))


def test_an_owner_that_is_resumed_whenever_weir_gives_up_doesnt_keep_its_pods() -> None:
    site = running(mpi())
    site.reclaim()
    stopped: set[str] = set()
    for _ in range(6):
        for order in suspensions(site.writes):
            site.backend.take_outcome(order, WriteDone())
        site.hear("owners", mpi(suspend=True, marked=True))
        stopped |= evicted(site.step())
        site.hear("owners", mpi())  # just when Weir has waited long enough
        stopped |= evicted(site.step(31.0))
    assert stopped == set(PODS)


def test_a_mark_that_comes_back_at_once_isnt_removed_at_once_again() -> None:
    site = running(mpi())
    writes = []
    for _ in range(20):
        site.hear("owners", mpi(marked=True))
        writes += suspensions(site.step())
        site.hear("owners", mpi())
        writes += suspensions(site.step())
    assert len(writes) == 1
    site.hear("owners", mpi(marked=True))
    assert len(suspensions(site.step(31.0))) == 1


def test_pods_of_another_namespace_dont_keep_an_owner_suspended() -> None:
    site = running(mpi())
    (order,) = suspensions(site.reclaim())
    site.backend.take_outcome(order, WriteDone())
    site.hear("owners", mpi(suspend=True, marked=True))
    site.step()
    site.hear("pods", pod("claims-it", owner=reference(mpi()), namespace="evil"))
    site.lose_pods()
    (resumed,) = suspensions(site.step())
    assert resumed.path == PATH


def test_an_owner_without_a_namespace_is_never_suspended_or_resumed() -> None:
    """Pods of every namespace can name it as their owner."""
    owner = mpi()
    owner["metadata"]["namespace"] = ""
    site = running(owner)
    writes = [*site.reclaim(), *site.step(31.0)]
    assert not suspensions(writes)
    assert evicted(writes) == set(PODS)
    marked = mpi(suspend=True, marked=True)
    marked["metadata"]["namespace"] = ""
    site.hear("owners", marked)
    assert not suspensions([*site.step(), *site.step(31.0)])

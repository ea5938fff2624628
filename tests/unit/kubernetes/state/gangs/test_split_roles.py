"""Pods of one role with different requests: which of them make up the minimum of their gang."""

from itertools import permutations
from typing import Any

import pytest
from tests.unit.kubernetes.small_world import maker, node, pod, project, reference
from tests.unit.kubernetes.test_backend import Scene, status_of

from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.writes.operations import Bind, Evict, WriteDone

SERVE = maker("ReplicaSet", "apps/v1", "serve", "s1", {"replicas": 3})
RAY = maker(
    "RayCluster",
    "ray.io/v1",
    "ray",
    "r1",
    {"workerGroupSpecs": [{"groupName": "gpu", "replicas": 4, "minReplicas": 2}]},
)
MPI = maker(
    "MPIJob",
    "kubeflow.org/v2beta1",
    "mpi",
    "m1",
    {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}},
    },
)


MEMBERS = ("launcher", "worker-0", "worker-1")


def site(owner: dict[str, Any], *nodes: Any) -> Scene:
    here = Scene()
    here.hear("nodes", *(nodes or (node("n1", gpus=4),)))
    here.hear("projects", project("team", gpus=16))
    here.hear("owners", owner)
    return here


def replica(name: str, gpus: int, **more: Any) -> Any:
    return pod(name, owner=reference(SERVE), gpus=gpus, **more)


def ray(name: str, group: str, gpus: int, **more: Any) -> Any:
    return pod(name, owner=reference(RAY), gpus=gpus, labels={"ray.io/group": group}, **more)


def bound(here: Scene) -> set[str]:
    writes = here.step()
    for each in writes:
        here.backend.take_outcome(each, WriteDone())
    return {each.name for each in writes if isinstance(each, Bind)}


def test_running_replicas_arent_stopped_for_a_new_one_of_another_size() -> None:
    here = site(SERVE)
    here.hear("pods", replica("old", 1))
    assert bound(here) == {"old"}
    here.hear("pods", replica("old", 1, on="n1", start=1, devices="0"), replica("a", 2))
    assert bound(here) == {"a"}
    here.hear("pods", replica("a", 2, on="n1", start=2, devices="1,2"))
    here.gone("old")
    here.step()
    here.hear(
        "pods", replica("b", 8)
    )  # it takes the place of the first one in the workload, and fits nowhere
    writes = [each for _ in range(10) for each in here.step(600.0)]
    assert not [each for each in writes if isinstance(each, Evict)]


def test_pods_that_are_gone_are_no_part_of_the_minimum_while_others_of_their_role_are_there() -> None:
    here = site(RAY, node("n1", gpus=3))
    here.hear("pods", ray("head", "headgroup", 0), ray("a-0", "gpu", 2), ray("a-1", "gpu", 2))
    assert bound(here) == set()
    here.gone("a-0")
    here.hear("pods", ray("b-0", "gpu", 1))
    assert bound(here) == {"head", "a-1", "b-0"}


@pytest.mark.parametrize("order", list(permutations(("launcher", "worker-0"))))
def test_a_launcher_is_no_worker_of_its_gang(order: tuple[str, ...]) -> None:
    here = site(MPI)
    for name in order:
        role = {"training.kubeflow.org/replica-type": name.partition("-")[0]}
        here.hear("pods", pod(name, owner=reference(MPI), gpus=0, labels=role))
    assert bound(here) == set()
    role = {"training.kubeflow.org/replica-type": "worker"}
    here.hear("pods", pod("worker-1", owner=reference(MPI), gpus=0, labels=role))
    assert bound(here) == {"launcher", "worker-0", "worker-1"}


def test_a_running_gang_that_lost_a_worker_is_no_whole_one_because_of_its_launcher() -> None:
    here = site(MPI)
    roles = {name: {"training.kubeflow.org/replica-type": name.partition("-")[0]} for name in MEMBERS}
    here.hear("pods", *(pod(name, owner=reference(MPI), labels=roles[name]) for name in MEMBERS))
    assert bound(here) == set(MEMBERS)
    for at, name in enumerate(MEMBERS):
        placed = pod(name, owner=reference(MPI), labels=roles[name], on="n1", start=1, devices=str(at))
        here.hear("pods", placed)
    here.step()
    here.gone("worker-1")
    here.step()
    job = here.control.cluster.jobs["team/mpijob-mpi"]
    assert (job.is_below(), job.held_why) == (True, "1 of 2 pods exists.")


def test_an_elastic_role_stands_in_for_no_other() -> None:
    groups = [
        {"groupName": "gpu", "replicas": 4, "minReplicas": 2},
        {"groupName": "cpu", "replicas": 4, "minReplicas": 0},
    ]
    here = site(maker("RayCluster", "ray.io/v1", "ray", "r1", {"workerGroupSpecs": groups}))
    here.hear("pods", ray("head", "headgroup", 0), ray("gpu-0", "gpu", 1), ray("cpu-0", "cpu", 0))
    assert bound(here) == set()
    assert here.control.cluster.jobs["team/raycluster-ray"].held_why == "2 of 3 pods exist."
    here.hear("pods", ray("gpu-1", "gpu", 1))
    assert bound(here) == {"head", "gpu-0", "gpu-1", "cpu-0"}


def test_a_role_that_has_succeeded_takes_the_minimum_of_no_other() -> None:
    sets = [{"name": "driver"}, {"name": "workers", "template": {"spec": {"parallelism": 2}}}]
    jobset = maker("JobSet", "jobset.x-k8s.io/v1alpha2", "js", "s1", {"replicatedJobs": sets})
    here = site(jobset)
    made = {
        name: pod(
            name,
            owner=reference(jobset),
            labels={"jobset.sigs.k8s.io/replicatedjob-name": name.partition("-")[0]},
            **({"on": "n1", "phase": "Succeeded"} if name == "driver" else {}),  # type: ignore[arg-type]
        )
        for name in ("driver", "workers-0", "workers-1")
    }
    here.hear("pods", made["driver"], made["workers-0"])
    assert bound(here) == set()
    here.hear("pods", made["workers-1"])
    assert bound(here) == {"workers-0", "workers-1"}


def test_devices_of_a_workload_count_the_missing_pods_of_no_role_that_has_succeeded() -> None:
    sets = [{"name": "driver"}, {"name": "workers", "template": {"spec": {"parallelism": 2}}}]
    jobset = maker("JobSet", "jobset.x-k8s.io/v1alpha2", "js", "s1", {"replicatedJobs": sets})
    here = site(jobset)
    roles = {name: {"jobset.sigs.k8s.io/replicatedjob-name": name} for name in ("driver", "workers")}
    driver = {"owner": reference(jobset), "labels": roles["driver"], "gpus": 0}
    here.hear("pods", pod("driver-0", on="n1", start=1, devices="", phase="Running", **driver))
    here.hear("pods", pod("workers-0", owner=reference(jobset), labels=roles["workers"], gpus=2))
    here.step()
    here.hear("pods", pod("driver-0", on="n1", start=1, devices="", phase="Succeeded", **driver))
    here.step()
    here.now_s += 60.0
    assert status_of(here.reported())["gpus"] == "4"


def test_running_replicas_arent_stopped_for_one_of_another_size_whose_node_is_gone() -> None:
    here = site(SERVE, node("n1"), node("n2"))
    here.hear("pods", replica("old", 1, on="n1", start=1, devices="0", phase="Running"))
    here.hear("pods", replica("a", 2, on="n2", start=2, devices="0,1", phase="Running"))
    here.step()
    here.backend.deliver("nodes")([ObjectRemoved("n2", "n2")])
    writes = [each for _ in range(10) for each in here.step(600.0)]
    assert not [each for each in writes if isinstance(each, Evict)]

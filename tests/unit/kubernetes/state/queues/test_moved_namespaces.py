"""Running work whose namespace moves to another project: who counts for it, and for its new pods."""

from typing import Any

from tests.unit.kubernetes.small_world import job, maker, node, pod, project, reference
from tests.unit.kubernetes.state.workloads.test_left_objects import read, written
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.writes.operations import Bind, PatchStatus, WriteDone

SERVE = maker("ReplicaSet", "apps/v1", "serve", "s1", {"replicas": 3})
NAME = "team/replicaset-serve"


def replica(at: int, **more: Any) -> Any:
    return pod(f"serve-{at}", owner=reference(SERVE), **more)


def running(at: int) -> Any:
    return replica(at, on="n1", start=at + 1, devices=str(at), phase="Running")


def site(*, since: int = 4) -> Scene:
    """Return a service with two replicas, whose namespace moved from a project with quota to one with `since`."""
    here = Scene()
    here.hear("nodes", node("n1"), node("n2"))
    here.hear("projects", project("before", "team"), project("since", "elsewhere", gpus=since))
    here.hear("owners", SERVE)
    here.hear("pods", replica(0), replica(1))
    for bind in here.step():
        here.backend.take_outcome(bind, WriteDone())
    here.hear("pods", running(0), running(1))
    here.step()
    here.hear("projects", project("before", "elsewhere"), project("since", "team", gpus=since))
    here.step()
    return here


def gpus(here: Scene) -> dict[str, int]:
    """Return the GPUs that each project has allocated."""
    cluster = here.control.cluster
    rows = zip(cluster.ledger.queues, cluster.ledger.allocated, strict=True)
    return {queue.name: int(row[0]) // 1000 for queue, row in rows}


def spec(here: Scene) -> Any:
    return here.control.cluster.jobs[NAME].spec


def test_running_work_keeps_its_project_while_it_asks_for_no_pod() -> None:
    here = site()
    assert (spec(here).project, gpus(here)) == ("before", {"before": 2, "since": 0})


def test_a_new_pod_of_elastic_work_takes_the_whole_workload_to_the_new_project() -> None:
    here = site()
    here.hear("pods", replica(2))
    (bind,) = here.step()
    assert isinstance(bind, Bind)
    assert (spec(here).project, gpus(here)) == ("since", {"before": 0, "since": 3})
    assert not spec(here).preemptible


def test_a_control_that_begins_again_leaves_running_work_in_its_project() -> None:
    here = site()
    here.connect()
    here.step()
    assert (spec(here).project, gpus(here)) == ("before", {"before": 2, "since": 0})


def test_a_namespace_that_moves_while_weir_is_down_takes_along_elastic_work_with_a_new_pod() -> None:
    before = site()
    recorded = read(written(before, {}))
    assert recorded.spec.project == "before"
    here = Scene()
    here.hear("nodes", node("n1"), node("n2"))
    here.hear("projects", project("before", "elsewhere"), project("since", "team"))
    here.hear("owners", SERVE)
    here.hear("workloads", recorded)
    here.hear("pods", running(0), running(1), replica(2))
    (bind,) = here.step()
    assert isinstance(bind, Bind)
    assert (spec(here).project, gpus(here)) == ("since", {"before": 0, "since": 3})


def test_what_passes_the_quota_of_the_new_project_runs_on_as_borrowed() -> None:
    here = site(since=1)
    here.hear("pods", replica(2))
    here.step()
    assert (spec(here).project, spec(here).preemptible) == ("since", True)
    assert gpus(here)["before"] == 0


def test_a_pod_that_a_gang_needs_to_go_on_keeps_its_project() -> None:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("before", "team"), project("since", "elsewhere"))
    here.hear("owners", job("train", "j1", 2))
    here.hear("pods", *(pod(f"train-{at}", owner=("train", "j1")) for at in range(2)))
    for bind in here.step():
        here.backend.take_outcome(bind, WriteDone())
    here.hear("projects", project("before", "elsewhere"), project("since", "team"))
    here.gone("train-1")
    here.hear("pods", pod("train-2", owner=("train", "j1")))
    (bind,) = here.step()
    assert (bind.name, here.control.cluster.jobs["team/job-train"].spec.project) == ("train-2", "before")


def test_new_pods_wait_while_the_namespace_has_no_project() -> None:
    here = site()
    here.hear("projects", project("since", "elsewhere"))
    here.hear("pods", replica(2))
    assert here.step() == []
    job_ = here.control.cluster.jobs[NAME]
    assert job_.spec.project == "before"
    assert job_.held_why.startswith("Namespace team belongs to no project: add it to spec.namespaces of")
    writes = [each for after_s in (1.0, 2.0) for each in (*here.step(after_s), *here.reported())]
    (told,) = [each for each in writes if isinstance(each, PatchStatus) and "/pods/" in each.path]
    (condition,) = told.patch["status"]["conditions"]  # type: ignore[index]
    assert (condition["reason"], condition["message"]) == ("Refused", job_.held_why)
    here.hear("projects", project("since", "team"))
    (bind,) = here.step()
    assert (bind.name, spec(here).project) == ("serve-2", "since")


def test_a_gang_that_lost_the_pod_it_needs_keeps_its_project() -> None:
    """Workers beyond the minimum don't stand in for the head."""
    groups = [{"groupName": "gpu", "replicas": 4, "minReplicas": 0}]
    owner = maker("RayCluster", "ray.io/v1", "ray", "r1", {"workerGroupSpecs": groups})

    def member(name: str, role: str, gpus: int, **where: Any) -> Any:
        return pod(name, owner=reference(owner), gpus=gpus, labels={"ray.io/group": role}, **where)

    on: dict[str, Any] = {"on": "n1", "start": 1, "phase": "Running"}
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("before", "team"), project("since", "elsewhere", gpus=0))
    here.hear("owners", owner)
    here.hear("pods", member("head", "headgroup", 0, devices="", **on))
    here.hear("pods", *(member(f"w{at}", "gpu", 1, devices=str(at), **on) for at in range(2)))
    here.step()
    here.hear("projects", project("before", "elsewhere"), project("since", "team", gpus=0))
    here.step()
    here.gone("head")
    here.hear("pods", member("head-2", "headgroup", 0))
    here.step()
    assert here.control.cluster.jobs["team/raycluster-ray"].spec.project == "before"

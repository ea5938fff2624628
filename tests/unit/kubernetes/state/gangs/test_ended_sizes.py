"""Statements of a workload's object while the workload ends, and afterwards: it outlives the pods."""

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.small_world import job, node, pod, project
from tests.unit.kubernetes.test_backend import Scene, status_of

from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.writes.operations import UpsertWorkload, stated

OWNER = ("train", "j1")


def running(pods: int) -> Scene:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    here.hear("owners", job("train", "j1", pods))
    here.hear("pods", *(held(at, "Running") for at in range(pods)))
    here.step()
    return here


def held(at: int, phase: str) -> Any:
    return pod(f"train-{at}", owner=OWNER, on="n1", start=1, devices=str(at), phase=phase)


def told(here: Scene) -> dict[str, Any]:
    """Step twice: what may be something else in a moment is written late."""
    found: dict[str, Any] = {}
    for _ in range(2):
        here.step()
        here.now_s += 60.0
        found |= status_of(here.reported())
    return found


def objects(here: Scene) -> list[UpsertWorkload]:
    """Return the objects of workloads that are written next."""
    writes: list[Any] = []
    for _ in range(2):
        here.step()
        here.now_s += 60.0
        writes += here.reported()
    return [each for each in writes if isinstance(each, UpsertWorkload)]


def stored(made: UpsertWorkload, status: dict[str, Any]) -> WorkloadObject:
    """Return an object as the API server has it after the write."""
    metadata = {
        "name": made.name,
        "namespace": "team",
        "uid": "w1",
        "annotations": made.body["metadata"]["annotations"],
    }
    return msgspec.convert({**stated(made.body), "metadata": metadata, "status": status}, WorkloadObject)


def test_an_ended_workload_keeps_the_size_that_it_had() -> None:
    here = running(2)
    before = told(here)
    assert (before["phase"], before["running"], before["gpus"]) == ("Running", "2/2", "2")
    here.hear("pods", held(0, "Succeeded"))
    told(here)
    here.hear("pods", held(1, "Succeeded"))
    here.hear("owners", job("train", "j1", 2, over="Complete"))
    after = {**before, **told(here)}
    assert (after["phase"], after["running"], after["pods"], after["gpus"]) == ("Succeeded", "0/2", 2, "2")
    assert (after["podsRunning"], after["nodes"], after["allocations"]) == (0, [], [])


@pytest.mark.parametrize(
    ("stated", "ended_at"),
    [
        ("1970-01-01T00:18:02Z", "1970-01-01T00:18:02Z"),
        ("2999-01-01T00:00:00Z", "1970-01-01T00:19:40Z"),  # not after it is seen
        ("soon", "1970-01-01T00:19:40Z"),
        (None, "1970-01-01T00:19:40Z"),
    ],
)
def test_a_failed_job_has_the_time_that_its_condition_states(stated: str | None, ended_at: str) -> None:
    here = running(1)
    assert told(here)["endedAt"] is None
    here.hear("pods", held(0, "Failed"))
    here.step()
    here.hear("owners", job("train", "j1", 1, over="Failed", over_at=stated))
    after = told(here)
    assert (after["phase"], after["endedAt"]) == ("Failed", ended_at)


def test_what_a_deleted_owner_said_stays_until_its_pods_are_gone() -> None:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    here.hear("owners", job("train", "j1", 1, user="ann"))
    here.hear("pods", held(0, "Running"))
    (made,) = objects(here)
    assert made.body["spec"]["user"] == "ann"
    here.hear("workloads", stored(made, {"phase": "Running"}))
    here.backend.deliver_owners()([ObjectRemoved("train", "j1")])
    assert objects(here) == []
    cluster_state = here.backend.cluster_state
    here.backend.statuses.not_written(cluster_state.registry.named["team/job-train"], here.now_s)
    assert objects(here) == [], "a refused write changes nothing of that"


def test_one_that_never_started_keeps_what_it_asked_for() -> None:
    here = Scene()
    here.hear("nodes", node("n1", gpus=1))
    here.hear("projects", project("team"))
    here.hear("owners", job("train", "j1", 1))
    here.hear("pods", pod("train-0", owner=OWNER, gpus=2))
    before = told(here)
    assert (before["phase"], before["gpus"]) == ("Pending", "2")
    here.hear("owners", job("train", "j1", 1, over="Failed"))
    here.gone("train-0")
    after = {**before, **told(here)}
    assert (after["phase"], after["running"], after["gpus"]) == ("Failed", "0/1", "2")


@pytest.mark.parametrize(("gpus", "kept"), [("2", "2"), ("many", "0")])
def test_the_next_leader_takes_the_size_from_the_object(gpus: str, kept: str) -> None:
    here = running(2)
    (made,) = objects(here)
    found = stored(made, {"phase": "Running", "pods": 2, "podsRunning": 2, "gpus": gpus})
    after = running(2)  # another replica, which writes nothing as yet
    after.hear("workloads", found)
    after.hear("owners", job("train", "j1", 2, over="Complete"))
    after.hear("pods", held(0, "Succeeded"), held(1, "Succeeded"))
    said = told(after)
    assert (said["phase"], said["running"], said["gpus"]) == ("Succeeded", "0/2", kept)

"""An object that outlives its owner becomes that of the next workload of the name, with nothing of the former."""

from typing import Any

import msgspec
from tests.unit.kubernetes.small_world import job, node, pod, project
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.writes.operations import UpsertWorkload, merged, stated


def scene(**answer: str) -> Scene:
    made = Scene()
    made.hear("nodes", node("n1"))
    made.hear("projects", project("team"))
    made.hear("owners", job("train", "j1", **answer))
    return made


def written(here: Scene, before: dict[str, Any]) -> dict[str, Any]:
    """Return the object as the API server has it after what Weir writes."""
    here.step()
    found: dict[str, Any] = before
    reported = here.reported()
    here.now_s += 20.0
    for each in [*reported, *here.reported()]:
        if "/workloads" in getattr(each, "object_path", ""):
            patch = each.body if isinstance(each, UpsertWorkload) else each.patch
            found = stated(merged(found, msgspec.to_builtins(patch)))
    return found


def read(body: dict[str, Any]) -> WorkloadObject:
    return msgspec.convert(msgspec.json.decode(msgspec.json.encode(body)), WorkloadObject)


def left() -> dict[str, Any]:
    """Return the object of a Job that was deleted without it."""
    life = {"starts": 7, "failures": 3, "ranSeconds": 5000.0, "restarts": 2}
    eviction = {"at": "2026-01-01T00:00:00Z", "rule": "reclaim_quota", "sentence": "It was evicted."}
    return {
        "metadata": {"name": "job-train", "namespace": "team", "uid": "w0"},
        "spec": {
            "owner": {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j0"},
            "user": "ann",
            "maxRuntime": "3600s",
        },
        "status": {"phase": "Running", "life": life, "lastEviction": eviction, "timeToGpuSeconds": 3.0},
    }


def test_a_job_begins_its_life_though_the_object_of_a_former_one_is_there() -> None:
    here = scene()
    here.hear("workloads", read(left()))
    here.hear("pods", pod("train-0", owner=("train", "j1")))
    found = read(written(here, left()))
    assert found.spec.owner.uid == "j1"
    assert (found.spec.user, found.spec.max_runtime) == ("", None)
    assert (found.status.life, found.status.last_eviction, found.status.time_to_gpu_seconds) == (None,) * 3
    assert found.status.phase == "Starting"
    other = scene()
    other.hear("workloads", found)
    other.hear("pods", pod("train-0", owner=("train", "j1")))
    other.step()
    assert other.backend.cluster_state.registry.named["team/job-train"].life.ran_s == 0.0


def test_an_object_keeps_what_its_own_workload_has_behind_it() -> None:
    own = left()
    own["spec"]["owner"]["uid"] = "j1"
    here = scene()
    here.hear("workloads", read(own))
    here.hear("pods", pod("train-0", owner=("train", "j1")))
    found = read(written(here, own))
    assert found.status.life is not None
    assert found.status.life.ran_seconds == 5000.0
    assert found.status.last_eviction is not None


def test_an_object_states_a_limit_no_more_that_its_owner_has_given_up() -> None:
    here = scene(max_runtime="1h")
    here.hear("pods", pod("train-0", owner=("train", "j1")))
    first = written(here, {})
    assert read(first).spec.max_runtime == "3600s"
    here.hear("workloads", read(first))
    here.hear("owners", job("train", "j1"))
    assert read(written(here, first)).spec.max_runtime is None

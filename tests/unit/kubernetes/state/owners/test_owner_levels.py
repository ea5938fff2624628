"""A workload of several levels of owners, which are deleted one by one: it stays one until its pods are gone."""

from typing import Any

import msgspec
import pytest
from tests.unit.kubernetes.small_world import BEGAN, job, maker, node, pod, project, reference
from tests.unit.kubernetes.test_backend import Scene, status_of

from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.writes.operations import UpsertWorkload, stated

ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
SET = maker(
    "JobSet",
    "jobset.x-k8s.io/v1alpha2",
    "train",
    "s1",
    {"replicatedJobs": [{"name": "work", "replicas": 1, "template": {"spec": {"parallelism": 1}}}]},
)
SET["metadata"]["annotations"] = {"weir.dev/user": "ann"}
IN_ORDER = maker(
    "JobSet",
    "jobset.x-k8s.io/v1alpha2",
    "train",
    "s1",
    {**SET["spec"], "startupPolicy": {"startupPolicyOrder": "InOrder"}},
)
STATED = '{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","name":"train","uid":"s1","gang":"","role":"work"}'


def below(above: dict[str, Any] = SET, name: str = "train-work-0", namespace: str = "team") -> dict[str, Any]:
    made = job(name, "j1", 1, namespace=namespace)
    made["metadata"]["ownerReferences"] = [msgspec.to_builtins(reference(above))]
    return made


def held(stated: str = STATED, **more: Any) -> KubePod:
    return pod(
        "train-0", owner=reference(below()), on="n1", start=1, devices="0", phase="Running",
        labels={ROLE: "work"}, stated=stated, **more,
    )  # fmt: skip


def scene(*owners: dict[str, Any]) -> Scene:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    here.hear("owners", *owners)
    return here


def objects(here: Scene) -> dict[str, UpsertWorkload]:
    """Return the objects of workloads that are written next, by name."""
    writes: list[Any] = []
    for _ in range(2):
        here.step()
        here.now_s += 60.0
        writes += here.reported()
    return {each.name: each for each in writes if isinstance(each, UpsertWorkload)}


def stored(made: UpsertWorkload) -> WorkloadObject:
    """Return an object as the API server has it after the write."""
    annotations = made.body["metadata"]["annotations"]
    metadata = {"name": made.name, "namespace": "team", "uid": "w1", "annotations": annotations}
    return msgspec.convert(
        {**stated(made.body), "metadata": metadata, "status": {"phase": "Running"}}, WorkloadObject
    )


def test_a_workload_keeps_the_time_of_its_submission() -> None:
    here = scene(SET, below())
    late = held()
    late.metadata.creation_timestamp = "2026-01-02T00:00:00Z"  # made again after an eviction
    here.hear("pods", late)
    (made,) = objects(here).values()
    there = stored(made)
    there.status.submitted_at = BEGAN
    here.hear("workloads", there)
    objects(here)
    forget(here, "s1")
    here.step()
    assert status_of(here.reported()).get("submittedAt", there.status.submitted_at) == BEGAN


def forget(here: Scene, *gone: str) -> None:
    here.backend.deliver_owners()([ObjectRemoved(uid, uid) for uid in gone])


def known(here: Scene) -> dict[str, str]:
    """Return the uid of the owner of each workload with pods, by its name."""
    gangs = here.backend.cluster_state.registry.named.values()
    return {gang.name: gang.key.uid for gang in gangs if gang.count}


@pytest.mark.parametrize("deletions", [("s1", "j1"), ("j1", "s1")])
def test_a_workload_stays_one_while_its_owners_go(deletions: tuple[str, ...]) -> None:
    here = scene(SET, below())
    here.hear("pods", held())
    (made,) = objects(here).values()
    assert (made.name, made.body["spec"]["user"]) == ("jobset-train", "ann")
    here.hear("workloads", stored(made))
    job_before = here.control.cluster.jobs["team/jobset-train"]
    for uid in deletions:
        forget(here, uid)
        assert objects(here) == {}
        assert known(here) == {"team/jobset-train": "s1"}
        assert here.control.cluster.jobs == {"team/jobset-train": job_before}, "control didn't lose it either"
    here.backend.deliver("workloads")([ObjectRemoved("team/jobset-train", "w1")])
    assert objects(here) == {}, "its object goes with the JobSet, and no other takes its place"
    here.gone("train-0")
    here.step()
    assert known(here) == {}


@pytest.mark.parametrize("owners", [(), (below(),), (SET,), (SET, below())], ids=str)
def test_a_new_process_knows_the_workload_by_what_is_left(owners: tuple[dict[str, Any], ...]) -> None:
    here = scene(*owners)
    here.hear("pods", held(deleting=True))
    made = objects(here)
    assert known(here) == {"team/jobset-train": "s1"}
    assert set(made) <= {"jobset-train"}
    tracked = here.backend.cluster_state.pods.by_key["team/train-0"]
    assert tracked.info is not None
    assert tracked.info.derived.role == "work"


def test_a_job_that_its_job_set_replaces_leaves_no_workload_of_its_own() -> None:
    here = scene(SET, below())
    here.hear("pods", held())
    objects(here)
    forget(here, "j1")
    here.hear("pods", held(deleting=True))
    assert objects(here) == {}
    assert known(here) == {"team/jobset-train": "s1"}


@pytest.mark.parametrize(
    ("top", "name", "gang"), [(SET, "team/jobset-train", ""), (IN_ORDER, "team/jobset-train-work", "work")]
)
def test_a_binding_states_the_topmost_owner(top: dict[str, Any], name: str, gang: str) -> None:
    here = scene(top, below(top))
    here.hear("pods", pod("train-0", owner=reference(below()), labels={ROLE: "work"}))
    (bind,) = here.step()
    stated = msgspec.json.decode(bind.annotations["weir.dev/owner"])
    assert stated == {**msgspec.json.decode(STATED), "gang": gang}
    after = scene()  # a process that starts when all owners are gone
    after.hear("pods", held(bind.annotations["weir.dev/owner"]))
    after.step()
    assert known(after) == {name: "s1"}


def test_a_binding_states_no_owner_that_the_pod_names_itself() -> None:
    here = scene(job("alone", "j2", 1))
    here.hear("pods", pod("alone-0", owner=("alone", "j2")))
    (bind,) = here.step()
    assert "weir.dev/owner" not in bind.annotations


def test_an_owner_whose_chain_is_complete_counts_and_not_a_stated_one() -> None:
    here = scene(job("train-work-0", "j1", 1))  # a Job that was orphaned
    here.hear("pods", held())
    here.step()
    assert known(here) == {"team/job-train-work-0": "j1"}


@pytest.mark.parametrize(
    "stated", ["", "{", "[]", '{"uid":"s1"}', "\ud800", '{"a":' * 3000], ids=lambda text: text[:9]
)
def test_a_statement_that_cannot_be_read_is_none(stated: str) -> None:
    here = scene(below())
    here.hear("pods", held(stated))
    here.step()
    assert known(here) == {"team/jobset-train": "s1"}, "the Job names its JobSet"
    forget(here, "j1")
    here.step()
    assert known(here) == {"team/job-train-work-0": "j1"}


def test_a_stated_owner_of_another_namespace_is_none() -> None:
    other = maker("JobSet", "jobset.x-k8s.io/v1alpha2", "train", "s1", SET["spec"], namespace="other")
    other["metadata"]["annotations"] = {"weir.dev/user": "bea", "weir.dev/project": "theirs"}
    here = scene(other)
    here.hear("pods", held())
    here.step()
    (gang,) = here.backend.cluster_state.registry.named.values()
    assert gang.key.namespace == "team"
    assert gang.head is not None
    assert (gang.head.annotations.user, gang.head.annotations.project, gang.head.orphan) == (None, None, True)

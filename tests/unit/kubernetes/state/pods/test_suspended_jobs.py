"""Jobs that are created suspended: they have a Workload before any pod."""

from typing import Any

import pytest
from tests.unit.kubernetes.small_world import job, node, pod, project
from tests.unit.kubernetes.state.gangs.test_ended_sizes import stored
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.state.pods.suspended_jobs import SETTLED_S
from weir.kubernetes.state.pods.tracker import EMPTY_S
from weir.kubernetes.translate.job_templates import TEMPLATE, pod_of_suspended
from weir.kubernetes.writes.operations import PatchStatus, UpsertWorkload, WriteRefused


def suspended(
    name: str = "held",
    *,
    pods: int = 2,
    gpus: str = "4",
    scheduler: str = "weir",
    namespace: str = "team",
    label: str = "app",
    preemptible: str = "true",
    **more: Any,
) -> dict[str, Any]:
    """Return a suspended Job as its watch delivers it."""
    body = job(name, f"uid-{name}", pods, namespace=namespace, preemptible=preemptible)
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    body["metadata"].setdefault("labels", {}).update(more.pop("labels", {}))
    body["spec"] |= more.pop("of_job", {})
    metadata = Metadata(name, uid=f"uid-{name}", namespace=namespace)
    spec = {"schedulerName": scheduler, "containers": [container], **more}
    found = {"suspend": True, "template": {"metadata": {"labels": {label: "x"}}, "spec": spec}}
    body["spec"]["suspend"] = True
    return {**body, TEMPLATE: pod_of_suspended(metadata, found, {})}


def begun(*owners: dict[str, Any], teams: int = 1) -> Scene:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", *[project("team")][:teams])
    here.hear("owners", *owners)
    return here


def told(here: Scene) -> dict[str, dict[str, Any]]:
    """Return the specs and statuses that are written, by name of the workload."""
    here.step()
    here.step(SETTLED_S)
    here.now_s += 60.0
    found: dict[str, dict[str, Any]] = {}
    for each in here.reported():
        if isinstance(each, UpsertWorkload):
            found.setdefault(each.name, {}).update(each.body["spec"])
        elif isinstance(each, PatchStatus) and "/workloads/" in each.path:
            found.setdefault(each.path.rpartition("/")[2], {}).update(each.patch["status"])  # type: ignore[call-overload]
    return found


def test_a_job_that_is_created_suspended_has_a_workload_with_its_project_and_size() -> None:
    (row,) = told(begun(suspended())).values()
    assert (row["project"], row["phase"], row["suspended"]) == ("team", "Pending", True)
    assert (row["gpus"], row["pods"], row["running"]) == ("8", 2, "0/2")
    assert row["reason"]["why"] == "suspended"
    assert row["reason"]["sentence"] == (
        "It is suspended: spec.suspend of Job held is true, so it has no pods. "
        "Once it is resumed, it enters the queue of team."
    )
    assert row["owner"]["name"] == "held"


def test_a_batch_that_is_released_at_once_is_never_shown_as_suspended() -> None:
    here = begun(suspended())
    here.step()
    assert here.backend.cluster_state.due_s is not None, "control looks at it by itself"
    assert here.backend.cluster_state.due_s <= here.now_s + SETTLED_S
    here.hear("owners", job("held", "uid-held", 2))
    assert told(here) == {}


def test_the_pods_of_a_resumed_job_are_those_of_its_workload() -> None:
    here = begun(suspended(pods=1, gpus="1"))
    told(here)
    here.hear("owners", job("held", "uid-held", 1))
    here.hear("pods", pod("held-0", owner=("held", "uid-held")))
    (bind,) = here.step()
    assert (bind.name, len(here.backend.cluster_state.registry.gangs)) == ("held-0", 1)


def test_a_job_without_a_project_is_listed_once_it_has_one() -> None:
    here = begun(suspended(), teams=0)
    assert told(here) == {}
    here.hear("projects", project("team"))
    assert [row["phase"] for row in told(here).values()] == ["Pending"]


def test_a_deleted_or_resumed_job_without_a_project_is_forgotten() -> None:
    here = begun(suspended(), suspended("other"), teams=0)
    here.backend.deliver_owners()([ObjectRemoved("team/held", "uid-held")])
    here.hear("owners", job("other", "uid-other", 1))
    here.hear("projects", project("team"))
    assert told(here) == {}


def test_a_workload_goes_with_its_suspended_job() -> None:
    here = begun(suspended())
    told(here)
    here.backend.deliver_owners()([ObjectRemoved("team/held", "uid-held")])
    told(here)
    assert not here.backend.cluster_state.registry.gangs


@pytest.mark.parametrize(
    ("more", "is_ours"),
    [
        ({"scheduler": "volcano"}, False),
        ({"scheduler": "default-scheduler"}, True),
        ({"scheduler": "default-scheduler", "gpus": "0"}, False),
        ({"scheduler": "default-scheduler", "gpus": "0", "label": "weir.dev/user"}, True),
        ({"gpus": "0"}, True),
        ({"pods": 0}, False),
        ({"gpus": "lots"}, True),  # its Workload says so, as that of its pods
    ],
)
def test_a_suspended_job_is_ours_if_its_pods_would_be(more: dict[str, Any], *, is_ours: bool) -> None:
    assert bool(told(begun(suspended(**more)))) is is_ours


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"suspend": False, "template": {"spec": {}}}, {}),
        ({"suspend": True, "template": {"spec": {}}}, {"active": 1}),
        ({"suspend": True, "template": {"spec": {"containers": "none"}}}, {}),
        ({"suspend": True, "template": {"spec": {}, "metadata": {"labels": [1]}}}, {}),
        ({"suspend": True}, {}),
    ],
)
def test_other_jobs_and_unreadable_templates_have_no_pod(
    spec: dict[str, Any], status: dict[str, Any]
) -> None:
    assert pod_of_suspended(Metadata("held", uid="u", namespace="team"), spec, status) is None


def test_control_knows_a_suspended_job_as_pending_and_starts_no_pod_of_it() -> None:
    here = begun(suspended())
    told(here)
    (known,) = here.control.cluster.jobs.values()
    assert (known.name, known.spec.min_pods, known.spec.groups[0].count) == ("team/job-held", 2, 2)
    assert here.step() == []
    here.hear("owners", job("held", "uid-held", 2))
    assert here.step() == [], "its pods aren't there yet"
    here.backend.deliver_owners()([ObjectRemoved("team/held", "uid-held")])
    here.step()
    assert not here.control.cluster.jobs


def test_a_change_of_a_suspended_job_reaches_its_workload() -> None:
    here = begun(suspended(pods=2, gpus="4"))
    assert [row["preemptible"] for row in told(here).values()] == [True]
    here.hear("owners", suspended(pods=3, gpus="1", preemptible="false"))
    (row,) = told(here).values()
    assert (row["gpus"], row["pods"], row["minPods"]) == ("3", 3, 3)
    assert [(group["count"], group["gpus"]) for group in row["groups"]] == [(3, "1")]
    assert row["preemptible"] is False
    (known,) = here.control.cluster.jobs.values()
    assert (known.spec.min_pods, known.spec.groups[0].request.devices) == (3, 1)


def test_a_workload_that_could_not_be_written_is_written_later() -> None:
    here = begun(suspended())
    here.step()
    here.step(SETTLED_S)
    (made,) = [each for each in here.reported() if isinstance(each, UpsertWorkload)]
    here.backend.take_outcome(made, WriteRefused(403, "exceeded quota"))
    assert "job-held" in told(here)


def test_the_reason_says_that_another_scheduler_has_the_pods() -> None:
    here = begun(suspended(scheduler="default-scheduler", pods=1, gpus="1"))
    told(here)
    here.hear("owners", job("held", "uid-held", 1))
    here.hear("pods", pod("held-0", owner=("held", "uid-held"), scheduler="default-scheduler", on="n1"))
    (row,) = told(here).values()
    assert row["reason"]["sentence"] == "Another scheduler has placed its pods."


def test_the_next_leader_writes_the_same() -> None:
    here = begun(suspended())
    here.step()
    here.step(SETTLED_S)
    (made,) = [each for each in here.reported() if isinstance(each, UpsertWorkload)]
    status = {**made.body.get("status", {}), "phase": "Pending", "gpus": "8", "pods": 2}
    following = begun()
    following.hear("workloads", stored(made, status))
    following.hear("owners", suspended())
    (row,) = told(following).values()
    assert (row["phase"], row["gpus"], row["pods"], row["reason"]["why"]) == ("Pending", "8", 2, "suspended")


def test_a_job_that_ran_and_is_suspended_again_names_the_field() -> None:
    here = begun(job("held", "uid-held", 1))
    here.hear("pods", pod("held-0", owner=("held", "uid-held")))
    here.step()
    told(here)
    here.gone("held-0")
    here.hear("owners", suspended(pods=1))
    (row,) = told(here).values()
    assert row["reason"]["sentence"] == (
        "It is suspended: spec.suspend of Job held is true, so it has no pods. "
        "Once it is resumed, it enters the queue of team."
    )


@pytest.mark.parametrize(
    ("fields", "resumer"),
    [
        ({"labels": {"kueue.x-k8s.io/queue-name": "gpus"}}, "Kueue resumes it, from its queue gpus. Then it"),
        (
            {"of_job": {"managedBy": "example.com/many-clusters"}},
            "The controller example.com/many-clusters, which spec.managedBy names, resumes it. Then it",
        ),
        ({"of_job": {"managedBy": "kubernetes.io/job-controller"}}, "Once it is resumed, it"),
    ],
)
def test_the_reason_names_the_program_that_resumes_a_job(fields: dict[str, Any], resumer: str) -> None:
    (row,) = told(begun(suspended(**fields))).values()
    assert row["reason"]["sentence"] == (
        f"It is suspended: spec.suspend of Job held is true, so it has no pods. {resumer} enters the queue of team."
    )


@pytest.mark.parametrize("node_name", ["n1", ""])
@pytest.mark.parametrize("goes_late", [False, True])
def test_a_job_gets_a_workload_if_its_pods_were_gone_before_it_was_written(
    node_name: str, *, goes_late: bool
) -> None:
    here = begun(job("held", "uid-held", 1))
    here.hear("pods", pod("held-0", owner=("held", "uid-held"), on=node_name))
    here.step()
    here.hear("owners", suspended(pods=1))
    here.hear("pods", pod("held-0", owner=("held", "uid-held"), on=node_name, deleting=True))
    here.step(SETTLED_S if goes_late else 0.1)
    here.gone("held-0")
    assert [row["suspended"] for row in told(here).values()] == [True]


def test_a_job_gets_a_workload_if_its_pods_were_gone_before_it_had_a_project() -> None:
    here = begun(suspended(pods=1), teams=0)
    here.hear("pods", pod("held-0", owner=("held", "uid-held"), deleting=True))
    here.step(SETTLED_S)
    here.gone("held-0")
    here.step()
    here.hear("projects", project("team"))
    assert [row["phase"] for row in told(here).values()] == ["Pending"]
    assert "team/job-held" in here.control.cluster.jobs


def test_a_suspended_job_gets_a_workload_beside_an_ended_pod() -> None:
    here = begun(suspended(pods=1))
    here.hear("pods", pod("held-0", owner=("held", "uid-held"), on="n1", phase="Failed"))
    told(here)
    here.step(EMPTY_S)
    assert [row["phase"] for row in told(here).values()] == ["Pending"]
    assert "team/job-held" in here.control.cluster.jobs

"""Facts about a cluster for control, independent of the order of the objects."""

import pytest
from tests.unit.kubernetes.small_world import BEGAN, KINDS, WatchProgress, job, node, pod, project

from weir.control.port import GateChanged, PodExit, PodExited, PodRunning, WorkloadFinished
from weir.engine.plan import Plan
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.crd.objects import OwnerFields, WorkloadObject, WorkloadSpec
from weir.state.events import NodeSet, Placement, PodKey, WorkloadChanged, WorkloadOutcome, WorkloadSubmitted


def node_states() -> WatchProgress:
    reported = WatchProgress()
    reported.see("nodes", node("n1"), node("n2"))
    reported.see("projects", project("team"))
    return reported


def test_a_job_is_a_workload_once_its_pods_are_there() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1", 2))
    reported.step()
    assert not reported.control.cluster.jobs
    reported.see("pods", pod("train-0", owner=("train", "j1")))
    facts = reported.step()
    (submitted,) = [fact for fact in facts if isinstance(fact, WorkloadSubmitted)]
    assert submitted.workload.name == "team/job-train"
    assert submitted.workload.project == "team"
    (gated,) = [fact for fact in facts if isinstance(fact, GateChanged)]
    assert gated.reason == "1 of 2 pods exists."
    reported.see("pods", pod("train-1", owner=("train", "j1")))
    facts = reported.step()
    assert [type(fact) for fact in facts] == [WorkloadChanged, GateChanged]
    assert reported.pods() == {"team/train-0": ("PENDING", None), "team/train-1": ("PENDING", None)}


def test_a_gang_that_comes_pod_by_pod_is_submitted_once() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1", 512))
    for index in range(512):
        reported.see("pods", pod(f"train-{index}", owner=("train", "j1")))
    facts = [fact for fact in reported.step() if not isinstance(fact, NodeSet)]
    assert len([fact for fact in facts if isinstance(fact, WorkloadSubmitted | WorkloadChanged)]) == 1
    assert len(reported.pods()) == 512


def test_the_order_of_pod_and_owner_does_not_matter() -> None:
    reported = node_states()
    reported.see("pods", pod("train-0", owner=("train", "j1")))
    reported.step()
    assert reported.control.cluster.jobs["team/job-train"].held
    reported.see("owners", job("train", "j1"))
    reported.step()
    assert not reported.control.cluster.jobs["team/job-train"].held


def test_what_is_bound_and_ends_gives_its_capacity_back() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1"))
    reported.see(
        "pods", pod("train-0", owner=("train", "j1"), on="n1", start=3, devices="2", phase="Running")
    )
    (runs,) = [fact for fact in reported.step() if isinstance(fact, PodRunning)]
    assert (runs.place, runs.start) == (Placement(PodKey("team/job-train", 0, 0), "n1", (2,)), 3)
    reported.see(
        "pods", pod("train-0", owner=("train", "j1"), on="n1", start=3, devices="2", phase="Succeeded")
    )
    reported.see("owners", job("train", "j1", over="Complete"))
    facts = reported.step()
    exited, finished = facts
    assert isinstance(exited, PodExited)
    assert exited.how is PodExit.LOST
    assert isinstance(finished, WorkloadFinished)
    assert finished.how is WorkloadOutcome.SUCCEEDED
    assert not reported.control.cluster.jobs


def test_a_refused_binding_is_tried_again_later() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1"))
    reported.see("pods", pod("train-0", owner=("train", "j1")))
    reported.step()
    place = Placement(PodKey("team/job-train", 0, 0), "n1", (0,))
    reported.step(plan=Plan(binds=[place]))
    tracked = reported.cluster_state.registry.named[place.pod.workload].pod_at(place.pod)
    assert tracked is not None
    reported.cluster_state.orders.start_assumed(tracked, place, 1, reported.now_s)
    assert reported.pods() == {"team/train-0": ("RUNNING", "n1")}
    reported.cluster_state.orders.start_refused(tracked, 1, "The node said no.", reported.now_s)
    reported.step()
    assert reported.pods() == {"team/train-0": ("ABSENT", None)}
    assert reported.cluster_state.due_s is not None
    reported.step(after_s=1.0)
    assert reported.pods() == {"team/train-0": ("PENDING", None)}


def test_pods_of_others_are_counted_at_once() -> None:
    reported = node_states()
    reported.see("pods", pod("other", on="n1", scheduler="default-scheduler", gpus=3))
    reported.step()
    state = reported.state()["nodes"]["n1"]
    assert state[3] == 3
    assert state[1]["cpu"] == 63_000
    reported.gone("pods", "team/other", "u-other")
    reported.step()
    assert reported.state()["nodes"]["n1"][3] == 0


def test_a_namespace_without_a_project_is_refused_with_advice() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1", namespace="elsewhere"))
    reported.see("pods", pod("train-0", owner=("train", "j1"), namespace="elsewhere"))
    reported.step()
    assert not reported.control.cluster.jobs
    (gang,) = reported.cluster_state.registry.gangs.values()
    assert "spec.namespaces" in gang.refusal
    reported.see("projects", project("team", "team", "elsewhere"))
    reported.step()
    assert set(reported.control.cluster.jobs) == {"elsewhere/job-train"}


def test_a_project_that_is_deleted_goes_with_the_last_of_its_workloads() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1"))
    reported.see(
        "pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running")
    )
    reported.step()
    reported.gone("projects", "team")
    reported.step()
    assert set(reported.state()["queues"]) == {"team"}
    assert reported.pods() == {"team/train-0": ("RUNNING", "n1")}
    reported.gone("pods", "team/train-0")
    reported.step()
    reported.step()
    assert not reported.control.cluster.jobs
    assert not reported.state()["queues"]


@pytest.mark.parametrize("object_first", [True, False])
def test_who_begins_after_a_project_was_deleted_counts_what_runs_for_it(object_first: bool) -> None:
    reported = WatchProgress()
    thing = WorkloadObject(
        Metadata("job-train", namespace="team"), WorkloadSpec(owner=OwnerFields("j1"), project="gone")
    )
    reported.see("nodes", node("n1"))
    reported.see("projects", project("other"))
    if object_first:
        reported.see("workloads", thing)
    reported.see("owners", job("train", "j1"))
    reported.see(
        "pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running")
    )
    reported.see("pods", pod("train-1", owner=("train", "j1")))
    reported.step()
    if not object_first:
        assert reported.state()["nodes"]["n1"][3] == 1  # its workload is unknown
        reported.see("workloads", thing)
        reported.step()
    assert reported.state()["queues"]["gone"] == (None, {"gpu": 0})
    assert reported.pods()["team/train-0"] == ("RUNNING", "n1")
    assert reported.state()["nodes"]["n1"][3] == 0
    reported.gone("pods", "team/train-0")
    reported.step()
    reported.step()
    assert not reported.control.cluster.jobs  # what waits gets no place there
    assert "gone" not in reported.state()["queues"]


def test_another_owner_of_the_same_name_is_another_workload() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1"))
    reported.see(
        "pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running")
    )
    reported.step()
    reported.gone("owners", "team/train", "j1")
    reported.see("owners", job("train", "j2"))
    reported.see("pods", pod("train-a", owner=("train", "j2")))
    facts = reported.step()
    assert any(isinstance(fact, WorkloadFinished) for fact in facts)
    reported.step()
    assert reported.pods() == {"team/train-a": ("PENDING", None)}
    assert reported.state()["nodes"]["n1"][3] == 1  # the one before it holds its device until it is gone


def test_a_new_control_hears_of_everything() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1", 2))
    reported.see(
        "pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running")
    )
    reported.see("pods", pod("train-1", owner=("train", "j1")))
    reported.step()
    before = reported.state()
    reported.restart()
    assert reported.state() == before


def gone_again(reported: WatchProgress, uid: str = "j1") -> None:
    """Add a pod of a workload and remove it."""
    reported.see("pods", pod("train-0", owner=("train", uid)))
    reported.step()
    reported.gone("pods", "team/train-0", "u-train-0")
    reported.step()


def test_a_workload_without_pods_waits_for_those_of_its_owner() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1"))
    gone_again(reported)
    reported.step(after_s=3600.0)
    assert reported.control.cluster.jobs["team/job-train"].held
    assert reported.cluster_state.registry.named["team/job-train"].is_over() is None
    reported.see("pods", pod("train-b", owner=("train", "j1")))
    reported.step()
    assert reported.pods() == {"team/train-b": ("PENDING", None)}


def test_a_workload_without_pods_is_over_when_its_owner_says_so_or_is_gone() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1"))
    gone_again(reported)
    reported.see("owners", job("train", "j1", over="Failed"))
    (finished,) = reported.step()
    assert isinstance(finished, WorkloadFinished)
    assert finished.how is WorkloadOutcome.FAILED
    assert not reported.cluster_state.registry.gangs
    reported.see("owners", job("train", "j2"))
    gone_again(reported, "j2")
    reported.gone("owners", "team/train", "j2")
    (finished,) = reported.step()
    assert isinstance(finished, WorkloadFinished)
    assert finished.how is WorkloadOutcome.STOPPED
    assert not reported.cluster_state.registry.gangs


def test_a_workload_whose_owner_wants_no_pods_is_over_after_a_while() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1"))
    gone_again(reported)
    reported.see("owners", job("train", "j1", 0))
    reported.step()
    assert set(reported.control.cluster.jobs) == {"team/job-train"}
    reported.step(after_s=61.0)
    assert not reported.control.cluster.jobs


def test_a_gang_by_label_waits_for_pods_of_the_object_that_makes_them() -> None:
    reported = node_states()
    label = {"jobset.sigs.k8s.io/replicatedjob-name": "workers"}
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": "s1"}
    jobset = KINDS.narrow(
        {
            "apiVersion": owner["apiVersion"],
            "kind": "JobSet",
            "metadata": {"name": "js", "namespace": "team", "uid": "s1", "creationTimestamp": BEGAN},
            "spec": {
                "startupPolicy": {"startupPolicyOrder": "InOrder"},
                "replicatedJobs": [{"name": "workers", "replicas": 1}],
            },
        }
    )
    child = job("js-workers-0", "j1")
    child["metadata"] |= {"labels": label, "ownerReferences": [{**owner, "controller": True}]}
    reported.see("owners", jobset, child)
    reported.see("pods", pod("w-0", owner=("js-workers-0", "j1"), labels=label))
    reported.step()
    (name,) = reported.control.cluster.jobs
    reported.gone("pods", "team/w-0", "u-w-0")
    reported.step()
    reported.step(after_s=300.0)
    assert set(reported.control.cluster.jobs) == {name}
    reported.gone("owners", "js-workers-0", "j1")
    reported.step(after_s=1.0)
    assert not reported.control.cluster.jobs


def test_the_pause_of_the_job_controller_is_reported() -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1", 2))
    for index in range(2):
        reported.see("pods", pod(f"t-{index}", owner=("train", "j1"), on="n1", phase="Running"))
    reported.step()
    for index in range(2):
        made = pod(f"t-{index}", owner=("train", "j1"), on="n1", phase="Failed", deleting=True)
        reported.see("pods", made)
        reported.gone("pods", f"team/t-{index}", f"u-t-{index}")
    reported.now_s = 1000.0
    reported.step(after_s=0.0)
    job_ = reported.control.cluster.jobs["team/job-train"]
    pause = "The Job controller pauses after an eviction, until about 00:00:20 UTC."
    assert job_.held_why == f"0 of 2 pods exist. {pause}"
    assert reported.cluster_state.registry.named["team/job-train"].is_over() is None
    each = job("train", "j1", 2)
    each["spec"]["backoffLimitPerIndex"] = 6
    reported.see("owners", each)
    reported.step()
    assert "until about 00:00:10 UTC" in job_.held_why
    for index in range(2):
        elsewhere = pod(f"s-{index}", owner=("train", "j1"), scheduler="other", on="n1", phase="Running")
        reported.see("pods", elsewhere)
    reported.step()
    assert job_.held_why == "Another scheduler has placed its pods.", "the pause is over"


@pytest.mark.parametrize("last", ["train-0", "train-1"])
def test_the_youngest_pod_says_what_a_workload_is_whichever_was_heard_of_last(last: str) -> None:
    reported = node_states()
    reported.see("owners", job("train", "j1", 2))
    pods = [
        pod("train-0", owner=("train", "j1"), labels={"weir.dev/type": "inference"}),
        pod("train-1", owner=("train", "j1"), labels={"weir.dev/type": "build"}),
    ]
    for made in sorted(pods, key=lambda each: each.metadata.name == last):
        reported.see("pods", made)
        reported.step()
    (found,) = reported.control.cluster.jobs.values()
    assert found.spec.type == "build"

"""What control is told of a cluster, and that nothing of it depends on when it was heard."""

import pytest

from weir.control.port import GateChanged, PodExit, PodExited, PodRunning, WorkloadFinished
from weir.engine.plan import Plan
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.crd.objects import OwnerFields, WorkloadObject, WorkloadSpec
from weir.state.events import NodeSet, Placement, PodKey, WorkloadChanged, WorkloadOutcome, WorkloadSubmitted

from .small_world import BEGAN, KINDS, Told, job, node, pod, project


def node_states() -> Told:
    told = Told()
    told.see("nodes", node("n1"), node("n2"))
    told.see("projects", project("team"))
    return told


def test_a_job_is_a_workload_once_its_pods_are_there() -> None:
    told = node_states()
    told.see("owners", job("train", "j1", 2))
    told.step()
    assert not told.control.cluster.jobs
    told.see("pods", pod("train-0", owner=("train", "j1")))
    facts = told.step()
    (submitted,) = [fact for fact in facts if isinstance(fact, WorkloadSubmitted)]
    assert submitted.workload.name == "team/job-train"
    assert submitted.workload.project == "team"
    (gated,) = [fact for fact in facts if isinstance(fact, GateChanged)]
    assert gated.reason == "1 of 2 pods exists."
    told.see("pods", pod("train-1", owner=("train", "j1")))
    facts = told.step()
    assert [type(fact) for fact in facts] == [WorkloadChanged, GateChanged]
    assert told.pods() == {"team/train-0": ("PENDING", None), "team/train-1": ("PENDING", None)}


def test_a_gang_that_comes_pod_by_pod_is_told_of_once() -> None:
    told = node_states()
    told.see("owners", job("train", "j1", 512))
    for index in range(512):
        told.see("pods", pod(f"train-{index}", owner=("train", "j1")))
    facts = [fact for fact in told.step() if not isinstance(fact, NodeSet)]
    assert len([fact for fact in facts if isinstance(fact, WorkloadSubmitted | WorkloadChanged)]) == 1
    assert len(told.pods()) == 512


def test_the_order_of_pod_and_owner_does_not_matter() -> None:
    told = node_states()
    told.see("pods", pod("train-0", owner=("train", "j1")))
    told.step()
    assert told.control.cluster.jobs["team/job-train"].held
    told.see("owners", job("train", "j1"))
    told.step()
    assert not told.control.cluster.jobs["team/job-train"].held


def test_what_is_bound_and_ends_gives_its_capacity_back() -> None:
    told = node_states()
    told.see("owners", job("train", "j1"))
    told.see("pods", pod("train-0", owner=("train", "j1"), on="n1", start=3, devices="2", phase="Running"))
    (runs,) = [fact for fact in told.step() if isinstance(fact, PodRunning)]
    assert (runs.place, runs.start) == (Placement(PodKey("team/job-train", 0, 0), "n1", (2,)), 3)
    told.see("pods", pod("train-0", owner=("train", "j1"), on="n1", start=3, devices="2", phase="Succeeded"))
    told.see("owners", job("train", "j1", over="Complete"))
    facts = told.step()
    exited, finished = facts
    assert isinstance(exited, PodExited)
    assert exited.how is PodExit.LOST
    assert isinstance(finished, WorkloadFinished)
    assert finished.how is WorkloadOutcome.SUCCEEDED
    assert not told.control.cluster.jobs


def test_a_refused_binding_is_tried_again_later() -> None:
    told = node_states()
    told.see("owners", job("train", "j1"))
    told.see("pods", pod("train-0", owner=("train", "j1")))
    told.step()
    place = Placement(PodKey("team/job-train", 0, 0), "n1", (0,))
    told.step(plan=Plan(binds=[place]))
    tracked = told.cluster_state.registry.named[place.pod.workload].at(place.pod)
    assert tracked is not None
    told.cluster_state.orders.start_assumed(tracked, place, 1, told.now_s)
    assert told.pods() == {"team/train-0": ("RUNNING", "n1")}
    told.cluster_state.orders.start_refused(tracked, 1, "The node said no.", told.now_s)
    told.step()
    assert told.pods() == {"team/train-0": ("ABSENT", None)}
    assert told.cluster_state.due_s is not None
    told.step(after_s=1.0)
    assert told.pods() == {"team/train-0": ("PENDING", None)}


def test_pods_of_others_are_counted_at_once() -> None:
    told = node_states()
    told.see("pods", pod("other", on="n1", scheduler="default-scheduler", gpus=3))
    told.step()
    state = told.state()["nodes"]["n1"]
    assert state[3] == 3
    assert state[1]["cpu"] == 63_000
    told.gone("pods", "team/other", "u-other")
    told.step()
    assert told.state()["nodes"]["n1"][3] == 0


def test_a_namespace_without_a_project_is_told_what_to_do() -> None:
    told = node_states()
    told.see("owners", job("train", "j1", namespace="elsewhere"))
    told.see("pods", pod("train-0", owner=("train", "j1"), namespace="elsewhere"))
    told.step()
    assert not told.control.cluster.jobs
    (gang,) = told.cluster_state.registry.gangs.values()
    assert "spec.namespaces" in gang.refusal
    told.see("projects", project("team", "team", "elsewhere"))
    told.step()
    assert set(told.control.cluster.jobs) == {"elsewhere/job-train"}


def test_a_project_that_is_deleted_goes_with_the_last_of_its_workloads() -> None:
    told = node_states()
    told.see("owners", job("train", "j1"))
    told.see("pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running"))
    told.step()
    told.gone("projects", "team")
    told.step()
    assert set(told.state()["queues"]) == {"team"}
    assert told.pods() == {"team/train-0": ("RUNNING", "n1")}
    told.gone("pods", "team/train-0")
    told.step()
    told.step()
    assert not told.control.cluster.jobs
    assert not told.state()["queues"]


@pytest.mark.parametrize("object_first", [True, False])
def test_who_begins_after_a_project_was_deleted_counts_what_runs_for_it(object_first: bool) -> None:
    told = Told()
    thing = WorkloadObject(
        Metadata("job-train", namespace="team"), WorkloadSpec(owner=OwnerFields("j1"), project="gone")
    )
    told.see("nodes", node("n1"))
    told.see("projects", project("other"))
    if object_first:
        told.see("workloads", thing)
    told.see("owners", job("train", "j1"))
    told.see("pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running"))
    told.see("pods", pod("train-1", owner=("train", "j1")))
    told.step()
    if not object_first:
        assert told.state()["nodes"]["n1"][3] == 1  # nobody knows yet whose it is
        told.see("workloads", thing)
        told.step()
    assert told.state()["queues"]["gone"] == (None, {"gpu": 0})
    assert told.pods()["team/train-0"] == ("RUNNING", "n1")
    assert told.state()["nodes"]["n1"][3] == 0
    told.gone("pods", "team/train-0")
    told.step()
    told.step()
    assert not told.control.cluster.jobs  # what waits gets no place there
    assert "gone" not in told.state()["queues"]


def test_another_owner_of_the_same_name_is_another_workload() -> None:
    told = node_states()
    told.see("owners", job("train", "j1"))
    told.see("pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running"))
    told.step()
    told.gone("owners", "team/train", "j1")
    told.see("owners", job("train", "j2"))
    told.see("pods", pod("train-a", owner=("train", "j2")))
    facts = told.step()
    assert any(isinstance(fact, WorkloadFinished) for fact in facts)
    assert told.pods() == {"team/train-a": ("PENDING", None)}
    assert told.state()["nodes"]["n1"][3] == 1  # the one before it holds its device until it is gone


def test_a_new_control_is_told_everything() -> None:
    told = node_states()
    told.see("owners", job("train", "j1", 2))
    told.see("pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running"))
    told.see("pods", pod("train-1", owner=("train", "j1")))
    told.step()
    before = told.state()
    told.begin_anew()
    assert told.state() == before


def gone_again(told: Told, uid: str = "j1") -> None:
    """One pod of a workload was there, and is gone."""
    told.see("pods", pod("train-0", owner=("train", uid)))
    told.step()
    told.gone("pods", "team/train-0", "u-train-0")
    told.step()


def test_a_workload_without_pods_waits_for_those_of_its_owner() -> None:
    told = node_states()
    told.see("owners", job("train", "j1"))
    gone_again(told)
    told.step(after_s=3600.0)
    assert told.control.cluster.jobs["team/job-train"].held
    assert told.cluster_state.registry.named["team/job-train"].is_over() is None
    told.see("pods", pod("train-b", owner=("train", "j1")))
    told.step()
    assert told.pods() == {"team/train-b": ("PENDING", None)}


def test_a_workload_without_pods_is_over_when_its_owner_says_so_or_is_gone() -> None:
    told = node_states()
    told.see("owners", job("train", "j1"))
    gone_again(told)
    told.see("owners", job("train", "j1", over="Failed"))
    (finished,) = told.step()
    assert isinstance(finished, WorkloadFinished)
    assert finished.how is WorkloadOutcome.FAILED
    assert not told.cluster_state.registry.gangs
    told.see("owners", job("train", "j2"))
    gone_again(told, "j2")
    told.gone("owners", "team/train", "j2")
    (finished,) = told.step()
    assert isinstance(finished, WorkloadFinished)
    assert finished.how is WorkloadOutcome.STOPPED
    assert not told.cluster_state.registry.gangs


def test_a_workload_whose_owner_wants_no_pods_is_over_after_a_while() -> None:
    told = node_states()
    told.see("owners", job("train", "j1"))
    gone_again(told)
    told.see("owners", job("train", "j1", 0))
    told.step()
    assert set(told.control.cluster.jobs) == {"team/job-train"}
    told.step(after_s=61.0)
    assert not told.control.cluster.jobs


def test_a_gang_by_label_waits_for_pods_of_the_object_that_makes_them() -> None:
    told = node_states()
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
    told.see("owners", jobset, child)
    told.see("pods", pod("w-0", owner=("js-workers-0", "j1"), labels=label))
    told.step()
    (name,) = told.control.cluster.jobs
    told.gone("pods", "team/w-0", "u-w-0")
    told.step()
    told.step(after_s=300.0)
    assert set(told.control.cluster.jobs) == {name}
    told.gone("owners", "js-workers-0", "j1")
    told.step(after_s=1.0)
    assert not told.control.cluster.jobs


def test_the_pause_of_the_job_controller_is_told() -> None:
    told = node_states()
    told.see("owners", job("train", "j1", 2))
    for index in range(2):
        told.see("pods", pod(f"t-{index}", owner=("train", "j1"), on="n1", phase="Running"))
    told.step()
    for index in range(2):
        made = pod(f"t-{index}", owner=("train", "j1"), on="n1", phase="Failed", deleting=True)
        told.see("pods", made)
        told.gone("pods", f"team/t-{index}", f"u-t-{index}")
    told.now_s = 1000.0
    told.step(after_s=0.0)
    job_ = told.control.cluster.jobs["team/job-train"]
    pause = "The Job controller pauses after an eviction, until about 00:00:20 UTC."
    assert job_.held_why == f"0 of 2 pods exist. {pause}"
    assert told.cluster_state.registry.named["team/job-train"].is_over() is None
    each = job("train", "j1", 2)
    each["spec"]["backoffLimitPerIndex"] = 6
    told.see("owners", each)
    told.step()
    assert "until about 00:00:10 UTC" in job_.held_why

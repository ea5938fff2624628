"""What control is told of a cluster, and that nothing of it depends on when it was heard."""

import pytest

from weir.backends.kubernetes.api.objects import Metadata
from weir.backends.kubernetes.own.own_objects import OwnerUid, WorkloadThing, WorkloadThingSpec
from weir.cluster.events import End, NodeSet, Place, PodKey, WorkloadChanged, WorkloadSubmitted
from weir.control.port import Exit, Finished, Gated, PodExited, PodRuns
from weir.decide.plan import Plan

from .small_world import Told, job, node, pod, project


def ground() -> Told:
    told = Told()
    told.see("nodes", node("n1"), node("n2"))
    told.see("projects", project("team"))
    return told


def test_a_job_is_a_workload_once_its_pods_are_there() -> None:
    told = ground()
    told.see("owners", job("train", "j1", 2))
    told.step()
    assert not told.control.cluster.jobs
    told.see("pods", pod("train-0", owner=("train", "j1")))
    facts = told.step()
    (submitted,) = [fact for fact in facts if isinstance(fact, WorkloadSubmitted)]
    assert submitted.workload.name == "team/job-train"
    assert submitted.workload.project == "team"
    (gated,) = [fact for fact in facts if isinstance(fact, Gated)]
    assert gated.reason == "1 of 2 pods exists."
    told.see("pods", pod("train-1", owner=("train", "j1")))
    facts = told.step()
    assert [type(fact) for fact in facts] == [WorkloadChanged, Gated]
    assert told.pods() == {"team/train-0": ("PENDING", None), "team/train-1": ("PENDING", None)}


def test_a_gang_that_comes_pod_by_pod_is_told_of_once() -> None:
    told = ground()
    told.see("owners", job("train", "j1", 512))
    for index in range(512):
        told.see("pods", pod(f"train-{index}", owner=("train", "j1")))
    facts = [fact for fact in told.step() if not isinstance(fact, NodeSet)]
    assert len([fact for fact in facts if isinstance(fact, WorkloadSubmitted | WorkloadChanged)]) == 1
    assert len(told.pods()) == 512


def test_the_order_of_pod_and_owner_does_not_matter() -> None:
    told = ground()
    told.see("pods", pod("train-0", owner=("train", "j1")))
    told.step()
    assert told.control.cluster.jobs["team/job-train"].held
    told.see("owners", job("train", "j1"))
    told.step()
    assert not told.control.cluster.jobs["team/job-train"].held


def test_what_is_bound_and_ends_gives_its_room_back() -> None:
    told = ground()
    told.see("owners", job("train", "j1"))
    told.see("pods", pod("train-0", owner=("train", "j1"), on="n1", start=3, devices="2", phase="Running"))
    (runs,) = [fact for fact in told.step() if isinstance(fact, PodRuns)]
    assert (runs.place, runs.start) == (Place(PodKey("team/job-train", 0, 0), "n1", (2,)), 3)
    told.see("pods", pod("train-0", owner=("train", "j1"), on="n1", start=3, devices="2", phase="Succeeded"))
    told.see("owners", job("train", "j1", over="Complete"))
    facts = told.step()
    exited, finished = facts
    assert isinstance(exited, PodExited)
    assert exited.how is Exit.LOST
    assert isinstance(finished, Finished)
    assert finished.how is End.SUCCEEDED
    assert not told.control.cluster.jobs


def test_a_refused_binding_is_tried_again_later() -> None:
    told = ground()
    told.see("owners", job("train", "j1"))
    told.see("pods", pod("train-0", owner=("train", "j1")))
    told.step()
    place = Place(PodKey("team/job-train", 0, 0), "n1", (0,))
    told.step(plan=Plan(binds=[place]))
    seen = told.picture.roll.named[place.pod.workload].at(place.pod)
    assert seen is not None
    told.picture.assume(seen, place, 1, told.now_s)
    assert told.pods() == {"team/train-0": ("RUNNING", "n1")}
    told.picture.refused(seen, 1, "The node said no.", told.now_s)
    told.step()
    assert told.pods() == {"team/train-0": ("ABSENT", None)}
    assert told.picture.due_s is not None
    told.step(after_s=1.0)
    assert told.pods() == {"team/train-0": ("PENDING", None)}


def test_pods_of_others_are_counted_at_once() -> None:
    told = ground()
    told.see("pods", pod("other", on="n1", scheduler="default-scheduler", gpus=3))
    told.step()
    state = told.state()["nodes"]["n1"]
    assert state[3] == 3
    assert state[1]["cpu"] == 63_000
    told.gone("pods", "team/other", "u-other")
    told.step()
    assert told.state()["nodes"]["n1"][3] == 0


def test_a_namespace_without_a_project_is_told_what_to_do() -> None:
    told = ground()
    told.see("owners", job("train", "j1", namespace="elsewhere"))
    told.see("pods", pod("train-0", owner=("train", "j1"), namespace="elsewhere"))
    told.step()
    assert not told.control.cluster.jobs
    (gang,) = told.picture.roll.gangs.values()
    assert "spec.namespaces" in gang.refusal
    told.see("projects", project("team", "team", "elsewhere"))
    told.step()
    assert set(told.control.cluster.jobs) == {"elsewhere/job-train"}


def test_a_project_that_is_deleted_goes_with_the_last_of_its_workloads() -> None:
    told = ground()
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
    thing = WorkloadThing(
        Metadata("job-train", namespace="team"), WorkloadThingSpec(owner=OwnerUid("j1"), project="gone")
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
    told = ground()
    told.see("owners", job("train", "j1"))
    told.see("pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running"))
    told.step()
    told.gone("owners", "team/train", "j1")
    told.see("owners", job("train", "j2"))
    told.see("pods", pod("train-a", owner=("train", "j2")))
    facts = told.step()
    assert any(isinstance(fact, Finished) for fact in facts)
    assert told.pods() == {"team/train-a": ("PENDING", None)}
    assert told.state()["nodes"]["n1"][3] == 1  # the one before it holds its device until it is gone


def test_a_new_control_is_told_everything() -> None:
    told = ground()
    told.see("owners", job("train", "j1", 2))
    told.see("pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running"))
    told.see("pods", pod("train-1", owner=("train", "j1")))
    told.step()
    before = told.state()
    told.begin_anew()
    assert told.state() == before


def test_a_workload_whose_pods_stay_away_is_over() -> None:
    told = ground()
    told.see("owners", job("train", "j1"))
    told.see("pods", pod("train-0", owner=("train", "j1")))
    told.step()
    told.gone("pods", "team/train-0", "u-train-0")
    told.step()
    assert set(told.control.cluster.jobs) == {"team/job-train"}
    assert told.control.cluster.jobs["team/job-train"].held
    told.step(after_s=61.0)
    assert not told.control.cluster.jobs
    told.see("pods", pod("train-b", owner=("train", "j1")))
    told.step()
    assert told.pods() == {"team/train-b": ("PENDING", None)}

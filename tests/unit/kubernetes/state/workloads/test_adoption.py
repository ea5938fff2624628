"""Workloads without pods when Weir starts: their objects say what they are, as long as their owners live."""

from typing import Any

import msgspec
from tests.unit.kubernetes.small_world import WatchProgress, job, maker, node, pod, project, reference

from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.writes.operations import PatchStatus, UpsertWorkload, stated
from weir.kubernetes.writes.statuses.statuses import StatusWriter

NAME = "team/job-train"


def node_states() -> WatchProgress:
    reported = WatchProgress()
    reported.see("nodes", node("n1"))
    reported.see("projects", project("team", "team"))
    return reported


def paused() -> tuple[WatchProgress, dict[str, Any]]:
    """Return a picture after a Job's pods were evicted, and its `Workload` as Weir wrote it."""
    reported = node_states()
    reported.see("owners", job("train", "j1", 2))
    for index in range(2):
        reported.see("pods", pod(f"t-{index}", owner=("train", "j1"), on="n1", phase="Running"))
    reported.step()
    statuses = StatusWriter(reported.cluster_state, {})
    body: dict[str, Any] = {}
    _write(statuses, reported, body)
    for index in range(2):
        reported.see("pods", pod(f"t-{index}", owner=("train", "j1"), on="n1", phase="Failed", deleting=True))
        reported.gone("pods", f"team/t-{index}", f"u-t-{index}")
    reported.now_s = 1000.0
    reported.step(after_s=0.0)
    _write(statuses, reported, body)
    return reported, body


def _write(statuses: StatusWriter, reported: WatchProgress, body: dict[str, Any]) -> None:
    """Bring an object up to what is written now and a while later."""
    for write in [*statuses.take(reported.now_s), *statuses.take(reported.now_s + 20.0)]:
        if isinstance(write, UpsertWorkload):
            body.update(stated(write.body))
        elif isinstance(write, PatchStatus):
            status = write.patch["status"]
            assert isinstance(status, dict)
            body["status"] = {**body.get("status", {}), **status}


def read(body: dict[str, Any]) -> WorkloadObject:
    stated = {key: value for key, value in body["status"].items() if value is not None}
    return msgspec.convert({**body, "status": stated}, WorkloadObject)


def restarted(body: dict[str, Any]) -> WatchProgress:
    reported = node_states()
    reported.see("owners", job("train", "j1", 2))
    reported.see("workloads", read(body))
    reported.now_s = 1001.0
    reported.step(after_s=0.0)
    return reported


def status_of(reported: WatchProgress, body: dict[str, Any]) -> dict[str, Any]:
    copy = {**body}
    _write(StatusWriter(reported.cluster_state, {}), reported, copy)
    return dict(copy["status"])


def test_a_job_in_its_pause_is_known_after_a_restart_with_the_end_of_the_pause() -> None:
    before, body = paused()
    sentence = "0 of 2 pods exist. The Job controller pauses after an eviction, until about 00:00:20 UTC."
    assert before.cluster_state.registry.named[NAME].reported_gate == sentence
    reported = restarted(body)
    gang = reported.cluster_state.registry.named[NAME]
    assert gang.uses == "team", "its project stays while it may come back"
    assert not reported.control.cluster.jobs, "without pods there is nothing to place"
    status = status_of(reported, body)
    assert (status["phase"], status["running"], status["reason"]["sentence"]) == ("Pending", "0/2", sentence)
    assert status["gpus"] == body["status"]["gpus"]


def _running() -> tuple[WatchProgress, dict[str, Any]]:
    """Return a picture of a Job that runs, and its `Workload` as Weir wrote it."""
    reported = node_states()
    reported.see("owners", job("train", "j1", 1))
    reported.see("pods", pod("t-0", owner=("train", "j1"), on="n1", phase="Running"))
    reported.step()
    body: dict[str, Any] = {}
    _write(StatusWriter(reported.cluster_state, {}), reported, body)
    assert (body["status"]["phase"], body["status"]["podsRunning"]) == ("Running", 1)
    return reported, body


def test_the_end_of_a_workload_removes_the_recent_values_of_its_report() -> None:
    reported, body = _running()
    report = {"owner": "j1", "values": {"loss": 1.0}, "recent": [{"name": "loss", "points": [[1.0, 2.0]]}]}
    reported.see("workloads", read({**body, "status": {**body["status"], "report": report}}))
    statuses = StatusWriter(reported.cluster_state, {})
    running: dict[str, Any] = {}
    _write(statuses, reported, running)
    assert running == {}, "while it runs, its report has another writer"
    reported.see("owners", job("train", "j1", 1, over="Complete"))
    reported.see("pods", pod("t-0", owner=("train", "j1"), on="n1", phase="Succeeded"))
    reported.step()
    ended: dict[str, Any] = {}
    _write(statuses, reported, ended)
    assert ended["status"]["phase"] == "Succeeded"
    assert ended["status"]["report"] == {"recent": None}


def test_a_workload_whose_last_pod_ended_while_none_led_is_pending() -> None:
    """Its Job's controller keeps the failed pod during the pause, and makes the next one afterwards."""
    _, body = _running()
    reported = node_states()
    reported.see("owners", job("train", "j1", 1))
    reported.see("workloads", read(body))
    reported.see("pods", pod("t-0", owner=("train", "j1"), on="n1", phase="Failed"))
    reported.step()
    status = status_of(reported, body)
    assert (status["phase"], status["podsRunning"]) == ("Pending", 0)
    assert (status["nodes"], status["allocations"]) == ([], [])


def test_an_instance_that_leads_a_second_time_knows_what_ended_between() -> None:
    _, body = _running()
    reported = node_states()
    reported.step()
    reported.see("owners", job("train", "j1", 1))
    reported.see("workloads", read(body))
    reported.see("pods", pod("t-0", owner=("train", "j1"), on="n1", phase="Failed"))
    reported.restart()
    status = status_of(reported, body)
    assert (status["phase"], status["podsRunning"], status["allocations"]) == ("Pending", 0, [])


def test_pods_that_come_after_the_pause_are_of_the_same_workload() -> None:
    _, body = paused()
    reported = restarted(body)
    reported.see("pods", pod("t-9", owner=("train", "j1")))
    reported.step()
    assert set(reported.control.cluster.jobs) == {NAME}
    assert len(reported.cluster_state.registry.gangs) == 1
    assert not reported.cluster_state.registry.named[NAME].adopted


def test_a_workload_whose_owner_is_gone_or_over_is_not_kept() -> None:
    _, body = paused()
    reported = restarted(body)
    reported.gone("owners", "train", "j1")
    reported.step()
    assert not reported.cluster_state.registry.gangs
    reported = node_states()
    reported.see("workloads", read(body))
    reported.step()
    assert not reported.cluster_state.registry.gangs, "an owner that nobody knows"
    ended = {**body, "status": {**body["status"], "phase": "Succeeded"}}
    assert not restarted(ended).cluster_state.registry.gangs


def test_objects_of_another_account_make_no_workload() -> None:
    _, body = paused()
    for change in ({"owner": {}}, {"owner": {**body["spec"]["owner"], "name": "other"}}):
        forged = {**body, "spec": {**body["spec"], **change}}
        assert not restarted(forged).cluster_state.registry.gangs
    unsigned = {**body, "metadata": {**body["metadata"], "annotations": {}}}
    assert not restarted(unsigned).cluster_state.registry.gangs
    odd = {**body, "spec": {**body["spec"], "type": "?", "minPods": -5}}
    reported = restarted(odd)
    assert reported.cluster_state.registry.named[NAME].whole == 1


SET_ROLE = "jobset.sigs.k8s.io/replicatedjob-name"


def _job_set() -> list[dict[str, Any]]:
    """A JobSet of two gangs, which start one after another, and its Jobs."""
    spec = {
        "startupPolicy": {"startupPolicyOrder": "InOrder"},
        "replicatedJobs": [
            {"name": "driver", "template": {"spec": {"parallelism": 1}}},
            {"name": "Workers", "template": {"spec": {"parallelism": 2}}},
        ],
    }
    owner = maker("JobSet", "jobset.x-k8s.io/v1alpha2", "js", "s", spec)
    jobs = []
    for name, pods in (("driver", 1), ("Workers", 2)):
        made = maker(
            "Job", "batch/v1", f"js-{name}", f"j-{name}", {"parallelism": pods}, above=reference(owner)
        )
        made["metadata"]["labels"] = {SET_ROLE: name}
        jobs.append(made)
    return [owner, *jobs]


def test_each_gang_of_an_owner_with_several_is_known_after_a_restart() -> None:
    reported = node_states()
    owner, driver, workers = _job_set()
    reported.see("owners", owner, driver, workers)
    runs = pod("js-driver-0", owner=reference(driver), on="n1", phase="Running", labels={SET_ROLE: "driver"})
    reported.see("pods", runs)
    gone = [pod(f"w-{at}", owner=reference(workers), labels={SET_ROLE: "Workers"}) for at in range(2)]
    reported.see("pods", *gone)
    reported.step()
    bodies: dict[str, dict[str, Any]] = {}
    statuses = StatusWriter(reported.cluster_state, {})
    for write in [*statuses.take(reported.now_s), *statuses.take(reported.now_s + 20.0)]:
        if isinstance(write, UpsertWorkload):
            bodies[write.name] = {"status": {}, **stated(write.body)}
    assert set(bodies) == {"jobset-js-driver", "jobset-js-workers"}

    again = node_states()
    again.see("owners", owner, driver, workers)
    again.see("workloads", *map(read, bodies.values()))
    again.see("pods", runs)
    again.step(after_s=0.0)
    named = again.cluster_state.registry.named
    assert {name: gang.adopted for name, gang in named.items()} == {
        "team/jobset-js-driver": False,
        "team/jobset-js-workers": True,
    }
    assert named["team/jobset-js-workers"].whole == 2
    again.see("pods", *gone)
    again.step()
    assert set(again.control.cluster.jobs) == set(named)
    assert not named["team/jobset-js-workers"].adopted

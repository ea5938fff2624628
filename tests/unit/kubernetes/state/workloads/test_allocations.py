"""Sources of a bound pod's devices: the Workload's status, then a sound annotation, then inference."""

from typing import Any

import pytest
from tests.unit.kubernetes.small_world import job, node, pod, project
from tests.unit.kubernetes.test_backend import Scene, status_of

from weir.control.port import IdleExcused
from weir.kubernetes.api.object_numbers import moment
from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.crd.objects import (
    AllocationStatus,
    JobReport,
    LifecycleStatus,
    OwnerFields,
    WorkloadObject,
    WorkloadSpec,
    WorkloadStatus,
)
from weir.kubernetes.state.workloads.allocations import annotated, life_of
from weir.kubernetes.writes.operations import Bind, WriteDone
from weir.state.events import Checkpointed

MALFORMED = [
    *(
        "99",
        "-1",
        "0,0",
        "0,1,2",
        "0,",
        ",0",
        ",",
        "0 ",
        "0x1",
        "٣",
        "²",
        "9" * 30,
        "9" * 5000,
        "0,1" * 9000,
        "a",
    ),
    *("4", "1023", "1024", "0;1", "0,-1"),
]


def begun(*nodes: Any) -> Scene:
    made = Scene()
    made.hear("nodes", *(nodes or (node("n1", gpus=4),)))
    made.hear("projects", project("team", gpus=16), project("others", gpus=16))
    return made


def record(
    name: str, uid: str, *allocations: AllocationStatus, namespace: str = "team", starts: int = 9
) -> WorkloadObject:
    status = WorkloadStatus(
        phase="Running", allocations=list(allocations), life=LifecycleStatus(starts=starts)
    )
    return WorkloadObject(Metadata(name, namespace=namespace), WorkloadSpec(OwnerFields(uid)), status)


def held(here: Scene) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Node and devices of each pod as the engine has them."""
    cluster = here.control.cluster
    return {
        job_.name.rpartition("/")[2]: (cluster.node_names[each.node], each.devices)
        for job_ in cluster.jobs.values()
        for group in job_.pods
        for each in group
        if each.node >= 0
    }


@pytest.mark.parametrize("written", MALFORMED)
def test_a_malformed_annotation_is_replaced_by_free_devices_and_others_are_scheduled(written: str) -> None:
    here = begun()
    here.hear("pods", pod("liar", on="n1", gpus=2, devices=written, start=1, phase="Running"))
    here.hear("pods", pod("mine", namespace="others", gpus=2))
    assert [each.name for each in here.step()] == ["mine"]
    assert held(here) == {"pod-liar": ("n1", (0, 1)), "pod-mine": ("n1", (2, 3))}


@pytest.mark.parametrize("start", ["9" * 5000, "9" * 30, "-1", "0", "٣", "1e3", str((1 << 31) + 1)])
def test_a_malformed_start_number_never_reaches_control(start: str) -> None:
    here = begun()
    liar = pod("liar", on="n1", gpus=1, devices="0", phase="Running")
    liar.metadata.annotations["weir.dev/start"] = start
    here.hear("pods", liar, pod("mine", namespace="others", gpus=2))
    assert [each.name for each in here.step()] == ["mine"]
    assert held(here)["pod-liar"] == ("n1", (0,))
    assert here.backend.cluster_state.registry.named["team/pod-liar"].starts == 1


def test_a_pod_without_a_gpu_request_holds_no_device() -> None:
    here = begun()
    here.hear("pods", pod("liar", on="n1", gpus=0, devices="0,1,2,3", start=1, phase="Running"))
    here.hear("pods", pod("mine", namespace="others", gpus=4))
    here.step()
    assert held(here)["pod-mine"] == ("n1", (0, 1, 2, 3))
    assert held(here)["pod-liar"] == ("n1", ())


def test_two_pods_that_claim_the_same_devices_get_different_ones() -> None:
    here = begun()
    for name in ("a", "b"):
        here.hear("pods", pod(name, on="n1", gpus=2, devices="0,1", start=1, phase="Running"))
    here.step()
    assert sorted(devices for _, devices in held(here).values()) == [(0, 1), (2, 3)]


def test_the_status_wins_over_the_annotation() -> None:
    here = begun()
    here.hear("workloads", record("pod-a", "u-a", AllocationStatus("u-a", "n1", [2, 3], start=5)))
    here.hear("pods", pod("a", on="n1", gpus=2, devices="0,1", start=7, phase="Running"))
    here.step()
    assert held(here) == {"pod-a": ("n1", (2, 3))}
    assert (
        here.backend.cluster_state.registry.named["team/pod-a"].pod_at(next(iter(_keys(here)))).reported_start
        == 5
    )


def test_an_annotation_takes_no_device_that_a_status_gives_to_another_pod() -> None:
    """Whichever pod is heard of first, and however old it is."""
    for names in (("a", "b"), ("b", "a")):
        here = begun()
        here.hear("workloads", record("pod-b", "u-b", AllocationStatus("u-b", "n1", [2, 3], start=1)))
        for name in names:
            here.hear("pods", pod(name, on="n1", gpus=2, devices="2,3", start=1, phase="Running"))
        here.step()
        assert held(here) == {"pod-a": ("n1", (0, 1)), "pod-b": ("n1", (2, 3))}


@pytest.mark.parametrize(
    "kept",
    [
        AllocationStatus("u-a", "n2", [2, 3], start=1),
        AllocationStatus("u-a", "n1", [2, 3, 1], start=1),
        AllocationStatus("u-a", "n1", [3, 3], start=1),
        AllocationStatus("u-a", "n1", [4, 5], start=1),
        AllocationStatus("u-a", "n1", [-1, 0], start=1),
        AllocationStatus("u-other", "n1", [2, 3], start=1),
        AllocationStatus("u-a", "n1", list(range(5000)), start=1),
    ],
)
def test_a_record_that_does_not_fit_gives_way_to_the_annotation(kept: AllocationStatus) -> None:
    here = begun()
    here.hear("workloads", record("pod-a", "u-a", kept))
    here.hear("pods", pod("a", on="n1", gpus=2, devices="1,2", start=1, phase="Running"))
    here.step()
    assert held(here) == {"pod-a": ("n1", (1, 2))}


def test_what_is_bound_is_recorded_in_one_write_and_read_back_by_another_instance() -> None:
    here = begun()
    here.hear("owners", job("train", "j1", 2))
    here.hear("pods", *(pod(f"train-{at}", owner=("train", "j1"), gpus=2) for at in range(2)))
    for bind in here.step():
        assert isinstance(bind, Bind)
        here.backend.take_outcome(bind, WriteDone())
        answer = {
            "on": bind.node,
            "devices": bind.annotations["weir.dev/gpus"],
            "start": 1,
            "phase": "Running",
        }
        answer["start"] = int(bind.annotations["weir.dev/start"])
        here.hear("pods", pod(bind.name, owner=("train", "j1"), gpus=2, **answer))
    here.step()
    here.now_s += 2.0
    writes = [each for each in here.reported() if "/workloads/" in getattr(each, "path", "")]
    assert len(writes) == 1
    kept = status_of(writes)["allocations"]
    assert [(each["pod"], each["node"], each["devices"]) for each in kept] == [
        ("train-0", "n1", [0, 1]),
        ("train-1", "n1", [2, 3]),
    ]
    after = begun()
    after.hear("owners", job("train", "j1", 2))
    reported = [
        AllocationStatus(each["uid"], each["node"], each["devices"], start=each["start"]) for each in kept
    ]
    after.hear("workloads", record("job-train", "j1", *reported))
    for name in ("train-0", "train-1"):  # both annotations were changed by their user meanwhile
        after.hear(
            "pods", pod(name, owner=("train", "j1"), gpus=2, on="n1", devices="0,3", start=1, phase="Running")
        )
    after.step()
    devices = [
        each.devices for job_ in after.control.cluster.jobs.values() for group in job_.pods for each in group
    ]
    assert devices == [(0, 1), (2, 3)]


def test_a_restart_survives_a_node_whose_devices_are_away_for_a_moment() -> None:
    here = begun(node("n1", gpus=0), node("n2", gpus=1))
    here.hear("workloads", record("pod-a", "u-a", AllocationStatus("u-a", "n1", [2, 3], start=1)))
    here.hear("pods", pod("a", on="n1", gpus=2, phase="Running"), pod("mine", namespace="others", gpus=1))
    here.step()
    assert held(here)["pod-mine"] == ("n2", (0,))
    here.hear("nodes", node("n1", gpus=4))
    here.hear("pods", pod("more", namespace="others", gpus=2))
    here.step()
    assert held(here)["pod-a"] == ("n1", (2, 3))
    assert held(here)["pod-more"] == ("n1", (0, 1))


def test_a_promise_of_devices_that_the_node_no_longer_has_is_not_kept() -> None:
    from weir.kubernetes.crd.objects import NominatedPlacement, Nomination

    here = begun(node("n1", gpus=2))
    thing = record("pod-a", "u-a")
    thing.status.nomination = Nomination([NominatedPlacement("n1", "a", [6, 7])])
    here.hear("workloads", thing)
    here.hear("pods", pod("a", gpus=2))
    assert [each.name for each in here.step()] == ["a"]


@pytest.mark.parametrize("answer", ["9" * 4000, "1e999", "1e300", "9" * 18])
def test_a_huge_share_of_memory_is_refused_and_others_are_scheduled(answer: str) -> None:
    here = begun()
    liar = pod("liar", gpus=0)
    liar.metadata.annotations["weir.dev/gpu-memory"] = answer
    other = pod("other", gpus=0)
    other.metadata.annotations["gpu-memory"] = answer
    here.hear("pods", liar, other, pod("mine", namespace="others", gpus=2))
    assert [each.name for each in here.step()] == ["mine"]


def test_a_huge_number_of_devices_is_refused_and_others_are_scheduled() -> None:
    here = begun()
    here.hear("pods", pod("liar", gpus=9223372036854775807), pod("mine", namespace="others", gpus=2))
    assert [each.name for each in here.step()] == ["mine"]


@pytest.mark.parametrize("answer", ["99999999999999", "9999-12-31T23:59:59Z"])
def test_a_checkpoint_in_the_future_does_not_move_the_time_of_the_cluster(answer: str) -> None:
    here = begun()
    early = pod("early", on="n1", gpus=1, devices="0", start=1, phase="Running")
    early.metadata.annotations["weir.dev/checkpointed-at"] = answer
    here.hear("pods", early)
    here.step()
    assert here.control.cluster.now_s <= here.now_s


def test_checkpoint_and_busy_time_of_a_pod_reach_control_and_survive_a_restart() -> None:
    here = begun()
    here.hear("pods", pod("a", on="n1", gpus=1, devices="0", start=1, phase="Running"))
    here.step()
    (owner,) = (gang.key.uid for gang in here.backend.cluster_state.registry.named.values())
    here.now_s += 600.0
    saved, until = moment(here.now_s - 60.0), moment(here.now_s + 3600.0)

    def reported(by: str) -> WorkloadObject:
        thing = record("pod-a", owner, starts=1)
        thing.status.report = JobReport(
            owner=by, checkpointed_at=saved, busy_until=until, busy_why="indexing"
        )
        return thing

    def facts() -> list[Any]:
        return [each for each in here.backend.events() if isinstance(each, Checkpointed | IdleExcused)]

    here.hear("workloads", reported("an earlier owner"))
    assert facts() == []
    here.hear("workloads", reported(owner))
    checkpoint, busy = facts()
    assert here.now_s - 61.0 <= checkpoint.at_s <= here.now_s - 60.0
    assert (busy.why, round(busy.until_s - here.now_s, -1)) == ("indexing", 3600.0)
    assert facts() == []
    here.backend.connect()
    assert [type(each) for each in facts()] == [Checkpointed]  # an extension counts once


def test_a_node_with_absurd_amounts_is_used_without_them() -> None:
    odd = node("odd", gpus=4, labels={"nvidia.com/gpu.memory": "1e300"})
    odd.status.allocatable["example.com/widget"] = "9" * 19
    odd.status.allocatable["amd.com/gpu"] = "1000000000000"
    here = begun(odd)
    here.hear("pods", pod("mine", namespace="others", gpus=2))
    assert [each.name for each in here.step()] == ["mine"]
    assert here.backend.unreadable_counts() == {"nodes": 1}
    here.hear("nodes", odd)  # as its kubelet repeats it again and again
    here.step()
    assert not [each for each in here.writes if getattr(each, "reason", "") == "Unreadable"]
    here.hear("nodes", node("odd", gpus=4))
    here.step()
    assert here.backend.unreadable_counts() == {}


def test_what_a_status_remembers_stays_within_its_range() -> None:
    found = life_of(LifecycleStatus(1 << 62, -1, 1 << 60, float("inf"), -1e300, 3))
    assert (found.starts, found.settled, found.failures, found.ran_s, found.retry_at_s) == (0, 0, 0, 0.0, 0.0)
    assert found.restarts == 3


def test_an_annotation_is_read_in_full_or_not_at_all() -> None:
    assert annotated(pod("a", on="n1", devices="1,0", start=3)).devices == (0, 1)  # type: ignore[union-attr]
    assert annotated(pod("a", on="n1", devices="1,x", start=3)) is None
    assert annotated(pod("a", on="n1", devices="1,0")) is None


def _keys(here: Scene) -> list[Any]:
    from weir.state.events import PodKey

    return [PodKey(name, 0, 0) for name in here.control.cluster.jobs]


def _shared(name: str, fraction: str, **more: Any) -> Any:
    made = pod(name, gpus=0, **more)
    made.metadata.annotations["weir.dev/gpu-fraction"] = fraction
    return made


def test_a_bound_pod_that_asks_for_less_or_more_later_holds_what_it_was_bound_with() -> None:
    """After a restart too: the status says what part of which devices it holds."""
    for later, devices in (("0.001", "1"), ("1", "1"), ("1", "4")):
        here = begun(node("n1", gpus=1, shared=True))
        here.hear("pods", _shared("a", "0.6"))
        (bind,) = here.step()
        here.backend.take_outcome(bind, WriteDone())
        changed = _shared("a", later, on="n1", devices="0", start=1, phase="Running")
        changed.metadata.annotations["weir.dev/gpu-devices"] = devices
        here.hear("pods", changed)
        other = _shared("b", "0.6", namespace="others")
        here.hear("pods", other)
        assert here.step() == []
        here.now_s += 2.0
        (kept,) = status_of(here.reported())["allocations"]
        assert (kept["devices"], kept["share"]) == ([0], 600)
        after = begun(node("n1", gpus=1, shared=True))
        allocation = AllocationStatus("u-a", "n1", kept["devices"], kept["share"], start=kept["start"])
        after.hear("workloads", record("pod-a", "u-a", allocation))
        again = _shared("a", later, on="n1", devices="0", start=1, phase="Running")
        again.metadata.annotations["weir.dev/gpu-devices"] = devices
        after.hear(
            "pods", again, _shared("b", "0.6", namespace="others"), _shared("c", "0.4", namespace="others")
        )
        assert [each.name for each in after.step()] == ["c"]


def test_a_pod_on_a_node_that_is_gone_keeps_its_start_number() -> None:
    """It may still run there, and its node may come back: no other pod of its workload gets the number."""
    here = begun()
    here.hear("owners", job("train", "j1", 2, min_pods="1"))
    here.hear("pods", pod("t-0", owner=("train", "j1"), on="gone", start=1, devices="0", phase="Running"))
    here.hear("pods", pod("t-1", owner=("train", "j1")))
    (bind,) = here.step()
    assert isinstance(bind, Bind)
    assert (bind.name, bind.annotations["weir.dev/start"]) == ("t-1", "2")


def test_a_gang_with_a_missing_pod_goes_on_as_it_was_after_everything_is_listed_again() -> None:
    """The slot of the missing pod is another one then: devices and start numbers stay with their pods."""
    here = begun()
    here.hear("owners", job("train", "j1", 3))
    for at in (0, 2):
        runs = {"on": "n1", "start": at + 1, "devices": str(at), "phase": "Running"}
        here.hear("pods", pod(f"t-{at}", owner=("train", "j1"), **runs))  # type: ignore[arg-type]
    assert here.step() == []
    cluster = here.control.cluster
    (workload,) = cluster.jobs.values()
    places = {each.devices for group in workload.pods for each in group if each.node >= 0}
    assert places == {(0,), (2,)}
    here.hear("pods", pod("t-1", owner=("train", "j1")))
    (bind,) = here.step()
    assert isinstance(bind, Bind)
    assert bind.annotations["weir.dev/start"] == "4"
    assert bind.annotations["weir.dev/gpus"] in {"1", "3"}


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("object_first", [True, False])
def test_running_work_keeps_its_project_over_a_restart_though_its_namespace_is_anothers_since(
    is_recorded: bool, object_first: bool
) -> None:
    made = record("job-train", "j1", *([AllocationStatus("u-train-0", "n1", [0])] if is_recorded else []))
    made.spec.project = "before"
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("before", "elsewhere"), project("since", "team"))
    here.hear("owners", job("train", "j1", 2, min_pods="1"))
    running = pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running")
    objects = [("workloads", made), ("pods", running)]
    for resource, thing in objects if object_first else reversed(objects):
        here.hear(resource, thing)
    here.step()
    (job_,) = here.control.cluster.jobs.values()
    assert job_.spec.project == ("before" if is_recorded else "since")
    here.gone("train-0")
    here.hear("pods", pod("train-1", owner=("train", "j1")))
    here.step()
    here.step()
    (job_,) = here.control.cluster.jobs.values()
    assert job_.spec.project == "since"

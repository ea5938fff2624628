"""Effects become writes, and what comes of writes becomes facts: with a control, without an API server."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.kubernetes.deliveries import deliver

from weir.control.loop import Control
from weir.control.port import StartPod
from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.api.objects import KubeAffinity, LabelSelector, Metadata, PodAffinity, PodAffinityTerm
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.objects import (
    LifecycleStatus,
    NominatedPlacement,
    Nomination,
    OwnerFields,
    PendingReason,
    WorkloadObject,
    WorkloadSpec,
    WorkloadStatus,
)
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.writes.operations import (
    Bind,
    EmitEvent,
    Evict,
    PatchObject,
    PatchStatus,
    UpsertWorkload,
    WriteDelayed,
    WriteDone,
    WriteNotSent,
    WriteRefused,
    WriteUnknown,
)
from weir.model.policy import Policy
from weir.state.jobs import Phase

from .small_world import KINDS, job, node, pod, project


class Scene:
    """A backend, a control that really decides, and whatever is to be written."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.writes: list[Any] = []
        self.backend = KubernetesBackend(
            ClusterState(KINDS, DeviceResources()), self.writes.extend, lambda: None, lambda: self.now_s
        )
        self.control = self.connect()

    def connect(self) -> Control:
        self.backend.connect()
        self.control = Control(self.backend, Policy(), lambda: self.now_s)
        return self.control

    def hear(self, resource: str, *objects: Any) -> None:
        deliver(self.backend, resource, *objects)

    def gone(self, name: str) -> None:
        self.backend.deliver("pods")([ObjectRemoved(f"team/{name}", f"u-{name}")])

    def step(self, after_s: float = 0.1) -> list[Any]:
        """Return the writes of this step, except texts for people."""
        self.now_s += after_s
        self.writes.clear()
        self.control.step()
        return [each for each in self.writes if isinstance(each, Bind | Evict)]

    def reported(self) -> list[Any]:
        """Return the texts for people."""
        self.writes.clear()
        self.backend.tell_people(self.now_s)
        return list(self.writes)

    def phases(self) -> list[str]:
        jobs = self.control.cluster.jobs.values()
        return [each.phase.name for job_ in jobs for group in job_.pods for each in group]


def scene(pods: int = 1, **answer: str) -> Scene:
    made = Scene()
    made.hear("nodes", node("n1"))
    made.hear("projects", project("team"))
    made.hear("owners", job("train", "j1", pods, **answer))
    made.hear("pods", *(pod(f"train-{at}", owner=("train", "j1")) for at in range(pods)))
    return made


def status_of(writes: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in writes:
        if isinstance(each, PatchStatus) and "/workloads/" in each.path:
            found.update(each.patch["status"])  # type: ignore[call-overload]
    return found


def test_a_pod_is_bound_with_its_devices_and_the_number_of_its_start() -> None:
    here = scene()
    (bind,) = here.step()
    assert (bind.name, bind.node, bind.annotations) == (
        "train-0",
        "n1",
        {"weir.dev/start": "1", "weir.dev/gpus": "0"},
    )
    assert here.backend.binding == 1
    assert here.backend.check(bind) == ""
    here.backend.take_outcome(bind, WriteDone())
    assert here.step() == []
    assert here.backend.binding == 0
    assert here.phases() == ["RUNNING"]


def test_a_pod_is_not_bound_with_fewer_devices_than_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    here = scene()
    apply = here.backend.apply

    def without_devices(effects: Sequence[Any]) -> None:
        starts = [each for each in effects if isinstance(each, StartPod)]
        apply([replace(each, place=replace(each.place, devices=())) for each in starts])

    with monkeypatch.context() as patched:
        patched.setattr(here.backend, "apply", without_devices)
        assert here.step() == []
    assert here.backend.binding == 0
    (bind,) = here.step(after_s=5.0)
    assert bind.annotations["weir.dev/gpus"] == "0"


def test_a_binding_is_not_sent_when_others_came_first() -> None:
    here = scene()
    (bind,) = here.step()
    here.hear("pods", pod("other", scheduler="default-scheduler", on="n1", gpus=4))
    assert "devices" in here.backend.check(bind)
    here.backend.take_outcome(bind, WriteNotSent("Others took devices."))
    assert here.step() == []
    assert here.phases() == ["PENDING"]


def test_refused_bindings_are_tried_again_with_longer_and_longer_pauses() -> None:
    here = scene()
    pauses = []
    for _ in range(4):
        (bind,) = here.step()
        here.backend.take_outcome(bind, WriteRefused(409, "It isn't wanted there."))
        began_s = here.now_s
        assert here.step() == []
        assert here.phases() == ["ABSENT"]
        due_s = here.backend.cluster_state.due_s
        assert due_s is not None
        pauses.append(round(due_s - began_s, 1))
        here.now_s = due_s
    assert pauses == [0.3, 0.5, 0.9, 1.7]  # with the step in which it was heard of


def test_an_unknown_binding_is_found_out_or_tried_again() -> None:
    here = scene()
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteUnknown("The connection was cut."))
    assert here.step() == []
    assert here.phases() == ["RUNNING"]
    assert here.step(after_s=31.0) == []
    assert here.phases() == ["ABSENT"]
    (again,) = here.step(after_s=1.0)
    assert again.about[1] == 2


def test_a_pod_whose_request_changes_while_it_is_being_bound() -> None:
    """Its start has another number since, and its binding is still its binding."""
    for outcome, phase in ((WriteDone(), "RUNNING"), (WriteRefused(409, "no"), "ABSENT")):
        here = scene(2)
        here.hear("pods", pod("train-0", owner=("train", "j1"), labels={"app": "web"}))
        binds = {each.name: each for each in here.step()}
        apart = PodAffinity([PodAffinityTerm("zone", LabelSelector({"app": "web"}))])
        other = pod("other", on="n1", scheduler="default-scheduler")
        other.spec.affinity = KubeAffinity(pod_anti_affinity=apart)
        here.hear("pods", other)
        assert here.step() == []
        assert sorted(here.phases()) == ["ABSENT", "RUNNING", "RUNNING"]  # one has left its place for another
        assert here.backend.check(binds["train-0"]) == ""
        here.backend.take_outcome(binds["train-0"], outcome)
        here.step()
        assert here.phases().count(phase) == 2


def test_a_pod_that_is_gone_before_it_is_bound_is_lost() -> None:
    here = scene()
    (bind,) = here.step()
    here.gone("train-0")
    here.hear("pods", pod("train-b", owner=("train", "j1")))
    here.backend.take_outcome(bind, WriteRefused(404, "There is no such pod."))
    (again,) = here.step()
    assert again.name == "train-b"


def test_a_workload_that_ran_too_long_is_stopped_for_good() -> None:
    here = scene(max_runtime="10s")
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    running = {"owner": ("train", "j1"), "on": "n1", "start": 1, "devices": "0", "phase": "Running"}
    here.hear("pods", pod("train-0", **running))
    here.step()
    (evict,) = here.step(after_s=11.0)
    assert evict.because is not None
    assert "10s" in evict.because.note
    here.gone("train-0")
    here.step()
    assert not here.control.cluster.jobs
    here.hear("pods", pod("train-b", owner=("train", "j1")))  # the job controller makes another one
    assert here.step() == []
    assert not here.control.cluster.jobs
    status = status_of(here.reported())
    assert (status["phase"], status["reason"]["why"]) == ("Stopped", "max_runtime")
    # another Weir reads it back
    after = scene(max_runtime="10s")
    kept = WorkloadStatus(phase="Stopped", reason=PendingReason("max_runtime"))
    thing = WorkloadObject(Metadata("job-train", namespace="team"), WorkloadSpec(OwnerFields("j1")), kept)
    after.hear("workloads", thing)
    assert after.step() == []
    assert not after.control.cluster.jobs


def test_an_eviction_that_cannot_be_is_taken_back() -> None:
    here = scene(max_runtime="10s")
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    here.hear("pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase="Running"))
    here.step()
    (evict,) = here.step(after_s=11.0)
    here.backend.take_outcome(evict, WriteDelayed("Its disruption budget allows none now."))
    here.step()
    assert not any(isinstance(each, EmitEvent) for each in here.reported())  # its object isn't there yet
    thing = WorkloadObject(Metadata("job-train", namespace="team", uid="w1"), WorkloadSpec(OwnerFields("j1")))
    here.hear("workloads", thing)
    here.step()
    (event,) = (each for each in here.reported() if isinstance(each, EmitEvent))
    assert (event.reason, event.regarding.kind, event.regarding.uid) == ("HeldUp", "Workload", "w1")
    assert here.phases() == ["STOPPING"]


def test_a_nomination_is_found_again_by_the_names_of_pods() -> None:
    here = scene(pods=2)
    places = [NominatedPlacement("n1", f"train-{at}", [at]) for at in range(2)]
    status = WorkloadStatus(
        phase="Pending",
        nomination=Nomination(places, ["team/other"]),
        life=LifecycleStatus(7, 7, 0, 30.0, None, 2),
    )
    here.hear(
        "workloads",
        WorkloadObject(Metadata("job-train", namespace="team"), WorkloadSpec(OwnerFields("j1")), status),
    )
    binds = here.step()
    assert {bind.name: bind.annotations["weir.dev/gpus"] for bind in binds} == {
        "train-0": "0",
        "train-1": "1",
    }
    assert {bind.annotations["weir.dev/start"] for bind in binds} == {"8", "9"}
    assert here.control.cluster.jobs["team/job-train"].ran_s == 30.0
    assert any(each.get("nomination", 0) is None for each in map(status_of, [here.writes]))


def test_its_object_is_made_before_anything_is_kept_in_it() -> None:
    here = scene()
    here.step()
    (held,) = here.reported()  # its project; it runs in a moment, and one write says it all
    assert isinstance(held, PatchObject)
    here.now_s += 2.0
    here.backend.cluster_state.registry.changed.update(
        dict.fromkeys(here.backend.cluster_state.registry.named.values())
    )
    reported = here.reported()
    kinds = [type(each) for each in reported]
    assert kinds[:2] == [UpsertWorkload, PatchStatus]
    body = reported[0].body
    assert body["metadata"]["ownerReferences"][0]["uid"] == "j1"
    assert status_of(reported)["phase"] == "Starting"


def test_memory_of_devices_counts_as_the_part_of_a_device_that_it_is() -> None:
    here = Scene()
    for name, gib in (("n1", 80), ("n2", 40)):
        here.hear("nodes", node(name, labels={"nvidia.com/gpu.memory": str(gib * 1024)}))
    here.hear("projects", project("team"))
    here.hear("owners", job("train", "j1", 2, gpu_memory="20Gi"))
    owner = ("train", "j1")
    here.hear("pods", pod("train-0", owner=owner, gpus=0, on="n1", start=1, devices="0", phase="Running"))
    here.step()
    here.now_s += 2.0
    assert status_of(here.reported())["gpus"] == "0.75"  # 20 of 80, and of the smallest where it isn't known


def test_a_new_control_takes_over_what_was_ordered() -> None:
    """The state knows its writes, also those of an earlier leader."""
    here = scene()
    (bind,) = here.step()
    here.connect()
    assert here.step() == []
    assert here.phases() == [Phase.RUNNING.name]
    here.backend.take_outcome(bind, WriteRefused(409, "no"))
    here.step()
    assert here.phases() == ["ABSENT"]


def test_a_nomination_without_an_ordered_eviction_is_forgotten() -> None:
    """Weir was killed between the promise and the evictions: the decision is made again."""
    for deleting in (True, False):
        here = scene()
        here.hear("owners", job("holds", "j2"))
        holds = {"owner": ("holds", "j2"), "gpus": 4, "on": "n1", "start": 1, "devices": "0,1,2,3"}
        here.hear("pods", pod("holds-0", phase="Running", deleting=deleting, **holds))  # type: ignore[arg-type]
        status = WorkloadStatus(
            phase="Pending", nomination=Nomination([NominatedPlacement("n1", "train-0", [2])], [])
        )
        meta = Metadata("job-train", namespace="team")
        here.hear("workloads", WorkloadObject(meta, WorkloadSpec(OwnerFields("j1")), status))
        here.step()
        assert ("team/job-train" in here.control.cluster.nominated) is deleting


def test_a_nomination_ends_when_its_workload_is_refused() -> None:
    """A workload that is refused for a while holds no capacity that others have got meanwhile."""
    here = Scene()
    here.hear("nodes", node("n1", gpus=2))
    here.hear("projects", project("team"), project("other"))
    here.hear("owners", job("train", "j1"), job("holds", "j2"))
    here.hear(
        "pods", pod("holds-0", owner=("holds", "j2"), gpus=2, on="n1", start=1, devices="0,1", deleting=True)
    )
    status = WorkloadStatus(
        phase="Pending", nomination=Nomination([NominatedPlacement("n1", "train-0", [0, 1])], [])
    )
    here.hear(
        "workloads",
        WorkloadObject(Metadata("job-train", namespace="team"), WorkloadSpec(OwnerFields("j1")), status),
    )
    here.hear("pods", pod("train-0", owner=("train", "j1"), gpus=2))
    here.step()
    assert "team/job-train" in here.control.cluster.nominated
    here.backend.deliver("projects")([ObjectRemoved("team", "p-team")])
    here.step()
    assert "team/job-train" not in here.control.cluster.jobs
    assert any(each.get("nomination", 0) is None for each in map(status_of, [here.writes]))
    here.gone("holds-0")
    here.hear("pods", pod("quick", namespace="other", gpus=2))
    assert [each.name for each in here.step()] == ["quick"]
    here.hear("projects", project("team"))
    assert here.step() == []
    assert "team/job-train" in here.control.cluster.jobs
    assert not here.control.cluster.nominated


def test_changes_without_a_leader_do_not_pile_up() -> None:
    here = scene()
    assert [bind.name for bind in here.step()] == ["train-0"]
    here.backend.leave()
    for phase in ("Pending", "Running"):
        here.hear("pods", pod("train-0", owner=("train", "j1"), on="n1", start=1, devices="0", phase=phase))
    assert not here.backend._inbox
    here.connect()
    assert here.step() == []
    assert here.phases() == ["RUNNING"]


@pytest.mark.parametrize("kept", [True, False])
def test_since_when_a_gang_is_short_of_pods_outlives_the_leader(kept: bool) -> None:
    here = Scene()
    here.now_s = 1767225900.0  # 300 s after its pods started
    here.hear("nodes", node("n1", gpus=3))
    here.hear("projects", project("team"))
    since = "2026-01-01T00:04:40Z" if kept else None
    status = WorkloadStatus(phase="Running", short_since=since)
    thing = WorkloadObject(Metadata("job-train", namespace="team"), WorkloadSpec(OwnerFields("j1")), status)
    here.hear("workloads", thing)
    here.hear("owners", job("train", "j1", 4, min_pods="4"))
    for at in range(3):
        running = pod(
            f"train-{at}", owner=("train", "j1"), on="n1", start=1, devices=str(at), phase="Running"
        )
        here.hear("pods", running)
    here.hear("pods", pod("train-3", owner=("train", "j1")))  # in place of one that was lost
    assert here.step() == []
    found = here.control.cluster.jobs["team/job-train"].below_since_s
    assert found == (1767225880.0 if kept else here.now_s)
    patch = status_of(here.reported())
    assert patch["shortSince"] == ("2026-01-01T00:04:40Z" if kept else "2026-01-01T00:05:00Z")
    here.hear("nodes", node("n1", gpus=4))
    (bind,) = here.step()
    here.backend.take_outcome(bind, WriteDone())
    here.step(after_s=10.0)
    assert status_of(here.reported())["shortSince"] is None

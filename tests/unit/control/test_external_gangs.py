"""Workloads whose pods others make: control starts and stops pods, and nothing else of their lives."""

from weir.control.port import (
    CancelRequested,
    EndWorkload,
    GateChanged,
    PodExit,
    PodExited,
    ReleaseNomination,
    ReserveNomination,
    SaveProgress,
    StartPod,
    WorkloadFinished,
)
from weir.engine.plan import NominatedPods, Plan
from weir.model.nodes import Node
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.events import (
    NodeSet,
    Nominated,
    Placement,
    PodKey,
    PodStopping,
    WorkloadChanged,
    WorkloadOutcome,
)

from .harness import Scene, gang


def _asking(pods: int, least: int = 1) -> Workload:
    return Workload("job", "team", (PodGroup("worker", Request(devices=1), pods, least),), least, 0.0)


def test_what_is_finished_is_forgotten() -> None:
    """The owner of the pods reports the end; control remembers nothing of it."""
    scene = Scene(gang())
    starts = scene.starts("job", 2)
    lost = scene.exits(starts, PodExit.LOST)
    (status, end) = scene.step(*lost, WorkloadFinished("job", WorkloadOutcome.SUCCEEDED, 9.0), at_s=9.0)
    assert isinstance(status, SaveProgress)
    assert end == EndWorkload(
        "job", WorkloadOutcome.SUCCEEDED, 9.0, "", 9.0, 0.0, first_started_s=0.0, exit_code=0
    )
    assert not scene.control.cluster.jobs
    assert scene.step(WorkloadFinished("job", WorkloadOutcome.SUCCEEDED, 9.0)) == []


def test_finished_while_it_is_being_ended_says_why_it_was_ended() -> None:
    """A verdict of control's own isn't lost when its pods are gone with their maker."""
    scene = Scene(gang(pods=1))
    scene.starts("job")
    scene.step(CancelRequested("job", 1.0, "ann"), at_s=1.0)
    (end,) = scene.step(WorkloadFinished("job", WorkloadOutcome.STOPPED, 2.0), at_s=2.0)
    assert isinstance(end, EndWorkload)
    assert end.cause is not None


def test_gated_keeps_it_from_starting_and_stops_nothing() -> None:
    """A gang of which pods are missing isn't started; pods of it that run go on."""
    scene = Scene(gang())
    scene.starts("job", 1)
    assert scene.step(GateChanged("job", True, "1 of 2 pods exists")) == []
    assert scene.job_holds("job") == "1 of 2 pods exists"
    assert scene.step(GateChanged("job", True, "0 of 2 pods exist")) == []
    assert scene.job_holds("job") == "0 of 2 pods exist"
    scene.step(GateChanged("job", False))
    assert scene.job_holds("job") == ""
    assert len(scene.control.cluster.jobs["job"].running_pods()) == 1
    assert scene.step(GateChanged("nobody", True)) == []


def test_a_gate_releases_its_nomination() -> None:
    """Capacity isn't reserved for what can't be started."""
    other = NodeSet(Node("other", 8, 16 << 30, {"cpu": 64_000, "memory": 1 << 40, "pods": 110}))
    scene = Scene(gang(pods=1), other)
    places = (Placement(PodKey("job", 0, 0), "node", (0,)),)
    (keep,) = scene.step(plan=Plan(nominations=[NominatedPods("job", places)]))
    assert isinstance(keep, ReserveNomination)
    assert isinstance(keep.nomination, Nominated)
    assert scene.step(GateChanged("job", True, "its pod is gated")) == [ReleaseNomination("job")]


def test_pods_that_are_no_more_are_forgotten() -> None:
    """A gang that shrinks and grows again starts its new pods as new ones."""
    scene = Scene(gang())
    starts = scene.starts("job", 2)
    second = PodKey("job", 0, 1)
    lost = PodExited(second, starts[second], PodExit.LOST, 1.0)
    scene.step(lost, WorkloadChanged(_asking(1), 1.0), at_s=1.0)
    assert scene.control.cluster.jobs["job"].spec.pods == 1
    scene.step(WorkloadChanged(_asking(2), 2.0), at_s=2.0)
    (start,) = scene.step(plan=Plan(binds=[Placement(second, "node", (3,))]))
    assert isinstance(start, StartPod)
    assert start.start > max(starts.values())


def test_another_program_ends_a_pod() -> None:
    """A pod that is being deleted holds its capacity until it is gone, and it isn't stopped once more."""
    scene = Scene(gang(pods=1))
    ((pod, start),) = scene.starts("job").items()
    assert scene.step(PodStopping(pod, 1.0), at_s=1.0) == []
    assert not scene.control.cluster.jobs["job"].running_pods()
    assert scene.control.cluster.jobs["job"].stopping == 1
    (status,) = scene.step(PodExited(pod, start, PodExit.LOST, 2.0), at_s=2.0)
    assert isinstance(status, SaveProgress)
    assert scene.control.cluster.jobs["job"].pending == [1]

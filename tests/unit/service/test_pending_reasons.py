"""The reason of a workload whose own pods are still being stopped is shown while they are."""

from typing import cast

import pytest

from weir.api.answers import Explanation
from weir.control.loop import Control
from weir.control.port import Backend
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import PodGroup, Request, Workload
from weir.service import pending_reasons
from weir.service.pending_reasons import PendingReasons
from weir.state.cluster import Cluster
from weir.state.events import (
    NodeSet,
    Placement,
    PodAssigned,
    PodKey,
    PodStopped,
    PodStopping,
    QueuesSet,
    WorkloadEnded,
    WorkloadOutcome,
    WorkloadSubmitted,
)
from weir.state.reduce import reduce

CAPACITY = {"cpu": 64_000, "memory": 64 << 30, "pods": 99}
GANG = Workload("gang", "p", (PodGroup("worker", Request(devices=4), 3, 3),), 3, 0.0)


class Scene:
    """Reasons of a gang of three pods, two of which have nodes; the first of them is being stopped."""

    def __init__(self) -> None:
        self.control = Control(cast("Backend", None), Policy(), lambda: 10.0)
        self.shown: dict[str, Explanation] = {}
        self._reasons = PendingReasons(self.shown)
        reduce(self.cluster, NodeSet(Node("n", 8, 16 << 30, CAPACITY)))
        reduce(self.cluster, QueuesSet((Queue("p", quota={"gpu": 16_000}),)))
        reduce(self.cluster, WorkloadSubmitted(GANG, 0.0))
        for index in range(2):
            devices = tuple(range(4 * index, 4 * index + 4))
            reduce(self.cluster, PodAssigned(Placement(PodKey("gang", 0, index), "n", devices), 1.0))
        reduce(self.cluster, PodStopping(PodKey("gang", 0, 0), 2.0))

    @property
    def cluster(self) -> Cluster:
        return self.control.cluster

    def update(self) -> list[str]:
        return self._reasons.update(self.control, 10.0)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_pending_pod_beside_one_that_is_being_stopped_has_a_reason(scene: Scene) -> None:
    assert scene.update() == ["gang"]
    assert scene.shown["gang"].why == "waiting_for_eviction"
    assert scene.shown["gang"].sentence == "1 of its own pods is still being stopped"


def test_the_reason_of_the_decision_follows_once_the_pod_has_stopped(scene: Scene) -> None:
    scene.update()
    reduce(scene.cluster, PodStopped(PodKey("gang", 0, 0), 3.0))
    assert not scene.cluster.stopping
    assert scene.update() == ["gang"]
    assert scene.shown["gang"].why != "waiting_for_eviction"


def test_the_end_of_the_workload_leaves_nothing(scene: Scene) -> None:
    reduce(scene.cluster, WorkloadEnded("gang", WorkloadOutcome.STOPPED, 3.0))
    assert not scene.cluster.stopping
    assert scene.update() == []


def crowd(count: int) -> Control:
    """Return a full cluster with many pending classes of one project, and then one of another."""
    control = Control(cast("Backend", None), Policy(), lambda: 10.0)
    reduce(control.cluster, NodeSet(Node("n", 1, 16 << 30, CAPACITY)))
    reduce(control.cluster, QueuesSet((Queue("flood", quota={"gpu": 99_000}), Queue("other"))))
    for index in range(count):
        request = Request(devices=2, cpu_milli=1000 + index)
        submit(control, Workload(f"flood-{index}", "flood", (PodGroup("worker", request, 1, 1),), 1, 0.0))
    submit(control, Workload("other-0", "other", (PodGroup("worker", Request(devices=2), 1, 1),), 1, 0.0))
    return control


def submit(control: Control, workload: Workload) -> None:
    reduce(control.cluster, WorkloadSubmitted(workload, 0.0))


def test_many_classes_of_one_project_delay_no_reason_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_reasons, "UPDATE_S", 0.0)
    monkeypatch.setattr(pending_reasons, "CLASSES_MIN", 4)
    control = crowd(10)
    shown: dict[str, Explanation] = {}
    reasons = PendingReasons(shown)
    assert reasons.update(control, 10.0) == ["flood-0", "other-0", "flood-1", "flood-2"]
    assert reasons.is_behind
    submit(control, Workload("other-1", "other", (PodGroup("worker", Request(devices=3), 1, 1),), 1, 0.0))
    assert "other-1" in reasons.update(control, 10.0)
    while reasons.is_behind:
        reasons.update(control, 10.0)
    whole: dict[str, Explanation] = {}
    monkeypatch.setattr(pending_reasons, "CLASSES_MIN", 100)
    PendingReasons(whole).update(control, 10.0)
    assert shown == whole
    assert len(shown) == 12
    assert reasons.update(control, 10.0) == []


def test_all_classes_are_looked_at_though_changes_come_before_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending_reasons, "UPDATE_S", 0.0)
    monkeypatch.setattr(pending_reasons, "CLASSES_MIN", 2)
    control = crowd(8)
    shown: dict[str, Explanation] = {}
    reasons = PendingReasons(shown)
    for index in range(9):
        reasons.update(control, 10.0)
        reduce(control.cluster, NodeSet(Node(f"n{index}", 1, 16 << 30, CAPACITY)))
    assert len(shown) == 9

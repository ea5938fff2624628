"""An unusable object affects itself, and nothing else."""

import threading
from typing import Any

import pytest
from tests.unit.kubernetes.small_world import node, pod, project
from tests.unit.kubernetes.test_backend import Scene, status_of

from weir.control.lifecycle import WorkloadLifecycle
from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet, ObjectUnreadable
from weir.kubernetes.state.gangs import facts as gang_facts
from weir.kubernetes.state.pods.resolver import PodResolver
from weir.kubernetes.writes.operations import Bind, EmitEvent


def begun() -> Scene:
    made = Scene()
    made.hear("nodes", node("n1", gpus=4))
    made.hear("projects", project("team", gpus=16), project("others", gpus=16))
    return made


def _breaks(monkeypatch: pytest.MonkeyPatch, where: Any, method: str, on: str) -> None:
    """Have a method fail for whatever is called `bad`."""
    proper = getattr(where, method)

    def fails(*given: Any, **more: Any) -> Any:
        if on in repr([getattr(each, "name", each) for each in given]):
            raise RuntimeError("a fault of ours")
        return proper(*given, **more)

    monkeypatch.setattr(where, method, fails)


def test_a_batch_with_an_object_that_breaks_the_taking_in_is_taken_in_but_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = begun()
    _breaks(monkeypatch, PodResolver, "see", "team/bad")
    first, bad, last = (
        pod("first", namespace="others"),
        pod("bad", on="n1", gpus=2, phase="Running"),
        pod("last", namespace="others"),
    )
    here.backend.deliver("pods")(
        [ObjectSet(f"{each.metadata.namespace}/{each.metadata.name}", each) for each in (first, bad, last)]
    )
    assert sorted(each.name for each in here.step()) == ["first", "last"]
    assert here.backend.unreadable_counts() == {"pods": 1}
    here.hear("pods", pod("more", namespace="others", gpus=1))
    assert here.step() == []  # what the bad one requests counts as another's


def test_an_instance_that_stands_by_goes_on_after_an_object_that_breaks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = begun()
    here.backend.leave()
    _breaks(monkeypatch, PodResolver, "see", "team/bad")
    here.hear("pods", pod("bad", on="n1", gpus=2, phase="Running"), pod("good", namespace="others"))
    here.connect()
    assert [each.name for each in here.step()] == ["good"]


def test_an_unreadable_pod_is_reported_and_read_again_when_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = begun()
    with monkeypatch.context() as broken:
        _breaks(broken, PodResolver, "read", "team/bad")
        here.hear("pods", pod("bad"), pod("good", namespace="others"))
        assert [each.name for each in here.step()] == ["good"]
        events = [each for each in here.writes if isinstance(each, EmitEvent) and each.reason == "Unreadable"]
        assert [(each.regarding.kind, each.regarding.name) for each in events] == [("Pod", "bad")]
    here.hear("pods", pod("bad", labels={"a": "b"}))
    assert [each.name for each in here.step()] == ["bad"]
    assert here.backend.unreadable_counts() == {}


def test_a_workload_that_breaks_the_telling_is_left_out_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    here = begun()
    _breaks(monkeypatch, gang_facts, "absent_pods", "team/pod-bad")
    here.hear("pods", pod("bad", on="n1", gpus=3, phase="Running"), pod("good", namespace="others"))
    assert [each.name for each in here.step()] == ["good"]
    here.step()
    here.hear("pods", pod("more", namespace="others"))
    assert here.step() == []
    here.now_s += 2.0
    answer = [each for each in here.reported() if "pod-bad" in getattr(each, "path", "")]
    assert status_of(answer)["reason"]["why"] == "refused"
    assert "can't read" in status_of(answer)["reason"]["sentence"]


def test_a_workload_that_breaks_control_is_left_out_when_control_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = begun()
    proper = WorkloadLifecycle._submitted

    def submitted(self: WorkloadLifecycle, fact: Any) -> None:
        if fact.workload.name == "team/pod-bad":
            raise OverflowError("too large")
        proper(self, fact)

    monkeypatch.setattr(WorkloadLifecycle, "_submitted", submitted)
    here.hear("pods", pod("bad"), pod("good", namespace="others"))
    here.connect()
    with pytest.raises(OverflowError):
        here.step()
    here.connect()
    assert [each.name for each in here.step()] == ["good"]


def test_a_pod_that_cannot_be_decoded_counts_on_its_node() -> None:
    here = begun()
    asks = {"resources": {"limits": {"nvidia.com/gpu": "3"}}}
    body = {"spec": {"nodeName": "n1", "containers": [asks, "nothing"]}, "status": {"phase": "Running"}}
    here.backend.deliver("pods")([ObjectUnreadable("team/bad", "u-bad", "Expected `str`, got `int`", body)])
    here.hear("pods", pod("fits", namespace="others"), pod("not", namespace="others"))
    (bind,) = here.step()
    assert isinstance(bind, Bind)
    here.hear("pods", pod("bad", on="", gpus=0))  # it can be read again
    assert len(here.step()) == 2


def test_queues_are_shown_while_objects_come_and_go() -> None:
    """The control thread reads queues, and another thread takes in changes of them."""
    here = begun()
    here.step()
    done = threading.Event()

    def come_and_go() -> None:
        try:
            for at in range(1000):
                here.backend.deliver("projects")([ObjectSet(f"p{at}", project(f"p{at}", "nowhere"))])
                here.backend._take_in()
        finally:
            done.set()

    other = threading.Thread(target=come_and_go)
    other.start()
    while not done.is_set():
        assert set(here.backend.queue_view().generations.values()) == {0}
    other.join()
    assert len(here.backend.queue_view().generations) == 1002


def test_projects_that_go_while_work_waits_stop_no_decision() -> None:
    here = Scene()
    here.hear("nodes", node("n1", gpus=1))
    for at in range(6):
        here.hear("projects", project(f"p{at}", gpus=1))
        here.hear("pods", pod(f"a{at}", namespace=f"p{at}"), pod(f"b{at}", namespace=f"p{at}"))
    here.step()
    for at in range(5):
        here.backend.deliver("pods")([ObjectRemoved(f"p{at}/{name}{at}", f"u-{name}{at}") for name in "ab"])
        here.backend.deliver("projects")([ObjectRemoved(f"p{at}", f"p-p{at}")])
    here.step()
    here.step(after_s=61.0)
    here.step()
    assert [each.project for each in here.control.cluster.waiting.values()] == [0]

"""A cluster that has numbered far more than it uses: control begins again, and knows what it knew."""

from typing import Any

import pytest
from tests.unit.kubernetes.small_world import KINDS, job, node, pod, project
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.process.control import control_hooks, renewal
from weir.kubernetes.process.control.control_hooks import ClusterControlHooks
from weir.kubernetes.process.control.renewal import LOOK_EVERY_S, is_outgrown
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.writes.operations import Bind, WriteDone
from weir.model.nodes import Node
from weir.model.policy import Policy
from weir.service.control_thread import BeginAgain
from weir.state.cluster import Cluster
from weir.state.events import NodeLost, NodeSet
from weir.state.reduce import reduce


def test_rows_of_lost_nodes_count_and_those_in_use_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "NODES_SPARE", 10)
    cluster = Cluster()
    for number in range(30):
        reduce(cluster, NodeSet(Node(f"n{number}", 8, 16 << 30, {"cpu": 1, "memory": 1, "pods": 1})))
    assert not is_outgrown(cluster, 0)
    for number in range(25):
        reduce(cluster, NodeLost(f"n{number}"))
    assert is_outgrown(cluster, 0)


def test_selectors_out_of_use_count_and_those_in_use_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "CELLS_SPARE", 1)
    cluster = Cluster()
    cluster.marks.see(f"app={number}" for number in range(1000))
    assert is_outgrown(cluster, 100)
    assert not is_outgrown(cluster, 200)


def test_the_next_control_has_the_pods_and_what_was_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Scene()
    backend = KubernetesBackend(
        ClusterState(KINDS, DeviceResources()), here.writes.extend, lambda: None, lambda: here.now_s
    )
    here.backend = backend
    hooks = ClusterControlHooks(backend, Policy(), lambda: here.now_s)

    def stepped(control: Any) -> Any:
        here.now_s += 0.1
        here.writes.clear()
        hooks.before_step(here.now_s)
        control.step()
        hooks.after_step(control, here.now_s)
        return control

    control = hooks.connect()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    here.hear("owners", job("train", "j1"))
    here.hear("pods", pod("train-0", owner=("train", "j1")))
    stepped(control)
    (bind,) = (each for each in here.writes if isinstance(each, Bind))
    backend.take_outcome(bind, WriteDone())
    held = {"owner": ("train", "j1"), "on": "n1", "start": 1, "devices": "0", "phase": "Running"}
    here.hear("pods", pod("train-0", **held))  # type: ignore[arg-type]
    stepped(control)
    here.now_s += LOOK_EVERY_S
    stepped(control)
    monkeypatch.setattr(control_hooks, "is_outgrown", lambda *_: True)
    here.now_s += LOOK_EVERY_S
    with pytest.raises(BeginAgain):
        hooks.before_step(here.now_s)
    again = hooks.connect()
    assert again.cluster is not control.cluster
    assert again.cluster.usage is control.cluster.usage
    assert again.cluster.runtimes is control.cluster.runtimes
    stepped(again)
    job_of = again.cluster.jobs["team/job-train"]
    assert [each.phase.name for group in job_of.pods for each in group] == ["RUNNING"]
    assert not [each for each in here.writes if isinstance(each, Bind)]

"""Resources that users invent: the pods say so and wait, and the engine's arrays stay as they are."""

from typing import Any

import pytest
from tests.unit.kubernetes.small_world import node, pod, project
from tests.unit.kubernetes.test_backend import Scene, status_of

from weir.kubernetes.api.objects import ContainerPort, KubePod
from weir.kubernetes.translate import resource_names


def begun() -> Scene:
    made = Scene()
    made.hear("nodes", node("n1", gpus=8))
    made.hear("projects", project("team", gpus=16))
    return made


def asking(name: str, resource: str, **more: Any) -> KubePod:
    made = pod(name, **more)
    for amounts in (made.spec.containers[0].resources.requests, made.spec.containers[0].resources.limits):
        amounts[resource] = "1"
    return made


def with_port(name: str, port: int, address: str = "") -> KubePod:
    made = pod(name, gpus=0)
    made.spec.node_selector = {"there": "is-none"}
    made.spec.containers[0].ports = [ContainerPort(host_port=port, host_ip=address)]
    return made


def rows(here: Scene) -> int:
    return len(here.control.cluster.rows)


def bound(here: Scene) -> set[str]:
    return {
        tracked.name
        for gang in here.backend.cluster_state.registry.named.values()
        for tracked in gang.pods()
        if tracked.holds
    }


def test_resources_that_users_invent_add_no_rows() -> None:
    here = begun()
    here.hear("pods", pod("first"))
    here.step()
    before = rows(here)
    for at in range(50):
        here.hear("pods", asking(f"waits-{at}", f"example.com/{at}"))
        here.hear("pods", asking(f"runs-{at}", f"example.org/{at}", gpus=0, on="n1", phase="Running"))
    here.hear("pods", pod("last"))
    assert [each.name for each in here.step()] == ["last"]
    assert rows(here) == before


@pytest.mark.parametrize("remembered", [0, 4096])
def test_a_pod_says_which_resource_no_node_has_and_starts_once_one_has_it(
    remembered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_names, "MISSING_MAX", remembered)
    here = begun()
    here.hear("pods", asking("widget", "example.com/widget"))
    here.step()
    reported = "A pod asks for example.com/widget, which no node has: leave it out of its resources."
    assert reported in str(status_of(here.reported()))
    has = node("n2")
    has.status.allocatable["example.com/widget"] = "1"
    here.hear("nodes", has)
    assert [(each.name, each.node) for each in here.step()] == [("widget", "n2")]


def test_a_pod_that_runs_goes_on_when_a_node_states_the_resource() -> None:
    here = begun()
    here.hear("pods", asking("widget", "example.com/widget", on="n1", start=1, devices="0", phase="Running"))
    here.step()
    start = here.control.cluster.jobs["team/pod-widget"].started_s
    has = node("n1", gpus=8)
    has.status.allocatable["example.com/widget"] = "1"
    here.hear("nodes", has)
    here.hear("pods", asking("widget", "example.com/widget", on="n1", start=1, devices="0", phase="Running"))
    assert here.step() == []
    assert bound(here) == {"widget"}
    assert here.control.cluster.jobs["team/pod-widget"].started_s == start


def test_host_ports_that_users_choose_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_names, "HOST_PORTS_MAX", 8)
    here = begun()
    for at in range(20):
        here.hear("pods", with_port(f"p-{at:02}", 80, f"10.0.0.{at}"))
    here.hear("pods", pod("last"))
    assert [each.name for each in here.step()] == ["last"]
    assert sum(name.startswith("hostport/") for name in here.control.cluster.rows.names) == 8
    assert here.backend.cluster_state.registry.named["team/pod-p-06"].reported_gate is None
    gate = here.backend.cluster_state.registry.named["team/pod-p-07"].reported_gate
    reported = "A pod asks for hostport/TCP/80/10.0.0.7, and pods may use 8 different host ports in a cluster"
    assert gate == f"{reported}: use one that other pods use, or none."

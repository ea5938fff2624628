"""A deleted pod group and the pods that it leaves behind on nodes."""

from typing import Any

import pytest
from tests.unit.kubernetes.small_world import job, maker, node, project, reference
from tests.unit.kubernetes.state.owners.pod_groups import gang_of, group, member
from tests.unit.kubernetes.state.workloads.test_left_objects import read, written
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.api.changes import ObjectRemoved
from weir.kubernetes.state.owners import scheduling_groups
from weir.kubernetes.writes.operations import Evict, UpsertWorkload

NAME = "team/podgroup-train"
SERVE = maker("ReplicaSet", "apps/v1", "serve", "s1", {"replicas": 2})


def site() -> tuple[Scene, dict[str, Any]]:
    """Return a group of two running replicas, and the object of its workload."""
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    here.hear("owners", SERVE)
    here.hear("podgroups", group(spec=gang_of(2)))
    for at in range(2):
        where = {"on": "n1", "start": 1, "devices": str(at), "phase": "Running"}
        here.hear("pods", member(f"p{at}", owner=reference(SERVE), **where))
    body = written(here, {})
    here.hear("workloads", read(body))
    here.step()
    here.backend.deliver("podgroups")([ObjectRemoved("team/train", "g-train")])
    here.step()
    return here, body


def test_pods_that_run_need_no_pods_that_a_deleted_group_keeps_from_starting() -> None:
    here, _ = site()
    here.gone("p1")
    here.hear("pods", member("p2", owner=reference(SERVE)))
    writes = [each for _ in range(5) for each in here.step(3600.0)]
    assert not [each for each in writes if isinstance(each, Evict)]
    assert set(here.control.cluster.jobs) == {NAME, "team/replicaset-serve"}
    assert here.control.cluster.jobs["team/replicaset-serve"].held_why == "Its PodGroup train isn't there."


def test_the_object_of_a_workload_that_goes_with_its_group_isnt_made_again() -> None:
    here, body = site()
    here.reported()
    here.backend.deliver("workloads")([ObjectRemoved(NAME, body["metadata"].get("uid", ""))])
    writes: list[Any] = []
    for _ in range(10):
        here.step(60.0)
        writes += here.reported()
    assert not [each for each in writes if isinstance(each, UpsertWorkload)]


def test_a_member_of_another_scheduler_that_a_deleted_group_loses_is_noticed() -> None:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    here.hear("owners", job("train", "j1", 2))
    here.hear("podgroups", group(spec=gang_of(2)))
    where = {"on": "n1", "start": 1, "devices": "0", "phase": "Running"}
    here.hear("pods", member("p0", owner=("train", "j1"), **where))
    here.hear("pods", member("p1", owner=("train", "j1"), scheduler="other", on="n1", phase="Running"))
    here.step()
    here.backend.deliver("podgroups")([ObjectRemoved("team/train", "g-train")])
    here.step()
    assert not here.control.cluster.jobs[NAME].is_below()
    here.gone("p1")
    here.step()
    assert here.backend.cluster_state.registry.named[NAME].needed == 2


@pytest.mark.parametrize("is_there", [True, False], ids=["object there", "object gone"])
def test_pods_that_a_deleted_group_left_stay_one_workload_when_weir_starts_again(is_there: bool) -> None:
    """The owners of the pods need more pods than the group did."""
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    here.hear("owners", job("a", "j1", 3), job("b", "j2", 3))
    if is_there:
        here.hear("workloads", read(site()[1]))
    for at, owner in enumerate((("a", "j1"), ("b", "j2"))):
        where = {"on": "n1", "start": 1, "devices": str(at), "phase": "Running"}
        here.hear("pods", member(f"p{at}", owner=owner, **where))
    writes: list[Any] = [each for _ in range(5) for each in here.step(3600.0)]
    assert not [each for each in writes if isinstance(each, Evict)]
    assert set(here.control.cluster.jobs) == {NAME}
    assert here.phases() == ["RUNNING"] * 2
    assert not [each for each in here.reported() if isinstance(each, UpsertWorkload)]
    here.gone("p0")
    here.gone("p1")
    here.step()
    assert not here.backend.cluster_state.registry.gangs


def test_a_group_made_again_leaves_no_workload_of_a_pod_that_succeeded() -> None:
    here, _ = site()
    for at in range(2):
        here.hear("pods", member(f"p{at}", owner=reference(SERVE), on="n1", phase="Succeeded"))
    here.step()
    here.hear("podgroups", group(spec=gang_of(2), uid="g-again"))
    here.step()
    assert {key.uid for key in here.backend.cluster_state.registry.gangs} == {"g-again"}


def test_of_a_maker_only_the_groups_that_are_there_are_remembered() -> None:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    here.hear("owners", SERVE)
    for at in range(4):
        here.hear("podgroups", group(spec=gang_of(1), uid=f"g{at}"))
        here.hear("pods", member("p", owner=reference(SERVE), on="n1", phase="Running"))
        here.step()
        here.backend.deliver("podgroups")([ObjectRemoved("team/train", f"g{at}")])
        here.step()
    here.hear("podgroups", group(spec=gang_of(1), uid="g-last"))
    here.step()
    assert here.backend.cluster_state.resolver.groups.made_by(["s1"]) == {"g-last"}


def test_of_many_groups_with_makers_the_latest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling_groups, "MADE_MAX", 3)
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    for at in range(8):
        here.hear("owners", job(f"train{at}", f"j{at}"))
        here.hear("podgroups", group(f"train{at}", spec=gang_of(1)))
        here.hear("pods", member(f"p{at}", f"train{at}", owner=(f"train{at}", f"j{at}")))
        here.step()
    groups = here.backend.cluster_state.resolver.groups
    assert groups.made_by([f"j{at}" for at in range(8)]) == {f"g-train{at}" for at in (5, 6, 7)}

"""The contract of the backend port: one suite for the local, the simulated and the Kubernetes backend."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.control.port import PodExited, PodRunning, StartPod, WorkloadSubmitted
from weir.state.events import NodeSet, Nominated, QueuesSet, WorkloadOutcome

from .worlds import ClusterWorld, LocalWorld, SimulatedWorld, World

WORLDS = {"local": LocalWorld, "simulated": SimulatedWorld, "kubernetes": ClusterWorld}


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = WORLDS[request.param](tmp_path / "home")
    try:
        yield made
    finally:
        made.close()


def runs(world: World, name: str, pods: int) -> None:
    world.step_until(lambda: len(world.running(name)) == pods)


def succeeds(world: World, name: str) -> None:
    world.finish(name)
    world.step_until(lambda: world.recorded.ends(world.name(name)))
    (end,) = world.recorded.ends(world.name(name))
    assert end.how is WorkloadOutcome.SUCCEEDED


def test_a_gang_runs_on_devices_of_its_own_and_succeeds_once(world: World) -> None:
    world.submit("gang", pods=2)
    runs(world, "gang", 2)
    assert len({device for devices in world.running("gang").values() for device in devices}) == 2
    succeeds(world, "gang")
    world.step_often()
    assert len(world.recorded.ends(world.name("gang"))) == 1
    assert not world.running("gang")
    assert not world.control.cluster.jobs


def test_no_pod_of_a_gang_starts_before_all_fit(world: World) -> None:
    world.submit("first", pods=2)
    runs(world, "first", 2)
    world.submit("gang", pods=3)
    world.step_often()
    assert not world.running("gang")
    succeeds(world, "first")
    runs(world, "gang", 3)


def test_a_gang_with_a_failed_pod_is_completed_by_new_starts(world: World) -> None:
    world.submit("gang", pods=2)
    runs(world, "gang", 2)
    before = world.running("gang")
    world.fail("gang")
    world.step_until(lambda: world.running("gang").keys() - before.keys() and len(world.running("gang")) == 2)
    starts = [effect.start for effect in world.recorded.effects if isinstance(effect, StartPod)]
    assert len(starts) == len(set(starts)) > 2
    succeeds(world, "gang")


def test_borrowed_devices_go_back_to_their_owner(world: World) -> None:
    for name in ("train0", "train1"):
        world.submit(name, devices=2)
        runs(world, name, 1)
    world.submit("owner", devices=2, project="other")
    runs(world, "owner", 1)
    assert len(world.running("train0")) + len(world.running("train1")) == 1
    succeeds(world, "owner")
    for name in ("train0", "train1"):
        runs(world, name, 1)


def test_a_restart_of_the_scheduler_changes_nothing_that_runs(world: World) -> None:
    world.submit("gang", pods=2)
    world.submit("other", project="other")
    runs(world, "gang", 2)
    runs(world, "other", 1)
    before = world.running("gang"), world.running("other")
    world.restart()
    world.step_often()
    assert (world.running("gang"), world.running("other")) == before
    assert not any(isinstance(effect, StartPod) for effect in world.recorded.effects)
    succeeds(world, "gang")
    succeeds(world, "other")


def test_the_first_facts_tell_everything_in_order(world: World) -> None:
    world.submit("gang", pods=2)
    runs(world, "gang", 2)
    world.submit("large", devices=4)
    world.step_often()
    world.restart()
    world.control.step()
    facts = world.recorded.facts
    kinds = [type(fact) for fact in facts]
    assert {NodeSet, QueuesSet} <= set(kinds)
    submitted = [fact.workload.name for fact in facts if isinstance(fact, WorkloadSubmitted)]
    assert sorted(submitted) == sorted([world.name("gang"), world.name("large")])
    running = [at for at, fact in enumerate(facts) if isinstance(fact, PodRunning)]
    assert len(running) == 2
    assert facts[running[0]].place.pod.workload == world.name("gang")
    assert kinds.index(WorkloadSubmitted) < running[0]
    assert PodExited not in kinds
    world.control.step()
    assert all(not isinstance(fact, WorkloadSubmitted) for fact in world.recorded.facts[len(facts) :])


def test_a_nomination_outlives_a_restart(world: World) -> None:
    world.submit("train", devices=4)
    runs(world, "train", 1)
    world.slow_stops = True
    world.step_often()
    world.submit("owner", devices=2, project="other")
    world.step_until(lambda: world.control.cluster.nominated)
    world.step_often()
    world.restart()
    world.step_often()
    assert any(isinstance(fact, Nominated) for fact in world.recorded.facts)
    assert [*world.control.cluster.nominated] == [world.name("owner")]
    world.slow_stops = False
    runs(world, "owner", 1)
    assert not world.control.cluster.nominated


def test_effects_that_are_repeated_do_no_harm(world: World) -> None:
    world.repeats = world.recorded.repeats = True
    world.submit("gang", pods=2)
    runs(world, "gang", 2)
    world.step_often()
    assert len(world.running("gang")) == 2
    world.submit("owner", devices=4, project="other")
    world.submit("second", devices=2, project="other")
    runs(world, "second", 1)
    world.fail("gang")
    world.step_often()
    runs(world, "gang", 2)
    succeeds(world, "gang")
    succeeds(world, "second")
    runs(world, "owner", 1)
    succeeds(world, "owner")

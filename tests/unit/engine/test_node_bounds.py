"""Bounds on what it costs to free devices of a node: few nodes are searched, and the cheapest is chosen."""

from typing import NamedTuple

import pytest

from weir.engine.cache import EngineCache
from weir.engine.cheapest_node import CheapestNode
from weir.engine.cycle import decide
from weir.scenario_io.reading import parse_scenario
from weir.simulation.initial_events import build_cluster

NODES = 12
WORLD = """
cluster: {{nodes: [{{name: "n[00-{last:02}]", gpus: {gpus}, cpu: {cpu}, memory: 64Gi, gpu_memory: 16Gi}}]}}
policy: {{preset: {preset}, consolidation: {{enabled: false}}, price: {{restart: 200}}}}
projects: [{{name: owner, quota: {{gpu: 99}}}}, {{name: lender, quota: {{gpu: 0}}}}]
workloads:
{running}
- {{name: asks, project: owner, pods: [{{{asks}}}]}}
"""


class World(NamedTuple):
    """Equal nodes with the workloads that run on them, and the request of a reclaiming pod."""

    running: list[str]
    asks: str
    nodes: int = NODES
    gpus: int = 1
    cpu: int = 64
    preset: str = "balanced"

    def stopped(self, cache: EngineCache) -> set[str]:
        """Return the workloads that the first decision stops."""
        text = WORLD.format(**{**self._asdict(), "running": "\n".join(self.running)}, last=self.nodes - 1)
        scenario = parse_scenario(text, "world")
        plan = decide(build_cluster(scenario), scenario.policy, 0.0, cache)
        return {eviction.pod.workload for eviction in plan.evictions}


def runs(name: str, node: int, gpus: list[int], asks: str, *, minutes: int, submitted_h: int = 9) -> str:
    """Return a borrower that runs on these devices, since some minutes."""
    return (
        f"- {{name: {name}, project: lender, submitted: -{submitted_h}h, started: -{minutes}m, "
        f"pods: [{{{asks}, placed: [{{node: n{node:02}, gpus: {gpus}}}]}}]}}"
    )


def searched(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[set[str], int]:
    """Return the stopped workloads, and the number of nodes that were searched for them."""
    looks = 0
    look_into = CheapestNode._look_into

    def counted(search: CheapestNode, *given: object) -> bool:
        nonlocal looks
        looks += 1
        return look_into(search, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(CheapestNode, "_look_into", counted)
    return world.stopped(EngineCache()), looks


ALONE = [runs(f"half-{at}", at, [0], "gpus: 0.5", minutes=60 + (at + 5) % NODES) for at in range(NODES)]
PAIRS = [*ALONE, *(runs(f"other-{at}", at, [0], "gpus: 0.5", minutes=61 + at % 3) for at in range(NODES))]
WHOLE = [runs(f"whole-{at}", at, [0], "gpus: 1", minutes=60 + (at + 5) % NODES) for at in range(NODES)]


@pytest.mark.parametrize(
    ("running", "asks", "stopped"),
    [
        (ALONE, "gpus: 1", {"half-7"}),
        (PAIRS, "gpus: 1", {"half-7", "other-7"}),
        (WHOLE, "gpus: 0.5", {"whole-7"}),
        (PAIRS, "gpus: 0.3", {"half-7"}),
        (PAIRS, "gpu_memory: 10Gi", {"half-7", "other-7"}),
    ],
)
def test_one_node_is_searched_where_devices_are_shared(
    running: list[str], asks: str, stopped: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert searched(World(running, asks), monkeypatch) == (stopped, 1)


def test_device_that_others_hold_a_part_of_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    protected = [
        f"- {{name: own-{at}, project: owner, submitted: -9h, started: -9h, "
        f"pods: [{{gpus: 0.5, placed: [{{node: n{at:02}, gpus: [0]}}]}}]}}"
        for at in range(NODES - 1)
    ]
    world = World([*ALONE, *protected], "gpus: 1")
    assert searched(world, monkeypatch) == ({f"half-{NODES - 1}"}, 1)


def test_victims_of_several_shared_devices_are_bounded_by_the_cheapest() -> None:
    """The price of a pod with parts of two devices may be below zero, and others beside it need not go."""
    both = runs("both", 0, [0, 1], "gpus: 0.5, devices: 2", minutes=6)
    beside = [runs(f"beside-{at}", 0, [at], "gpus: 0.5", minutes=60 + at) for at in range(2)]
    world = World(
        [both, *beside, runs("far", 1, [0, 1], "gpus: 2", minutes=180)], "gpus: 1", nodes=2, gpus=2, preset="fair"
    )
    assert world.stopped(EngineCache()) == world.stopped(EngineCache(bounds=False))


def test_of_equal_prices_that_round_down_the_youngest_goes() -> None:
    running = [
        runs("older", 0, [0, 1], "gpus: 2", minutes=60, submitted_h=9),
        runs("younger", 1, [0, 1], "gpus: 2", minutes=60, submitted_h=8),
    ]
    world = World(running, "gpus: 2", nodes=2, gpus=2, preset="fair")
    assert world.stopped(EngineCache()) == {"younger"}


def test_victims_that_free_cores_as_well_may_cost_less_together() -> None:
    """Prices below zero add up: two victims that are both needed for their cores cost less than another."""
    running = [
        runs("first", 0, [0, 1], "gpus: 2, cpu: 4", minutes=6),
        runs("second", 0, [2, 3], "gpus: 2, cpu: 4", minutes=6),
        runs("other", 1, [0, 1, 2], "gpus: 3, cpu: 8", minutes=6),
    ]
    world = World(running, "gpus: 2, cpu: 8", nodes=2, gpus=4, cpu=8, preset="fair")
    assert world.stopped(EngineCache(bounds=False)) == {"first", "second"}
    assert world.stopped(EngineCache()) == {"first", "second"}

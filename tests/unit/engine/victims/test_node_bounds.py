"""Bounds on what it costs to free devices of a node: few nodes are searched, and the cheapest is chosen."""

from typing import NamedTuple

import pytest
from tests.unit.engine.spying import needs_sources

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.victims.cheapest_node import CheapestNode
from weir.engine.victims.victim_candidates import EligibleVictims
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


def _owned(asks: str, nodes: int) -> list[str]:
    """Return workloads that are within their quota, one on each of the first nodes."""
    owned = [runs(f"own-{index}", index, [0], asks, minutes=540) for index in range(nodes)]
    return [workload.replace("lender", "owner") for workload in owned]


def _borrowed(asks: str) -> list[str]:
    """Return borrowers, one on each node, the cheapest of which is on node 7."""
    return [
        runs(f"borrower-{index}", index, [0], asks, minutes=60 + (index + 5) % NODES)
        for index in range(NODES)
    ]


ALONE = _borrowed("gpus: 0.5")
PAIRS = [
    *ALONE,
    *(runs(f"other-{index}", index, [0], "gpus: 0.5", minutes=61 + index % 3) for index in range(NODES)),
]
WHOLE = _borrowed("gpus: 1")


@needs_sources
@pytest.mark.parametrize(
    ("running", "asks", "stopped"),
    [
        (ALONE, "gpus: 1", {"borrower-7"}),
        (PAIRS, "gpus: 1", {"borrower-7", "other-7"}),
        (WHOLE, "gpus: 0.5", {"borrower-7"}),
        (PAIRS, "gpus: 0.3", {"borrower-7"}),
        (PAIRS, "gpu_memory: 10Gi", {"borrower-7", "other-7"}),
    ],
)
def test_one_node_is_searched_where_devices_are_shared(
    running: list[str], asks: str, stopped: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert searched(World(running, asks), monkeypatch) == (stopped, 1)


@needs_sources
def test_device_that_others_hold_a_part_of_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([*ALONE, *_owned("gpus: 0.5", NODES - 1)], "gpus: 1")
    assert searched(world, monkeypatch) == ({f"borrower-{NODES - 1}"}, 1)


def test_victims_that_share_several_devices_may_cost_less_together() -> None:
    """Each of the two seems to free four devices. Neither does alone, and both prices are below zero."""
    both = [runs(f"both-{index}", 0, [0, 1, 2, 3], "gpus: 0.5, devices: 4", minutes=6) for index in range(2)]
    running = [*both, runs("other", 1, [0, 1, 2, 3], "gpus: 4", minutes=15)]
    world = World(running, "gpus: 1", nodes=2, gpus=4, preset="fair")
    assert world.stopped(EngineCache()) == {"both-0", "both-1"}


@needs_sources
def test_reclaim_of_a_part_that_no_node_can_free_looks_for_no_victims(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = []
    monkeypatch.setattr(EligibleVictims, "find", lambda victims: looks.append(victims) or {})
    world = World([*_owned("gpus: 0.7", NODES), *_borrowed("gpus: 0.3")], "gpus: 0.5")
    assert (world.stopped(EngineCache()), looks) == (set(), [])


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

"""A search that fell short of victims is repeated when a checkpoint makes other work cheap to move."""

import pytest
from tests.unit.engine.spying import needs_sources

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.engine.preemption.preemption_attempts import PreemptionAttempts
from weir.scenario_io.reading import parse_scenario
from weir.simulation.initial_events import build_cluster
from weir.state.cluster import Cluster
from weir.state.events import Checkpointed
from weir.state.reduce import reduce

WORLD = """
cluster: {nodes: [{name: n0, gpus: 2}, {name: n1, gpus: 2}]}
projects: [{name: team, quota: {gpu: 9}}, {name: other, quota: {gpu: 9}}]
policy: {consolidation: {budget: 5000}, price: {restart: 2000}MORE}
workloads:
- {name: moves, project: other, submitted: -9h, pods: [{gpus: 1, placed: [{node: n0}]}]}
- {name: stays, project: other, preemptible: false, submitted: -9h, pods: [{gpus: 1, placed: [{node: n1}]}]}
- {name: wide, project: team, pods: [{gpus: 2}]}
"""


class Searches:
    """A cluster with a pending workload, and the number of searches for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, added: str = "", world: str = WORLD) -> None:
        scenario = parse_scenario(world.replace("MORE", added), "world")
        self.policy = scenario.policy
        self.cluster: Cluster = build_cluster(scenario)
        self.cache = EngineCache()
        self.count = 0
        first_success = PreemptionAttempts.first_success

        def counted(attempts: PreemptionAttempts, *given: object, **named: object) -> object:
            self.count += 1
            return first_success(attempts, *given, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(PreemptionAttempts, "first_success", counted)

    def decide(self, now_s: float, saved: str | None = None) -> tuple[Plan, int]:
        """Return the plan after a checkpoint, and the searches that it took."""
        if saved is not None:
            reduce(self.cluster, Checkpointed(saved, now_s))
        before = self.count
        plan = decide(self.cluster, self.policy, now_s, self.cache)
        return plan, self.count - before


@needs_sources
def test_no_search_follows_a_checkpoint_that_makes_nothing_cheap_to_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = Searches(monkeypatch)
    assert [searches.decide(0.0)[1], searches.decide(60.0, "stays")[1], searches.decide(120.0)[1]] == [
        1,
        0,
        0,
    ]


@needs_sources
def test_a_checkpoint_of_work_that_may_move_lets_a_request_search_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = Searches(monkeypatch)
    assert not searches.decide(0.0)[0].acts
    plan, count = searches.decide(60.0, "moves")
    assert count == 1
    assert [(eviction.pod.workload, eviction.moves) for eviction in plan.evictions] == [("moves", True)]


@needs_sources
def test_a_checkpoint_on_a_node_that_can_never_free_enough_lets_none_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = WORLD.replace("name: n1, gpus: 2", "name: n1, gpus: 3")
    searches = Searches(
        monkeypatch, world=world.replace("project: team, pods: [{gpus: 2", "project: team, pods: [{gpus: 3")
    )
    assert [searches.decide(0.0)[1], searches.decide(60.0, "moves")[1]] == [1, 0]


@needs_sources
def test_a_checkpoint_of_work_in_its_minimum_run_time_lets_none_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = Searches(monkeypatch, ", min_runtime: {train: 10h}")
    assert not searches.decide(0.0)[0].acts
    assert searches.decide(60.0, "moves")[1] == 0
    plan, _ = searches.decide(3600.0, "moves")
    assert [eviction.pod.workload for eviction in plan.evictions] == ["moves"], "its time has passed"


@needs_sources
def test_without_bounds_every_request_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = Searches(monkeypatch)
    searches.cache = EngineCache(bounds=False)
    assert [searches.decide(0.0)[1], searches.decide(60.0, "stays")[1]] == [1, 1]

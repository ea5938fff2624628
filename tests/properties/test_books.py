"""Charges and releases of a cycle equal its plan, and limits hold where work swaps."""

import pytest
from hypothesis import given

from weir.engine import transaction
from weir.engine.cache import EngineCache
from weir.engine.cycle import Cycle
from weir.engine.plan import Plan
from weir.engine.transaction import Accounting
from weir.scenario_io.reading import parse_scenario
from weir.simulation.scenario_runner import ScenarioRunner

from . import invariants
from .budget import examples
from .cluster_view import differs
from .device_worlds import weighted_worlds
from .model_bound_worlds import REPACKING, model_bound_worlds, swapping_worlds
from .random_cluster import CHANGING, POLICIES, ROUGH, World, worlds
from .running import Running
from .test_policies import answer

RECLAIM = """
cluster: {nodes: [{name: n, gpus: 2}]}
projects: [{name: borrower}, {name: owner, quota: {gpu: 2}}]
workloads:
- {name: borrowed, project: borrower, pods: [{gpus: 2, placed: [{node: n}]}]}
- {name: owns, project: owner, pods: [{gpus: 2}]}
"""


def audit(running: Running) -> None:
    """Have the books of every plan compared with it."""

    def look(plan: Plan) -> None:
        cycle = Cycle(running.cluster, running.world.policy, running.now_s, EngineCache())
        assert not differs(answer(plan), answer(cycle.run()))
        invariants.books_agree(running.cluster, plan, cycle._accounting)

    running.before(look)


@examples(24)
@given(
    worlds(happens=ROUGH, topology=True, rules=True, policies=(*POLICIES, *REPACKING))
    | weighted_worlds(happens=CHANGING)
    | model_bound_worlds(happens=ROUGH, topology=True)
)
def test_the_engine_charges_what_its_plans_say(world: World) -> None:
    running = Running(world)
    audit(running)
    for _ in running.run():
        pass
    running.submit()
    running.settle(6)


@examples(24)
@given(swapping_worlds())
def test_swaps_are_charged_and_stay_within_limits(world: World) -> None:
    running = Running(world)
    running.learn_run_times()
    audit(running)
    for _ in running.run():
        invariants.nothing_is_overcommitted(running.cluster)
        invariants.limits_hold(running.cluster)


@pytest.mark.skipif(
    not transaction.__file__.endswith(".py"), reason="methods of compiled classes can't be replaced"
)
@pytest.mark.parametrize("change", ["start", "release"])
def test_a_change_of_usage_that_is_forgotten_ends_the_cycle(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = ScenarioRunner(parse_scenario(RECLAIM, "world"))
    monkeypatch.setattr(Accounting, change, lambda *_: None)
    with pytest.raises(AssertionError, match=r"charged, .* in the plan"):
        runner.cycle()

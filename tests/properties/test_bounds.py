"""Bounds spare searches that would find nothing: plans are the same without any, whatever shares devices."""

from hypothesis import given
from hypothesis import strategies as st

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.policy import Policy

from .budget import examples
from .cluster_view import differs
from .random_cluster import POLICIES, ROUGH, World, weighted_worlds, worlds
from .running import Running
from .test_policies import answer

CHEAP_TO_MOVE = tuple(
    Policy.model_validate({**policy.model_dump(), "price": {"restart": 200}})
    for policy in POLICIES
    if policy.consolidation.enabled
)
"""Policies under which moves are within the budget for a while, and later no more."""


@examples(12)
@given(
    st.one_of(
        worlds(happens=ROUGH, policies=(*POLICIES, *CHEAP_TO_MOVE)),
        worlds(happens=ROUGH, policies=CHEAP_TO_MOVE, deep=False, limits=False),
        worlds(happens=ROUGH, policies=CHEAP_TO_MOVE, topology=True, rules=True),
        weighted_worlds(happens=ROUGH, policies=(*POLICIES, *CHEAP_TO_MOVE)),
    )
)
def test_plans_are_the_same_without_bounds(world: World) -> None:
    running = Running(world)

    def look(plan: Plan) -> None:
        searched = decide(running.cluster, world.policy, running.now_s, EngineCache(bounds=False))
        assert not differs(answer(plan), answer(searched))

    running.before(look)
    for _ in running.run():
        pass
    running.submit()
    running.settle(6)

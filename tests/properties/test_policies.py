"""Deciding writes nothing into the cluster, and no policy leaves a trace for the next."""

from hypothesis import given

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.policy import Policy

from .budget import examples
from .cluster_view import differs
from .facts import facts
from .random_cluster import CHANGING, POLICIES, World, worlds
from .running import Running, replayed

TURNS = (
    *POLICIES,
    Policy.model_validate({"price": {"restart": 0}}),
    Policy.model_validate({"price": {"restart": 50_000, "size_credit": 0}, "victim_policy": "lowest_cost"}),
)
PARTS = ("binds", "evictions", "nominations", "drops", "blocked", "wake_s")


def answer(plan: Plan) -> dict[str, object]:
    """Return what a plan says, by name."""
    return {name: getattr(plan, name) for name in PARTS}


@examples(8)
@given(worlds(happens=CHANGING, topology=True, rules=True))
def test_deciding_writes_nothing_into_the_cluster(world: World) -> None:
    running = Running(world)

    def look(plan: Plan) -> None:
        before = facts(running.cluster)
        assert answer(decide(running.cluster, world.policy, running.now_s, EngineCache())) == answer(plan)
        assert facts(running.cluster) == before

    running.before(look)
    for _ in running.run():
        pass


@examples(8)
@given(worlds(happens=CHANGING, topology=True))
def test_a_policy_decided_under_before_changes_nothing(world: World) -> None:
    """Compare one cache under all policies in turn with fresh caches and, every other time, a fresh cluster."""
    running = Running(world)
    shared = EngineCache()

    def look(plan: Plan) -> None:
        turn = len(running.plans)
        for policy in (TURNS[turn % len(TURNS)], world.policy):
            with_history = decide(running.cluster, policy, running.now_s, shared)
            fresh = replayed(running.journal) if turn % 2 else running.cluster
            alone = decide(fresh, policy, running.now_s, EngineCache())
            assert not differs(answer(with_history), answer(alone))

    running.before(look)
    for _ in running.run():
        pass

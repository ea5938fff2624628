"""Invariants over random worlds, checked after every step."""

from hypothesis import given

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.policy import Policy

from . import invariants
from .budget import examples
from .cluster_view import differs, picture
from .device_worlds import weighted_worlds
from .model_bound_worlds import model_bound_worlds
from .random_cluster import (
    CHANGING,
    ROUGH,
    Does,
    World,
    plain_worlds,
    worlds,
)
from .running import Running, replayed

REPLAYED_EACH = 3
"""Share of the plans that are recomputed from the whole journal: the longer it is, the more that costs."""


@examples(36)
@given(worlds() | weighted_worlds() | model_bound_worlds())
def test_capacity_limits_quotas_and_gangs_hold(world: World) -> None:
    running = Running(world)
    for does, _ in running.run():
        invariants.nothing_is_overcommitted(running.cluster)
        invariants.limits_hold(running.cluster)
        invariants.fixed_work_is_in_quota(running.cluster)
        if does is Does.CYCLE:
            invariants.gangs_are_whole(running.cluster)


@examples(24)
@given(worlds(happens=ROUGH, topology=True) | model_bound_worlds(happens=ROUGH, topology=True))
def test_capacity_limits_and_quotas_hold_whatever_breaks(world: World) -> None:
    running = Running(world)
    for _ in running.run():
        invariants.nothing_is_overcommitted(running.cluster)
        invariants.limits_hold(running.cluster)
        invariants.fixed_work_is_in_quota(running.cluster)


@examples(24)
@given(worlds(happens=ROUGH, topology=True))
def test_no_pod_is_stopped_against_a_rule_or_without_need(world: World) -> None:
    running = Running(world)
    running.before(lambda plan: invariants.plan_is_sound(running.cluster, plan))
    for _ in running.run():
        pass


@examples(32)
@given(worlds(happens=ROUGH, topology=True, rules=True))
def test_no_pod_is_placed_against_its_affinity(world: World) -> None:
    running = Running(world)
    running.before(lambda plan: invariants.pod_rules_hold(running.cluster, plan))
    for _ in running.run():
        invariants.nothing_is_overcommitted(running.cluster)
    running.submit()
    running.settle(6)


@examples(16)
@given(
    worlds(
        happens=ROUGH, policies=(Policy(gang_grace=30), Policy(preset="fair", gang_grace=30)), limits=False
    )
)
def test_no_gang_runs_below_its_minimum_for_longer_than_the_grace(world: World) -> None:
    running = Running(world)
    for _ in running.run():
        pass
    running.cycle()
    running.now_s += 30 + 2 * world.tick_s
    for _ in range(max(world.stops_after) + 1):
        running.cycle()
    held = {job.spec.name for job in running.cluster.jobs.values() if job.held}
    invariants.gangs_are_whole(running.cluster, broken=held)


@examples(24)
@given(worlds(happens=CHANGING, topology=True) | worlds(rules=True) | weighted_worlds() | plain_worlds())
def test_what_it_remembers_and_where_it_began_change_nothing(world: World) -> None:
    running = Running(world)
    running.before(lambda plan: _is_decided_alike(running, plan))
    for _ in running.run():
        pass
    running.submit()
    running.settle(6)


def _is_decided_alike(running: Running, plan: Plan) -> None:
    policy, now_s = running.world.policy, running.now_s
    before = picture(running.cluster)
    empty = decide(running.cluster, policy, now_s, EngineCache())
    assert not differs(before, picture(running.cluster)), "deciding changed the cluster"
    assert not differs(_says(plan), _says(empty)), "an empty memory decides otherwise"
    if len(running.plans) % REPLAYED_EACH:
        return
    again = decide(replayed(running.journal), policy, now_s, EngineCache())
    assert not differs(_says(plan), _says(again)), "the same facts are decided otherwise"


def _says(plan: Plan) -> dict[str, object]:
    return {
        name: getattr(plan, name)
        for name in ("binds", "evictions", "nominations", "drops", "blocked", "wake_s")
    }

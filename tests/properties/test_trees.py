"""Whatever becomes of the quota tree between cycles, nothing keeps positions of queues of a former one."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.model.queues import Queue
from weir.state.events import QueuesSet

from . import invariants
from .budget import examples
from .cluster_view import differs, picture
from .random_cluster import ROUGH, World, worlds
from .running import Running, replayed


def another_tree(queues: Sequence[Queue], used: set[str], chance: Random) -> tuple[Queue, ...]:
    """Return a tree with queues moved, left out, added and in another order; projects in use stay."""
    kept = [queue for queue in queues if queue.name in used or chance.random() < 0.6]
    kept += [
        Queue(f"new-{index}", None, chance.random() < 0.7, {"gpu": 1000 * chance.randrange(4)})
        for index in range(chance.randrange(3))
    ]
    chance.shuffle(kept)
    departments: list[Queue] = []
    for queue in kept:
        if not queue.is_project:
            above = chance.choice([None, *(department.name for department in departments)])
            departments.append(replace(queue, parent=above))
    projects = [
        replace(queue, parent=chance.choice([None, *(department.name for department in departments)]))
        for queue in kept
        if queue.is_project
    ]
    return (*departments, *projects)


@examples(13)
@given(worlds(happens=ROUGH, topology=True), st.integers(0, 1 << 30))
def test_a_tree_that_changes_between_cycles_leaves_nothing_of_the_one_before(world: World, seed: int) -> None:
    running, chance = Running(world), Random(seed)

    def is_decided_alike(plan: object) -> None:
        empty = decide(running.cluster, world.policy, running.now_s, EngineCache())
        for name in ("binds", "evictions", "nominations", "drops", "blocked", "wake_s"):
            assert not differs(getattr(plan, name), getattr(empty, name)), name

    running.before(is_decided_alike)
    for _ in running.run():
        used = {job.spec.project for job in running.cluster.jobs.values()}
        used |= {workload.project for workload in running.to_come}
        if chance.random() < 0.5:
            running.tell(QueuesSet(another_tree(world.queues, used, chance)))
            positions = set(range(len(running.cluster.ledger.queues)))
            assert set(running.cluster.waiting_of) <= positions
            assert set(running.cluster.running) <= positions
            running.cycle()
        invariants.nothing_is_overcommitted(running.cluster)
    assert not differs(picture(running.cluster), picture(replayed(running.journal)))

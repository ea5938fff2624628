"""Nominations end: capacity that was freed for a workload is used by it, or it is given up."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from weir.engine.allocation.nominations import BLOCKED_S
from weir.engine.explanation.pending_reasons import pending_reason
from weir.model.reasons import ReasonCode
from weir.state.events import NodeSet

from .budget import examples
from .random_cluster import CHANGING, Does, World, altered, worlds
from .running import Running, pods_of

CYCLES = 30


def alter_nominated(running: Running, which: int) -> None:
    """Alter a node on which capacity is nominated, if there is any."""
    nominated = [pod for job in running.cluster.nominated.values() for pod in pods_of(job) if pod.nomination]
    if nominated:
        index, _ = nominated[which % len(nominated)].nomination or (0, ())
        running.tell(NodeSet(altered(running.world.nodes[index], 1 + which % 4)))


@examples(60)
@given(worlds(happens=(*CHANGING, Does.ALTER), rules=True, topology=True), st.integers(0, 20))
def test_a_nomination_ends_soon_after_the_last_stop(world: World, which: int) -> None:
    running = Running(world)
    for _ in running.run():
        alter_nominated(running, which)
    running.submit()
    cluster, cycles = running.cluster, Counter[str]()
    for _ in range(CYCLES):
        plan = running.cycle()
        jobs = [] if running.going else list(cluster.nominated.values())
        kept = {job.name: job for job in jobs if job.absent_since_s is None}
        cycles = Counter({name: cycles[name] + 1 for name in kept})
        for name, job in kept.items():
            assert cycles[name] <= BLOCKED_S / world.tick_s + 2, f"{name} is nominated for ever"
            reason = pending_reason(cluster, world.policy, job, running.now_s)
            assert reason is not None
            if not job.held:
                assert reason.why is ReasonCode.WAITING_FOR_EVICTION
        if cycles and max(cycles.values()) > 1:
            assert plan.wake_s is not None, f"{kept} wait for an event that may never come"

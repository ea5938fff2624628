"""Last evictions: the run that they lost, counted until the pods are gone."""

from tests.unit.kubernetes.small_world import WatchProgress, job, node, pod, project

from weir.kubernetes.crd.objects import LastEviction
from weir.kubernetes.state.gangs.gang import Gang
from weir.kubernetes.writes.statuses.last_evictions import LastEvictions
from weir.model.reasons import EvictionCause, EvictionRule

CAUSE = EvictionCause(EvictionRule.RECLAIM_QUOTA, "team/other", "stopped for another")
START_S = 1000.0


class Site:
    """A gang of two pods with two GPUs each, which have run since the same moment."""

    def __init__(self) -> None:
        self.here = WatchProgress()
        self.here.see("projects", project("team", gpus=8))
        self.here.see("nodes", node("n1"))
        self.here.see("owners", job("train", "j-1", pods=2))
        for at in range(2):
            self.see(f"p{at}")
        self.here.step()
        self.gang: Gang = self.here.cluster_state.registry.named["team/job-train"]
        for each in self.gang.pods():
            each.at_s = START_S
        self.evictions = LastEvictions(self.here.cluster_state.node_states)

    def see(self, name: str) -> None:
        made = pod(name, owner=("train", "j-1"), gpus=2, on="n1", devices="0,1", start=1, phase="Running")
        self.here.see("pods", made)

    def stop(self, at_s: float, pods: int = 2) -> None:
        for tracked in list(self.gang.pods())[:pods]:
            self.evictions.stops(self.gang, tracked, CAUSE, at_s)

    def lost(self) -> object:
        words = self.evictions.last_eviction(self.gang)
        return None if words is None else words.get("lostGpuSeconds")


def test_a_gang_loses_its_run_since_it_started_or_saved() -> None:
    site = Site()
    assert site.lost() is None
    site.stop(START_S + 100.0)
    assert site.lost() == 2 * 2 * 100.0
    site = Site()
    site.gang.checkpointed_s = START_S + 70.0
    site.stop(START_S + 100.0)
    assert site.lost() == 2 * 2 * 30.0


def test_pods_that_stop_alone_lose_their_own_run() -> None:
    site = Site()
    site.stop(START_S + 100.0, pods=1)
    assert site.lost() == 2 * 100.0


def test_what_is_saved_until_the_pods_are_gone_isnt_lost_and_what_comes_later_doesnt_count() -> None:
    site = Site()
    site.gang.checkpointed_s = START_S + 20.0
    site.stop(START_S + 100.0)
    assert site.lost() == 2 * 2 * 80.0
    site.gang.checkpointed_s = START_S + 103.0
    assert site.lost() == 0.0
    site = Site()
    site.stop(START_S + 100.0)
    for at in range(2):
        site.here.gone("pods", f"team/p{at}", f"u-p{at}")
        site.see(f"q{at}")
    site.here.step()
    assert site.lost() == 400.0
    site.gang.checkpointed_s = START_S + 500.0
    assert site.lost() == 400.0


def test_a_later_eviction_counts_by_itself() -> None:
    site = Site()
    site.stop(START_S + 100.0)
    site.stop(START_S + 150.0, pods=1)
    assert site.lost() == 300.0


def test_the_object_of_a_workload_keeps_it_over_a_restart() -> None:
    site = Site()
    last = LastEviction("2026-01-31T12:00:00Z", "preempt", "s", lost_gpu_seconds=7.5)
    site.evictions.restore(site.gang, last)
    assert site.lost() == 7.5
    site.stop(START_S + 100.0)
    assert site.lost() == 400.0
    site.evictions.drop(site.gang)
    assert site.lost() is None

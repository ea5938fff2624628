"""A stop that a backend couldn't carry out: the victim runs on, and its beneficiary chooses again."""

from weir.control.port import (
    LifecycleCause,
    LifecycleRule,
    PodExit,
    PodExited,
    ReleaseNomination,
    StopPod,
)
from weir.engine.plan import Eviction, NominatedPods, Plan
from weir.model.reasons import EvictionCause, EvictionRule
from weir.state.events import Nominated, Placement, PodKey, StopRefused, WorkloadSuspended
from weir.state.jobs import Phase

from .harness import Scene, gang

POD = PodKey("job", 0, 0)
PLAN = Plan(
    evictions=[Eviction(POD, EvictionCause(EvictionRule.RECLAIM_QUOTA, "owner", "for owner"))],
    nominations=[NominatedPods("owner", (Placement(PodKey("owner", 0, 0), "node", (0,)),), ("job",))],
)
REFUSED = StopRefused(POD, 1.0, "Cannot evict pod.", "owner")


def stopped() -> Scene:
    """Return a scene in which a pod is being evicted for an owner, which has a nomination for its capacity."""
    scene = Scene(gang("job", 1), gang("owner", 1))
    scene.starts("job", 1)
    (stop, _) = scene.step(plan=PLAN)
    assert isinstance(stop, StopPod)
    return scene


def test_refusal_withdraws_the_promise_and_lets_the_victim_run_on() -> None:
    scene = stopped()
    cluster = scene.control.cluster
    assert "owner" in cluster.nominated
    assert scene.step(REFUSED, at_s=1.0) == [ReleaseNomination("owner")]
    assert not cluster.nominated
    assert cluster.jobs["job"].pods[0][0].phase is Phase.RUNNING
    assert cluster.jobs["job"].started_s == 0.0
    assert not cluster.releasing_on
    assert [note.workload for note in scene.notes] == ["owner"]


def test_a_repeated_refusal_or_one_of_a_pod_that_does_not_stop_changes_nothing() -> None:
    scene = stopped()
    scene.step(REFUSED, at_s=1.0)
    assert scene.step(REFUSED, at_s=2.0) == []
    assert scene.step(StopRefused(PodKey("gone", 0, 0), 2.0), at_s=2.0) == []
    assert scene.control.cluster.jobs["job"].pods[0][0].phase is Phase.RUNNING


def test_an_old_refusal_keeps_what_a_newer_plan_has_nominated() -> None:
    scene = stopped()
    scene.step(REFUSED, at_s=1.0)
    other = Plan(nominations=[NominatedPods("owner", (Placement(PodKey("owner", 0, 0), "node", (1,)),))])
    scene.step(plan=other, at_s=2.0)
    assert scene.step(REFUSED, at_s=3.0) == []
    assert "owner" in scene.control.cluster.nominated


def test_a_suspended_workload_stops_although_its_eviction_is_refused() -> None:
    scene = stopped()
    assert scene.step(WorkloadSuspended("job", True, "by its owner"), at_s=1.0) == []
    (stop,) = [effect for effect in scene.step(REFUSED, at_s=2.0) if isinstance(effect, StopPod)]
    assert (stop.pod, stop.start) == (POD, 1)
    assert isinstance(stop.cause, LifecycleCause)
    assert stop.cause.rule is LifecycleRule.SUSPENDED
    assert scene.control.cluster.jobs["job"].pods[0][0].phase is Phase.STOPPING


def test_a_gang_stops_as_a_whole_although_the_eviction_of_a_pod_is_refused() -> None:
    scene = Scene(gang("job", 2), gang("owner", 1))
    scene.starts("job", 2)
    scene.step(plan=PLAN)
    scene.step(PodExited(PodKey("job", 0, 1), 2, PodExit.FAILED, 1.0, code=1), at_s=1.0)
    (stop,) = [effect for effect in scene.step(REFUSED, at_s=2.0) if isinstance(effect, StopPod)]
    assert isinstance(stop.cause, LifecycleCause)
    assert (stop.pod, stop.cause.rule) == (POD, LifecycleRule.GANG_FAILED)


def test_refused_move_gives_its_new_place_back() -> None:
    scene = Scene(gang("job", 1), gang("owner", 1))
    scene.starts("job", 1)
    plan = Plan(
        PLAN.binds, PLAN.evictions, [*PLAN.nominations, NominatedPods("job", (Placement(POD, "node", (5,)),))]
    )
    scene.step(plan=plan)
    assert scene.step(REFUSED, at_s=1.0) == [ReleaseNomination("job"), ReleaseNomination("owner")]
    assert not scene.control.cluster.nominated
    assert Nominated not in {type(effect) for effect in scene.effects}

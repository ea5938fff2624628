"""The life of workloads: a few facts, and what came of them."""

from weir.control.port import (
    CancelRequested,
    Effect,
    EndWorkload,
    KeepSuspension,
    LifecycleCause,
    LifecycleRule,
    PodExit,
    PodExited,
    PodRunning,
    ReserveNomination,
    SaveProgress,
    StartPod,
    StatusRecovered,
    StopPod,
    WorkloadProgress,
)
from weir.engine.plan import Eviction, NominatedPods, Plan
from weir.model.policy import LifecyclePolicy
from weir.model.reasons import EvictionCause, EvictionRule
from weir.state.events import Checkpointed, Nominated, Placement, PodKey, WorkloadOutcome, WorkloadSuspended

from .harness import Scene, gang

TAKEN = EvictionCause(EvictionRule.RECLAIM_QUOTA, "other", "other is entitled to it")


def test_gang_succeeds_when_all_its_pods_are_done() -> None:
    """A pod that is done waits for the others: the gang ends together."""
    scene = Scene(gang())
    starts = scene.starts("job", 2)
    first, second = scene.exits(starts, PodExit.DONE)
    assert scene.step(first, at_s=10.0) == []
    assert scene.step(second, at_s=20.0) == [
        EndWorkload(
            "job",
            WorkloadOutcome.SUCCEEDED,
            0.0,
            "",
            ran_s=0.0,
            started_s=0.0,
            first_started_s=0.0,
            exit_code=0,
        )
    ]
    assert not scene.control.cluster.jobs


def test_failed_pod_stops_the_others_and_the_gang_starts_again_after_a_pause() -> None:
    """A failure is the gang's, once, however many of its pods say so."""
    scene = Scene(gang(), rules=LifecyclePolicy(pause_first=10.0))
    first, second = starts = scene.starts("job", 2)
    (stop,) = scene.step(PodExited(first, starts[first], PodExit.FAILED, 5.0), at_s=5.0)
    assert isinstance(stop, StopPod)
    assert stop.pod == second
    assert isinstance(stop.cause, LifecycleCause)
    assert stop.cause.rule is LifecycleRule.GANG_FAILED
    (status,) = scene.step(PodExited(second, starts[second], PodExit.STOPPED, 6.0), at_s=6.0)
    assert status == SaveProgress(
        "job",
        WorkloadProgress(
            starts=2,
            settled=2,
            failures=1,
            ran_s=0.0,
            retry_at_s=16.0,
            restarts=1,
            wall_s=6.0,
            first_started_s=0.0,
        ),
    )
    assert "failed" in scene.job_holds("job")
    assert scene.control.wakes_s == 16.0
    scene.step(at_s=16.0)
    assert scene.job_holds("job") == ""


def test_pauses_double_until_it_has_failed_too_often() -> None:
    """No workload fails for ever."""
    scene = Scene(gang(pods=1), rules=LifecyclePolicy(max_failures=2, pause_first=10.0))
    pauses = []
    for _ in range(2):
        starts = scene.starts("job")
        (status,) = scene.step(*scene.exits(starts, PodExit.FAILED))
        assert isinstance(status, SaveProgress)
        assert status.status.retry_at_s is not None
        pauses.append(status.status.retry_at_s - scene.now_s)
        scene.step(at_s=status.status.retry_at_s)
    assert pauses == [10.0, 20.0]
    (end,) = scene.step(*scene.exits(scene.starts("job"), PodExit.FAILED))
    assert isinstance(end, EndWorkload)
    assert end.how is WorkloadOutcome.FAILED


def test_saved_state_forgives_earlier_failures() -> None:
    """A checkpoint between two failures resets their count."""
    scene = Scene(gang(pods=1), rules=LifecyclePolicy(max_failures=1))
    for at_s in (100.0, 1000.0, 2000.0):
        scene.step(at_s=at_s)
        starts = scene.starts("job")
        scene.step(Checkpointed("job", at_s + 50), at_s=at_s + 50)
        (status,) = scene.step(*scene.exits(starts, PodExit.FAILED), at_s=at_s + 60)
        assert isinstance(status, SaveProgress)
        assert status.status.failures == 1


def test_evicted_workload_waits_again_with_the_run_it_saved() -> None:
    """Being stopped for someone else is no failure, whatever the process then says."""
    scene = Scene(gang(pods=1))
    starts = scene.starts("job")
    (pod,) = starts
    scene.step(Checkpointed("job", 40.0), at_s=40.0)
    (stop,) = scene.step(gang("waiting", 1), at_s=50.0, plan=Plan(evictions=[Eviction(pod, TAKEN)]))
    assert stop == StopPod(pod, starts[pod], 30.0, TAKEN)
    (status,) = scene.step(*scene.exits(starts, PodExit.STOPPED), at_s=55.0)
    assert status == SaveProgress(
        "job", WorkloadProgress(starts=1, settled=1, ran_s=40.0, restarts=1, wall_s=50.0, first_started_s=0.0)
    )
    job = scene.control.cluster.jobs["job"]
    assert job.ran_s == 40.0
    assert not job.held


def test_done_before_the_notice_arrived_is_done() -> None:
    """An exit on its way when the stop was ordered still counts: it doesn't run twice."""
    scene = Scene(gang(pods=1), gang("waiting", 1))
    starts = scene.starts("job")
    (pod,) = starts
    scene.step(plan=Plan(evictions=[Eviction(pod, TAKEN)]))
    (end,) = scene.step(*scene.exits(starts, PodExit.DONE))
    assert isinstance(end, EndWorkload)
    assert end.how is WorkloadOutcome.SUCCEEDED


def test_exit_of_an_earlier_start_means_nothing() -> None:
    """Facts come late and twice."""
    scene = Scene(gang(pods=1))
    before = scene.starts("job")
    scene.step(*scene.exits(before, PodExit.LOST))
    after = scene.starts("job")
    assert scene.step(*scene.exits(before, PodExit.FAILED), *scene.exits(before, PodExit.DONE)) == []
    assert scene.control.cluster.jobs["job"].placed == [1]
    assert [*after.values()] == [2]


def lose(
    scene: Scene, starts: dict[PodKey, int], at_s: float, *, own: bool = True, why: str = ""
) -> list[Effect]:
    """Have starts end as lost, at a time."""
    scene.now_s = at_s
    facts = (PodExited(pod, start, PodExit.LOST, at_s, why, own_loss=own) for pod, start in starts.items())
    return scene.step(*facts)


def test_losses_in_a_row_are_followed_by_growing_pauses() -> None:
    """A job that ends its own supervisor isn't started again as fast as the machine can."""
    scene = Scene(gang(pods=1))
    wakes = []
    for at_s in (1.0, 2.0, 13.0):
        lose(scene, scene.starts("job"), at_s)
        wakes.append(scene.control.wakes_s)
        scene.step(at_s=wakes[-1] or at_s)
    assert wakes == [None, 12.0, 33.0]


def test_pause_between_losses_says_why_the_last_start_was_lost() -> None:
    scene = Scene(gang(pods=1))
    for at_s in (1.0, 2.0):
        lose(scene, scene.starts("job"), at_s, why="Its directory /data is gone.")
    assert scene.job_holds("job") == (
        "it was lost several times in a row and is started again after a pause. The last time: its directory "
        "/data is gone"
    )


def test_workload_that_is_lost_after_many_of_the_longest_pauses_is_suspended_and_can_be_resumed() -> None:
    """Each try may evict other work, and a person has to bring its files back."""
    scene = Scene(gang(pods=1), rules=LifecyclePolicy(pause_first=10.0, max_pause=40.0, max_failures=5))
    at_s, losses = 0.0, 0
    kept: list[KeepSuspension] = []
    while not kept and losses < 100:
        losses += 1
        effects = lose(scene, scene.starts("job"), at_s, why="Its program /data/train was not found.")
        kept = [effect for effect in effects if isinstance(effect, KeepSuspension)]
        at_s = scene.control.wakes_s or at_s
        scene.step(at_s=at_s)
    why = "it was lost 40 times in a row. The last time: its program /data/train was not found"
    assert kept == [KeepSuspension("job", why)]
    assert scene.job_holds("job") == why
    scene.step(at_s=at_s + 10_000.0)
    assert scene.job_holds("job") == why
    scene.step(WorkloadSuspended("job", False), at_s=at_s + 10_001.0)
    lose(scene, scene.starts("job"), at_s + 10_002.0)
    assert scene.job_holds("job") == ""


def test_losses_of_a_pod_beside_one_that_runs_are_followed_by_growing_pauses() -> None:
    """A pod whose program is gone isn't started as fast as the machine can while the others run."""
    scene = Scene(gang())
    first, second = starts = scene.starts("job", 2)
    wakes = []
    for at_s in (1.0, 2.0, 13.0, 5000.0):
        lose(scene, {second: starts[second]}, at_s)
        wakes.append(scene.control.wakes_s)
        assert bool(scene.job_holds("job")) == (wakes[-1] is not None)
        scene.step(at_s=wakes[-1] or at_s)
        assert scene.job_holds("job") == ""
        bound = scene.step(plan=Plan(binds=[Placement(second, "node", (1,))]))
        (starts[second],) = [effect.start for effect in bound if isinstance(effect, StartPod)]
    assert wakes == [None, 12.0, 33.0, None]
    assert scene.control.cluster.jobs["job"].placed == [2]
    assert starts[first] == 1


def test_pods_that_are_lost_together_are_one_loss() -> None:
    """A reboot of the machine ends all pods of a gang."""
    scene = Scene(gang(pods=8))
    wakes = []
    for at_s in (1.0, 2.0, 13.0):
        lose(scene, scene.starts("job", 8), at_s)
        wakes.append(scene.control.wakes_s)
        scene.step(at_s=wakes[-1] or at_s)
    assert wakes == [None, 12.0, 33.0]
    assert [note.numbers["losses"] for note in scene.notes if note.kind == "retry"] == [2, 3]


def test_losses_by_the_cluster_make_no_pause() -> None:
    """A pod that was deleted, or a binding that was refused, is its backend's to pace."""
    scene = Scene(gang(pods=1))
    for at_s in (1.0, 2.0, 3.0):
        lose(scene, scene.starts("job"), at_s, own=False)
        assert scene.control.wakes_s is None


def test_loss_after_a_long_run_or_another_end_begins_the_count_again() -> None:
    """Only short runs in a row make a pause: a node that goes once a day costs none."""
    scene = Scene(gang(pods=1))
    for at_s in (1000.0, 2000.0, 3000.0):
        lose(scene, scene.starts("job"), at_s)
        assert scene.control.wakes_s is None
    (pod,) = starts = scene.starts("job")
    scene.step(plan=Plan(evictions=[Eviction(pod, TAKEN)]))
    scene.step(*scene.exits(starts, PodExit.STOPPED), at_s=3001.0)
    lose(scene, scene.starts("job"), 3002.0)
    assert scene.control.wakes_s is None


def test_maximum_run_time_ends_a_workload() -> None:
    """The run it kept from before counts."""
    scene = Scene(gang(max_runtime_s=100.0))
    starts = scene.starts("job", 2)
    assert scene.control.wakes_s == 100.0
    stops = scene.step(at_s=100.0)
    assert [type(stop) for stop in stops] == [StopPod, StopPod]
    (end,) = scene.step(*scene.exits(starts, PodExit.STOPPED))
    assert isinstance(end, EndWorkload)
    assert end.how is WorkloadOutcome.STOPPED
    assert "1m40s" in end.sentence


def test_withdrawn_while_waiting_ends_at_once() -> None:
    """Nothing has to be stopped."""
    scene = Scene(gang())
    (end,) = scene.step(CancelRequested("job", 3.0))
    assert isinstance(end, EndWorkload)
    assert end.how is WorkloadOutcome.STOPPED


def test_suspended_workload_stops_and_isnt_started_until_it_is_resumed() -> None:
    """Suspending keeps what was saved."""
    scene = Scene(gang(pods=1))
    starts = scene.starts("job")
    (stop,) = scene.step(WorkloadSuspended("job", True, "by ann"))
    assert isinstance(stop, StopPod)
    scene.step(*scene.exits(starts, PodExit.STOPPED))
    assert scene.job_holds("job") == "by ann"
    scene.step(WorkloadSuspended("job", False))
    assert scene.job_holds("job") == ""


def test_elastic_pod_isnt_started_once_others_are_done() -> None:
    """A workload that is finishing doesn't grow."""
    scene = Scene(gang(pods=3, least=2))
    starts = scene.starts("job", 2)
    first, second = scene.exits(starts, PodExit.DONE)
    scene.step(first)
    assert "done" in scene.job_holds("job")
    (end,) = scene.step(second)
    assert isinstance(end, EndWorkload)
    assert end.how is WorkloadOutcome.SUCCEEDED


def test_restarted_control_finds_everything_again() -> None:
    """Pods that run, a pod that exited meanwhile, capacity kept, and a workload that pauses."""
    runs = PodRunning(Placement(PodKey("job", 0, 0), "node", (0,)), 3, 10.0)
    exited = PodRunning(Placement(PodKey("done", 0, 0), "node", (1,)), 1, 10.0)
    kept = Nominated("waiting", (Placement(PodKey("waiting", 0, 0), "node", (2,)),), 20.0)
    scene = Scene(
        gang("job", 1),
        StatusRecovered("job", WorkloadProgress(starts=3)),
        runs,
        gang("done", 1),
        StatusRecovered("done", WorkloadProgress(starts=1)),
        exited,
        PodExited(PodKey("done", 0, 0), 1, PodExit.DONE, 15.0),
        gang("waiting", 1),
        kept,
        gang("failed", 1),
        StatusRecovered("failed", WorkloadProgress(starts=1, settled=1, failures=1, retry_at_s=60.0)),
    )
    assert scene.step(at_s=30.0) == [
        EndWorkload(
            "done",
            WorkloadOutcome.SUCCEEDED,
            15.0,
            "",
            5.0,
            10.0,
            None,
            5.0,
            first_started_s=10.0,
            exit_code=0,
        )
    ]
    cluster = scene.control.cluster
    assert [*cluster.nominated] == ["waiting"]
    assert cluster.jobs["job"].started_s == 10.0
    assert scene.job_holds("failed")
    assert scene.control.wakes_s == 60.0
    (pod,) = cluster.jobs["job"].running_pods()
    assert pod.devices == (0,)
    scene.step(PodExited(runs.place.pod, 3, PodExit.LOST, 40.0), at_s=40.0)
    assert scene.starts("job") == {runs.place.pod: 4}


def test_a_pause_that_another_clock_wrote_down_is_no_longer_than_the_rules_allow() -> None:
    scene = Scene(
        gang("failed", 1),
        StatusRecovered("failed", WorkloadProgress(starts=1, settled=1, failures=1, retry_at_s=1e10)),
    )
    scene.step(at_s=30.0)
    wakes_s = scene.control.wakes_s
    assert wakes_s is not None
    assert wakes_s <= 30.0 + scene.control.policy.life.max_pause


def test_stops_are_ordered_before_the_capacity_they_free_is_reserved_and_starts_come_last() -> None:
    """Breaking off after any of these effects loses nothing."""
    scene = Scene(gang("victim", 1), gang("asker", 1), gang("third", 1))
    (victim,) = scene.starts("victim")
    asker, third = PodKey("asker", 0, 0), PodKey("third", 0, 0)
    plan = Plan(
        binds=[Placement(third, "node", (5,))],
        evictions=[Eviction(victim, TAKEN)],
        nominations=[NominatedPods("asker", (Placement(asker, "node", (0,)),), ("victim",))],
    )
    effects = scene.step(plan=plan)
    assert [type(effect) for effect in effects] == [StopPod, ReserveNomination, StartPod]


def test_hold_releases_its_nomination() -> None:
    """Capacity isn't reserved for what may not start."""
    scene = Scene(gang("asker", 1))
    place = Placement(PodKey("asker", 0, 0), "node", (0,))
    scene.step(plan=Plan(nominations=[NominatedPods("asker", (place,))]))
    assert scene.control.cluster.nominated
    scene.step(WorkloadSuspended("asker", True, "by ann"))
    assert not scene.control.cluster.nominated


def test_what_would_end_the_same_way_is_not_tried_again() -> None:
    scene = Scene(gang(), rules=LifecyclePolicy(max_failures=5))
    first, second = scene.starts("job", 2).items()
    answer = "It ended with exit code 127."
    scene.step(PodExited(*first, PodExit.FAILED, 3.0, answer, code=127, final=True), at_s=3.0)
    (end,) = scene.step(PodExited(*second, PodExit.STOPPED, 4.0), at_s=4.0)
    assert isinstance(end, EndWorkload)
    assert (end.how, end.exit_code, end.wall_s) == (WorkloadOutcome.FAILED, 127, 4.0)
    assert end.cause is not None
    assert end.cause.rule is LifecycleRule.FAILED_FOR_GOOD


def test_wall_time_of_earlier_runs_survives_a_restart_of_control() -> None:
    facts = (
        gang(pods=1),
        StatusRecovered("job", WorkloadProgress(starts=2, settled=2, wall_s=100.0, first_started_s=-500.0)),
        PodRunning(Placement(PodKey("job", 0, 0), "node", (0,)), 3, 10.0),
    )
    scene = Scene(*facts)
    scene.step(at_s=20.0)
    (end,) = scene.step(PodExited(PodKey("job", 0, 0), 3, PodExit.DONE, 30.0), at_s=30.0)
    assert isinstance(end, EndWorkload)
    assert (end.wall_s, end.first_started_s, end.started_s) == (120.0, -500.0, 10.0)

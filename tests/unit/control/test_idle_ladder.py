"""The idle ladder in control: its rungs, what leads back to the ground, and what restarts and clocks do to it."""

from dataclasses import replace

import pytest

from weir.control.idle_ladder import UNMEASURED_S_MAX, idle_rules
from weir.control.port import (
    ActivitySampled,
    EndWorkload,
    IdleExcused,
    IdleProgress,
    KeepSuspension,
    LifecycleCause,
    LifecycleRule,
    PodExit,
    PodRunning,
    SaveProgress,
    StatusRecovered,
    StopPod,
    UtilizationSampled,
)
from weir.engine.plan import Eviction, Plan
from weir.model.activity import Activity
from weir.model.policy import DurationByType, LifecyclePolicy
from weir.model.queues import QueueTimeLimits
from weir.model.reasons import EvictionCause, EvictionRule
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.events import Placement, PodKey, WorkloadChanged, WorkloadSubmitted

from .harness import Scene, gang

STOPS = LifecyclePolicy(
    idle_limit=DurationByType(train=1200.0), idle_warning=DurationByType(train=240.0), max_idle_extend=7200.0
)
LADDER = LifecyclePolicy(
    idle_notice=DurationByType(train=120.0),
    idle_unprotect=DurationByType(train=600.0),
    idle_suspend=DurationByType(train=1200.0),
    idle_warning=DurationByType(train=240.0),
)
UNTIL_ENDED = ["idle_warning", "idle_warning", "idle"]


def goes_on(
    scene: Scene, until_s: float, activity: Activity | None = Activity.PARKED, every_s: float = 60.0
) -> list[StopPod]:
    """The workload is measured again and again; the stops that came of it."""
    stops = []
    while scene.now_s < until_s:
        now_s = scene.now_s + every_s
        effects = scene.step(ActivitySampled("job", activity, now_s), at_s=now_s)
        stops += [effect for effect in effects if isinstance(effect, StopPod)]
    return stops


def kinds(scene: Scene) -> list[str]:
    """Return the kinds of notes for people, in order."""
    return [note.kind for note in scene.notes]


def saved(scene: Scene) -> IdleProgress:
    """The position on the ladder that was stored last."""
    return [effect.status.idle for effect in scene.effects if isinstance(effect, SaveProgress)][-1]


def test_stop_follows_two_notices_and_the_time_that_the_last_one_names() -> None:
    scene = Scene(gang(pods=2), rules=STOPS)
    starts = scene.starts("job", 2)
    assert goes_on(scene, 600.0) == []
    assert kinds(scene) == []
    assert goes_on(scene, 660.0) == []
    assert "idle for 10m" in scene.notes[0].sentence
    assert "stopped in 10m" in scene.notes[0].sentence
    assert "weir extend job" in scene.notes[0].sentence
    assert goes_on(scene, 1020.0) == []
    assert [note.at_s for note in scene.notes] == [660.0, 1020.0]
    assert scene.notes[1].numbers["left_s"] == 240.0
    assert goes_on(scene, 1200.0) == []
    stops = goes_on(scene, 1260.0)
    assert len(stops) == 2
    cause = stops[0].cause
    assert isinstance(cause, LifecycleCause)
    assert cause.rule is LifecycleRule.IDLE
    assert kinds(scene) == UNTIL_ENDED
    (end,) = scene.step(*scene.exits(starts, PodExit.STOPPED))
    assert isinstance(end, EndWorkload)
    assert "idle for 20m" in end.sentence


def test_use_alone_decides_where_a_backend_measures_no_more() -> None:
    scene = Scene(gang(pods=1), rules=STOPS)
    scene.starts("job")
    for at_s in range(60, 1261, 60):
        scene.step(UtilizationSampled("job", 0.01, float(at_s)), at_s=float(at_s))
    assert kinds(scene) == UNTIL_ENDED
    scene = Scene(gang(pods=1), rules=STOPS)
    scene.starts("job")
    for at_s in range(60, 1261, 60):
        scene.step(UtilizationSampled("job", 0.5, float(at_s)), at_s=float(at_s))
    assert kinds(scene) == []


def test_ladder_takes_its_rungs_in_order_and_suspends() -> None:
    scene = Scene(gang(pods=1), rules=LADDER)
    starts = scene.starts("job")
    goes_on(scene, 180.0)
    assert kinds(scene) == ["idle_warning"]
    goes_on(scene, 660.0)
    assert kinds(scene) == ["idle_warning", "protection_lost"]
    job = scene.control.cluster.jobs["job"]
    assert job.spec.unprotected
    assert list(scene.control.cluster.unprotected) == ["job"]
    stops = goes_on(scene, 1260.0)
    assert kinds(scene) == ["idle_warning", "protection_lost", "idle_warning", "idle_suspended"]
    assert len(stops) == 1
    assert KeepSuspension("job", "it was idle for 20m") in scene.effects
    assert scene.job_holds("job") == "it was idle for 20m"
    scene.step(*scene.exits(starts, PodExit.STOPPED))
    assert not job.spec.unprotected
    assert not scene.control.cluster.unprotected
    assert not saved(scene).unprotected


@pytest.mark.parametrize("activity", [Activity.WORKING, Activity.STARVED])
def test_work_and_hunger_for_data_lead_back_to_the_ground(activity: Activity) -> None:
    scene = Scene(gang(pods=1), rules=LADDER)
    scene.starts("job")
    goes_on(scene, 900.0)
    goes_on(scene, 960.0, activity)
    assert kinds(scene)[-1] == "protection_restored"
    assert not scene.control.cluster.jobs["job"].spec.unprotected
    told = len(scene.notes)
    assert goes_on(scene, 1080.0) == []
    assert len(scene.notes) == told


@pytest.mark.parametrize("activity", [Activity.UNKNOWN, None])
def test_unknown_time_neither_counts_nor_resets(activity: Activity | None) -> None:
    scene = Scene(gang(pods=1), rules=STOPS)
    scene.starts("job")
    goes_on(scene, 360.0)
    goes_on(scene, 7200.0, activity)
    assert kinds(scene) == []
    goes_on(scene, 7200.0 + 360.0)
    assert kinds(scene) == ["idle_warning"]


def test_gap_and_jump_of_the_clock_are_no_idle_time() -> None:
    scene = Scene(gang(pods=1), rules=STOPS)
    scene.starts("job")
    goes_on(scene, 360.0)
    for jump_s in (UNMEASURED_S_MAX + 1, 3600.0, 86400.0):
        now_s = scene.now_s + jump_s
        assert scene.step(ActivitySampled("job", Activity.PARKED, now_s), at_s=now_s) == []
    late = ActivitySampled("job", Activity.PARKED, 100.0)
    assert scene.step(late, ActivitySampled("no", Activity.PARKED, 1.0)) == []
    assert kinds(scene) == []


def test_idle_time_measured_before_the_state_was_certain_counts_once() -> None:
    scene = Scene(gang(pods=1), rules=STOPS)
    scene.starts("job")
    scene.step(ActivitySampled("job", Activity.PARKED, 300.0, quiet_s=300.0), at_s=300.0)
    scene.step(ActivitySampled("job", Activity.PARKED, 600.0, quiet_s=300.0), at_s=600.0)
    assert kinds(scene) == ["idle_warning"]


def test_position_survives_a_restart_of_control() -> None:
    scene = Scene(gang(pods=1), rules=LADDER)
    scene.starts("job")
    goes_on(scene, 660.0)
    kept = saved(scene)
    assert kept.unprotected
    later_s = 660.0 + 3600.0
    place = Placement(PodKey("job", 0, 0), "node", (0,))
    status = next(effect.status for effect in scene.effects if isinstance(effect, SaveProgress))
    again = Scene(gang(pods=1), rules=LADDER)
    again.step(StatusRecovered("job", status), PodRunning(place, status.starts, 0.0), at_s=later_s)
    assert again.control.cluster.jobs["job"].spec.unprotected
    assert goes_on(again, later_s + 300.0) == []
    assert kinds(again) == []
    goes_on(again, later_s + 480.0)
    assert kinds(again) == ["idle_warning"]
    assert len(goes_on(again, later_s + 720.0)) == 1


def test_idle_time_of_an_earlier_run_counts_no_more() -> None:
    scene = Scene(gang(pods=1), rules=STOPS)
    starts = scene.starts("job")
    goes_on(scene, 1140.0)
    scene.step(*scene.exits(starts, PodExit.LOST))
    scene.starts("job")
    assert goes_on(scene, 2280.0) == []


def test_extension_is_bounded_stored_and_pauses_the_ladder() -> None:
    scene = Scene(gang(pods=1), rules=STOPS)
    scene.starts("job")
    goes_on(scene, 900.0)
    scene.step(IdleExcused("job", 900.0 + 86400.0, 900.0, by="mia"))
    assert saved(scene).excused_until_s == 900.0 + 7200.0
    assert "mia extends job" in scene.notes[-1].sentence
    assert "2h" in scene.notes[-1].sentence
    assert goes_on(scene, 8100.0) == []
    assert kinds(scene) == ["idle_warning", "idle_extended"]
    goes_on(scene, 8100.0 + 660.0)
    assert kinds(scene)[-1] == "idle_warning"


def test_window_within_an_extension_is_no_idle_time() -> None:
    scene = Scene(gang(pods=1), rules=STOPS)
    scene.starts("job")
    scene.step(IdleExcused("job", 3600.0, 0.0, by="mia"))
    for at_s in (3590.0, 3610.0, 3900.0, 4190.0):
        scene.step(ActivitySampled("job", Activity.PARKED, at_s, quiet_s=300.0), at_s=at_s)
    assert kinds(scene) == ["idle_extended"]
    scene.step(ActivitySampled("job", Activity.PARKED, 4205.0, quiet_s=300.0), at_s=4205.0)
    assert kinds(scene) == ["idle_extended", "idle_warning"]


def test_extension_gives_protection_back() -> None:
    scene = Scene(gang(pods=1), rules=LADDER)
    scene.starts("job")
    goes_on(scene, 660.0)
    scene.step(IdleExcused("job", 4260.0, 660.0, why="indexing"))
    assert not scene.control.cluster.jobs["job"].spec.unprotected
    assert any("busy for 1h: indexing" in note.sentence for note in scene.notes)


def test_change_of_priority_keeps_the_loss_of_protection() -> None:
    scene = Scene(gang(pods=1), rules=LADDER)
    scene.starts("job")
    goes_on(scene, 660.0)
    group = PodGroup("worker", Request(devices=1), 1, 1)
    scene.step(WorkloadChanged(Workload("job", "team", (group,), 1, 0.0, priority=70), 660.0))
    spec = scene.control.cluster.jobs["job"].spec
    assert (spec.priority, spec.unprotected) == (70, True)


def test_workload_that_gave_way_as_idle_is_suspended_at_once() -> None:
    scene = Scene(gang(pods=1), gang("other", 1), rules=LADDER)
    starts = scene.starts("job")
    goes_on(scene, 660.0)
    cause = EvictionCause(EvictionRule.IDLE, "other", "stopped for other (idle)")
    effects = scene.step(plan=Plan(evictions=[Eviction(PodKey("job", 0, 0), cause)]))
    assert any(isinstance(effect, StopPod) for effect in effects)
    assert KeepSuspension("job", "it was idle, and its GPUs went to other") in effects
    scene.step(*scene.exits(starts, PodExit.STOPPED))
    assert scene.job_holds("job") == "it was idle, and its GPUs went to other"


def test_workload_without_devices_is_never_idle() -> None:
    scene = Scene(gang(pods=1, devices=0), rules=STOPS)
    scene.starts("job")
    assert goes_on(scene, 4000.0) == []
    assert kinds(scene) == []


@pytest.mark.parametrize(
    ("own", "project", "policy", "expected"),
    [
        (None, None, 0.0, None),
        (None, None, 60.0, 60.0),
        (30.0, None, 60.0, 30.0),
        (90.0, None, 60.0, 60.0),
        (None, 0.0, 60.0, None),
        (90.0, 0.0, 60.0, 90.0),
        (None, 50.0, 60.0, 50.0),
    ],
)
def test_project_replaces_the_policy_and_a_workload_asks_for_less(
    own: float | None, project: float | None, policy: float, expected: float | None
) -> None:
    submitted = gang()
    assert isinstance(submitted, WorkloadSubmitted)
    spec = replace(submitted.workload, idle_limit_s=own)
    rules = LifecyclePolicy(idle_limit=DurationByType(train=policy))
    assert idle_rules(spec, QueueTimeLimits(idle_limit_s=project), rules).stop_s == expected

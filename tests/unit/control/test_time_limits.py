"""Time rules: what is warned of, what is ended, and what is left alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.control.port import (
    EndWorkload,
    LifecycleCause,
    LifecycleRule,
    PodExit,
    PodExited,
    StartPod,
    StopPod,
)
from weir.control.time_limits import LimitTracker, limit_end, limit_warning, limits_of, next_check_s
from weir.engine.plan import Plan
from weir.model.policy import DurationByType, LifecyclePolicy, Policy
from weir.model.queues import Queue, QueueTimeLimits
from weir.model.workloads import PodGroup, Request, Workload, WorkloadType
from weir.state.cluster import Cluster
from weir.state.events import Placement, PodKey, QueuesSet, WorkloadSubmitted
from weir.state.reduce import reduce

from .harness import GROUND, Scene, gang


def kinds(scene: Scene) -> list[str]:
    """Return the kinds of notes for people, in order."""
    return [note.kind for note in scene.notes]


def test_build_session_is_warned_and_ended_with_its_lifetime() -> None:
    """By the clock, whether anything happens or not."""
    rules = LifecyclePolicy(lifetime=3600.0, lifetime_warning=600.0)
    scene = Scene(gang(pods=1, type=WorkloadType.BUILD), gang("other", 1), rules=rules)
    scene.starts("job")
    assert scene.control.wakes_s == 3000.0
    assert scene.step(at_s=3000.0) == []
    (warning,) = scene.notes
    assert (warning.kind, warning.numbers["left_s"]) == ("lifetime_warning", 600.0)
    assert scene.control.wakes_s == 3600.0
    (stop,) = scene.step(at_s=3600.0)
    assert isinstance(stop, StopPod)
    assert isinstance(stop.cause, LifecycleCause)
    assert stop.cause.rule is LifecycleRule.LIFETIME
    assert scene.control.wakes_s is None


def test_workload_whose_time_is_over_when_it_starts_is_started_before_it_is_stopped() -> None:
    """Effects are carried out in order: what isn't there can't be stopped."""
    waits = gang(pods=1)
    assert isinstance(waits, WorkloadSubmitted)
    scene = Scene(replace(waits, ran_s=100.0), rules=LifecyclePolicy(max_runtime=DurationByType(train=100.0)))
    effects = scene.step(plan=Plan(binds=[Placement(PodKey("job", 0, 0), "node", (0,))]))
    assert [type(effect) for effect in effects] == [StartPod, StopPod]


def test_rules_of_a_project_hold_from_the_moment_they_are_set() -> None:
    """For what runs already, too; a policy that changes likewise."""
    scene = Scene(gang(pods=1), gang("other", 1))
    scene.starts("job")
    assert scene.control.wakes_s is None
    scene.step(QueuesSet((Queue("team", times=QueueTimeLimits(max_runtime_s=500.0)),)), at_s=100.0)
    assert scene.control.wakes_s == 500.0
    scene.control.policy = Policy(life=LifecyclePolicy(max_runtime=DurationByType(train=300.0)))
    scene.step(QueuesSet((Queue("team"),)), at_s=200.0)
    assert scene.control.wakes_s == 300.0
    (stop,) = scene.step(at_s=300.0)
    assert isinstance(stop, StopPod)


def test_rule_that_is_lifted_ends_nothing() -> None:
    """A timer that was set for it means nothing any more."""
    scene = Scene(gang(pods=1), rules=LifecyclePolicy(max_runtime=DurationByType(train=300.0)))
    scene.starts("job")
    scene.control.policy = Policy()
    assert scene.step(at_s=300.0) == []
    assert scene.control.wakes_s is None


def test_grace_is_the_workloads_own_up_to_the_most() -> None:
    """Else its project's, else the policy's."""
    rules = LifecyclePolicy(stop_grace=30.0, max_stop_grace=100.0, max_runtime=DurationByType(train=10.0))
    project = QueuesSet((Queue("team", times=QueueTimeLimits(stop_grace_s=7.0)),))
    for grace_s, queues, expected_s in (
        (None, (), 30.0),
        (None, (project,), 7.0),
        (60.0, (), 60.0),
        (900.0, (), 100.0),
    ):
        scene = Scene(*queues, gang(pods=1, grace_s=grace_s), rules=rules)
        scene.starts("job")
        (stop,) = scene.step(at_s=10.0)
        assert isinstance(stop, StopPod)
        assert stop.grace_s == expected_s


def test_retries_are_the_workloads_own() -> None:
    """None at all: the first failure is the end, and says why."""
    scene = Scene(gang(pods=1, retries=0))
    (end,) = scene.step(*scene.exits(scene.starts("job"), PodExit.FAILED))
    assert isinstance(end, EndWorkload)
    assert end.cause is not None
    assert (end.cause.rule, end.cause.numbers) == (LifecycleRule.FAILED_OFTEN, {"failures": 1})


def test_every_failure_is_reported_with_the_time_of_the_next_start() -> None:
    """With the numbers."""
    scene = Scene(gang(pods=2))
    starts = scene.starts("job", 2)
    first, second = starts
    scene.step(PodExited(first, starts[first], PodExit.FAILED, 5.0), at_s=5.0)
    scene.step(PodExited(second, starts[second], PodExit.STOPPED, 6.0), at_s=6.0)
    assert kinds(scene) == ["gang_failed", "retry"]
    assert scene.notes[0].numbers == {"pod": "worker/0"}
    assert scene.notes[1].numbers == {"failures": 1, "retry_at_s": 16.0}
    assert PodKey("job", 0, 0) == first


@given(st.floats(0, 2e9), st.floats(1, 1e7), st.floats(0, 1e7), st.floats(0, 1e7), st.floats(1, 1e7))
def test_a_timer_never_comes_up_for_nothing(
    started_s: float, most_s: float, ran_s: float, warning_s: float, lifetime_s: float
) -> None:
    """However times are rounded: what is due is said, or control would look for ever."""
    spec = replace(BASE, type=WorkloadType.BUILD, max_runtime_s=most_s)
    cluster = Cluster()
    for event in (*GROUND, WorkloadSubmitted(replace(spec, project="team"), 0.0, ran_s)):
        reduce(cluster, event)
    job = cluster.jobs[spec.name]
    job.started_s = started_s
    rules = LifecyclePolicy(lifetime=lifetime_s, lifetime_warning=warning_s)
    limits, watch = limits_of(spec, QueueTimeLimits(), rules), LimitTracker()
    for _ in range(3):
        next_s = next_check_s(job, limits, watch)
        assert next_s is not None
        if limit_end(job, limits, next_s) is not None:
            return
        assert limit_warning(job, limits, watch, next_s) is not None
    pytest.fail("it never ends")


BASE = Workload("w", "p", (PodGroup("0", Request(devices=1)),), 1, 0.0)


@pytest.mark.parametrize(
    ("own", "project", "policy", "expected"),
    [
        (None, None, 0.0, None),
        (None, None, 60.0, 60.0),
        (None, 30.0, 60.0, 30.0),
        (None, 90.0, 60.0, 90.0),
        (None, 0.0, 60.0, None),
        (20.0, None, 60.0, 20.0),
        (80.0, None, 60.0, 60.0),
        (80.0, None, 0.0, 80.0),
        (0.0, None, 60.0, 60.0),
    ],
)
def test_who_says_what(
    own: float | None, project: float | None, policy: float, expected: float | None
) -> None:
    """The project before the policy; a workload may ask for less."""
    spec = replace(BASE, max_runtime_s=own)
    rules = LifecyclePolicy(max_runtime=DurationByType(train=policy))
    limits = limits_of(spec, QueueTimeLimits(max_runtime_s=project), rules)
    assert limits.max_runtime_s == expected
    assert limits.lifetime_s is None

"""Sixteen scripted workloads under many seeds each: what is found, and what is left alone.

WEIR_EFFORT multiplies the seeds.
"""

import os
from collections.abc import Callable
from random import Random

import pytest

from weir.control.activity import ActivityReading, ActivityWindow
from weir.control.idle_ladder import IdleRules, IdleStep, IdleTracker
from weir.model.activity import IDLE, Activity

from .activity_profiles import PROFILES, Profile

SEEDS = 20 * int(os.environ.get("WEIR_EFFORT", "1"))
WINDOW_S, BELOW = 300.0, 0.05
RULES = {
    "train": IdleRules(600.0, 1200.0, None, 1800.0, 300.0, BELOW),
    "build": IdleRules(600.0, 1200.0, 2400.0, None, 300.0, BELOW),
    "inference": IdleRules(1200.0, None, None, 3600.0, 600.0, BELOW),
}
ENDS = (IdleStep.SUSPEND, IdleStep.STOP)


def played(profile: Profile) -> tuple[list[tuple[float, ActivityReading]], list[tuple[float, IdleStep]]]:
    """Return the readings of a profile and the steps of its ladder, up to its end."""
    window, tracker, rules = ActivityWindow(), IdleTracker(), RULES[profile.type]
    readings, steps, run = [], [], 0
    for sample in profile.samples:
        while run < len(profile.run_ends_s) and sample.at_s >= profile.run_ends_s[run]:
            run, window = run + 1, ActivityWindow()
        tracker.begin_run(run)
        reading = window.add(sample, window_s=WINDOW_S, below=BELOW, interactive=profile.type == "build")
        readings.append((sample.at_s, reading))
        tracker.measure(reading.state, reading.quiet_s, sample.at_s)
        step = tracker.step(rules)
        if step is not None:
            steps.append((sample.at_s, step))
        if step in ENDS:
            break
    return readings, steps


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.__name__)
def test_busy_work_is_never_ended_and_an_end_follows_two_notices(
    profile: Callable[[Random], Profile],
) -> None:
    for seed in range(SEEDS):
        case = profile(Random(seed))
        _, steps = played(case)
        kinds = [step for _, step in steps]
        if case.idle_from_s is None:
            assert not {*kinds} & {*ENDS}, f"seed {seed}: {steps}"
        else:
            assert kinds[-1] in ENDS, f"seed {seed}: {steps}"
            assert kinds == [IdleStep.NOTICE, IdleStep.UNPROTECT, IdleStep.LAST_NOTICE, kinds[-1]]
            last_s, end_s = steps[-2][0], steps[-1][0]
            assert end_s - last_s >= 300.0


def test_abandoned_work_is_found_within_the_window_and_a_minute() -> None:
    in_time, late = 0, []
    for profile in PROFILES:
        for seed in range(SEEDS):
            case = profile(Random(seed))
            if case.idle_from_s is None:
                continue
            since_s = case.idle_from_s
            readings, _ = played(case)
            at_s = next(
                (at_s for at_s, reading in readings if at_s >= since_s and reading.state in IDLE), None
            )
            if at_s is not None and at_s - since_s <= WINDOW_S + 60:
                in_time += 1
            else:
                late.append((profile.__name__, seed, at_s))
            expected = Activity.LEFT if case.type == "build" else Activity.PARKED
            assert readings[-1][1].state is expected
    assert in_time >= 0.95 * (in_time + len(late)), late


def test_quiet_rank_of_eight_is_named_within_the_window_and_a_minute() -> None:
    (profile,) = (profile for profile in PROFILES if profile.__name__ == "idle_rank")
    for seed in range(SEEDS):
        case = profile(Random(seed))
        assert case.quiet_device is not None
        name, since_s = case.quiet_device
        readings, _ = played(case)
        assert {reading.state for _, reading in readings} == {Activity.WORKING}
        named = [at_s for at_s, reading in readings if reading.quiet_devices]
        assert all(reading.quiet_devices in ((), (name,)) for _, reading in readings)
        assert named[0] <= max(since_s, 0.0) + WINDOW_S + 60


def test_unmeasured_use_is_unknown_and_never_idle() -> None:
    (profile,) = (profile for profile in PROFILES if profile.__name__ == "mig")
    for seed in range(SEEDS):
        readings, steps = played(profile(Random(seed)))
        assert {reading.state for _, reading in readings} == {Activity.UNKNOWN}
        assert steps == []


def test_evaluation_download_and_stall_count_as_starved() -> None:
    names = ("five_hour_download", "compile_first", "preprocessing", "debugger", "shell_in_use")
    for profile in (made for made in PROFILES if made.__name__ in names):
        for seed in range(min(10, SEEDS)):
            readings, _ = played(profile(Random(seed)))
            states = [reading.state for _, reading in readings]
            assert states.count(Activity.STARVED) >= 0.3 * len(states), (profile.__name__, seed)
            assert not {*states} & IDLE

"""Headroom for sessions: learned by hour and weekday, bounded, and unmoved by single weeks."""

import random

import pytest

from weir.control.session_headroom import (
    AHEAD_S,
    TOGETHER_S,
    WEEK_S,
    WEEKS_MAX,
    LearnedHeadroom,
    SessionStart,
    learned_headroom,
)

NOW_S = 1_800_000_000.0


def starts(
    *of_weeks: int, at_s: float = 600.0, devices: float = 1.0, apart_s: float = 60.0
) -> list[SessionStart]:
    """Return this number of sessions in the coming hour of each past week, the last week first."""
    session_starts = [
        SessionStart(NOW_S - (week + 1) * WEEK_S + at_s + number * apart_s, devices)
        for week, count in enumerate(of_weeks)
        for number in range(count)
    ]
    return sorted(session_starts, key=lambda start: start.at_s)


def learned(
    session_starts: list[SessionStart], *, limit: int = 8, weeks: float = 9, now_s: float = NOW_S
) -> LearnedHeadroom:
    return learned_headroom(session_starts, now_s=now_s, known_since_s=NOW_S - weeks * WEEK_S, limit=limit)


def test_the_demand_of_most_weeks_is_kept_free() -> None:
    headroom = learned(starts(2, 2, 1, 2, 2, 2))
    assert (headroom.devices, headroom.demands) == (2, (2, 2, 1, 2, 2, 2))
    assert headroom.sentence == (
        "In this hour of the past 6 weeks, sessions together requested 2, 2, 1, 2, 2, 2 GPUs. "
        "2 GPUs stay free of work over quota for them."
    )


def test_one_week_unlike_the_others_does_not_count() -> None:
    assert learned(starts(1, 7, 1, 1, 1, 1)).devices == 1
    assert learned(starts(2, 2, 0, 2, 2, 2)).devices == 2


def test_other_hours_and_days_have_none() -> None:
    session_starts = starts(2, 2, 2, 2, 2, 2)
    assert learned(session_starts, now_s=NOW_S + AHEAD_S).devices == 0
    assert learned(session_starts, now_s=NOW_S - 3 * AHEAD_S).devices == 0
    assert learned(session_starts, now_s=NOW_S + 86400.0).devices == 0


def test_sessions_far_apart_need_no_devices_together() -> None:
    assert learned(starts(3, 3, 3, apart_s=TOGETHER_S)).devices == 1
    assert learned(starts(3, 3, 3, apart_s=TOGETHER_S - 1), weeks=3.5).devices == 2


def test_parts_of_devices_add_up() -> None:
    assert learned(starts(3, 3, 3, devices=0.5), weeks=3.5).devices == 2
    assert learned(starts(3, 3, 3, devices=0.1), weeks=3.5).devices == 1


def test_it_is_bounded() -> None:
    headroom = learned(starts(6, 6, 6, 6, 6, 6), limit=3)
    assert headroom.devices == 3
    assert headroom.sentence.endswith("for them, the most allowed.")
    assert learned(starts(6, 6, 6), limit=0).devices == 0


@pytest.mark.parametrize("weeks", [0, 0.5, 1.9])
def test_nothing_is_learned_from_too_few_weeks(weeks: float) -> None:
    headroom = learned(starts(5, 5, 5), weeks=weeks)
    assert headroom.devices == 0
    assert "after 2 weeks" in headroom.sentence


def test_weeks_before_a_change_to_summer_time_are_looked_at_an_hour_off() -> None:
    early = [SessionStart(start.at_s - 3600.0, 1.0) for start in starts(2, 2, 2)]
    offsets_s = [-3600.0] * WEEKS_MAX
    known_s = NOW_S - 3.5 * WEEK_S
    assert learned_headroom(early, now_s=NOW_S, known_since_s=known_s, limit=8).devices == 0
    headroom = learned_headroom(early, now_s=NOW_S, known_since_s=known_s, limit=8, offsets_s=offsets_s)
    assert headroom.devices == 2


def test_any_history_gives_a_number_within_the_bound() -> None:
    draw = random.Random(7)
    for _ in range(200):
        session_starts = sorted(
            (
                SessionStart(NOW_S + draw.uniform(-8, 2) * WEEK_S, draw.choice((0.2, 1, 8)))
                for _ in range(300)
            ),
            key=lambda start: start.at_s,
        )
        result = learned(session_starts, limit=draw.randrange(9), weeks=draw.uniform(-1, 9))
        assert 0 <= result.devices <= result.limit
        assert len(result.demands) <= WEEKS_MAX

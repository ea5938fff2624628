"""Headroom for sessions of a cluster: learned, bounded, and applied to the policy in force."""

import time

import pytest

from weir.control.session_headroom import WEEK_S, SessionStart
from weir.kubernetes.process.usage.cluster_headroom import ClusterHeadroom
from weir.model.policy import Policy

TOTAL = 10


def weekly(devices: float, weeks: int = 4, behind_s: float = 0.0) -> list[SessionStart]:
    """Return sessions that begin in this hour of each past week, by a clock that is behind this machine's."""
    now_s = time.time() - behind_s
    return [SessionStart(now_s - week * WEEK_S + 600.0, devices) for week in range(weeks, 0, -1)]


@pytest.mark.parametrize(("limit", "kept"), [(0, 0), (2, 2), (8, 3)])
def test_headroom_is_that_of_past_weeks_up_to_its_limit(limit: int, kept: int) -> None:
    applied: list[int] = []
    headroom = ClusterHeadroom(lambda: limit, lambda: TOTAL, lambda: applied.append(1))
    assert headroom.applied(Policy()) == Policy()
    headroom.seen(weekly(3.0), time.time() - 8 * WEEK_S)
    assert int(headroom.applied(Policy()).reserve_fraction * TOTAL) == kept
    assert len(applied) == (1 if kept else 0)
    headroom.seen(weekly(3.0), time.time() - 8 * WEEK_S)
    assert len(applied) == (1 if kept else 0), "it hasn't changed"


def test_history_that_is_too_short_or_unknown_teaches_nothing() -> None:
    for known_s in (time.time() - WEEK_S, float("inf")):
        headroom = ClusterHeadroom(lambda: 8, lambda: TOTAL, lambda: None)
        headroom.seen(weekly(3.0), known_s)
        assert headroom.applied(Policy()) == Policy()


def test_headroom_that_is_switched_off_has_no_effect() -> None:
    limits = [8]
    headroom = ClusterHeadroom(lambda: limits[0], lambda: TOTAL, lambda: None)
    headroom.seen(weekly(3.0), time.time() - 8 * WEEK_S)
    limits[0] = 0
    assert headroom.applied(Policy()) == Policy()


def test_hours_of_the_week_are_those_of_the_api_servers_clock() -> None:
    """The wall clock of the leader's machine may be wrong by any time."""
    behind_s = 3 * 86400.0
    headroom = ClusterHeadroom(lambda: 8, lambda: TOTAL, lambda: None, lambda: time.time() - behind_s)
    headroom.seen(weekly(3.0, behind_s=behind_s), time.time() - 8 * WEEK_S)
    assert int(headroom.applied(Policy()).reserve_fraction * TOTAL) == 3

"""Time in front of a cluster begins at the API server's, whatever the clock of this machine says."""

import time
from collections.abc import Sequence
from typing import Any, cast

import pytest

from weir.kubernetes.api.server_clock import ASKS_MAX, server_clock

NOW_S = 1_700_000_000.0


class Api:
    """An API server that tells its time once it answers."""

    def __init__(self, silent: int, at_s: float = NOW_S) -> None:
        self.silent = silent
        self.at_s = at_s

    async def time_s(self) -> float | None:
        self.silent -= 1
        return None if self.silent >= 0 else self.at_s


@pytest.mark.parametrize("wall_s", [0.0, 3600.0, -3600.0, 10 * 365 * 86400.0, -10 * 365 * 86400.0])
async def test_it_begins_at_the_servers_time(wall_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    api: Any = Api(silent=2)
    monkeypatch.setattr("time.time", lambda: NOW_S + wall_s)
    clock = await server_clock(api, again_s=0.0)
    assert NOW_S <= clock() < NOW_S + 60.0


async def test_a_server_that_never_answers_isnt_waited_for_without_end() -> None:
    api: Any = Api(silent=ASKS_MAX)
    clock = await server_clock(api, again_s=0.0)
    assert abs(clock() - time.time()) < 60.0


async def clock_of(
    monkeypatch: pytest.MonkeyPatch, answers: Sequence[tuple[float, float, float]]
) -> tuple[float, int]:
    """Return how far a clock is ahead of the boot clock, and how often the API server was asked.

    `answers` are the times by the boot clock at which each one was asked for and came, and the stated time.
    """
    readings = iter([*(time_s for answer in answers for time_s in answer[:2]), answers[-1][1]])
    monkeypatch.setattr("weir.kubernetes.api.server_clock.boot_time", lambda: next(readings))
    stated, asked = iter([stated_s for _, _, stated_s in answers]), []

    class Answering:
        async def time_s(self) -> float:
            asked.append(None)
            return next(stated)

    monkeypatch.setattr("weir.control.clock.Clock.__call__", lambda clock: clock._began_s)
    clock = await server_clock(cast(Any, Answering()), again_s=0.0)
    return clock() - answers[-1][1], len(asked)


async def test_an_answer_that_took_long_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quick = (0.0, 3.0, NOW_S + 0.5), (3.0, 3.01, NOW_S + 3.5)
    ahead_s, count = await clock_of(monkeypatch, [slow, quick])
    assert (ahead_s, count) == (pytest.approx(NOW_S + 0.495, abs=0.01), 2)


@pytest.mark.parametrize(
    ("answers", "ahead_s"),
    [
        pytest.param([(0.0, 4.0, 0.5)] * ASKS_MAX, -1.5, id="given at any moment, so the middle is best"),
        pytest.param(
            [(0.0, 2.0, 1.5), (2.0, 4.0, 2.5), (4.0, 6.0, 6.5), (6.0, 8.0, 7.5), (8.0, 10.0, 9.5)],
            0.5,
            id="each answer narrows the bounds",
        ),
        pytest.param(
            [(0.0, 1.0, 0.5), (1.0, 3.0, 61.5), (3.0, 5.0, 63.5), (5.0, 7.0, 65.5), (7.0, 9.0, 67.5)],
            0.0,
            id="the clocks of two API servers differ",
        ),
    ],
)
async def test_slow_answers_bound_the_time_together(
    answers: list[tuple[float, float, float]], ahead_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = [(asked_s, came_s, NOW_S + stated_s) for asked_s, came_s, stated_s in answers]
    measured_s, count = await clock_of(monkeypatch, stated)
    assert (measured_s - NOW_S, count) == (pytest.approx(ahead_s, abs=0.01), ASKS_MAX)

"""Time in front of a cluster begins at the API server's, whatever the clock of this machine says."""

import time
from typing import Any

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


async def test_an_answer_that_took_long_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([0.0, 3.0, 3.0, 3.01])
    monkeypatch.setattr("weir.kubernetes.api.server_clock.boot_time", lambda: next(readings))
    api: Any = Api(silent=0)
    times = iter([NOW_S, NOW_S + 3.0])

    async def time_s() -> float:
        return next(times)

    api.time_s = time_s
    clock = await server_clock(api, again_s=0.0)
    assert clock() >= NOW_S + 3.0

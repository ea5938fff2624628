"""Number of concurrent writes, by the answers of the API server."""

import pytest
from tests.unit.kubernetes.writes.delivery.test_api_writer import Server, acting_on, bind, until

from weir.kubernetes.api.errors import ApiError, ApiRefused, ApiUnreachable, NotFound, TooManyRequests
from weir.kubernetes.writes.delivery.api_writer import Pace
from weir.kubernetes.writes.delivery.congestion import LATE_S, LEAST, CongestionWindow, is_congestion
from weir.kubernetes.writes.operations import WriteDone

TIMEOUT = ApiRefused(504, "Timeout", "Timeout: request did not complete within requested timeout")
BUSY = TooManyRequests(429, "", "busy", retry_after_s=0.0, by_budget=False)
BY_BUDGET = TooManyRequests(429, "", "budget", retry_after_s=0.0, by_budget=True)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def window(most: int = 128) -> tuple[CongestionWindow, Clock]:
    clock = Clock()
    return CongestionWindow(most, clock=clock), clock


@pytest.mark.parametrize(
    ("error", "congestion"),
    [
        (TIMEOUT, True),
        (ApiRefused(503, "", ""), True),
        (BUSY, True),
        (ApiUnreachable("cut", may_have_happened=True), True),
        (BY_BUDGET, False),
        (ApiRefused(500, "", ""), False),
        (NotFound(404, "", ""), False),
    ],
)
def test_only_a_server_that_cannot_keep_up_is_congestion(error: ApiError, congestion: bool) -> None:
    assert is_congestion(error) is congestion


def test_all_that_was_under_way_at_a_cut_makes_one_cut() -> None:
    found, clock = window()
    sent_s = clock.now_s
    clock.now_s += 5.0
    for _ in range(128):
        found.answered(sent_s, TIMEOUT)
    assert found.limit == 64
    later_s = clock.now_s
    clock.now_s += 5.0
    found.answered(later_s, TIMEOUT)
    assert found.limit == 32


def test_late_answers_cost_less_than_refusals_and_it_never_falls_below_the_least() -> None:
    found, clock = window()
    sent_s = clock.now_s
    clock.now_s += LATE_S + 0.1
    found.answered(sent_s)
    assert found.limit == 96
    for _ in range(50):
        sent_s = clock.now_s
        clock.now_s += 5.0
        found.answered(sent_s, TIMEOUT)
    assert found.limit == LEAST


def test_it_grows_back_to_its_most_and_no_further() -> None:
    found, clock = window(most=32)
    sent_s = clock.now_s
    clock.now_s += 1.0
    found.answered(sent_s, BUSY)
    assert found.limit == 16
    for _ in range(2000):
        found.answered(clock.now_s)
    assert found.limit == 32


def test_a_most_below_the_least_stays() -> None:
    found, clock = window(most=2)
    found.answered(clock.now_s, TIMEOUT)
    assert found.limit == 2


async def test_after_a_timeout_fewer_writes_go_together() -> None:
    server = Server()
    server.faults = [BUSY]
    async with acting_on(server, Pace(in_flight=40, first_s=0.001)) as (writer, reported):
        writer.submit([bind("a")])
        await until(lambda: writer.window.limit == 20)
        server.lets.clear()
        writer.submit([bind(f"p{number}") for number in range(60)])
        await until(lambda: server.under_way >= 20)
        assert writer.in_flight == 20
        server.lets.set()
        await until(lambda: len(reported) == 61)
        assert all(isinstance(outcome, WriteDone) for _, outcome in reported)

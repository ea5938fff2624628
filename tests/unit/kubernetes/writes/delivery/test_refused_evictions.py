"""Evictions that a disruption budget refuses: given up at once, insisted on, or overridden."""

import time
from types import SimpleNamespace

import pytest
from tests.unit.kubernetes.writes.delivery.test_api_writer import Server, acting_on, until

from weir.kubernetes.api.errors import ApiRefused, NotFound, TooManyRequests
from weir.kubernetes.writes.delivery import api_writer
from weir.kubernetes.writes.delivery.api_writer import Pace
from weir.kubernetes.writes.operations import Evict, WriteDelayed, WriteDone, WriteRefused

BY_BUDGET = TooManyRequests(429, "TooManyRequests", "Cannot evict pod.", retry_after_s=0.0, by_budget=True)
BY_SEVERAL = ApiRefused(500, "InternalError", "This pod has more than one PodDisruptionBudget, which ...")
FORBIDDEN = ApiRefused(403, "Forbidden", 'cannot delete resource "pods"')


class Site(Server):
    """A server that pods can be deleted on, too."""

    async def delete(self, path: str, *, uid: str, propagation: str, grace_s: int | None) -> None:
        within = "" if grace_s is None else f" in {grace_s} s"
        await self._take(f"DELETE {path.rpartition('/namespaces/')[2]} {uid}{within}")


@pytest.mark.parametrize("fault", [BY_BUDGET, BY_SEVERAL])
async def test_eviction_of_a_plan_is_over_with_the_first_refusal(fault: ApiRefused) -> None:
    server = Site()
    server.faults = [fault]
    async with acting_on(server, Pace(first_s=0.001)) as (writer, reported):
        writer.submit([Evict("n", "a", "u")])
        await until(lambda: bool(reported))
    assert [outcome for _, outcome in reported] == [WriteRefused(fault.status, str(fault))]
    assert server.came == ["POST n/pods/a/eviction"]


async def test_eviction_that_insists_is_tried_until_the_budget_allows_it() -> None:
    server = Site()
    server.faults = [BY_BUDGET, BY_BUDGET, BY_BUDGET]
    async with acting_on(server, Pace(first_s=0.001, evicts_for_s=0.0)) as (writer, reported):
        writer.submit([Evict("n", "a", "u", insists=True)])
        await until(lambda: len(reported) == 2)
    assert [outcome for _, outcome in reported] == [WriteDelayed("Cannot evict pod."), WriteDone()]


BUSY = TooManyRequests(429, "", "busy", retry_after_s=0.0, by_budget=False)
BROKEN = ApiRefused(408, "Timeout", "request body took too long")


@pytest.mark.parametrize(
    ("fault", "pace"),
    [
        (BUSY, Pace(first_s=0.001, congested_for_s=0.0)),
        (BROKEN, Pace(first_s=0.001, evicts_for_s=0.0)),
    ],
)
async def test_eviction_of_a_plan_is_given_up_when_the_server_has_failed_for_long(
    fault: ApiRefused, pace: Pace
) -> None:
    server = Site()
    server.faults = [fault]
    async with acting_on(server, pace) as (writer, reported):
        writer.submit([Evict("n", "a", "u")])
        await until(lambda: bool(reported))
    (outcome,) = [outcome for _, outcome in reported]
    assert not isinstance(outcome, WriteDone)


async def test_eviction_of_a_plan_outlasts_a_server_that_is_only_busy() -> None:
    server = Site()
    server.faults = [BUSY, BUSY]
    async with acting_on(server, Pace(first_s=0.001, evicts_for_s=0.0)) as (writer, reported):
        writer.submit([Evict("n", "a", "u")])
        await until(lambda: bool(reported))
    assert [outcome for _, outcome in reported] == [WriteDone()]


async def test_time_in_the_queue_before_the_first_try_does_not_count_as_trying(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, ahead_s = Site(), 0.0
    monkeypatch.setattr(api_writer, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + ahead_s))
    server.lets.clear()
    async with acting_on(server, Pace(first_s=0.001, evicts_for_s=600.0, in_flight=1)) as (writer, reported):
        writer.submit([Evict("n", "a", "u")])
        await until(lambda: len(server.came) == 1)
        writer.submit([Evict("n", "b", "u")])
        ahead_s = 601.0
        server.faults = [BROKEN, BROKEN]
        server.lets.set()
        await until(lambda: len(reported) == 2)
    outcomes = {write.object_path[-1]: outcome for write, outcome in reported}
    assert not isinstance(outcomes["a"], WriteDone)
    assert isinstance(outcomes["b"], WriteDone)


@pytest.mark.parametrize("fault", [BY_BUDGET, BY_SEVERAL])
@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        ([], WriteDone()),
        ([NotFound(404, "", "gone")], WriteDone()),
        ([FORBIDDEN], WriteRefused(403, str(FORBIDDEN))),
    ],
)
async def test_overriding_eviction_deletes_the_pod_of_that_uid(
    fault: ApiRefused, second: list[Exception], outcome: WriteDone | WriteRefused
) -> None:
    server = Site()
    server.faults = [fault, *second]
    async with acting_on(server, Pace(first_s=0.001)) as (writer, reported):
        writer.submit([Evict("n", "a", "u", overrides=True)])
        await until(lambda: bool(reported))
    assert [each for _, each in reported] == [outcome]
    assert server.came == ["POST n/pods/a/eviction", "DELETE n/pods/a u"]


async def test_overriding_eviction_deletes_nothing_where_no_budget_refuses() -> None:
    server = Site()
    server.faults = [FORBIDDEN]
    async with acting_on(server, Pace(first_s=0.001)) as (writer, reported):
        writer.submit([Evict("n", "a", "u", overrides=True)])
        await until(lambda: bool(reported))
    assert [outcome for _, outcome in reported] == [WriteRefused(403, str(FORBIDDEN))]
    assert server.came == ["POST n/pods/a/eviction"]


async def test_overriding_eviction_gives_no_longer_grace_period_than_an_eviction() -> None:
    server = Site()
    server.faults = [BY_BUDGET]
    async with acting_on(server, Pace(first_s=0.001)) as (writer, reported):
        writer.submit([Evict("n", "a", "u", 600, overrides=True)])
        await until(lambda: bool(reported))
    assert server.came == ["POST n/pods/a/eviction", "DELETE n/pods/a u in 600 s"]

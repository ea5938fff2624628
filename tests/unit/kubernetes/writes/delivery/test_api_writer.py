"""Order, dependencies and concurrency of writes, without a server."""

import asyncio
import time
from random import Random
from typing import Any

import pytest
from tests.unit.kubernetes.writes.delivery.api_writing import Server, acting_on, bind, status, until

from weir.kubernetes.api.backoff import Backoff, RateLimiter
from weir.kubernetes.api.client import Patch
from weir.kubernetes.api.errors import ApiUnreachable, NotFound, TooManyRequests
from weir.kubernetes.writes.delivery.api_writer import Pace
from weir.kubernetes.writes.operations import (
    Bind,
    EmitEvent,
    EventSubject,
    Evict,
    PatchStatus,
    UpsertWorkload,
    Write,
    WriteDone,
    WriteNotSent,
    WriteSuperseded,
    merged,
)


async def test_places_go_before_objects_before_statuses() -> None:
    server = Server()
    server.lets.clear()
    async with acting_on(server, Pace(in_flight=1)) as (writer, reported):
        writer.submit([status("a", 1)])
        await until(lambda: len(server.came) == 1)
        writer.submit(
            [status("b", 1), status("c", 1, urgent=True), UpsertWorkload("/x/namespaces/n/o", "o", {})]
        )
        writer.submit([bind("d"), Evict("n", "e", "u")])
        server.lets.set()
        await until(lambda: len(reported) == 6)
        assert [what.split()[1] for what in server.came] == [
            *("n/pods/a/status", "n/pods/d/binding", "n/pods/e/eviction"),
            *("n/pods/c/status", "n/o", "n/pods/b/status"),
        ]


async def test_of_one_object_one_goes_at_a_time_and_in_order() -> None:
    server = Server()
    async with acting_on(server, Pace(in_flight=50)) as (writer, reported):
        server.lets.clear()
        writer.submit([bind("a"), Evict("n", "a", "u"), status("a", 1), bind("b")])
        await until(lambda: len(server.came) == 2)
        await asyncio.sleep(0.02)
        assert sorted(server.came) == ["POST n/pods/a/binding", "POST n/pods/b/binding"]
        server.lets.set()
        await until(lambda: len(reported) == 4)
        assert [type(write) for write, _ in reported if "b" not in write.object_path[-1]] == [
            *(Bind, Evict, PatchStatus)
        ]


async def test_a_status_of_a_pending_pod_is_dropped_once_the_pod_is_bound() -> None:
    """The API refuses a nomination for a bound pod, and takes a condition by which it isn't scheduled."""
    server = Server()
    path = "/api/v1/namespaces/n/pods/a"
    async with acting_on(server, Pace(in_flight=50)) as (writer, reported):
        server.lets.clear()
        writer.submit([status("a", 1)])
        await until(lambda: len(server.came) == 1)
        pending = [
            PatchStatus(path, {"status": {"nominatedNodeName": "x"}}, until_bound=True),
            PatchStatus(path, {"status": {"conditions": []}}, kind=Patch.STRATEGIC, until_bound=True),
        ]
        writer.submit([*pending, status("a", 2), bind("a")])
        server.lets.set()
        await until(lambda: len(reported) == 5)
        assert [write for write, outcome in reported if isinstance(outcome, WriteSuperseded)] == pending
        assert [what.split(" ", 1)[1] for what in server.came] == [
            *("n/pods/a/status {'v': 1}", "n/pods/a/binding", "n/pods/a/status {'v': 2}")
        ]


async def test_a_status_of_a_pending_pod_is_written_if_its_binding_is_refused() -> None:
    server = Server()
    path = "/api/v1/namespaces/n/pods/a"
    async with acting_on(server, Pace(in_flight=50)) as (writer, reported):
        server.faults = [NotFound(404, "NotFound", "gone")]
        writer.submit([PatchStatus(path, {"status": {}}, until_bound=True), bind("a")])
        await until(lambda: len(reported) == 2)
        assert [what.split()[1] for what in server.came] == ["n/pods/a/binding", "n/pods/a/status"]


async def test_no_more_go_together_than_they_may() -> None:
    server = Server()
    server.lets.clear()
    async with acting_on(server, Pace(in_flight=7, others_in_flight=3)) as (writer, reported):
        writer.submit([status(str(number), 1) for number in range(20)])
        await until(lambda: server.under_way == 3)
        writer.submit([bind(f"p{number}") for number in range(20)])
        await until(lambda: server.under_way == 7)
        await asyncio.sleep(0.02)
        assert writer.in_flight == server.under_way == 7
        server.lets.set()
        await until(lambda: len(reported) == 40)
        assert server.most == 7
        assert len(writer) == writer.in_flight == 0


async def test_while_pods_are_under_way_little_else_is() -> None:
    server = Server()
    server.lets.clear()
    async with acting_on(server, Pace(in_flight=50, others_in_flight=9, beside_pods=2)) as (writer, reported):
        writer.submit([bind("p")])
        await until(lambda: server.under_way == 1)
        writer.submit([status(str(number), 1) for number in range(20)])
        await until(lambda: server.under_way == 3)
        await asyncio.sleep(0.02)
        assert server.under_way == 3
        server.lets.set()
        await until(lambda: len(reported) == 21)


async def test_events_wait_while_many_pods_are_under_way() -> None:
    server = Server()
    server.lets.clear()
    answer = EmitEvent(EventSubject("v1", "Pod", "p", "n"), "Waiting", "It waits.")
    async with acting_on(server, Pace(in_flight=50, beside_pods=2)) as (writer, reported):
        writer.submit([bind(f"p{number}") for number in range(20)])
        await until(lambda: server.under_way == 20)
        writer.submit([answer])
        await asyncio.sleep(0.3)
        assert server.under_way == 20
        server.lets.set()
        await until(lambda: writer.recorder.emitted == 1)
        assert server.came[20:] == ["POST n/events"]
        assert len(reported) == 20


async def test_why_a_pod_is_evicted_is_said_before_it_is_and_once() -> None:
    server = Server()
    server.faults = [ApiUnreachable("gone", may_have_happened=False)] * 2
    why = EmitEvent(EventSubject("v1", "Pod", "p", "n"), "Preempted", "Others are owed it.")
    async with acting_on(server, Pace(first_s=0.01)) as (writer, reported):
        writer.submit([Evict("n", "p", "u", because=why)])
        await until(lambda: len(reported) == 1)
        assert server.came == ["POST n/events", *["POST n/pods/p/eviction"] * 2]
        assert [outcome for _, outcome in reported] == [WriteDone()]


async def test_why_many_pods_are_evicted_is_said_when_there_is_time() -> None:
    server = Server()
    server.lets.clear()
    why = EmitEvent(EventSubject("v1", "Pod", "p", "n"), "Preempted", "Others are owed it.")
    async with acting_on(server, Pace(in_flight=50, few=10)) as (writer, reported):
        writer.submit([Evict("n", f"p{number}", "u", because=why) for number in range(20)])
        await until(lambda: server.under_way == 20)
        server.lets.set()
        await until(lambda: len(reported) == writer.recorder.emitted == 20)
        assert all("eviction" in what for what in server.came[:20])
        assert server.came.count("POST n/events") == 20
        assert len(server.came) == 40


async def test_what_is_there_is_changed_and_made_again_only_if_it_is_gone() -> None:
    server = Server()
    server.faults = [NotFound(404, "NotFound", "It is not there.")]
    async with acting_on(server, Pace()) as (writer, reported):
        writer.submit([UpsertWorkload("/x/namespaces/n/o", "gone", {}, exists=True)])
        await until(lambda: len(reported) == 1)
        writer.submit([UpsertWorkload("/x/namespaces/n/o", "there", {}, exists=True)])
        await until(lambda: len(reported) == 2)
        assert server.came == ["PATCH n/o/gone {}", "POST n/o", "PATCH n/o/there {}"]


async def test_a_status_that_failed_goes_with_one_that_came_meanwhile() -> None:
    server = Server()
    server.faults = [ApiUnreachable("gone", may_have_happened=True)]
    server.lets.clear()
    async with acting_on(server, Pace(first_s=0.01)) as (writer, reported):
        first, second = status("a", 1), status("a", 2)
        writer.submit([first])
        await until(lambda: server.under_way == 1)
        writer.submit([second])
        server.lets.set()
        await until(lambda: len(reported) == 2)
        assert reported[0] == (first, WriteSuperseded())
        assert reported[1][1] == WriteDone()
        assert len(server.came) == 2


async def test_what_waits_lets_what_is_more_urgent_pass() -> None:
    server = Server()
    server.faults = [TooManyRequests(429, "", "no", retry_after_s=60.0, by_budget=False)]
    async with acting_on(server, Pace()) as (writer, reported):
        writer.submit([status("a", 1)])
        await until(lambda: writer.throttled == 1)
        writer.submit([bind("a")])
        await until(lambda: len(reported) == 1)
        assert reported[0] == (bind("a"), WriteDone())


@pytest.mark.parametrize("seed", range(20))
async def test_every_write_has_one_outcome(seed: int) -> None:
    chance = Random(seed)
    server = Server()
    server.faults = [
        ApiUnreachable("no", may_have_happened=False)
        if chance.random() < 0.5
        else TooManyRequests(429, "", "no", retry_after_s=0.0, by_budget=False)
        for _ in range(40)
    ]
    writes: list[Write] = []
    for number in range(100):
        name = str(chance.randrange(10))
        kind = chance.random()
        writes.append(bind(name) if kind < 0.4 else status(name, number, urgent=kind < 0.6))
    async with acting_on(server, Pace(in_flight=5, first_s=0.001, most_s=0.005)) as (writer, reported):
        for write in writes:
            writer.submit([write])
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        await until(lambda: len(reported) == 100)
        await asyncio.sleep(0.02)
        assert len(reported) == 100
        binds = [write for write, _ in reported if isinstance(write, Bind)]
        assert len(binds) == sum(isinstance(write, Bind) for write in writes)
        for name in map(str, range(10)):
            last = max(
                (
                    write.patch["v"]
                    for write in writes
                    if isinstance(write, PatchStatus) and write.path.endswith(f"/{name}")
                ),
                default=None,
            )
            sent = [what for what in server.came if what.startswith(f"PATCH n/pods/{name}/status")]
            assert last is None or sent[-1].endswith(f"{{'v': {last}}}"), "the latest status is what stays"
        assert len(writer) == 0


def test_waits_grow_to_their_most() -> None:
    backoff = Backoff(0.2, 5.0, Random(1))
    waits = [backoff.next_s() for _ in range(100)]
    assert 0.1 <= waits[0] <= 0.2
    assert all(2.5 <= wait <= 5.0 for wait in waits[6:])
    backoff.reset()
    assert backoff.next_s() <= 0.2


class Bodies(Server):
    """A server that remembers what objects were made and changed to."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[tuple[str, str, Any]] = []

    async def post(self, path: str, body: object, of: type) -> Any:
        self.bodies.append(("POST", path, body))
        await super().post(path, body, of)

    async def patch(self, path: str, body: object, kind: object, of: type) -> Any:
        self.bodies.append(("PATCH", path, body))
        await super().patch(path, body, kind, of)


COLLECTION = "/apis/weir.dev/v1alpha1/namespaces/n/workloads"


@pytest.mark.parametrize("there", [False, True])
async def test_an_object_goes_with_the_status_inside_it_in_one_write(there: bool) -> None:
    server = Bodies()
    server.lets.clear()
    async with acting_on(server, Pace(in_flight=1)) as (writer, reported):
        writer.submit([bind("first")])
        await until(lambda: server.under_way == 1)
        path = f"{COLLECTION}/job-a"
        writer.submit(
            [
                PatchStatus(path, {"status": {"phase": "Pending", "why": None}}, inside=True),
                UpsertWorkload(COLLECTION, "job-a", {"spec": {"count": 2}}, exists=there),
                PatchStatus(path, {"status": {"phase": "Running"}}, inside=True),
            ]
        )
        server.lets.set()
        await until(lambda: len(reported) == 4)
    status = {"phase": "Running", "why": None} if there else {"phase": "Running"}
    verb, at = ("PATCH", path) if there else ("POST", COLLECTION)
    assert server.bodies[1:] == [(verb, at, {"spec": {"count": 2}, "status": status})]
    assert [type(outcome) for _, outcome in reported].count(WriteDone) == 2


async def test_a_status_that_is_a_subresource_is_written_apart_from_its_object() -> None:
    server = Bodies()
    server.lets.clear()
    async with acting_on(server, Pace(in_flight=1)) as (writer, reported):
        writer.submit([bind("first")])
        await until(lambda: server.under_way == 1)
        path = f"{COLLECTION}/job-a"
        writer.submit([UpsertWorkload(COLLECTION, "job-a", {"spec": {}}), PatchStatus(path, {"status": {}})])
        server.lets.set()
        await until(lambda: len(reported) == 3)
    assert [path for _, path, _ in server.bodies[1:]] == [COLLECTION, f"{path}/status"]


async def test_a_stop_finishes_what_it_can_and_leaves_the_rest() -> None:
    """The first write is to be tried again much later; the second is under way at the deadline, and fails."""
    server = Server()
    server.faults = [ApiUnreachable("gone", may_have_happened=False)]
    async with acting_on(server, Pace(in_flight=50, first_s=3600.0, most_s=3600.0)) as (writer, reported):
        writer.submit([status("later", 1)])
        await until(lambda: not server.faults)
        writer.submit([bind(f"p{at}") for at in range(29)])
        await until(lambda: len(reported) == 29)
        server.lets.clear()
        writer.submit([status("late", 1)])
        await until(lambda: server.under_way == 1)
        stopping = asyncio.create_task(writer.drain(0.01))
        await until(lambda: len(reported) == 30)
        assert not stopping.done()
        server.faults = [ApiUnreachable("gone", may_have_happened=False)]
        server.lets.set()
        await stopping
        assert writer.in_flight == len(writer) == 0
        writer.submit([bind("p0")])
        await until(lambda: len(reported) == 32)
    assert [outcome for _, outcome in reported] == [WriteDone()] * 29 + [
        WriteNotSent("Weir is stopping.")
    ] * 3


def test_merge_patches_add_up() -> None:
    earlier = {"status": {"a": 1, "b": {"x": 1}, "gone": 1}}
    later = {"status": {"b": {"y": 2}, "gone": None, "list": [1]}}
    assert merged(earlier, later) == {"status": {"a": 1, "b": {"x": 1, "y": 2}, "gone": None, "list": [1]}}
    assert earlier == {"status": {"a": 1, "b": {"x": 1}, "gone": 1}}


async def test_a_rate_lets_a_burst_pass() -> None:
    rate = RateLimiter(100.0, burst=10.0)
    began_s = time.monotonic()
    for _ in range(20):
        await rate.wait()
    assert time.monotonic() - began_s > 0.09

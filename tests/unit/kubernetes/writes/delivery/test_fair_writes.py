"""Writes and events of one namespace beside a flood of another."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kubernetes.writes.delivery.api_writing import Server, WatchProgress, acting_on, until

from weir.kubernetes.api.backoff import Backoff
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiRefused, ApiUnreachable
from weir.kubernetes.api.leader_election import AlwaysLeader
from weir.kubernetes.writes.delivery import event_recorder
from weir.kubernetes.writes.delivery.api_writer import ApiWriter, Pace
from weir.kubernetes.writes.delivery.event_recorder import LATER_EVERY, STARTS_MAX, EventRecorder
from weir.kubernetes.writes.delivery.keyed_queue import KeyedQueue, ObjectQueue, PendingWrite
from weir.kubernetes.writes.operations import (
    Bind,
    EmitEvent,
    EventSubject,
    Evict,
    PatchObject,
    PatchStatus,
    UpsertWorkload,
    Urgency,
    Write,
    WriteDone,
    WriteNotSent,
)

FLOOD = 1500


def status(namespace: str, name: str) -> PatchStatus:
    return PatchStatus(f"/api/v1/namespaces/{namespace}/pods/{name}", {"v": 1})


def event(namespace: str, reason: str, *, waits: bool) -> EmitEvent:
    return EmitEvent(EventSubject("v1", "Pod", "p", namespace), reason, "", waits=waits)


async def test_a_status_waits_for_no_flood_of_another_namespace() -> None:
    server = Server()
    server.lets.clear()
    async with acting_on(server, Pace(others_in_flight=4)) as (writer, reported):
        writer.submit([status("flood", str(at)) for at in range(FLOOD)])
        await until(lambda: server.under_way == 4)
        writer.submit([status("other", "one")])
        server.lets.set()
        await until(lambda: len(reported) == FLOOD + 1)
    place = next(at for at, came in enumerate(server.came) if "other/pods/one" in came)
    assert place <= 4 + 1


async def came_after_the_first(writes: Iterable[Write]) -> list[str]:
    """Return the requests of writes that wait together for a server that takes one at a time."""
    server, later = Server(), list(writes)
    server.lets.clear()
    async with acting_on(server, Pace(in_flight=1)) as (writer, reported):
        writer.submit([status("a", "first")])
        await until(lambda: server.under_way == 1)
        writer.submit(later)
        server.lets.set()
        await until(lambda: len(reported) == 1 + len(later))
    return [came.split()[1] for came in server.came[1:]]


async def test_bindings_wait_for_no_flood_of_another_namespace_and_go_before_statuses() -> None:
    flood = [Bind("flood", str(at), "u", "node") for at in range(FLOOD)]
    others = [Bind("other", name, "u", "node") for name in ("one", "two")]
    came = await came_after_the_first([status("b", "one"), *flood, *others])
    assert came[:5] == [
        *("flood/pods/0/binding", "other/pods/one/binding"),
        *("flood/pods/1/binding", "other/pods/two/binding", "flood/pods/2/binding"),
    ]
    assert [each for each in came if each.startswith("flood")] == [
        f"flood/pods/{at}/binding" for at in range(FLOOD)
    ]
    assert came[-1] == "b/pods/one/status"


async def test_a_status_waits_for_no_flood_of_pods_that_fills_the_window() -> None:
    server = Server()
    server.lets.clear()
    async with acting_on(server, Pace(in_flight=16)) as (writer, reported):
        writer.submit([Bind("flood", str(at), "u", "node") for at in range(FLOOD)])
        await until(lambda: server.under_way == 16)
        made = UpsertWorkload("/x/namespaces/other/workloads", "made", {})
        writer.submit([*(status("flood", f"s{at}") for at in range(FLOOD)), status("other", "one"), made])
        server.lets.set()
        await until(lambda: len(reported) == 2 * FLOOD + 2)
    came = [each.split()[1] for each in server.came]
    bindings = [at for at, each in enumerate(came) if each.endswith("/binding")]
    for wanted in ("other/pods/one/status", "other/workloads"):
        assert came.index(wanted) < bindings[64], "before all but the first bindings"
    statuses = sum(each.endswith("/status") for each in came[: bindings[-1]])
    assert statuses < FLOOD / 4, "pods go first"


async def test_evictions_go_in_the_turn_of_the_namespace_that_needs_the_capacity() -> None:
    reclaim = [Evict("victim", str(at), "u", needed_by="owner/job-large") for at in range(FLOOD)]
    own = [Evict("victim", "own", "u"), Bind("victim", "next", "u", "node")]
    came = await came_after_the_first([*reclaim, *own, Bind("owner", "next", "u", "node")])
    assert came[:4] == [
        *("victim/pods/0/eviction", "victim/pods/own/eviction"),
        *("victim/pods/1/eviction", "victim/pods/next/binding"),
    ]
    assert came[-1] == "owner/pods/next/binding"


class Terms(AlwaysLeader):
    """Leadership whose term a test sets."""

    term = 1


async def test_writes_of_an_earlier_term_are_dropped_and_the_next_ones_are_sent() -> None:
    server, reported, leadership = Server(), WatchProgress(), Terms()
    server.lets.clear()
    writer = ApiWriter(cast(ApiClient, server), leadership, reported, pace=Pace(in_flight=1))
    running = asyncio.create_task(writer.run())
    writer.submit([status("a", str(at)) for at in range(5)])
    await until(lambda: server.under_way == 1)
    leadership.term = 2
    writer.submit([status("a", "next")])
    server.lets.set()
    await until(lambda: len(reported) == 6 or running.done())
    assert not running.done()
    assert [type(outcome) for _, outcome in reported] == [*[WriteNotSent] * 4, WriteDone, WriteDone]
    running.cancel()


# The queue, for any order of requests and outcomes


class Requests:
    """A queue of writes, with the number of each write and its end."""

    def __init__(self) -> None:
        self.queue = KeyedQueue(lambda: 0.0, lambda: None)
        self.added: dict[int, tuple[str, PendingWrite]] = {}  # writes without an end, by number
        self.under_way: list[ObjectQueue] = []
        self.ended: list[int] = []
        self.waits: dict[tuple[Urgency, str], dict[str, int]] = {}
        """By urgency and namespace with ready objects: objects of each namespace since its last turn."""

    def add(self, namespace: str, name: str, *, urgent: bool) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        number = len(self.added) + len(self.ended)
        write: Write = PatchObject(path, {}, number) if urgent else PatchStatus(path, {}, about=number)
        pending = PendingWrite(write, 1, Backoff(0.0, 0.0, Random(1)))
        swallowed = self.queue.add(pending)
        if swallowed is not None:
            self._end(cast(int, swallowed.write.about))  # type: ignore[union-attr]
        self.added[number] = path, pending
        self._look()

    def take(self, urgency: Urgency) -> None:
        taken = self.queue.take(urgency)
        assert (taken is None) == (not any(key[0] is urgency for key in self.waits))
        if taken is None:
            return
        assert taken.under_way is not None
        assert all(each.path != taken.path for each in self.under_way), "one write to an object at a time"
        equals = [each for each in taken.waiting if each.write.urgency is urgency]
        assert taken.under_way is equals[0], "the first of equals"
        self.under_way.append(taken)
        for (other, namespace), passed in self.waits.items():
            if other is urgency and namespace != taken.namespace:
                passed[taken.namespace] += 1
                assert passed[taken.namespace] <= 1, f"{namespace} had no turn"
        self.waits.pop((urgency, taken.namespace))
        self._look()

    def finish(self, *, done: bool) -> None:
        if not self.under_way:
            return
        object_queue = self.under_way.pop(0)
        if done:
            pending = object_queue.under_way
            assert pending is not None
            object_queue.waiting.remove(pending)
            self._end(cast(int, pending.write.about))  # type: ignore[union-attr]
        self.queue.give_back(object_queue)
        self._look()

    def _end(self, number: int) -> None:
        del self.added[number]
        self.ended.append(number)

    def _look(self) -> None:
        ready = {(each.ready, each.namespace) for each in self.queue if each.ready is not None}
        self.waits = {key: self.waits.get(key, defaultdict(int)) for key in ready}  # type: ignore[misc]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from("abc"), st.sampled_from("xy"), st.booleans()),
            st.tuples(st.just("take"), st.sampled_from([Urgency.OBJECTS, Urgency.STATUSES])),
            st.tuples(st.just("finish"), st.booleans()),
        ),
        max_size=80,
    )
)
def test_each_write_ends_once_in_order_and_no_namespace_misses_its_turn(steps: Iterable[tuple]) -> None:  # type: ignore[type-arg]
    requests = Requests()
    for step, *words in steps:
        if step == "add":
            requests.add(words[0], words[1], urgent=words[2])
        elif step == "take":
            requests.take(words[0])
        else:
            requests.finish(done=words[0])
    while requests.added:
        for urgency in Urgency:
            requests.take(urgency)
        requests.finish(done=True)
    assert sorted(requests.ended) == list(range(len(requests.ended)))
    assert len(requests.queue) == 0


# Events


async def test_an_event_waits_for_no_flood_of_another_namespace() -> None:
    server = Server()
    server.lets.clear()
    async with acting_on(server, Pace(events_per_s=10_000)) as (writer, _):
        writer.submit([event("flood", "Unschedulable", waits=True) for _ in range(FLOOD)])
        await until(lambda: server.under_way == 1)
        writer.submit([event("other", "Scheduled", waits=False), event("other", "Waiting", waits=True)])
        server.lets.set()
        await until(lambda: server.came.count("POST other/events") == 2)
    places = [at for at, came in enumerate(server.came) if came == "POST other/events"]
    assert places[-1] <= 2 * LATER_EVERY


async def emitted(events: Iterable[EmitEvent], *, waiting_max: int) -> list[str]:
    """Return the requests of a recorder for events that were queued before it began."""
    server = Server()
    recorder = EventRecorder(
        cast(ApiClient, server),
        AlwaysLeader(),
        per_s=100_000.0,
        waiting_max=waiting_max,
        busy=lambda: False,
    )
    for each in events:
        recorder.say(each)
    running = asyncio.create_task(recorder.run())
    await until(lambda: not len(recorder) and not server.under_way)
    running.cancel()
    return server.came


async def test_a_full_queue_drops_events_of_the_namespace_with_the_most() -> None:
    flood = [event("flood", "Unschedulable", waits=True)] * FLOOD
    came = await emitted([*flood, event("other", "Unschedulable", waits=True), *flood], waiting_max=100)
    assert (len(came), came.count("POST other/events")) == (100, 1)


async def test_starts_of_one_namespace_leave_place_for_those_of_another() -> None:
    flood = [event("flood", "Scheduled", waits=False)] * FLOOD
    came = await emitted([*flood, event("other", "Scheduled", waits=False)], waiting_max=5000)
    assert (len(came), came.count("POST other/events")) == (STARTS_MAX, 1)


async def test_refused_events_of_one_namespace_delay_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are refused, for example, in a namespace that is being deleted."""
    monkeypatch.setattr(event_recorder, "PAUSE_S", 3600.0)
    server = Server()
    server.faults = [ApiRefused(403, "Forbidden", "It is being terminated.")] * 3
    async with acting_on(server, Pace()) as (writer, _):
        writer.submit([event("gone", "Unschedulable", waits=True)] * 3)
        writer.submit([event("other", "Unschedulable", waits=True)])
        await until(lambda: len(server.came) == 4)


async def test_events_pause_while_the_api_server_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "PAUSE_S", 3600.0)
    server = Server()
    server.faults = [ApiUnreachable("gone", may_have_happened=False)]
    async with acting_on(server, Pace()) as (writer, _):
        writer.submit([event("team", "Unschedulable", waits=True)] * 2)
        await until(lambda: writer.recorder.dropped == 1)
        await asyncio.sleep(0.05)
        assert len(server.came) == 1

"""Carries out writes concurrently and at a rate, in order for each object, with retries.

Every write has exactly one final outcome, which is passed to one function. A write that the server can't
accept now, or that got lost, waits for its back-off; no other write waits for it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from weir.kubernetes.api.backoff import Backoff, RateLimiter
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError, ApiRefused, TooManyRequests
from weir.kubernetes.api.leader_election import Leadership
from weir.kubernetes.writes.delivery.congestion import CongestionWindow, is_congestion
from weir.kubernetes.writes.delivery.device_conditions import DevicesPending
from weir.kubernetes.writes.delivery.event_recorder import EventRecorder
from weir.kubernetes.writes.delivery.keyed_queue import KeyedQueue, ObjectQueue, PendingWrite, merge
from weir.kubernetes.writes.delivery.leader_guard import LeaderGuard, NotLeading
from weir.kubernetes.writes.delivery.requests import emit, refused_by_budget, send
from weir.kubernetes.writes.operations import (
    Bind,
    EmitEvent,
    Evict,
    Outcome,
    PatchStatus,
    SuspendOwner,
    Urgency,
    Write,
    WriteDelayed,
    WriteDone,
    WriteNotSent,
    WriteRefused,
    WriteSuperseded,
    WriteUnknown,
)


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits of writes: rate, concurrency and time."""

    per_s: float = 0.0  # writes a second; 0: as fast as the server takes them
    in_flight: int = 128  # limit, lower while the server answers late
    others_in_flight: int = 8  # limit for each other urgency, so that the server keeps up
    beside_pods: int = 4  # limit while writes for pods are in flight
    kept: int = 1  # writes of each other urgency before those for pods, in a window of KEPT_IN or more
    few: int = 32  # with up to this number of pods, the reason of an eviction is written first
    events_per_s: float = 50.0
    events_waiting: int = 5000
    first_s: float = 0.2  # pause before the first retry
    most_s: float = 15.0
    give_up_s: float = 60.0  # time for a binding; after that it is planned again
    evicts_for_s: float = 30.0  # time for an eviction by a plan
    devices_s: float = 5.0  # longest pause between checks of devices in preparation
    congested_for_s: float = 120.0  # the same while the server is congested: other writes would fail, too


KEPT_IN = 8
"""Window size from which on some writes are reserved for objects and statuses, so that pods can't fill it."""


def _go(_: Bind | Evict | SuspendOwner) -> str:
    return ""


class ApiWriter:
    """The writes that wait and those that are being sent. `run` it as a task."""

    def __init__(
        self,
        api: ApiClient,
        leadership: Leadership,
        take_outcome: Callable[[Write, Outcome], None],
        *,
        check: Callable[[Bind | Evict | SuspendOwner], str] = _go,
        pace: Pace = Pace(),
        chance: Random | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Run `check` before each binding or eviction; a sentence that it returns prevents the write.

        `clock` has the times that are written.
        """
        self._clock = clock
        self._api = api
        self._leadership = leadership
        self._take_outcome = take_outcome
        self._check = check
        self._pace = pace
        self._chance = chance or Random()  # noqa: S311 - nothing here is secret
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._queues = KeyedQueue(time.monotonic, self._wake.set)
        self._rate = RateLimiter(pace.per_s, burst=max(1.0, pace.per_s / 20))
        self._under_way = dict.fromkeys(Urgency, 0)
        self.window = CongestionWindow(pace.in_flight)
        self._term = leadership.term
        self._closed = False
        self.recorder = EventRecorder(
            api,
            leadership,
            per_s=pace.events_per_s,
            waiting_max=pace.events_waiting,
            clock=clock,
            busy=lambda: self._under_way[Urgency.PODS] > pace.beside_pods,
        )
        self.outcomes: Counter[str] = Counter()
        """By the kinds of write and outcome, such as "Bind Done"."""
        self.tries = 0
        self.retries = 0
        self.throttled = 0

    def __len__(self) -> int:
        """Return the number of objects with writes that wait or are being sent."""
        return len(self._queues)

    @property
    def in_flight(self) -> int:
        """Number of writes without an answer yet."""
        return sum(self._under_way.values())

    def submit(self, writes: Iterable[Write | EmitEvent]) -> None:
        """Queue these writes. Each gets an outcome later, even if nothing is sent any more."""
        if self._term != self._leadership.term:
            self._term = self._leadership.term
            self._drop("This one stopped leading before it was sent.")
        for write in writes:
            if isinstance(write, EmitEvent):
                self.recorder.say(write)
                continue
            backoff = Backoff(self._pace.first_s, self._pace.most_s, self._chance)
            swallowed = self._queues.add(PendingWrite(write, self._term, backoff))
            if swallowed is not None:
                self._settle(swallowed, WriteSuperseded())

    async def run(self) -> None:
        """Carry out queued writes until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.recorder.run(), name="weir-events")
            while True:
                object_queue = self._next()
                if object_queue is None:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                pending = object_queue.under_way
                assert pending is not None, "a lane that was taken has a write under way"
                self._under_way[pending.write.urgency] += 1
                await self._rate.wait()
                group.create_task(self._carry_out(object_queue, pending))

    async def drain(self, within_s: float) -> None:
        """Finish as much as possible in this time, send nothing after it, and wait for open writes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._until(lambda: not len(self._queues))
        self._closed = True
        self._drop("Weir is stopping.")
        await self._until(lambda: not self.in_flight)
        self._drop("Weir is stopping.")  # writes that would be tried again

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._moved.clear()
            await self._moved.wait()

    def _next(self) -> ObjectQueue | None:
        if self.in_flight >= self.window.limit:
            return None
        if self.window.limit >= KEPT_IN:
            for urgency in (Urgency.OBJECTS, Urgency.STATUSES):
                if self._under_way[urgency] < self._pace.kept and (kept := self._queues.take(urgency)):
                    return kept
        pods = self._under_way[Urgency.PODS]
        others = self._pace.beside_pods if pods else self._pace.others_in_flight
        for urgency in Urgency:
            if urgency is not Urgency.PODS and self._under_way[urgency] >= others:
                continue
            object_queue = self._queues.take(urgency)
            if object_queue is not None:
                return object_queue
        return None

    async def _carry_out(self, object_queue: ObjectQueue, pending: PendingWrite) -> None:
        try:
            outcome = await self._try(pending)
        finally:
            self._under_way[pending.write.urgency] -= 1
            self._wake.set()
            self._moved.set()
        if outcome is not None:
            object_queue.waiting.remove(pending)
            self._settle(pending, outcome)
            if isinstance(pending.write, Bind) and isinstance(outcome, WriteDone):
                self._drop_pending_status(object_queue)
        elif self._swallowed(object_queue, pending):
            self._settle(pending, WriteSuperseded())
        self._queues.give_back(object_queue)

    async def _try(self, pending: PendingWrite) -> Outcome | None:
        """Try a write once, and return its outcome; None if it has to be tried again."""
        if self._closed:
            return _unsent(pending, "Weir is stopping.")
        if isinstance(pending.write, Bind | Evict | SuspendOwner):
            no = self._check(pending.write)
            if no:
                return WriteRefused(409, no) if pending.awaits_devices else _unsent(pending, no)
        self.tries += 1
        sent_s = time.monotonic()
        pending.tried_s = pending.tried_s or sent_s
        try:
            fenced = LeaderGuard(self._api, self._leadership, pending.term, self._clock)
            fenced.check()
            await self._explain(fenced, pending)
            sent_s = time.monotonic()
            outcome = await send(fenced, pending.write, uncertain=pending.uncertain)
        except NotLeading as error:
            return _unsent(pending, str(error))
        except DevicesPending as error:
            self.window.answered(sent_s)
            self._await_devices(pending, str(error))
            return None
        except ApiError as error:
            self.window.answered(sent_s, error)
            return self._again(pending, error)
        self.window.answered(sent_s)
        return outcome

    async def _explain(self, fenced: LeaderGuard, pending: PendingWrite) -> None:
        """Report why a pod is evicted before its eviction; among many evictions, when there is time."""
        because = pending.write.because if isinstance(pending.write, Evict) else None
        if because is None or pending.explained or self._under_way[Urgency.PODS] > self._pace.few:
            return
        pending.explained = True
        with suppress(ApiError):  # the eviction doesn't depend on its event
            await emit(fenced, because)

    def _await_devices(self, pending: PendingWrite, sentence: str) -> None:
        """Schedule the next attempt of a binding whose devices are being prepared.

        The time limit is that of the devices' claim, not that of the binding.
        """
        pending.awaits_devices, pending.tried_s = True, 0.0
        pending.not_before_s = time.monotonic() + min(self._pace.devices_s, pending.backoff.next_s())
        if pending.delayed_by != sentence:
            pending.delayed_by = sentence
            self._take_outcome(pending.write, WriteDelayed(sentence))

    def _again(self, pending: PendingWrite, error: ApiError) -> Outcome | None:
        """Schedule a retry and return None, or return the outcome if retries have lasted too long."""
        self.retries += 1
        pending.uncertain = pending.uncertain or error.may_have_happened
        wait_s = pending.backoff.next_s()
        now_s = time.monotonic()
        tries_for_s = self._pace.congested_for_s if is_congestion(error) else self._pace.evicts_for_s
        gives_up = _gives_up(pending.write)
        if gives_up and (refused_by_budget(error) or now_s - pending.tried_s > tries_for_s):
            if pending.uncertain and not refused_by_budget(error):
                return WriteUnknown(str(error))
            return WriteRefused(error.status if isinstance(error, ApiRefused) else 0, str(error))
        if isinstance(error, TooManyRequests) and error.by_budget:
            if pending.delayed_by != error.message:
                pending.delayed_by = error.message
                self._take_outcome(pending.write, WriteDelayed(error.message))
        elif isinstance(error, TooManyRequests):
            self.throttled += 1
            wait_s = max(wait_s, error.retry_after_s * self._chance.uniform(1.0, 1.25))
        pending.not_before_s = now_s + wait_s
        if isinstance(pending.write, Bind) and pending.not_before_s - pending.tried_s > self._pace.give_up_s:
            if pending.uncertain:
                return WriteUnknown(str(error))
            return WriteRefused(error.status if isinstance(error, ApiRefused) else 0, str(error))
        return None

    def _swallowed(self, object_queue: ObjectQueue, pending: PendingWrite) -> bool:
        """Return True if a status needn't be sent again, because a later queued status includes it."""
        for place, later in enumerate(object_queue.waiting):
            both = merge(pending, later) if later is not pending else None
            if both is not None:
                object_queue.waiting[place] = both
                object_queue.waiting.remove(pending)
                return True
        return False

    def _drop_pending_status(self, object_queue: ObjectQueue) -> None:
        """Drop writes for a pod that concern only its time as pending."""
        for pending in list(object_queue.waiting):
            if isinstance(pending.write, PatchStatus) and pending.write.until_bound:
                object_queue.waiting.remove(pending)
                self._settle(pending, WriteSuperseded())

    def _drop(self, sentence: str) -> None:
        """Discard all pending writes."""
        for object_queue in self._queues:
            for pending in [
                pending for pending in object_queue.waiting if pending is not object_queue.under_way
            ]:
                object_queue.waiting.remove(pending)
                self._settle(pending, _unsent(pending, sentence))
            self._queues.schedule(object_queue)

    def _settle(self, pending: PendingWrite, outcome: Outcome) -> None:
        self.outcomes[f"{type(pending.write).__name__} {type(outcome).__name__}"] += 1
        because = pending.write.because if isinstance(pending.write, Evict) else None
        if because is not None and not pending.explained and isinstance(outcome, WriteDone):
            self.recorder.say(because)
        self._take_outcome(pending.write, outcome)


def _gives_up(write: Write) -> bool:
    """Return True for a stop that isn't retried: a plan may order it again, for this pod or another."""
    if isinstance(write, SuspendOwner):
        return write.restarts and write.suspends
    return isinstance(write, Evict) and not write.insists


def _unsent(pending: PendingWrite, sentence: str) -> Outcome:
    return WriteUnknown(sentence) if pending.uncertain else WriteNotSent(sentence)

"""Carries out writes: hundreds at a time, at a rate, in order for each object, and again until it is settled.

Every write gets exactly one final outcome, told to one function. What the server can't take now, or
what got lost on the way, waits out its back-off beside the road; nothing else waits for it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from weir.kubernetes.api.answers import ApiError, Refused, TooMany
from weir.kubernetes.api.connection import Connection
from weir.kubernetes.api.leading import Fence
from weir.kubernetes.api.patience import Backoff, Rate
from weir.kubernetes.writing.congestion import CongestionWindow, is_congestion
from weir.kubernetes.writing.fenced import Fenced, NotLeading
from weir.kubernetes.writing.lanes import Lane, Lanes, Waiting, merge
from weir.kubernetes.writing.saying import Saying
from weir.kubernetes.writing.sending import emit, refused_by_budget, send
from weir.kubernetes.writing.writes import (
    Bind,
    Done,
    Emit,
    Evict,
    HeldUp,
    NotSent,
    Outcome,
    RefusedWrite,
    Superseded,
    Unknown,
    Urgency,
    Write,
)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast, how many at a time, and how long."""

    per_s: float = 0.0  # writes a second; 0: as fast as the server takes them
    in_flight: int = 128  # at most; fewer while the server answers late
    others_in_flight: int = 8  # of these, of each other urgency than pods: a busy server slows them down
    beside_pods: int = 4  # of these, while pods are under way: to the server they cost as much as pods do
    few: int = 32  # so many pods under way are no burst: why they are evicted is said before
    events_per_s: float = 50.0
    events_waiting: int = 5000
    first_s: float = 0.2  # the first wait before a write is tried again
    most_s: float = 15.0
    give_up_s: float = 60.0  # on a binding, after its first try: plan it anew
    evicts_for_s: float = 30.0  # the same on an eviction that a plan ordered
    congested_for_s: float = (
        120.0  # the same where the server can't keep up: it would take no other one either
    )


def _go(_: Bind | Evict) -> str:
    return ""


class Acting:
    """The writes that wait and those that are under way. `run` it as a task."""

    def __init__(
        self,
        api: Connection,
        fence: Fence,
        told: Callable[[Write, Outcome], None],
        *,
        check: Callable[[Bind | Evict], str] = _go,
        pace: Pace = Pace(),
        chance: Random | None = None,
    ) -> None:
        """`check` is asked right before a binding or an eviction is sent: a sentence means no."""
        self._api = api
        self._fence = fence
        self._told = told
        self._check = check
        self._pace = pace
        self._chance = chance or Random()  # noqa: S311 - nothing here is secret
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._lanes = Lanes(time.monotonic, self._wake.set)
        self._rate = Rate(pace.per_s, burst=max(1.0, pace.per_s / 20))
        self._under_way = dict.fromkeys(Urgency, 0)
        self.window = CongestionWindow(pace.in_flight)
        self._term = fence.term
        self._closed = False
        self.saying = Saying(
            api,
            fence,
            per_s=pace.events_per_s,
            waiting_most=pace.events_waiting,
            busy=lambda: self._under_way[Urgency.PODS] > pace.beside_pods,
        )
        self.outcomes: Counter[str] = Counter()
        """By the kinds of write and outcome, such as "Bind Done"."""
        self.tries = 0
        self.retries = 0
        self.throttled = 0

    def __len__(self) -> int:
        """How many objects have writes that wait or are under way."""
        return len(self._lanes)

    @property
    def in_flight(self) -> int:
        """How many are under way."""
        return sum(self._under_way.values())

    def submit(self, writes: Iterable[Write | Emit]) -> None:
        """Have these carried out. Their outcomes are told later, even if nothing is to be sent any more."""
        if self._term != self._fence.term:
            self._term = self._fence.term
            self._drop("This one stopped leading before it was sent.")
        for write in writes:
            if isinstance(write, Emit):
                self.saying.say(write)
                continue
            backoff = Backoff(self._pace.first_s, self._pace.most_s, self._chance)
            swallowed = self._lanes.add(Waiting(write, self._term, backoff))
            if swallowed is not None:
                self._settle(swallowed, Superseded())

    async def run(self) -> None:
        """Carry them out, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.saying.run(), name="weir-events")
            while True:
                lane = self._next()
                if lane is None:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                one = lane.under_way
                assert one is not None, "a lane that was taken has a write under way"
                self._under_way[one.write.urgency] += 1
                await self._rate.wait()
                group.create_task(self._carry_out(lane, one))

    async def drain(self, within_s: float) -> None:
        """Finish what there is in this time, send nothing after it, and wait for what is still under way."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._until(lambda: not len(self._lanes))
        self._closed = True
        self._drop("Weir is stopping.")
        await self._until(lambda: not self.in_flight)

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._moved.clear()
            await self._moved.wait()

    def _next(self) -> Lane | None:
        if self.in_flight >= self.window.limit:
            return None
        pods = self._under_way[Urgency.PODS]
        others = self._pace.beside_pods if pods else self._pace.others_in_flight
        for urgency in Urgency:
            if urgency is not Urgency.PODS and self._under_way[urgency] >= others:
                continue
            lane = self._lanes.take(urgency)
            if lane is not None:
                return lane
        return None

    async def _carry_out(self, lane: Lane, one: Waiting) -> None:
        try:
            outcome = await self._try(one)
        finally:
            self._under_way[one.write.urgency] -= 1
            self._wake.set()
            self._moved.set()
        if outcome is not None:
            lane.waiting.remove(one)
            self._settle(one, outcome)
        elif self._swallowed(lane, one):
            self._settle(one, Superseded())
        self._lanes.give_back(lane)

    async def _try(self, one: Waiting) -> Outcome | None:
        """Try it once; None: it is to be tried again."""
        if self._closed:
            return _unsent(one, "Weir is stopping.")
        if isinstance(one.write, Bind | Evict):
            no = self._check(one.write)
            if no:
                return _unsent(one, no)
        self.tries += 1
        sent_s = time.monotonic()
        one.tried_s = one.tried_s or sent_s
        try:
            fenced = Fenced(self._api, self._fence, one.term)
            fenced.check()
            await self._explain(fenced, one)
            sent_s = time.monotonic()
            outcome = await send(fenced, one.write, uncertain=one.uncertain)
        except NotLeading as error:
            return _unsent(one, str(error))
        except ApiError as error:
            self.window.answered(sent_s, error)
            return self._again(one, error)
        self.window.answered(sent_s)
        return outcome

    async def _explain(self, fenced: Fenced, one: Waiting) -> None:
        """Say why a pod is evicted before it is; among many that is said when there is time."""
        because = one.write.because if isinstance(one.write, Evict) else None
        if because is None or one.explained or self._under_way[Urgency.PODS] > self._pace.few:
            return
        one.explained = True
        with suppress(ApiError):  # the eviction doesn't hang on it
            await emit(fenced, because)

    def _again(self, one: Waiting, error: ApiError) -> Outcome | None:
        """When it is to be tried again, or what comes of it if that has lasted too long."""
        self.retries += 1
        one.uncertain = one.uncertain or error.may_have_happened
        wait_s = one.backoff.next_s()
        now_s = time.monotonic()
        tries_for_s = self._pace.congested_for_s if is_congestion(error) else self._pace.evicts_for_s
        gives_up = isinstance(one.write, Evict) and not one.write.insists
        if gives_up and (refused_by_budget(error) or now_s - one.tried_s > tries_for_s):
            if one.uncertain and not refused_by_budget(error):
                return Unknown(str(error))
            return RefusedWrite(error.status if isinstance(error, Refused) else 0, str(error))
        if isinstance(error, TooMany) and error.by_budget:
            if one.said != error.message:
                one.said = error.message
                self._told(one.write, HeldUp(error.message))
        elif isinstance(error, TooMany):
            self.throttled += 1
            wait_s = max(wait_s, error.retry_after_s * self._chance.uniform(1.0, 1.25))
        one.not_before_s = now_s + wait_s
        if isinstance(one.write, Bind) and one.not_before_s - one.tried_s > self._pace.give_up_s:
            if one.uncertain:
                return Unknown(str(error))
            return RefusedWrite(error.status if isinstance(error, Refused) else 0, str(error))
        return None

    def _swallowed(self, lane: Lane, one: Waiting) -> bool:
        """Whether a status that has to be sent again could go with one that came meanwhile."""
        for place, later in enumerate(lane.waiting):
            both = merge(one, later) if later is not one else None
            if both is not None:
                lane.waiting[place] = both
                lane.waiting.remove(one)
                return True
        return False

    def _drop(self, sentence: str) -> None:
        """Send nothing of what waits."""
        for lane in self._lanes:
            for one in [one for one in lane.waiting if one is not lane.under_way]:
                lane.waiting.remove(one)
                self._settle(one, _unsent(one, sentence))
            self._lanes.schedule(lane)

    def _settle(self, one: Waiting, outcome: Outcome) -> None:
        self.outcomes[f"{type(one.write).__name__} {type(outcome).__name__}"] += 1
        because = one.write.because if isinstance(one.write, Evict) else None
        if because is not None and not one.explained and isinstance(outcome, Done):
            self.saying.say(because)
        self._told(one.write, outcome)


def _unsent(one: Waiting, sentence: str) -> Outcome:
    return Unknown(sentence) if one.uncertain else NotSent(sentence)

"""Leader election by a Lease: one of several processes leads, and stops in time when it can't renew.

    |- asked -------------- renew_deadline_s ----------| write_s |- lease_s: another may begin
      the leader writes                                 stops: requests
                                                        under way end

A leader counts from the moment *before* it asked for the lease that it was given; another one from
the moment *after* it saw that. So the leader's last request has timed out, here and at the server,
before another one begins, as long as both clocks run equally fast. No clock is compared with
another: the times in the Lease are for people.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Protocol
from uuid import uuid4

import msgspec

from weir.control.clock import boot_time
from weir.kubernetes.api.changes import Change, ObjectRemoved, ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from weir.kubernetes.api.objects import ApiStruct, Metadata
from weir.kubernetes.api.paths import path_of
from weir.kubernetes.api.reflector import Reflector

PAST_S = 0.01
"""Time from the end of a lease to the turn that takes it."""


class Leadership(Protocol):
    """Right to write, checked before every write."""

    @property
    def term(self) -> int:
        """Number of the current term. A write decided in another term isn't sent."""
        ...

    def may_write(self) -> bool:
        """Return True if a request may be sent now."""
        ...


class AlwaysLeader:
    """Leadership of a process that runs without leader election."""

    term = 1

    def may_write(self) -> bool:
        """Return True always."""
        return True


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Times of a lease. The defaults are the customary values of the field."""

    lease_s: int = 15  # time after which another replica may take the lease
    renew_deadline_s: float = 10.0  # time without renewal after which the leader stops writing
    retry_s: float = 2.0  # between renewals, and between looks of standbys


class LeaseSpec(ApiStruct, omit_defaults=True):
    """Holder of a lease."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(ApiStruct, omit_defaults=True):
    """A lease of coordination.k8s.io."""

    metadata: Metadata
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


def pod_identity() -> str:
    """Return the name of this process's pod, or of the machine outside of a cluster."""
    return os.environ.get("HOSTNAME") or socket.gethostname()


class LeaderElection:
    """Takes part in the election. `run` it as a task, and `release` at a clean stop."""

    def __init__(
        self,
        api: ApiClient,
        *,
        namespace: str,
        identity: str,
        name: str = "weir",
        timing: LeaseTiming = LeaseTiming(),
        clock: Callable[[], float] = boot_time,
        shown: Callable[[], float] = time.time,
        chance: Random | None = None,
    ) -> None:
        if timing.renew_deadline_s + api.limits.write_s > timing.lease_s:
            raise ValueError(
                f"The renew deadline of {timing.renew_deadline_s:g} s and the {api.limits.write_s:g} s that "
                f"a write may take exceed the lease of {timing.lease_s} s: write a longer lease, or an "
                "earlier deadline."
            )
        self._api = api
        self._leases = path_of("coordination.k8s.io/v1", "leases", namespace)
        self._path = path_of("coordination.k8s.io/v1", "leases", namespace, name)
        self._name = name
        self._timing = timing
        self._clock = clock
        self._shown = shown
        self._chance = chance or Random()  # noqa: S311 - nothing here is secret
        self.identity = (
            # Unique by process, because a restarted pod may have the same name
            f"{identity}_{uuid4().hex[:8]}"
        )
        self.holder = ""
        """Identity of the leader that the lease last named."""
        self.failure = ""
        self._lease: Lease | None = None  # the lease as last read or written
        self._seen_s = 0.0  # time at which this version was first read
        self._asked_s = -float("inf")  # time of the request that acquired or renewed the lease
        self._leads = False
        self._term = 0
        self._freed = asyncio.Event()
        self._won = asyncio.Event()
        self._lost = asyncio.Event()
        self._lost.set()
        self._resigned = self._released = False
        self._at_rest = asyncio.Event()
        self._at_rest.set()

    @property
    def term(self) -> int:
        """Number of elections that this process has won."""
        return self._term

    def may_write(self) -> bool:
        """Return True if this process leads and its renewal isn't overdue."""
        return (
            self._leads
            and not self._released
            and self._clock() - self._asked_s < self._timing.renew_deadline_s
        )

    async def won(self) -> None:
        """Wait until this one leads."""
        await self._won.wait()

    async def lost(self) -> None:
        """Wait until this one doesn't lead."""
        await self._lost.wait()

    async def run(self) -> None:
        """Compete for the lease and renew it, until it is released."""
        self._at_rest.clear()
        watch = Reflector(
            self._api, self._leases, Lease, self._hear, field_selector=f"metadata.name={self._name}"
        )
        hearing = asyncio.create_task(watch.run(), name="weir-lease")
        try:
            while not self._released:
                if not self._resigned:
                    await self._turn()
                elif self._leads and not self.may_write():
                    self._end()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._freed.wait(), self._wait_s())
                self._freed.clear()
        finally:
            hearing.cancel()
            self._end()
            self._at_rest.set()

    def resign(self) -> None:
        """Renew and campaign no more. If the stop that begins hangs, the lease runs out meanwhile."""
        self._resigned = True

    async def release(self) -> None:
        """Release the lease at once. No write may be open any more."""
        self._released = True
        self._freed.set()
        await self._at_rest.wait()
        if self._lease is not None and self.holder == self.identity:
            left = _with_spec(
                self._lease, holder_identity="", lease_duration_seconds=1, renew_time=self._now()
            )
            with suppress(ApiError):  # else the lease expires
                self._see(await self._api.put(self._path, left, Lease))

    def _hear(self, changes: Sequence[Change[Lease]]) -> None:
        """Record another replica's renewal, and wake this candidate when the lease is free."""
        last = changes[-1]
        if isinstance(last, ObjectSet) and last.object.spec.holder_identity:
            if not self._leads:  # an own renewal may be heard after a later one
                self._see(last.object)
        elif isinstance(last, ObjectSet | ObjectRemoved):
            self._freed.set()

    def _wait_s(self) -> float:
        """Return the pause before the next turn. A candidate doesn't sleep through the end of a lease."""
        wait_s = self._timing.retry_s * self._chance.uniform(0.8, 1.0)
        if self._leads or self._lease is None or self._is_free():
            return wait_s
        left_s = self._seen_s + self._lease.spec.lease_duration_seconds - self._clock()
        return min(wait_s, left_s + PAST_S)

    async def _turn(self) -> None:
        """Request the lease once, within the time that is left for it."""
        overdue_s = self._asked_s + self._timing.renew_deadline_s - self._clock()
        within_s = min(overdue_s, self._timing.retry_s * 2) if self._leads else self._api.limits.write_s
        try:
            async with asyncio.timeout(within_s):
                await self._ask()
            self.failure = ""
        except TimeoutError:
            self.failure = f"The lease {self._path} could not be had within {within_s:.1f} s."
        except (
            Conflict,
            NotFound,
        ):  # another replica was faster, or our answer was lost: read again
            self._lease = None
        except ApiError as error:
            self.failure = str(error)
        if self._leads and not self.may_write():
            self._end()

    async def _ask(self) -> None:
        if not self._leads or self._lease is None:
            await self._look()
            if not self._is_free():
                if self._leads:
                    self._end()
                return
        asked_s = self._clock()
        wanted = self._wanted()
        try:
            if self._lease is None:
                self._see(await self._api.post(self._leases, wanted, Lease))
            else:
                self._see(await self._api.put(self._path, wanted, Lease))
        except AlreadyExists:
            self._lease = None
            return
        self._asked_s = asked_s
        if not self._leads and not self._resigned:  # else the release frees the lease that it got
            self._leads = True
            self._term += 1
            self._lost.clear()
            self._won.set()

    async def _look(self) -> None:
        try:
            self._see(await self._api.get(self._path, Lease))
        except NotFound:
            self._lease = None
            self.holder = ""

    def _see(self, lease: Lease) -> None:
        tracked = self._lease
        if tracked is None or tracked.metadata.resource_version != lease.metadata.resource_version:
            self._seen_s = self._clock()
        self._lease = lease
        self.holder = lease.spec.holder_identity

    def _is_free(self) -> bool:
        if self._lease is None or self.holder in {"", self.identity}:
            return True
        return self._clock() - self._seen_s > self._lease.spec.lease_duration_seconds

    def _wanted(self) -> Lease:
        """Return the lease with this process as its holder."""
        now = self._now()
        if self._lease is None:
            metadata, transitions, since = Metadata(self._name), 0, now
        else:
            metadata, transitions = self._lease.metadata, self._lease.spec.lease_transitions
            since = self._lease.spec.acquire_time or now
            if self.holder != self.identity:
                transitions, since = transitions + 1, now
        return Lease(metadata, LeaseSpec(self.identity, self._timing.lease_s, since, now, transitions))

    def _now(self) -> str:
        """Return the time that people read in the lease."""
        return datetime.fromtimestamp(self._shown(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _end(self) -> None:
        self._leads = False
        self._won.clear()
        self._lost.set()


def _with_spec(lease: Lease, **changes: object) -> Lease:
    """Return the lease with a changed spec."""
    return msgspec.structs.replace(lease, spec=msgspec.structs.replace(lease.spec, **changes))

"""Leader election while a process stops: who has resigned doesn't begin to lead."""

import asyncio
from typing import Any, cast

import pytest

from weir.kubernetes.api import leader_election
from weir.kubernetes.api.client import ApiClient, ClientLimits
from weir.kubernetes.api.errors import NotFound
from weir.kubernetes.api.leader_election import LeaderElection, Lease


class SlowServer:
    """A server without a lease, which answers the request for one only when it may."""

    limits = ClientLimits()

    def __init__(self) -> None:
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.lease: Lease | None = None

    async def get(self, path: str, _: type[Lease]) -> Lease:
        if self.lease is None:
            raise NotFound(404, "NotFound", "There is no lease.")
        return self.lease

    async def post(self, path: str, lease: Lease, _: type[Lease]) -> Lease:
        self.asked.set()
        await self.may_answer.wait()
        self.lease = lease
        return lease

    async def put(self, path: str, lease: Lease, _: type[Lease]) -> Lease:
        self.lease = lease
        return lease


class SilentWatch:
    """A watch that hears nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    async def run(self) -> None:
        await asyncio.Event().wait()


async def test_candidate_that_resigns_while_it_asks_for_the_lease_does_not_lead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_election, "Reflector", SilentWatch)
    server = SlowServer()
    election = LeaderElection(cast(ApiClient, server), namespace="weir", identity="a", shown=lambda: 1e9)
    running = asyncio.create_task(election.run())
    won = asyncio.create_task(election.won())
    await server.asked.wait()
    election.resign()
    server.may_answer.set()
    await election.release()
    await running
    assert not won.done(), "its stop has begun, so nothing may start"
    assert election.term == 0
    assert server.lease is not None
    assert server.lease.spec.holder_identity == "", "another process leads at once"
    assert server.lease.spec.renew_time == "2001-09-09T01:46:40.000000Z", "by the given clock"
    won.cancel()

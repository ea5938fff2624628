"""A pool for tests: a real store, real processes on virtual devices, asked over ASGI without a socket."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.unit.store.migrated import place_database

from weir.control.clock import Clock
from weir.local.backend import LocalBackend
from weir.local.machine.machine import this_machine
from weir.local.server.access.account_mode import AccountMode, PoolAccounts
from weir.local.server.access.audit import AuditLog
from weir.local.server.access.auth import Authenticator, admin_token
from weir.local.server.app import create_app
from weir.local.server.http.peers import PEER, PeerCredentials
from weir.local.server.http.server_limits import ServerLimits
from weir.local.server.pool import PoolService
from weir.local.server.views.event_stream import EventStream
from weir.model.policy import Policy
from weir.notifications.notification_settings import NotificationSettings
from weir.store.store import Store

SMALL = {"cpu": "100m", "memory": "16Mi"}


class Standing:
    """A pool that stands, and an administrator who asks."""

    def __init__(self, pool: PoolService, transport: httpx.ASGITransport, token: str) -> None:
        self.pool = pool
        self.transport = transport
        self.token = token
        self.admin = self.asks(token)

    def asks(self, token: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=self.transport, base_url="http://pool", headers={"Authorization": f"Bearer {token}"}
        )

    def peer(self, uid: int) -> httpx.AsyncClient:
        """Return a client whose requests come over a Unix socket from a user."""
        app = self.transport.app

        async def with_peer(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "state": {PEER: PeerCredentials(1, uid)}}, receive, send)

        transport = httpx.ASGITransport(with_peer, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://pool")

    async def member(self, *projects: str, user: str = "mia", role: str = "member") -> httpx.AsyncClient:
        body = {"user": user, "role": role, "projects": list(projects)}
        made = await self.admin.post("/api/v1/tokens", json=body)
        assert made.status_code == 201, made.text
        return self.asks(made.json()["token"])

    async def project(self, name: str, gpus: int, **more: Any) -> dict[str, Any]:
        made = await self.admin.put(
            f"/api/v1/projects/{name}", json={"name": name, "quota": {"gpu": gpus}, **more}
        )
        assert made.status_code in (200, 201), made.text
        return made.json()

    async def submit(
        self, *command: str, project: str = "default", gpus: float = 1, **more: Any
    ) -> dict[str, Any]:
        pods = more.pop("pods", [{"gpus": gpus, **SMALL}])
        body = {"project": project, "command": list(command) or ["sleep", "3600"], "pods": pods, **more}
        made = await self.admin.post("/api/v1/workloads", json=body)
        assert made.status_code == 201, made.text
        return made.json()

    async def get(self, path: str, **params: Any) -> Any:
        answer = await self.admin.get(f"/api/v1/{path}", params=params or None)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def until(self, name: str, *statuses: str, within_s: float = 120.0) -> dict[str, Any]:
        return await self.until_true(
            lambda row: row["status"] in statuses, f"workloads/{name}", within_s=within_s
        )

    async def until_true(self, holds: Callable[[Any], bool], path: str, within_s: float = 120.0) -> Any:
        """Ask the seldomer the longer it takes: an answer costs as much as what is waited for."""
        begun = time.monotonic()
        while True:
            answer = await self.get(path)
            if holds(answer):
                return answer
            waited_s = time.monotonic() - begun
            assert waited_s < within_s, answer
            await asyncio.sleep(min(0.2, 0.02 + waited_s / 10))

    async def why(self, name: str, who: httpx.AsyncClient | None = None) -> dict[str, Any]:
        """Ask why a workload waits until all suggestions are tried."""
        async with asyncio.timeout(120):
            while True:
                found = await (who or self.admin).get(f"/api/v1/workloads/{name}/why?wait=10")
                assert found.status_code == 200, found.text
                if not found.json()["unfinished"]:
                    return dict(found.json())

    async def until_log(self, path: str, holds: Callable[[str], bool]) -> None:
        """Wait until the output of a job has what another thread writes into it."""
        async with asyncio.timeout(120):
            while not holds((await self.admin.get(f"/api/v1/workloads/{path}")).text):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def until_ready(self) -> None:
        """Wait until nothing is late: on a busy machine, a probe may take longer than it should."""
        async with asyncio.timeout(120):
            while (await self.admin.get("/readyz")).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def reconnect(stands: Standing) -> None:
    """Have another control take over, and wait until it has read the whole state."""
    thread = stands.pool.control_thread
    thread._control = None
    thread.wake()
    async with asyncio.timeout(120):
        while thread._control is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await stands.pool.query(lambda _: None)


@asynccontextmanager
async def standing(
    home: Path,
    *,
    gpus: int = 4,
    policy: Policy | None = None,
    limits: ServerLimits | None = None,
    end_jobs: bool = True,
    clock: Clock | None = None,
    accounts: PoolAccounts | None = None,
    notifications: NotificationSettings | None = None,
) -> AsyncIterator[Standing]:
    """A pool that stands until the block ends. Its jobs end with it, unless told otherwise."""
    clock = clock or Clock()
    os.makedirs(home, exist_ok=True)  # noqa: PTH103 - a path would have to be asked asynchronously
    place_database(home)
    token = admin_token(home)
    machine = this_machine(home, virtual_devices=gpus, control_groups=False)
    store = Store(None, home)
    stream = EventStream(epoch=int(time.time() * 1000))
    stream.open(asyncio.get_running_loop())
    pool = PoolService(
        store,
        machine.node,
        policy or Policy(),
        stream,
        home=home,
        limits=limits,
        clock=clock,
        accounts=accounts or PoolAccounts(mode=AccountMode.SHARED_ACCOUNT),
    )
    backend = LocalBackend(
        store.journal,
        home,
        machine,
        clock,
        wake=pool.control_thread.wake,
        noted=pool.job_reports.noted,
        refused=pool.job_reports.refused,
    )
    pool.notifications.settings = notifications or pool.notifications.settings
    pool.start(backend)
    app = create_app(
        pool,
        Authenticator(
            token,
            store.tokens,
            pool.clock.with_time_off,
            accounts=pool.accounts,
            roles=pool.memberships.roles_of,
        ),
        AuditLog(home),
    )
    stands = Standing(pool, httpx.ASGITransport(app, raise_app_exceptions=False), token)
    sweeps = asyncio.create_task(pool.sweeps.run())
    try:
        await stands.until_true(lambda _: True, "status")
        yield stands
    finally:
        if end_jobs:
            await _end_all(stands)
        sweeps.cancel()
        stream.close()
        await asyncio.to_thread(pool.close)


async def _end_all(stands: Standing) -> None:
    """Stop everything; a sweep that ran on would queue trials after the others were stopped."""
    for sweep in (await stands.get("sweeps"))["items"]:
        await stands.admin.post(f"/api/v1/sweeps/{sweep['name']}/stop")
    until, stopped = time.monotonic() + 120, set[int]()
    while (rows := stands.pool.view.listed()) and time.monotonic() < until:
        for row in rows:
            if row.uid not in stopped:
                stopped.add(row.uid)
                await stands.admin.post(f"/api/v1/workloads/{row.name}/stop")
        await asyncio.sleep(0.02)
    assert not stands.pool.view.listed()

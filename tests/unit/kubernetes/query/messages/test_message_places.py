"""Places of messages: one namespace doesn't keep the others from sending."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from weir.kubernetes.query.aggregation.discovery import ROOT
from weir.kubernetes.query.messages import route as module
from weir.kubernetes.query.messages.route import OF_NAMESPACE_MAX, MessageRoute


async def test_slow_messages_of_one_namespace_leave_places_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def take(_route: MessageRoute, request: web.Request) -> None:
        if request.match_info["namespace"] == "slow":
            begun.release()
            await go_on.wait()

    monkeypatch.setattr(module.MessageRoute, "_take", take)
    unused: Any = None
    app = web.Application()
    MessageRoute(unused, unused, unused, unused, unused).add(app)
    async with TestClient(TestServer(app)) as client:

        async def status(namespace: str) -> int:
            return (await client.post(f"{ROOT}/namespaces/{namespace}/pods/p/messages")).status

        held = [asyncio.create_task(status("slow")) for _ in range(OF_NAMESPACE_MAX)]
        for _ in held:
            await begun.acquire()
        assert (await status("slow"), await status("other")) == (429, 200)
        go_on.set()
        assert await asyncio.gather(*held) == [200] * OF_NAMESPACE_MAX

"""Connections of the webhooks' port: few at once, none without a request for long, and owners of slots."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from weir.kubernetes.admission.connection_limit import ConnectionLimit

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def served(
    limit: ConnectionLimit, gate: asyncio.Event | None = None, arrived: asyncio.Semaphore | None = None
) -> AsyncIterator[int]:
    """Serve `/` without TLS, which answers once the gate is open; the port."""

    async def answer(_request: web.Request) -> web.Response:
        if arrived is not None:
            arrived.release()
        if gate is not None:
            await gate.wait()
        return web.Response(text="ok")

    app = web.Application(middlewares=[limit.middleware])
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(limit.wrap(runner.server), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await runner.cleanup()


async def opened(port: int, count: int, reply: bytes = b"") -> list[Streams]:
    found = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    for _, writer in found:
        writer.write(reply)
        await writer.drain()
    return found


async def asks(streams: Streams) -> bytes:
    reader, writer = streams
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await writer.drain()
    return await asyncio.wait_for(reader.readline(), 60)


async def ended(streams: Streams) -> bool:
    try:
        return await asyncio.wait_for(streams[0].read(), 60) == b""
    except ConnectionError:
        return True


def close(connections: list[Streams]) -> None:
    for _, writer in connections:
        writer.close()


async def test_a_flood_of_half_requests_leaves_connections_for_a_real_one() -> None:
    limit = ConnectionLimit(most=20, head_s=600.0)
    async with served(limit) as port:
        flood = await opened(port, 100, b"GET / HTTP/1.1\r\nX-Never: ")
        (real,) = await opened(port, 1)
        assert await asks(real) == b"HTTP/1.1 200 OK\r\n"
        assert len(limit) <= 20
        assert await ended(flood[0])
        close([*flood, real])


async def test_a_connection_without_a_whole_head_is_closed_and_one_between_requests_stays() -> None:
    limit = ConnectionLimit(head_s=600.0, idle_s=600.0)
    async with served(limit) as port:
        (used,) = await opened(port, 1)
        assert await asks(used) == b"HTTP/1.1 200 OK\r\n"
        limit._head_s = 0.3
        (slow,) = await opened(port, 1, b"GET / HTTP/1.1\r\nX-Slow: ")
        assert await ended(slow)
        assert len(limit) == 1
        await used[0].readuntil(b"ok")
        assert await asks(used) == b"HTTP/1.1 200 OK\r\n"
        close([slow, used])


async def test_requests_under_way_are_never_dropped_for_new_connections() -> None:
    gate, arrived = asyncio.Event(), asyncio.Semaphore(0)
    limit = ConnectionLimit(most=3)
    async with served(limit, gate, arrived) as port:
        busy = await opened(port, 3, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in busy:
            await asyncio.wait_for(arrived.acquire(), 60)
        (late,) = await opened(port, 1)
        assert await ended(late)
        gate.set()
        for each in busy:
            assert await asyncio.wait_for(each[0].readline(), 60) == b"HTTP/1.1 200 OK\r\n"
        close([*busy, late])

"""Bound the connections of the port: their number, and the time for which one may stay without a request.

The API server uses few connections. Another client of the port could open many, or begin a request and never
end its head. At the limit a new connection replaces the oldest one that has no open request.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

CONNECTIONS_MAX = 512
HEAD_S = 10.0
"""A request has to be read up to its body within this time, of a new connection after the TLS handshake."""
IDLE_S = 75.0
"""Limit of the time that a connection may be idle."""
HANDSHAKE_S = 10.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ConnectionLimit:
    """Connections that are open, with the timer of those without a request. All on the event loop."""

    def __init__(self, most: int = CONNECTIONS_MAX, head_s: float = HEAD_S, idle_s: float = IDLE_S) -> None:
        self._most = most
        self._head_s = head_s
        self._idle_s = idle_s
        self._open: dict[asyncio.BaseTransport, asyncio.TimerHandle | None] = {}  # the oldest first
        self.dropped = 0
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    def wrap(self, server: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Return a factory of protocols that are counted."""
        return lambda: _CountedProtocol(server(), self)

    def opened(self, transport: asyncio.Transport) -> None:
        """Count a new connection; close an idle one if there are too many."""
        if len(self._open) >= self._most:
            idle = next(
                (connection for connection, timer in self._open.items() if timer is not None), transport
            )
            self._drop(idle)
            if idle is transport:
                return
        self._wait(transport, self._head_s)

    def close(self) -> None:
        """Accept no more connections; those in a TLS handshake are closed after it."""
        self.is_closed = True

    def closed(self, transport: asyncio.BaseTransport) -> None:
        """Forget a connection."""
        timer = self._open.pop(transport, None)
        if timer is not None:
            timer.cancel()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, and let its connection be idle for a while after it."""
        transport = request.transport
        timer = self._open.get(transport) if transport is not None else None
        if timer is not None and transport is not None:
            timer.cancel()
            self._open[transport] = None
        try:
            return await handler(request)
        finally:
            if transport is not None and transport in self._open:
                del self._open[transport]  # to the end of the order, as the newest
                self._wait(transport, self._idle_s)

    def _wait(self, transport: asyncio.BaseTransport, for_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._open[transport] = loop.call_later(for_s, self._drop, transport)

    def _drop(self, transport: asyncio.BaseTransport) -> None:
        self.dropped += 1
        self.closed(transport)
        if isinstance(transport, asyncio.Transport):
            transport.abort()
        else:
            transport.close()


class _CountedProtocol(asyncio.Protocol):
    """A protocol of the web server, with its connection counted."""

    def __init__(self, inner: Any, limit: ConnectionLimit) -> None:
        self._inner = inner
        self._limit = limit
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._limit.is_closed and isinstance(transport, asyncio.Transport):
            transport.abort()
            return
        self._transport = transport
        self._inner.connection_made(transport)
        self._limit.opened(transport)  # type: ignore[arg-type] # of a stream

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._limit.closed(self._transport)
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        stays_open: bool | None = self._inner.eof_received()
        return stays_open

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

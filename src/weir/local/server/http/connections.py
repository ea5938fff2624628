"""Bounded connections: their number, the time a request may take to arrive, and the choice of one to close.

Anyone on the machine can connect. Only connections that carry a request with a valid token are certain to
stay. At the limit, of all others the one that has been silent longest is closed for a new one. So half-open
connections, however many, don't keep others out.
"""

import asyncio
import resource
from contextlib import suppress
from time import monotonic
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from weir.local.server.http.peers import PEER, peer_of_socket
from weir.local.server.http.server_limits import ServerLimits

PIPELINED_MAX = 16
"""Limit of requests that one connection sends before the first is answered."""
ACCEPTED_AT_ONCE = 16
"""New connections that are accepted before others are served again. Far more are kept than that: a new one is
read before the connections behind it can push it out."""
RESERVED_DESCRIPTORS = 640
"""Kept for the pool itself: its database, and a descriptor for each running pod."""
CONNECTIONS_MIN = 192
SWEEP_S = 1.0
_CONNECTION = "weir.connection"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
)


class _HeadTooLarge(Exception):
    """A request whose head is larger than it may be."""


class Connections:
    """Counts the connections of the server, and closes idle ones for new ones."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self.most = limits.connections_max
        self._all: set[BoundedProtocol] = set()
        self._idle: dict[BoundedProtocol, None] = {}  # idle connections, the longest idle first

    def __len__(self) -> int:
        return len(self._all)

    def made(self, connection: "BoundedProtocol") -> None:
        """Count a new connection; at the limit, close the one that has been silent longest."""
        self._all.add(connection)
        self._idle[connection] = None
        if len(self._all) > self.most:
            oldest = next(iter(self._idle))
            self.lost(oldest)
            oldest.drop(_BUSY)

    def active(self, connection: "BoundedProtocol") -> None:
        """Move a connection to the end of the order of closing."""
        if connection in self._idle:
            del self._idle[connection]
            self._idle[connection] = None

    def kept(self, connection: "BoundedProtocol") -> None:
        """Keep a connection until its request is answered."""
        self._idle.pop(connection, None)

    def free(self, connection: "BoundedProtocol") -> None:
        """Mark a connection as one that may be closed for a new one again."""
        if connection in self._all:
            self._idle.setdefault(connection)

    def lost(self, connection: "BoundedProtocol") -> None:
        """Forget a connection."""
        self._all.discard(connection)
        self._idle.pop(connection, None)

    async def sweep(self) -> None:
        """Drop connections whose request doesn't arrive in time, until cancelled."""
        while True:
            await asyncio.sleep(min(SWEEP_S, self.limits.header_s_max / 2))
            since_s = monotonic() - self.limits.header_s_max
            for connection in list(self._idle):
                if connection.is_late(since_s):
                    self.lost(connection)
                    connection.drop(b"")


class BoundedConfig(uvicorn.Config):
    """The settings of uvicorn, and the connections it serves."""

    def __init__(self, app: Any, connections: Connections, **settings: Any) -> None:
        super().__init__(
            app,
            http=BoundedProtocol,
            ws="none",
            backlog=ACCEPTED_AT_ONCE,
            timeout_keep_alive=connections.limits.keep_alive_s_max,
            proxy_headers=False,  # any local program could send the headers
            **settings,
        )
        self.connections = connections


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 of uvicorn, with bounds on the head of a request."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        assert isinstance(config, BoundedConfig)
        super().__init__(config, server_state, {**app_state, _CONNECTION: self}, _loop)
        self._registry = config.connections
        self._head_max = config.connections.limits.header_bytes_max
        self._head_size = 0  # of the request that is being parsed
        self._silent_size = 0  # received since the last complete request
        self._in_body = False
        # Begin of an incomplete request; None: none has begun
        self._awaits_since_s: float | None = monotonic()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and note the peer of a Unix socket for its requests."""
        peer = peer_of_socket(transport.get_extra_info("socket"))
        if peer is not None:
            self.app_state[PEER] = peer
        super().connection_made(transport)
        self._registry.made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the count."""
        self._registry.lost(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received data, unless the head is too large."""
        if self.transport.is_closing():
            return
        if not self._is_answering and not self._in_body:
            if self._awaits_since_s is None:
                self._awaits_since_s = monotonic()
                self._registry.active(self)
            self._silent_size += len(data)
        super().data_received(data)
        if not self._is_answering and self._silent_size > 2 * self._head_max:
            self.drop(_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Record that a request head begins."""
        self._head_size = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Process a part of the address."""
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Process a header."""
        self._grow(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Record that a head is complete, so its request will be answered."""
        if len(self.pipeline) >= PIPELINED_MAX:
            raise _HeadTooLarge
        self._awaits_since_s = None
        self._silent_size = 0
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Record that a request is complete; if refused early, it may be answered already."""
        self._in_body = False
        if not self._is_answering:
            self._awaits_since_s = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Record that a response is sent: the next head, or the rest of an unread body, follows."""
        super().on_response_complete()
        if not self._is_answering:
            if self._in_body:
                self._awaits_since_s = monotonic()
            self._registry.free(self)

    def is_late(self, since_s: float) -> bool:
        """Return True if the rest of a request's head is still missing, and was before a time."""
        return self._awaits_since_s is not None and self._awaits_since_s < since_s

    def keep(self) -> None:
        """Keep this connection open until its request is answered."""
        self._registry.kept(self)

    def drop(self, last_words: bytes) -> None:
        """Close the connection at once; first send `last_words` if no answer is being sent."""
        transport = self.transport
        if last_words and not (transport.is_closing() or self._is_answering):
            if not transport.get_write_buffer_size():
                transport.write(last_words)
            if not transport.get_write_buffer_size():
                transport.close()
                return
        transport.abort()

    @property
    def _is_answering(self) -> bool:
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete

    def _grow(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self._head_max:
            raise _HeadTooLarge


def keep(state: dict[str, Any]) -> None:
    """Keep the connection of a request, whose sender is known, until it is answered."""
    connection = state.get(_CONNECTION)
    if isinstance(connection, BoundedProtocol):
        connection.keep()


def reserve_descriptors(limits: ServerLimits) -> int:
    """Raise the limit of open files as far as allowed; return the connections that leaves."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.descriptors_max if hard == resource.RLIM_INFINITY else min(limits.descriptors_max, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    left = limits.connections_max if soft == resource.RLIM_INFINITY else soft - RESERVED_DESCRIPTORS
    return min(limits.connections_max, max(CONNECTIONS_MIN, left))

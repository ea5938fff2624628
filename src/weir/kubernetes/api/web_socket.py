"""WebSocket to the API server: messages of bytes over a connection that was one of HTTP.

wsproto knows the frames, and asyncio carries them.
"""

import asyncio
from collections import deque
from contextlib import suppress

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong
from wsproto.utilities import LocalProtocolError, generate_accept_token, generate_nonce

from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import refusal

ALIVE_S = 20.0
"""Interval of pings; a connection without an answer for half of it more has broken off."""
MESSAGE_BYTES_MAX = 16 << 20
CLOSE_S = 2.0
"""Time within which the other side gets the last bytes."""
_READ_BYTES = 64 << 10
_NORMAL = 1000
_ENDED = "the API server or the node ended it"


class WebSocketEnded(OSError):
    """The other side has ended the connection, or it broke off."""


class WebSocket:
    """A connection that carries messages; made by `connect`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = Connection(ConnectionType.CLIENT)
        self._events: deque[Event] = deque()
        self._message = bytearray()  # as far as it has come
        self._reads = False  # True while it waits for bytes
        self._bytes_read = 0
        self._why_ended = ""
        self._alive = asyncio.create_task(self._keep_alive())

    async def send(self, message: bytes) -> None:
        """Send a message.

        Raises:
            OSError: the connection has ended.
        """
        self._write(BytesMessage(data=message))
        await self._writer.drain()

    async def receive(self) -> bytes:
        """Return the next message.

        Raises:
            WebSocketEnded: there are no more.
            OSError: the connection broke off.
        """
        while True:
            while self._events:
                event = self._events.popleft()
                if isinstance(event, BytesMessage):
                    self._message += event.data
                    if len(self._message) > MESSAGE_BYTES_MAX:
                        raise WebSocketEnded(f"a message has more than {MESSAGE_BYTES_MAX} bytes")
                    if event.message_finished:
                        message, self._message = bytes(self._message), bytearray()
                        return message
                elif isinstance(event, Ping):
                    self._write(event.response())
                elif isinstance(event, CloseConnection):
                    raise WebSocketEnded(event.reason or _ENDED)
                elif not isinstance(event, Pong):
                    raise WebSocketEnded(f"an unexpected {type(event).__name__} came")
            self._frames.receive_data(await self._read())
            self._events.extend(self._frames.events())

    async def close(self) -> None:
        """End the connection."""
        self._alive.cancel()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                self._write(CloseConnection(code=_NORMAL))
                await self._writer.drain()
                self._writer.close()
                await self._writer.wait_closed()
        self._writer.transport.abort()

    async def _read(self) -> bytes:
        self._reads = True
        try:
            received = await self._reader.read(_READ_BYTES)
        finally:
            self._reads = False
        if not received:
            raise WebSocketEnded(self._why_ended or _ENDED)
        self._bytes_read += len(received)
        return received

    def _write(self, event: Event) -> None:
        try:
            self._writer.write(self._frames.send(event))
        except LocalProtocolError:
            raise WebSocketEnded(_ENDED) from None

    async def _keep_alive(self) -> None:
        """Break the connection off if its other side is silent while `receive` waits."""
        with suppress(OSError):
            while True:
                await asyncio.sleep(ALIVE_S)
                before = self._bytes_read
                self._write(Ping())
                await asyncio.sleep(ALIVE_S / 2)
                if self._reads and self._bytes_read == before:
                    self._why_ended = f"no answer to a ping within {ALIVE_S / 2:g} s"
                    self._writer.transport.abort()
                    return


async def connect(api: ApiClient, path: str, query: str, protocol: str) -> WebSocket:
    """Return a WebSocket of a path that speaks a protocol.

    Raises:
        ApiRefused: the API server refuses it.
        ApiUnreachable: the API server can't be reached.
    """
    nonce = generate_nonce()
    headers = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {nonce.decode()}\r\nSec-WebSocket-Protocol: {protocol}\r\n"
    )
    answer, reader, writer = await api.upgrade(path, query, headers)
    is_answer = answer.header("sec-websocket-accept") == generate_accept_token(nonce).decode()
    if not is_answer or answer.header("sec-websocket-protocol") != protocol:
        writer.transport.abort()
        raise refusal(answer.status, f"the API server doesn't speak {protocol} here".encode())
    return WebSocket(reader, writer)

"""Connection over HTTP/1.1 to an API server.

asyncio carries the bytes and httptools reads the answers. A connection carries one request at a time, and any
failure closes it. So no answer can be mistaken for that of another request.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MUCH_BYTES = 1 << 16
"""Size of a piece after which the next one is read at once."""
HEAD_BYTES_MAX = 1 << 16
_SWITCHED = 101


class ConnectionLost(OSError):
    """The connection ended before the answer did."""


class NotHttp(Exception):
    """Answer that isn't HTTP."""


@dataclass(slots=True)
class HttpResponse:
    """Status, headers and body of an answer."""

    status: int = 0
    head: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""

    def header(self, name: str) -> str:
        """Return the value of a header, or ""; `name` in lower case."""
        values = (value for key, value in self.head if key.decode("latin-1").lower() == name)
        return next(values, b"").decode("latin-1")


class HttpConnection(asyncio.Protocol):
    """Connection to one server. `lost` is called when the connection has ended."""

    def __init__(self, lost: Callable[["HttpConnection"], None]) -> None:
        self.used_s = time.monotonic()
        self.heard = False  # True once any of the answer arrived
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._answer = HttpResponse()
        self._pieces: list[bytes] = []
        self._head_bytes = 0
        self._awaits = ""  # the awaited part: the "head", the next "piece" or the "end"
        self._head, self._ended = False, True  # of the last answer
        self._stays = True  # True if it can take more requests
        self._why: Exception | None = None  # cause of its end
        self._upgrades = False  # the request asks for another protocol
        self._other: bytes | None = None  # bytes received in that protocol; None: still HTTP

    async def ask(self, request: bytes, *, upgrades: bool = False) -> HttpResponse:
        """Send a request and wait for the whole answer.

        `upgrades`: it asks for another protocol; an answer 101 is followed by `handed_over`.
        """
        self._upgrades = upgrades
        self._send(request)
        await self._until("end")
        answer = self._answer
        answer.body = self._taken()
        return answer

    async def begin(self, request: bytes) -> HttpResponse:
        """Send a request and wait for the head of the answer."""
        self._send(request)
        await self._until("head")
        return self._answer

    async def pieces(self, within_s: float, gather_s: float) -> AsyncGenerator[bytes, None]:
        """Yield the body of an answer as it comes; TimeoutError after `within_s` of silence.

        Nothing is read while the reader is busy, or for `gather_s` after a small piece: the server waits.
        """
        assert self._transport is not None, "it is connected"
        while not (self._ended and not self._pieces):
            async with asyncio.timeout(within_s):
                await self._until("piece")
            self._transport.pause_reading()
            piece = self._taken()
            if piece:
                yield piece
            await asyncio.sleep(gather_s if len(piece) < MUCH_BYTES else 0)
            self._transport.resume_reading()

    def handed_over(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the streams of the upgraded protocol; the connection object is no longer used.

        Raises:
            ConnectionLost: the connection has ended since.
        """
        assert self._transport is not None, "it is connected"
        assert self._other is not None, "the server has changed the protocol"
        if self._why is not None:
            raise self._why
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        reader.feed_data(self._other)
        self._lost(self)
        return reader, asyncio.StreamWriter(self._transport, protocol, reader, loop)

    def certificate(self) -> bytes | None:
        """Return the server's certificate in DER; None without TLS."""
        tls = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return None if tls is None else cast("bytes | None", tls.getpeercert(binary_form=True))

    @property
    def is_reusable(self) -> bool:
        """True if another request may follow."""
        return self._ended and self._stays and self._why is None

    def end(self) -> None:
        """End the connection, with any request in progress."""
        self._why = self._why or ConnectionLost("it was ended from here")
        if self._transport is not None:
            self._transport.abort()

    def _send(self, request: bytes) -> None:
        assert self._waiter is None, "one request at a time"
        self.heard = self._head = self._ended = False
        if self._why is not None or self._transport is None:
            raise ConnectionLost("the connection has ended")
        self._head_bytes = 0
        self._answer = HttpResponse()
        self._pieces = []
        self._transport.write(request)

    async def _until(self, part: str) -> None:
        if self._is_there(part):
            return
        if self._why is not None:
            raise self._why
        self._awaits = part
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _is_there(self, part: str) -> bool:
        return self._ended or (part == "head" and self._head) or (part == "piece" and bool(self._pieces))

    def _taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _tell(self) -> None:
        """Wake the reader if the data that it waits for has arrived."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self._is_there(self._awaits):
            waiter.set_result(None)
        elif self._why is not None:
            waiter.set_exception(self._why)

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the new connection."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Process received bytes of an answer."""
        self.heard = True
        if self._other is not None:
            self._other += data
            return
        if self._ended:
            self._broken("An answer without a request.")
            return
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            if self._answer.status == _SWITCHED:
                self._other = data[upgrade.args[0] :]
            else:
                self._broken("The server changed to a protocol that wasn't asked for.")
        except HttpParserError as error:
            self._broken(f"An unreadable answer: {error}")
        self._tell()

    def _broken(self, sentence: str) -> None:
        self._why = NotHttp(sentence)
        self.end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the open request and report the loss."""
        if exc is None and self._why is None and self._head and not self._says_its_end():
            self._ended = True
        self._why = self._why or ConnectionLost(
            str(exc) if exc is not None else "the connection ended without an answer"
        )
        self._tell()
        self._lost(self)

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        """Process one header."""
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES_MAX:  # asked for more, httptools says what was wrong
            raise ValueError(f"its head has more than {HEAD_BYTES_MAX} bytes")
        self._answer.head.append((name, value))

    def on_headers_complete(self) -> None:
        """Process the end of a head, except those of interim answers."""
        status = self._parser.get_status_code()
        if status < 200 and not (status == _SWITCHED and self._upgrades):
            self._answer.head.clear()
        else:
            self._answer.status, self._head = status, True

    def on_body(self, body: bytes) -> None:
        """Process a part of the body."""
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Finish the answer, and the connection if the server closes it."""
        if self._head:
            self._ended = True
            self._stays = self._parser.should_keep_alive()
            self.used_s = time.monotonic()

    def _says_its_end(self) -> bool:
        """Return True if the answer has a length; one without lasts until the connection ends."""
        return bool(self._answer.header("content-length") or self._answer.header("transfer-encoding"))

"""WebSockets to an API server, against a server that says what a test has it say."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)

from weir.kubernetes.api import web_socket
from weir.kubernetes.api.client import ApiClient, ClientLimits
from weir.kubernetes.api.credentials import Credentials
from weir.kubernetes.api.errors import ApiRefused, ApiUnreachable
from weir.kubernetes.api.web_socket import WebSocket, WebSocketEnded, connect

PROTOCOL = "v5.channel.k8s.io"
LIMIT_S = 60.0


class Access:
    """Credentials for a server without TLS; a refused token is renewed."""

    server_name = proxy = None
    namespace = "default"
    is_verified = True

    def __init__(self, server: str) -> None:
        self.server = server
        self.token = "old"

    def tls(self) -> None:
        return None

    async def authorization(self, *, refused: bool = False) -> str:
        if refused:
            self.token = "new"
        return f"Bearer {self.token}"


class Peer:
    """The server's side of a WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.frames = WSConnection(ConnectionType.SERVER)
        self.events = self._events()

    async def _events(self) -> AsyncIterator[object]:
        while data := await self.reader.read(65536):
            self.frames.receive_data(data)
            for event in self.frames.events():
                yield event

    async def send(self, *events: object) -> None:
        self.writer.write(b"".join(self.frames.send(cast("BytesMessage", event)) for event in events))
        await self.writer.drain()

    async def accept(self, *more: object) -> Request:
        """Accept the connection; `more` goes out in the same piece as the answer."""
        request = await anext(self.events)
        assert isinstance(request, Request)
        assert request.subprotocols == [PROTOCOL]
        await self.send(AcceptConnection(subprotocol=PROTOCOL), *more)
        return request


@asynccontextmanager
async def site(serve: Callable[[Peer], Awaitable[None]]) -> AsyncIterator[ApiClient]:
    """Serve connections, and yield a client of the server."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(Peer(reader, writer))
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    access = cast("Credentials", Access(f"http://127.0.0.1:{port}"))
    try:
        async with (
            asyncio.timeout(LIMIT_S),
            ApiClient(access, ClientLimits(read_s=LIMIT_S, connect_s=LIMIT_S)) as api,
        ):
            yield api
    finally:
        server.close()


async def joined(api: ApiClient) -> WebSocket:
    return await connect(api, "/api/v1/pods/a/exec", "command=a%20b", PROTOCOL)


async def test_messages_arrive_whole_from_the_first_byte_on() -> None:
    received: list[bytes] = []
    is_closed = asyncio.Event()

    async def serve(peer: Peer) -> None:
        request = await peer.accept(BytesMessage(data=b"with the answer"))
        assert request.target == "/api/v1/pods/a/exec?command=a%20b"
        await peer.send(BytesMessage(data=b"in ", message_finished=False), Ping(payload=b"?"))
        await peer.send(
            BytesMessage(data=b"pieces"), BytesMessage(data=b""), BytesMessage(data=bytes(300_000))
        )
        async for event in peer.events:
            if isinstance(event, BytesMessage):
                received.append(bytes(event.data))
            elif isinstance(event, Pong):
                received.append(b"pong " + bytes(event.payload))
            elif isinstance(event, CloseConnection):
                is_closed.set()

    async with site(serve) as api:
        socket = await joined(api)
        assert [await socket.receive() for _ in range(4)] == [
            b"with the answer",
            b"in pieces",
            b"",
            bytes(300_000),
        ]
        await socket.send(b"\x00keys")
        await socket.close()
        await is_closed.wait()
        with pytest.raises(OSError, match="ended it"):
            await socket.send(b"more")
    assert b"pong ?" in received
    assert b"".join(piece for piece in received if piece != b"pong ?") == b"\x00keys"


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (CloseConnection(code=1011, reason="the node is off"), "the node is off"),
        (CloseConnection(code=1000), "the API server or the node ended it"),
        (TextMessage(data="words"), "an unexpected TextMessage came"),
        (None, "the API server or the node ended it"),
    ],
)
async def test_an_end_says_why(last: object, why: str) -> None:
    async def serve(peer: Peer) -> None:
        await peer.accept()
        if last is not None:
            await peer.send(last)

    async with site(serve) as api:
        socket = await joined(api)
        with pytest.raises(WebSocketEnded, match=why):
            await socket.receive()
        await socket.close()


async def test_bytes_that_are_no_frames_end_it() -> None:
    async def serve(peer: Peer) -> None:
        await peer.accept()
        peer.writer.write(b"\xff" * 100)
        await peer.reader.read()

    async with site(serve) as api:
        socket = await joined(api)
        with pytest.raises(WebSocketEnded):
            await socket.receive()
        await socket.close()


async def test_messages_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_socket, "MESSAGE_BYTES_MAX", 1000)

    async def serve(peer: Peer) -> None:
        await peer.accept()
        while not peer.writer.is_closing():
            await peer.send(BytesMessage(data=bytes(100), message_finished=False))
            await asyncio.sleep(0)

    async with site(serve) as api:
        socket = await joined(api)
        with pytest.raises(WebSocketEnded, match="more than 1000 bytes"):
            await socket.receive()
        await socket.close()


async def test_a_long_message_in_tiny_fragments_comes_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    count, sizes = 5_000, 0

    def size(piece: object) -> int:
        nonlocal sizes
        sizes += 1
        return len(cast("bytes", piece))

    monkeypatch.setattr(web_socket, "len", size, raising=False)

    async def serve(peer: Peer) -> None:
        await peer.accept()
        await peer.send(*[BytesMessage(data=b"x", message_finished=False)] * count, BytesMessage(data=b"."))
        await peer.reader.read()

    async with site(serve) as api:
        socket = await joined(api)
        assert await socket.receive() == b"x" * count + b"."
        await socket.close()
    assert sizes < 3 * count, "work grows with the number of fragments, not with its square"


async def test_a_refused_token_is_renewed_once_and_other_refusals_keep_their_sentence() -> None:
    asked: list[bytes] = []

    async def serve(peer: Peer) -> None:
        request = await anext(peer.events)
        assert isinstance(request, Request)
        asked.append(dict(request.extra_headers)[b"authorization"])
        status, body = (401, b"who?") if len(asked) == 1 else (403, b'{"message": "no pods/exec for mia"}')
        length = [(b"content-length", str(len(body)).encode())]
        await peer.send(
            RejectConnection(status_code=status, headers=length, has_body=True), RejectData(data=body)
        )

    async with site(serve) as api:
        with pytest.raises(ApiRefused, match="no pods/exec for mia") as refused:
            await joined(api)
    assert refused.value.status == 403
    assert asked == [b"Bearer old", b"Bearer new"]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ],
)
async def test_a_server_that_speaks_something_else_is_refused(answer: bytes) -> None:
    async def serve(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.writer.write(answer)
        await peer.reader.read()

    async with site(serve) as api:
        with pytest.raises(ApiRefused):
            await joined(api)


async def test_a_server_that_ends_without_an_answer_cant_be_reached() -> None:
    async def serve(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")

    async with site(serve) as api:
        with pytest.raises(ApiUnreachable):
            await joined(api)


async def test_a_protocol_that_wasnt_asked_for_ends_the_connection() -> None:
    async def serve(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nx")
        await peer.reader.read()

    async with site(serve) as api:
        with pytest.raises(ApiUnreachable):
            await api.get("/api/v1/pods/a", dict)


async def test_silence_breaks_it_off_only_while_its_messages_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web_socket, "ALIVE_S", 0.2)
    is_silent = asyncio.Event()

    async def serve(peer: Peer) -> None:
        await peer.accept(BytesMessage(data=b"first"), BytesMessage(data=b"second"))
        await is_silent.wait()

    async with site(serve) as api:
        socket = await joined(api)
        assert await socket.receive() == b"first"
        await asyncio.sleep(1)  # nothing is read for several pings
        assert await socket.receive() == b"second"
        with pytest.raises(OSError, match="no answer to a ping"):
            await socket.receive()
        await socket.close()
        is_silent.set()

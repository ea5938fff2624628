"""Exchange of one request between a browser and the program of a session, with h11 on both sides.

Every message is taken apart and put together, so that what one side ends the other can't read on. After an
upgrade to WebSocket the bytes pass as they are.
"""

import asyncio
from contextlib import suppress

import h11

from weir.dashboard.web_sessions.header_rules import Headers, to_browser, to_program

HEAD_BYTES_MAX = 64 << 10
_READ_BYTES = 64 << 10


class HttpEnd:
    """Side of an exchange: HTTP/1.1 on a stream."""

    def __init__(
        self,
        role: type[h11.SERVER] | type[h11.CLIENT],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=HEAD_BYTES_MAX)
        self.reader = reader
        self.writer = writer

    async def next_event(self) -> h11.Event | None:
        """Return the next event; None if the side has finished for now.

        Raises:
            h11.RemoteProtocolError: the other side doesn't speak HTTP.
        """
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.reader.read(_READ_BYTES))
        return event if isinstance(event, h11.Event) else None

    @property
    def is_between_requests(self) -> bool:
        """Return True if the connection can carry another request."""
        return self.http.our_state is h11.DONE and self.http.their_state is h11.DONE

    async def send(self, event: h11.Event) -> None:
        """Send an event."""
        if data := self.http.send(event):
            self.writer.write(data)
            await self.writer.drain()

    async def answer(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """Send an answer of the proxy itself, without waiting for the rest of the request's body.

        If a rest is missing, the answer has `Connection: close`, and the browser sends its next request on
        another connection.
        """
        whole = [*headers, (b"Content-Length", str(len(body)).encode()), (b"Cache-Control", b"no-store")]
        while self.http.their_state is h11.SEND_BODY and isinstance(self.http.next_event(), h11.Event):
            pass
        if self.http.their_state is not h11.DONE:
            whole.append((b"Connection", b"close"))
        await self.send(h11.Response(status_code=status, headers=whole))
        await self.send(h11.Data(data=body))
        await self.send(h11.EndOfMessage())


async def pass_on(
    request: h11.Request, target: bytes, path: bytes, browser: HttpEnd, program: HttpEnd
) -> None:
    """Pass a request on to a program and its answer back.

    `target` is the request's address for the program, and `path` that of the session.

    Raises:
        h11.ProtocolError, OSError: one side broke off.
    """
    upgrade = next((value for name, value in request.headers if name == b"upgrade"), b"")
    body = None
    try:
        headers = to_program(request.headers.raw_items(), upgrade)
        await program.send(h11.Request(method=request.method, target=target, headers=headers))
        body = asyncio.create_task(_pass_body(browser, program))
        if await _pass_answer(program, browser, path):
            await _pass_bytes(browser, program)
    finally:
        if body is not None:
            body.cancel()
            with suppress(asyncio.CancelledError, h11.ProtocolError, OSError):
                await body


async def _pass_body(browser: HttpEnd, program: HttpEnd) -> None:
    if browser.http.their_state is h11.DONE:  # the request is sent again only without a body
        await program.send(h11.EndOfMessage())
        return
    while True:
        event = await browser.next_event()
        if isinstance(event, h11.Data | h11.EndOfMessage):
            await program.send(event)
        if not isinstance(event, h11.Data):
            return


async def _pass_answer(program: HttpEnd, browser: HttpEnd, path: bytes) -> bool:
    """Pass the answer on; return True if the two speak another protocol from now on."""
    while True:
        event = await program.next_event()
        if isinstance(event, h11.InformationalResponse):
            if event.status_code != 101:
                continue
            headers = to_browser(event.headers.raw_items(), path)
            upgrade = next((value for name, value in event.headers if name == b"upgrade"), b"")
            headers += [(b"Connection", b"Upgrade"), (b"Upgrade", upgrade)]
            await browser.send(h11.InformationalResponse(status_code=101, headers=headers))
            return True
        if isinstance(event, h11.Response):
            headers = to_browser(event.headers.raw_items(), path)
            event = h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
            await browser.send(event)
        elif isinstance(event, h11.Data):
            await browser.send(event)
        elif isinstance(event, h11.EndOfMessage):
            await browser.send(h11.EndOfMessage())
            return False
        else:
            raise h11.RemoteProtocolError("its program broke off")


async def _pass_bytes(browser: HttpEnd, program: HttpEnd) -> None:
    """Pass bytes both ways until one side ends."""
    ways = [
        asyncio.create_task(_copy(browser, program)),
        asyncio.create_task(_copy(program, browser)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in ways:
            task.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _copy(source: HttpEnd, target: HttpEnd) -> None:
    data = source.http.trailing_data[0]
    while True:
        if data:
            target.writer.write(data)
            await target.writer.drain()
        data = await source.reader.read(_READ_BYTES)
        if not data:
            return

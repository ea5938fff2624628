"""Output of a workload for the page: as text, or as events while it is followed.

The events have no positions. After a broken connection the page shows the last lines again.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from aiohttp import web
from structlog import get_logger

from weir.cli.cluster.log_events import END, LogPieces, StartMark, event_of

PAUSE_S = 2.0
"""Time without output after which a page gets a sign of life, and its session is checked."""
BLOCK = 1 << 16
_PIECES_MAX = 64
_ALIVE = b":\n\n"
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_LOG = get_logger(__name__)


async def send_log(request: web.Request, pieces: LogPieces, holds: Callable[[], bool]) -> web.StreamResponse:
    """Send the pieces of a log; `holds` says whether the session is still valid. Return the response.

    An error before the first piece is raised. After it, the connection breaks: the page asks again.
    """
    followed = "follow" in request.query
    answer = web.StreamResponse(headers=_HEADERS)
    answer.content_type = "text/event-stream" if followed else "text/plain"
    async with aclosing(_blocks(pieces)) as blocks:
        block = await anext(blocks, None)
        try:
            await answer.prepare(request)
            while block is not None:
                if not holds():
                    return _broken(request, answer)
                if followed:
                    await answer.write(event_of(block) if block else _ALIVE)
                elif isinstance(block, bytes):
                    await answer.write(block)
                block = await anext(blocks, None)
            if followed:
                await answer.write(END)
        except ConnectionError:  # the page was closed
            pass
        except Exception as error:  # noqa: BLE001 - the status was sent
            _LOG.warning("log_broken", path=request.path, why=repr(error))
            return _broken(request, answer)
    return answer


def _broken(request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
    """Close the connection, so that the page doesn't take the output for complete; return the response."""
    if request.transport is not None:
        request.transport.abort()
    return answer


async def _blocks(pieces: LogPieces) -> LogPieces:
    """Yield the output in blocks, and an empty one after a pause without output."""
    coming: asyncio.Queue[bytes | StartMark | Exception | None] = asyncio.Queue(_PIECES_MAX)
    reading = asyncio.create_task(_read(pieces, coming))
    try:
        while True:
            try:
                async with asyncio.timeout(PAUSE_S):
                    item = await coming.get()
            except TimeoutError:
                yield b""
                continue
            block = b""
            while isinstance(item, bytes):
                block += item
                if len(block) >= BLOCK or coming.empty():
                    break
                item = coming.get_nowait()
            if block:
                yield block
            if isinstance(item, StartMark):
                yield item
            if isinstance(item, Exception):
                raise item
            if item is None:
                return
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _read(pieces: LogPieces, coming: "asyncio.Queue[bytes | StartMark | Exception | None]") -> None:
    """Put the pieces into a queue, and then None, or the error that ended them."""
    try:
        async with aclosing(pieces):
            async for piece in pieces:
                await coming.put(piece)
    except Exception as error:  # noqa: BLE001 - it is raised where the queue is read
        await coming.put(error)
    else:
        await coming.put(None)

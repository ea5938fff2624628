"""Output of pods in pieces. Followed output becomes events, as of a pool's server but without positions."""

from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

END = b"event: end\ndata:\n\n"


@dataclass(frozen=True, slots=True)
class StartMark:
    """A later start whose output follows, in words, and its time if that is known."""

    words: str
    at_s: float | None = None


LogPieces = AsyncGenerator[bytes | StartMark, None]


def event_of(piece: bytes | StartMark) -> bytes:
    """Return the event of a piece."""
    if isinstance(piece, StartMark):
        begun = "" if piece.at_s is None else f"{piece.at_s:.3f}"
        return f"begins: {piece.words}\nbegun: {begun}\ndata:\n\n".encode()
    return b"data: %s\n\n" % b64encode(piece)


async def log_events(pieces: LogPieces) -> AsyncGenerator[bytes, None]:
    """Yield the events of output, and its end."""
    async with aclosing(pieces):
        async for piece in pieces:
            yield event_of(piece)
    yield END


async def plain_text(pieces: LogPieces) -> AsyncGenerator[bytes, None]:
    """Yield output without its marks."""
    async with aclosing(pieces):
        async for piece in pieces:
            if isinstance(piece, bytes):
                yield piece

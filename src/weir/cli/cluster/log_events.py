"""Followed output as events, in the form of a pool's server but without positions."""

from base64 import b64encode
from collections.abc import Iterator

import httpx


class StartMark(bytes):
    """A piece that isn't output: a later start in words, whose output follows."""


class LogEvents(httpx.SyncByteStream):
    """An answer in pieces as events, with the later starts of pods."""

    def __init__(self, pieces: httpx.SyncByteStream) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, StartMark):
                yield b"begins: %s\ndata:\n\n" % piece
            else:
                yield b"data: %s\n\n" % b64encode(piece)
        yield b"event: end\ndata:\n\n"

    def close(self) -> None:
        """Stop reading."""
        self._pieces.close()

"""What jobs say of themselves: lines in a file of their pod, and a poke that there are new ones.

A poke may be lost; the files are read whenever a pod ends and when the pool starts.
"""

import json
import math
import os
import re
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from weir.backends.local import pods

SAVED, REPORTED = "checkpointed", "report"
SOCKET = "notes.sock"
_NAME = re.compile(rb"[0-9]{1,18}/[0-9]{1,18}-[0-9]{1,9}-[0-9]{1,9}")
_READ_MOST = 8 << 20
_VALUES_MOST = 64


@dataclass(frozen=True, slots=True)
class Note:
    """A line of a job: it saved its state, or it reports how far it is."""

    kind: str
    at_s: float
    step: int | None = None
    values: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


def read_notes(directory: str, since: int, now_s: float) -> tuple[list[Note], int]:
    """The whole lines after a position, and the position behind them."""
    try:
        fd = os.open(f"{directory}/{pods.NOTES}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return [], since
    try:
        text = os.pread(fd, _READ_MOST, since)
    finally:
        os.close(fd)
    whole = text.rfind(b"\n") + 1
    if not whole and len(text) == _READ_MOST:
        return [], since + len(text)  # a line without end is none
    notes = [note for line in text[:whole].splitlines() if (note := _note(line, now_s)) is not None]
    return notes, since + whole


def _note(line: bytes, now_s: float) -> Note | None:
    """What a line says; None if it says nothing: anyone may write there."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("kind") not in {SAVED, REPORTED}:
        return None
    at_s, step, values = said.get("at_s"), said.get("step"), said.get("values")
    if not isinstance(at_s, int | float) or not math.isfinite(at_s):
        return None
    numbers: dict[str, float] = {}
    for name, value in list(values.items())[:_VALUES_MOST] if isinstance(values, dict) else ():
        if isinstance(value, int | float) and math.isfinite(value):
            numbers[str(name)[:64]] = float(value)
    return Note(said["kind"], min(float(at_s), now_s), step if isinstance(step, int) else None, numbers)


class Pokes:
    """The socket at which jobs say that there is something new."""

    def __init__(self, home: Path, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._path = home / SOCKET
        self._path.unlink(missing_ok=True)
        place = os.open(
            home, os.O_PATH | os.O_CLOEXEC
        )  # names of sockets are short, those of homes needn't be
        try:
            self._socket.bind(f"/proc/self/fd/{place}/{SOCKET}")
        finally:
            os.close(place)

    def fileno(self) -> int:
        """To be watched."""
        return self._socket.fileno()

    def read(self) -> None:
        """Take in what came."""
        names: set[bytes] = set()
        with suppress(BlockingIOError):
            while len(names) < 1024:
                names.add(self._socket.recv(128))
        for name in names:
            if _NAME.fullmatch(name):
                self._heard(name.decode())

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()
        self._path.unlink(missing_ok=True)

"""The output of pods: the whole of it, its last lines, or as it comes."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from weir.backends.local import pods
from weir.backends.local.home import Home
from weir.backends.local.output import read_on
from weir.model.workloads import Workload
from weir.server.problems import Refused

BLOCK = 1 << 16
FOLLOW_S = 0.2
"""How often somebody who follows is looked for more; nobody follows while nobody reads."""
NUMBER_MOST = 10**9
TAIL_MOST = 1_000_000


def pod_numbers(workload: Workload, pod: str | None) -> tuple[int, int]:
    """A pod by `group/index`, the group by its name or its position; the first one if none is named.

    Raises:
        Refused: there is no such pod.
    """
    if pod is None:
        return 0, 0
    group, _, index = pod.rpartition("/")
    names = {each.name: at for at, each in enumerate(workload.groups)}
    at = names.get(group)
    if at is None and group.isascii() and group.isdigit() and len(group) < 5:
        at = int(group)
    number = int(index) if index.isascii() and index.isdigit() and len(index) < 9 else -1
    if at is None or at >= len(workload.groups) or not 0 <= number < workload.groups[at].count:
        known = ", ".join(f"{each.name}/0" for each in workload.groups[:4])
        message = f"pod: {workload.name} has no pod {pod[:80]!r}; write group/index such as {known}"
        raise Refused(422, message, [{"field": "pod", "message": message}])
    return at, number


class Log:
    """The output of one pod, over all its starts."""

    def __init__(self, home: Path, uid: int, pod: tuple[int, int]) -> None:
        self._home = Home(home)
        self._uid = uid
        self._pod = pod

    def starts(self) -> list[int]:
        """The numbers of its starts, oldest first."""
        return [start for start, group, index in self._home.numbers(self._uid) if (group, index) == self._pod]

    def path(self, start: int) -> Path:
        """The file of one start."""
        return Path(self._home.directory(self._uid, start, *self._pod), pods.LOG)

    async def text(self, start: int | None, tail: int | None) -> AsyncIterator[bytes]:
        """What one start had put out when it was asked for, or the last one; nothing if that is nothing."""
        begun = await asyncio.to_thread(self.starts)
        at = start if start is not None else begun[-1] if begun else None
        if at is None:
            return
        end = await asyncio.to_thread(_size, self.path(at))
        position = await asyncio.to_thread(_tail_at, self.path(at), tail)
        while position < end:  # who writes faster than somebody reads is followed with `follow` alone
            most = min(BLOCK, end - position)
            block, position = await asyncio.to_thread(read_on, str(self.path(at)), position, most)
            if not block:
                return
            yield block

    async def follow(
        self, start: int | None, tail: int | None, is_over: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """What it puts out, as it comes and over restarts, until it is over."""
        at, position = start, -1
        while True:
            over = is_over()
            begun = self.starts()
            if at is None and begun:
                at = begun[-1]
            if at is not None:
                if position < 0:
                    position = await asyncio.to_thread(_tail_at, self.path(at), tail)
                while True:
                    block, position = read_on(str(self.path(at)), position, BLOCK)
                    if not block:
                        break
                    yield block
                later = [number for number in begun if number > at]
                if later and start is None:
                    at, position, tail = later[0], 0, None
                    continue
            if over:
                return
            await asyncio.sleep(FOLLOW_S)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _tail_at(path: Path, lines: int | None) -> int:
    """Where the last so many lines begin."""
    if lines is None:
        return 0
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            position, left = size, lines + 1
            if size and _last(file.fileno(), size) != b"\n":
                left -= 1
            while position > 0:
                begin = max(0, position - BLOCK)
                block = os.pread(file.fileno(), position - begin, begin)
                if not block.strip(b"\0"):  # it was left out: what is before isn't looked for
                    return os.lseek(file.fileno(), begin, os.SEEK_DATA)
                for at in range(len(block) - 1, -1, -1):
                    if block[at] == 0x0A:
                        left -= 1
                        if left <= 0:
                            return begin + at + 1
                position = begin
    except OSError:
        return 0
    return 0


def _last(descriptor: int, size: int) -> bytes:
    return os.pread(descriptor, 1, size - 1)

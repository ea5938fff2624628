"""Output of pods: complete, its last lines, or as it appears.

A job may have replaced its output by anything, and a disk may be slow. So files are opened and read in
threads of their own, never on the event loop. If the client disconnects, the reader stops after its current
step.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from weir.local.records import pod_files
from weir.local.records.state_dir import StateDir
from weir.local.server.http.problem_details import field_refusal
from weir.local.server.output.log_positions import LogPosition, read_positions
from weir.local.supervisor.output import read_on, size_of, tail_of
from weir.model.workloads import Workload

BLOCK = 1 << 16
FOLLOW_S = 0.2
"""Interval at which followed output is read; nothing is read without a client."""
QUIET_READS_MAX = 25
"""Reads without output after which a follower gets an empty piece.

The server checks at each piece if its session or token is still valid, and else ends the answer.
"""
NUMBER_MAX = 10**9
TAIL_MAX = 1_000_000
ALL_PODS = "all"
THREADS = 4
_threads = ThreadPoolExecutor(THREADS, "weir-logs")
Words = ParamSpec("Words")
Found = TypeVar("Found")


async def in_log_thread(call: Callable[Words, Found], *words: Words.args, **named: Words.kwargs) -> Found:
    """Run a call in a thread for output, and return its result."""
    return await asyncio.get_running_loop().run_in_executor(_threads, partial(call, *words, **named))


def submit_log_work(call: Callable[Words, None], *words: Words.args, **named: Words.kwargs) -> None:
    """Queue a call for a thread for output. Any thread may call it."""
    _threads.submit(call, *words, **named)


def pod_numbers(workload: Workload, pod: str | None) -> tuple[int, int]:
    """Return a pod's group and index from `group/index` (group by name or position); None means the first.

    Raises:
        RequestRefused: the pod doesn't exist.
    """
    if pod is None:
        return 0, 0
    group, _, index = pod.rpartition("/")
    names = {pod_group.name: position for position, pod_group in enumerate(workload.groups)}
    position = names.get(group)
    if position is None and group.isascii() and group.isdigit() and len(group) < 5:
        position = int(group)
    number = int(index) if index.isascii() and index.isdigit() and len(index) < 9 else -1
    if (
        position is None
        or position >= len(workload.groups)
        or not 0 <= number < workload.groups[position].count
    ):
        examples = ", ".join(f"{pod_group.name}/0" for pod_group in workload.groups[:4])
        text = f"{workload.name} has no pod {pod[:80]!r}; write group/index such as {examples}, or {ALL_PODS}"
        raise field_refusal("pod", text)
    return position, number


class LogStep(NamedTuple):
    """Output found in one read of a pod."""

    blocks: list[bytes]
    has_more: bool  # True: the file has more text
    begun: int | None = None  # number of the later start whose output follows
    begun_s: float | None = None  # its time, if it is known


class LogPiece(NamedTuple):
    """Output, and the position behind it, from which a response continues.

    `begins`: the later starts whose output follows, in words. `begun`: the times of these starts, "" for an
    unknown one.
    """

    text: bytes
    position: str
    begins: str = ""
    begun: str = ""


class PodLog:
    """Reads the output of one pod over all its starts."""

    def __init__(self, home: Path, uid: int, pod: tuple[int, int]) -> None:
        self._home = StateDir(home)
        self._uid = uid
        self._pod = pod

    def starts(self) -> list[int]:
        """Return the numbers of its starts, oldest first."""
        return starts_by_pod(self._home, self._uid).get(self._pod, [])

    def path(self, start: int) -> Path:
        """Return the output file of a start."""
        return Path(self._home.own(self._uid, start, *self._pod), pod_files.LOG)

    def begun_s(self, start: int) -> float | None:
        """Return the time of a start: that of its specification, which isn't written again.

        The answer is None if there is no such start.
        """
        try:
            return os.stat(f"{self._home.directory(self._uid, start, *self._pod)}/{pod_files.START}").st_mtime
        except OSError:
            return None

    def positions(self, written: str | None) -> Sequence[LogPosition]:
        """Return the position that a client sends; none if the client sends none.

        Raises:
            RequestRefused: the text is no position.
        """
        return read_positions(written, self._uid, 1)

    async def text(self, start: int | None, tail: int | None) -> AsyncIterator[bytes]:
        """Yield the output of a start, by default the last one, up to now."""
        begun = await in_log_thread(self.starts)
        start_number = start if start is not None else begun[-1] if begun else None
        if start_number is None:
            return
        path = str(self.path(start_number))
        end = await in_log_thread(size_of, path)
        position = 0 if tail is None else await in_log_thread(tail_of, path, tail)
        while position < end:  # ends even if the job writes faster; `follow` reads on
            block, position = await in_log_thread(read_on, path, position, min(BLOCK, end - position))
            if not block:
                return
            yield block

    async def follow(
        self,
        start: int | None,
        tail: int | None,
        is_over: Callable[[], bool],
        after: Sequence[LogPosition] = (),
    ) -> AsyncIterator[LogPiece]:
        """Yield the output as it comes, over restarts, until the pod is over; begin at `after`."""
        following = LogFollower(self, start, tail)
        for position in after:
            following.resume(position)
        quiet = QUIET_READS_MAX
        while True:
            over = is_over()
            step = await in_log_thread(lambda: following.step(self.starts()))
            quiet = 0 if step.blocks or step.begun else quiet + 1
            if not quiet or quiet > QUIET_READS_MAX:
                begins, quiet = "" if step.begun is None else f"start {step.begun}", 0
                yield LogPiece(b"".join(step.blocks), str(following.position), begins, in_seconds(step))
            if not step.has_more:
                if over:
                    return
                await asyncio.sleep(FOLLOW_S)


def in_seconds(step: LogStep) -> str:
    """Return the time of the start that a step found; "" if it is unknown, or no start was found."""
    return "" if step.begun_s is None else f"{step.begun_s:.3f}"


def starts_by_pod(home: StateDir, uid: int) -> dict[tuple[int, int], list[int]]:
    """Return the numbers of the starts of a workload's pods, oldest first."""
    starts: dict[tuple[int, int], list[int]] = {}
    for start, group, index in home.numbers(uid):
        starts.setdefault((group, index), []).append(start)
    return starts


class LogFollower:
    """Position of a client that follows the output of a pod. `step` belongs to a log thread."""

    def __init__(self, log: PodLog, start: int | None, tail: int | None) -> None:
        self._log = log
        self._start = start
        self._tail = tail
        self._current_start = start
        self._position = -1
        self._came_first = False  # True: the reader came before the pod's first start

    @property
    def position(self) -> LogPosition:
        """Return the position behind the last block."""
        return LogPosition(None if self._position < 0 else self._current_start, max(0, self._position))

    def resume(self, position: LogPosition) -> None:
        """Begin at a position."""
        self._tail = None
        if position.start is None:
            self._came_first = True
        else:
            self._current_start, self._position = position

    def step(self, begun: list[int]) -> LogStep:
        """Read new output, a block at most, of a pod with these starts."""
        if self._current_start is None and begun:
            self._current_start = begun[0] if self._came_first else begun[-1]
        if self._current_start is None:
            self._came_first = True
            return LogStep([], has_more=False)
        path = str(self._log.path(self._current_start))
        if self._position < 0:
            self._position = 0 if self._tail is None else tail_of(path, self._tail)
        block, self._position = read_on(path, self._position, BLOCK)
        if block:
            return LogStep([block], has_more=True)
        later = [number for number in begun if number > (self._current_start or 0)]
        if later and self._start is None:
            self._current_start, self._position, self._tail = later[0], 0, None
            return LogStep([], has_more=True, begun=later[0], begun_s=self._log.begun_s(later[0]))
        return LogStep([], has_more=False)

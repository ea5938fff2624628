"""The output of all pods of a workload together, each line with the name of its pod."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from weir.local.records.state_dir import StateDir
from weir.local.server.output.log_positions import LogPosition, read_positions, write_positions
from weir.local.server.output.pod_logs import (
    FOLLOW_S,
    QUIET_READS_MAX,
    LogFollower,
    LogPiece,
    LogStep,
    PodLog,
    in_log_thread,
    in_seconds,
    starts_by_pod,
)
from weir.model.workloads import Workload

EVENT_STREAM = "text/event-stream"
LINE_MAX = 1 << 16
"""Length up to which a line of one pod is kept whole; longer lines are sent in parts."""


class WorkloadLog:
    """Joins the output of all pods of one workload."""

    def __init__(self, home: Path, uid: int, workload: Workload) -> None:
        self._home, self._uid = StateDir(home), uid
        pods = [
            (position, index)
            for position, group in enumerate(workload.groups)
            for index in range(group.count)
        ]
        names = [f"{workload.groups[position].name}/{index}" for position, index in pods]
        width = max(map(len, names))
        self._pods = [
            (name, f"{name:<{width}} | ".encode(), pod, PodLog(home, uid, pod))
            for name, pod in zip(names, pods, strict=True)
        ]

    def positions(self, written: str | None) -> Sequence[LogPosition]:
        """Return the positions that a client sends, one for each pod; none if it sends none.

        Raises:
            RequestRefused: the text is no list of positions.
        """
        return read_positions(written, self._uid, len(self._pods))

    async def text(self, start: int | None, tail: int | None) -> AsyncIterator[bytes]:
        """Yield the output so far, pod by pod."""
        for _, prefix, _, log in self._pods:
            lines = _LineSplitter(prefix)
            async for block in log.text(start, tail):
                yield lines.whole(block)
            yield lines.rest()

    async def follow(
        self,
        start: int | None,
        tail: int | None,
        is_over: Callable[[], bool],
        after: Sequence[LogPosition] = (),
    ) -> AsyncIterator[LogPiece]:
        """Yield output as it comes, over restarts, until all pods are over; begin at `after`."""
        followed = [
            _FollowedPod(name, prefix, pod, LogFollower(log, start, tail))
            for name, prefix, pod, log in self._pods
        ]
        for followed_pod, position in zip(followed, after, strict=False):
            followed_pod.resume(position)
        quiet = QUIET_READS_MAX
        while True:
            over = is_over()
            steps = await in_log_thread(self._steps, followed)
            text = b"".join(
                followed_pod.lines_of(step) for followed_pod, step in zip(followed, steps, strict=True)
            )
            begun = [
                (f"start {step.begun} of {followed_pod.name}", in_seconds(step))
                for followed_pod, step in zip(followed, steps, strict=True)
                if step.begun is not None
            ]
            quiet = 0 if text or begun else quiet + 1
            if not quiet or quiet > QUIET_READS_MAX:
                quiet = 0
                begins, times = (
                    ("; ".join(texts) for texts in zip(*begun, strict=True)) if begun else ("", "")
                )
                yield LogPiece(
                    text, write_positions(followed_pod.position for followed_pod in followed), begins, times
                )
            if not any(step.has_more for step in steps):
                if over:
                    break
                await asyncio.sleep(FOLLOW_S)
        rest = b"".join(followed_pod.lines.rest() for followed_pod in followed)
        yield LogPiece(rest, write_positions(followed_pod.follower.position for followed_pod in followed))

    def _steps(self, followed: "list[_FollowedPod]") -> list[LogStep]:
        begun = starts_by_pod(self._home, self._uid)
        return [followed_pod.follower.step(begun.get(followed_pod.pod, [])) for followed_pod in followed]


async def plain_text(pieces: AsyncIterator[LogPiece]) -> AsyncIterator[bytes]:
    """Yield the text of followed output, and an empty text while there is nothing new."""
    async for piece in pieces:
        yield piece.text


async def log_events(
    uid: int, pieces: AsyncIterator[LogPiece], is_closing: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yield followed output as server-sent events; without an end if the server is being stopped."""
    async for piece in pieces:
        if is_closing():  # an incomplete line must not look complete
            return
        begins = f"begins: {piece.begins}\nbegun: {piece.begun}\n".encode() if piece.begins else b""
        yield b"id: %d/%s\n%sdata: %s\n\n" % (uid, piece.position.encode(), begins, b64encode(piece.text))
    if not is_closing():
        yield b"event: end\ndata:\n\n"


class _FollowedPod:
    """A pod in the output of all pods. `position` is the beginning of its first incomplete line."""

    def __init__(self, name: str, prefix: bytes, pod: tuple[int, int], follower: LogFollower) -> None:
        self.name, self.pod, self.follower = name, pod, follower
        self.lines = _LineSplitter(prefix)
        self.position = follower.position

    def resume(self, position: LogPosition) -> None:
        """Begin at a position."""
        self.follower.resume(position)
        self.position = position

    def lines_of(self, step: LogStep) -> bytes:
        """Return the lines that a step completes: a later start ends the line of the one before."""
        if step.begun is not None:
            self.position = self.follower.position
            return self.lines.rest()
        before = self.lines.size
        text = b"".join(self.lines.whole(block) for block in step.blocks)
        if text or not before:
            start, offset = self.follower.position
            self.position = LogPosition(start, offset - self.lines.size)
        return text


class _LineSplitter:
    """Splits the output of one pod into whole lines, each with the pod's name."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._rest = b""

    @property
    def size(self) -> int:
        """Return the bytes of the incomplete last line."""
        return len(self._rest)

    def whole(self, block: bytes) -> bytes:
        """Return the complete lines up to now."""
        text = self._rest + block
        end = text.rfind(b"\n") + 1
        if not end and len(text) > LINE_MAX:
            self._rest = b""
            return self._prefix + text + b"\n"
        self._rest = text[end:]
        return b"".join(self._prefix + line + b"\n" for line in text[:end].split(b"\n")[:-1])

    def rest(self) -> bytes:
        """Return the incomplete last line."""
        text, self._rest = self._rest, b""
        return self._prefix + text + b"\n" if text else b""

"""The output of all pods of a workload together, each line with the name of its pod."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from weir.local.server.pod_logs import FOLLOW_S, LogFollower, LogStep, PodLog, in_log_thread, starts_by_pod
from weir.local.state_dir import StateDir
from weir.model.workloads import Workload

LINE_MOST = 1 << 16
"""A line of one pod that grows longer than this is given in parts: others want to be read too."""


class WorkloadLog:
    """Joins the output of all pods of one workload."""

    def __init__(self, home: Path, uid: int, workload: Workload) -> None:
        self._home, self._uid = StateDir(home), uid
        pods = [(at, index) for at, group in enumerate(workload.groups) for index in range(group.count)]
        names = [f"{workload.groups[at].name}/{index}" for at, index in pods]
        width = max(map(len, names))
        self._pods = [
            (f"{name:<{width}} | ".encode(), pod, PodLog(home, uid, pod))
            for name, pod in zip(names, pods, strict=True)
        ]

    async def text(self, start: int | None, tail: int | None) -> AsyncIterator[bytes]:
        """Yield the output so far, pod by pod."""
        for prefix, _, log in self._pods:
            lines = _LineSplitter(prefix)
            async for block in log.text(start, tail):
                yield lines.whole(block)
            yield lines.rest()

    async def follow(
        self, start: int | None, tail: int | None, is_over: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """Yield output as it comes, over restarts, until all pods are over."""
        followed = [
            (_LineSplitter(prefix), pod, LogFollower(log, start, tail)) for prefix, pod, log in self._pods
        ]
        while True:
            over = is_over()
            steps = await in_log_thread(self._steps, [(pod, following) for _, pod, following in followed])
            for (lines, _, _), step in zip(followed, steps, strict=True):
                for block in step.blocks:
                    yield lines.whole(block)
            if not any(step.more for step in steps):
                if over:
                    break
                await asyncio.sleep(FOLLOW_S)
        for lines, _, _ in followed:
            yield lines.rest()

    def _steps(self, followed: list[tuple[tuple[int, int], LogFollower]]) -> list[LogStep]:
        begun = starts_by_pod(self._home, self._uid)
        return [following.step(begun.get(pod, [])) for pod, following in followed]


class _LineSplitter:
    """Output of one pod as whole lines, each with its name."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._rest = b""

    def whole(self, block: bytes) -> bytes:
        """Return the complete lines up to now."""
        text = self._rest + block
        end = text.rfind(b"\n") + 1
        if not end and len(text) > LINE_MOST:
            self._rest = b""
            return self._prefix + text + b"\n"
        self._rest = text[end:]
        return b"".join(self._prefix + line + b"\n" for line in text[:end].split(b"\n")[:-1])

    def rest(self) -> bytes:
        """Return the incomplete last line."""
        text, self._rest = self._rest, b""
        return self._prefix + text + b"\n" if text else b""

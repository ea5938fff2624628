"""`weir logs` on a cluster: the output of pods, read through the API server with the person's own rights.

Followed output is asked for with its times. So it goes on behind the last line when a connection breaks, and
no line is lost or printed twice.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from weir.cli.cluster.errors import refused, wrong
from weir.cli.cluster.log_events import LogPieces, StartMark
from weir.cli.cluster.pod_containers import PodContainers
from weir.cli.cluster.workload_pods import LOOK_S_MAX, LOOK_S_MIN, PATIENCE_S, WorkloadPods, is_passing
from weir.kubernetes.api.client import ApiClient, ApiSilent
from weir.kubernetes.api.errors import ApiRefused, ApiUnreachable, NotFound
from weir.kubernetes.api.object_numbers import at_s
from weir.kubernetes.translate.annotations import PREFIX

ALL_PODS = "all"
LINE_MAX = 1 << 16
"""Length from which a line is printed in parts."""
_NUMBER = re.compile("[0-9]{1,9}")
_NAMED_MAX = 8
_PIECES_MAX = 256
_TIME = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[-+][0-9:]+)$")
_START = f"{PREFIX}start"
_NOT_STARTED = 400
"""HTTP status for the output of a container that isn't running yet."""

ByteStream = AsyncGenerator[bytes, None]


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Output of a workload that a person asked for. `index` is that of an array."""

    pod: str | None = None
    start: str | None = None
    tail: int | None = None
    follow: bool = False
    index: int | None = None


def log_request(params: Mapping[str, str], index: int | None) -> LogRequest:
    """Return the request of these parameters.

    Raises:
        PoolError: `tail` isn't a number.
    """
    tail = params.get("tail")
    if tail is not None and _NUMBER.fullmatch(tail) is None:
        raise wrong("tail: is no number; write how many of the last lines, 0 or more")
    return LogRequest(
        params.get("pod"), params.get("start"), None if tail is None else int(tail), "follow" in params, index
    )


class PodLogs:
    """The output of one workload, of which at most `followed_max` pods are followed at the same time."""

    def __init__(self, api: ApiClient, pods: WorkloadPods, followed_max: int) -> None:
        self._api, self._pods, self._followed_max = api, pods, followed_max

    async def output(self, asked: LogRequest) -> LogPieces:
        """Return the wanted output in pieces.

        Raises:
            PoolError: there is no such pod, or its output is gone.
            ApiRefused: the person may not read it.
        """
        pods, over = await self._pods.look()
        if over and not pods:
            raise refused(
                404,
                f"The pods of {self._pods.key} are gone, and their output with them: the nodes keep none.",
            )
        if asked.pod == ALL_PODS and asked.index is None:
            return self._follow_all(asked) if asked.follow else self._text_of_all(pods, asked)
        place = self._place(pods, asked)
        if asked.follow:
            return self._follow(place, asked, is_new=not pods)
        chosen = None if place is None else self._chosen(self._attempts(pods, place), asked.start)
        return self._text_of_all((), asked) if chosen is None else self._text(chosen, asked.tail)

    def _place(self, pods: Sequence[PodContainers], asked: LogRequest) -> str | None:
        """Return the pod of the request by place, or by name; None if there is none yet."""
        if asked.index is not None:
            return self._pods.position(asked.index)
        places = {self._pods.place(pod): pod for pod in pods}
        if asked.pod is None:
            return self._first(places)
        wanted = asked.pod.rpartition("/")[2]
        is_there = wanted in places or any(pod.metadata.name == wanted for pod in pods)
        if not is_there and not self._pods.may_come(wanted):
            names = ", ".join(pod.metadata.name for pod in pods[:_NAMED_MAX]) or "none"
            raise wrong(
                f"pod: {self._pods.key} has no pod {asked.pod[:80]!r}; write {ALL_PODS}, or one of {names}"
            )
        return wanted

    def _first(self, places: Iterable[str]) -> str | None:
        """Return the first of the places, that of index 0 if the pods have indices."""
        if self._pods.may_come("0"):
            return "0"
        return next(iter(places), None)

    def _attempts(self, pods: Sequence[PodContainers], place: str) -> list[PodContainers]:
        """Return the pods of a place, oldest first."""
        return [pod for pod in pods if place in (self._pods.place(pod), pod.metadata.name)]

    def _chosen(self, attempts: Sequence[PodContainers], start: str | None) -> PodContainers | None:
        """Return the pod of a start, by default the newest one; None if there is none yet."""
        if start is None:
            return attempts[-1] if attempts else None
        for pod in attempts:
            if pod.metadata.annotations.get(_START) == start:
                return pod
        raise refused(
            404, f"start: {self._pods.key} has no start {start} whose pod is left; its output went with it."
        )

    async def _text(self, pod: PodContainers, tail: int | None) -> ByteStream:
        """Yield the output of a pod up to now."""
        if not pod.has_begun:
            return
        query = {"container": pod.main.name} | ({} if tail is None else {"tailLines": str(tail)})
        try:
            async with aclosing(
                self._api.stream(f"{self._pods.path(pod.metadata.name)}/log", query)
            ) as pieces:
                async for piece in pieces:
                    yield piece
        except ApiRefused as error:
            if error.status not in (_NOT_STARTED, 404):
                raise

    async def _text_of_all(self, pods: Sequence[PodContainers], asked: LogRequest) -> LogPieces:
        width = max((len(pod.metadata.name) for pod in pods), default=0)
        for pod in pods:
            if asked.start in (None, pod.metadata.annotations.get(_START)):
                async with aclosing(lines_of(self._text(pod, asked.tail))) as lines:
                    async for line in lines:
                        yield _named(pod, width, line)

    async def _follow(self, place: str | None, asked: LogRequest, *, is_new: bool) -> LogPieces:
        """Yield the output of a place as it appears, from pod to pod, until the workload ends."""
        read: set[str] = set()
        tail, is_later = asked.tail, False
        while True:
            pods, over = await self._pods.look()
            if place is None:
                place = self._first(map(self._pods.place, pods))
            attempts = [] if place is None else self._attempts(pods, place)
            if not read and attempts and (asked.start is not None or not is_new):
                chosen = self._chosen(attempts, asked.start)
                for pod in attempts:
                    if pod is chosen:
                        break
                    read.add(pod.metadata.uid)
            left = [pod for pod in attempts if pod.metadata.uid not in read]
            if not left and over:
                return
            if left:
                if is_later:
                    yield _mark(left[0])
                is_later = True
                read.add(left[0].metadata.uid)
                async with aclosing(self._follow_pod(left[0], tail)) as lines:
                    async for line in lines:
                        yield line
                tail = None
                if asked.start is not None:
                    return

    async def _follow_all(self, asked: LogRequest) -> LogPieces:
        """Yield the lines of all pods as they appear, with those of later pods."""
        merged = _MergedPieces()
        merged.begin(self._look_for_pods(asked, merged))
        async with aclosing(merged.all()) as pieces:
            async for piece in pieces:
                yield piece

    async def _look_for_pods(self, asked: LogRequest, merged: "_MergedPieces") -> None:
        """Follow each new pod until the workload is over."""
        seen: set[str] = set()
        places: set[str] = set()  # those of earlier looks
        tail, over = asked.tail, False
        while not over or merged.others:
            pods, over = await self._pods.look()
            width = max((len(pod.metadata.name) for pod in pods), default=0)
            for pod in pods:
                if pod.metadata.uid in seen or asked.start not in (
                    None,
                    pod.metadata.annotations.get(_START),
                ):
                    continue
                seen.add(pod.metadata.uid)
                if self._pods.place(pod) in places:
                    await merged.coming.put(_mark(pod))
                merged.begin(self._carry(pod, width, tail, merged))
            tail = None
            places.update(map(self._pods.place, pods))
            if merged.others > self._followed_max:
                most = self._followed_max
                raise wrong(f"pod: at most {most} pods are followed at once; name one of them")
        await merged.coming.put(None)

    async def _carry(self, pod: PodContainers, width: int, tail: int | None, merged: "_MergedPieces") -> None:
        async with aclosing(self._follow_pod(pod, tail)) as lines:
            async for line in lines:
                named = line if isinstance(line, StartMark) else _named(pod, width, line)
                await merged.coming.put(named)

    async def _follow_pod(self, pod: PodContainers, tail: int | None) -> LogPieces:
        """Yield the lines of a pod as they appear, over restarts of its container, until it ends."""
        last, pause_s, failing_s = b"", LOOK_S_MIN, None
        while True:
            restarts, over, is_whole = pod.restarts, pod.is_over, not pod.has_begun
            try:
                if pod.has_begun:
                    async with aclosing(self._timed(pod, last, tail)) as lines:
                        async for stamp, line in lines:
                            last, tail, pause_s = stamp, None, LOOK_S_MIN
                            yield line
                    is_whole, failing_s = True, None
            except NotFound:
                return
            except ApiSilent:
                failing_s = None  # no output, or a lost connection: request again
            except (ApiUnreachable, ApiRefused) as error:
                if not is_passing(error):
                    raise
                failing_s = failing_s or time.monotonic()
                if time.monotonic() - failing_s > PATIENCE_S:
                    raise
            if over and is_whole:
                return
            current = await self._pods.pod(pod.metadata.name)
            if current is None or current.metadata.uid != pod.metadata.uid:
                return
            pod = current
            if pod.restarts != restarts:
                last, tail, pause_s = b"", None, LOOK_S_MIN
                yield StartMark(f"restart {pod.restarts} of {pod.metadata.name}", pod.begun_s)
            await asyncio.sleep(pause_s)
            pause_s = min(LOOK_S_MAX, 1.3 * pause_s)

    async def _timed(
        self, pod: PodContainers, last: bytes, tail: int | None
    ) -> AsyncGenerator[tuple[bytes, bytes], None]:
        """Yield the lines of a pod after a time as they appear, each with its time."""
        query = {"container": pod.main.name, "follow": "true", "timestamps": "true"}
        if last:
            query["sinceTime"] = last.decode("ascii", "replace")
        elif tail is not None:
            query["tailLines"] = str(tail)
        stream = self._api.stream(f"{self._pods.path(pod.metadata.name)}/log", query)
        stamp, is_inside = last, False
        async with aclosing(lines_of(stream)) as lines:
            async for line in lines:
                text = line
                if not is_inside:
                    time_of, _, text = line.partition(b" ")
                    if _TIME.match(time_of) is None:
                        continue  # the node says that it can't read the output
                    stamp = time_of
                is_inside = not line.endswith(b"\n")
                if stamp > last:  # `sinceTime` has whole seconds
                    yield stamp, text


class _MergedPieces:
    """Pieces that several tasks put into a queue, until None. An error of any of them ends it."""

    def __init__(self) -> None:
        self.coming: asyncio.Queue[bytes | StartMark | Exception | None] = asyncio.Queue(_PIECES_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def others(self) -> int:
        """Number of running tasks, without the calling one."""
        return sum(not task.done() for task in self._tasks) - 1

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin another task."""
        self._tasks.add(asyncio.create_task(self._reported(work)))

    async def _reported(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - it is raised where the pieces are read
            await self.coming.put(error)

    async def all(self) -> LogPieces:
        """Yield the pieces of all pods in one stream; end the tasks that read them when the stream ends."""
        try:
            while (piece := await self.coming.get()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)


async def lines_of(pieces: ByteStream) -> ByteStream:
    """Yield whole lines with their ends, long ones in parts, and the remainder at the end."""
    rest = b""
    async with aclosing(pieces):
        async for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line + b"\n"
            if len(rest) > LINE_MAX:
                yield rest
                rest = b""
    if rest:
        yield rest


def _mark(pod: PodContainers) -> StartMark:
    """Return the mark of a pod that replaces another one."""
    start = pod.metadata.annotations.get(_START)
    words = f"{f'start {start} of ' if start else 'pod '}{pod.metadata.name}"
    return StartMark(words, pod.begun_s or at_s(pod.metadata.creation_timestamp))


def _named(pod: PodContainers, width: int, line: bytes) -> bytes:
    """Return a line with the name of its pod before it, as on one machine."""
    return f"{pod.metadata.name:<{width}} | ".encode() + line.removesuffix(b"\n") + b"\n"

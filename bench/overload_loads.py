"""Loads of one person, or of a program without a token, that ask too much of a server."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

LOOK_S = 0.25


Outcomes = Counter[str]
LATE_S = 240.0
"""Extra seconds for a load without enough answers."""


@dataclass
class Target:
    """The address of the load, its token, and the answers to it."""

    port: int
    token: str
    seconds: float
    is_enough: Callable[[Outcomes], bool] = lambda _: True
    outcomes: Outcomes = field(default_factory=Counter)
    _until_s: float = 0.0

    def begin(self) -> None:
        self._until_s = time.monotonic() + self.seconds

    @property
    def goes_on(self) -> bool:
        late_s = time.monotonic() - self._until_s
        return late_s < 0 or (late_s < LATE_S and not self.is_enough(self.outcomes))

    def head(self, method: str, path: str, length: int = 0, *, closes: bool = True) -> bytes:
        close = "Connection: close\r\n" if closes else ""
        return (
            f"{method} {path} HTTP/1.1\r\nHost: pool\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Length: {length}\r\n{close}\r\n"
        ).encode()


Load = Callable[[Target, int], Awaitable[None]]


async def asked(target: Target, method: str, path: str, body: bytes = b"") -> str:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    except OSError:
        return "no connection"
    try:
        writer.write(target.head(method, path, len(body)))
        with suppress(ConnectionError):
            writer.write(body)
            await writer.drain()
        line = await reader.readline()
        await reader.read()
        return line.split()[1].decode() if line else "cut off"
    except (ConnectionError, TimeoutError):
        return "cut off"
    finally:
        writer.close()


async def half_open(target: Target, count: int) -> None:
    """Connections whose head never ends; those that are closed are opened again."""

    async def one() -> None:
        while target.goes_on:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
            except OSError:
                target.outcomes["no connection"] += 1
                await asyncio.sleep(0.1)
                continue
            try:
                writer.write(b"GET /api/v1/status HTTP/1.1\r\nHost: po")
                while target.goes_on:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_S):
                            line = await reader.readline()
                            target.outcomes[line.split()[1].decode() if line else "cut off"] += 1
                            break
                else:
                    target.outcomes["open at the end"] += 1
            except ConnectionError:
                target.outcomes["cut off"] += 1
            finally:
                writer.close()

    target.begin()
    await asyncio.gather(*(one() for _ in range(count)))


async def unknown_keys(target: Target, count: int) -> None:
    """Send submissions of unknown keys, above and within the limit, four at a time."""
    bodies = [
        json.dumps(
            {"project": "attack", "command": ["true"], **{f"key{index}": 1 for index in range(size)}}
        ).encode()
        for size in (count, min(count, 70_000), min(count, 9_000))
    ]

    async def one(index: int) -> None:
        while target.goes_on:
            target.outcomes[await asked(target, "POST", "/api/v1/workloads", bodies[index % 3])] += 1
            index += 1

    target.begin()
    await asyncio.gather(*(one(index) for index in range(4)))


async def streams(target: Target, count: int) -> None:
    """Open streams and keep them open."""

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
        try:
            writer.write(target.head("GET", "/api/v1/stream"))
            line = await reader.readline()
            target.outcomes[line.split()[1].decode() if line else "cut off"] += 1
            while target.goes_on:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        if not await reader.read(1 << 16):
                            break
        except ConnectionError:
            target.outcomes["cut off"] += 1
        finally:
            writer.close()

    target.begin()
    await asyncio.gather(*(one() for _ in range(count)))


async def submissions(target: Target, count: int) -> None:
    """Send submissions, sixteen at a time, as fast as they are answered."""
    body = json.dumps({"project": "attack", "command": ["sleep", "600"], "pods": [{"gpus": 8}]}).encode()
    left = [count]

    async def one() -> None:
        while target.goes_on and left[0] > 0:
            left[0] -= 1
            target.outcomes[await asked(target, "POST", "/api/v1/workloads", body)] += 1

    target.begin()
    await asyncio.gather(*(one() for _ in range(16)))


async def questions(target: Target, count: int) -> None:
    """Ask `why` and the longest lists, several at a time."""
    paths = ("/api/v1/workloads/waits/why", "/api/v1/workloads?limit=1000", "/api/v1/usage")

    async def one(index: int) -> None:
        while target.goes_on:
            target.outcomes[await asked(target, "GET", paths[index % len(paths)])] += 1
            index += 1

    target.begin()
    await asyncio.gather(*(one(index) for index in range(count)))


async def long_line(target: Target, count: int) -> None:
    """Read the end of a log of one long line, several readers at a time."""

    async def one() -> None:
        while target.goes_on:
            try:
                async with asyncio.timeout(2.0):  # and they leave before they have it
                    target.outcomes[await asked(target, "GET", "/api/v1/workloads/long/logs?tail=1")] += 1
            except TimeoutError:
                target.outcomes["left"] += 1

    target.begin()
    await asyncio.gather(*(one() for _ in range(count)))


LOADS: dict[str, tuple[Load, int]] = {
    "half_open": (half_open, 1100),
    "unknown_keys": (unknown_keys, 300_000),
    "streams": (streams, 300),
    "submissions": (submissions, 20_000),
    "questions": (questions, 32),
    "long_line": (long_line, 16),
}


def apply(name: str, size: int, target: Target) -> Outcomes:
    asyncio.run(LOADS[name][0](target, size))
    return target.outcomes


def beside(name: str, size: int, target: Target) -> threading.Thread:
    thread = threading.Thread(target=lambda: apply(name, size, target))
    thread.start()
    return thread

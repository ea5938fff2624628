"""Load on a pool's server while it is measured: changes at a fixed rate, viewers of the live stream."""

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.processes import cpu_s

CLIENTS = 16
WAITING = 100
"""Workloads that wait while their priority changes: each change is a decision."""
_DECISIONS = re.compile(r"^weir_decision_seconds_(sum|count) (\S+)$", re.MULTILINE)


def fill(server: Any) -> None:
    """Have one workload hold the pool, and others wait for it."""
    server.submit("sleep", "100000", name="holds", gpus=server.gpus, preemptible=False)
    for index in range(WAITING):
        server.submit("true", name=f"waits-{index}", gpus=server.gpus, priority=1)
    server.until("holds", "running")


@contextmanager
def changes(server: Any, per_s: float) -> Iterator[list[int]]:
    """Change priorities at a rate, also of a server that is killed; yield the changes of each client."""
    ended, done = threading.Event(), [0] * CLIENTS

    def change(client: int) -> None:
        asked = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
        headers = {"Authorization": f"Bearer {server.token}"}
        due_s, number = time.monotonic(), client
        while not ended.is_set():
            body = json.dumps({"priority": number // WAITING % 50})
            try:
                asked.request("POST", f"/api/v1/workloads/waits-{number % WAITING}/priority", body, headers)
                asked.getresponse().read()
                done[client] += 1
            except (OSError, http.client.HTTPException):
                asked.close()
                ended.wait(0.05)
            number += CLIENTS
            due_s = max(due_s + CLIENTS / per_s, time.monotonic() - 0.1)
            ended.wait(max(0.0, due_s - time.monotonic()))

    threads = [threading.Thread(target=change, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def new_tokens(server: Any) -> list[str]:
    """Return tokens of five people: one person may have 32 streams at once."""
    asked = [{"user": f"user-{index}", "projects": ["default"]} for index in range(5)]
    return [server.ask("POST", "/api/v1/tokens", request)[1]["token"] for request in asked]


@contextmanager
def viewers(server: Any, count: int, tokens: list[str]) -> Iterator[None]:
    """Read the live stream this many times, in a thread each."""
    sockets = [_view(server, tokens[index % len(tokens)]) for index in range(count)]
    try:
        time.sleep(1.0)
        yield
    finally:
        for viewer in sockets:
            viewer.shutdown(socket.SHUT_RDWR)
            viewer.close()


def _view(server: Any, token: str) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    viewer = socket.create_connection((host, int(port)))
    head = f"GET /api/v1/dashboard/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    viewer.sendall(f"{head}\r\n".encode())
    if not (answer := viewer.recv(1 << 16)).startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"the stream is refused: {answer[-300:].decode()}")

    def read() -> None:
        try:
            while viewer.recv(1 << 16):
                pass
        except OSError:
            return

    threading.Thread(target=read, daemon=True).start()
    return viewer


@dataclass(frozen=True, slots=True)
class Spent:
    """Cost of a time for the server: part of a core, milliseconds of a decision, changes a second."""

    core: float
    decision_ms: float
    changes_per_s: float


def spend(server: Any, done: list[int], seconds: float) -> Spent:
    """Let a time pass, and return its cost."""
    began_s, before_s, count = time.monotonic(), cpu_s(server.process.pid), sum(done)
    total_s, decisions = _decisions(server)
    time.sleep(seconds)
    passed_s = time.monotonic() - began_s
    spent_s, later_s, later = cpu_s(server.process.pid) - before_s, *_decisions(server)
    return Spent(
        spent_s / passed_s,
        1e3 * (later_s - total_s) / max(1, later - decisions),
        (sum(done) - count) / passed_s,
    )


def _decisions(server: Any) -> tuple[float, float]:
    values = {part: float(value) for part, value in _DECISIONS.findall(server.ask("GET", "/metrics")[1])}
    return values["sum"], values["count"]

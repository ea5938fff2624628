"""`weir dashboard` for a cluster in a process of its own, and a browser that signs in to it."""

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx

WITHIN_S = 120.0


def run_dashboard(kubeconfig: Path) -> "subprocess.CompletedProcess[str]":
    """Run the command where it ends by itself."""
    env = {**os.environ, "WEIR_URL": "kube:", "KUBECONFIG": str(kubeconfig), "PYTHONPATH": "src"}
    command = [sys.executable, "-m", "weir", "dashboard", "--no-open"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=WITHIN_S, check=False)


class DashboardProcess:
    """A process that serves the dashboard with a kubeconfig."""

    def __init__(self, kubeconfig: Path, *words: str) -> None:
        env = {**os.environ, "WEIR_URL": "kube:", "KUBECONFIG": str(kubeconfig), "PYTHONPATH": "src"}
        command = [sys.executable, "-m", "weir", "dashboard", "--no-open", *words]
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.link = self.process.stdout.readline().strip()
        self.url, _, self.code = self.link.partition("/#code=")

    def __enter__(self) -> Self:
        assert self.code, self.process.wait(WITHIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            assert self.process.wait(WITHIN_S) == 0
        finally:
            self.process.kill()
            self.process.communicate()


class SignedIn:
    """A browser with a session: its cookie and its proof."""

    def __init__(self, served: DashboardProcess) -> None:
        self.client = httpx.Client(base_url=served.url, timeout=WITHIN_S)
        answer = self.client.post("/api/v1/dashboard/sign-in", json={"code": served.code})
        assert answer.status_code == 201, answer.text
        self.person: dict[str, Any] = answer.json()
        self.client.headers["X-Weir-Proof"] = self.person["proof"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def get(self, path: str) -> dict[str, Any]:
        answer = self.client.get(f"/api/v1/{path}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def names(self) -> set[str]:
        return {row["name"] for row in self.get("workloads?all=true&limit=1000")["items"]}

    @contextmanager
    def stream(self, *, heartbeats: bool = False) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield the frames of the live stream; a heartbeat is an empty frame, if it is wanted."""
        with self.client.stream("GET", "/api/v1/dashboard/stream") as answer:
            assert answer.status_code == 200, answer.read()
            yield _frames(answer, heartbeats=heartbeats)


def _frames(answer: httpx.Response, *, heartbeats: bool) -> Iterator[dict[str, Any]]:
    rest, unpack = b"", zlib.decompressobj(wbits=31)
    for piece in answer.iter_raw():
        *lines, rest = (rest + unpack.decompress(piece)).split(b"\n")
        yield from (json.loads(line or b"{}") for line in lines if line or heartbeats)


def until(holds: Callable[[], Any], what: str) -> Any:
    """Wait for an outcome; return it."""
    end_s = time.monotonic() + WITHIN_S
    while not (found := holds()):
        assert time.monotonic() < end_s, what
        time.sleep(0.1)
    return found


def picture(page: Any, name: str) -> None:
    """Take a picture if a folder for pictures is named."""
    if folder := os.environ.get("WEIR_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png")

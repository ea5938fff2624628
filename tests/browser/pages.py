"""The page that browser tests use, and steps that many of them take."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tools import prefork

from .serving import ServingOnPort

WITHIN_MS = 180_000
COUNTS = 'for i in 1 2 3; do echo "<img src=x onerror=alert(1)> step $i"; done; sleep 3600'


class Window:
    """The page that all tests use: a page in a new profile takes as long as five screens."""

    def __init__(self, browser: Any, server: ServingOnPort) -> None:
        self._server = server
        self.context = browser.new_context()
        self.context.set_default_timeout(WITHIN_MS)

    def plain_page(self, width: int = 1440, scheme: str | None = None) -> Any:
        """Return the page with a document that runs nothing, so that the next one is loaded."""
        page = next(iter(self.context.pages), None) or self.context.new_page()
        page.goto(f"{self._server.url}/healthz")
        page.set_viewport_size({"width": width, "height": 900})
        motion = "null" if scheme is None else "reduce"
        page.emulate_media(color_scheme=scheme or "null", reduced_motion=motion)
        return page

    def forget(self) -> None:
        """Close all pages but one, and remove what they stored."""
        page = self.plain_page()
        for other in self.context.pages:
            if other is not page:
                other.close()
        session = self.context.new_cdp_session(page)
        session.send("Storage.clearDataForOrigin", {"origin": self._server.url, "storageTypes": "all"})
        session.detach()
        self.context.clear_cookies()


def until(page: Any, holds: Callable[[], bool]) -> None:
    """Wait until the page shows something that no locator names."""
    end_s = time.monotonic() + WITHIN_MS / 1000
    while not holds():
        assert time.monotonic() < end_s
        page.wait_for_timeout(50)


def is_live(page: Any) -> Any:
    return page.locator(".state", has_text="live")


def go(page: Any, server: ServingOnPort, screen: str) -> None:
    page.goto(f"{server.url}/#/{screen}")


@contextmanager
def running(server: ServingOnPort, name: str, **words: Any) -> Iterator[int]:
    """A workload that runs, until the block ends."""
    row = server.submit("bash", "-c", COUNTS, name=name, **words)
    try:
        server.until(name, "running")
        yield row["uid"]
    finally:
        server.ask("POST", f"/api/v1/workloads/{row['uid']}/stop")
        server.until(str(row["uid"]), "stopped", "succeeded", "failed")


def run_weir(server: ServingOnPort, *words: str) -> str:
    """Return what a command prints."""
    env = {**os.environ, "WEIR_HOME": str(server.home)}
    return prefork.run([sys.executable, "-m", "weir", *words], env=env, check=True).stdout


@contextmanager
def busy(server: ServingOnPort) -> Iterator[dict[str, int]]:
    """Have one workload borrow, one within its quota, and one that waits; yield their numbers."""
    with (
        running(server, "borrows-2", project="language", gpus=2) as borrows,
        running(server, "holds-half", project="vision", gpus=0.5, priority=60) as holds,
    ):
        waits = server.submit("true", name="waits-for-4", project="language", gpus=4)["uid"]
        server.until("waits-for-4", "pending")
        yield {"borrows": borrows, "holds": holds, "waits": waits}
        server.ask("POST", f"/api/v1/workloads/{waits}/stop")
        server.until(str(waits), "stopped")

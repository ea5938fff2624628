"""Start one server and one chromium for all browser tests."""

import importlib.util
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.local.server.server_process import Serving
from tests.unit.store.fixtures import opened as opened_store
from tests.unit.store.week import record_week
from tools.controlplane.ports import free_port

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src/weir/local/server/dashboard/page/index.html"
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
NEEDS = (
    (lambda: shutil.which("chromium"), "chromium isn't installed: `apt-get install chromium`"),
    (lambda: importlib.util.find_spec("playwright"), "playwright isn't installed: `make` installs it"),
    (PAGE.exists, "the dashboard isn't built: `make web`"),
    (AXE.exists, "axe-core isn't installed: `make web`"),
)
CHROMIUM = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def missing() -> str | None:
    """Return what browser tests lack here."""
    return next((answer for is_there, answer in NEEDS if not is_there()), None)


class ServingOnPort(Serving):
    """A server that begins again on the same port, as a page expects it."""

    def __init__(self, home: Path, gpus: int) -> None:
        self.port = free_port()
        super().__init__(home, gpus)

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def put(self, kind: str, name: str, **words: Any) -> None:
        status, answer = self.ask("PUT", f"/api/v1/{kind}/{name}", {"name": name, **words})
        assert status in (200, 201), answer

    def link(self, token: str | None = None) -> str:
        status, answer = self.ask("POST", "/api/v1/dashboard/links", {}, token)
        assert status == 201, answer
        return f"{self.url}{answer['path']}"

    def member(self, user: str, *projects: str) -> str:
        status, answer = self.ask("POST", "/api/v1/tokens", {"user": user, "projects": list(projects)})
        assert status == 201, answer
        token: str = answer["token"]
        return token


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingOnPort]:
    """A pool of four virtual GPUs with two projects, where one borrows."""
    if (answer := missing()) is not None:
        if os.environ.get("WEIR_BROWSER") == "required":
            pytest.fail(answer)
        pytest.skip(answer)
    os.environ.setdefault("PYTHONPATH", "src")
    home = tmp_path_factory.mktemp("browser") / "home"
    with opened_store(home) as store:
        record_week(store, time.time() - 60)
    found = ServingOnPort(home, 4)
    try:
        found.put("projects", "vision", quota={"gpu": 3})
        found.put("projects", "language", quota={"gpu": 1})
        yield found
        found.stop_all()
    finally:
        if found.process.poll() is None:
            found.end()


@pytest.fixture(scope="package")
def browser(server: ServingOnPort) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM))
        yield found
        found.close()

"""Start one server and one chromium for all browser tests."""

import importlib.util
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.store.fixtures import opened as opened_store
from tests.unit.store.week import record_week

from .accessibility import AXE
from .pages import Window, go, is_live
from .serving import CHROMIUM, ServingOnPort

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src/weir/dashboard/page/index.html"
NEEDS = (
    (lambda: shutil.which("chromium"), "chromium isn't installed: `apt-get install chromium`"),
    (lambda: importlib.util.find_spec("playwright"), "playwright isn't installed: `make` installs it"),
    (PAGE.exists, "the dashboard isn't built: `make web`"),
    (AXE.exists, "axe-core isn't installed: `make web`"),
)


def missing() -> str | None:
    """Return what browser tests lack here."""
    return next((answer for is_there, answer in NEEDS if not is_there()), None)


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


@pytest.fixture(scope="package")
def window(browser: Any, server: ServingOnPort) -> Iterator[Window]:
    found = Window(browser, server)
    yield found
    found.context.close()


@pytest.fixture
def opened(server: ServingOnPort, window: Window) -> Iterator[Callable[..., Any]]:
    """Open a page that is signed in; whatever goes wrong in it fails the test."""
    wrong: list[str] = []
    listeners = {
        "pageerror": lambda error: wrong.append(str(error)),
        "console": lambda answer: wrong.append(answer.text) if is_wrong(answer) else None,
        "request": lambda sent: wrong.append(sent.url) if not is_own(sent.url) else None,
        "dialog": lambda dialog: wrong.append(dialog.message),
    }

    def open_(token: str | None = None, screen: str = "now", **settings: Any) -> Any:
        page = window.plain_page(**settings)
        if page not in listening:
            listening.append(page)
            for event, listener in listeners.items():
                page.on(event, listener)
        page.goto(server.link(token))
        is_live(page).wait_for()
        go(page, server, screen)
        return page

    def is_wrong(answer: Any) -> bool:
        return answer.type in ("error", "warning") and "Failed to load resource" not in answer.text

    def is_own(url: str) -> bool:
        return url.startswith((server.url, "blob:", "data:"))

    listening: list[Any] = []
    yield open_
    for page in listening:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
    window.forget()
    assert not wrong

"""The page for everyone: axe-core on every screen, and the work of a day by keys alone."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.browser.accessibility import all_screens, day_by_keys, violations
from tests.browser.serving import CHROMIUM, ServingOnPort
from tests.unit.store.fixtures import opened
from tests.unit.store.week import record_week

from bench.dashboard_rows import Measured

THEMES = ("light", "dark")
WIDTHS = (320, 1024, 1440)
WORKS = 4


def access(quick: bool) -> Iterator[Measured]:
    """Yield the violations on all screens, and the works that keys alone can't do."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        home = Path(name) / "home"
        with opened(home) as store:
            record_week(store, time.time() - 60)
        server = ServingOnPort(home, 4)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM))
        try:
            server.put("projects", "vision", quota={"gpu": 3})
            server.put("projects", "language", quota={"gpu": 1})
            with all_screens(server) as screens:
                for theme, width in product(THEMES, WIDTHS[:1] if quick else WIDTHS):
                    size = {"width": width, "height": 900}
                    context = browser.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce")
                    page = context.new_page()
                    page.goto(server.link())
                    page.locator(".state", has_text="live").wait_for()
                    problems = violations(page, server, screens)
                    title = f"axe-core, {len(screens)} screens, {theme}, {width} px: violations"
                    yield Measured(title, len(problems), 0, "")
                    context.close()
            page = browser.new_context().new_page()
            page.goto(server.link())
            done = list(day_by_keys(page, server))
            title = f"keys alone ({', '.join(done)}): what they can't do"
            yield Measured(title, WORKS - len(done), 0, "")
            server.stop_all()
        finally:
            browser.close()
            if server.process.poll() is None:
                server.end()

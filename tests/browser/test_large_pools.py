"""The page stays small and within its window in front of pools of any size, at three widths."""

from itertools import product
from typing import Any

import pytest
from bench.dashboard_front import front_of

from .pages import WITHIN_MS, is_live
from .pools import first_frame
from .serving import ServingOnPort

ELEMENTS_MAX = 1500
WIDTHS = (1440, 1024, 320)
POOLS = {
    "empty": (0, 0, 0, False),
    "small": (5, 1, 3, False),
    "middle": (500, 12, 20, True),
    "large": (10_000, 64, 200, True),
}
"""Numbers of workloads, nodes and projects, and whether all names are as long as can be."""
SCREENS = ("now", "workloads", "quotas", "nodes", "submit")


@pytest.mark.parametrize("pool", POOLS)
def test_page_stays_small_and_within_the_window(browser: Any, server: ServingOnPort, pool: str) -> None:
    workloads, nodes, projects, long_names = POOLS[pool]
    context = browser.new_context()
    context.set_default_timeout(WITHIN_MS)
    page = context.new_page()
    with front_of(server.url, first_frame(workloads, nodes, projects, long_names=long_names)) as url:
        page.goto(url + server.link().removeprefix(server.url))
        is_live(page).wait_for()
        for width, screen in product(WIDTHS, SCREENS):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(f"{url}/#/{screen}")
            page.locator("h1").wait_for(state="attached")
            at = f"{screen} at {width}"
            assert page.evaluate("document.querySelectorAll('*').length") <= ELEMENTS_MAX, at
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, at
        if pool == "empty":
            page.goto(f"{url}/#/workloads")
            page.get_by_text("Nothing runs or waits.").wait_for()
        context.close()


def test_long_tables_have_pages_and_a_search(browser: Any, server: ServingOnPort) -> None:
    context = browser.new_context()
    context.set_default_timeout(WITHIN_MS)
    page = context.new_page()
    with front_of(server.url, first_frame(500, 64, 200)) as url:
        page.goto(url + server.link().removeprefix(server.url))
        is_live(page).wait_for()
        page.goto(f"{url}/#/quotas")
        page.get_by_text("1 to 40 of 200").wait_for()
        page.get_by_role("button", name="Next").click()
        page.get_by_role("link", name="project-040").wait_for()
        page.get_by_label("Find").fill("project-199")
        page.get_by_text("1 to 1 of 1").wait_for()
        page.goto(f"{url}/#/nodes/node-63")
        page.get_by_role("region", name="GPUs of node-63").wait_for()
        page.get_by_text("1 to 50 of 64").wait_for()
        context.close()

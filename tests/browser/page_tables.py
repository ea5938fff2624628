"""Tables of the page as texts, and their comparison with what they should show."""

import time
from collections.abc import Callable
from typing import Any

from .pages import WITHIN_MS

CELLS = """each => [...each.querySelectorAll('tbody tr')].filter(row => !row.ariaHidden).map(row =>
  [...row.cells].filter(cell => cell.checkVisibility()).map(cell => cell.innerText.replace(/\\s+/g, ' ').trim()))"""


def cells(page: Any, region: str) -> list[list[str]]:
    """Return the texts of a table's visible cells."""
    found: list[list[str]] = page.get_by_role("region", name=region, exact=True).first.evaluate(CELLS)
    return found


def become_equal(page: Any, shown: Callable[[], Any], expected: Callable[[], Any]) -> None:
    """Wait until the page shows what is expected; both may move while the pool is measured."""
    end_s = time.monotonic() + WITHIN_MS / 1000
    while (on_page := shown()) != (by_rest := expected()):
        if time.monotonic() > end_s:
            raise AssertionError(f"the page shows {on_page}, and REST has {by_rest}")
        page.wait_for_timeout(100)

"""Steps of a person in the page of JupyterLab."""

from typing import Any

from tests.e2e.ssh_session import until

_ANSWER_MS = 15_000


def open_notebook(page: Any, link: str) -> None:
    """Open a new notebook, and wait for its kernel. Dialogs about a lost connection are closed as they come."""
    lost = page.get_by_role("dialog", name="Server Connection Error")
    page.add_locator_handler(lost, lambda: lost.get_by_role("button", name="Close").click())
    page.goto(link)
    page.locator(".jp-LauncherCard[data-category='Notebook']").first.click()
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()


def run_cell(page: Any, code: str, output: str) -> None:
    """Write code into the last cell, and run it until its output is this line.

    JupyterLab forgets a run that it gets just before it is connected to the kernel, and gives up after seven
    attempts to connect. People reconnect then, and run the cell again.
    """
    from playwright.sync_api import TimeoutError as NothingShown

    cells = page.locator(".jp-Notebook .jp-Cell")
    editor = cells.nth(cells.count() - 1).locator(".cm-content")
    editor.click()
    page.keyboard.insert_text(code)
    editor.filter(has_text=code).wait_for()

    def is_shown() -> bool:
        editor.press("Shift+Enter")
        try:
            page.get_by_text(output, exact=True).wait_for(timeout=_ANSWER_MS)
        except NothingShown:
            page.get_by_role("menuitem", name="Kernel", exact=True).click()
            page.get_by_role("menuitem", name="Reconnect to Kernel").click()
            return False
        return True

    until(is_shown)

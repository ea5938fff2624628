"""What a person does in the page of JupyterLab."""

from typing import Any


def open_notebook(page: Any, link: str) -> None:
    """Open a new notebook, and wait for its kernel."""
    page.goto(link)
    page.locator(".jp-LauncherCard[data-category='Notebook']").first.click()
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()


def run_cell(page: Any, code: str) -> None:
    """Write code into the last cell, and run it."""
    cell = page.locator(".jp-Notebook .jp-Cell").last
    cell.locator(".cm-content").click()
    cell.locator(".cm-editor.cm-focused").wait_for()
    page.keyboard.insert_text(code)
    cell.locator(".cm-content", has_text=code).wait_for()
    page.keyboard.press("Shift+Enter")

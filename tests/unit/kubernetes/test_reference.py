"""The reference page as it is in the repository, held against the code that it is generated from."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_what_the_code_generates() -> None:
    reference = runpy.run_path(str(DOCS / "kubernetes_reference.py"))
    page = reference["PAGE"].read_text("utf-8")
    assert reference["filled"](page) == page, "run: python docs/kubernetes_reference.py"
    assert "| `weir.dev/gpu-fraction` |" in page
    assert "### SchedulerConfig" in page

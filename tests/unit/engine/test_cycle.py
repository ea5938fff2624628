"""The steps of a cycle are told alike where it is decided and in the documentation."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def _steps(text: str) -> list[str]:
    """Return the first numbered list of a text, an entry a line."""
    steps: list[str] = []
    for line in text.splitlines():
        if re.match(rf"{len(steps) + 1}\. ", line):
            steps.append(line)
        elif steps:
            break
    return steps


def test_steps_of_the_documentation_are_those_of_the_code() -> None:
    steps = _steps(ast.get_docstring(ast.parse((ROOT / "src/weir/engine/cycle.py").read_text())) or "")
    assert len(steps) == 7
    assert _steps((ROOT / "docs/explanation/cycle.md").read_text()) == steps

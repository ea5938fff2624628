"""Names of variables, fields and functions: each says what its value is."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "bench", "tools", "tests/properties", "tests/simulation", "tests/unit/engine")
UNCLEAR = {
    *("at", "each", "found", "here", "known", "mine", "more", "of", "ours", "said", "there"),
    *("thing", "things", "what", "who"),
}
OPTIONS = {("src/weir/cli/nodes/drain.py", "at")}
"""Parameters of commands, whose names are those of their options."""
STORED = {
    ("src/weir/api/answers.py", "at"),
    ("src/weir/api/schedules.py", "said"),
    ("src/weir/kubernetes/crd/notification_objects.py", "at"),
    ("src/weir/kubernetes/crd/objects.py", "at"),
    ("src/weir/kubernetes/crd/sweep_objects.py", "at"),
    ("src/weir/kubernetes/translate/kind_table.py", "each"),
    ("src/weir/store/workloads/schedules.py", "said"),
}
"""Fields whose names are those of a JSON field or a column."""


def variables(tree: ast.Module) -> Iterator[str]:
    """Yield the name of each variable, parameter and field that a module binds, once for each binding."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
            yield node.name


def functions(tree: ast.Module) -> Iterator[str]:
    """Yield the name of each function, but for constructors such as `Capacity.of(cluster)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {
                decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)
            }
            if node.name != "of" or "classmethod" not in decorators:
                yield node.name


def unclear(tree: ast.Module) -> set[str]:
    """Return the unclear names of a module."""
    names = {*variables(tree), *functions(tree)}
    return {name for name in names if name.strip("_") in UNCLEAR}


def test_variables_fields_and_functions_are_named_for_their_values() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    names = {
        (str(file.relative_to(ROOT)), name)
        for file in files
        for name in unclear(ast.parse(file.read_text("utf-8")))
    }
    assert len(files) > 1_000
    assert names == OPTIONS | STORED


@pytest.mark.parametrize(
    "source",
    [
        "for each in nodes: pass",
        "def count(of): pass",
        "lambda at: at",
        "if (found := find()): pass",
        "try: pass\nexcept ValueError as what: pass",
        "match value:\n    case [known, *more]: pass",
        "class Condition:\n    at: str",
        "class Reflector:\n    def __init__(self):\n        self._known = {}",
        "class Pods:\n    def of(self, claim): pass",
        "def _found(row): pass",
    ],
)
def test_unclear_names_are_found_in_each_kind_of_binding(source: str) -> None:
    assert unclear(ast.parse(source))


def test_constructors_may_be_named_of() -> None:
    assert not unclear(ast.parse("class Capacity:\n    @classmethod\n    def of(cls, cluster): pass"))

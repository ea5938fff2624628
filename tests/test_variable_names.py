"""Names of variables: each says what the variable holds."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
UNCLEAR = {
    *("at", "each", "found", "here", "known", "mine", "more", "of", "ours", "said", "there"),
    *("thing", "things", "what", "who"),
}
OPTIONS = {("weir/cli/nodes/drain.py", "at")}
"""Parameters of commands, whose names are those of their options."""


def variables(tree: ast.Module) -> Iterator[str]:
    """Yield the name of each variable and parameter that a module binds, once for each binding.

    Fields of classes are left out: a reader sees them with the name of their record, as in `condition.at`.
    """
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {
        part.target for found_class in classes for part in found_class.body if isinstance(part, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in fields:
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name is not None:
            yield node.name


def test_variables_are_named_for_the_values_that_they_hold() -> None:
    trees = {file: ast.parse(file.read_text("utf-8")) for file in sorted(SOURCE.rglob("*.py"))}
    names = {
        (str(file.relative_to(SOURCE)), name) for file, tree in trees.items() for name in variables(tree)
    }
    assert len(names) > 10_000
    assert not {(file, name) for file, name in names if name in UNCLEAR} - OPTIONS


@pytest.mark.parametrize(
    "source",
    [
        "for each in nodes: pass",
        "def count(of): pass",
        "lambda at: at",
        "if (found := find()): pass",
        "try: pass\nexcept ValueError as what: pass",
        "match value:\n    case [known, *more]: pass",
    ],
)
def test_unclear_names_are_found_in_each_kind_of_binding(source: str) -> None:
    assert UNCLEAR.intersection(variables(ast.parse(source)))


def test_fields_of_classes_are_left_out() -> None:
    assert list(variables(ast.parse("class Condition:\n    at: str"))) == []

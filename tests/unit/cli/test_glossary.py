"""The glossary of the docs: one sentence for each public word, here or on a page that it links."""

import ast
import re
import runpy
from pathlib import Path
from typing import get_args

import pytest

from weir.api.workload_list import Status
from weir.cli.commands import COMMANDS
from weir.kubernetes.crd.definitions import definitions
from weir.local.server.app import create_schema_app
from weir.model.policy import Policy
from weir.model.reasons import EvictionRule, ReasonCode

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
GLOSSARY = (DOCS / "glossary.md").read_text()
ENTRIES = dict(re.findall(r"^- (?:\*\*|`)([^*`]+)(?:\*\*|`): (.+(?:\n  .+)*)$", GLOSSARY, re.MULTILINE))
LINKED = [DOCS / path for path in re.findall(r"\]\(([^)#]+\.md)", GLOSSARY)]


def metric_calls() -> list[ast.Call]:
    """Return the calls that make the families of metrics."""
    trees = [ast.parse(file.read_text()) for file in (ROOT / "src/weir").rglob("*metric*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    makers = ("MetricFamily", "counter_family", "histogram_family", "plain_histogram")
    return [call for call in calls if ast.unparse(call.func).endswith(makers)]


def constants(node: ast.AST) -> set[str]:
    """Return the texts in an expression."""
    return {
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def metric_labels() -> set[str]:
    """Return the labels of all metrics."""
    keywords = [keyword for call in metric_calls() for keyword in call.keywords if keyword.arg == "labels"]
    return set().union(*(constants(keyword.value) for keyword in keywords))


def metric_names() -> set[str]:
    """Return the names of metrics that are written out."""
    firsts = [call.args[0] for call in metric_calls() if call.args]
    return {first.value for first in firsts if isinstance(first, ast.Constant)}


PUBLIC = {
    "command": {f"weir {command.name}" for command in COMMANDS},
    "label of a metric": metric_labels(),
    "policy key": set(Policy.model_fields),
    "reason": set(ReasonCode),
    "rule of an eviction": set(EvictionRule),
    "state": set(get_args(Status)),
}


@pytest.mark.parametrize("kind", sorted(PUBLIC))
def test_each_public_word_has_an_entry(kind: str) -> None:
    assert PUBLIC[kind]
    assert sorted(PUBLIC[kind] - set(ENTRIES)) == []


def test_each_code_word_of_the_glossary_exists() -> None:
    written = set(re.findall(r"^- `([^`]+)`:", GLOSSARY, re.MULTILINE))
    assert sorted(written - set().union(*PUBLIC.values())) == []


@pytest.mark.parametrize("word", sorted(ENTRIES))
def test_an_entry_is_one_sentence(word: str) -> None:
    assert re.fullmatch(r"[^.A-Z][^.]+\.", ENTRIES[word])
    assert len(ENTRIES[word].split()) <= 25


def test_each_metric_is_on_a_page_that_the_glossary_links() -> None:
    text = "".join(page.read_text() for page in LINKED)
    names = metric_names()
    assert len(names) > 30
    assert sorted(name for name in names if f"`{name}" not in text) == []


def test_each_field_of_an_object_is_on_the_page_that_the_glossary_links() -> None:
    page = DOCS / "reference/kubernetes.md"
    assert page in LINKED
    for definition in definitions():
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        section = (
            page.read_text()
            .partition(f"### {definition['spec']['names']['kind']}\n")[2]
            .partition("\n### ")[0]
        )
        for part, fields in schema["properties"].items():
            for name in fields.get("properties", {}):
                assert f"| `{part}.{name}` |" in section


def test_each_field_of_rest_is_on_the_page_that_the_glossary_links() -> None:
    assert DOCS / "reference/rest.md" in LINKED
    reference = runpy.run_path(str(DOCS / "rest_reference.py"))["reference"]()
    for name, model in create_schema_app().openapi()["components"]["schemas"].items():
        section = reference.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        for field in model.get("properties", {}):
            assert f"| `{field}` |" in section, f"{name}.{field}"

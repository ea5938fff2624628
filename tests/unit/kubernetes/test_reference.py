"""The reference page as it is in the repository, held against the code that it is generated from."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weir.kubernetes.crd.definitions import definitions
from weir.kubernetes.crd.field_descriptions import field_descriptions
from weir.kubernetes.translate.annotations import WRITTEN_BY_WEIR

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_what_the_code_generates() -> None:
    reference = runpy.run_path(str(DOCS / "kubernetes_reference.py"))
    page = reference["PAGE"].read_text("utf-8")
    assert reference["filled"](page) == page, "run: python docs/kubernetes_reference.py"
    assert "| `weir.dev/gpu-fraction` |" in page
    assert "### SchedulerConfig" in page
    for key in WRITTEN_BY_WEIR:
        assert f"| `weir.dev/{key}` |" in page, "the key is written on pods"


def test_each_field_of_a_kind_has_its_own_description() -> None:
    described = {kind: dict(fields(schema)) for kind, schema in schemas().items()}
    assert {kind: paths.keys() for kind, paths in described.items()} == {
        kind: texts.keys() for kind, texts in field_descriptions().items()
    }
    workload = described["Workload"]
    assert "GPUOvercommitted" in workload["status.conditions"]
    assert "in force" in described["SchedulerConfig"]["status.conditions"]
    assert "Thousandths" in workload["status.allocations[].share"]
    assert "fair share" in described["Project"]["status.share"]


def test_pages_name_files_that_exist_and_all_kinds() -> None:
    for page in DOCS.rglob("*.md"):
        for name in re.findall(r"`(src/weir/[\w./-]+)`", page.read_text("utf-8")):
            assert (DOCS.parent / name).exists(), f"{page.name} names {name}"
    install = (DOCS / "how-to" / "kubernetes" / "install.md").read_text("utf-8")
    (line,) = re.findall(r"^- (\w+) kinds of objects: (.*);$", install, re.MULTILINE)
    assert line[0] == "eight"
    assert sorted(re.findall(r"`(\w+)`", line[1])) == sorted(schemas())


def schemas() -> dict[str, dict[str, Any]]:
    return {
        each["spec"]["names"]["kind"]: each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for each in definitions()
    }


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each field below spec and status, with its description."""
    for name, each in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        if path:
            yield here, each["description"]
        yield from fields(each.get("items", each), f"{here}[]" if "items" in each else here)

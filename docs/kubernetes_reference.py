"""The reference of what Weir adds to a cluster, generated from the code that reads it.

python docs/kubernetes_reference.py      write the tables into docs/reference/kubernetes.md

The page is a file that can be read without building the manual. A test compares it with the code.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weir.kubernetes.crd.definitions import definitions
from weir.kubernetes.translate.annotations import FOREIGN, KAI_LEVELS, KAI_TOPOLOGY, OURS, PREFIX
from weir.kubernetes.translate.kind_table import built_in

_GANGS = {"owner": "all its pods", "pod": "each pod by itself"}


PAGE = Path(__file__).with_name("reference") / "kubernetes.md"


def tables() -> dict[str, str]:
    """Return each table by the name of the marks around it."""
    return {
        "keys": "\n".join(_keys()),
        "foreign keys": "\n".join(_foreign()),
        "objects": "\n".join(_objects()),
        "makers": "\n".join(_makers()),
    }


def filled(page: str) -> str:
    """Return the page with each table between its marks."""
    for name, table in tables().items():
        between = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.DOTALL)
        page, count = between.subn(lambda match, table=table: f"{match[1]}{table.strip()}{match[2]}", page)
        assert count == 1, f"the page has the marks of {name} {count} times"
    return page


def _keys() -> Iterator[str]:
    yield "| key | example | meaning |\n|---|---|---|"
    for key in OURS:
        yield f"| `{PREFIX}{key.name}` | `{key.example}` | {key.meaning} |"


def _foreign() -> Iterator[str]:
    yield "| key | example | meaning |\n|---|---|---|"
    for key in FOREIGN:
        yield f"| `{key.name}` | `{key.example}` | {key.meaning} |"
    topology = f"`{KAI_TOPOLOGY}`, " + ", ".join(f"`{each}`" for each in KAI_LEVELS)
    yield f"| {topology} | `net`, `rack` | As `{PREFIX}topology`. |"


def _objects() -> Iterator[str]:
    for definition in definitions():
        names = definition["spec"]["names"]
        version = definition["spec"]["versions"][0]
        schema = version["schema"]["openAPIV3Schema"]
        scope = "in a namespace" if definition["spec"]["scope"] == "Namespaced" else "of the whole cluster"
        short = f", short {', '.join(names['shortNames'])}" if "shortNames" in names else ""
        yield f"\n### {names['kind']}\n\n{schema['description']} {scope.capitalize()}{short}.\n"
        columns = [each["name"] for each in version["additionalPrinterColumns"] if not each.get("priority")]
        wide = [each["name"] for each in version["additionalPrinterColumns"] if each.get("priority")]
        yield f"`kubectl get {definition['metadata']['name']}` shows {', '.join(columns)}" + (
            f"; with `-o wide` {', '.join(wide)}, too.\n" if wide else ".\n"
        )
        yield "| field | type | meaning |\n|---|---|---|"
        for part, fields in schema["properties"].items():
            yield from _fields(part, fields)


def _fields(path: str, schema: Mapping[str, Any]) -> Iterator[str]:
    for name, each in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        yield f"| `{here}` | {_type(each)} | {_rules(each)} |"
        inner = each.get("items", each)
        if "properties" in inner:
            yield from _fields(here + ("[]" if "items" in each else ""), inner)


def _type(schema: Mapping[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if schema["type"] == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"mapping to {_type(schema['additionalProperties'])}"
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    return "time" if schema.get("format") == "date-time" else str(schema["type"])


def _rules(schema: Mapping[str, Any]) -> str:
    """Return the meaning of a field, with the form of its values where the type says too little."""
    inner = schema.get("additionalProperties")
    of = inner if isinstance(inner, dict) else schema
    told = [each["message"] for each in of.get("x-kubernetes-validations", ())]
    writes = [f"{each[:1].upper()}{each[1:]}." for each in told if each.startswith("write ")]
    return " ".join([schema.get("description", ""), *writes]).strip()


def _makers() -> Iterator[str]:
    yield "| kind | of | type | starts together |\n|---|---|---|---|"
    told = set()
    for rule in built_in():
        gang = _GANGS.get(rule.gang, f"pods of one `{rule.gang}`")
        columns = f"{rule.type} | {gang}" if rule.workload else "- | -"
        row = f"| `{rule.kind}` | {', '.join(f'`{each}`' for each in rule.api)} | {columns} |"
        if row not in told:
            told.add(row)
            yield row


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")

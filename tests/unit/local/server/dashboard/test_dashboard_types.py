"""Types of the page are those of the interface: every field is there, of the same type, null where it may be."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from weir.dashboard.person import DashboardPerson
from weir.local.server.app import create_schema_app

LOGIC = Path(__file__).parents[5] / "web/src/logic"
SCHEMAS = {
    "Queue": "QueueRow",
    "Device": "DeviceRow",
    "PoolNode": "NodeRow",
    "PoolEvent": "EventRow",
    "Explanation": "Explanation",
    "Suggestion": "Suggestion",
    "Eviction": "EvictionRow",
    "Activity": "ActivityRow",
    "Why": "WhyAnswer",
    "Pod": "PodRow",
    "RestRow": "WorkloadRow",
    "Detail": "WorkloadDetail",
    "Series": "SeriesRow",
    "SeriesAnswer": "SeriesAnswer",
    "Outage": "MaintenanceRow",
    "UsageRow": "UsageRow",
    "WaitTimes": "WaitTimes",
    "HistoryRow": "HistoryRow",
    "History": "HistoryReport",
    "Replay": "WhatIfRow",
    "Person": "DashboardPerson",
    "ClusterScope": "ClusterScope",
    "RungValue": "RungValue",
    "Trial": "TrialRow",
    "Rung": "RungRow",
    "Sweep": "SweepRow",
    "SweepDetail": "SweepDetail",
    "ArrayCounts": "ArrayCounts",
    "ArrayIndexRow": "ArrayIndexRow",
    "ArrayIndexPage": "ArrayIndexPage",
    "Notification": "NotificationRow",
    "Delivery": "DeliveryRow",
}
"""Schema of the interface for each type of the page."""
ALIASES = {"Amounts": "Record<string, number>"}
LITERALS = {"Status", "Fate", "Channel", "DeliveryState", "Isolation"}
INTERFACE = re.compile(r"export interface (\w+)(?: extends (\w+))? \{\n(.*?)\n\}", re.DOTALL)
FIELD = re.compile(r"^  (\w+)(\??): (.+)$", re.MULTILINE)


def interfaces() -> dict[str, tuple[str | None, dict[str, str]]]:
    """Return the interfaces of the page, with what they extend and their fields."""
    found = {}
    for file in LOGIC.glob("*.ts"):
        for name, base, body in INTERFACE.findall(file.read_text()):
            found[name] = (base or None, {field: text for field, _, text in FIELD.findall(body)})
    return found


SHAPES = interfaces()


@cache
def document() -> dict[str, Any]:
    """Return the schemas of the interface, and those of the session, which only the page uses."""
    person = DashboardPerson.model_json_schema(mode="serialization")
    interface = create_schema_app().openapi()["components"]["schemas"]
    return {**interface, **person["$defs"], "DashboardPerson": person}


def difference(text: str, schema: dict[str, Any]) -> str | None:
    """Return in what a type of the page differs from a schema; None if it holds all values of the schema."""
    text = ALIASES.get(text, text)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if text in SCHEMAS:
            return None if SCHEMAS[text] == name else f"is {name}"
        schema = document()[name]
    if "anyOf" in schema:
        parts = [each for each in schema["anyOf"] if each.get("type") != "null"]
        if len(parts) < len(schema["anyOf"]) and not text.endswith(" | null"):
            return "may be null"
        rest = text.removesuffix(" | null")
        return next((why for each in parts if (why := difference(rest, each))), None)
    kind = schema.get("type")
    if kind == "array":
        if not text.endswith("[]"):
            return "is an array"
        if schema["items"].get("prefixItems"):
            return None if re.fullmatch(r"\[number, number\]\[\]", text) else "is an array of pairs"
        return difference(text.removesuffix("[]").strip("()"), schema["items"])
    if kind == "object" or kind is None:
        return None if text.startswith(("Record<", "{")) or text in SHAPES else "is an object"
    if kind == "string":
        return None if text == "string" or text in LITERALS or "'" in text else "is a text"
    expected = {"integer": "number", "number": "number", "boolean": "boolean"}[kind]
    return None if text == expected else f"is a {expected}"


def fields_of(name: str) -> dict[str, str]:
    base, own = SHAPES[name]
    return {**(fields_of(base) if base else {}), **own}


@pytest.mark.parametrize("name", SCHEMAS)
def test_type_of_the_page_is_that_of_the_interface(name: str) -> None:
    properties = document()[SCHEMAS[name]]["properties"]
    fields = fields_of(name)
    assert fields
    wrong = {
        field: "isn't in the interface" if field not in properties else difference(text, properties[field])
        for field, text in fields.items()
    }
    assert {field: why for field, why in wrong.items() if why} == {}


def test_differences_are_found() -> None:
    assert difference("string", {"type": "integer"}) == "is a number"
    assert difference("number", {"anyOf": [{"type": "number"}, {"type": "null"}]}) == "may be null"
    assert difference("Pod[]", {"type": "array", "items": {"$ref": "#/components/schemas/EventRow"}})
    assert difference("number[]", {"type": "string"}) == "is a text"

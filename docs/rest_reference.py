"""The reference of the REST interface, drawn from the description the server itself gives."""

from collections.abc import Iterator
from typing import Any

from weir.local.server.app import create_schema_app

_ORDER = ("get", "post", "put", "delete")


def reference() -> str:
    """Return one section for each address and method, then one for each kind of body and answer."""
    schema = create_schema_app().openapi()
    lines = list(_operations(schema))
    lines.append("\n## Bodies and answers\n")
    for name, model in sorted(schema["components"]["schemas"].items()):
        lines += _model(name, model)
    return "\n".join(lines)


def _operations(schema: dict[str, Any]) -> Iterator[str]:
    for path, methods in schema["paths"].items():
        for method in _ORDER:
            operation = methods.get(method)
            if operation is None:
                continue
            yield f"\n### `{method.upper()} {path}`\n"
            yield operation.get("description", operation.get("summary", ""))
            body = operation.get("requestBody")
            if body is not None:
                yield f"\nBody: {_kind(body['content']['application/json']['schema'])}. {body['description']}"
            yield from _parameters(operation.get("parameters", []))
            yield "\nAnswers: " + ", ".join(_answers(operation["responses"])) + "."


def _parameters(parameters: list[dict[str, Any]]) -> Iterator[str]:
    asked = [each for each in parameters if each["in"] == "query"]
    if asked:
        yield "\n| parameter | kind | meaning |\n|---|---|---|"
        for each in asked:
            yield f"| `{each['name']}` | {_kind(each['schema'])} | {each.get('description', '')} |"


def _answers(responses: dict[str, Any]) -> Iterator[str]:
    for status, response in sorted(responses.items()):
        content = response.get("content", {})
        kinds = [
            _kind(part["schema"]) if "$ref" in part.get("schema", {}) else f"`{media}`"
            for media, part in content.items()
        ]
        yield f"{status}" + (f" {' or '.join(kinds)}" if kinds and int(status) < 400 else "")


def _model(name: str, model: dict[str, Any]) -> Iterator[str]:
    yield f"\n### {name}\n"
    yield (model.get("description") or "").replace("\n", " ")
    properties = model.get("properties")
    if not properties:
        yield "\nOne of: " + ", ".join(f"`{word}`" for word in model.get("enum", ())) + "."
        return
    required = set(model.get("required", ()))
    yield "\n| key | kind | default |\n|---|---|---|"
    for key, value in properties.items():
        default = "required" if key in required else _default(value.get("default"))
        yield f"| `{key}` | {_kind(value)} | {default} |"


def _default(value: object) -> str:
    if value is None or value in ({}, []):
        return "none"
    return f"`{value}`" if isinstance(value, str | int | float | bool) else "one of the plainest"


def _kind(value: dict[str, Any]) -> str:  # noqa: PLR0911 - one return for each kind
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        kinds = [_kind(each) for each in value["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    if value.get("type") == "array":
        return f"list of {_kind(value.get('items', {}))}"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        return f"mapping to {_kind(inner)}" if isinstance(inner, dict) and inner else "mapping"
    if "description" in value and isinstance(value.get("type"), list):
        return str(value["description"])
    return str(value.get("type", "anything"))

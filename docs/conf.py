"""Configuration of Sphinx for the manual.

Pictures are drawn (`pictures.py`), and so are the references of commands and addresses. That of settings is
drawn from the model of the policy: defaults, presets and allowed values come from there, and only what a
setting means is written in `settings.yaml`. A setting that is not described, a description of none, and a
reason that is not explained fail the build.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel
from sphinx.application import Sphinx
from sphinx.util import logging

from weir import __version__
from weir.model.policy import PRESETS, Policy
from weir.model.reasons import EvictionRule, ReasonCode
from weir.model.resources import span

project = "Weir"
author = "The Weir authors"
copyright = "The Weir authors, Apache-2.0"
release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"Weir {release}"

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))
_PLACE = "<!-- settings -->"
_REST = "<!-- operations -->"
_COMMANDS = "<!-- commands -->"
_PICTURE = re.compile(r"^<!-- picture (\w+) -->$", re.MULTILINE)
_LOG = logging.getLogger(__name__)


def setup(app: Sphinx) -> None:
    """Prepare what the pages include, before Sphinx reads them."""
    app.connect("source-read", _fill)


def _fill(app: Sphinx, name: str, source: list[str]) -> None:
    if name == "reference/configuration":
        source[0] = source[0].replace(_PLACE, _settings())
    if _PICTURE.search(source[0]):
        from pictures import picture

        app.env.note_dependency(str(_HERE / "pictures.py"))
        source[0] = _PICTURE.sub(lambda match: f"```{{raw}} html\n{picture(match[1])}\n```", source[0])
    if name == "reference/cli":
        from cli_reference import reference as commands

        source[0] = source[0].replace(_COMMANDS, commands())
    if name == "reference/rest":
        from rest_reference import reference

        source[0] = source[0].replace(_REST, reference())
    if name == "reference/reasons":
        for word in (*ReasonCode, *EvictionRule):
            if f"`{word.value}`" not in source[0]:
                _LOG.warning("reasons.md doesn't explain %s", word.value)


def _settings() -> str:
    """Return one section for each page of settings, with a table under it."""
    meanings = yaml.safe_load((_HERE / "settings.yaml").read_text("utf-8"))
    presets = {name: Policy.model_validate({"preset": name}) for name in PRESETS}
    rows = {}
    for path in _paths(Policy, ()):
        name = ".".join(path)
        if name not in meanings:
            _LOG.warning("settings.yaml doesn't say what %s means", name)
            continue
        values = [_value(_at(preset, path), path) for preset in presets.values()]
        rows[name] = f"| `{name}` | {' | '.join(values)} | {_allowed(path)} | {meanings.pop(name)} |"
    for name in meanings:
        if "[]" not in name:
            _LOG.warning("settings.yaml describes %s, which is no setting", name)
    heads = [f"`{name}`" for name in presets]
    lines = [
        f"| setting | {' | '.join(heads)} | values | meaning |",
        "|---" * (3 + len(heads)) + "|",
        *rows.values(),
    ]
    return "\n".join([*lines, "", *_lists(meanings)])


def _lists(meanings: dict[str, str]) -> Iterator[str]:
    """Yield the settings that are lists, in tables of their own."""
    for name, field in Policy.model_fields.items():
        entry = next((kind for kind in get_args(field.annotation) if _is_model(kind)), None)
        if entry is None:
            continue
        yield f"\nAn entry of `{name}`:\n"
        yield "| key | default | meaning |\n|---|---|---|"
        for key, part in entry.model_fields.items():
            said = meanings.pop(f"{name}[].{key}", None)
            if said is None:
                _LOG.warning("settings.yaml doesn't say what %s[].%s means", name, key)
            default = "required" if part.is_required() else _value(part.default, (name, key))
            yield f"| `{key}` | {default} | {said} |"
    for name in meanings:
        _LOG.warning("settings.yaml describes %s, which is no setting", name)


def _paths(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        if _is_model(field.annotation):
            yield from _paths(field.annotation, (*above, name))
        else:
            yield (*above, name)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _at(policy: BaseModel, path: tuple[str, ...]) -> Any:
    found: Any = policy
    for name in path:
        found = getattr(found, name)
    return found


def _schema(path: tuple[str, ...]) -> dict[str, Any]:
    whole = Policy.model_json_schema()
    found = whole
    for name in path:
        found = found["properties"][name]
        if "$ref" in found:
            found = whole["$defs"][found["$ref"].rsplit("/", 1)[1]]
    return found


def _is_time(path: tuple[str, ...]) -> bool:
    """Return True if a setting is a duration: a text such as `1h`."""
    written: Any = "1h"
    for name in reversed(path):
        written = {name: written}
    try:
        return _at(Policy.model_validate(written), path) == 3600.0
    except ValueError:
        return False


def _value(value: Any, path: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value == ():
        return "none"
    if isinstance(value, float) and _is_time(path):
        return span(value)
    return f"{value:,g}" if isinstance(value, int | float) else f"{value}"


def _allowed(path: tuple[str, ...]) -> str:
    if _is_time(path):
        return "time"
    schema = _schema(path)
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    if schema["type"] == "boolean":
        return "`true` or `false`"
    if schema["type"] == "array":
        return "list"
    least, most = schema.get("minimum"), schema.get("maximum")
    kind = "whole number" if schema["type"] == "integer" else "number"
    bounds = f", {least:g} to {most:g}" if most is not None else f", at least {least:g}"
    return kind + bounds

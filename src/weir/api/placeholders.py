"""Placeholders in the texts of a submission: `${{ NAME }}`.

Values replace them in texts that are read already, each text once. So a value can become neither another
field nor another word of the command, and a placeholder in a value stays text.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from weir.api.short_forms import words_of
from weir.scenario_io.document import plain

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PLACEHOLDER = re.compile(r"\$\{\{([^{}]{0,100})\}\}")
_BEGIN = "${{"
_TYPED = frozenset({"priority", "preemptible", "min_pods", "retries", "workers", "count", "min", "devices"})
"""Fields that are a number, true or false: a placeholder that is all of their text becomes one."""
_TEXTS = ("command", "env")
"""Fields that take any text."""
_SAMPLE = "value"

Path = tuple[str | int, ...]


def placeholders(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the name of each placeholder with the path of its text; an empty name if it isn't closed.

    A placeholder in a key is yielded with an empty name too: keys have none.
    """
    if isinstance(value, str):
        yield from ((path, match[1].strip()) for match in _PLACEHOLDER.finditer(value))
        if _BEGIN in _PLACEHOLDER.sub(" ", value):
            yield path, ""
    elif isinstance(value, dict):
        for key, part in value.items():
            if _BEGIN in key:
                yield path, ""
            yield from placeholders(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from placeholders(part, (*path, index))


def fill(workload: Mapping[str, Any], values: Mapping[str, str], size_max: int) -> dict[str, Any]:
    """Return a submission with the values of its parameters; placeholders without a value stay.

    Raises:
        ValueError: its texts would have more than `size_max` characters.
    """
    body = dict(workload)
    command = body.get("command")
    if isinstance(command, str):
        with suppress(ValueError):  # the later check of the submission reports the error
            body["command"] = words_of(
                _PLACEHOLDER.sub(lambda match: f"${{{{{match[1].strip()}}}}}", command)
            )
    size = sum(len(values.get(name, "")) for _, name in placeholders(body))
    if size > size_max:
        raise ValueError(f"the values would fill {size:,} characters: write at most {size_max:,}")
    filled = {key: _filled(value, values) for key, value in body.items()}
    _read_typed(body, filled, values)
    if isinstance(body.get("pods"), list) and isinstance(filled["pods"], list):
        for before, after in zip(body["pods"], filled["pods"], strict=True):
            if isinstance(before, dict):
                _read_typed(before, after, values)
    return filled


def with_samples(workload: Mapping[str, Any], required: Collection[str]) -> dict[str, Any]:
    """Return the part of a submission that can be checked while some parameters have no value.

    Commands and variables take any text, so they get one. Other fields that need such a value are left out.
    """
    samples = dict.fromkeys(required, _SAMPLE)
    checkable: dict[str, Any] = {}
    for key, value in workload.items():
        if key == "pods" and isinstance(value, list):
            checkable[key] = [with_samples(pod, required) if isinstance(pod, dict) else pod for pod in value]
        elif samples.keys().isdisjoint(name for _, name in placeholders(value)):
            checkable[key] = value
        elif key in _TEXTS:
            checkable[key] = _filled(value, samples)
    return checkable


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """Replace the placeholders that have a value."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: values.get(match[1].strip(), match[0]), value)
    if isinstance(value, dict):
        return {key: _filled(part, values) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, values) for part in value]
    return value


def _read_typed(before: Mapping[str, Any], after: dict[str, Any], values: Mapping[str, str]) -> None:
    """Read the values that are all of a typed field."""
    for key in _TYPED.intersection(before):
        text = before[key]
        match = _PLACEHOLDER.fullmatch(text.strip()) if isinstance(text, str) else None
        value = None if match is None else values.get(match[1].strip())
        if value is not None:
            with suppress(ValueError):  # a number that is too long stays a text, and is refused later
                after[key] = plain(value.strip())

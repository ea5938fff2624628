"""Templates of Helm, made of the objects of an installation whose options are markers.

An installation is made with a marker for each option. So a template is the objects with an expression of
Helm in place of each marker: no line of an object is written twice.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.kubernetes.install.parts import Manifest

_OPENING = "{{"
_ESCAPED = '{{ "{{" }}'
_PLAIN = re.compile(r"[A-Za-z][\w./-]*", re.ASCII)
"""Keys that mean the same without quotes."""


@dataclass(frozen=True, slots=True)
class Markers:
    """Markers of options, each with the expression in its place."""

    texts: Mapping[str, str]
    """Parts of texts; a longer one that contains another comes first."""
    lists: Mapping[str, str]
    """Items of the `values` of selectors, each with the expression of the list that is in its place."""
    numbers: Mapping[int, str]
    fields: tuple[tuple[Any, str], ...]
    """Values of fields, each with the expression of an object, or of a list, that is left out when empty."""
    conditions: Mapping[str, str]
    """Texts that exist only under a condition, as an item or as the value of a field."""
    parts: tuple[tuple[Any, str], ...] = ()
    """Values, other than texts, that exist only under a condition."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of fields that exist only under a condition."""


def template(manifests: Iterable[tuple[Manifest, Sequence[str]]], markers: Markers) -> str:
    """Return the template of objects, each within its actions (`if ...`, `range ...`), outermost first."""
    writer = _Writer(markers)
    parts = []
    for manifest, actions in manifests:
        lines = ["---", *writer.mapping(manifest, 0)]
        for action in reversed(actions):
            lines = _within(action, lines)
        parts += lines
    return "\n".join(parts) + "\n"


def _under(condition: str, lines: Iterable[str]) -> list[str]:
    return _within(f"if {condition}", lines)


def _within(action: str, lines: Iterable[str]) -> list[str]:
    return [f"{{{{- {action} }}}}", *lines, "{{- end }}"]


class _Writer:
    """Writes values as YAML, texts as JSON."""

    def __init__(self, markers: Markers) -> None:
        self._markers = markers

    def mapping(self, value: Mapping[str, Any], depth: int) -> Iterator[str]:
        """Yield the lines of a mapping that isn't empty."""
        for key, child in value.items():
            head = f"{'  ' * depth}{key if _PLAIN.fullmatch(key) else self._text(key)}:"
            if key == "values" and (expression := self._list(child)):
                yield f"{head} {expression}"
            elif key in self._markers.keys:
                yield from _under(self._markers.keys[key], [*self._with_head(head, child, depth + 1)])
            else:
                yield from self._with_head(head, child, depth + 1)

    def _items(self, values: Iterable[Any], depth: int) -> Iterator[str]:
        for child in values:
            yield from self._with_head(f"{'  ' * depth}-", child, depth + 1)

    def _with_head(self, head: str, value: Any, depth: int) -> Iterator[str]:
        optional = next((expression for marker, expression in self._markers.fields if marker == value), None)
        condition = self._markers.conditions.get(value) if isinstance(value, str) else None
        part = next((action for marker, action in self._markers.parts if marker == value), None)
        if part is not None:
            yield from _under(part, [*self._value(head, value, depth)])
        elif optional is not None:
            yield from _under(optional, [f"{head} {{{{ {optional} | toJson }}}}"])
        elif condition is not None:
            yield from _under(condition, [f"{head} {self._text(value)}"])
        else:
            yield from self._value(head, value, depth)

    def _value(self, head: str, value: Any, depth: int) -> Iterator[str]:
        if isinstance(value, Mapping) and value:
            yield head
            yield from self.mapping(value, depth)
        elif isinstance(value, list) and value:
            yield head
            yield from self._items(value, depth)
        else:
            yield f"{head} {self._scalar(value)}"

    def _list(self, values: list[Any]) -> str:
        """Return the expression of a sorted list with markers; empty for an empty list."""
        lists = self._markers.lists
        marked = dict.fromkeys(lists[value] for value in values if value in lists)
        if not marked:
            return ""
        fixed = " ".join(json.dumps(value) for value in values if value not in lists)
        return f"{{{{ concat (list {fixed}) {' '.join(marked)} | uniq | sortAlpha | toJson }}}}"

    def _scalar(self, value: Any) -> str:
        if isinstance(value, str):
            return self._text(value)
        if type(value) is int and value in self._markers.numbers:
            return f"{{{{ {self._markers.numbers[value]} }}}}"
        return json.dumps(value)

    def _text(self, value: str) -> str:
        written = json.dumps(value, ensure_ascii=False).replace(_OPENING, _ESCAPED)
        for marker, expression in self._markers.texts.items():
            written = written.replace(marker, f"{{{{ {expression} }}}}")
        return written

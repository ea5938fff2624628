"""Objects of files: YAML or JSON, one or several documents, single objects or lists of them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weir.kubernetes.migrate.runai import LISTS
from weir.scenario_io.document import input_name, input_text, read_document
from weir.scenario_io.source_map import Mistakes

_BETWEEN = re.compile(r"^---(?=\s|$)", re.MULTILINE)


def read_objects(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file; `-` is the standard input.

    Raises:
        InvalidFile: the file can't be read; each mistake has its line.
    """
    mistakes = Mistakes(input_name(file))
    text = input_text(file, mistakes)
    lines_before = 0
    for part in _BETWEEN.split(text):
        if part.strip():
            value = read_document("\n" * lines_before + part, mistakes)
            mistakes.refuse_if_any()
            yield from _objects(value)
        lines_before += part.count("\n")


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _objects(item)
    elif isinstance(value, Mapping):
        lists = [(key, kind) for key, kind in LISTS.items() if isinstance(value.get(key), list)]
        if isinstance(value.get("items"), list):
            yield from _objects(value["items"])
        elif lists:
            for key, kind in lists:
                yield from ({**item, "kind": kind} for item in value[key] if isinstance(item, Mapping))
        elif value:
            yield value

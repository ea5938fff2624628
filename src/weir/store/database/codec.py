"""Nouns as JSON and back. Unknown fields of a newer version are ignored."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar, cast

from pydantic import TypeAdapter
from sqlalchemy import Row

from weir.control.journal import StartConditions
from weir.control.port import IdleProgress
from weir.model.queues import Queue
from weir.model.workloads import Workload
from weir.state.events import Nominated

Noun = TypeVar("Noun")

WORKLOAD: Final = TypeAdapter(Workload)
NOMINATED: Final = TypeAdapter(Nominated)
QUEUE: Final = TypeAdapter(Queue)
START_CONDITIONS: Final = TypeAdapter(StartConditions)


def packed(adapter: TypeAdapter[Noun], noun: Noun) -> str:
    """Return an object as JSON, without fields at their default."""
    return adapter.dump_json(noun, exclude_defaults=True).decode()


def idle_progress(text: str) -> IdleProgress:
    """Parse the position of a workload on the idle ladder."""
    progress = {key: value for key, value in mapping_of(text).items() if key in IdleProgress._fields}
    return IdleProgress(**progress)


def as_json(value: object) -> str:
    """Return a plain value as JSON."""
    return json.dumps(value, separators=(",", ":"), default=str)


def mapping_of(text: str) -> Mapping[str, Any]:
    """Parse a JSON object."""
    value = json.loads(text)
    assert isinstance(value, dict)
    return value


def record_of(kind: Callable[..., Noun], row: Row[Any], **read: object) -> Noun:
    """Return a dataclass whose fields hold the columns of their names, except those in `read`."""
    columns = row._asdict()
    names = [field.name for field in fields(cast("Any", kind)) if field.name in columns]
    return kind(**{**{name: columns[name] for name in names}, **read})


def row_of(record: object, *leave_out: str) -> dict[str, Any]:
    """Return the columns of a dataclass, named as its fields; mappings and sequences as JSON."""
    names = [field.name for field in fields(cast("Any", record)) if field.name not in leave_out]
    values = {name: getattr(record, name) for name in names}
    return {
        name: as_json(value) if isinstance(value, Mapping | list | tuple) else value
        for name, value in values.items()
    }

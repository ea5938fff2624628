"""Single values of a file: names, amounts and times, converted from text to numbers.

The error of each type says what to write instead. Amounts of a quota keep their text, because their unit
depends on their key.
"""

import math
import re
import reprlib
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from fractions import Fraction
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    SkipValidation,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import InitErrorDetails

from weir.model.array_indices import read_indices
from weir.model.resources import (
    CPU,
    GPU,
    GPU_MODEL_PREFIX,
    MEMORY,
    PODS,
    amount,
    in_units,
    quantity,
    seconds,
    whole_units,
)
from weir.model.workloads import PRIORITY_CLASSES, WHOLE_MILLI

NAME_LENGTH_MAX = 253
LABEL_LENGTH_MAX = 4096
DEVICES_MAX = 1024
"""Devices of one node."""
PODS_MAX = 1_000_000
"""Pods of one group."""
PRIORITY_MAX = 2**31 - 1
MOMENT_LENGTH_MAX = 64
MOMENT_MAX = 1e11
"""Seconds since 1970; no calendar has the times beyond it."""
CLASSES_CONTEXT = "priority_classes"
"""Key of a pool's priority classes, by name, in the context of a validation."""
_WEIGHT_MAX = 1e9
GPU_WEIGHT_MAX = 100
"""GPUs that one device may count as."""
_OWN_KEYS = {GPU: "gpus", CPU: "cpu", MEMORY: "memory", PODS: "pods"}

Written = int | float | str


def _name(text: str) -> str:
    if not text:
        raise ValueError("is empty: write a name")
    if len(text) > NAME_LENGTH_MAX:
        raise ValueError(f"is longer than {NAME_LENGTH_MAX} characters: write a shorter name")
    if not text.isprintable() or text != text.strip():
        raise ValueError(f"{text!r} has spaces around it or characters that don't show: write a plain name")
    return text


def _group_name(text: str) -> str:
    if "/" in text:
        raise ValueError(f"{text!r} has a slash, which parts workload/group/index: write a name without it")
    return _name(text)


def _label(text: str) -> str:
    if len(text) > LABEL_LENGTH_MAX:
        raise ValueError(f"is longer than {LABEL_LENGTH_MAX} characters: write a shorter one")
    return text


def _resource(text: str) -> str:
    if text.startswith(GPU_MODEL_PREFIX) and not text.removeprefix(GPU_MODEL_PREFIX):
        raise ValueError("names no model: write gpu.MODEL such as gpu.H100")
    return _name(text)


def _further(text: str) -> str:
    if text in _OWN_KEYS or text.startswith(GPU_MODEL_PREFIX):
        right = _OWN_KEYS.get(text, "gpu_model or gpu_models")
        raise ValueError(f"{text} has a key of its own: write {right} outside of resources")
    return _name(text)


def _no_word(written: Any) -> Any:
    if written == "unlimited":
        raise ValueError("is unlimited, which only quota and limit can be: write an amount")
    return written


def _amount_reader(resource: str) -> Callable[[Any], int]:
    return lambda written: amount(resource, _no_word(written))


def _some(resource: str) -> Callable[[Any], int]:
    def read(written: Any) -> int:
        value = amount(resource, _no_word(written))
        if value == 0:
            raise ValueError("is 0: write more than 0, or leave it out")
        return value

    return read


def _gpus(written: Any) -> int:
    milli = in_units(GPU, quantity(_no_word(written)))
    if milli < 0:
        raise ValueError(f"{reprlib.repr(written)} is negative: write 0 or more")
    if milli > WHOLE_MILLI and milli % WHOLE_MILLI:
        whole = math.floor(milli / WHOLE_MILLI)
        correction = f"write {whole} or {whole + 1}, or a share below 1 of each of several devices"
        raise ValueError(f"{written!r} is neither whole devices nor a share of one: {correction}")
    if milli > DEVICES_MAX * WHOLE_MILLI:
        raise ValueError(f"{reprlib.repr(written)} is more than a node can have: write at most {DEVICES_MAX}")
    return whole_units(GPU, milli, written)


def _bounds(written: dict[str, Written]) -> dict[str, Written]:
    """Check each amount in the unit of its resource; it stays as it is written."""
    wrong: list[InitErrorDetails] = []
    for resource, value in written.items():
        try:
            amount(resource, value)
        except ValueError as error:
            wrong.append({"type": "value_error", "loc": (resource,), "input": value, "ctx": {"error": error}})
    if wrong:
        raise ValidationError.from_exception_data("amounts", wrong)
    return written


def _weight(written: Any) -> float:
    value = float(quantity(_no_word(written)))
    if value < 0:
        raise ValueError(f"{reprlib.repr(written)} is negative: write 0 or more")
    if value > _WEIGHT_MAX:
        raise ValueError(
            f"{written!r} is more than {_WEIGHT_MAX:g}: write the weights in proportion, smaller"
        )
    return value


def gpu_weight_milli(written: Any) -> int:
    """Return the thousandths of a GPU that a device counts as, of a number or a fraction such as 1/7.

    They are rounded down, so that devices that make up a GPU together never count as more.

    Raises:
        ValueError: it isn't a number, or is out of range.
    """
    text = str(written)
    parts = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
    if parts is not None and int(parts[2]):
        milli = Fraction(int(parts[1]), int(parts[2])) * WHOLE_MILLI
    else:
        milli = in_units(GPU, quantity(_no_word(written)))
    if not 1 <= milli <= GPU_WEIGHT_MAX * WHOLE_MILLI:
        raise ValueError(
            f"{reprlib.repr(written)} is no weight of a device: write a number such as 0.5, or a fraction "
            f"such as 1/7, from 0.001 to {GPU_WEIGHT_MAX}"
        )
    return math.floor(milli)


def _past(written: Any) -> float:
    at_s = seconds(written)
    if at_s > 0:
        raise ValueError(
            f"{written!r} lies ahead of the scenario's instant: write 0s or an offset such as -10m"
        )
    return at_s


def _positive(written: Any) -> float:
    span_s = seconds(written)
    if span_s <= 0:
        raise ValueError(f"{written!r} is not above 0: write a duration such as 90s, 10m or 2h30m")
    return span_s


def _term(written: Any) -> float:
    term_s = seconds(written)
    if term_s < 0:
        raise ValueError(
            f"{reprlib.repr(written)} is negative: write a duration such as 90s, 10m or 2h30m, or 0 for none"
        )
    return term_s


def _moment(written: Any) -> float:
    """Return the seconds since 1970 of a number, or of a time in ISO 8601; without an offset it is local."""
    at_s: float = -1.0
    if isinstance(written, int | float) and not isinstance(written, bool):
        at_s = float(written)
    elif isinstance(written, str) and len(written) <= MOMENT_LENGTH_MAX:
        with suppress(ValueError, OverflowError, OSError):
            at_s = datetime.fromisoformat(written.strip()).timestamp()
    if not 0 <= at_s <= MOMENT_MAX:
        right = "write a time such as 2026-12-01T18:00, or seconds since 1970"
        raise ValueError(f"{reprlib.repr(written)} is no time: {right}")
    return at_s


def _named_priority(written: Any, info: ValidationInfo) -> Any:
    """Return the number of a named priority; anything else stays as it is.

    A context may hold the classes of a pool in place of those that every pool has.
    """
    if not isinstance(written, str) or written.strip().lstrip("-").isdecimal():
        return written
    classes = (info.context or {}).get(CLASSES_CONTEXT, PRIORITY_CLASSES)
    if written not in classes:
        names = ", ".join(classes)
        raise ValueError(f"{reprlib.repr(written)} is no priority: write a number, or one of {names}")
    return classes[written]


def _indices(text: str) -> str:
    read_indices(text)
    return "".join(text.split())


_QUANTITY = {"type": ["number", "string"], "description": "a number or a quantity such as 500m, 1.5 or 40Gi"}
_BOUND = {"type": ["number", "string"], "description": 'a number, a quantity such as 40Gi, or "unlimited"'}
_TIME = {"type": ["number", "string"], "description": "seconds, or a time such as 90s, -10m or 2h30m"}
_MOMENT = {
    "type": ["number", "string"],
    "description": "a time such as 2026-12-01T18:00, or seconds since 1970",
}

_INDICES = {"type": "string", "description": "indices such as 0-499, 1-100:5 or 1,3,7; %20 for 20 at once"}

Name = Annotated[str, AfterValidator(_name)]
Indices = Annotated[str, AfterValidator(_indices), WithJsonSchema(_INDICES)]
GroupName = Annotated[str, AfterValidator(_group_name)]
Label = Annotated[str, AfterValidator(_label)]
Resource = Annotated[str, AfterValidator(_resource)]
Bound = Annotated[Written, SkipValidation, WithJsonSchema(_BOUND)]
Bounds = Annotated[dict[Resource, Bound], AfterValidator(_bounds)]
Further = Annotated[str, AfterValidator(_further)]
CpuMilli = Annotated[int, PlainValidator(_amount_reader(CPU)), WithJsonSchema(_QUANTITY)]
Bytes = Annotated[int, PlainValidator(_amount_reader(MEMORY)), WithJsonSchema(_QUANTITY)]
SomeBytes = Annotated[int, PlainValidator(_some(MEMORY)), WithJsonSchema(_QUANTITY)]
Units = Annotated[int, PlainValidator(_amount_reader("")), WithJsonSchema(_QUANTITY)]
GpuWeight = Annotated[int, PlainValidator(gpu_weight_milli), WithJsonSchema(_QUANTITY)]
GpusMilli = Annotated[int, PlainValidator(_gpus), WithJsonSchema(_QUANTITY)]
Weight = Annotated[float, PlainValidator(_weight), WithJsonSchema(_QUANTITY)]
Offset = Annotated[float, PlainValidator(seconds), WithJsonSchema(_TIME)]
Past = Annotated[float, PlainValidator(_past), WithJsonSchema(_TIME)]
Span = Annotated[float, PlainValidator(_positive), WithJsonSchema(_TIME)]
Term = Annotated[float, PlainValidator(_term), WithJsonSchema(_TIME)]
Moment = Annotated[float, PlainValidator(_moment), WithJsonSchema(_MOMENT)]
Devices = Annotated[int, Field(ge=0, le=DEVICES_MAX)]
Device = Annotated[int, Field(ge=0, lt=DEVICES_MAX)]
Priority = Annotated[int, Field(ge=-PRIORITY_MAX - 1, le=PRIORITY_MAX)]
HighestPriority = Annotated[Priority, BeforeValidator(_named_priority)]
WorkloadPriority = Annotated[
    HighestPriority,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": -PRIORITY_MAX - 1, "maximum": PRIORITY_MAX},
                {"type": "string", "enum": list(PRIORITY_CLASSES)},
            ]
        }
    ),
]
ClassPriority = Annotated[
    HighestPriority,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": -PRIORITY_MAX - 1, "maximum": PRIORITY_MAX},
                {"type": "string", "description": "a priority class of the pool, such as high"},
            ]
        }
    ),
]
"""A priority by number, or by the name of a class of the pool."""

"""Parsers of annotation values: a ValueError has an example of a valid value."""

import reprlib
from collections.abc import Callable
from datetime import UTC, datetime

from weir.kubernetes.api.paths import is_name
from weir.kubernetes.translate.quantities import exact
from weir.model.resources import GPU, MEMORY, in_units, seconds, whole_units
from weir.model.workloads import WHOLE_MILLI, TopologyRequest, WorkloadType

DEVICES_MAX = 1024


PODS_MAX = 1_000_000


_MIB = 1 << 20


_MEMORY_MAX = 1 << 50


_DIGITS_MAX = 18
NAMES_MAX = 64
"""Limit of workloads that one may depend on."""


def parse_name(text: str) -> str:
    """Return a name that is not empty."""
    if not text:
        raise ValueError("is empty: write a name")
    return text


def parse_names(text: str) -> tuple[str, ...]:
    """Return names with commas between them, each once."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    wrong = next((name for name in names if not is_name(name)), None)
    if wrong is not None:
        raise ValueError(f"{wrong[:100]!r} is no name of an object: write names such as prepare,index")
    if len(names) > NAMES_MAX:
        raise ValueError(f"{len(names)} names are more than {NAMES_MAX}: write fewer")
    return names


def parse_type(text: str) -> WorkloadType:
    """Return a type of workload."""
    try:
        return WorkloadType(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is no type of workload: write train, build or inference") from None


def parse_fraction(text: str) -> int:
    """Return a share of a device in thousandths."""
    try:
        milli = in_units(GPU, exact(text))
    except ValueError:
        raise ValueError(f"{text!r} is no fraction of a device: write one such as 0.5") from None
    if milli > WHOLE_MILLI:
        whole = "ask for whole devices in resources.limits, such as nvidia.com/gpu: 2"
        raise ValueError(f"{text!r} is more than one device: write a fraction up to 1, or {whole}")
    if milli <= 0:
        raise ValueError(f"{text!r} is not above 0: write a fraction such as 0.5")
    return whole_units(GPU, milli, text)


def parse_memory(text: str) -> int:
    """Return bytes of device memory."""
    try:
        value = in_units(MEMORY, exact(text))
    except ValueError:
        raise ValueError(f"{text!r} is no amount of memory: write one such as 8Gi or 2000Mi") from None
    if value <= 0:
        raise ValueError(f"{text!r} is not above 0: write an amount such as 8Gi")
    if value > _MEMORY_MAX:
        raise ValueError(
            f"{reprlib.repr(text)} is more memory than a device has: write an amount such as 8Gi"
        )
    if value < _MIB:
        raise ValueError(f"{text!r} is less than a mebibyte: write the unit too, such as 2000Mi or 8Gi")
    return whole_units(MEMORY, value, text)


def parse_mebibytes(text: str) -> int:
    """Return bytes; a bare number counts mebibytes, as in Run:ai and KAI."""
    short = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return parse_memory(f"{text}Mi") if short and int(text) else parse_memory(text)


def count_parser(most: int, noun: str) -> Callable[[str], int]:
    """Return the parser of a whole number from 1 to `most`."""

    def read(text: str) -> int:
        short = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
        if not short or not 1 <= int(text) <= most:
            annotations = reprlib.repr(text)
            raise ValueError(f"{annotations} is no number of {noun}: write a whole number from 1 to {most}")
        return int(text)

    return read


def parse_min_scale(text: str) -> int:
    """Return the replicas that a Knative service keeps; 1 if it scales to zero, or can't be read."""
    short = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return min(max(1, int(text)), PODS_MAX) if short else 1


def parse_truth(text: str) -> bool:
    """Return a truth value."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f'{text!r} is neither "true" nor "false": write one of them, in quotes')
    return text.lower() == "true"


def parse_duration(text: str) -> float:
    """Return seconds."""
    span_s = seconds(text)
    if span_s <= 0:
        raise ValueError(f"{text!r} is not above 0: write a duration such as 90s, 10m or 2h30m")
    return span_s


def parse_instant(text: str) -> float:
    """Return a time in seconds since the epoch; without a zone it is UTC, as in the API."""
    try:
        if "-" not in text:
            return float(int(text))
        instant = datetime.fromisoformat(text)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        example = "2026-03-01T12:00:00Z, or seconds since 1970"
        raise ValueError(f"{text!r} is no point in time: write one such as {example}") from None


def parse_topology(text: str) -> TopologyRequest:
    """Return the levels of a topology that pods ask for."""
    form = "NAME:required=LEVEL, NAME:preferred=LEVEL or NAME:required=LEVEL,preferred=LEVEL"
    name, colon, rest = text.partition(":")
    levels = dict(part.partition("=")[::2] for part in rest.split(",")) if colon else {}
    whole = bool(name.strip()) and all(levels.values()) and len(levels) == rest.count(",") + 1
    if not whole or not levels.keys() <= {"required", "preferred"}:
        raise ValueError(f"{text!r} doesn't say where the pods are to be together: write {form}")
    return TopologyRequest(name.strip(), levels.get("required"), levels.get("preferred"))

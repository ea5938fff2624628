"""Resources and their units, and their conversion between text and numbers.

`gpu` is counted in thousandths of a device, `cpu` in thousandths of a core, `memory` in bytes,
everything else in units. `gpu.MODEL` counts devices of one model, like `gpu`.

`whole_units` refuses amounts that are finer than the unit, wherever they are written. Those of real pods and
nodes are rounded up in `kubernetes.translate.quantities`, as Kubernetes does.
"""

import math
import re
import reprlib
from fractions import Fraction
from typing import Final

GPU = "gpu"
CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
CPU_SLOTS = "cpu_slots"
"""Limits how many CPU-only pods that state no CPU run at once on a machine."""
GPU_MODEL_PREFIX = "gpu."
HOST_PORT_PREFIX = "hostport/"
"""Ports of a node as resources: PROTOCOL/PORT of all its addresses, PROTOCOL/PORT/ADDRESS of one."""
ATTACHED_PREFIX = "attached-volumes/"
"""Prefix of volumes of a driver on a node. A shared volume counts twice, so nodes never get too many."""
CLAIMS_PREFIX = "claims/"
"""Copies of a pod's resource claims that a node has devices for, as a resource named by the claims."""
TAINTED_PREFIX = "tainted-claims/"
"""Prefix of devices that match a claim and that only taints exclude, named as the claim's."""

UNLIMITED: Final = 1 << 62
"""Stands for no bound where amounts are integers."""

_PLAIN_DIGITS = 6
_FLOAT_ERROR, _FLOAT_PART = Fraction(1, 10**6), Fraction(1, 10**15)
"""Parts of a unit, and of a large amount, by which arithmetic with floats may miss whole units."""
_SECONDS_MAX = 1000 * 366 * 86400.0

_SUFFIXES: dict[str, int | Fraction] = {
    "": 1,
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}
_WRITTEN_LENGTH_MAX = 64
"""No amount or time needs more characters; more would only be slow to read."""

_QUANTITY = re.compile(
    r"([+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?)([numkMGTPE]|[KMGTPE]i|)", re.ASCII
)
_DURATION = re.compile(
    r"-?(?=[0-9])(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+(?:\.[0-9]+)?)s?)?", re.ASCII
)


def _short(written: object) -> str:
    """Return the text if it is short; else an empty text, which no pattern matches."""
    text = written.strip() if isinstance(written, str) else ""
    return text if len(text) <= _WRITTEN_LENGTH_MAX else ""


def _shown(written: object) -> str:
    return reprlib.repr(written)


def quantity(written: str | int | float) -> Fraction:
    """Read a number or a quantity as Kubernetes writes it (`500m`, `40Gi`).

    Raises:
        ValueError: it is neither; the message has examples.
    """
    if isinstance(written, int | float) and not isinstance(written, bool):
        if isinstance(written, float) and not math.isfinite(written):
            raise ValueError("is not a finite number: write a number or a quantity such as 4, 500m or 40Gi")
        return Fraction(str(written)) if isinstance(written, float) else Fraction(written)
    match = _QUANTITY.fullmatch(_short(written))
    if match is None:
        raise ValueError(
            f"{_shown(written)} is not a quantity: write a number or one such as 500m, 1.5 or 40Gi"
        )
    return Fraction(match[1]) * _SUFFIXES[match[2]]


def in_thousandths(resource: str) -> bool:
    """Return True if amounts of `resource` are kept in thousandths."""
    return resource in (GPU, CPU) or resource.startswith(GPU_MODEL_PREFIX)


def plain_amount(resource: str, value: float) -> float:
    """Return an amount in the unit that people read: devices, cores, bytes."""
    return round(value / 1000, _PLAIN_DIGITS) if in_thousandths(resource) else value


def in_units(resource: str, exact: Fraction) -> Fraction:
    """Return an amount in the unit of `resource`, without the error of arithmetic with floats.

    An amount that isn't 0 never becomes 0: its sign, and that it is too fine, would be lost.
    """
    units = exact * (1000 if in_thousandths(resource) else 1)
    if units.denominator == 1:
        return units
    whole = round(units)
    if whole == 0:
        return units
    return Fraction(whole) if abs(units - whole) <= max(_FLOAT_ERROR, abs(whole) * _FLOAT_PART) else units


def whole_units(resource: str, units: Fraction, text: str | int | float) -> int:
    """Return the units that `text` means. A part of a byte that a binary unit leaves (0.1Gi) is rounded up.

    Raises:
        ValueError: the text is finer than the unit; the message says what to write.
    """
    thousandths = in_thousandths(resource)
    if units.denominator == 1 or (not thousandths and str(text).rstrip().endswith("i")):
        return math.ceil(units)
    nearest = max(1, round(units))
    if thousandths:
        whole = "core" if resource == CPU else "device"
        fault, right = f"finer than 0.001, the smallest share of a {whole}", written(resource, nearest)
    elif resource == MEMORY:
        fault, right = "not a whole number of bytes", f"{nearest}, or a unit, such as 1.5Gi"
    else:
        fault, right = "not a whole number", str(nearest)
    raise ValueError(f"{_shown(text)} is {fault}: write {right}")


def amount(resource: str, written: str | int | float) -> int:
    """Return the amount of `resource` in its unit; "unlimited" gives UNLIMITED.

    Raises:
        ValueError: it is no quantity, negative, too large to count, or finer than the unit.
    """
    if written == "unlimited":
        return UNLIMITED
    units = in_units(resource, quantity(written))
    if units < 0:
        raise ValueError(f"{_shown(written)} is negative: write 0 or more")
    if units > UNLIMITED // 1024:
        raise ValueError(f"{_shown(written)} is more than can be counted: write less")
    return whole_units(resource, units, written)


def seconds(written: str | int | float) -> float:
    """Read a duration or an offset such as `90s`, `2h30m`, `-5m`; a bare number is seconds.

    Raises:
        ValueError: it is neither; the message has examples.
    """
    if isinstance(written, int | float) and not isinstance(written, bool):
        if isinstance(written, float) and not math.isfinite(written):
            raise ValueError("is not a finite time: write a duration such as 90s, 10m or 2h30m")
        if abs(written) > _SECONDS_MAX:
            raise ValueError("is longer than a thousand years: write a duration such as 90s, 10m or 2h30m")
        return float(written)
    text = _short(written)
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{_shown(written)} is not a duration: write one such as 90s, 10m or 2h30m")
    days, hours, minutes, rest = match.groups()
    total = int(days or 0) * 86400.0 + int(hours or 0) * 3600.0 + int(minutes or 0) * 60.0 + float(rest or 0)
    if total > _SECONDS_MAX:
        raise ValueError(
            f"{_shown(written)} is longer than a thousand years: write one such as 90s, 10m or 2h30m"
        )
    return -total if text.startswith("-") else total


def written(resource: str, value: int) -> str:
    """Return an amount as people read it: `1.5` devices, `40Gi` of memory."""
    if value >= UNLIMITED:
        return "unlimited"
    if in_thousandths(resource):
        return f"{value / 1000:.3f}".rstrip("0").rstrip(".")
    if resource == MEMORY:
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            if value >= _SUFFIXES[suffix]:
                return f"{value / float(_SUFFIXES[suffix]):.1f}".rstrip("0").rstrip(".") + suffix
    return str(value)


def span(seconds_: float) -> str:
    """Return a duration as people read and write it: `2h5m`, `40s`."""
    whole = round(abs(seconds_))
    sign = "-" if seconds_ < 0 and whole else ""
    for unit, size, below, small in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // small
            return f"{sign}{whole // size}{unit}" + (f"{rest}{below}" if rest else "")
    return f"{sign}{whole}s"


def end_clause(name: str, how: str, total_s: float, ran_s: float | None) -> str:
    """Return how work ended, with its run time and its wait since the submission; None: it never ran."""
    if ran_s is None:
        return f"{name} {how} after waiting for {span(total_s)}, without running"
    waited_s = total_s - ran_s
    wait = f" and waiting for {span(waited_s)}" if waited_s >= 1 else ""
    return f"{name} {how} after running for {span(ran_s)}{wait}"

"""Labels and annotations about workloads: Weir's own, and those of Run:ai and KAI.

`weir.dev/...` says it all; the words of the other two are understood so that manifests can move here
as they are. A key may stand in labels or in annotations. Where both ours and a foreign word are
written, ours holds. What is wrong comes out as sentences that say what to write instead; the
admission webhook and the scheduler read with the same functions.
"""

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any

from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.translate.quantities import exact
from weir.model.nodes import Topology
from weir.model.resources import seconds
from weir.model.workloads import WHOLE_MILLI, TopologyRequest, WorkloadType
from weir.scenario_io.error_messages import nearest

PREFIX = "weir.dev/"
WRITTEN_BY_WEIR = ("gpus", "start")
"""Keys under the prefix that Weir writes itself on a pod it binds."""
MISTAKES_MAX = 20
"""Of one kind on one object; the rest is mentioned in one sentence."""
VALUE_CHARACTERS_MAX = 1024
NAMES_COMPARED_MAX = 1000
"""Names that a wrong one is compared with to find the nearest."""
_SHOWN_MAX = 100
_DEVICES_MOST = 1024
_PODS_MOST = 1_000_000
_MIB = 1 << 20
_MEMORY_MOST = 1 << 50
_DIGITS_MOST = 18


@dataclass(frozen=True, slots=True)
class Annotations:
    """Labels and annotations of a pod and its workload, read; None if absent."""

    project: str | None = None
    project_from: str = ""  # the key it was said by; the bare "project" may mean something else altogether
    type: WorkloadType | None = None
    fraction_milli: int | None = None
    gpu_memory: int | None = None  # bytes of each device
    devices: int | None = None  # how many devices to have that share of
    min_pods: int | None = None
    preemptible: bool | None = None
    max_runtime_s: float | None = None
    topology: TopologyRequest | None = None
    checkpointed_s: float | None = None  # epoch
    priority_class: str | None = None


@dataclass(frozen=True, slots=True)
class AnnotationKey:
    """A key, what it sets, an example, and what it means in a sentence."""

    name: str
    sets: str
    example: str
    meaning: str
    read: Callable[[str], Any]


# How each value is read: a ValueError says what to write


def _name(text: str) -> str:
    if not text:
        raise ValueError("is empty: write a name")
    return text


def _type(text: str) -> WorkloadType:
    try:
        return WorkloadType(text.lower())
    except ValueError:
        raise ValueError(f"{text!r} is no type of workload: write train, build or inference") from None


def _fraction(text: str) -> int:
    try:
        milli = exact(text) * WHOLE_MILLI
    except ValueError:
        raise ValueError(f"{text!r} is no fraction of a device: write one such as 0.5") from None
    if milli > WHOLE_MILLI:
        whole = "ask for whole devices in resources.limits, such as nvidia.com/gpu: 2"
        raise ValueError(f"{text!r} is more than one device: write a fraction up to 1, or {whole}")
    if milli <= 0:
        raise ValueError(f"{text!r} is not above 0: write a fraction such as 0.5")
    if milli.denominator != 1:
        near = max(1, round(milli)) / WHOLE_MILLI
        raise ValueError(f"{text!r} is finer than a thousandth of a device: write {near}")
    return int(milli)


def _memory(text: str) -> int:
    try:
        value = exact(text)
    except ValueError:
        raise ValueError(f"{text!r} is no amount of memory: write one such as 8Gi or 2000Mi") from None
    if value <= 0:
        raise ValueError(f"{text!r} is not above 0: write an amount such as 8Gi")
    if value > _MEMORY_MOST:
        raise ValueError(
            f"{reprlib.repr(text)} is more memory than a device has: write an amount such as 8Gi"
        )
    if value < _MIB:
        raise ValueError(f"{text!r} is less than a mebibyte: write the unit too, such as 2000Mi or 8Gi")
    return math.ceil(value)


def _mebibytes(text: str) -> int:
    """Return bytes; a bare number counts mebibytes, as in Run:ai and KAI."""
    short = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MOST
    return _memory(f"{text}Mi") if short and int(text) else _memory(text)


def _count(most: int, what: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        short = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MOST
        if not short or not 1 <= int(text) <= most:
            annotations = reprlib.repr(text)
            raise ValueError(f"{annotations} is no number of {what}: write a whole number from 1 to {most}")
        return int(text)

    return read


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f'{text!r} is neither "true" nor "false": write one of them, in quotes')
    return text.lower() == "true"


def _preemptibility(text: str) -> bool:
    if text.lower() not in ("preemptible", "non-preemptible"):
        raise ValueError(f'{text!r} is not known here: write {PREFIX}preemptible: "true" or "false"')
    return text.lower() == "preemptible"


def _duration(text: str) -> float:
    span_s = seconds(text)
    if span_s <= 0:
        raise ValueError(f"{text!r} is not above 0: write a duration such as 90s, 10m or 2h30m")
    return span_s


def _instant(text: str) -> float:
    """Return a time in seconds since the epoch; one without a zone is UTC, as the API writes times."""
    try:
        if "-" not in text:
            return float(int(text))
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        example = "2026-03-01T12:00:00Z, or seconds since 1970"
        raise ValueError(f"{text!r} is no point in time: write one such as {example}") from None


def _topology(text: str) -> TopologyRequest:
    form = "NAME:required=LEVEL, NAME:preferred=LEVEL or NAME:required=LEVEL,preferred=LEVEL"
    name, colon, rest = text.partition(":")
    levels = dict(part.partition("=")[::2] for part in rest.split(",")) if colon else {}
    whole = bool(name.strip()) and all(levels.values()) and len(levels) == rest.count(",") + 1
    if not whole or not levels.keys() <= {"required", "preferred"}:
        raise ValueError(f"{text!r} doesn't say where the pods are to be together: write {form}")
    return TopologyRequest(name.strip(), levels.get("required"), levels.get("preferred"))


# The keys

OURS = (
    AnnotationKey("project", "project", "team-a", "The project whose quota it counts against.", _name),
    AnnotationKey(
        "type", "type", "train", "train, build or inference: its default priority and time rules.", _type
    ),
    AnnotationKey(
        "gpu-fraction", "fraction_milli", "0.5", "The share of each device that a pod takes.", _fraction
    ),
    AnnotationKey("gpu-memory", "gpu_memory", "8Gi", "The memory of each device that a pod takes.", _memory),
    AnnotationKey(
        "gpu-devices",
        "devices",
        "2",
        "How many devices a pod takes that share or memory of.",
        _count(_DEVICES_MOST, "devices"),
    ),
    AnnotationKey(
        "min-pods", "min_pods", "4", "Pods that must be there together.", _count(_PODS_MOST, "pods")
    ),
    AnnotationKey(
        "preemptible", "preemptible", '"true"', "Whether it may use more than the quota, and lose it.", _truth
    ),
    AnnotationKey(
        "max-runtime", "max_runtime_s", "2h30m", "How long it may run before it is stopped.", _duration
    ),
    AnnotationKey(
        "topology", "topology", "net:required=rack", "Nodes that its pods are to be together on.", _topology
    ),
    AnnotationKey(
        "checkpointed-at",
        "checkpointed_s",
        "2026-03-01T12:00:00Z",
        "When it last saved its state; the work kept it for may be stopped at less cost.",
        _instant,
    ),
)
KAI_TOPOLOGY = "kai.scheduler/topology"
KAI_LEVELS = {
    "kai.scheduler/topology-required-placement": "required",
    "kai.scheduler/topology-preferred-placement": "preferred",
}
FOREIGN = (
    AnnotationKey("kai.scheduler/queue", "project", "team-a", "KAI's queue: the project.", _name),
    AnnotationKey("runai/queue", "project", "team-a", "Run:ai's queue: the project.", _name),
    AnnotationKey(
        "project", "project", "team-a", "Run:ai's project, where there is one of that name.", _name
    ),
    AnnotationKey("gpu-fraction", "fraction_milli", "0.5", "As weir.dev/gpu-fraction.", _fraction),
    AnnotationKey(
        "gpu-memory", "gpu_memory", "2000", "As weir.dev/gpu-memory; a bare number is in MiB.", _mebibytes
    ),
    AnnotationKey(
        "gpu-fraction-num-devices",
        "devices",
        "2",
        "As weir.dev/gpu-devices.",
        _count(_DEVICES_MOST, "devices"),
    ),
    AnnotationKey(
        "kai.scheduler/batch-min-member", "min_pods", "4", "As weir.dev/min-pods.", _count(_PODS_MOST, "pods")
    ),
    AnnotationKey(
        "kai.scheduler/preemptibility",
        "preemptible",
        "non-preemptible",
        "As weir.dev/preemptible.",
        _preemptibility,
    ),
    AnnotationKey(
        "priorityClassName", "priority_class", "train", "The priority class, where the pod names none.", _name
    ),
)
_PARTS = ("fraction_milli", "gpu_memory", "devices")
"""What a pod takes is said on the pod, in one piece; all else is said of the workload."""
SAID_OF_ONE_POD = frozenset(
    [PREFIX + key.name for key in OURS if key.sets in _PARTS]
    + [key.name for key in FOREIGN if key.sets in _PARTS]
)
"""Keys that hold for the pod that bears them alone, even where other pods are below it."""
_OURS_BY_NAME = {key.name: key for key in OURS}
_FOREIGN_NAMES = frozenset(key.name for key in FOREIGN)
_PREFIXES = (PREFIX, "kai.scheduler/", "runai/", "run.ai/")

NOTHING = Annotations()


@lru_cache(maxsize=4096)
def means_something(name: str) -> bool:
    """Return True if Weir reads a label or annotation of this name."""
    return name in _FOREIGN_NAMES or name.startswith(_PREFIXES)


def read(pod: Metadata, owners: Sequence[Metadata] = ()) -> tuple[Annotations, tuple[str, ...]]:
    """Return the annotations of a pod and its owners, lowest first, and the mistakes in them.

    What a pod takes is the pod's word first; what the workload is, the topmost owner's: that is what
    people write, while a pod is made from a template.
    """
    annotations, mistakes = read_one(pod)
    told = dict.fromkeys(mistakes)
    for owner in owners:
        above, wrong = read_one(owner)
        told.update(dict.fromkeys(wrong))
        annotations = _under(annotations, above)
    return annotations, tuple(told)


def read_one(metadata: Metadata) -> tuple[Annotations, tuple[str, ...]]:
    """Return the annotations of one object, and the mistakes in them."""
    if not any(map(means_something, metadata.labels)) and not any(map(means_something, metadata.annotations)):
        return NOTHING, ()
    mistakes: list[str] = []
    written = _merged(metadata, mistakes)
    foreign: dict[str, Any] = {}
    for key in FOREIGN[::-1]:  # the first of those that say the same holds
        if key.name in written:
            _take(key.name, key, written[key.name], foreign, mistakes)
    _kai_topology(written, foreign, mistakes)
    ours: dict[str, Any] = {}
    for key in OURS:
        name = PREFIX + key.name
        if name in written:
            _take(name, key, written[name], ours, mistakes)
    mistakes += _unknown(written)
    if "fraction_milli" in ours or "gpu_memory" in ours:
        foreign = {sets: value for sets, value in foreign.items() if sets not in _PARTS}
    found = foreign | ours
    _check_parts(found, mistakes)
    return Annotations(**found), tuple(mistakes)


def not_there(asked: TopologyRequest | None, known: Mapping[str, Topology]) -> tuple[str, ...]:
    """Return the names in a topology request that don't exist."""
    if asked is None:
        return ()
    key, topology = f"{PREFIX}topology", known.get(asked.name)
    if topology is None:
        return (f"{key}: there is no topology {asked.name}; {near(asked.name, known)}",)
    return tuple(
        f"{key}: the topology {asked.name} has no level {level}; {nearest(level, topology.levels)}"
        for level in (asked.required, asked.preferred)
        if level is not None and level not in topology.levels
    )


def _under(below: Annotations, above: Annotations) -> Annotations:
    """Return the annotations of a pod, overridden by those of its owner."""
    if above is NOTHING or below is NOTHING:
        return below if above is NOTHING else above
    at_once = below if below.fraction_milli or below.gpu_memory else above
    result: dict[str, Any] = {part: getattr(at_once, part) for part in _PARTS}
    for field in fields(Annotations):
        if field.name not in _PARTS:
            value = getattr(above, field.name)
            result[field.name] = getattr(below, field.name) if value is None else value
    result["project_from"] = (below if above.project is None else above).project_from
    return Annotations(**result)


def _merged(metadata: Metadata, mistakes: list[str]) -> Mapping[str, str]:
    """Labels and annotations as one; ours must not differ where both are written."""
    labels, annotations = metadata.labels, metadata.annotations
    twice = (
        name
        for name in sorted(labels.keys() & annotations.keys())
        if name.startswith(PREFIX) and labels[name] != annotations[name]
    )
    for name in islice(twice, MISTAKES_MAX):
        label, annotation = (_short(each[name]) for each in (labels, annotations))
        mistakes.append(f"{name} is {label} as a label and {annotation} as an annotation: write it once")
    return {**labels, **annotations}


def _unknown(written: Iterable[str]) -> list[str]:
    """Return a sentence for each of the first keys under our prefix that mean nothing."""
    known = [PREFIX + name for name in _OURS_BY_NAME]
    passed = {*known, *(PREFIX + name for name in WRITTEN_BY_WEIR)}
    unknown = (name for name in written if name.startswith(PREFIX) and name not in passed)
    told = [f"{name} isn't known: {nearest(name, known)}" for name in islice(unknown, MISTAKES_MAX)]
    if next(unknown, None) is not None:
        told.append(f"more keys under {PREFIX} aren't known: leave them out")
    return told


def near(name: str, known: Iterable[str]) -> str:
    """Return the suggestion for a name that isn't known, from a bounded number of those that are."""
    return nearest(name, islice(known, NAMES_COMPARED_MAX))


def _take(name: str, key: AnnotationKey, value: str, found: dict[str, Any], mistakes: list[str]) -> None:
    if len(value) > VALUE_CHARACTERS_MAX:
        mistakes.append(
            f"{name} has {len(value)} characters: write at most {VALUE_CHARACTERS_MAX}, such as {key.example}"
        )
        return
    try:
        found[key.sets] = key.read(value.strip())
    except ValueError as error:
        mistakes.append(f"{name}: {error}")
        return
    if key.sets == "project":
        found["project_from"] = name


def _check_parts(found: dict[str, Any], mistakes: list[str]) -> None:
    """Check that one key alone states a fraction, and that a number of devices comes with a fraction."""
    fraction, memory = f"{PREFIX}gpu-fraction", f"{PREFIX}gpu-memory"
    if "fraction_milli" in found and "gpu_memory" in found:
        mistakes.append(
            f"{fraction} and {memory} both say what part of a device is asked for; write one of them"
        )
        del found["gpu_memory"]
    elif "devices" in found and "fraction_milli" not in found and "gpu_memory" not in found:
        whole = "for whole devices write resources.limits such as nvidia.com/gpu: 2"
        mistakes.append(
            f"{PREFIX}gpu-devices goes with {fraction} or {memory}; write one of them, or {whole}"
        )
        del found["devices"]


def _short(value: str) -> str:
    return repr(value) if len(value) <= _SHOWN_MAX else repr(value[:_SHOWN_MAX] + "...")


def _kai_topology(written: Mapping[str, str], found: dict[str, Any], mistakes: list[str]) -> None:
    """KAI names the topology in one annotation and each level in another."""
    for key in (KAI_TOPOLOGY, *KAI_LEVELS):
        if len(written.get(key, "")) > VALUE_CHARACTERS_MAX:
            mistakes.append(f"{key} is too long: write at most {VALUE_CHARACTERS_MAX} characters")
            return
    levels = {
        annotations: written[key].strip()
        for key, annotations in KAI_LEVELS.items()
        if written.get(key, "").strip()
    }
    name = written.get(KAI_TOPOLOGY, "").strip()
    if name and levels:
        found["topology"] = TopologyRequest(name, levels.get("required"), levels.get("preferred"))
    elif name:
        mistakes.append(f"{KAI_TOPOLOGY} comes without a level: write {' or '.join(KAI_LEVELS)} too")
    elif levels:
        level = next(key for key in KAI_LEVELS if written.get(key, "").strip())
        mistakes.append(f"{level} comes without a topology: write {KAI_TOPOLOGY}: NAME too")

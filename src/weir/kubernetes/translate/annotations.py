"""Labels and annotations about workloads: Weir's own, and those of Run:ai and KAI.

Every setting has a key `weir.dev/...`. Keys of the other two are accepted, so that existing manifests work
unchanged. A key may be a label or an annotation. A key of Weir has precedence over a foreign one. Errors are
sentences with the correct form; the admission webhook and the scheduler use the same functions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import islice
from typing import Any

from weir.kubernetes.api.objects import Metadata
from weir.kubernetes.translate.annotation_values import (
    DEVICES_MAX,
    PODS_MAX,
    count_parser,
    parse_duration,
    parse_fraction,
    parse_instant,
    parse_mebibytes,
    parse_memory,
    parse_min_scale,
    parse_name,
    parse_names,
    parse_topology,
    parse_truth,
    parse_type,
)
from weir.model.nodes import Topology
from weir.model.workloads import TopologyRequest, WorkloadType

PREFIX = "weir.dev/"
REPORTER, USER, OWNER_MARK = f"{PREFIX}weir", f"{PREFIX}user", "restarts"
"""Controller of Weir's Events, key for a person, and key on owners that Weir has suspended."""
WRITTEN_BY_WEIR = ("gpus", "gpu-memory-limit", "start", "owner")
"""Keys with Weir's prefix that Weir itself writes on a pod when it binds the pod."""
SHARE_VARIABLES = "share-variables"
"""Key that Weir's webhook adds to a pod whose containers read their devices and their limit of memory."""
MISTAKES_MAX = 20
"""Limit of listed mistakes of one kind in one object. One sentence mentions the others."""
VALUE_CHARACTERS_MAX = 1024
NAMES_COMPARED_MAX = 1000
"""Number of known names with which an unknown one is compared to find the nearest."""
_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class Annotations:
    """Labels and annotations of a pod and its workload, read; None if absent."""

    batch: str | None = None
    slurm_job: str | None = None
    user: str | None = None
    project: str | None = None
    project_from: str = ""  # key that named the project; a bare "project" may have another meaning
    type: WorkloadType | None = None
    fraction_milli: int | None = None
    gpu_memory: int | None = None  # bytes of each device
    devices: int | None = None  # number of devices with that share each
    min_pods: int | None = None
    min_replicas: int | None = None  # minimum of a service's replicas; those above may borrow and be evicted
    preemptible: bool | None = None
    max_runtime_s: float | None = None
    idle_limit_s: float | None = None
    extended_until_s: float | None = None  # epoch
    topology: TopologyRequest | None = None
    checkpointed_s: float | None = None  # epoch
    priority_class: str | None = None
    begin_s: float | None = None  # earliest start, in seconds since 1970
    after: tuple[str, ...] | None = None  # workloads of its namespace that have to start before it
    after_ok: tuple[str, ...] | None = None  # workloads that have to succeed before it
    after_not_ok: tuple[str, ...] | None = None  # workloads that have to fail before it
    after_any: tuple[str, ...] | None = None  # workloads that have to end before it


@dataclass(frozen=True, slots=True)
class AnnotationKey:
    """A key, its field, an example, and its meaning in a sentence."""

    name: str
    sets: str
    example: str
    meaning: str
    read: Callable[[str], Any]


def _preemptibility(text: str) -> bool:
    if text.lower() not in ("preemptible", "non-preemptible"):
        raise ValueError(f'{text!r} is not known here: write {PREFIX}preemptible: "true" or "false"')
    return text.lower() == "preemptible"


# Keys

OURS = (
    AnnotationKey("batch", "batch", "k7m2xq4d", "The batch that it was submitted in.", parse_name),
    AnnotationKey("slurm-job", "slurm_job", "48213377", "Its number as a job of `weir sbatch`.", parse_name),
    AnnotationKey("project", "project", "team-a", "The project whose quota it counts against.", parse_name),
    AnnotationKey(
        "type", "type", "train", "train, build or inference: its default priority and time rules.", parse_type
    ),
    AnnotationKey(
        "gpu-fraction", "fraction_milli", "0.5", "The share of each device that a pod takes.", parse_fraction
    ),
    AnnotationKey(
        "gpu-memory", "gpu_memory", "8Gi", "The memory of each device that a pod takes.", parse_memory
    ),
    AnnotationKey(
        "gpu-devices",
        "devices",
        "2",
        "Number of devices of which a pod takes that share or memory.",
        count_parser(DEVICES_MAX, "devices"),
    ),
    AnnotationKey(
        "min-pods", "min_pods", "4", "Minimum of pods of the gang.", count_parser(PODS_MAX, "pods")
    ),
    AnnotationKey(
        "min-replicas",
        "min_replicas",
        "2",
        "Replicas that a service keeps; those above may use more than the quota and are trimmed first.",
        count_parser(PODS_MAX, "replicas"),
    ),
    AnnotationKey(
        "preemptible",
        "preemptible",
        '"true"',
        "True if it may use more than the quota, and be preempted.",
        parse_truth,
    ),
    AnnotationKey(
        "max-runtime", "max_runtime_s", "2h30m", "Maximum run time of the workload.", parse_duration
    ),
    AnnotationKey(
        "idle-limit", "idle_limit_s", "1h", "Idle time of its GPUs after which it is stopped.", parse_duration
    ),
    AnnotationKey(
        "idle-extended-until",
        "extended_until_s",
        "2026-03-01T12:00:00Z",
        "End of a pause of the idle rules, at most `max_idle_extend` of the policy from now.",
        parse_instant,
    ),
    AnnotationKey(
        "topology",
        "topology",
        "net:required=rack",
        "Levels of a topology that all pods share: required or preferred.",
        parse_topology,
    ),
    AnnotationKey(
        "checkpointed-at",
        "checkpointed_s",
        "2026-03-01T12:00:00Z",
        "Time of the last checkpoint. Work since then is the cost of an eviction.",
        parse_instant,
    ),
    AnnotationKey(
        "begin", "begin_s", "2026-12-01T18:00:00Z", "Earliest start of the workload.", parse_instant
    ),
    AnnotationKey(
        "after",
        "after",
        "prepare",
        "Jobs or Workloads of the namespace that must start first.",
        parse_names,
    ),
    AnnotationKey("after-ok", "after_ok", "prepare,index", "Workloads that must succeed first.", parse_names),
    AnnotationKey("after-not-ok", "after_not_ok", "train", "Workloads that must fail first.", parse_names),
    AnnotationKey("after-any", "after_any", "train", "Workloads that must end first.", parse_names),
    AnnotationKey("user", "user", "mia", "Creator of the object. Weir's webhook writes it.", parse_name),
)
KAI_TOPOLOGY = "kai.scheduler/topology"
KAI_LEVELS = {
    "kai.scheduler/topology-required-placement": "required",
    "kai.scheduler/topology-preferred-placement": "preferred",
}
FOREIGN = (
    AnnotationKey("kai.scheduler/queue", "project", "team-a", "KAI's queue: the project.", parse_name),
    AnnotationKey("runai/queue", "project", "team-a", "Run:ai's queue: the project.", parse_name),
    AnnotationKey(
        "project", "project", "team-a", "Run:ai's project, where there is one of that name.", parse_name
    ),
    AnnotationKey("gpu-fraction", "fraction_milli", "0.5", "As weir.dev/gpu-fraction.", parse_fraction),
    AnnotationKey(
        "gpu-memory", "gpu_memory", "2000", "As weir.dev/gpu-memory; a bare number is MiB.", parse_mebibytes
    ),
    AnnotationKey(
        "gpu-fraction-num-devices",
        "devices",
        "2",
        "As weir.dev/gpu-devices.",
        count_parser(DEVICES_MAX, "devices"),
    ),
    *(
        AnnotationKey(
            f"autoscaling.knative.dev/{name}",
            "min_replicas",
            "2",
            "Knative's number of replicas that a service keeps: as weir.dev/min-replicas.",
            parse_min_scale,
        )
        for name in ("min-scale", "minScale")
    ),
    AnnotationKey(
        "kai.scheduler/batch-min-member",
        "min_pods",
        "4",
        "As weir.dev/min-pods.",
        count_parser(PODS_MAX, "pods"),
    ),
    AnnotationKey(
        "kai.scheduler/preemptibility",
        "preemptible",
        "non-preemptible",
        "As weir.dev/preemptible.",
        _preemptibility,
    ),
    AnnotationKey(
        "priorityClassName",
        "priority_class",
        "train",
        "The priority class, where the pod names none.",
        parse_name,
    ),
)
_PARTS = ("fraction_milli", "gpu_memory", "devices")
"""Annotations about the pod itself; all others are about its workload."""
POD_ANNOTATIONS = frozenset(
    [PREFIX + key.name for key in OURS if key.sets in _PARTS]
    + [key.name for key in FOREIGN if key.sets in _PARTS]
)
"""Keys that apply only to the pod that has them, even if other pods are below it."""
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

    For the request of a pod, the pod's own annotations come first. For fields of the workload, those of the
    topmost owner come first: people write that object, while a pod is made from a template.
    """
    annotations, mistakes = read_one(pod)
    if annotations.user and pod.controller is not None:
        annotations = replace(annotations, user=None)  # not trusted: anyone can write a pod template
    sentences = dict.fromkeys(mistakes)
    for owner in owners:
        above, wrong = read_one(owner)
        sentences.update(dict.fromkeys(wrong))
        annotations = _under(annotations, above)
    return annotations, tuple(sentences)


def read_one(metadata: Metadata) -> tuple[Annotations, tuple[str, ...]]:
    """Return the annotations of one object, and the mistakes in them."""
    if not any(map(means_something, metadata.labels)) and not any(map(means_something, metadata.annotations)):
        return NOTHING, ()
    mistakes: list[str] = []
    written = _merged(metadata, mistakes)
    foreign: dict[str, Any] = {}
    for key in FOREIGN[::-1]:  # reversed, so that the first of several equal keys wins
        if key.name in written:
            _take(key.name, key, written[key.name], foreign, mistakes)
    _kai_topology(written, foreign, mistakes)
    own: dict[str, Any] = {}
    for key in OURS:
        name = PREFIX + key.name
        if name in written:
            _take(name, key, written[name], own, mistakes)
    mistakes += _unknown(written)
    if "fraction_milli" in own or "gpu_memory" in own:
        foreign = {sets: value for sets, value in foreign.items() if sets not in _PARTS}
    parsed = foreign | own
    _check_parts(parsed, mistakes)
    return Annotations(**parsed), tuple(mistakes)


def not_there(asked: TopologyRequest | None, topologies: Mapping[str, Topology]) -> tuple[str, ...]:
    """Return the topology or level in a request that doesn't exist."""
    if asked is None:
        return ()
    key, topology = f"{PREFIX}topology", topologies.get(asked.name)
    if topology is None:
        return (f"{key}: there is no topology {asked.name}; {near(asked.name, topologies)}",)
    return tuple(
        f"{key}: the topology {asked.name} has no level {level}; {near(level, topology.levels)}"
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
    """Return labels and annotations as one mapping; Weir's keys must not differ if both have them."""
    labels, annotations = metadata.labels, metadata.annotations
    twice = (
        name
        for name in sorted(labels.keys() & annotations.keys())
        if name.startswith(PREFIX) and labels[name] != annotations[name]
    )
    for name in islice(twice, MISTAKES_MAX):
        label, annotation = (_short(source[name]) for source in (labels, annotations))
        mistakes.append(f"{name} is {label} as a label and {annotation} as an annotation: write it once")
    return {**labels, **annotations}


def _unknown(written: Iterable[str]) -> list[str]:
    """Return a sentence for each of the first unknown keys with Weir's prefix."""
    known_keys = [PREFIX + name for name in _OURS_BY_NAME]
    passed = {*known_keys, *(PREFIX + name for name in (*WRITTEN_BY_WEIR, SHARE_VARIABLES, OWNER_MARK))}
    unknown = (name for name in written if name.startswith(PREFIX) and name not in passed)
    sentences = [f"{name} isn't known: {near(name, known_keys)}" for name in islice(unknown, MISTAKES_MAX)]
    if next(unknown, None) is not None:
        sentences.append(f"more keys under {PREFIX} aren't known: leave them out")
    return sentences


def near(name: str, known_names: Iterable[str]) -> str:
    """Return the nearest known name as a suggestion for an unknown one, from a bounded number of names."""
    from weir.scenario_io.error_messages import nearest  # submissions need only the keys

    return nearest(name, islice(known_names, NAMES_COMPARED_MAX))


def _take(name: str, key: AnnotationKey, value: str, parsed: dict[str, Any], mistakes: list[str]) -> None:
    if len(value) > VALUE_CHARACTERS_MAX:
        mistakes.append(
            f"{name} has {len(value)} characters: write at most {VALUE_CHARACTERS_MAX}, such as {key.example}"
        )
        return
    try:
        parsed[key.sets] = key.read(value.strip())
    except ValueError as error:
        mistakes.append(f"{name}: {error}")
        return
    if key.sets == "project":
        parsed["project_from"] = name


def _check_parts(parsed: dict[str, Any], mistakes: list[str]) -> None:
    """Check that one key alone states a fraction, and that a number of devices comes with a fraction."""
    fraction, memory = f"{PREFIX}gpu-fraction", f"{PREFIX}gpu-memory"
    if "fraction_milli" in parsed and "gpu_memory" in parsed:
        mistakes.append(f"{fraction} and {memory} both request a part of a device; write one of them")
        del parsed["gpu_memory"]
    elif "devices" in parsed and "fraction_milli" not in parsed and "gpu_memory" not in parsed:
        whole = "for whole devices write resources.limits such as nvidia.com/gpu: 2"
        mistakes.append(
            f"{PREFIX}gpu-devices goes with {fraction} or {memory}; write one of them, or {whole}"
        )
        del parsed["devices"]


def _short(value: str) -> str:
    return repr(value) if len(value) <= _SHOWN_MAX else repr(value[:_SHOWN_MAX] + "...")


def _kai_topology(written: Mapping[str, str], parsed: dict[str, Any], mistakes: list[str]) -> None:
    """Read KAI's topology, which has one annotation for the name and one for each level."""
    for key in (KAI_TOPOLOGY, *KAI_LEVELS):
        if len(written.get(key, "")) > VALUE_CHARACTERS_MAX:
            mistakes.append(f"{key} is too long: write at most {VALUE_CHARACTERS_MAX} characters")
            return
    stated = {sets: written.get(key, "").strip() for key, sets in KAI_LEVELS.items()}
    levels = {sets: level for sets, level in stated.items() if level}
    name = written.get(KAI_TOPOLOGY, "").strip()
    if name and levels:
        parsed["topology"] = TopologyRequest(name, levels.get("required"), levels.get("preferred"))
    elif name:
        mistakes.append(f"{KAI_TOPOLOGY} comes without a level: write {' or '.join(KAI_LEVELS)} too")
    elif levels:
        level = next(key for key in KAI_LEVELS if written.get(key, "").strip())
        mistakes.append(f"{level} comes without a topology: write {KAI_TOPOLOGY}: NAME too")

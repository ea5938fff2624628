"""Queues of KAI Scheduler: a queue with children is a department, a leaf a project.

Amounts there are GPUs, thousandths of a core and megabytes; -1 is unlimited. Any namespace can name any queue
there, so the namespaces of a project come from the pods and pod groups of the input.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from weir.kubernetes.migrate.ledger import Fields
from weir.kubernetes.migrate.queue_objects import (
    UNLIMITED,
    Bound,
    Conversion,
    Kind,
    Spec,
    as_written,
    mapping,
    set_bounds,
    set_weight,
    sorted_objects,
)

GROUP = "scheduling.run.ai"
QUEUE_LABELS = ("kai.scheduler/queue", "runai/queue")
_UNITS = {"gpu": Fraction(1), "cpu": Fraction(1, 1000), "memory": Fraction(10**6)}
"""Units of amounts, in GPUs, cores and bytes."""


def convert(manifests: Iterable[Mapping[str, Any]]) -> Conversion:
    """Return the departments and projects of queues; pods and pod groups show their namespaces."""
    conversion = Conversion()
    queues: dict[str, Mapping[str, Any]] = {}
    namespaces: dict[str, set[str]] = defaultdict(set)
    for manifest in manifests:
        metadata = mapping(manifest.get("metadata"))
        kind, name = str(manifest.get("kind", "")), str(metadata.get("name", ""))
        group = str(manifest.get("apiVersion") or GROUP).partition("/")[0]
        if kind in ("Queue", "PodGroup") and group != GROUP:
            conversion.ledger.leave_out(f"{kind} {name}", f"it is of {group}, not of KAI.")
        elif kind == "Queue":
            queues[name] = mapping(manifest.get("spec"))
        elif kind in ("Pod", "PodGroup"):
            queue = _queue_of(manifest, metadata)
            if queue:
                namespaces[queue].add(str(metadata.get("namespace", "default")))
        else:
            conversion.ledger.leave_out(f"{kind or 'object'} {name}", "no queue, pod or pod group of KAI.")
    parents = {str(spec.get("parentQueue") or "") for spec in queues.values()}
    for name, spec in queues.items():
        _add_queue(
            conversion, name, spec, name in parents, sorted(namespaces[name]), queue_names=queues.keys()
        )
    conversion.objects = sorted_objects(conversion.objects)
    return conversion


def _add_queue(
    conversion: Conversion,
    name: str,
    values: Any,
    is_parent: bool,
    namespaces: list[str],
    queue_names: Iterable[str],
) -> None:
    source, ledger = f"Queue {name}", conversion.ledger
    fields = Fields(ledger, source, values)
    spec: Spec = {}
    parent = fields.text("parentQueue")
    if parent and parent not in queue_names:
        fields.leave_out("parentQueue", f"{parent} isn't in the input")
    elif parent:
        spec["parent" if is_parent else "department"] = parent
    resources = fields.section("resources")
    for resource in _UNITS:
        _read_resource(resources.section(resource), resource, spec)
    resources.close()
    priority = fields.number("priority")
    if priority is not None:
        spec["priority"] = int(priority)
    fields.leave_out_if_set(
        {
            "displayName": "names are the only ones that Weir shows",
            "preemptMinRuntime": "min_runtime of the policy is by type of work",
            "reclaimMinRuntime": "min_runtime of the policy is by type of work",
        }
    )
    fields.close()
    if is_parent and namespaces:
        ledger.leave_out(
            source, f"pods in {', '.join(namespaces)}: a department has none, only its projects."
        )
    elif not is_parent:
        spec["namespaces"] = namespaces
        if not namespaces:
            ledger.change(source, "no pod in the input names it: fill in spec.namespaces of the project.")
    kind: Kind = "Department" if is_parent else "Project"
    conversion.add(kind, source, name, spec)


def _read_resource(fields: Fields, resource: str, spec: Spec) -> None:
    quota, limit = (_amount(resource, fields.number(key)) for key in ("quota", "limit"))
    set_bounds(fields, spec, resource, quota, limit)
    set_weight(spec, resource, fields.number("overQuotaWeight"))
    fields.close()


def _amount(resource: str, value: float | None) -> Bound:
    if value is None:
        return None
    return UNLIMITED if value < 0 else as_written(value) * _UNITS[resource]


def _queue_of(manifest: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """Return the queue of a pod group or a pod; empty if it names none."""
    labels = mapping(metadata.get("labels"))
    stated = mapping(manifest.get("spec")).get("queue") if manifest.get("kind") == "PodGroup" else None
    names = [stated, *(labels.get(label) for label in QUEUE_LABELS)]
    return next((name for name in names if isinstance(name, str) and name), "")

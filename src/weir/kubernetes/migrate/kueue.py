"""Queues of Kueue: a ClusterQueue is a project, a cohort a department.

The namespaces of a project are those of the LocalQueues that name its ClusterQueue. Quotas of several flavors
are added up. A ClusterQueue without a cohort borrows nothing, so its limit is its quota. One that covers no
GPUs admits no pod with GPUs, so its limit of them is 0.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from weir.kubernetes.migrate.ledger import Fields
from weir.kubernetes.migrate.queue_objects import (
    UNLIMITED,
    Bound,
    Conversion,
    Spec,
    mapping,
    set_bounds,
    set_weight,
    sorted_objects,
)
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.model.resources import CPU, GPU, MEMORY, quantity
from weir.model.workloads import WHOLE_MILLI

_NO_QUEUES = {
    "ResourceFlavor": "write models in quotas, such as gpu.NVIDIA-H100-80GB-HBM3; "
    "node selectors and taints hold as pods write them",
    "WorkloadPriorityClass": "Weir reads the PriorityClass of pods",
    "AdmissionCheck": "Weir has no admission checks",
    "Topology": "write a Topology of weir.dev with the same levels",
}
_QUEUE_FIELDS = {
    "queueingStrategy": "a workload that can't start doesn't hold up smaller ones behind it for ever",
    "namespaceSelector": "a project lists its namespaces",
    "flavorFungibility": "Weir has no flavors",
    "preemption": "a project within its quota reclaims borrowed capacity, and priority counts inside it",
    "admissionChecks": "Weir has no admission checks",
    "admissionChecksStrategy": "Weir has no admission checks",
    "admissionScope": "not supported: fair shares always count usage",
    "excludeResourcePrefixes": "a resource without a quota is unlimited",
}
_LOCAL_FIELDS = {"fairSharing": "the namespaces of a project share it in the order of their workloads"}


@dataclass
class _Total:
    """Sums over the flavors of a resource."""

    quota: Fraction = Fraction(0)
    borrowing: Bound = field(default_factory=Fraction)
    flavors: list[str] = field(default_factory=list)
    bounded: list[str] = field(default_factory=list)  # flavors with a borrowing limit


def convert(manifests: Iterable[Mapping[str, Any]], devices: DeviceResources) -> Conversion:
    """Return the departments and projects of ClusterQueues, Cohorts and LocalQueues.

    `devices` are the resources that are GPUs, and their weights.
    """
    conversion = Conversion()
    queues: list[tuple[str, Mapping[str, Any]]] = []
    cohorts: dict[str, Mapping[str, Any]] = {}
    namespaces: dict[str, set[str]] = defaultdict(set)
    for manifest in manifests:
        metadata, spec = mapping(manifest.get("metadata")), mapping(manifest.get("spec"))
        kind, name = str(manifest.get("kind", "")), str(metadata.get("name", ""))
        if kind == "ClusterQueue":
            queues.append((name, spec))
            cohorts.setdefault(str(spec.get("cohortName") or spec.get("cohort") or ""), {})
        elif kind == "Cohort":
            cohorts[name] = spec
        elif kind == "LocalQueue":
            namespace = str(metadata.get("namespace", "default"))
            namespaces[str(spec.get("clusterQueue", ""))].add(namespace)
            _read_local_queue(Fields(conversion.ledger, f"LocalQueue {namespace}/{name}", spec))
        else:
            reason = _NO_QUEUES.get(kind, "no queue of Kueue")
            conversion.ledger.leave_out(f"{kind or 'object'} {name}", f"{reason}.")
    cohorts.pop("", None)
    for missing in sorted(namespaces.keys() - {name for name, _ in queues}):
        within = ", ".join(sorted(namespaces[missing]))
        conversion.ledger.leave_out(f"LocalQueue of {within}", f"clusterQueue: {missing} isn't in the input.")
    names = _department_names(cohorts, {name for name, _ in queues})
    for name, spec in cohorts.items():
        _add_cohort(conversion, name, spec, names, devices)
    for name, spec in queues:
        _add_queue(conversion, name, spec, names, sorted(namespaces[name]), devices)
    conversion.objects = sorted_objects(conversion.objects)
    return conversion


def _read_local_queue(fields: Fields) -> None:
    """Record the fields of a LocalQueue; its namespace and its ClusterQueue are read elsewhere."""
    fields.take("clusterQueue")
    if (stop := fields.text("stopPolicy")) not in ("", "None"):
        fields.leave_out("stopPolicy", f"{stop}: take its namespace out of the project to let nothing start")
    fields.leave_out_if_set(_LOCAL_FIELDS)
    fields.close()


def _department_names(cohorts: Iterable[str], projects: set[str]) -> dict[str, str]:
    """Return the names of departments by cohort: none is the name of a project."""
    return {name: f"{name}-cohort" if name in projects else name for name in cohorts}


def _add_cohort(
    conversion: Conversion, name: str, values: Any, names: Mapping[str, str], devices: DeviceResources
) -> None:
    fields = Fields(conversion.ledger, f"Cohort {name}", values)
    spec: Spec = {}
    parent = fields.text("parentName", "parent")
    if parent in names:
        spec["parent"] = names[parent]
    elif parent:
        fields.leave_out("parentName", f"{parent} isn't in the input")
    if names[name] != name:
        conversion.ledger.change(
            fields.source, f"is named {names[name]}, because a ClusterQueue has its name."
        )
    _read_groups(fields, spec, devices, borrows=True)
    _read_fair_sharing(fields, spec)
    fields.close()
    conversion.add("Department", fields.source, names[name], spec)


def _add_queue(
    conversion: Conversion,
    name: str,
    values: Any,
    names: Mapping[str, str],
    namespaces: list[str],
    devices: DeviceResources,
) -> None:
    fields = Fields(conversion.ledger, f"ClusterQueue {name}", values)
    cohort = fields.text("cohortName", "cohort")
    spec: Spec = {"department": names.get(cohort, ""), "namespaces": namespaces}
    if not namespaces:
        conversion.ledger.change(
            fields.source, "no LocalQueue names it: fill in spec.namespaces of the project."
        )
    _read_groups(fields, spec, devices, borrows=bool(cohort))
    if GPU not in spec.get("quota", {}):
        spec.setdefault("limit", {})[GPU] = 0
        conversion.ledger.change(fields.source, "it covers no GPUs: limit.gpu is 0.")
    _read_fair_sharing(fields, spec)
    if (stop := fields.text("stopPolicy")) not in ("", "None"):
        fields.leave_out("stopPolicy", f"{stop}: set a limit of 0 to let nothing start")
    fields.leave_out_if_set(_QUEUE_FIELDS)
    fields.close()
    conversion.add("Project", fields.source, name, spec)


def _read_fair_sharing(fields: Fields, spec: Spec) -> None:
    section = fields.section("fairSharing")
    weight = _quantity(section, "weight")
    for resource in spec.get("quota", {}):
        set_weight(spec, resource, weight)
    section.close()


def _read_groups(fields: Fields, spec: Spec, devices: DeviceResources, *, borrows: bool) -> None:
    totals: dict[str, _Total] = defaultdict(_Total)
    for group in fields.sections("resourceGroups"):
        group.take("coveredResources")  # the flavors repeat these names
        for flavor in group.sections("flavors"):
            name = flavor.text("name")
            for bounds in flavor.sections("resources"):
                _add_flavor(bounds, name, totals, devices)
            flavor.close()
        group.close()
    for resource, total in totals.items():
        if len(total.flavors) > 1:
            sentence = f"the quotas of {resource} of {', '.join(total.flavors)} are added up."
            fields.ledger.change(fields.source, sentence)
        unlimited = total.borrowing is None or total.borrowing == UNLIMITED
        if unlimited and borrows and total.bounded:
            sentence = f"{resource} has no limit: only {', '.join(total.bounded)} has a borrowingLimit."
            fields.ledger.change(fields.source, sentence)
        limit = UNLIMITED if unlimited else total.quota + Fraction(total.borrowing or 0)
        set_bounds(fields, spec, resource, total.quota, limit if borrows else total.quota)


def _add_flavor(bounds: Fields, flavor: str, totals: dict[str, _Total], devices: DeviceResources) -> None:
    name = bounds.text("name")
    resource, part = name, Fraction(1)
    if devices.names(name):
        resource, part = GPU, Fraction(devices.gpu_weight_milli(name), WHOLE_MILLI)
    quota, borrowing = _quantity(bounds, "nominalQuota"), _quantity(bounds, "borrowingLimit")
    bounds.leave_out_if_set({"lendingLimit": "Weir lends all idle devices, and takes them back on demand"})
    bounds.close()
    if resource not in (GPU, CPU, MEMORY):
        bounds.leave_out(name or "name", "Weir has quotas of GPUs, cpu and memory")
        return
    if part != 1:
        bounds.ledger.change(bounds.source, f"each {name} of {flavor} counts as {float(part):g} GPUs.")
    total = totals[resource]
    total.flavors.append(flavor)
    total.quota += (quota or 0) * part
    if borrowing is not None:
        total.bounded.append(flavor)
    if borrowing is None or total.borrowing == UNLIMITED:
        total.borrowing = UNLIMITED
    else:
        total.borrowing = Fraction(total.borrowing or 0) + borrowing * part


def _quantity(fields: Fields, key: str) -> Fraction | None:
    """Return a quantity of Kubernetes; None if it is absent or unreadable."""
    value = fields.take(key)
    if value is None:
        return None
    try:
        amount = quantity(value)
    except (ValueError, TypeError):
        amount = Fraction(-1)
    if amount < 0:
        fields.leave_out(key, f"{value} is no amount")
        return None
    return amount

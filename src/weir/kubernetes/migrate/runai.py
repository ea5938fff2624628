"""Projects and departments of Run:ai, as its REST answers /api/v1/org-unit/projects and /departments.

Amounts there are GPUs, thousandths of a core and megabytes; a negative limit means no limit. Quotas of
several node pools are added up.
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
    Spec,
    as_written,
    mapping,
    plain_number,
    set_bounds,
    set_weight,
    sorted_objects,
)
from weir.model.resources import MEMORY

LISTS = {"projects": "Project", "departments": "Department"}
"""Keys of the lists in Run:ai's answers, each with the kind of its items."""
_MEMORY_UNITS = {"mib": 1 << 20, "mb": 10**6, "gb": 10**9}
_READ_ONLY = (
    *("clusterId", "createdAt", "createdBy", "updatedAt", "updatedBy", "deletedAt", "deletedBy", "tenantId"),
    *("effective", "overtimeData", "status", "totalResources", "phase", "parent", "id", "range"),
)
"""Fields that no person has chosen, such as ids and statuses."""
_RANK = "spec.priority orders a project before others"
_LEFT_OUT = {
    "description": "projects have no description",
    "defaultNodePools": "write affinity of the policy, or a node selector in the pods",
    "nodeTypes": "write affinity of the policy, or a node selector in the pods",
    "enforceRunaiScheduler": "see --require-scheduler of weir kube manifests",
    "rank": _RANK,
}
_TIMES = {
    "maxRuntime": ("interactiveJobTimeLimitSeconds", "trainingJobTimeLimitSeconds"),
    "idleLimit": ("interactiveJobMaxIdleDurationSeconds", "trainingJobMaxIdleDurationSeconds"),
}
"""Times of a project, each with Run:ai's limits of interactive work and of training that have to be equal."""


def convert(records: Iterable[Mapping[str, Any]]) -> Conversion:
    """Return the departments and projects of answers of the REST, each with its `kind`."""
    conversion = Conversion()
    units = [(str(record.get("kind", "")), record) for record in records]
    departments = {
        str(record.get("id")): str(record.get("name", "")) for kind, record in units if kind == "Department"
    }
    for kind, record in units:
        if kind in LISTS.values():
            _add(conversion, kind, record, departments)
        else:
            conversion.ledger.leave_out(f"{kind or 'object'}", "no project or department of Run:ai.")
    conversion.objects = sorted_objects(conversion.objects)
    return conversion


def _add(
    conversion: Conversion, kind: str, record: Mapping[str, Any], departments: Mapping[str, str]
) -> None:
    name = str(record.get("name", ""))
    fields = Fields(conversion.ledger, f"{kind} {name}", {**record, "kind": None, "name": None})
    parent = mapping(record.get("parent"))
    spec: Spec = {}
    _read_pools(fields, spec)
    rules = fields.section("schedulingRules")
    if kind == "Project":
        department = departments.get(str(fields.take("parentId") or parent.get("id")))
        spec["department"] = department or str(parent.get("name") or "")
        named = mapping(record.get("status")).get("namespace")
        spec["namespaces"] = [fields.text("requestedNamespace") or named or f"runai-{name}"]
        _read_times(rules, spec)
    rules.close()
    for key in _READ_ONLY:
        fields.take(key)
    fields.leave_out_if_set(_LEFT_OUT)
    fields.close()
    conversion.add("Project" if kind == "Project" else "Department", fields.source, name, spec)


def _read_times(rules: Fields, spec: Spec) -> None:
    """Read the limits of time: Weir has one of each for all types of work."""
    times: dict[str, str] = {}
    for name, keys in _TIMES.items():
        limits = {key: rules.number(key) for key in keys}
        if all(limits.values()) and len(set(limits.values())) == 1:
            times[name] = f"{int(limits[keys[0]] or 0)}s"
            continue
        for key, value in limits.items():
            if value:
                rules.leave_out(key, f"{value:g}: times.{name} has one value for all types of work")
    if times:
        spec["times"] = times
    rules.leave_out_if_set(
        {"interactiveJobPreemptIdleDurationSeconds": "times.idleUnprotect lets others take idle GPUs"}
    )


def _read_pools(fields: Fields, spec: Spec) -> None:
    quotas: dict[str, Fraction | float] = {}
    limits: dict[str, dict[str, Fraction | float]] = defaultdict(dict)  # by resource and node pool
    pools: list[str] = []
    for pool in fields.sections("resources"):
        name = str(mapping(pool.take("nodePool")).get("name", "default"))
        pools.append(name)
        for resource in ("gpu", "cpu", "memory"):
            section = pool.section(resource)
            unit = _memory_unit(section) if resource == MEMORY else _UNITS[resource]
            quota, limit = (_amount(section.number(key), unit) for key in ("deserved", "limit"))
            if quota is not None:
                quotas[resource] = quotas.get(resource, Fraction(0)) + quota
                limits[resource][name] = UNLIMITED if limit is None else limit
            _read_weight(section, resource, spec)
            section.close()
        pool.leave_out_if_set({"priority": "node pools have no order in a project", "rank": _RANK})
        pool.close()
    if len(pools) > 1:
        sentence = f"the quotas of the node pools {', '.join(pools)} are added up."
        fields.ledger.change(fields.source, sentence)
    for resource, quota in quotas.items():
        bounded = [name for name, limit in limits[resource].items() if limit != UNLIMITED]
        if 0 < len(bounded) < len(limits[resource]):
            sentence = f"{resource} has no limit: only {', '.join(bounded)} has one."
            fields.ledger.change(fields.source, sentence)
        set_bounds(fields, spec, resource, quota, sum(limits[resource].values()))


def _memory_unit(section: Fields) -> Fraction:
    """Return the unit of the amounts of memory; amounts in another one are recorded as left out."""
    unit = section.text("units")
    size = _MEMORY_UNITS.get(unit.lower() or "mib")
    if size is None:
        reason = f"{unit} is no unit that Weir knows: write quota and limit in other units"
        section.leave_out_if_set({"deserved": reason, "limit": reason})
    return Fraction(size or 1)


def _read_weight(section: Fields, resource: str, spec: Spec) -> None:
    """Read the weight of the first node pool that has one."""
    weight = section.number("overQuotaWeight")
    before = spec.get("weight", {}).get(resource)
    if before is None:
        set_weight(spec, resource, weight)
    elif weight is not None and plain_number(weight) != before:
        section.leave_out("overQuotaWeight", f"{weight:g}: a project has one weight, which is {before}")


_UNITS = {"gpu": Fraction(1), "cpu": Fraction(1, 1000)}


def _amount(value: float | None, unit: Fraction) -> Bound:
    if value is None:
        return None
    return UNLIMITED if value < 0 else as_written(value) * unit

"""Writing of scenarios as YAML that reads back as the same scenario.

Amounts and times are exact; constant defaults are left out. The format has no keys for a workload's user and
the cost of its restart.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import yaml

from weir.model.nodes import Node, Outage, Toleration
from weir.model.policy import DEFAULT_PRESET, Policy
from weir.model.queues import PersonLimits, Queue, QueueTimeLimits, WorkloadDefaults
from weir.model.resources import CPU, GPU, MEMORY, PODS, in_thousandths
from weir.model.resources import written as amount_text
from weir.model.scenario import Expect, Expectation, Placed, Scenario, WorkloadPast
from weir.model.workloads import (
    DEFAULT_PRIORITY,
    PREEMPTIBLE_BELOW,
    PodGroup,
    Request,
    Workload,
    WorkloadType,
)
from weir.scenario_io.build import HOSTNAME_LABEL
from weir.scenario_io.document import FLOAT, INTEGER
from weir.scenario_io.writing_rules import rules_written

_LINE_LENGTH = 110
_TIME_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_BYTE_UNITS = (("Pi", 1 << 50), ("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20))
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_DUMPER):  # type: ignore[misc]  # one of two classes, by what is installed
    """YAML dumper without references that quotes all numbers of YAML 1.1 and 1.2 that are texts."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - what the dumper asks for each value
        """Return True: a person reads the file, so values are repeated."""
        return True


for _kind, _pattern in (("int", INTEGER), ("float", FLOAT)):
    _whole = re.compile(rf"(?:{_pattern.pattern})\Z", re.ASCII)
    _Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", _whole, list("-+.0123456789"))


def write_scenario(scenario: Scenario) -> str:
    """Return the scenario as YAML."""
    return str(
        yaml.dump(
            scenario_written(scenario),
            Dumper=_Dumper,
            sort_keys=False,
            default_flow_style=None,
            allow_unicode=True,
            width=_LINE_LENGTH,
        )
    )


def scenario_written(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario as the values of its file."""
    topologies = [
        {"name": topology.name, "levels": list(topology.levels)} for topology in scenario.topologies
    ]
    nodes = [_node(node) for node in scenario.nodes]
    policy, expect = policy_written(scenario.policy), _expect(scenario.expect)
    return _stated(
        {
            "name": scenario.name,
            "tick": None if scenario.tick_s == 1.0 else _time(scenario.tick_s),
            "cluster": {"nodes": nodes, **_stated({"topologies": topologies or None})},
            "departments": [_queue(queue) for queue in scenario.queues if not queue.is_project] or None,
            "projects": [_queue(queue) for queue in scenario.queues if queue.is_project] or None,
            "workloads": [_workload(workload, scenario) for workload in scenario.workloads] or None,
            "budgets": [{"name": budget.name, "allowed": budget.allowed} for budget in scenario.budgets]
            or None,
            "policy": policy or None,
            "expect": expect or None,
        }
    )


def policy_written(policy: Policy) -> dict[str, Any]:
    """Return the differences of a policy from its preset, with the preset's name unless it is the default."""
    preset = Policy.model_validate({"preset": policy.preset})
    differs = _difference(policy.model_dump(mode="json"), preset.model_dump(mode="json"))
    return differs if policy.preset == DEFAULT_PRESET else {"preset": policy.preset, **differs}


def _difference(own: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    differs = {}
    for key, value in own.items():
        if value == other[key]:
            continue
        both = isinstance(value, dict) and isinstance(other[key], dict)
        differs[key] = _difference(value, other[key]) if both else value
    return differs


def _stated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that aren't empty."""
    return {key: value for key, value in values.items() if value is not None}


def _unless(default: Any, value: Any) -> Any:
    return None if value == default else value


def _time(at_s: float) -> str | float:
    whole = int(at_s)
    if whole != at_s:
        return at_s
    for unit, size in _TIME_UNITS:
        if whole and whole % size == 0:
            return f"{whole // size}{unit}"
    return "0s"


def _time_or_none(at_s: float | None) -> str | float | None:
    return None if at_s is None else _time(at_s)


def _thousandths(milli: int) -> int | str:
    return milli // 1000 if milli % 1000 == 0 else f"{milli}m"


def _share(milli: int) -> int | float:
    return milli // 1000 if milli % 1000 == 0 else milli / 1000


def _bytes(value: int) -> int | str:
    for unit, size in _BYTE_UNITS:
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return value


def _amount(resource: str, value: int) -> int | float | str:
    if in_thousandths(resource):
        return _thousandths(value)
    return _bytes(value) if resource == MEMORY else value


def _bounds(bounds: Mapping[str, int]) -> dict[str, Any]:
    return {resource: _amount(resource, value) for resource, value in bounds.items()}


def _node(node: Node) -> dict[str, Any]:
    capacity = node.capacity
    further = {name: amount for name, amount in capacity.items() if name not in (CPU, MEMORY, PODS)}
    labels = {key: value for key, value in node.labels.items() if (key, value) != (HOSTNAME_LABEL, node.name)}
    taints = [
        _stated({"key": taint.key, "value": taint.value or None, "effect": taint.effect})
        for taint in node.taints
    ]
    return _stated(
        {
            "name": node.name,
            "gpus": node.gpus,
            "gpu_model": node.gpu_model,
            "gpu_memory": _bytes(node.gpu_memory),
            "cpu": _thousandths(capacity.get(CPU, 0)),
            "memory": _bytes(capacity.get(MEMORY, 0)),
            "pods": capacity.get(PODS, 0),
            "labels": labels or None,
            "taints": taints or None,
            "resources": further or None,
            "links": [list(link) for link in node.links] or None,
            "foreign_devices": list(node.foreign_devices) or None,
            "foreign_marks": dict(node.foreign_marks) or None,
            "gpu_weight": _unless(1, _thousandths(node.gpu_weight_milli)),
            "outages": [_outage(outage) for outage in node.outages] or None,
        }
    )


def _outage(outage: Outage) -> dict[str, Any]:
    return _stated(
        {
            "begins": _time(outage.from_s),
            "ends": _time_or_none(outage.until_s),
            "gpus": None if outage.devices is None else list(outage.devices),
            "reason": outage.sentence,
            "keep_running": outage.keeps_running or None,
        }
    )


def _queue(queue: Queue) -> dict[str, Any]:
    quota = _bounds(queue.quota)
    if GPU not in quota:
        quota = {GPU: "unlimited", **quota}
    weight = {name: int(value) if value == int(value) else value for name, value in queue.weight.items()}
    return _stated(
        {
            "name": queue.name,
            "department" if queue.is_project else "parent": queue.parent,
            "quota": quota,
            "limit": _bounds(queue.limit) or None,
            "weight": weight or None,
            "priority": _unless(100, queue.priority),
            "created": _time(queue.created_s),
            "times": _times(queue.times),
            "max_priority": queue.max_priority,
            "max_priority_of": dict(queue.max_priority_of) or None,
            "person_limits": _person_limits(queue.person_limits),
            "person_limits_of": {
                user: _person_limits(limits) or {} for user, limits in queue.person_limits_of.items()
            }
            or None,
            "defaults": _defaults(queue.defaults),
        }
    )


def _defaults(defaults: WorkloadDefaults) -> dict[str, Any] | None:
    """Return the stated defaults of a project; None without any."""
    gpus = defaults.gpus_milli
    return (
        _stated(
            {
                "type": None if defaults.type is None else defaults.type.value,
                "priority": defaults.priority,
                "preemptible": defaults.preemptible,
                "gpus": None if gpus is None else float(amount_text(GPU, gpus)),
                "max_runtime": _time_or_none(defaults.max_runtime_s),
                "grace": _time_or_none(defaults.grace_s),
            }
        )
        or None
    )


def _person_limits(limits: PersonLimits) -> dict[str, Any] | None:
    """Return the stated limits of a person; None without any."""
    gpus = limits.gpus_milli
    return (
        _stated(
            {
                "gpus": None if gpus is None else float(amount_text(GPU, gpus)),
                "running": limits.running,
                "sessions": limits.sessions,
                "pending": limits.pending,
                "max_runtime": _time_or_none(limits.max_runtime_s),
            }
        )
        or None
    )


def _times(times: QueueTimeLimits) -> dict[str, Any] | None:
    values = {field.name.removesuffix("_s"): getattr(times, field.name) for field in fields(times)}
    return _stated({name: _time_or_none(value) for name, value in values.items()}) or None


def _workload(workload: Workload, scenario: Scenario) -> dict[str, Any]:
    name, topology = workload.name, workload.topology
    past = scenario.past.get(name, WorkloadPast())
    groups = [
        _group(group, group_index, past.placed, scenario.protected.get((name, group_index), ()))
        for group_index, group in enumerate(workload.groups)
    ]
    started = past.started_s if past.placed else None
    for group_index, index in past.absent:
        groups[group_index].setdefault("absent", []).append(index)
    asked = topology and _stated({field.name: getattr(topology, field.name) for field in fields(topology)})
    return _stated(
        {
            "name": name,
            "project": workload.project,
            "type": _unless(WorkloadType.TRAIN.value, workload.type.value),
            "priority": _unless(DEFAULT_PRIORITY[workload.type], workload.priority),
            "preemptible": _unless(workload.priority < PREEMPTIBLE_BELOW, workload.preemptible),
            "can_preempt": _unless(True, workload.can_preempt),
            "unprotected": _unless(False, workload.unprotected),
            "submitted": _time(workload.submitted_s),
            "started": None if started is None or started == workload.submitted_s else _time(started),
            "min_pods": _unless(sum(group.min for group in workload.groups), workload.min_pods),
            "max_runtime": _time_or_none(workload.max_runtime_s),
            "idle_limit": _time_or_none(workload.idle_limit_s),
            "grace": _time_or_none(workload.grace_s),
            "retries": workload.retries,
            "checkpointed": _time_or_none(past.checkpointed_s),
            "waits_since": _time_or_none(past.waits_since_s),
            "ran": _time_or_none(past.ran_s or None),
            "short_since": _time_or_none(past.short_since_s),
            "stopped_for": {by: _time(at_s) for by, at_s in past.stopped_for} or None,
            "topology": asked,
            "pods": groups,
        }
    )


def _group(group: PodGroup, group_index: int, placed: Placed, budgets: Sequence[str]) -> dict[str, Any]:
    last = max([index for position, index in placed if position == group_index], default=-1)
    places = [_place(placed.get((group_index, index))) for index in range(last + 1)]
    return _stated(
        {
            "name": _unless(str(group_index), group.name),
            "count": _unless(1, group.count),
            "min": _unless(group.count, group.min),
            **_request(group.request),
            "order": _unless(0, group.order),
            "placed": places or None,
            "budgets": list(budgets) or None,
        }
    )


def _place(place: tuple[str, tuple[int, ...]] | None) -> dict[str, Any] | None:
    if place is None:
        return None
    node, devices = place
    return _stated({"node": node, "gpus": list(devices) or None})


def _request(request: Request) -> dict[str, Any]:
    gpus = request.devices if request.is_whole else _share(request.share_milli)
    tolerations = [_toleration(toleration) for toleration in request.tolerations]
    return {
        "gpus": None if request.gpu_memory or not request.devices else gpus,
        "devices": request.devices if request.is_shared and request.devices > 1 else None,
        "gpu_memory": _bytes(request.gpu_memory) if request.gpu_memory else None,
        "gpu_models": list(request.gpu_models) or None,
        "cpu": _unless(1, _thousandths(request.cpu_milli)),
        "memory": _unless("1Gi", _bytes(request.memory)),
        "assumed_cpu": _thousandths(request.assumed_cpu_milli) if request.assumed_cpu_milli else None,
        "assumed_memory": _bytes(request.assumed_memory) if request.assumed_memory else None,
        "gpu_weight": _unless(1, _thousandths(request.gpu_weight_milli)),
        "resources": dict(request.further) or None,
        "node_selector": dict(request.node_selector) or None,
        "nodes": None if request.nodes is None else list(request.nodes),
        "tolerations": tolerations or None,
        **rules_written(request),
    }


def _toleration(toleration: Toleration) -> dict[str, Any]:
    return _stated(
        {
            "key": toleration.key or None,
            "operator": _unless("Equal", toleration.operator),
            "value": toleration.value or None,
            "effect": toleration.effect,
        }
    )


def _expect(expect: Expect) -> dict[str, Any]:
    default = Expect()
    return _stated(
        {
            "cycles": _unless(default.cycles, expect.cycles),
            "stable": _unless(default.stable, expect.stable),
            "max_evictions": expect.max_evictions,
            "workloads": {name: _expected(expectation) for name, expectation in expect.workloads.items()}
            or None,
            "pods": {name: _expected(expectation) for name, expectation in expect.pods.items()} or None,
        }
    )


def _expected(expected: Expectation) -> dict[str, Any]:
    values = {field.name: getattr(expected, field.name) for field in fields(expected)}
    if expected.reason is not None:
        values["reason"] = expected.reason.value
    return _stated({key: list(value) if isinstance(value, tuple) else value for key, value in values.items()})

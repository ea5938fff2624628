"""Checks of single pod groups, workloads, queues and nodes for contradictions."""

from collections.abc import Mapping

from weir.model.resources import UNLIMITED, amount, span
from weir.model.workloads import WHOLE_MILLI
from weir.scenario_io.error_messages import shown
from weir.scenario_io.partial import PartialScenario
from weir.scenario_io.scalars import Written
from weir.scenario_io.source_map import Mistakes, Path
from weir.scenario_io.specs import (
    ExpressionEntry,
    GroupEntry,
    NodeEntry,
    PodsEntry,
    QueueEntry,
    TolerationEntry,
    WorkloadEntry,
)


def check_partial(parts: PartialScenario, mistakes: Mistakes) -> None:
    """Report every part that contradicts itself."""
    for index, node in parts.nodes.items():
        _check_links(node, ("cluster", "nodes", index, "links"), mistakes)
        _check_foreign(node, ("cluster", "nodes", index, "foreign_devices"), mistakes)
        _check_outages(node, ("cluster", "nodes", index, "outages"), mistakes)
    for index, department in parts.departments.items():
        check_queue(department, ("departments", index), mistakes)
    for index, project in parts.projects.items():
        check_queue(project, ("projects", index), mistakes)
    for (index, position), group in parts.groups.items():
        check_group(group, ("workloads", index, "pods", position), mistakes)
    total = len(parts.workloads)
    for index, workload in parts.workloads.items():
        check_workload(workload, submitted_s(workload, index, total), ("workloads", index), mistakes)


def submitted_s(workload: WorkloadEntry, index: int, total: int) -> float:
    """Return a workload's time of submission; by default a minute after the previous one in the file."""
    return workload.submitted if workload.submitted is not None else -60.0 * (total - index)


def minimum(group: PodsEntry) -> int:
    """Return the minimum number of pods of a group."""
    return group.count if group.min is None else group.min


def _check_links(node: NodeEntry, path: Path, mistakes: Mistakes) -> None:
    for index, link in enumerate(node.links):
        for position, device in enumerate(link):
            device_path = (*path, index, position)
            if device >= node.gpus:
                mistakes.add(device_path, f"links: there is no device {device}; {_devices_of(node)}")
            elif device in link[:position]:
                mistakes.add(device_path, f"links: device {device} is named twice in one link; name it once")


def _check_foreign(node: NodeEntry, path: Path, mistakes: Mistakes) -> None:
    for index, device in enumerate(node.foreign_devices):
        if device >= node.gpus:
            right = _devices_of(node, "foreign_devices")
            mistakes.add((*path, index), f"foreign_devices: there is no device {device}; {right}")
        elif device in node.foreign_devices[:index]:
            mistakes.add((*path, index), f"foreign_devices: device {device} is named twice; name it once")


def _check_outages(node: NodeEntry, path: Path, mistakes: Mistakes) -> None:
    for index, outage in enumerate(node.outages):
        if outage.ends is not None and outage.ends <= outage.begins:
            text = "ends: the outage would end before it begins; write a later time"
            mistakes.add((*path, index, "ends"), text)
        for position, device in enumerate(outage.gpus or ()):
            if device >= node.gpus:
                text = f"gpus: there is no device {device}; {_devices_of(node, 'gpus')}"
                mistakes.add((*path, index, "gpus", position), text)


def _devices_of(node: NodeEntry, key: str = "links") -> str:
    return f"write 0 to {node.gpus - 1}" if node.gpus else f"node {node.name} has no gpus; leave {key} out"


def check_queue(queue: QueueEntry, path: Path, mistakes: Mistakes) -> None:
    """Report limits below their quota."""
    quota = _finite(queue.quota)
    for resource, most in _finite(queue.limit).items():
        if most < quota.get(resource, 0):
            limit, wanted = shown(queue.limit[resource]), shown(queue.quota[resource])
            right = f"write {wanted} or more, or lower the quota"
            text = f"limit.{resource}: {limit} is below the quota of {wanted}; {right}"
            mistakes.add((*path, "limit", resource), text)


def _finite(bounds: Mapping[str, Written]) -> dict[str, int]:
    amounts = {resource: amount(resource, written) for resource, written in bounds.items()}
    return {resource: value for resource, value in amounts.items() if value < UNLIMITED}


def check_group(group: GroupEntry, path: Path, mistakes: Mistakes) -> None:
    """Report contradictions in a pod group."""
    written = group.model_fields_set
    if group.min is not None and group.min > group.count:
        text = f"min: {group.min} is more than the count of {group.count}; write at most {group.count}"
        mistakes.add((*path, "min"), text)
    if group.gpu_memory is not None and "gpus" in written:
        text = "gpus and gpu_memory are both written, and each requests a part of a device; keep one"
        mistakes.add((*path, "gpu_memory"), text)
    elif group.devices is not None and group.gpu_memory is None and not 0 < group.gpus < WHOLE_MILLI:
        text = (
            "devices goes with a share below 1 or with gpu_memory; leave it out, gpus says how many devices"
        )
        mistakes.add((*path, "devices"), text)
    if group.gpu_weight != WHOLE_MILLI and (group.gpu_memory is not None or 0 < group.gpus < WHOLE_MILLI):
        text = "gpu_weight goes with whole devices; leave it out, or write a whole number of gpus"
        mistakes.add((*path, "gpu_weight"), text)
    if len(group.placed) > group.count:
        most = f"write at most {group.count}, or raise count"
        text = f"placed: lists {len(group.placed)} pods of {group.count}; {most}"
        mistakes.add((*path, "placed"), text)
    for index, toleration in enumerate(group.tolerations):
        _check_toleration(toleration, (*path, "tolerations", index), mistakes)
    _check_rules(group, path, mistakes)


def _check_rules(group: PodsEntry, path: Path, mistakes: Mistakes) -> None:
    terms = [((*path, "node_affinity", index), term) for index, term in enumerate(group.node_affinity or ())]
    for position, wish in enumerate(group.preferred_nodes):
        term_path = (*path, "preferred_nodes", position, "terms")
        terms += [((*term_path, index), term) for index, term in enumerate(wish.terms)]
    for term_path, term in terms:
        for index, expression in enumerate(term):
            _check_expression(expression, (*term_path, index), mistakes)
    seen: set[str] = set()
    for index, mark in enumerate(group.marks):
        if mark in seen:
            mistakes.add((*path, "marks", index), f"marks: {mark} is named twice; name it once")
        seen.add(mark)
    for index, spread in enumerate(group.spread):
        if spread.weight is not None and spread.min_domains > 1:
            text = "min_domains goes with a spread that must hold; leave it out, or leave out weight"
            mistakes.add((*path, "spread", index, "min_domains"), text)


def _check_expression(expression: ExpressionEntry, path: Path, mistakes: Mistakes) -> None:
    operator, values = expression.operator, expression.values
    if operator in ("In", "NotIn"):
        if not values:
            mistakes.add(path, f"{operator} needs values; add values: the allowed values of the label")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = f"values: {operator} asks for none; leave them out, or write operator: In"
            mistakes.add((*path, "values"), text)
    elif len(values) != 1 or not _is_whole(values[0]):
        text = f'{operator} compares with one whole number; write values with one, such as ["8"]'
        mistakes.add(path, text)


def _is_whole(value: str) -> bool:
    try:
        int(value)
    except ValueError:
        return False
    return True


def _check_toleration(toleration: TolerationEntry, path: Path, mistakes: Mistakes) -> None:
    if not toleration.key and toleration.operator == "Equal":
        mistakes.add(path, "a toleration names no key; add key, or operator: Exists to tolerate everything")
    if toleration.value and toleration.operator == "Exists":
        mistakes.add(
            (*path, "value"), "value: Exists asks for no value; leave it out, or write operator: Equal"
        )


def check_workload(workload: WorkloadEntry, submitted: float, path: Path, mistakes: Mistakes) -> None:
    """Report contradictions of a workload with its pods or its times."""
    total = sum(group.count for group in workload.pods)
    least = sum(map(minimum, workload.pods))
    wanted = workload.min_pods
    if wanted is not None and wanted > total:
        mistakes.add(
            (*path, "min_pods"), f"min_pods: {wanted} is more than its {total} pods; write at most {total}"
        )
    if wanted is not None and wanted < least:
        text = f"min_pods: {wanted} is below the {least} its groups need; write {least} or more, or lower min"
        mistakes.add((*path, "min_pods"), text)
    topology = workload.topology
    if topology is not None and topology.required is None and topology.preferred is None:
        text = "topology names no level; add required or preferred, or leave it out"
        mistakes.add((*path, "topology"), text)
    if workload.started is None:
        return
    if not any(place is not None for group in workload.pods for place in group.placed):
        mistakes.add((*path, "started"), "started: none of its pods is placed; leave it out, or add placed")
    elif workload.started < submitted:
        text = f"started: is before it was submitted at {span(submitted)}; write {span(submitted)} or later"
        mistakes.add((*path, "started"), text)

"""Building of nouns from a valid file: defaults are filled in and ranges expanded."""

from collections.abc import Mapping, Sequence
from typing import Any

from weir.model.nodes import Node, Outage, Taint, Toleration
from weir.model.queues import PersonLimits, Queue, QueueTimeLimits, WorkloadDefaults
from weir.model.resources import CPU, GPU, MEMORY, PODS, UNLIMITED, amount
from weir.model.scenario import Expect, Expectation, Placed, WorkloadPast
from weir.model.workloads import (
    DEFAULT_PRIORITY,
    PREEMPTIBLE_BELOW,
    WHOLE_MILLI,
    NodeAffinityRule,
    NodeExpression,
    PodAffinityRule,
    PodGroup,
    Request,
    TopologyRequest,
    Workload,
    WorkloadType,
)
from weir.scenario_io.checks import minimum
from weir.scenario_io.references import expanded
from weir.scenario_io.scalars import Written
from weir.scenario_io.specs import (
    DepartmentEntry,
    ExpectEntry,
    ExpressionEntry,
    GroupEntry,
    NodeEntry,
    OutageEntry,
    PersonLimitsEntry,
    PodExpectedEntry,
    PodsEntry,
    ProjectEntry,
    QueueEntry,
    TimesEntry,
    WorkloadDefaultsEntry,
    WorkloadEntry,
    WorkloadExpectedEntry,
)

HOSTNAME_LABEL = "kubernetes.io/hostname"
"""Every node has it; by default it is the node's name."""


def past_of(written: WorkloadEntry, submitted_s: float, placed: Placed) -> WorkloadPast:
    """Return a workload's past."""
    started_s = submitted_s if written.started is None else written.started
    absent = [
        (position, index)
        for position, group in enumerate(written.pods)
        for index in dict.fromkeys(group.absent)
        if index < group.count
    ]
    return WorkloadPast(
        placed=placed,
        started_s=started_s if placed else None,
        checkpointed_s=written.checkpointed,
        waits_since_s=written.waits_since,
        ran_s=written.ran or 0.0,
        short_since_s=written.short_since,
        stopped_for=tuple(written.stopped_for.items()),
        absent=tuple(absent),
    )


def nodes_of(written: NodeEntry) -> list[Node]:
    """Return a node, or all nodes of its range."""
    capacity = {CPU: written.cpu, MEMORY: written.memory, PODS: written.pods, **written.resources}
    return [
        Node(
            name=name,
            gpus=written.gpus,
            gpu_memory=written.gpu_memory,
            capacity=capacity,
            gpu_model=written.gpu_model,
            labels={HOSTNAME_LABEL: name, **written.labels},
            taints=tuple(Taint(taint.key, taint.value, taint.effect) for taint in written.taints),
            links=tuple(map(tuple, written.links)),
            foreign_devices=tuple(written.foreign_devices),
            foreign_marks=dict(written.foreign_marks),
            gpu_weight_milli=written.gpu_weight,
            outages=tuple(map(_outage, written.outages)),
        )
        for name in expanded(written.name)
    ]


def _outage(written: OutageEntry) -> Outage:
    devices = None if written.gpus is None else tuple(sorted(set(written.gpus)))
    return Outage(written.begins, written.ends, devices, written.reason, written.keep_running)


def queues_of(departments: Sequence[DepartmentEntry], projects: Sequence[ProjectEntry]) -> tuple[Queue, ...]:
    """Return the quota tree: departments from the root down, then projects in the order of the file."""
    parents = {department.name: department.parent for department in departments}
    depths = _depths(parents)
    order = sorted(range(len(departments)), key=lambda index: depths[departments[index].name])
    gpus = _gpu_quotas([departments[index] for index in order], projects)
    made = [_queue(departments[index], index, departments[index].parent, gpus) for index in order]
    made += [
        _queue(project, len(departments) + index, project.department, gpus)
        for index, project in enumerate(projects)
    ]
    return tuple(made)


def _depths(parents: Mapping[str, str | None]) -> dict[str, int]:
    """Return the depth of each department; all parents exist and form no cycle."""
    depths: dict[str, int] = {}
    for name in parents:
        path: list[str] = []
        current: str | None = name
        while current is not None and current not in depths:
            path.append(current)
            current = parents[current]
        depth = -1 if current is None else depths[current]
        for department in reversed(path):
            depth += 1
            depths[department] = depth
    return depths


def _gpu_quotas(departments: Sequence[DepartmentEntry], projects: Sequence[ProjectEntry]) -> dict[str, int]:
    """Return the GPU quota of every queue; by default 0 for a project, the sum below for a department."""
    below: dict[str, int] = {}
    quotas: dict[str, int] = {}
    leaves_first: list[tuple[QueueEntry, str | None]] = [
        (project, project.department) for project in projects
    ]
    leaves_first += [(department, department.parent) for department in reversed(departments)]
    for queue, above in leaves_first:
        stated = queue.quota.get(GPU)
        own = below.get(queue.name, 0) if stated is None else amount(GPU, stated)
        quotas[queue.name] = own = min(own, UNLIMITED)
        if above is not None:
            below[above] = below.get(above, 0) + own
    return quotas


def _queue(written: QueueEntry, index: int, parent: str | None, gpus: Mapping[str, int]) -> Queue:
    quota = _bounds(written.quota)
    if gpus[written.name] < UNLIMITED:
        quota = {GPU: gpus[written.name], **quota}
    return Queue(
        name=written.name,
        parent=parent,
        is_project=isinstance(written, ProjectEntry),
        quota=quota,
        limit=_bounds(written.limit),
        weight=dict(written.weight),
        priority=written.priority,
        created_s=60.0 * index if written.created is None else written.created,
        times=_times(written.times) if isinstance(written, ProjectEntry) else QueueTimeLimits(),
        max_priority=written.max_priority if isinstance(written, ProjectEntry) else None,
        max_priority_of=dict(written.max_priority_of) if isinstance(written, ProjectEntry) else {},
        person_limits=_person_limits(written.person_limits)
        if isinstance(written, ProjectEntry)
        else PersonLimits(),
        person_limits_of={user: _person_limits(limits) for user, limits in written.person_limits_of.items()}
        if isinstance(written, ProjectEntry)
        else {},
        defaults=_defaults(written.defaults) if isinstance(written, ProjectEntry) else WorkloadDefaults(),
    )


def _defaults(written: WorkloadDefaultsEntry) -> WorkloadDefaults:
    return WorkloadDefaults(
        None if written.type is None else WorkloadType(written.type),
        written.priority,
        written.preemptible,
        written.gpus,
        written.max_runtime,
        written.grace,
    )


def _person_limits(written: PersonLimitsEntry) -> PersonLimits:
    return PersonLimits(written.gpus, written.running, written.sessions, written.pending, written.max_runtime)


def _times(written: TimesEntry) -> QueueTimeLimits:
    return QueueTimeLimits(
        max_runtime_s=written.max_runtime,
        idle_limit_s=written.idle_limit,
        lifetime_s=written.lifetime,
        stop_grace_s=written.stop_grace,
        idle_notice_s=written.idle_notice,
        idle_unprotect_s=written.idle_unprotect,
        idle_suspend_s=written.idle_suspend,
    )


def _bounds(written: Mapping[str, Written]) -> dict[str, int]:
    """Return the finite amounts, without unlimited ones."""
    amounts = {resource: amount(resource, value) for resource, value in written.items()}
    return {resource: value for resource, value in amounts.items() if value < UNLIMITED}


def request_of(group: PodsEntry) -> Request:
    """Return the request of one pod of a group."""
    whole = group.gpus >= WHOLE_MILLI
    if group.gpu_memory is not None:
        devices, share = group.devices or 1, 0
    elif whole or not group.gpus:
        devices, share = group.gpus // WHOLE_MILLI, WHOLE_MILLI
    else:
        devices, share = group.devices or 1, group.gpus
    return Request(
        devices=devices,
        share_milli=share,
        gpu_memory=group.gpu_memory or 0,
        cpu_milli=group.cpu,
        memory=group.memory,
        further=tuple(sorted(group.resources.items())),
        gpu_models=tuple(group.gpu_models),
        node_selector=tuple(sorted(group.node_selector.items())),
        nodes=None if group.nodes is None else tuple(group.nodes),
        tolerations=tuple(
            Toleration(toleration.key, toleration.operator, toleration.value, toleration.effect)
            for toleration in group.tolerations
        ),
        rules=_node_rules(group),
        marks=tuple(group.marks),
        pod_rules=_pod_rules(group),
        assumed_cpu_milli=group.assumed_cpu if isinstance(group, GroupEntry) else 0,
        assumed_memory=group.assumed_memory if isinstance(group, GroupEntry) else 0,
        gpu_weight_milli=group.gpu_weight if isinstance(group, GroupEntry) else WHOLE_MILLI,
    )


def _node_rules(group: PodsEntry) -> tuple[NodeAffinityRule, ...]:
    must = [] if group.node_affinity is None else [NodeAffinityRule(_terms(group.node_affinity))]
    return (
        *must,
        *(NodeAffinityRule(_terms(preferred.terms), preferred.weight) for preferred in group.preferred_nodes),
    )


def _terms(written: Sequence[Sequence[ExpressionEntry]]) -> tuple[tuple[NodeExpression, ...], ...]:
    return tuple(
        tuple(
            NodeExpression(expression.key, expression.operator, tuple(expression.values))
            for expression in term
        )
        for term in written
    )


def _pod_rules(group: PodsEntry) -> tuple[PodAffinityRule, ...]:
    return (
        *(
            PodAffinityRule("affinity", rule.mark, rule.topology, rule.weight or 0)
            for rule in group.pod_affinity
        ),
        *(
            PodAffinityRule("anti_affinity", rule.mark, rule.topology, rule.weight or 0)
            for rule in group.pod_anti_affinity
        ),
        *(
            PodAffinityRule(
                "spread", rule.mark, rule.topology, rule.weight or 0, rule.max_skew, rule.min_domains
            )
            for rule in group.spread
        ),
    )


def workload_of(written: WorkloadEntry, submitted: float) -> Workload:
    """Return the workload with the defaults of its type."""
    type_ = WorkloadType(written.type)
    priority = DEFAULT_PRIORITY[type_] if written.priority is None else written.priority
    topology = written.topology
    least = sum(map(minimum, written.pods))
    return Workload(
        name=written.name,
        project=written.project,
        groups=tuple(
            PodGroup(group_name(group, index), request_of(group), group.count, minimum(group), group.order)
            for index, group in enumerate(written.pods)
        ),
        min_pods=least if written.min_pods is None else written.min_pods,
        submitted_s=submitted,
        type=type_,
        priority=priority,
        preemptible=priority < PREEMPTIBLE_BELOW if written.preemptible is None else written.preemptible,
        can_preempt=written.can_preempt,
        unprotected=written.unprotected,
        max_runtime_s=written.max_runtime,
        idle_limit_s=written.idle_limit,
        grace_s=written.grace,
        retries=written.retries,
        topology=None
        if topology is None
        else TopologyRequest(topology.name, topology.required, topology.preferred),
    )


def group_name(group: PodsEntry, index: int) -> str:
    """Return a group's name, or its position if it has none."""
    return str(index) if group.name is None else group.name


def expect_of(written: ExpectEntry) -> Expect:
    """Return the expectations."""
    return Expect(
        cycles=written.cycles,
        stable=written.stable,
        max_evictions=written.max_evictions,
        workloads={name: _expectation(expectation) for name, expectation in written.workloads.items()},
        pods={name: _expectation(expectation) for name, expectation in written.pods.items()},
    )


def _expectation(written: WorkloadExpectedEntry | PodExpectedEntry) -> Expectation:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in written
    }
    return Expectation(**values)

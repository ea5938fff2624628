"""Workloads that no idle nodes could take, checked once for all with the same request.

Either no node matches one of the pods, or the nodes can't hold the gang: it has too many pods, no topology
domain is large enough, or its pods exclude each other. Impossibility is stated only if a bound proves it,
since a search that fails proves nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weir.engine.allocation.allocate import Allocator
from weir.engine.order.queue_order import Candidate
from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import pods_that_fit
from weir.engine.placement.placer import Placer
from weir.engine.placement.pod_affinity import rule_phrase
from weir.engine.placement.topology_levels import TopologyLevel, missing_topology
from weir.engine.refusals.node_refusals import NodeRefusals, sentence_of
from weir.model.policy import AffinityRules
from weir.model.reasons import Reason, ReasonCode
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.shapes import RequestShape

Need = tuple[str, RequestShape, int]
"""A group's name, the request of one of its pods, and the number of its pods."""
_APART = frozenset(("anti_affinity", "spread"))
_PODS_TRIED_MAX = 1024


class BestDomain(NamedTuple):
    """The domain of a level that holds most pods of a gang, and their number; empty without a domain."""

    name: str
    pods: int


def infeasible(allocator: Allocator, candidate: Candidate) -> Reason | None:
    """Return why the nodes could never take a workload; None if they may."""
    cluster, feasibility = allocator.cluster, allocator.feasibility
    job, topology, reasons = candidate.job, candidate.job.topology, feasibility.infeasible
    if topology is not None and (missing := missing_topology(cluster.topologies, topology)) is not None:
        sentence = f"it has to share one domain by {missing}, which doesn't exist"
        numbers: dict[str, object] = {"topology": topology.name, "known": sorted(cluster.topologies)}
        return Reason(ReasonCode.NO_NODE_MATCHES, sentence, numbers)
    affinity = feasibility.affinity(job)
    names = tuple([group.name for group in job.spec.groups])
    key = (candidate.queued.gang, tuple(candidate.lacks), names, topology, affinity)
    if key not in reasons:
        reason = _no_node(cluster, candidate, affinity)
        reasons[key] = reason or _infeasible_gang(allocator, job, affinity)
    return reasons[key]


def _no_node(cluster: Cluster, candidate: Candidate, affinity: AffinityRules) -> Reason | None:
    """Return why no node matches the pods of a group; None if some do for each group."""
    for group, shape, _ in candidate.lacking():
        refusals = NodeRefusals.of(cluster.nodes, shape.request, affinity)
        if not refusals.able:
            sentence = sentence_of(refusals, cluster.nodes, shape.request)
            numbers: dict[str, object] = {"group": group, "refused_by": dict(refusals.by)}
            return Reason(ReasonCode.NO_NODE_MATCHES, sentence, numbers)
    return None


def _infeasible_gang(allocator: Allocator, job: Job, affinity: AffinityRules) -> Reason | None:
    """Return why idle nodes couldn't hold the gang; None if they may."""
    needs = [
        (group.name, shape, need)
        for group, shape, need in zip(job.spec.groups, job.shapes, job.needed, strict=True)
        if need
    ]
    feasibility = allocator.feasibility
    idle = feasibility.empty_capacity()
    for group, shape, need in needs:
        mask, _ = feasibility.feasible_nodes(shape, affinity)
        if pods_that_fit(idle, shape)[mask].sum() < need:
            return _too_many(group_phrase(job, group), need, int(mask.sum()), group)
    asked = job.topology
    if asked is not None and asked.required is not None:
        level = feasibility.level(asked.name, asked.required)
        best = best_domain(allocator, idle, level, needs, affinity)
        need = sum(need for _, _, need in needs)
        if best.pods < need:
            return _no_domain(asked.required, asked.name, need, best)
    if len(needs) == 1 and needs[0][2] <= _PODS_TRIED_MAX:
        return _apart(allocator, idle.branch(0), needs[0], affinity)
    return None


def best_domain(
    allocator: Allocator,
    capacity: Capacity,
    level: TopologyLevel,
    needs: Sequence[Need],
    affinity: AffinityRules,
) -> BestDomain:
    """Return the domain with capacity for most pods, each group counted separately."""
    total = np.zeros(level.count, np.int64)
    for _, shape, need in needs:
        mask, _ = allocator.feasibility.feasible_nodes(shape, affinity)
        total += np.minimum(level.sums(np.where(mask, pods_that_fit(capacity, shape), 0)), need)
    if not level.count:
        return BestDomain("", 0)
    domain = int(total.argmax())
    return BestDomain(domain_name(allocator.cluster, level, domain), int(total[domain]))


def domain_name(cluster: Cluster, level: TopologyLevel, domain: int) -> str:
    """Return the labels' values by which a domain is known, coarse to fine."""
    node = cluster.nodes[int(np.flatnonzero(level.domain_of == domain)[0])]
    assert node is not None
    return "/".join(node.labels.get(label, node.name) for label in level.labels)


def group_phrase(job: Job, group: str) -> str:
    """Return a phrase with the group of the pods; empty for a workload with a single group."""
    return f" of group {group}" if len(job.spec.groups) > 1 else ""


def _too_many(named: str, need: int, nodes: int, group: str) -> Reason:
    those = "1 matching node" if nodes == 1 else f"{nodes} matching nodes"
    pods = "1 pod" if need == 1 else f"{need} pods at once"
    sentence = f"it needs {pods}{named}, more than {those} can take even when idle"
    return Reason(ReasonCode.NO_NODE_MATCHES, sentence, {"group": group, "needed": need, "nodes": nodes})


def _no_domain(label: str, topology: str, need: int, best: BestDomain) -> Reason:
    numbers: dict[str, object] = {
        "topology": topology, "level": label, "needed": need, "best": best.name, "fitting": best.pods,
    }  # fmt: skip
    largest = f"the largest, {best.name}, takes {best.pods}" if best.name else "no node has this label"
    sentence = (
        f"it needs {need} pods in one domain of level {label} (topology {topology}), "
        f"more than any domain can take even when idle: {largest}"
    )
    return Reason(ReasonCode.NO_NODE_MATCHES, sentence, numbers)


def _apart(allocator: Allocator, idle: Capacity, need: Need, affinity: AffinityRules) -> Reason | None:
    """Return why the pods of a group can't be kept apart by its anti-affinity or spread rules.

    The answer is None if they can, or if that is uncertain.
    """
    group, shape, pods = need
    own = [
        rule
        for rule, mark in shape.pod_rules
        if not rule.weight and rule.kind in _APART and mark in shape.marks
    ]
    hard = [rule for rule, _ in shape.pod_rules if not rule.weight]
    if not own or any(rule.kind == "affinity" for rule in hard):
        return None
    if len(own) > 1 and any(rule.kind == "spread" for rule in own):
        return None  # this fill is no proof if anti-affinity and spread rules are combined
    scores_of, rules = allocator.cache.scores.over(idle).scores_of, allocator.feasibility.pod_rules()
    placer = Placer(allocator.cluster, idle, scores_of, allocator.policy.search_steps, rules)
    fitting = placer.fill(shape, affinity, pods)
    if fitting >= pods:
        return None
    phrase = " and ".join(map(rule_phrase, own))
    sentence = f"it needs {pods} pods, and even idle nodes take only {fitting} of them, because of {phrase}"
    numbers: dict[str, object] = {"group": group, "needed": pods, "fitting": fitting, "rules": [phrase]}
    return Reason(ReasonCode.NO_NODE_MATCHES, sentence, numbers)

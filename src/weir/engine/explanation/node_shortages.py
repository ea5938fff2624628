"""Node shortages: the nodes that can't take a shape, by the capacity or rule that is short first.

In words: of one node in numbers, or the number of nodes by shortage.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir.engine.allocation.allocate import Allocator
from weir.engine.placement.capacity import Capacity
from weir.engine.placement.feasibility import fits_on, has_devices, pods_that_fit
from weir.engine.placement.placer import Placer
from weir.engine.placement.pod_affinity import rule_phrase
from weir.engine.refusals.node_refusals import amount_phrase, claim_phrase, taint_phrase
from weir.engine.refusals.shortage_refusals import Shortage
from weir.model.policy import AffinityRules
from weir.model.resources import (
    ATTACHED_PREFIX,
    CLAIMS_PREFIX,
    CPU,
    GPU,
    HOST_PORT_PREFIX,
    MEMORY,
    PODS,
    written,
)
from weir.state.capacity_columns import Bools, Ints
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.shapes import RequestShape

_HOLDERS_NAMED_MAX = 2
_TOO_LITTLE = {
    GPU: "too few free GPUs",
    CPU: "too few free CPUs",
    MEMORY: "too little free memory",
    PODS: "pod limit reached",
}


@dataclass(frozen=True, slots=True)
class NodeShortages:
    """Pods of a shape that fit now, and the other matching nodes by their first shortage.

    The keys of `nodes` are resources, or the phrases in `rules` of pod affinity that excludes a node.
    """

    shape: RequestShape
    fitting: int
    nodes: Mapping[str, Ints]
    rules: frozenset[str] = frozenset()


def node_shortages(allocator: Allocator, shape: RequestShape, affinity: AffinityRules) -> NodeShortages:
    """Return the shortages of a shape without pod affinity, for all workloads with this shape."""
    capacity = allocator.capacity
    mask, _ = allocator.feasibility.feasible_nodes(shape, affinity)
    count = pods_that_fit(capacity, shape)
    if shape.devices > 1 and not shape.whole:  # an upper bound: it may count one device for several parts
        some = np.flatnonzero(mask & (count > 0))
        count[some[~has_devices(capacity, shape, some)]] = 0
    full = np.flatnonzero(mask & (count == 0))
    return NodeShortages(shape, int(count[mask].sum()), _by_resource(allocator, shape, full))


def _by_resource(allocator: Allocator, shape: RequestShape, full: Ints) -> dict[str, Ints]:
    """Return these nodes by the resource that they are short of first."""
    free, names = allocator.capacity.columns.free, allocator.cluster.rows.names
    nodes: dict[str, Ints] = {}

    def note(resource: str, short: Bools) -> None:
        nonlocal full
        if short.any():
            before = nodes.get(resource)
            nodes[resource] = full[short] if before is None else np.concatenate([before, full[short]])
            full = full[~short]

    for row, amount in shape.needs:
        if names[row].startswith(CLAIMS_PREFIX):  # a shortage of claimed devices says more than one of GPUs
            note(names[row], free[row, full] < amount)
    if shape.devices:
        note(GPU, ~has_devices(allocator.capacity, shape, full))
    for row, amount in shape.needs:
        note(names[row], free[row, full] < amount)
    note(GPU, np.ones(len(full), np.bool_))
    return nodes


class PodRuleShortages:
    """Shortages of one workload whose pods have affinity rules.

    Its pods are placed one by one, and these placements are never undone.
    """

    def __init__(self, allocator: Allocator, affinity: AffinityRules, job: Job) -> None:
        self._allocator = allocator
        self._feasibility = allocator.feasibility
        self._capacity = allocator.capacity
        self._affinity = affinity
        self._rules = allocator.feasibility.pod_rules()
        self._others_marks: Ints = allocator.capacity.columns.marks.copy()
        for pod in job.running_pods():
            for mark in pod.shape.marks:
                self._others_marks[mark, pod.node] -= 1
        self._placer = Placer(
            *(allocator.cluster, allocator.capacity, allocator.cache.scores.scores_of),
            *(allocator.policy.search_steps, self._rules),
        )

    def find(self, shape: RequestShape, lack: int) -> NodeShortages:
        """Place up to `lack` pods; return the number that fit, and the shortages of the nodes then."""
        fitting = self._placer.fill(shape, self._affinity, lack)
        mask, _ = self._feasibility.feasible_nodes(shape, self._affinity)
        columns = self._capacity.columns
        count = pods_that_fit(self._capacity, shape)
        closed = mask & ((count == 0) | ~self._rules.open_to(columns, shape))
        by_rule: dict[str, list[int]] = {}
        others: list[int] = []
        for node in np.flatnonzero(closed).tolist():
            rule = self._rule(shape, node)
            (others if rule is None else by_rule.setdefault(rule, [])).append(node)
        nodes = {rule: np.array(some, np.int64) for rule, some in by_rule.items()}
        nodes |= _by_resource(self._allocator, shape, np.array(others, np.int64))
        return NodeShortages(shape, fitting, nodes, frozenset(by_rule))

    def _rule(self, shape: RequestShape, node: int) -> str | None:
        """Return the rule that excludes a node; None if the node is full anyway."""
        rule = self._rules.refusal(self._capacity.columns, shape, node)
        if rule is not None and (
            rule.kind == "affinity" or fits_on(self._capacity, shape, node) or self._by_own_pods(shape, node)
        ):
            return rule_phrase(rule)
        return None

    def _by_own_pods(self, shape: RequestShape, node: int) -> bool:
        """Return True if the rules exclude a node only because of pods of the same gang."""
        columns = self._capacity.columns
        now, columns.marks = columns.marks, self._others_marks
        try:
            return self._rules.refusal(columns, shape, node) is None
        finally:
            columns.marks = now


def shortage_of(cluster: Cluster, capacity: Capacity, by_shape: Sequence[NodeShortages]) -> Shortage:
    """Return the shortage of the shapes of one workload, in words; of most nodes first."""
    rules = {rule for shortages in by_shape for rule in shortages.rules}
    nodes_by = _nodes_by_shortage(by_shape)
    short = Counter({shortage: len(nodes) for shortage, nodes in nodes_by.items()})
    total = len(set().union(*nodes_by.values()))
    if not total:
        sentence = "no node has capacity"
    elif total == 1:
        shape, shortage, node = next(
            (shortages.shape, shortage, int(nodes[0]))
            for shortages in by_shape
            for shortage, nodes in shortages.nodes.items()
        )
        sentence = _on_node(cluster, capacity, shape, node, shortage)
    else:
        parts = [
            f"{nodes} {_predicate(shortage, rules, plural=nodes > 1)}"
            f"{taint_phrase(shortage, (cluster.nodes[node] for node in nodes_by[shortage]))}"
            for shortage, nodes in sorted(short.items(), key=lambda item: (-item[1], item[0]))
        ]
        in_pieces = _in_pieces(capacity, by_shape) if GPU in short else ""
        sentence = f"{total} matching nodes can't take another pod: {', '.join(parts)}{in_pieces}"
    helped = [
        shortage
        for shortage, _ in short.most_common()
        if shortage not in rules and not shortage.startswith((HOST_PORT_PREFIX, ATTACHED_PREFIX))
    ]
    return Shortage(
        tuple([shortages.fitting for shortages in by_shape]), dict(short), sentence, tuple(helped)
    )


def _nodes_by_shortage(by_shape: Sequence[NodeShortages]) -> dict[str, set[int]]:
    """Return the nodes by their shortage; a node counts once for all groups of a gang."""
    nodes_by: dict[str, set[int]] = {}
    for shortages in by_shape:
        for shortage, nodes in shortages.nodes.items():
            nodes_by.setdefault(shortage, set()).update(nodes.tolist())
    return nodes_by


def _on_node(cluster: Cluster, capacity: Capacity, shape: RequestShape, node: int, shortage: str) -> str:
    """Return the first shortage of one node, in numbers."""
    name, have = cluster.node_names[node], int(capacity.whole[node])
    if shortage == GPU and shape.whole and have < shape.devices:
        free = f"{have} GPU{'' if have == 1 else 's'}"
        return f"{name} has {free} free, and a pod asks for {shape.devices}"
    if shortage == GPU:
        return f"{name} has no GPU with as much free as a pod asks for"
    row = cluster.rows.get(shortage)
    if row is None:
        return f"{name} is excluded by {shortage}"
    if shortage.startswith(HOST_PORT_PREFIX):
        holders = {pod.job.name for pod in cluster.pods_on[node] if row in dict(pod.shape.needs)}
        named = " and ".join(sorted(holders)[:_HOLDERS_NAMED_MAX]) or "a pod of another scheduler"
        return f"{port_phrase(shortage)} of {name} is in use by {named}"
    if shortage.startswith((ATTACHED_PREFIX, CLAIMS_PREFIX)):
        tainted = taint_phrase(shortage, [cluster.nodes[node]])
        return f"{name} {_predicate(shortage, (), plural=False)}{tainted}"
    amount = dict(shape.needs)[row]
    free = amount_phrase(shortage, max(0, int(capacity.columns.free[row, node])))
    return f"{name} has {free} free, and a pod asks for {written(shortage, amount)}"


def _in_pieces(capacity: Capacity, by_shape: Sequence[NodeShortages]) -> str:
    """Return how many GPUs are free on nodes that each have too few of them; empty if none is."""
    among = [shortages for shortages in by_shape if shortages.nodes]
    shape = among[0].shape
    if len({shortages.shape.id for shortages in among}) > 1 or not shape.whole:
        return ""
    nodes = np.unique(np.concatenate([nodes for shortages in among for nodes in shortages.nodes.values()]))
    free = capacity.whole[nodes]
    free = free[free < shape.devices]
    count, most = int(free.sum()), int(free.max(initial=0))
    if not count:
        return ""
    are = "GPU is" if count == 1 else "GPUs are"
    return f" ({count} {are} free in pieces, at most {most} on one node, and a pod asks for {shape.devices})"


def _predicate(shortage: str, rules: Collection[str], *, plural: bool) -> str:
    have = "have" if plural else "has"
    if shortage in rules:
        return f"{'are' if plural else 'is'} excluded by {shortage}"
    if shortage.startswith(HOST_PORT_PREFIX):
        return f"{have} {port_phrase(shortage)} in use"
    if shortage.startswith(ATTACHED_PREFIX):
        attach = "attach" if plural else "attaches"
        return f"{attach} no more volumes of {shortage.removeprefix(ATTACHED_PREFIX)}"
    if shortage.startswith(CLAIMS_PREFIX):
        return f"{have} no free devices for {claim_phrase(shortage)}"
    return f"{have} {_TOO_LITTLE.get(shortage, f'too little free {shortage}')}"


def port_phrase(resource: str) -> str:
    """Return a port of a node in words: `host port 8080`, `host port 53/UDP`."""
    protocol, _, port = resource.removeprefix(HOST_PORT_PREFIX).partition("/")
    number, _, address = port.partition("/")
    suffix = "" if protocol == "TCP" else f"/{protocol}"
    return f"host port {number}{suffix}{f' at {address}' if address else ''}"

"""Node shortages: the nodes that can't take a shape, by the capacity or rule that is short first."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weir.engine.allocation.allocate import Allocator
from weir.engine.placement.feasibility import fits_on, has_devices, pods_that_fit
from weir.engine.placement.placer import Placer
from weir.engine.placement.pod_affinity import rule_phrase
from weir.model.policy import AffinityRules
from weir.model.resources import CLAIMS_PREFIX, GPU
from weir.state.capacity_columns import Bools, Ints
from weir.state.jobs import Job
from weir.state.shapes import RequestShape


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

    def note(what: str, short: Bools) -> None:
        nonlocal full
        if short.any():
            before = nodes.get(what)
            nodes[what] = full[short] if before is None else np.concatenate([before, full[short]])
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
    """Shortages of one workload whose pods have affinity rules. They are placed one by one, for good."""

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
            *(allocator.cluster, allocator.capacity, allocator.cache.scores.of),
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
        """Return the rule that excludes a node; None if it would not without other pods on it."""
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

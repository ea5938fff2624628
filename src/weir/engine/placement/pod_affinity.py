"""Pod affinity, anti-affinity and spread: the nodes on which a pod's rules allow it.

A rule counts the pods with a label set in each domain of a node label. The counts are columns of the
capacity, so a trial's changes are visible here. Constraints on nodes alone are in
`weir.engine.placement.feasibility`. The rules of a pod are evaluated again for every placement; pods
without rules cost nothing.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from weir.engine.placement.feasibility import is_selected, untolerated_taint
from weir.engine.placement.fragmentation import COST_BITS, TIE_BITS
from weir.engine.placement.node_scores import INFEASIBLE, PREFERENCE_BITS
from weir.engine.placement.topology_levels import TopologyLevel, level_of
from weir.model.workloads import ONE_POD_CLAIM, PodAffinityRule
from weir.state.capacity_columns import Bools, CapacityColumns, Ints
from weir.state.cluster import Cluster
from weir.state.shapes import RequestShape

_NO_NODE = -1


@dataclass(frozen=True, slots=True)
class ExcessPods:
    """Matching pods that have to leave these nodes before another pod is allowed."""

    mark: int
    nodes: Bools
    pods: int


@dataclass(frozen=True, slots=True)
class RuleCount:
    """Matching pods of one rule by domain.

    `is_own` is True if the rule counts the pod itself. Of a spread, `least` is the number of pods in the
    emptiest domain that counts, and `selected` are the nodes that it spreads over.
    """

    rule: PodAffinityRule
    level: TopologyLevel
    pods: Ints
    is_own: bool
    least: int = 0
    selected: Bools | None = None

    def most(self) -> int:
        """Return the number of matching pods up to which a domain still accepts one more."""
        return 0 if self.selected is None else self.rule.max_skew + self.least - self.is_own

    def open_nodes(self) -> Bools:
        """Return the nodes on which the rule allows one more pod."""
        if self.rule.kind != "affinity":
            open_ = self._by_node(self.pods <= self.most(), elsewhere=self.rule.kind == "anti_affinity")
            return open_ if self.selected is None else open_ & self.selected
        if self.is_own and not self.pods.any():
            return self.level.domain_of >= 0  # no pod matches yet, so the first may start anywhere
        return self._by_node(self.pods > 0)

    def preference(self) -> Ints:
        """Return each node's weight of a preference.

        A preferred affinity or anti-affinity counts with its whole weight, a spread by the imbalance that
        would result.
        """
        level, weight = self.level, self.rule.weight
        is_beside = np.where(self.pods > 0, 1, 0)
        granted = is_beside if self.rule.kind == "affinity" else -is_beside
        if self.rule.kind == "spread":
            granted = self.least - self.pods
        return (
            np.where(level.domain_of >= 0, granted[level.domain_of], 0) * weight
            if level.count
            else level.domain_of * 0
        )

    def _by_node(self, domains: Bools, elsewhere: bool = False) -> Bools:
        """Map values of domains to their nodes; nodes without a domain get `elsewhere`."""
        domain_of = self.level.domain_of
        if not self.level.count:
            return np.full(len(domain_of), elsewhere)
        return np.where(domain_of >= 0, domains[domain_of], elsewhere)


class PodAffinityRules:
    """Pod affinity over the nodes of a cluster. The domains of each label are computed once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._levels: dict[str, TopologyLevel] = {}
        self._selected: dict[tuple[int, bool, bool], Bools] = {}

    def level(self, label: str) -> TopologyLevel:
        """Return the domains of a node label."""
        level = self._levels.get(label)
        if level is None:
            level = self._levels[label] = level_of(self._cluster, (label,))
        return level

    def open_to(self, columns: CapacityColumns, shape: RequestShape) -> Bools:
        """Return the nodes open to one more pod by all rules."""
        return self.clearable(columns, shape, ())

    def stays(self, columns: CapacityColumns, shape: RequestShape, node: int) -> bool:
        """Return True if the rules would allow a pod that is already counted on its node again."""
        return self.refusal(columns, shape, node, itself=node) is None

    def refusal(
        self, columns: CapacityColumns, shape: RequestShape, node: int, itself: int = _NO_NODE
    ) -> PodAffinityRule | None:
        """Return the first rule against one more pod on a node, without `itself` if it is counted there."""
        for rule, mark in shape.pod_rules:
            if not rule.weight and not self._count(columns, shape, rule, mark, itself).open_nodes()[node]:
                return rule
        return None

    def ranked(self, columns: CapacityColumns, shape: RequestShape, rank: Ints) -> Ints:
        """Apply pod affinity to the ranks of nodes for a shape."""
        open_rank = np.where(self.open_to(columns, shape), rank, INFEASIBLE)
        counts = [self._count(columns, shape, rule, mark) for rule, mark in shape.pod_rules if rule.weight]
        if not counts:
            return open_rank
        shift = TIE_BITS + COST_BITS
        preference = np.sum([count.preference() for count in counts], axis=0)
        granted = np.clip((rank >> shift) - preference, 0, (1 << PREFERENCE_BITS) - 1)
        low = rank & ((1 << shift) - 1)
        return np.where(open_rank == INFEASIBLE, INFEASIBLE, (granted << shift) | low)

    # Pods to remove

    def excesses(self, columns: CapacityColumns, shape: RequestShape, node: int) -> list[ExcessPods] | None:
        """Return the pods to remove before a node accepts the shape; None if no removal helps."""
        excesses: list[ExcessPods] = []
        for rule, mark in shape.pod_rules:
            if rule.weight:
                continue
            count = self._count(columns, shape, rule, mark)
            if count.open_nodes()[node]:
                continue
            domain = int(count.level.domain_of[node])
            if rule.kind == "affinity" or domain < 0:
                return None
            excess = int(count.pods[domain]) - count.most()
            excesses.append(ExcessPods(mark, count.level.mask(domain), excess))
        return excesses

    def closed(self, columns: CapacityColumns, shape: RequestShape, removable: Collection[int]) -> Bools:
        """Return the nodes that stay closed unless pods with other marks than `removable` leave.

        Only anti-affinity closes a node like this: a spread allows more pods once there are more elsewhere.
        """
        closed = np.zeros(columns.free.shape[1], np.bool_)
        for rule, mark in shape.pod_rules:
            if rule.kind == "anti_affinity" and not rule.weight and mark not in removable:
                closed |= ~self._count(columns, shape, rule, mark).open_nodes()
        return closed

    def clearable(self, columns: CapacityColumns, shape: RequestShape, removable: Collection[int]) -> Bools:
        """Return the nodes that are open to a shape, or would be without pods with `removable` marks."""
        open_ = np.ones(columns.free.shape[1], np.bool_)
        for rule, mark in shape.pod_rules:
            if not rule.weight:
                by_rule = self._count(columns, shape, rule, mark).open_nodes()
                if rule.kind != "affinity" and mark in removable:
                    by_rule |= columns.marks[mark] > 0
                open_ &= by_rule
        return open_

    def beginnings(self, columns: CapacityColumns, shape: RequestShape) -> Iterator[Bools]:
        """Yield the domains in which the first pod of a shape with affinity to itself may start."""
        for rule, mark in shape.pod_rules:
            if rule.kind == "affinity" and not rule.weight and mark in shape.marks:
                count = self._count(columns, shape, rule, mark)
                if not count.pods.any():
                    yield from map(count.level.mask, range(count.level.count))
                    return

    def _count(
        self,
        columns: CapacityColumns,
        shape: RequestShape,
        rule: PodAffinityRule,
        mark: int,
        itself: int = _NO_NODE,
    ) -> RuleCount:
        """Count the matching pods of a rule by domain; ignore one such pod on the node `itself`."""
        level, is_own = self.level(rule.topology), mark in shape.marks
        marked = columns.marks[mark]
        if itself >= 0 and is_own:
            marked = marked.copy()
            marked[itself] -= 1
        if rule.kind != "spread":
            return RuleCount(rule, level, level.sums(marked), is_own)
        selected = self._selected_by(shape, rule)
        among = selected & (level.domain_of >= 0)
        has_nodes = np.bincount(level.domain_of[among], minlength=level.count) > 0
        pods = np.bincount(level.domain_of[among], marked[among], level.count).astype(np.int64)
        is_spread = int(has_nodes.sum()) >= max(1, rule.min_domains)
        return RuleCount(rule, level, pods, is_own, int(pods[has_nodes].min()) if is_spread else 0, selected)

    def _selected_by(self, shape: RequestShape, rule: PodAffinityRule) -> Bools:
        """Return the nodes of the domains over which a shape spreads."""
        key = shape.constraint, rule.every_node, rule.untainted
        selected = self._selected.get(key)
        if selected is None:
            selected = self._selected[key] = np.zeros(self._cluster.free_capacity.free.shape[1], np.bool_)
            for index, node in enumerate(self._cluster.nodes):
                selected[index] = (
                    node is not None
                    and (rule.every_node or is_selected(node, shape.request))
                    and not (rule.untainted and untolerated_taint(node, shape.request))
                )
        return selected


def rule_phrase(rule: PodAffinityRule) -> str:
    """Return a rule in words, as the cause that excludes a node."""
    if rule.mark.startswith(ONE_POD_CLAIM):
        return rule.mark
    nouns = {"affinity": "pod affinity", "anti_affinity": "pod anti-affinity", "spread": "topology spread"}
    domain = f" by {rule.topology}"
    mark = rule.mark.removesuffix(domain)  # the label set of an anti-affinity rule ends with its domain
    return f"{nouns[rule.kind]} ({mark}{domain})"

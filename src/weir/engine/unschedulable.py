"""Capacity or pod affinity that nodes lack for the pods of a shape."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from weir.engine.cache import EngineCache
from weir.engine.capacity import Capacity
from weir.engine.feasibility import fits_on, pods_that_fit
from weir.engine.infeasible import amount_phrase
from weir.engine.placer import Placer
from weir.engine.pod_affinity import rule_phrase
from weir.model.policy import AffinityPolicy, Policy
from weir.model.resources import ATTACHED_PREFIX, CPU, GPU, HOST_PORT_PREFIX, MEMORY, PODS, written
from weir.state.capacity_columns import Ints
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.shapes import RequestShape

_HOLDERS_NAMED_MOST = 2


class UnschedulableNodes:
    """Nodes that can't take a shape, by cause. Pods with affinity rules are placed one by one, for good."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        cache: EngineCache,
        capacity: Capacity,
        affinity: tuple[AffinityPolicy, ...],
        job: Job,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._capacity = capacity
        self._affinity = affinity
        self.rules: set[str] = set()  # those that excluded a node, in words
        self._rules = cache.feasibility.pod_rules()
        self._others_marks: Ints = capacity.columns.marks.copy()
        for pod in job.running_pods():
            for mark in pod.shape.marks:
                self._others_marks[mark, pod.node] -= 1
        self._placer = Placer(
            cluster,
            capacity,
            cache.node_scores,
            policy.search_steps,
            self._rules,
        )

    def fitting(self, shape: RequestShape, lack: int) -> int:
        """Return the number of missing pods that fit now."""
        if shape.pod_rules:
            return self._placer.fill(shape, self._affinity, lack)
        mask, _ = self._cache.feasibility.feasible_nodes(shape, self._affinity)
        count = pods_that_fit(
            self._capacity.columns, self._capacity.whole, self._capacity.device_memory, shape
        )
        return min(lack, int(count[mask].sum()))

    def nodes(self, shape: RequestShape) -> Iterator[tuple[int, str]]:
        """Return the matching nodes that can't take a pod of a shape, and what each is short of first."""
        mask, _ = self._cache.feasibility.feasible_nodes(shape, self._affinity)
        count = pods_that_fit(
            self._capacity.columns, self._capacity.whole, self._capacity.device_memory, shape
        )
        open_ = self._rules.open_to(self._capacity.columns, shape) if shape.pod_rules else np.ones_like(mask)
        for node in np.flatnonzero(mask & ((count == 0) | ~open_)).tolist():
            yield node, self._first(shape, node)

    def helped_by_eviction(self, what: str) -> bool:
        """Return True if a shortage is of capacity that running work holds, and of nothing else."""
        return what not in self.rules and not what.startswith((HOST_PORT_PREFIX, ATTACHED_PREFIX))

    def _first(self, shape: RequestShape, node: int) -> str:
        if shape.pod_rules:
            rule = self._rules.refusal(self._capacity.columns, shape, node)
            if rule is not None and (
                rule.kind == "affinity"
                or fits_on(self._capacity, shape, node)
                or self._by_own_pods(shape, node)
            ):
                self.rules.add(rule_phrase(rule))
                return rule_phrase(rule)
        free = self._capacity.columns.free[:, node]
        if shape.devices:
            if shape.whole and self._capacity.whole[node] < shape.devices:
                return GPU
            if not shape.whole:
                milli = shape.share_on(int(self._capacity.device_memory[node]))
                if int((self._capacity.columns.share[node] >= milli).sum()) < shape.devices:
                    return GPU
        for row, amount in shape.needs:
            if free[row] < amount:
                return self._cluster.rows.names[row]
        return GPU

    def _by_own_pods(self, shape: RequestShape, node: int) -> bool:
        """Return True if the rules exclude a node only because of pods of the same gang."""
        columns = self._capacity.columns
        now, columns.marks = columns.marks, self._others_marks
        try:
            return self._rules.refusal(columns, shape, node) is None
        finally:
            columns.marks = now

    # Words

    def on(self, shape: RequestShape, node: int) -> str:
        """Return what one node is short of, in numbers."""
        name, resource = self._cluster.node_names[node], self._first(shape, node)
        have = int(self._capacity.whole[node])
        if resource == GPU and shape.whole and have < shape.devices:
            free = f"{have} GPU{'' if have == 1 else 's'}"
            return f"{name} has {free} free, and a pod asks for {shape.devices}"
        if resource == GPU:
            return f"{name} has no GPU with as much free as a pod asks for"
        row = self._cluster.rows.known(resource)
        if row is None:
            return f"{name} is excluded by {resource}"
        if resource.startswith(HOST_PORT_PREFIX):
            return f"{port_phrase(resource)} of {name} is in use by {self._holders(node, row)}"
        if resource.startswith(ATTACHED_PREFIX):
            return f"{name} {_attaches_no_more(resource, plural=False)}"
        amount = next(amount for at, amount in shape.needs if at == row)
        free = amount_phrase(resource, max(0, int(self._capacity.columns.free[row, node])))
        return f"{name} has {free} free, and a pod asks for {written(resource, amount)}"

    def _holders(self, node: int, row: int) -> str:
        """Return who holds a resource of a node: workloads of Weir, or else pods of other schedulers."""
        names = sorted(
            {
                pod.job.name
                for pod in self._cluster.pods_on[node]
                if any(at == row for at, _ in pod.shape.needs)
            }
        )
        return " and ".join(names[:_HOLDERS_NAMED_MOST]) or "a pod of another scheduler"

    def among(self, short: Counter[str], full: Sequence[tuple[RequestShape, int]]) -> str:
        """Return how many nodes can't take another pod, by what each is short of first."""
        total = short.total()
        if not total:
            return "no node has capacity"
        if total == 1:
            return self.on(*full[0])
        parts = [
            f"{nodes} {self._predicate(what, plural=nodes > 1)}"
            for what, nodes in sorted(short.items(), key=lambda item: (-item[1], item[0]))
        ]
        counts = ", ".join(parts)
        return f"{total} matching nodes can't take another pod: {counts}{self._in_pieces(short, full)}"

    def _in_pieces(self, short: Counter[str], full: Sequence[tuple[RequestShape, int]]) -> str:
        """Return how many GPUs are free on nodes that each have too few of them; empty if none is."""
        shapes = {shape.id for shape, _ in full}
        shape = full[0][0]
        if GPU not in short or len(shapes) > 1 or not shape.whole:
            return ""
        free = [have for _, node in full if (have := int(self._capacity.whole[node])) < shape.devices]
        if not sum(free):
            return ""
        count, most = sum(free), max(free)
        are = "GPU is" if count == 1 else "GPUs are"
        return (
            f" ({count} {are} free in pieces, at most {most} on one node, and a pod asks for {shape.devices})"
        )

    def _predicate(self, what: str, *, plural: bool) -> str:
        have = "have" if plural else "has"
        if what in self.rules:
            return f"{'are' if plural else 'is'} excluded by {what}"
        if what.startswith(HOST_PORT_PREFIX):
            return f"{have} {port_phrase(what)} in use"
        if what.startswith(ATTACHED_PREFIX):
            return _attaches_no_more(what, plural=plural)
        return f"{have} {_TOO_LITTLE.get(what, f'too little free {what}')}"


_TOO_LITTLE = {
    GPU: "too few free GPUs",
    CPU: "too few free CPUs",
    MEMORY: "too little free memory",
    PODS: "no place for another pod",
}


def port_phrase(resource: str) -> str:
    """Return a port of a node in words: `host port 8080`, `host port 53/UDP`."""
    protocol, _, port = resource.removeprefix(HOST_PORT_PREFIX).partition("/")
    number, _, address = port.partition("/")
    of = "" if protocol == "TCP" else f"/{protocol}"
    return f"host port {number}{of}{f' at {address}' if address else ''}"


def _attaches_no_more(resource: str, *, plural: bool) -> str:
    return f"{'attach' if plural else 'attaches'} no more volumes of {resource.removeprefix(ATTACHED_PREFIX)}"

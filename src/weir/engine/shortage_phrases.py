"""Shortages of nodes in words: what one node is short of in numbers, or how many nodes are short of what."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from weir.engine.capacity import Capacity
from weir.engine.infeasible import amount_phrase, claim_phrase
from weir.engine.node_shortages import NodeShortages
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
from weir.state.cluster import Cluster
from weir.state.shapes import RequestShape

_HOLDERS_NAMED_MOST = 2


class ShortagePhrases:
    """Writes the shortages of the shapes of one workload."""

    def __init__(self, cluster: Cluster, capacity: Capacity, found: Sequence[NodeShortages]) -> None:
        self._cluster = cluster
        self._capacity = capacity
        self._found = found
        self._rules = {rule for shortages in found for rule in shortages.rules}
        self.short = Counter({what: 0 for shortages in found for what in shortages.nodes})
        for shortages in found:
            for what, nodes in shortages.nodes.items():
                self.short[what] += len(nodes)

    @property
    def helped(self) -> list[str]:
        """Return the shortages of capacity that running work holds, those of most nodes first."""
        return [what for what, _ in self.short.most_common() if self._is_helped_by_eviction(what)]

    def _is_helped_by_eviction(self, what: str) -> bool:
        return what not in self._rules and not what.startswith((HOST_PORT_PREFIX, ATTACHED_PREFIX))

    def _on(self, shape: RequestShape, node: int, resource: str) -> str:
        """Return what one node is short of, in numbers."""
        name = self._cluster.node_names[node]
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
        if resource.startswith((ATTACHED_PREFIX, CLAIMS_PREFIX)):
            return f"{name} {self._predicate(resource, plural=False)}"
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

    def sentence(self) -> str:
        """Return how many nodes can't take another pod, by what each is short of first."""
        total = self.short.total()
        if not total:
            return "no node has capacity"
        if total == 1:
            ((shape, what, node),) = (
                (shortages.shape, what, int(nodes[0]))
                for shortages in self._found
                for what, nodes in shortages.nodes.items()
            )
            return self._on(shape, node, what)
        parts = [
            f"{nodes} {self._predicate(what, plural=nodes > 1)}"
            for what, nodes in sorted(self.short.items(), key=lambda item: (-item[1], item[0]))
        ]
        return f"{total} matching nodes can't take another pod: {', '.join(parts)}{self._in_pieces()}"

    def _in_pieces(self) -> str:
        """Return how many GPUs are free on nodes that each have too few of them; empty if none is."""
        among = [shortages for shortages in self._found if shortages.nodes]
        shape = among[0].shape
        if GPU not in self.short or len({each.shape.id for each in among}) > 1 or not shape.whole:
            return ""
        free = np.concatenate(
            [self._capacity.whole[nodes] for each in among for nodes in each.nodes.values()]
        )
        free = free[free < shape.devices]
        count, most = int(free.sum()), int(free.max(initial=0))
        if not count:
            return ""
        are = "GPU is" if count == 1 else "GPUs are"
        return (
            f" ({count} {are} free in pieces, at most {most} on one node, and a pod asks for {shape.devices})"
        )

    def _predicate(self, what: str, *, plural: bool) -> str:
        have = "have" if plural else "has"
        if what in self._rules:
            return f"{'are' if plural else 'is'} excluded by {what}"
        if what.startswith(HOST_PORT_PREFIX):
            return f"{have} {port_phrase(what)} in use"
        if what.startswith(ATTACHED_PREFIX):
            return _attaches_no_more(what, plural=plural)
        if what.startswith(CLAIMS_PREFIX):
            return f"{have} no free devices for {claim_phrase(what)}"
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

"""What nodes are short of for pods of a shape: room, or a place among other pods that its rules allow."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from weir.cluster.shapes import Shape
from weir.cluster.state import Cluster
from weir.decide.fit import copies, fits_on
from weir.decide.infeasible import amount_phrase
from weir.decide.memo import Memo
from weir.decide.place import Placer
from weir.decide.pod_rules import said
from weir.decide.room import Room
from weir.model.policy import Affinity, Policy
from weir.model.resources import CPU, GPU, MEMORY, PODS, written


class Shortage:
    """The shortages in one room. Pods with rules are tried there one by one, and stay there."""

    def __init__(
        self, cluster: Cluster, policy: Policy, memo: Memo, room: Room, affinity: tuple[Affinity, ...]
    ) -> None:
        self._cluster = cluster
        self._memo = memo
        self._room = room
        self._affinity = affinity
        self.rules: set[str] = set()  # those that refused a node, in words
        self._rules = memo.pod_rules(cluster)
        self._placer = Placer(
            cluster,
            room,
            lambda shape, rules: memo.ranking(cluster, shape, rules),
            policy.search_steps,
            self._rules,
        )

    def fitting(self, shape: Shape, lack: int) -> int:
        """How many of so many pods have room."""
        if shape.pod_rules:
            return self._placer.fill(shape, self._affinity, lack)
        mask, _ = self._memo.allowed(self._cluster, shape, self._affinity)
        count = copies(self._room.columns, self._room.whole, self._room.device_memory, shape)
        return min(lack, int(count[mask].sum()))

    def nodes(self, shape: Shape) -> Iterator[tuple[int, str]]:
        """The nodes a shape may use that can't take a pod of it, and what each is short of first."""
        mask, _ = self._memo.allowed(self._cluster, shape, self._affinity)
        count = copies(self._room.columns, self._room.whole, self._room.device_memory, shape)
        open_ = self._rules.open_to(self._room.columns, shape) if shape.pod_rules else np.ones_like(mask)
        for node in np.flatnonzero(mask & ((count == 0) | ~open_)).tolist():
            yield node, self._first(shape, node)

    def _first(self, shape: Shape, node: int) -> str:
        if shape.pod_rules:
            rule = self._rules.refusal(self._room.columns, shape, node)
            if rule is not None and (rule.kind == "affinity" or fits_on(self._room, shape, node)):
                self.rules.add(said(rule))
                return said(rule)
        free = self._room.columns.free[:, node]
        if shape.devices:
            if shape.whole and self._room.whole[node] < shape.devices:
                return "gpu"
            if not shape.whole:
                milli = shape.share_on(int(self._room.device_memory[node]))
                if int((self._room.columns.share[node] >= milli).sum()) < shape.devices:
                    return "gpu"
        for row, amount in shape.needs:
            if free[row] < amount:
                return self._cluster.rows.names[row]
        return "gpu"

    def on(self, shape: Shape, node: int) -> str:
        """Return what one node is short of, in numbers."""
        name, resource = self._cluster.node_names[node], self._first(shape, node)
        have = int(self._room.whole[node])
        if resource == GPU and shape.whole and have < shape.devices:
            free = f"{have} GPU{'' if have == 1 else 's'}"
            return f"{name} has {free} free, and a pod asks for {shape.devices}"
        if resource == GPU:
            return f"{name} has no GPU with as much free as a pod asks for"
        row = self._cluster.rows.known(resource)
        if row is None:
            return f"{name} is excluded by {resource}"
        amount = next(amount for at, amount in shape.needs if at == row)
        free = amount_phrase(resource, max(0, int(self._room.columns.free[row, node])))
        return f"{name} has {free} free, and a pod asks for {written(resource, amount)}"

    def among(self, short: Counter[str]) -> str:
        """Return how many nodes can't take another pod, by what each is short of first."""
        total = short.total()
        if not total:
            return "no node has capacity"
        parts = [
            f"{nodes} {self._predicate(what, plural=nodes > 1)}"
            for what, nodes in sorted(short.items(), key=lambda item: (-item[1], item[0]))
        ]
        those = "1 matching node" if total == 1 else f"{total} matching nodes"
        return f"{those} can't take another pod: {', '.join(parts)}"

    def _predicate(self, what: str, *, plural: bool) -> str:
        if what in self.rules:
            return f"{'are' if plural else 'is'} excluded by {what}"
        return f"{'have' if plural else 'has'} {_TOO_LITTLE.get(what, f'too little free {what}')}"


_TOO_LITTLE = {
    GPU: "too few free GPUs",
    CPU: "too few free CPUs",
    MEMORY: "too little free memory",
    PODS: "no place for another pod",
}

"""Pools of devices that a node reaches, from the slices of the cluster.

A pool is published in several slices of one generation. Devices are taken only from pools that are complete
and consistent: half a pool may hide what another slice says of the same counters.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from weir.engine.placement.feasibility import matches_affinity
from weir.kubernetes.api.objects import NodeSelector
from weir.kubernetes.api.resource_objects import ResourceSlice
from weir.kubernetes.claims.devices import NodeChoice, PoolDevice, device_of
from weir.kubernetes.translate.node_terms import terms
from weir.kubernetes.translate.quantities import exact
from weir.model.nodes import Node
from weir.model.workloads import NodeAffinityRule

PoolKey = tuple[str, str]
Counters = dict[tuple[str, str], Fraction]
"""Counters of a pool by set and name."""


@dataclass(frozen=True, slots=True, eq=False)
class ParsedSlice:
    """A slice with its devices and counters read."""

    name: str
    pool: PoolKey
    generation: int
    slice_count: int
    nodes: NodeChoice
    by_device: bool
    devices: tuple[PoolDevice, ...]
    counters: Counters
    problem: str = ""

    @property
    def has_counters(self) -> bool:
        """Return True if the slice has the shared counters of its pool."""
        return bool(self.counters)


@dataclass(frozen=True, slots=True, eq=False)
class DevicePool:
    """A pool as seen by one node: its devices for the node, all its devices, and why it can't be used."""

    key: PoolKey
    devices: tuple[PoolDevice, ...] = ()
    all_devices: tuple[PoolDevice, ...] = ()
    counters: Mapping[tuple[str, str], Fraction] | None = None
    problem: str = ""


def parse_slice(resource_slice: ResourceSlice) -> ParsedSlice:
    """Return a slice with its devices read.

    Raises:
        ValueError: an amount can't be read.
        CelError: a version isn't a semantic version.
    """
    spec = resource_slice.spec
    counters: Counters = {}
    problem = ""
    for counter_set in spec.shared_counters:
        for name, value in counter_set.counters.items():
            key = (counter_set.name, name)
            problem = f"two counter sets are called {counter_set.name}" if key in counters else problem
            counters[key] = exact(value.value)
    return ParsedSlice(
        resource_slice.metadata.name,
        (spec.driver, spec.pool.name),
        spec.pool.generation,
        spec.pool.resource_slice_count,
        NodeChoice(spec.node_name or "", spec.node_selector, spec.all_nodes),
        spec.per_device_node_selection,
        tuple(device_of(resource_slice, device) for device in spec.devices),
        counters,
        problem,
    )


def reaches(choice: NodeChoice, node: Node) -> bool:
    """Return True if a node is one of those chosen."""
    if choice.name:
        return choice.name == node.name
    return choice.everywhere or (choice.selector is not None and _selects(choice.selector, node))


def _selects(selector: NodeSelector, node: Node) -> bool:
    return matches_affinity(node, NodeAffinityRule(terms(selector.node_selector_terms)))


_NOWHERE = Node("", gpus=0, gpu_memory=0, capacity={})


class SliceIndex:
    """Finds the slices that reach a node."""

    def __init__(self) -> None:
        self._slices: dict[str, ParsedSlice] = {}
        self._of_node: dict[str, set[str]] = defaultdict(set)
        self._shared: set[str] = set()  # pools with devices for several nodes
        self._counters: dict[PoolKey, set[str]] = defaultdict(set)
        self._unusable: dict[PoolKey, DevicePool] = {}  # pools with counters, as seen by nodes without access
        self._of_pool: dict[PoolKey, set[str]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._slices)

    def see(self, name: str, after: ParsedSlice | None) -> set[str] | None:
        """Process a changed slice. Return the nodes whose pools may have changed; None: all."""
        before = self._slices.get(name)
        touched = self._replace(name, before, after)
        concerned = {parsed_slice.pool for parsed_slice in (before, after) if parsed_slice is not None}
        judged = [self._judge(pool) for pool in concerned]
        return None if any(judged) else touched

    def _judge(self, pool: PoolKey) -> bool:
        """Check if a pool of devices with counters is unusable; return True if the answer changed.

        A request for all devices waits for such a pool on every node, as with Kubernetes' own scheduler.
        """
        counters = [self._slices[name] for name in self._counters.get(pool, ())]
        newest = max((parsed_slice.generation for parsed_slice in counters), default=0)
        relevant = [parsed_slice for parsed_slice in counters if parsed_slice.generation == newest]
        seen = self._pool(pool, relevant, _NOWHERE) if relevant else None
        before = self._unusable.pop(pool, None)
        if seen is not None and seen.problem:
            self._unusable[pool] = seen
        return (before.problem if before else "") != (seen.problem if seen else "")

    def _replace(self, name: str, before: ParsedSlice | None, after: ParsedSlice | None) -> set[str] | None:
        self._slices.pop(name, None)
        touched = set() if before is None else self._forget(name, before)
        if after is None:
            return touched
        self._slices[name] = after
        self._of_pool[after.pool].add(name)
        if after.has_counters:
            self._counters[after.pool].add(name)
        if after.devices or not after.has_counters:
            (self._of_node[after.nodes.name] if after.nodes.name else self._shared).add(name)
        nodes = self._nodes_with(after)
        return None if touched is None or nodes is None else touched | nodes

    def _forget(self, name: str, before: ParsedSlice) -> set[str] | None:
        """Forget a slice. Return the nodes whose pools may have changed; None: all."""
        nodes = self._nodes_with(before)
        of_node, counters = self._of_node[before.nodes.name], self._counters[before.pool]
        for names in (self._of_pool[before.pool], self._shared, of_node, counters):
            names.discard(name)
        if not of_node:
            del self._of_node[before.nodes.name]
        if not counters:
            del self._counters[before.pool]
        if not self._of_pool[before.pool]:
            del self._of_pool[before.pool]
        return nodes

    def _nodes_with(self, changed: ParsedSlice) -> set[str] | None:
        """Return the nodes that reach a slice's pool by name: its completeness depends on all slices.

        The answer is None if all nodes may be concerned.
        """
        if not changed.nodes.name and not changed.has_counters:
            return None
        nodes = self.nodes_of(changed.pool)
        return None if nodes is None else nodes | ({changed.nodes.name} - {""})

    def nodes_of(self, pool: PoolKey) -> set[str] | None:
        """Return the nodes that reach a pool by name; None if others may, too."""
        names = self._of_pool.get(pool, set())
        if not names.isdisjoint(self._shared):
            return None
        return {self._slices[name].nodes.name for name in names if name in self._slices} - {""}

    def pools(self, node: Node) -> list[DevicePool]:
        """Return the pools that a node reaches, by driver and name; those with binding conditions last.

        The counters of a pool are checked only for nodes that reach one of its devices.
        """
        relevant: dict[PoolKey, list[ParsedSlice]] = {}
        candidates = (*self._of_node.get(node.name, ()), *self._shared)
        names = {name for name in candidates if _is_relevant(self._slices[name], node)}
        names.update(*(self._counters.get(self._slices[name].pool, ()) for name in tuple(names)))
        for parsed_slice in map(self._slices.__getitem__, sorted(names)):
            newest = relevant.setdefault(parsed_slice.pool, [])
            if newest and parsed_slice.generation > newest[0].generation:
                newest.clear()
            if not newest or parsed_slice.generation == newest[0].generation:
                newest.append(parsed_slice)
        others = {key: pool for key, pool in self._unusable.items() if key not in relevant}
        pools = [self._pool(key, those, node) for key, those in relevant.items()]
        usable = [pool for pool in (*pools, *others.values()) if pool is not None]
        return sorted(usable, key=lambda pool: (_has_conditions(pool), pool.key))

    def _pool(self, key: PoolKey, relevant: Sequence[ParsedSlice], node: Node) -> DevicePool | None:
        generation = relevant[0].generation
        everything = [self._slices[name] for name in sorted(self._of_pool[key])]
        if len(relevant) != relevant[0].slice_count:
            if any(parsed_slice.generation > generation for parsed_slice in everything):
                return None  # the driver is replacing it, and the newer slices have nothing for this node
            everything = [
                parsed_slice for parsed_slice in everything if parsed_slice.generation == generation
            ]
            if len(everything) != relevant[0].slice_count:
                return DevicePool(key, problem="is being updated")
        else:
            everything = list(relevant)
        return _built(key, relevant, everything, node)


def _has_conditions(pool: DevicePool) -> bool:
    """Return True if a device has to be prepared before a pod is bound: others are tried first."""
    return any(device.binding_conditions for device in pool.devices)


def _is_relevant(parsed_slice: ParsedSlice, node: Node) -> bool:
    if not parsed_slice.by_device:
        return reaches(parsed_slice.nodes, node)
    return any(reaches(device.nodes, node) for device in parsed_slice.devices)


def _built(
    key: PoolKey, relevant: Sequence[ParsedSlice], everything: Sequence[ParsedSlice], node: Node
) -> DevicePool:
    counters: Counters = {}
    for parsed_slice in relevant:
        if parsed_slice.problem:
            return DevicePool(key, problem=f"is invalid: {parsed_slice.problem}")
        if {name for name, _ in parsed_slice.counters} & {name for name, _ in counters}:
            return DevicePool(key, problem="is invalid: a counter set is there twice")
        counters.update(parsed_slice.counters)
    devices = [device for parsed_slice in relevant for device in parsed_slice.devices]
    if len({device.key for device in devices}) != len(devices):
        return DevicePool(key, problem="is invalid: two devices have the same name")
    all_devices = tuple(device for parsed_slice in everything for device in parsed_slice.devices)
    for device in all_devices:
        for counter_set, consumed in device.counters:
            if any((counter_set, name) not in counters for name, _ in consumed):
                return DevicePool(key, problem=f"is invalid: {device.key[2]} consumes an unknown counter")
    return DevicePool(
        key,
        tuple(device for device in devices if reaches(device.nodes, node)),
        all_devices,
        counters,
    )

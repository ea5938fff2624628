"""Devices of a pool in exact amounts, as their slices state them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from weir.kubernetes.api.objects import NodeSelector
from weir.kubernetes.api.resource_objects import AttributeValue, CapacityValue, ResourceSlice, SliceDevice
from weir.kubernetes.claims.cel.quantities import quantity_of
from weir.kubernetes.claims.cel.values import DefaultMap, semver_of
from weir.kubernetes.translate.quantities import exact

DeviceKey = tuple[str, str, str]
"""Driver, pool and name of a device."""
Amounts = Mapping[str, Fraction]
BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class CapacityRule:
    """A capacity of a device, and the amounts that a request may take of it."""

    value: Fraction
    default: Fraction | None = None
    valid_values: tuple[Fraction, ...] = ()
    least: Fraction | None = None
    most: Fraction | None = None
    step: Fraction | None = None
    has_range: bool = False


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """Nodes that reach a device: one by name, those of a selector, or all."""

    name: str = ""
    selector: NodeSelector | None = None
    everywhere: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PoolDevice:
    """A device of a pool. Devices of equal `content` match the same selectors."""

    key: DeviceKey
    attributes: Mapping[str, AttributeValue]
    capacity: Mapping[str, CapacityRule]
    counters: tuple[tuple[str, tuple[tuple[str, Fraction], ...]], ...]
    taints: tuple[tuple[str, str, str], ...]  # key, value and effect
    shareable: bool
    binds_to_node: bool
    binding_conditions: tuple[str, ...]
    failure_conditions: tuple[str, ...]
    nodes: NodeChoice
    content: str
    values: Mapping[str, Any] = field(default_factory=dict)  # as selectors see it

    def attribute(self, name: str) -> tuple[str, tuple[Any, ...]] | None:
        """Return the kind and the values of an attribute by its full name; None without it."""
        written = self.attributes.get(name)
        if written is None:
            domain, _, identifier = name.partition("/")
            if domain != self.key[0]:
                return None
            written = self.attributes.get(identifier)
        return None if written is None else _typed(written)


def device_of(resource_slice: ResourceSlice, written: SliceDevice) -> PoolDevice:
    """Return a device of a slice.

    Raises:
        ValueError: an amount can't be read.
        CelError: a version isn't a semantic version.
    """
    spec = resource_slice.spec
    source = written if spec.per_device_node_selection else spec
    capacity = {name: _capacity(amount) for name, amount in written.capacity.items()}
    return PoolDevice(
        key=(spec.driver, spec.pool.name, written.name),
        attributes=written.attributes,
        capacity=capacity,
        counters=tuple(
            (
                consumption.counter_set,
                tuple((name, exact(value.value)) for name, value in consumption.counters.items()),
            )
            for consumption in written.consumes_counters
        ),
        taints=tuple(
            (taint.key, taint.value, taint.effect)
            for taint in written.taints
            if taint.effect in BLOCKING_EFFECTS
        ),
        shareable=written.allow_multiple_allocations,
        binds_to_node=written.binds_to_node,
        binding_conditions=tuple(written.binding_conditions),
        failure_conditions=tuple(written.binding_failure_conditions),
        nodes=NodeChoice(source.node_name or "", source.node_selector, source.all_nodes),
        content=_content(spec.driver, written),
        values=_values(spec.driver, written),
    )


def _capacity(written: CapacityValue) -> CapacityRule:
    policy = written.request_policy
    value = exact(written.value)
    if policy is None:
        return CapacityRule(value)
    limits = policy.valid_range
    return CapacityRule(
        value,
        None if policy.default is None else exact(policy.default),
        tuple(map(exact, policy.valid_values or ())),
        None if limits is None or limits.min is None else exact(limits.min),
        None if limits is None or limits.max is None else exact(limits.max),
        None if limits is None or limits.step is None else exact(limits.step),
        limits is not None,
    )


def _typed(written: AttributeValue) -> tuple[str, tuple[Any, ...]] | None:
    """Return the kind and the values of an attribute; a single one is a set of one; None without a value."""
    single = (
        ("int", written.int_),
        ("bool", written.bool_),
        ("string", written.string),
        ("version", written.version),
    )
    several = (
        ("int", written.ints),
        ("bool", written.bools),
        ("string", written.strings),
        ("version", written.versions),
    )
    for kind, values in several:
        if values:
            return kind, tuple(values)
    for kind, value in single:
        if value is not None:
            return kind, (value,)
    return None


def _values(driver: str, written: SliceDevice) -> Mapping[str, Any]:
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in written.attributes.items():
        typed = _typed(attribute)
        if typed is None:
            continue
        kind, values = typed
        read = [semver_of(value) if kind == "version" else value for value in values]
        domain, identifier = _qualified(name, driver)
        is_list = any((attribute.ints, attribute.bools, attribute.strings, attribute.versions))
        attributes.setdefault(domain, {})[identifier] = read if is_list else read[0]
    amounts: dict[str, dict[str, Any]] = {}
    for name, amount in written.capacity.items():
        domain, identifier = _qualified(name, driver)
        amounts.setdefault(domain, {})[identifier] = quantity_of(str(amount.value))
    return {
        "driver": driver,
        "allowMultipleAllocations": written.allow_multiple_allocations,
        "attributes": DefaultMap(attributes),
        "capacity": DefaultMap(amounts),
    }


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _content(driver: str, written: SliceDevice) -> str:
    attributes = sorted((name, _typed(value)) for name, value in written.attributes.items())
    capacity = sorted((name, str(value.value)) for name, value in written.capacity.items())
    return repr((driver, attributes, capacity, written.allow_multiple_allocations))

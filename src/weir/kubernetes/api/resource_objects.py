"""Structs of dynamic resource allocation (resource.k8s.io/v1), as the API server sends them."""

from typing import Any

from msgspec import field

from weir.kubernetes.api.objects import ApiStruct, Metadata, NodeSelector

RESOURCE_API = "resource.k8s.io/v1"
Amount = str | int | float


class AttributeValue(ApiStruct):
    """Value of a device's attribute; one of the fields is set."""

    int_: int | None = field(default=None, name="int")
    bool_: bool | None = field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: list[int] | None = None
    bools: list[bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None


class RequestRange(ApiStruct):
    """Amounts that may be requested of a capacity."""

    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class RequestPolicy(ApiStruct):
    """Rule of the requests of a capacity."""

    default: Amount | None = None
    valid_values: list[Amount] | None = None
    valid_range: RequestRange | None = None


class CapacityValue(ApiStruct):
    """Capacity of a device."""

    value: Amount
    request_policy: RequestPolicy | None = None


class CounterValue(ApiStruct):
    """A counter."""

    value: Amount


class CounterSet(ApiStruct):
    """Counters that devices of a pool share."""

    name: str
    counters: dict[str, CounterValue] = field(default_factory=dict)


class CounterConsumption(ApiStruct):
    """Counters that a device consumes of a set."""

    counter_set: str
    counters: dict[str, CounterValue] = field(default_factory=dict)


class DeviceTaint(ApiStruct):
    """A taint of a device."""

    key: str
    effect: str
    value: str = ""


class DeviceTaintSelector(ApiStruct):
    """The devices that a rule taints; a field that isn't set selects all.

    The class and the selectors are of releases before 1.35.
    """

    device_class_name: str | None = None
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    selectors: list["DeviceSelector"] = field(default_factory=list)


class DeviceTaintRuleSpec(ApiStruct):
    """Spec of a rule."""

    taint: DeviceTaint
    device_selector: DeviceTaintSelector | None = None


class DeviceTaintRule(ApiStruct):
    """A rule that taints devices, whichever slice has them."""

    metadata: Metadata
    spec: DeviceTaintRuleSpec


class SliceDevice(ApiStruct):
    """A device of a slice."""

    name: str
    attributes: dict[str, AttributeValue] = field(default_factory=dict)
    capacity: dict[str, CapacityValue] = field(default_factory=dict)
    consumes_counters: list[CounterConsumption] = field(default_factory=list)
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: list[DeviceTaint] = field(default_factory=list)
    binds_to_node: bool = False
    binding_conditions: list[str] = field(default_factory=list)
    binding_failure_conditions: list[str] = field(default_factory=list)
    allow_multiple_allocations: bool = False


class SlicePool(ApiStruct):
    """The pool that a slice is part of."""

    name: str
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(ApiStruct):
    """Spec of a slice."""

    driver: str
    pool: SlicePool
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    devices: list[SliceDevice] = field(default_factory=list)
    per_device_node_selection: bool = False
    shared_counters: list[CounterSet] = field(default_factory=list)


class ResourceSlice(ApiStruct):
    """Devices of a driver."""

    metadata: Metadata
    spec: SliceSpec


class CelSelector(ApiStruct):
    """An expression that selects devices."""

    expression: str = ""


class DeviceSelector(ApiStruct):
    """A selector of devices."""

    cel: CelSelector | None = None


class DeviceClassSpec(ApiStruct):
    """Spec of a device class."""

    selectors: list[DeviceSelector] = field(default_factory=list)
    config: list[dict[str, Any]] = field(default_factory=list)
    extended_resource_name: str | None = None


class DeviceClass(ApiStruct):
    """A class of devices."""

    metadata: Metadata
    spec: DeviceClassSpec = field(default_factory=DeviceClassSpec)


class DeviceToleration(ApiStruct):
    """A toleration of taints of devices."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(ApiStruct):
    """Amounts requested of each device's capacity."""

    requests: dict[str, Amount] = field(default_factory=dict)


class ExactRequest(ApiStruct):
    """Devices requested of one class; a subrequest has a name of its own."""

    device_class_name: str = ""
    name: str = ""
    selectors: list[DeviceSelector] = field(default_factory=list)
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: list[DeviceToleration] = field(default_factory=list)
    capacity: CapacityRequirements | None = None


class DeviceRequest(ApiStruct):
    """A request of a claim: exact, or the first available of several."""

    name: str
    exactly: ExactRequest | None = None
    first_available: list[ExactRequest] = field(default_factory=list)


class DeviceConstraint(ApiStruct):
    """A constraint over the devices of several requests."""

    requests: list[str] = field(default_factory=list)
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class ClaimDevices(ApiStruct):
    """The devices that a claim requests."""

    requests: list[DeviceRequest] = field(default_factory=list)
    constraints: list[DeviceConstraint] = field(default_factory=list)
    config: list[dict[str, Any]] = field(default_factory=list)


class ResourceClaimSpec(ApiStruct):
    """Spec of a claim."""

    devices: ClaimDevices = field(default_factory=ClaimDevices)


class ClaimTemplateSpec(ApiStruct):
    """Spec of the claims that are made from a template."""

    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(ApiStruct):
    """A template from which pods get claims of their own."""

    metadata: Metadata
    spec: ClaimTemplateSpec = field(default_factory=ClaimTemplateSpec)


class AllocatedDevice(ApiStruct):
    """A device that a claim has."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: dict[str, Amount] = field(default_factory=dict)


class AllocatedDevices(ApiStruct):
    """The devices that a claim has."""

    results: list[AllocatedDevice] = field(default_factory=list)


class ClaimAllocation(ApiStruct):
    """Allocation of a claim."""

    devices: AllocatedDevices = field(default_factory=AllocatedDevices)
    node_selector: NodeSelector | None = None


class ClaimConsumer(ApiStruct):
    """An object for which a claim is reserved."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(ApiStruct):
    """Status of a claim."""

    allocation: ClaimAllocation | None = None
    reserved_for: list[ClaimConsumer] = field(default_factory=list)


class ResourceClaim(ApiStruct):
    """A claim of devices."""

    metadata: Metadata
    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = field(default_factory=ResourceClaimStatus)

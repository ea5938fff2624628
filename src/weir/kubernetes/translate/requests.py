"""Requests of pods: from the fields of the API to a request that the engine can place.

Amounts follow Kubernetes' own formula, so that Weir counts the same amounts as the kubelet. A request that
can't be placed as written results in a sentence with the correct form; nothing is guessed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from weir.kubernetes.api.objects import Container, ContainerResources, KubePod, PodSpec
from weir.kubernetes.translate.annotations import Annotations
from weir.kubernetes.translate.claim_constraints import CLAIMED_DEVICES, NO_CLAIMS, ClaimConstraints
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.gpu_sharing import SHARING_TOLERATION, sharing_rules
from weir.kubernetes.translate.node_terms import terms
from weir.kubernetes.translate.pod_affinity import NO_AFFINITIES, PodAffinities
from weir.kubernetes.translate.quantities import amounts, in_unit
from weir.kubernetes.translate.resource_names import ResourceNames
from weir.kubernetes.translate.volumes import ANYWHERE, VolumeConstraints
from weir.model.nodes import Effect, Toleration
from weir.model.resources import ATTACHED_PREFIX, CPU, HOST_PORT_PREFIX, MEMORY
from weir.model.workloads import WHOLE_MILLI, NodeAffinityRule, NodeExpression, PodAffinityRule, Request

DEVICES_LABEL = "weir.dev/devices"
"""Label that Weir gives nodes internally: the device resource that they have."""
CLUSTER_LABEL = "weir.dev/cluster"
"""Internal label with the same value on all nodes, which makes one topology domain of them."""
ADDRESSES_MAX = 1 << 10
"""Units of a port over all addresses of a node: a listener on one address uses 1, a listener on all uses all.
"""
PLENTY = 1 << 20
_ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - nothing listens here
DEVICES_MAX = 1024
DEVICE_MEMORY_MAX = 1 << 50
"""Limit of the bytes of one device: a pebibyte, more than any device has."""
FAMILIAR_CLASSES = {
    "train": 50,
    "build-preemptible": 75,
    "interactive-preemptible": 75,
    "build": 100,
    "inference": 125,
}
"""Priority classes of KAI and Run:ai, which are known even if the cluster doesn't have them."""

Amounts = dict[str, Fraction]

_OF_THE_POD = ("cpu", "memory")
_HUGE = "hugepages-"
_EFFECTS: Mapping[str, Effect | None] = {
    "": None,
    "NoSchedule": "NoSchedule",
    "PreferNoSchedule": "PreferNoSchedule",
    "NoExecute": "NoExecute",
}


@dataclass(frozen=True, slots=True)
class PodRequest:
    """Request of a pod, and the other facts that its placement depends on."""

    request: Request
    refusals: tuple[str, ...] = ()  # reasons why it can't be placed, with remedies
    can_preempt: bool = True  # whether others may be evicted for it
    max_runtime_s: float | None = None
    grace_s: float | None = None


# Amounts


def requested(pod: KubePod) -> Amounts:
    """Return the resources that a pod uses of a node: its greatest need at any moment, and its overhead.

    Raises:
        ValueError: a quantity can't be read.
    """
    spec = pod.spec
    running: Amounts = {}
    for container in spec.containers:
        _add(running, _container_requests(container.resources))
    beside: Amounts = {}  # requests of the sidecars started before
    starting: Amounts = {}
    for container in spec.init_containers:
        needed = _container_requests(container.resources)
        if _is_sidecar(container):
            _add(beside, needed)
            _add(running, needed)
            _raise_to(starting, beside)
        else:
            _add(needed, beside)
            _raise_to(starting, needed)
    _raise_to(running, starting)
    if spec.resources is not None:
        stated = amounts(spec.resources.requests)
        running.update(
            (name, amount) for name, amount in stated.items() if name in _OF_THE_POD or name.startswith(_HUGE)
        )
    _add(running, amounts(spec.overhead))
    return running


def in_units(exactly: Mapping[str, Fraction], devices: DeviceResources) -> dict[str, int]:
    """Return amounts in the units that Weir counts in, without devices and zeros.

    Raises:
        ValueError: an amount is negative or can't be counted.
    """
    return {
        name: in_unit(name, amount)
        for name, amount in sorted(exactly.items())
        if amount and not devices.names(name)
    }


def _container_requests(resources: ContainerResources) -> Amounts:
    """Return the requests of a container; a limit counts as the request where that is missing."""
    return amounts({**resources.limits, **resources.requests})


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _add(to: Amounts, added: Mapping[str, Fraction]) -> None:
    for name, amount in added.items():
        to[name] = to.get(name, Fraction()) + amount


def _raise_to(to: Amounts, least: Mapping[str, Fraction]) -> None:
    for name, amount in least.items():
        to[name] = max(to.get(name, Fraction()), amount)


def host_ports(spec: PodSpec) -> dict[str, int]:
    """Return the node ports of a pod as resources: two pods collide if their addresses do."""
    sidecars = (container for container in spec.init_containers if _is_sidecar(container))
    taken: dict[str, int] = {}
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if not port.host_port:
                continue
            everywhere = f"{HOST_PORT_PREFIX}{port.protocol or 'TCP'}/{port.host_port}"
            if port.host_ip in _ANY_ADDRESS:
                taken[everywhere] = ADDRESSES_MAX
            elif f"{everywhere}/{port.host_ip}" not in taken:
                taken[f"{everywhere}/{port.host_ip}"] = 1
                taken[everywhere] = min(ADDRESSES_MAX, taken.get(everywhere, 0) + 1)
    return taken


def has_unstated(name: str) -> int | None:
    """Return a node's capacity of a resource that no node states: host ports, or volumes without a limit.

    The answer is None for other resources.
    """
    if name.startswith(ATTACHED_PREFIX):
        return PLENTY
    if not name.startswith(HOST_PORT_PREFIX):
        return None
    return 1 if name.count("/") > HOST_PORT_PREFIX.count("/") + 1 else ADDRESSES_MAX


def unstated_in_use(requests: Iterable[Request]) -> frozenset[str]:
    """Return the resources in these requests that no node states: every node has each of them."""
    return frozenset(
        name
        for request in requests
        for name, _ in request.further
        if name.startswith((HOST_PORT_PREFIX, ATTACHED_PREFIX))
    )


# Resource requests


def parse_request(
    pod: KubePod,
    annotations: Annotations,
    *,
    devices: DeviceResources,
    names: ResourceNames | None = None,
    volumes: VolumeConstraints = ANYWHERE,
    claims: ClaimConstraints = NO_CLAIMS,
    neighbours: PodAffinities = NO_AFFINITIES,
) -> PodRequest:
    """Return the request of a pod with its annotations, volumes, resource claims and affinities.

    `names` are the resources that may be asked for; None: any.
    """
    spec = pod.spec
    exactly, counted, refusals = _amounts(pod, devices)
    wanted, kinds = _kinds(exactly, devices, claims)
    count, share_milli, gpu_memory = _devices(wanted, annotations, refusals, is_claimed=claims.is_share)
    share, tolerated = bool(count) and not wanted, tolerations(spec)
    if share:
        tolerated += (SHARING_TOLERATION,)
        refusals += filter(None, (devices.no_shares,))
    cpu, memory = counted.pop(CPU, 0), counted.pop(MEMORY, 0)
    ports = host_ports(spec)
    if names is not None:
        refusals += [*names.leave_out(counted, claims.provided), *names.leave_out_ports(ports)]
    counted.update(ports)
    counted.update((*volumes.attached, *claims.needs))
    request = Request(
        devices=count,
        share_milli=claims.share_milli if claims.devices else share_milli,
        gpu_memory=gpu_memory,
        cpu_milli=cpu,
        memory=memory,
        further=tuple(sorted(counted.items())),
        node_selector=tuple(sorted(spec.node_selector.items())),
        tolerations=tolerated,
        gpu_weight_milli=claims.weight_milli if claims.devices else _weight(wanted, devices),
        rules=(
            *node_rules(spec),
            *volumes.rules,
            *claims.rules,
            *_of_the_kind(kinds, devices, is_share=share),
            *(sharing_rules(share=share, tolerations=tolerated) if count else ()),
        ),
        marks=(*neighbours.marks, *volumes.alone),
        pod_rules=(
            *neighbours.rules,
            *(PodAffinityRule("anti_affinity", mark, CLUSTER_LABEL) for mark in volumes.alone),
        ),
    )
    return PodRequest(
        request=request,
        refusals=tuple(refusals),
        can_preempt=spec.preemption_policy != "Never",
        max_runtime_s=_sooner(annotations.max_runtime_s, spec.active_deadline_seconds),
        grace_s=spec.termination_grace_period_seconds,
    )


def _amounts(
    pod: KubePod, devices: DeviceResources
) -> tuple[Mapping[str, Fraction], dict[str, int], list[str]]:
    """Return the request of a pod, exact and in Weir's units, and the reason why it can't be placed."""
    refusals = []
    try:
        exactly = requested(pod)
        counted = in_units(exactly, devices)
    except ValueError as error:
        exactly, counted = {}, {}
        refusals.append(str(error))
    return exactly, counted, refusals


def _kinds(
    exactly: Mapping[str, Fraction], devices: DeviceResources, claims: ClaimConstraints
) -> tuple[dict[str, int], frozenset[str]]:
    """Return the devices that a pod requests by kind, and the kinds of nodes that may have them."""
    wanted = {
        name: int(amount)
        for name, amount in exactly.items()
        if amount and devices.names(name) and name not in claims.counted
    }
    wanted |= {CLAIMED_DEVICES: claims.devices} if claims.devices else {}
    provided = {CLAIMED_DEVICES} if wanted.keys() & set(claims.provided) else set()
    return wanted, frozenset(wanted.keys() | provided)


def _devices(
    wanted: Mapping[str, int], annotations: Annotations, refusals: list[str], *, is_claimed: bool
) -> tuple[int, int, int]:
    """Return the number of devices, the fraction of each and the memory of each."""
    several = " and ".join(sorted(wanted))
    if len(wanted) > 1:
        refusals.append(f"it asks for {several}, and no node has both: ask for one of them")
    count = sum(wanted.values())
    if count > DEVICES_MAX:
        refusals.append(f"it asks for {count} devices, more than a node can have: ask for fewer in more pods")
        count = DEVICES_MAX
    part = annotations.fraction_milli or annotations.gpu_memory
    if not part or is_claimed:
        return count, WHOLE_MILLI, 0
    if count:
        whole = f"it asks for a part of a device and for whole ones ({several})"
        refusals.append(f"{whole}: take {several} out of resources, or the fraction out of the annotations")
        return count, WHOLE_MILLI, 0
    shared = annotations.devices or 1
    return (
        (shared, annotations.fraction_milli, 0)
        if annotations.fraction_milli
        else (shared, 0, annotations.gpu_memory or 0)
    )


def _weight(wanted: Mapping[str, int], devices: DeviceResources) -> int:
    """Return the thousandths of a GPU that each device of a pod counts as."""
    return max((devices.gpu_weight_milli(name) for name in wanted), default=WHOLE_MILLI)


def _of_the_kind(
    kinds: Collection[str], devices: DeviceResources, *, is_share: bool
) -> tuple[NodeAffinityRule, ...]:
    """Return the node affinity that keeps a pod off nodes with devices of another kind.

    A share is cut from a whole GPU, so it stays off nodes whose devices are parts of one.
    """
    others = tuple(sorted(devices.present - set(kinds))) if kinds else ()
    if is_share:
        weighted = (
            name
            for name in devices.present
            if name == CLAIMED_DEVICES or devices.gpu_weight_milli(name) != WHOLE_MILLI
        )
        others = tuple(sorted(weighted))
    return (NodeAffinityRule(((NodeExpression(DEVICES_LABEL, "NotIn", others),),)),) if others else ()


def _sooner(*spans: float | None) -> float | None:
    stated = [float(span) for span in spans if span is not None]
    return min(stated) if stated else None


# Nodes


def node_rules(spec: PodSpec) -> tuple[NodeAffinityRule, ...]:
    """Return the node affinity of a pod: required terms, then preferred ones."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None:
        return ()
    must = (
        () if affinity.required is None else (NodeAffinityRule(terms(affinity.required.node_selector_terms)),)
    )
    likes = (
        NodeAffinityRule(node_terms, preferred.weight)
        for preferred in affinity.preferred
        if preferred.weight > 0 and (node_terms := terms([preferred.preference]))
    )
    return (*must, *likes)


def tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod; one that can't be read tolerates nothing."""
    return tuple(
        dict.fromkeys(
            Toleration(toleration.key, "Exists", "", _EFFECTS[toleration.effect])
            if toleration.operator == "Exists"
            else Toleration(toleration.key, "Equal", toleration.value, _EFFECTS[toleration.effect])
            for toleration in spec.tolerations
            if toleration.effect in _EFFECTS and toleration.operator in ("", "Equal", "Exists")
        )
    )


# Other fields


def gates(pod: KubePod) -> str | None:
    """Return the scheduling gates of a pod as a sentence; None without any."""
    names = [gate.name for gate in pod.spec.scheduling_gates]
    if not names:
        return None
    return f"waits for its scheduling gate{'s' if len(names) > 1 else ''} {', '.join(names)}"


def priority_of(pod: KubePod, annotations: Annotations, classes: Mapping[str, int]) -> int | None:
    """Return the priority of a pod's class; None without a class, so that the type's default holds."""
    named, priority = pod.spec.priority_class_name, pod.spec.priority
    if named:
        return priority if priority is not None else classes.get(named)
    if annotations.priority_class:
        return classes.get(annotations.priority_class, FAMILIAR_CLASSES.get(annotations.priority_class))
    return None

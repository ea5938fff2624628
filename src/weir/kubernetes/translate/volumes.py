"""Constraints of a pod's volumes, and the writes they need before a binding.

A claim that is bound ties the pod to the nodes its volume can be reached from. One that waits for its
first pod leaves the choice to the scheduler: within what its class allows, or where a volume that fits lies
ready. Then the choice is written on the claim, or the volume given to it, before the pod is bound.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from weir.engine.placement.feasibility import matches_affinity
from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.api.volume_objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from weir.kubernetes.translate.node_terms import terms
from weir.kubernetes.translate.quantities import exact
from weir.kubernetes.translate.selectors import selector
from weir.model.nodes import Node
from weir.model.resources import ATTACHED_PREFIX
from weir.model.workloads import NODE_NAME, ONE_POD_CLAIM, NodeAffinityRule, NodeExpression

FIRST_POD = "WaitForFirstConsumer"
ONE_POD = "ReadWriteOncePod"
"""The access mode of a claim that one pod at a time may use."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The annotation of a claim by which a provisioner learns where its volume is wanted."""
BOUND_BY = "pv.kubernetes.io/bound-by-controller"
ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
"""Labels of a volume that say where it is, from before volumes had a node affinity."""


@dataclass(frozen=True, slots=True)
class VolumeConstraints:
    """Nodes a pod must be on for its volumes, or why it can't be anywhere yet.

    `alone` are marks of those pods it must not be beside anywhere: they use what one pod at a time may use.
    """

    rules: tuple[NodeAffinityRule, ...] = ()
    waits: str | None = None
    alone: tuple[str, ...] = ()
    attached: tuple[tuple[str, int], ...] = ()  # volume slots of a node, as resources


ANYWHERE = VolumeConstraints()


@dataclass(frozen=True, slots=True)
class VolumeInventory:
    """Volumes, claims and storage classes."""

    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = field(
        default_factory=dict
    )  # by namespace and name
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)
    limited: frozenset[str] = frozenset()  # drivers that limit the volumes of a node


@dataclass(frozen=True, slots=True)
class SelectNode:
    """Write on a claim which node its volume is wanted for (`SELECTED_NODE`)."""

    namespace: str
    claim: str
    node: str


@dataclass(frozen=True, slots=True)
class BindVolume:
    """Give a volume that lies ready to a claim: its `claimRef`, and `BOUND_BY` as an annotation."""

    volume: str
    namespace: str
    claim: str
    claim_uid: str


Write = SelectNode | BindVolume


def claims_of(pod: KubePod) -> tuple[str, ...]:
    """Return the names of the claims of a pod, all in its namespace."""
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return tuple(dict.fromkeys(names))


def volume_constraints(pod: KubePod, inventory: VolumeInventory) -> VolumeConstraints:
    """Return the constraints of a pod's volumes."""
    rules: list[NodeAffinityRule] = []
    names, namespace = claims_of(pod), pod.metadata.namespace
    if not names:
        return ANYWHERE
    claims = [(namespace, name) for name in names]
    alone, attached = exclusive_claims(claims, inventory), attached_by(claims, inventory)
    for name in names:
        reach = _reach(namespace, name, inventory)
        if isinstance(reach, str):
            return VolumeConstraints((), reach, alone, attached)
        rules += reach
    return VolumeConstraints(tuple(dict.fromkeys(rules)), None, alone, attached)


def exclusive_claims(claims: Iterable[tuple[str, str]], inventory: VolumeInventory) -> tuple[str, ...]:
    """Return the label sets of the users of those claims (namespace, name) that one pod at a time may use."""
    return tuple(
        sorted(
            f"{ONE_POD_CLAIM}{name} of {namespace}, which only one pod may use at a time"
            for namespace, name in claims
            if (claim := inventory.claims.get((namespace, name))) is not None
            and ONE_POD in claim.spec.access_modes
        )
    )


def attached_by(claims: Iterable[tuple[str, str]], inventory: VolumeInventory) -> tuple[tuple[str, int], ...]:
    """Return the limited attachments that the volumes of these claims (namespace, name) take of a node."""
    if not inventory.limited:
        return ()
    counts = Counter(driver for claim in claims if (driver := _driver(claim, inventory)) in inventory.limited)
    return tuple(sorted((f"{ATTACHED_PREFIX}{driver}", count) for driver, count in counts.items()))


def _driver(claim_key: tuple[str, str], inventory: VolumeInventory) -> str:
    """Return the driver of a claim's volume, existing or still to be made; "" without one."""
    claim = inventory.claims.get(claim_key)
    if claim is None:
        return ""
    if claim.spec.volume_name:
        volume = inventory.volumes.get(claim.spec.volume_name)
        return "" if volume is None or volume.spec.csi is None else volume.spec.csi.driver
    storage_class = inventory.classes.get(claim.spec.storage_class_name or "")
    return "" if storage_class is None else storage_class.provisioner


def before_bind(pod: KubePod, node: Node, inventory: VolumeInventory) -> tuple[Write, ...] | str:
    """Return the writes before a binding to a node, or a sentence why the pod can't be bound there."""
    writes: list[Write] = []
    taken: set[str] = set()
    namespace = pod.metadata.namespace
    for name in claims_of(pod):
        reach = _reach(namespace, name, inventory)
        if isinstance(reach, str):
            return reach
        if not all(matches_affinity(node, rule) for rule in reach):
            return f"the volume of claim {name} can't be reached from {node.name}"
        claim = inventory.claims[namespace, name]
        if claim.spec.volume_name:
            continue
        ready = [
            volume
            for volume in _ready(claim, inventory)
            if volume.metadata.name not in taken and _reaches(volume, node)
        ]
        if ready:
            best = min(ready, key=lambda volume: (_size(volume), volume.metadata.name))
            taken.add(best.metadata.name)
            writes.append(BindVolume(best.metadata.name, namespace, name, claim.metadata.uid))
        elif _class(claim, inventory).provisioner == NO_PROVISIONER:
            return f"no volume that fits claim {name} is left on {node.name}"
        elif claim.metadata.annotations.get(SELECTED_NODE) != node.name:
            writes.append(SelectNode(namespace, name, node.name))
    return tuple(writes)


def _reach(namespace: str, name: str, inventory: VolumeInventory) -> list[NodeAffinityRule] | str:
    """Return the rules of nodes for one claim, or the reason why it has none yet."""
    claim = inventory.claims.get((namespace, name))
    if claim is None:
        return f"waits for its volume claim {name}, which doesn't exist: create it, or name one that does"
    if claim.metadata.deletion_timestamp is not None:
        return f"waits for its volume claim {name}, which is being deleted: create it again when it is gone"
    if claim.spec.volume_name:
        return _bound(claim, inventory)
    storage_class = inventory.classes.get(claim.spec.storage_class_name or "")
    if storage_class is None or storage_class.volume_binding_mode != FIRST_POD:
        see = f"kubectl describe pvc {name} shows the cause"
        return f"waits for its volume claim {name} to be bound: {see}"
    return _waiting(claim, storage_class, inventory)


def _bound(claim: PersistentVolumeClaim, inventory: VolumeInventory) -> list[NodeAffinityRule] | str:
    """Return the rules of nodes for a claim that names its volume."""
    name, named = claim.metadata.name, claim.spec.volume_name
    if claim.status.phase == "Lost":
        return f"its volume claim {name} has lost its volume {named}: create another claim"
    volume = inventory.volumes.get(named)
    if volume is None or claim.status.phase != "Bound":
        return f"waits for its volume claim {name} to be bound to {named}"
    return _rules_of(volume)


def _waiting(
    claim: PersistentVolumeClaim, storage_class: StorageClass, inventory: VolumeInventory
) -> list[NodeAffinityRule] | str:
    """Return the rules of nodes at which a claim that waits for its first pod can get a volume."""
    selected = claim.metadata.annotations.get(SELECTED_NODE)
    if selected:  # a scheduler has chosen this node before, and its volume is being made
        return [NodeAffinityRule(((NodeExpression(NODE_NAME, "In", (selected,)),),))]
    can_be_made = storage_class.provisioner != NO_PROVISIONER
    if can_be_made and not storage_class.allowed_topologies:
        return []
    allowed = [
        tuple(
            NodeExpression(requirement.key, "In", tuple(requirement.values))
            for requirement in term.match_label_expressions
        )
        for term in (storage_class.allowed_topologies if can_be_made else ())
    ]
    ready = _ready(claim, inventory)
    if not can_be_made and not ready:
        name, class_name = claim.metadata.name, storage_class.metadata.name
        return f"waits for a volume of class {class_name} that fits its claim {name}: create one"
    for volume in ready:
        rules = _rules_of(volume)
        if not rules:
            return []
        allowed += rules[0].terms  # further rules are checked before the binding
    return [NodeAffinityRule(tuple(dict.fromkeys(allowed)))]


def _rules_of(volume: PersistentVolume) -> list[NodeAffinityRule]:
    """Return the rules of nodes that reach a volume."""
    rules = []
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        rules.append(NodeAffinityRule(terms(affinity.required.node_selector_terms)))
    for label in ZONE_LABELS:
        if label in volume.metadata.labels:
            values = tuple(sorted(volume.metadata.labels[label].split("__")))
            rules.append(NodeAffinityRule(((NodeExpression(label, "In", values),),)))
    return rules


def _reaches(volume: PersistentVolume, node: Node) -> bool:
    return all(matches_affinity(node, rule) for rule in _rules_of(volume))


def _ready(claim: PersistentVolumeClaim, inventory: VolumeInventory) -> list[PersistentVolume]:
    """Return free volumes that fit a claim."""
    named = claim.spec.storage_class_name or ""
    return [
        volume
        for volume in inventory.volumes.values()
        if volume.spec.storage_class_name == named
        and _is_free_for(volume, claim)
        and _would_do(volume, claim)
    ]


def _is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    if volume.metadata.deletion_timestamp is not None:
        return False
    claimed, asking = volume.spec.claim_ref, claim.metadata
    if claimed is None:
        return True
    return (claimed.name, claimed.namespace) == (asking.name, asking.namespace) and claimed.uid in (
        "",
        asking.uid,
    )


def _would_do(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    has, wants = volume.spec, claim.spec
    chosen = selector(wants.selector, {})
    return (
        has.volume_mode == wants.volume_mode
        and set(wants.access_modes) <= set(has.access_modes)
        and (chosen is None or chosen.holds(volume.metadata.labels))
        and _size(volume) >= exact(wants.resources.requests.get("storage", 0))
    )


def _size(volume: PersistentVolume) -> Fraction:
    return exact(volume.spec.capacity.get("storage", 0))


def _class(claim: PersistentVolumeClaim, inventory: VolumeInventory) -> StorageClass:
    return inventory.classes[claim.spec.storage_class_name or ""]

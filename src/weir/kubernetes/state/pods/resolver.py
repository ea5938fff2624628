"""Resolution of pods: their workload, request and constraints, from the pod, its owners and volumes.

The result is a pure function of the objects known at the moment, so the order of their changes has no effect.
A change of an object only marks the pods that have to be read again (`stale`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from weir.kubernetes.api.object_numbers import seconds_of
from weir.kubernetes.api.objects import KubePod, Namespace, OwnerReference, PriorityClass
from weir.kubernetes.api.volume_objects import CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass
from weir.kubernetes.state.claims.resource_claims import ResourceClaims
from weir.kubernetes.state.keyed_members import drop, keep
from weir.kubernetes.state.owners.chain import Body, OwnerChain
from weir.kubernetes.state.owners.foreign_pods import ForeignMembers, ForeignPods
from weir.kubernetes.state.owners.index import Owners, pod_body
from weir.kubernetes.state.owners.pod_info import PodInfo
from weir.kubernetes.state.owners.scheduling_groups import SchedulingGroups, is_native
from weir.kubernetes.state.owners.stated import stated_by
from weir.kubernetes.state.pods.interned import InternedPods, reads_alike
from weir.kubernetes.state.pods.requests import NO_CONSTRAINTS, PodConstraints, PodRequests
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.gates import CLAIM, GATED, OWNER_MISSING, REFUSED, VOLUME
from weir.kubernetes.translate.kinds import GangKey, WorkloadKinds
from weir.kubernetes.translate.pod_affinity import NO_AFFINITIES, PodSelectors
from weir.kubernetes.translate.requests import gates, priority_of
from weir.kubernetes.translate.volumes import (
    ANYWHERE,
    VolumeInventory,
    attached_by,
    claims_of,
    exclusive_claims,
    volume_constraints,
)
from weir.model.reasons import as_sentence
from weir.model.resources import ATTACHED_PREFIX

_OVER = ("Succeeded", "Failed")
SPARE = 20_000
"""Number of texts and specs that may be kept after their last pod is gone."""


class PodResolver:
    """Resolves pods with their owners, volumes, claims and namespaces into `PodInfo`."""

    def __init__(self, kinds: WorkloadKinds, devices: DeviceResources) -> None:
        self.owners = Owners(kinds, self._owning_pod)
        self.others = ForeignPods(self.owners)
        self.devices = devices
        self.resource_claims = ResourceClaims(devices)
        self.marks = PodSelectors()
        self.stale: set[str] = set()  # pods to translate again
        self.groups = SchedulingGroups(self.stale)
        self.remarked: set[str] = set()  # foreign pods whose label sets changed
        self._pods: dict[str, KubePod] = {}
        self._key_of: dict[str, str] = {}  # keys by uid, of pods with label sets
        self._uid_of: dict[str, str] = {}
        self._interned = InternedPods(self.owners.shared)
        self._requests = PodRequests()
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._users: dict[tuple[str, str], set[str]] = {}  # pods by claim
        self._others_use: dict[str, tuple[tuple[str, str], ...]] = {}  # claims by foreign pod
        self._limited: Counter[str] = Counter()  # number of nodes with a volume limit, by driver
        self._limits: dict[str, dict[str, int]] = {}  # volume limits by node and driver
        self.priorities: dict[str, int] = {}

    @property
    def inventory(self) -> VolumeInventory:
        """Return the volumes, with the facts known about them."""
        return VolumeInventory(self._claims, self._volumes, self._classes, frozenset(self._limited))

    # Pods

    def see(self, key: str, pod: KubePod, *, over: bool = False) -> bool:
        """Process one of Weir's pods; an ended pod has no label sets any more.

        Returns True if no fact about the pod changes, so that it needn't be read again. Most changes of a pod
        (it is bound, it runs) don't affect its request.
        """
        before = self._pods.get(key)
        self._interned.shrink_metadata(pod.metadata)
        if over:
            self.forget_marks(key)
        else:
            self._see_marks(key, pod)
        self.resource_claims.use(key, pod, over=over)
        self._pods[key] = self._interned.with_shared_spec(pod)  # stored without its node name
        self._owner_changed(pod.metadata.uid)
        self.groups.note(key, pod.metadata.namespace, pod.spec)
        for name in claims_of(pod):
            self._users.setdefault((pod.metadata.namespace, name), set()).add(key)
        if not over and before is not None and reads_alike(before, pod):
            return key not in self.stale
        self.stale.add(key)
        return False

    def forget(self, key: str) -> None:
        """Forget a pod."""
        if key in self._pods:
            self._leave(key)
            self._tidy()

    def drop(self, key: str) -> None:
        """Forget a pod that couldn't be processed, even in part."""
        self._leave(key)
        self.forget_other(key)

    def _leave(self, key: str) -> None:
        """Forget one of Weir's pods, if it is known."""
        self.stale.discard(key)
        self.resource_claims.forget(key)
        self.groups.forget(key)
        pod = self._pods.pop(key, None)
        if pod is not None:
            for name in claims_of(pod):
                drop(self._users, (pod.metadata.namespace, name), key)
        self.forget_marks(key)
        self.owners.leave(key)
        if pod is not None:
            self._owner_changed(pod.metadata.uid)

    def see_other(self, key: str, pod: KubePod) -> None:
        """Record a pod of another scheduler: it may be a member of a workload, or own pods."""
        if self.others.see(key, pod):
            self._owner_changed(pod.metadata.uid)

    def forget_other(self, key: str) -> None:
        """Forget a pod of another scheduler."""
        uid = self.others.forget(key)
        if uid:
            self._owner_changed(uid)

    def members(self, gang: GangKey) -> ForeignMembers:
        """Return the members of a workload that other schedulers place."""
        if is_native(gang.api_version):
            return self.others.members_of_group(gang)
        return self.others.members(gang.namespace, gang.uid, gang.gang)

    def take_touched(self, namespaces: Iterable[str]) -> set[str]:
        """Return the uids of owners whose pods have changed, in namespaces that have workloads."""
        touched = self.others.settle(namespaces) | self.owners.touched
        self.owners.touched.clear()
        touched.update(self.groups.uids(self.others.take_groups()))
        return touched

    def take_stale(self) -> set[str]:
        """Return the pods to be read again, and forget them."""
        stale = set(self.stale)
        self.stale.clear()
        return stale

    def see_foreign(self, key: str, pod: KubePod) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
        """Process a foreign pod; return its label sets and its volumes' limited attachments."""
        self._see_marks(key, pod)
        claims = tuple((pod.metadata.namespace, name) for name in claims_of(pod))
        if claims:
            self._others_use[key] = claims
            for claim in claims:
                self._users.setdefault(claim, set()).add(key)
        return self.of_others(key)

    def forget_marks(self, key: str) -> None:
        """Forget the label sets of a pod that was deleted or has ended."""
        uid = self._uid_of.pop(key, None)
        if uid is not None:
            self._key_of.pop(uid, None)
            self.marks.forget(uid)
        for claim in self._others_use.pop(key, ()):
            drop(self._users, claim, key)
        self.remarked.discard(key)

    def of_others(self, key: str) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
        """Return the label sets of a foreign pod, and its volumes' limited attachments."""
        marks, claims = self.marks.affinities_of(self._uid_of[key]).marks, self._others_use.get(key)
        if claims is None:
            return marks, ()
        return (*marks, *exclusive_claims(claims, self.inventory)), attached_by(claims, self.inventory)

    def _see_marks(self, key: str, pod: KubePod) -> None:
        uid = pod.metadata.uid
        if self._uid_of.get(key, uid) != uid:
            self.forget_marks(key)
        self._uid_of[key], self._key_of[uid] = uid, key
        self._again(self.marks.see(pod))
        self.remarked.discard(key)

    def _again(self, uids: Iterable[str]) -> None:
        self._look_at(self._key_of[uid] for uid in uids if uid in self._key_of)

    def _look_at(self, keys: Iterable[str]) -> None:
        for key in keys:
            (self.stale if key in self._pods else self.remarked).add(key)

    def _tidy(self) -> None:
        """Drop shared values once most of their pods must be gone; live ones are shared again."""
        most = SPARE + 8 * len(self._pods)
        if self._interned.forget_texts(most) or len(self._requests) > most:
            self._forget_requests()  # keyed by the identity of specs
            self._interned.specs.clear()

    # Objects that pods refer to

    def see_owner(self, body: Body) -> None:
        """Process an owner; `body` has the form that `WorkloadKinds.narrow` returns."""
        self._read_again(self.owners.see(body))

    def forget_owner(self, uid: str) -> None:
        """Forget an owner."""
        self._read_again(self.owners.forget(uid))

    def _owner_changed(self, uid: str) -> None:
        """Record a change of a pod that may own other pods."""
        if self.owners.is_above(uid):
            self._read_again(self.owners.changed(uid))

    def _read_again(self, keys: set[str]) -> None:
        tracked_keys = keys & self._pods.keys()
        self.stale |= tracked_keys
        self.others.look_again(keys - tracked_keys)

    def _owning_pod(self, namespace: str, reference: OwnerReference) -> Body | None:
        """Return a pod that owns others, as an object of the API; None if it is unknown."""
        key = f"{namespace}/{reference.name}"
        pod = self._pods.get(key)
        if pod is not None and pod.metadata.uid == reference.uid:
            return pod_body(pod.metadata, pod.status.phase)
        return self.others.body(key, reference.uid)

    def see_namespace(self, name: str, namespace: Namespace | None) -> None:
        """Process a changed or deleted (None) namespace.

        Selectors of pods may choose namespaces by their labels.
        """
        self._again(self.marks.namespace(name, None if namespace is None else namespace.metadata.labels))

    def see_claim(self, key: str, claim: PersistentVolumeClaim | None) -> None:
        """Process a changed or deleted (None) volume claim."""
        namespace, _, name = key.partition("/")
        keep(self._claims, (namespace, name), claim)
        self._look_at(self._users.get((namespace, name), ()))

    def see_volume(self, name: str, volume: PersistentVolume | None) -> None:
        """Process a changed or deleted (None) volume."""
        keep(self._volumes, name, volume)
        self._all_with_claims()

    def see_storage_class(self, name: str, storage_class: StorageClass | None) -> None:
        """Process a changed or deleted (None) storage class."""
        keep(self._classes, name, storage_class)
        self._all_with_claims()

    def see_drivers(self, name: str, node: CsiNode | None) -> dict[str, int]:
        """Process the volume drivers of a node; return its limits of volumes, as resources."""
        drivers = None if node is None else node.spec.drivers
        limits = {
            driver.name: driver.allocatable.count
            for driver in drivers or ()
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        before = self._limited.keys()
        self._limited = self._limited - Counter(self._limits.pop(name, {}).keys()) + Counter(limits.keys())
        if limits:
            self._limits[name] = limits
        if self._limited.keys() != before:
            self._all_with_claims()
        return {f"{ATTACHED_PREFIX}{driver}": count for driver, count in limits.items()}

    def see_priority(self, name: str, priority_class: PriorityClass | None) -> None:
        """Process a changed or deleted (None) priority class."""
        keep(self.priorities, name, None if priority_class is None else priority_class.value)
        self.owners.forget_readings()

    def set_devices(self, devices: DeviceResources) -> None:
        """Set the kinds of devices that the nodes have."""
        if devices != self.devices:
            self.devices = devices
            self._forget_requests()
            self.stale.update(self._pods)

    def see_resources(self, names: Iterable[str]) -> None:
        """Read all pods again if one of them requests a resource that a node has since now."""
        if self._requests.names.state(names):
            self._forget_requests()
            self.stale.update(self._pods)

    def provided_changed(self) -> None:
        """Record that device classes now provide other extended resources."""
        for key, pod in self._pods.items():
            before = self.resource_claims.uses(key)
            self.resource_claims.use(key, pod, over=pod.status.phase in _OVER)
            if before or self.resource_claims.uses(key):
                self.stale.add(key)

    def set_unreadable(
        self, kinds: Mapping[tuple[str, str], str], absent: frozenset[tuple[str, str]] = frozenset()
    ) -> bool:
        """Set the kinds of owners that can't be read, and those without objects; return True for changes."""
        is_news = (kinds, absent) != (self.owners.unreadable, self.owners.absent)
        self._read_again(self.owners.set_unreadable(kinds, absent))
        return is_news

    def _all_with_claims(self) -> None:
        for keys in self._users.values():
            self._look_at(keys)

    def controller(self, key: str) -> OwnerReference | None:
        """Return the controller of a known pod; None if it has none."""
        return self._pods[key].metadata.controller

    def labels(self, key: str) -> Mapping[str, str]:
        """Return the labels of a pod; none if it isn't known."""
        pod = self._pods.get(key)
        return {} if pod is None else pod.metadata.labels

    def annotations(self, key: str) -> Mapping[str, str]:
        """Return the annotations of a pod that Weir reads; none if it isn't known."""
        pod = self._pods.get(key)
        return {} if pod is None else pod.metadata.annotations

    def pod(self, key: str) -> KubePod:
        """Return a known pod."""
        return self._pods[key]

    def read(self, key: str, *, bound: bool, assumed: bool = False, over: bool = False) -> PodInfo:
        """Return the workload, request and constraints of a pod.

        `bound`: the pod has a node, so it needn't be ready for one; `assumed`: it is being bound.
        """
        by_owners = self._by_owners(key, bound=bound, over=over)
        return self.groups.regrouped(key, by_owners, bound=bound, assumed=assumed)

    def _by_owners(self, key: str, *, bound: bool, over: bool) -> PodInfo:
        """Return the facts of a pod by its owners alone, without a pod group."""
        pod = self._pods[key]
        controller = pod.metadata.controller
        above = self.owners.above(key, pod.metadata.namespace, controller, stated_by(pod.metadata))
        volumes = volume_constraints(pod, self.inventory) if pod.spec.volumes else ANYWHERE
        claims = self.resource_claims.constraints(key, pod, bound=bound, over=over)
        neighbours = NO_AFFINITIES if over else self.marks.affinities_of(pod.metadata.uid)
        constraints = volumes, claims, neighbours
        if not above.pod_owners or constraints != NO_CONSTRAINTS:
            return self._info(pod, above, constraints, bound=bound)
        meta = pod.metadata
        alike = (meta.namespace, id(pod.spec), above.words(meta), bound)
        info: PodInfo | None = above.readings.get(alike)
        if info is None:
            info = self._info(pod, above, constraints, bound=bound)
            if info.gang.gang != meta.name and above.created(info.gang.uid):
                above.readings[alike] = info
        return info

    def _info(self, pod: KubePod, above: OwnerChain, constraints: PodConstraints, *, bound: bool) -> PodInfo:
        missing = above.missing
        annotations, mistakes = above.annotations(pod.metadata)
        derived = above.derived(pod, self.owners.kinds)
        pod_request = self._requests.request_of(pod, annotations, constraints, self.devices)
        wait = why = ""
        if not bound:
            lost = self.owners.why_missing(missing) if missing is not None else ""
            waits = (
                (lost, OWNER_MISSING),
                *((mistake, REFUSED) for mistake in (*mistakes, *pod_request.refusals)),
                (gates(pod), GATED),
                (constraints[0].waits, VOLUME),
                (constraints[1].waits, CLAIM),
            )
            wait, why = next(((text, code) for text, code in waits if text), ("", ""))
        created = above.created(derived.key.uid) or pod.metadata.creation_timestamp
        priority = priority_of(pod, annotations, self.priorities)
        submitted_s, orphan = seconds_of(created), above.absent is not None
        return PodInfo(
            derived,
            annotations,
            pod_request,
            priority,
            submitted_s,
            orphan,
            as_sentence(wait),
            why,
            constraints[1].is_guess,
        )

    def _forget_requests(self) -> None:
        self._requests.forget()
        self.owners.forget_readings()

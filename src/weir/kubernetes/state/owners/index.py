"""Objects above pods, and the pods below them."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from weir.kubernetes.api.objects import Metadata, OwnerReference
from weir.kubernetes.state.keyed_members import drop
from weir.kubernetes.state.owners.chain import NO_OWNER, Body, OwnerChain, TrackedOwner
from weir.kubernetes.state.owners.stated import read_stated
from weir.kubernetes.translate.annotations import POD_ANNOTATIONS
from weir.kubernetes.translate.kind_table import group_of
from weir.kubernetes.translate.kinds import WorkloadKinds
from weir.kubernetes.translate.owner_suspensions import is_marked

Lowest = tuple[str, str, str]
"""Namespace of pods, the uid of their controller, and the text in which they state their topmost owner."""
LEVELS_MAX = 16
"""Limit of levels of owners above a pod; real controllers make at most six."""
_REFERENCES_KEPT_MAX = 50_000
_POD = "Pod"


def not_served(api_versions: Sequence[str], kind: str) -> str:
    """Return why owners of a kind can't be read: the API server doesn't serve these versions."""
    return f"the API server doesn't have the kind {kind} of {' or '.join(api_versions)}"


def not_listed(kind: str, failure: str) -> str:
    """Return why owners of a kind can't be read: listing them failed."""
    return f"the list of all {kind} objects failed: {failure or 'it takes long'}"


def _no_pod(_namespace: str, _reference: OwnerReference) -> Body | None:
    return None


class Owners:
    """Follows pods to their owners, and owners to the pods below them.

    A pod may own others, as leaders and drivers do: `pod_body` returns such a pod as an object of the API.
    """

    def __init__(
        self, kinds: WorkloadKinds, pod_body: Callable[[str, OwnerReference], Body | None] = _no_pod
    ) -> None:
        self.kinds = kinds
        self.touched: set[str] = set()  # owners whose pods changed; a reader empties it
        self._pod_body = pod_body
        self._telling: dict[tuple[tuple[str, str], ...], tuple[str, ...]] = {}  # by kinds
        self._makers: dict[str, TrackedOwner] = {}
        self._chains: dict[Lowest, OwnerChain] = {}
        self._through: dict[str, set[Lowest]] = {}  # lowest owners of the chains through an object
        # The first unknown owner of a chain, by its lowest owner
        self._missing: dict[Lowest, OwnerReference] = {}
        self._pods: dict[Lowest, set[str]] = {}
        self._lowest: dict[str, Lowest] = {}
        self.unreadable: Mapping[tuple[str, str], str] = {}  # reasons by group and kind that can't be read
        self.absent: frozenset[tuple[str, str]] = frozenset()  # the kinds among these without objects
        self._references: dict[tuple[str, ...], OwnerReference] = {}
        self._below: dict[str, set[str]] = {}  # uids of controlled objects by the uid of their controller
        self.marked: dict[str, Body] = {}  # owners with Weir's suspension mark
        self.news: set[str] = set()  # changed objects and their owners; a reader empties it

    def shared(self, reference: OwnerReference) -> OwnerReference:
        """Return one object for equal references."""
        if len(self._references) > _REFERENCES_KEPT_MAX:
            self._references.clear()
        words = (reference.uid, reference.name, reference.kind, reference.api_version)
        return self._references.setdefault(words, reference)

    def see(self, body: Body) -> set[str]:
        """Process an owner, in the form of `WorkloadKinds.narrow`; return the pods to read again."""
        pod_owner = TrackedOwner(body)
        uid = pod_owner.metadata.uid
        self._unlink(uid)
        self._makers[uid] = pod_owner
        if is_marked(body):
            self.marked[uid] = body
        else:
            self.marked.pop(uid, None)
        if pod_owner.above is not None:
            self._below.setdefault(pod_owner.above.uid, set()).add(uid)
        self._note_changed(uid)
        return self.changed(uid)

    def forget(self, uid: str) -> set[str]:
        """Process the deletion of an owner; return the pods to read again."""
        if uid not in self._makers:
            return set()
        self._note_changed(uid)
        self._unlink(uid)
        del self._makers[uid]
        self.marked.pop(uid, None)
        return self.changed(uid)

    def body(self, namespace: str, uid: str) -> Body | None:
        """Return an object that makes pods in a namespace; None if it doesn't exist."""
        pod_owner = self._makers.get(uid)
        return None if pod_owner is None or not pod_owner.is_in(namespace) else pod_owner.body

    def controller(self, uid: str) -> OwnerReference | None:
        """Return the controller of an object; None if there is none, or the object doesn't exist."""
        pod_owner = self._makers.get(uid)
        return None if pod_owner is None else pod_owner.above

    def below(self, uid: str) -> list[Body]:
        """Return the objects that an object controls, in its own namespace."""
        above = self._makers.get(uid)
        below = [self._makers[child_uid] for child_uid in sorted(self._below.get(uid, ()))]
        return (
            [] if above is None else [child.body for child in below if above.is_in(child.metadata.namespace)]
        )

    def is_watched(self, api_version: str, kind: str) -> bool:
        """Return True if objects of a kind are watched."""
        return self.kinds.knows(api_version, kind) and not self.is_unread(api_version, kind)

    def is_unread(self, api_version: str, kind: str) -> bool:
        """Return True if unreadable objects of a kind may exist, in any version."""
        key = group_of(api_version), kind
        return key in self.unreadable and key not in self.absent

    def _unlink(self, uid: str) -> None:
        pod_owner = self._makers.get(uid)
        if pod_owner is not None and pod_owner.above is not None:
            drop(self._below, pod_owner.above.uid, uid)

    def _note_changed(self, uid: str) -> None:
        """Record a change of an object for the workloads of all objects above it."""
        current_uid: str | None = uid
        for _ in range(LEVELS_MAX):
            if current_uid is None:
                return
            self.news.add(current_uid)
            pod_owner = self._makers.get(current_uid)
            current_uid = None if pod_owner is None or pod_owner.above is None else pod_owner.above.uid

    def set_unreadable(
        self, kinds: Mapping[tuple[str, str], str], absent: frozenset[tuple[str, str]]
    ) -> set[str]:
        """Set the kinds, by group and kind, that can't be read, and why; return the pods to read again.

        `absent` are kinds without any object.
        """
        self.absent = absent
        changed = {
            key for key in kinds.keys() | self.unreadable.keys() if kinds.get(key) != self.unreadable.get(key)
        }
        self.unreadable = dict(kinds)
        stale: set[str] = set()
        for lowest, missing in self._missing.items():
            if (group_of(missing.api_version), missing.kind) in changed:
                self._chains[lowest].readings.clear()
                stale |= self._pods.get(lowest, set())
        return stale

    def why_missing(self, reference: OwnerReference) -> str:
        """Return why an owner is unknown, in a sentence without a full stop."""
        why = self.unreadable.get((group_of(reference.api_version), reference.kind))
        if why is None:
            return f"its {reference.kind} {reference.name} isn't there"
        return f"its {reference.kind} {reference.name} can't be read: {why}"

    def awaited(self) -> set[tuple[str, str]]:
        """Return the apiVersion and kind of unknown owners in pods' references."""
        return {(reference.api_version, reference.kind) for reference in self._missing.values()}

    def above(
        self, key: str, namespace: str, reference: OwnerReference | None, stated: str = ""
    ) -> OwnerChain:
        """Return the objects above a pod with this controller.

        `stated` is the text in which the pod states its topmost owner, which is used if owners between them
        are missing.
        """
        if reference is None:
            return NO_OWNER
        lowest = namespace, reference.uid, stated  # a pod of another namespace may name the same uid
        if lowest not in self._chains and not self._is_read(reference):
            return OwnerChain()
        if self._lowest.get(key) != lowest:
            self.leave(key)
            self._lowest[key] = lowest
            self._pods.setdefault(lowest, set()).add(key)
        chain = self._chains.get(lowest)
        if chain is None:
            chain = self._chains[lowest] = self._climb(namespace, reference, stated)
            for uid in chain.uids:
                self._through.setdefault(uid, set()).add(lowest)
            if chain.missing is not None:
                self._missing[lowest] = chain.missing
        return chain

    def is_above(self, uid: str) -> bool:
        """Return True if an object owns any pod, directly or through other objects."""
        return uid in self._through

    def pods_below(self, uid: str) -> list[str]:
        """Return the pods below an object whose owners have been looked up."""
        return [key for lowest in self._through.get(uid, ()) for key in self._pods.get(lowest, ())]

    def keeps_ended(self, key: str) -> bool:
        """Return True if a pod's controller is a Job, which keeps the pod once it has ended."""
        lowest = self._lowest.get(key)
        maker = None if lowest is None else self._makers.get(lowest[1])
        return maker is not None and maker.body["kind"] == "Job"

    def forget_readings(self) -> None:
        """Forget parsed annotations, because the rules of parsing have changed."""
        for chain in self._chains.values():
            chain.readings.clear()

    def leave(self, key: str) -> None:
        """Forget a pod."""
        lowest = self._lowest.pop(key, None)
        if lowest is not None:
            pods = self._pods[lowest]
            pods.discard(key)
            chain = self._chains.get(lowest)
            self.touched.update(() if chain is None else chain.uids)
            if not pods:
                del self._pods[lowest]
                self._drop_chain(lowest)

    def changed(self, uid: str) -> set[str]:
        """Record that an owner changed; return the pods to read again."""
        stale: set[str] = set()
        for lowest in list(self._through.get(uid, ())):
            stale |= self._pods.get(lowest, set())
            self._drop_chain(lowest)
        return stale

    def _drop_chain(self, lowest: Lowest) -> None:
        chain = self._chains.pop(lowest, None)
        self._missing.pop(lowest, None)
        for uid in chain.uids if chain is not None else ():
            self.touched.add(uid)
            drop(self._through, uid, lowest)

    def _climb(self, namespace: str, above: OwnerReference | None, text: str) -> OwnerChain:
        uids: list[str] = []
        pod_owners: list[TrackedOwner] = []
        missing = absent = stated = None
        while above is not None and self._is_read(above) and above.uid not in uids and len(uids) < LEVELS_MAX:
            uids.append(above.uid)
            pod_owner = self._maker(namespace, above)
            if pod_owner is not None:
                pod_owners.append(pod_owner)
                above, namespace, absent = pod_owner.above, pod_owner.metadata.namespace, None
                continue
            missing, absent = missing or above, above
            if stated is not None or (stated := read_stated(text)) is None:
                break
            above = stated.reference
        telling = self._telling_of(pod_owners, absent)
        return OwnerChain(
            tuple(uids), pod_owners, missing=missing, absent=absent, stated=stated, telling=telling
        )

    def _maker(self, namespace: str, reference: OwnerReference) -> TrackedOwner | None:
        """Return an owner; None if it doesn't exist.

        As in Kubernetes, an owner of another namespace is ignored.
        """
        if (reference.api_version, reference.kind) != ("v1", _POD):
            pod_owner = self._makers.get(reference.uid)
            return None if pod_owner is None or not pod_owner.is_in(namespace) else pod_owner
        body = self._pod_body(namespace, reference)
        return None if body is None else TrackedOwner(body)

    def _telling_of(
        self, pod_owners: Sequence[TrackedOwner], absent: OwnerReference | None
    ) -> tuple[str, ...]:
        """Return the pod labels that distinguish roles and gangs below these owners, by the kind table."""
        kinds = tuple(
            (str(pod_owner.body.get("apiVersion", "")), str(pod_owner.body.get("kind", "")))
            for pod_owner in pod_owners
        )
        if absent is not None:
            kinds = *kinds, (absent.api_version, absent.kind)
        telling = self._telling.get(kinds)
        if telling is None:
            labels = (label for kind in kinds for label in self.kinds.telling(*kind))
            telling = self._telling[kinds] = tuple(dict.fromkeys(labels))
        return telling

    def _is_read(self, above: OwnerReference) -> bool:
        return self.kinds.knows(above.api_version, above.kind)


def pod_body(pod: Metadata, phase: str) -> Body:
    """Return a pod that owns others as an object of the API, reduced to the fields about them."""
    metadata = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "creationTimestamp": pod.creation_timestamp,
        "labels": _of_all(pod.labels),
        "annotations": _of_all(pod.annotations),
        "ownerReferences": msgspec.to_builtins(pod.owner_references),
    }
    return {"apiVersion": "v1", "kind": _POD, "metadata": metadata, "status": {"phase": phase}}


def _of_all(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return those annotations that apply to a whole workload."""
    return {name: value for name, value in annotations.items() if name not in POD_ANNOTATIONS}

"""The objects above pods, and what they say of the pods below them.

What the pods of one owner come to is found out once for all that bear the same words: a workload of a
thousand pods is read as fast as one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from weir.backends.kubernetes.api.objects import Metadata, OwnerReference, Pod
from weir.backends.kubernetes.reading import labels
from weir.backends.kubernetes.reading.kinds import Derived, Kinds
from weir.backends.kubernetes.reading.labels import PREFIX, WRITTEN_BY_WEIR, Said, means_something

Body = Mapping[str, Any]
Words = tuple[tuple[tuple[str, str], ...], tuple[str | None, ...]]
_OURS = frozenset(f"{PREFIX}{name}" for name in WRITTEN_BY_WEIR)


class _Maker:
    """An object that makes pods."""

    __slots__ = ("above", "body", "metadata")

    def __init__(self, body: Body) -> None:
        self.body = body
        self.metadata = msgspec.convert(body["metadata"], Metadata)
        self.above = _controller(self.metadata.owner_references)


class Chain:
    """The owners above a pod, lowest first, as far as they are known."""

    __slots__ = ("_derived", "_said", "makers", "missing", "readings", "telling", "uids")

    def __init__(
        self,
        uids: tuple[str, ...],
        makers: Sequence[_Maker],
        missing: OwnerReference | None,
        telling: Sequence[str] = (),
    ) -> None:
        self.uids = uids
        self.makers = makers
        self.missing = missing  # the first one that ought to be there and isn't
        self.telling = telling  # the labels of pods that the table of kinds reads below these
        self.readings: dict[tuple[object, ...], Any] = {}  # of the pods below that are read as one
        self._said: dict[tuple[tuple[str, str], ...], tuple[Said, tuple[str, ...]]] = {}
        self._derived: dict[tuple[str | None, ...], Derived] = {}

    def words(self, pod: Metadata) -> Words:
        """What is written on the pod that means something below these: all of its metadata that is read."""
        labels = pod.labels
        return meaningful(pod), tuple([labels.get(each) for each in self.telling])

    def said(self, pod: Metadata) -> tuple[Said, tuple[str, ...]]:
        """What is written on the pod and on those above it."""
        words = meaningful(pod)
        found = self._said.get(words)
        if found is None:
            found = self._said[words] = labels.read(pod, [maker.metadata for maker in self.makers])
        return found

    def derived(self, pod: Pod, kinds: Kinds) -> Derived:
        """What the table of kinds says."""
        words = tuple([pod.metadata.labels.get(each) for each in self.telling])
        found = self._derived.get(words)
        if found is None:
            found = kinds.derive(pod, [maker.body for maker in self.makers])
            if self.makers and found.gang != pod.metadata.name:
                self._derived[words] = found
        return found

    def created(self, uid: str) -> str | None:
        """When one of them came to be."""
        return next(
            (each.metadata.creation_timestamp for each in self.makers if each.metadata.uid == uid), None
        )


class Owners:
    """All objects that make pods, and which pods are below each."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self._telling: dict[tuple[tuple[str, str], ...], tuple[str, ...]] = {}  # by kinds
        self._makers: dict[str, _Maker] = {}
        self._chains: dict[str, Chain] = {}  # by the uid of the lowest
        self._through: dict[str, set[str]] = {}  # the lowest of the chains that one is in
        self._pods: dict[str, set[str]] = {}  # by the uid of the lowest
        self._lowest: dict[str, str] = {}
        self._unreadable: frozenset[tuple[str, str]] = frozenset()

    def see(self, body: Body) -> set[str]:
        """One is there, new or changed, as `Kinds.narrow` leaves it; the pods to be read again."""
        maker = _Maker(body)
        self._makers[maker.metadata.uid] = maker
        return self._changed(maker.metadata.uid)

    def forget(self, uid: str) -> set[str]:
        """One is gone; the pods to be read again."""
        return self._changed(uid) if self._makers.pop(uid, None) is not None else set()

    def set_unreadable(self, kinds: frozenset[tuple[str, str]]) -> bool:
        """(apiVersion, kind) of what this cluster doesn't have, or we may not read; whether that is new."""
        if kinds == self._unreadable:
            return False
        self._unreadable = kinds
        self._chains.clear()
        self._through.clear()
        return True

    def above(self, key: str, pod: Pod) -> Chain:
        """Those above a pod."""
        reference = _controller(pod.metadata.owner_references)
        if reference is None:
            return NOBODY
        lowest = reference.uid
        if lowest not in self._chains and not self._is_read(reference):
            return Chain((), (), None)
        if self._lowest.get(key) != lowest:
            self._lowest[key] = lowest
            self._pods.setdefault(lowest, set()).add(key)
        chain = self._chains.get(lowest)
        if chain is None:
            chain = self._chains[lowest] = self._climb(reference)
            for uid in chain.uids:
                self._through.setdefault(uid, set()).add(lowest)
        return chain

    def derived(self, chain: Chain, pod: Pod) -> Derived:
        """What the table of kinds says of a pod below these."""
        return chain.derived(pod, self.kinds)

    def forget_readings(self) -> None:
        """What pods are read by has changed."""
        for chain in self._chains.values():
            chain.readings.clear()

    def leave(self, key: str) -> None:
        """A pod is gone."""
        lowest = self._lowest.pop(key, None)
        if lowest is not None:
            pods = self._pods[lowest]
            pods.discard(key)
            if not pods:
                del self._pods[lowest]
                self._drop_chain(lowest)

    def _changed(self, uid: str) -> set[str]:
        stale: set[str] = set()
        for lowest in list(self._through.get(uid, ())):
            stale |= self._pods.get(lowest, set())
            self._drop_chain(lowest)
        return stale

    def _drop_chain(self, lowest: str) -> None:
        chain = self._chains.pop(lowest, None)
        for uid in chain.uids if chain is not None else ():
            through = self._through[uid]
            through.discard(lowest)
            if not through:
                del self._through[uid]

    def _climb(self, above: OwnerReference | None) -> Chain:
        uids: list[str] = []
        makers: list[_Maker] = []
        while above is not None and self._is_read(above) and above.uid not in uids:
            uids.append(above.uid)
            maker = self._makers.get(above.uid)
            if maker is None:
                break
            makers.append(maker)
            above = maker.above
        else:
            above = None
        return Chain(tuple(uids), makers, above, self._telling_of(makers))

    def _telling_of(self, makers: Sequence[_Maker]) -> tuple[str, ...]:
        """The labels of pods by which the table tells the roles and gangs below these."""
        kinds = tuple(
            (str(each.body.get("apiVersion", "")), str(each.body.get("kind", ""))) for each in makers
        )
        found = self._telling.get(kinds)
        if found is None:
            labels = (label for kind in kinds for label in self.kinds.telling(*kind))
            found = self._telling[kinds] = tuple(dict.fromkeys(labels))
        return found

    def _is_read(self, above: OwnerReference) -> bool:
        kind = (above.api_version, above.kind)
        return kind not in self._unreadable and self.kinds.knows(*kind)


class _Nobody(Chain):
    """Above a pod that nobody made; what it says of itself isn't kept."""

    __slots__ = ()

    def said(self, pod: Metadata) -> tuple[Said, tuple[str, ...]]:
        """What is written on the pod."""
        return labels.read(pod)


NOBODY = _Nobody((), (), None)


def meaningful(pod: Metadata) -> tuple[tuple[str, str], ...]:
    """The labels and annotations of a pod that mean something to us."""
    if not pod.annotations and not pod.labels:
        return ()
    return tuple(
        [
            pair
            for written in (pod.labels, pod.annotations)
            for pair in written.items()
            if means_something(pair[0]) and pair[0] not in _OURS
        ]
    )


def _controller(references: Sequence[OwnerReference]) -> OwnerReference | None:
    return next((each for each in references if each.controller), None)

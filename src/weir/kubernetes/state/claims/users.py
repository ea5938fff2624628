"""Pods that use resource claims, and the pods that each claim's devices are charged to.

A claim is charged once: to the pod that was bound with its devices, or if that pod is gone, to the one of the
others that was bound first. While no pod is bound, the claim is charged to one pod of each owner, because any
of them may start first. The order in which pods were reported has no effect.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.state.claims.inventory import ClaimKey
from weir.kubernetes.state.keyed_members import drop
from weir.kubernetes.translate.bound_pods import GPUS_KEY, placed_s
from weir.kubernetes.translate.scheduling_groups import GroupReference, reference_of

Counted = frozenset[ClaimKey]


@dataclass(frozen=True, slots=True)
class _ClaimUser:
    """A pod that uses claims."""

    claims: tuple[ClaimKey, ...]
    owner: str | GroupReference  # equal for pods that start together
    created: str
    is_gated: bool
    node: str = ""
    has_devices: bool = False  # the binding of the pod recorded its devices
    placed_s: float = 0.0


class ClaimUsers:
    """Relates pods and the claims that they use."""

    def __init__(self) -> None:
        self._users: dict[str, _ClaimUser] = {}
        self._pods_by_claim: dict[ClaimKey, set[str]] = {}
        self._starting: dict[str, Counted] = {}  # claims charged to pods that are being bound
        self._counting: dict[ClaimKey, frozenset[str]] = {}
        self._read: dict[str, Counted] = {}  # claims charged to each pod when it was last translated
        self._changed: set[ClaimKey] = set()

    def __bool__(self) -> bool:
        """Return True if any pod uses a claim."""
        return bool(self._users)

    def __iter__(self) -> Iterator[str]:
        return iter(self._users)

    # Changes

    def use(self, key: str, pod: KubePod, claims: tuple[ClaimKey, ...]) -> None:
        """Record the claims that a pod uses, if any."""
        if not claims:
            self.leave(key)
            return
        before, now = self._users.get(key), _user(pod, claims)
        if before is not None and before.node and not now.node:
            now = replace(before, claims=claims)  # the shared spec has no node name: keep the known node
        if now == before:
            return
        others = before.claims if before is not None else ()
        if now.node or claims != others:
            self._starting.pop(key, None)
        for claim in others:
            drop(self._pods_by_claim, claim, key)
        self._users[key] = now
        for claim in claims:
            self._pods_by_claim.setdefault(claim, set()).add(key)
        self._changed.update(others, claims)

    def start(self, key: str) -> None:
        """Record that a pod is being bound."""
        self._starting[key] = self._read.get(key, frozenset())
        self._changed.update(self.claims(key))

    def refuse(self, key: str) -> None:
        """Record that a pod wasn't bound after all."""
        if self._starting.pop(key, None) is not None:
            self._changed.update(self.claims(key))

    def leave(self, key: str) -> None:
        """Forget a pod."""
        user = self._users.pop(key, None)
        self._starting.pop(key, None)
        self._read.pop(key, None)
        for claim in user.claims if user is not None else ():
            drop(self._pods_by_claim, claim, key)
            self._changed.add(claim)

    # Results

    def claims(self, key: str) -> tuple[ClaimKey, ...]:
        """Return the claims that a pod uses."""
        user = self._users.get(key)
        return () if user is None else user.claims

    def pods_of(self, claim: ClaimKey) -> Iterable[str]:
        """Return the pods that use a claim."""
        return self._pods_by_claim.get(claim, ())

    def node(self, key: str) -> str:
        """Return the node of a bound pod; empty if it has none."""
        user = self._users.get(key)
        return "" if user is None else user.node

    def has_place(self, key: str) -> bool:
        """Return True if a pod is bound, or its binding is being sent."""
        return key in self._starting or bool(self.node(key))

    def counted(self, key: str) -> Counted:
        """Return the claims charged to a pod."""
        counted = frozenset(claim for claim in self.claims(key) if key in self._counting.get(claim, ()))
        self._read[key] = counted
        return counted

    def why_blocked(self, key: str, namespace: str, names: Iterable[str]) -> str:
        """Return why a pod can't be the first to start with these claims; empty if it can.

        Otherwise its devices would be charged to a pod without a node, and so to no quota.
        """
        for name in names:
            counting = self._counting.get((namespace, name), frozenset())
            if counting and key not in counting and not any(map(self.has_place, counting)):
                owners = {
                    pod_key: self._users[pod_key].owner for pod_key in counting if pod_key in self._users
                }
                owner = self._users[key].owner
                # Since the last call, all of them may be gone or have another owner
                first = min(
                    (pod_key for pod_key in owners if owners[pod_key] == owner), default=min(counting)
                )
                return f"its resource claim {name} counts for the pod {first}, which has no node yet"
        return ""

    def settle(self) -> set[str]:
        """Choose the pods that claims are charged to; return those whose claims have changed.

        A pod that is being bound is read again only once it is bound.
        """
        other: set[str] = set()
        for claim in self._changed:
            users = self._pods_by_claim.get(claim)
            if users is None:
                self._counting.pop(claim, None)
                continue
            counting = self._counting[claim] = self._choose(claim, users)
            other.update(
                key
                for key in users
                if key not in self._starting
                and key in self._read
                and (key in counting) != (claim in self._read[key])
            )
        self._changed.clear()
        return other

    def _choose(self, claim: ClaimKey, users: Iterable[str]) -> frozenset[str]:
        """Return the pods that a claim is charged to."""
        placed = [key for key in users if self.has_place(key)]
        if placed:
            return frozenset([min(placed, key=lambda key: self._rank(claim, key))])
        first: dict[object, tuple[bool, str, str]] = {}
        for key in users:
            user = self._users[key]
            rank = user.is_gated, user.created, key
            first[user.owner] = min(first.get(user.owner, rank), rank)
        return frozenset(key for _, _, key in first.values())

    def _rank(self, claim: ClaimKey, key: str) -> tuple[bool, float, str, str]:
        user = self._users[key]
        has_devices = claim in self._starting[key] if key in self._starting else user.has_devices
        return not has_devices, user.placed_s or float("inf"), user.created, key


def _user(pod: KubePod, claims: tuple[ClaimKey, ...]) -> _ClaimUser:
    spec, meta = pod.spec, pod.metadata
    controller = meta.controller
    return _ClaimUser(
        claims,
        reference_of(spec) or (meta.uid if controller is None else controller.uid),
        meta.creation_timestamp or "",
        bool(spec.scheduling_gates),
        spec.node_name,
        bool(meta.annotations.get(GPUS_KEY)),
        placed_s(pod),
    )

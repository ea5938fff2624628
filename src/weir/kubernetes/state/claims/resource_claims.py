"""Resource claims of pods: constraints, capacity of nodes in copies of claims, and devices for a start.

The engine places pods by countable resources. For each distinct set of claims a node has one more resource.
Its amount is the number of further copies of these claims that fit; a pod needs one. After the engine has
chosen a node, the same allocator chooses the devices.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from weir.kubernetes.api.objects import KubePod
from weir.kubernetes.api.resource_objects import ResourceClaim
from weir.kubernetes.claims.allocation_status import NewAllocation, new_allocations
from weir.kubernetes.claims.allocator import ClaimRefusal
from weir.kubernetes.claims.claim_requests import ClaimError, ClaimRequests, parse_claim
from weir.kubernetes.claims.extended_resources import SpecialClaim
from weir.kubernetes.claims.placement import choose_devices
from weir.kubernetes.claims.selector_results import SelectorResults
from weir.kubernetes.state.claims.extended import ExtendedClaims
from weir.kubernetes.state.claims.gpus import ClaimGpus
from weir.kubernetes.state.claims.inventory import ClaimInventory, ClaimKey
from weir.kubernetes.state.claims.named import NamedClaims, claims_of, reach, reaches, why_waiting
from weir.kubernetes.state.claims.sets import ClaimSets
from weir.kubernetes.state.claims.users import ClaimUsers
from weir.kubernetes.translate.claim_constraints import NO_CLAIMS, UNREAD_NEED, ClaimConstraints
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.model.nodes import Node

CLAIM_DOUBT_S = 15.0
"""Time within which the API server shows a write for a binding that was refused."""
IDLE_S = 60.0
"""Devices of a pod that isn't bound within this time are released."""


class ResourceClaims:
    """Allocates devices for the claims of Weir's pods, and computes each node's capacity for them."""

    def __init__(self, devices: DeviceResources) -> None:
        self.inventory = ClaimInventory()
        self.results = SelectorResults()
        self.extended = ExtendedClaims(self.inventory, devices, self.results)
        self.sets = ClaimSets(self.inventory, self.results, self.extended.amounts_on)
        self.stale: set[str] = set()  # pods to translate again
        self.gpus = ClaimGpus(devices, self.inventory, self.results)
        self._recounted: set[str] = set()  # bound pods whose claims are charged to other pods than before
        self._users = ClaimUsers()
        self._uids: dict[str, str] = {}
        self._last: dict[str, ClaimConstraints] = {}
        self._started: dict[str, ClaimConstraints] = {}  # constraints of pods at their binding
        self._chosen: dict[str, tuple[str, Sequence[NewAllocation]]] = {}  # node and devices of a start
        # Refused bindings, with the time until which their writes may appear
        self._doubted: dict[str, float] = {}
        self._idle_since_s: dict[str, float] = {}  # unbound pods with allocated claims
        self._now_s = 0.0

    @property
    def are_used(self) -> bool:
        """Return True if one of Weir's pods uses a claim."""
        return bool(self._users)

    # Observations

    def see_claim(self, key: str, claim: ResourceClaim | None) -> None:
        """Process a changed or deleted (None) claim."""
        namespace, _, name = key.partition("/")
        self.inventory.see_claim((namespace, name), claim)
        self.stale.update(self._users.pods_of((namespace, name)))

    def use(self, key: str, pod: KubePod, *, over: bool = False) -> None:
        """Record the claims that a pod uses; an ended pod uses none."""
        special = "" if over else self.extended.name(pod)
        if over or not (pod.spec.resource_claims or special):
            if self.uses(key):
                self._leave(key)
            return
        names = (*(name for _, name in claims_of(pod)), special)
        uses = tuple((pod.metadata.namespace, name) for name in names if name)
        if self._users.claims(key) != uses:
            self._forget_start(key)
            self._uids[key] = pod.metadata.uid
        self._users.use(key, pod, uses)

    def uses(self, key: str) -> bool:
        """Return True if a pod uses a claim, or would use one on a node without a device plugin."""
        return bool(self._users.claims(key))

    def forget(self, key: str) -> None:
        """Forget a deleted pod."""
        self._leave(key)
        self.stale.discard(key)

    def _leave(self, key: str) -> None:
        """Forget the claims of a pod."""
        self._forget_start(key)
        self._users.leave(key)
        self._recounted.discard(key)

    def _forget_start(self, key: str) -> None:
        """Forget the devices chosen for a pod, and the GPUs that its claims counted as."""
        self.sets.leave(key)
        # A pod of the same name with another uid has its own claims
        past = f"{key} {self._uids.pop(key, '')}"
        if key in self._chosen:
            self._chosen[past] = self._chosen.pop(key)
            self._doubted[past] = self._doubted.pop(key, self._now_s + CLAIM_DOUBT_S)
        self._started.pop(key, None)
        self._last.pop(key, None)
        self._idle_since_s.pop(key, None)

    def take_stale(self) -> set[str]:
        """Return the pods to read again, among them those whose claims are charged differently now."""
        recounted = self._users.settle()
        stale, self.stale = self.stale | recounted, set()
        for key in filter(self._users.node, recounted):
            self._started.pop(key, None)
            self._recounted.add(key)
        return stale

    def take_recounted(self, key: str) -> bool:
        """Return True once if the claims of a bound pod are now charged to other pods."""
        is_recounted = key in self._recounted
        self._recounted.discard(key)
        return is_recounted

    # Results for a pod

    def constraints(self, key: str, pod: KubePod, *, bound: bool, over: bool = False) -> ClaimConstraints:
        """Return the constraints of a pod's claims.

        They stay the same from the pod's start on. If Weir was stopped between the two writes, the claims of
        an unbound pod may be allocated. Such a pod needs no further devices, but a node that reaches these.
        """
        if over or not (pod.spec.resource_claims or self.extended.name(pod)):
            return NO_CLAIMS
        constraints = self._started.get(key)
        if constraints is not None and constraints.is_guess and bound:
            del self._started[key]  # resolve again with the slices published since
            constraints = None
        if constraints is None:
            constraints = self._last[key] = self._constraints(key, pod, bound=bound)
        return constraints

    def beside(self, key: str) -> set[str]:
        """Return the other pods whose claims share a device with this pod's claims."""
        others: set[str] = set()
        for _, device in self.inventory.allocated_to(self._users.claims(key)):
            for holder in self.inventory.holders(device):
                others.update(self._users.pods_of(holder))
        return others - {key}

    def shared_gpu_classes(self, key: str, node: str) -> set[str]:
        """Return the device classes of the shared GPUs that the claims of a pod hold a part of."""
        began = self._started.get(key, NO_CLAIMS)
        return self.gpus.shared_classes(self._users.claims(key), node, are_gpus=began.is_share)

    def _are_named(self, key: str, pod: KubePod) -> bool:
        """Return True if slices name all devices of a running pod; otherwise its share is unknown."""
        claims = [self.inventory.claims.get((pod.metadata.namespace, name)) for _, name in claims_of(pod)]
        if self.extended.is_claimed(pod):
            claims.append(self.extended.seen(pod))
        for claim in claims:
            allocation = None if claim is None else claim.status.allocation
            if allocation is None or not self.inventory.names_devices(
                self._users.node(key), allocation.devices.results
            ):
                return False
        return True

    def _constraints(self, key: str, pod: KubePod, *, bound: bool) -> ClaimConstraints:
        named = self._named_claims(key, pod, bound=bound)
        waits = None if bound else self._waits(pod) or named.error
        extended, special = self.extended.resources_of(pod), None if bound else self.extended.seen(pod)
        is_held = special is not None and special.status.allocation is not None
        rules = (*named.rules, *(() if special is None else reach(special)))
        if not named.counted and extended is None:
            if bound and named.is_unread:
                return ClaimConstraints(needs=(UNREAD_NEED,), is_guess=True)
            if waits:
                return ClaimConstraints(rules, waits)
        counted = [claim for _, claim in named.counted]
        is_claimed = self.extended.is_claimed(pod)
        try:
            gpus, by_class = self.gpus.of_pod(counted, extended, is_plugged=bound and not is_claimed)
            needed = None if is_held else extended
            resource = self.sets.join(key, named.missing, needed) if named.missing or needed else ""
        except ClaimError as error:
            return ClaimConstraints(rules, waits or f"its extended resources can't be allocated: {error}")
        has_devices = is_held or len(named.missing) < len(counted)
        if has_devices:
            self._idle_since_s.setdefault(key, self._now_s)
        else:
            self._idle_since_s.pop(key, None)
        if bound:
            is_guess = named.is_unread or (bool(counted or is_claimed) and not self._are_named(key, pod))
        else:  # allocated by an earlier Weir, and no slices are known yet
            is_guess = has_devices and not resource and not any(self.inventory.known_pools())
        return ClaimConstraints(
            rules=rules,
            waits=waits,
            needs=((resource, 1),) if resource else (),
            devices=gpus.devices,
            share_milli=gpus.share_milli,
            weight_milli=gpus.weight_milli,
            is_guess=is_guess,
            is_share=extended is not None and extended.share is not None,
            provided=() if extended is None else extended.names,
            counted=by_class,
        )

    def _named_claims(self, key: str, pod: KubePod, *, bound: bool) -> NamedClaims:
        """Read the claims that a pod names."""
        named, counts = NamedClaims(), self._users.counted(key)
        for label, name in claims_of(pod):
            claim = self.inventory.claims.get((pod.metadata.namespace, name))
            if claim is None:
                named.is_unread = True
                continue
            if not bound:
                named.rules += reach(claim)
            if (pod.metadata.namespace, name) not in counts:
                continue
            try:
                counted = label, parse_claim(claim, self.inventory.classes)
            except ClaimError as error:
                named.is_unread = True
                named.error = named.error or f"its resource claim {name} can't be allocated: {error}"
                continue
            named.counted.append(counted)
            if bound or claim.status.allocation is None:
                named.missing.append(counted)
        return named

    def _waits(self, pod: KubePod) -> str | None:
        """Return why a pod's claims can't be allocated yet; None if they can."""
        return why_waiting(pod, self.inventory.claims, self.extended.name(pod))

    # Results for a node

    def take_other_devices(self, nodes: Callable[[], Iterable[str]]) -> list[str]:
        """Return the nodes among these whose devices may have changed since the last call."""
        inventory = self.inventory
        if not inventory.other_devices and not inventory.all_other:
            return []
        node_names = [name for name in nodes() if inventory.all_other or name in inventory.other_devices]
        inventory.all_other = False
        inventory.other_devices.clear()
        self.sets.forget_copies()
        self.stale.update(self._users)
        return node_names

    def take_changed(self, nodes: Callable[[], Iterable[str]], further: Collection[str]) -> list[str]:
        """Return the nodes, of these and `further`, on which the copies of claims may have changed."""
        inventory = self.inventory
        everything, added = inventory.all_changed, self.sets.take_added()
        changed = {*inventory.changed_nodes, *further}
        if not everything and not changed and not added:
            return []
        self.sets.count_again(None if everything else inventory.changed_nodes)
        everything = everything or added
        node_names = [name for name in nodes() if everything or name in changed]
        inventory.all_changed = False
        inventory.changed_nodes.clear()
        return node_names

    # Devices for a start

    def allocate(self, key: str, pod: KubePod, node: Node) -> Sequence[NewAllocation] | str:
        """Choose devices for a pod that is to be bound to a node, and count them at once.

        Return an allocation for each claim of the pod, one without devices where the claim has them already;
        or a sentence why the pod can't be bound there.
        """
        names = (name for _, name in claims_of(pod))
        waits = self._waits(pod) or self._users.why_blocked(key, pod.metadata.namespace, names)
        if waits:
            return waits
        if key in self._doubted and self._is_settled(key):
            self.forget_doubts(key)
        if key in self._doubted:
            before, again = self._chosen[key]
            if before != node.name:
                return (
                    f"its resource claims may still be allocated on {before}: it is tried again in a moment"
                )
            del self._doubted[key]
            self._users.start(key)
            self._started[key] = self._last.get(key, NO_CLAIMS)
            return again
        special = self.extended.needed_on(node, pod)
        split = self._split(pod, node, special)
        if isinstance(split, str):
            return split
        allocations, missing = split
        if missing:
            pools = self.inventory.pools(node)
            chosen = choose_devices(missing, pools, self.inventory.usage(pools), self.results)
            if isinstance(chosen, ClaimRefusal):
                why = f"can't be allocated on {node.name}: {chosen.sentence}"
                return f"its resource claim {chosen.claim} {why}"
            for allocation in new_allocations(missing, chosen, node.name, special):
                meta = allocation.claim.metadata
                is_made = allocation.special is not None
                self.inventory.assume((meta.namespace, meta.name), allocation.devices, is_made=is_made)
                allocations.append(allocation)
        self._chosen[key] = node.name, allocations
        self._idle_since_s.pop(key, None)
        self._users.start(key)
        self._started[key] = self._last.get(key, NO_CLAIMS)
        return allocations

    def _is_settled(self, key: str) -> bool:
        """Return True if the API server shows the outcome of each claim of a refused binding."""
        chosen = [allocation for allocation in self._chosen[key][1] if allocation.body is not None]
        return bool(chosen) and all(self.inventory.is_settled(allocation.claim) for allocation in chosen)

    def _split(
        self, pod: KubePod, node: Node, special: SpecialClaim | None
    ) -> tuple[list[NewAllocation], list[ClaimRequests]] | str:
        """Return the claims of a pod with devices and those without, or why the pod can't start."""
        allocations: list[NewAllocation] = []
        missing: list[ClaimRequests] = []
        for name in dict.fromkeys(name for _, name in claims_of(pod)):
            key = pod.metadata.namespace, name
            claim = self.inventory.claims[key]
            if not self.inventory.is_allocated(key):
                try:
                    missing.append(parse_claim(claim, self.inventory.classes))
                except ClaimError as error:
                    return f"its resource claim {name} can't be allocated: {error}"
            elif claim.status.allocation is None:
                return f"its resource claim {name} is being allocated for another pod"
            elif not reaches(node, claim):
                return f"its resource claim {name} has devices that {node.name} doesn't reach"
            else:
                allocations.append(NewAllocation(claim))
        made = self.extended.seen(pod)
        if made is not None and made.status.allocation is not None:
            if special is None or not special.requests(made.spec) or not reaches(node, made):
                return (
                    f"its resource claim {made.metadata.name} has devices for another node than {node.name}"
                )
            allocations.append(NewAllocation(made, special=special))
        elif special is not None:
            try:
                missing.append(parse_claim(special.claim(made), self.inventory.classes))
            except ClaimError as error:
                return f"its extended resources can't be allocated: {error}"
        return allocations, missing

    def refused(self, key: str, now_s: float, *, is_settled: bool) -> None:
        """Record that a pod wasn't bound: its devices are free, at once if no write is being sent.

        Devices that the API server shows as allocated stay in use until it shows them as free.
        """
        if self._started.pop(key, None) is None:
            return
        self._users.refuse(key)
        self.stale.add(key)
        self._doubted[key] = now_s + CLAIM_DOUBT_S
        if is_settled or all(allocation.body is None for allocation in self._chosen[key][1]):
            self.forget_doubts(key)

    def expire(self, now_s: float) -> None:
        """Forget the devices of refused bindings that the API server would have shown in the meantime."""
        self._now_s = now_s
        for key in [key for key, until_s in self._doubted.items() if until_s <= now_s]:
            self.forget_doubts(key)

    @property
    def due_s(self) -> float | None:
        """Return when devices have to be released or forgotten; None if that is never."""
        idle_s = (since_s + IDLE_S for since_s in self._idle_since_s.values())
        return min((*idle_s, *self._doubted.values()), default=None)

    def take_idle(self) -> list[ResourceClaim]:
        """Return claims with idle devices, because no pod with these claims could be bound in time.

        If Weir was stopped between the allocation and the binding, the allocation ties the pod to a node that
        may be gone.
        """
        idle: dict[ClaimKey, ResourceClaim] = {}
        for pod in [pod for pod, since_s in self._idle_since_s.items() if since_s + IDLE_S <= self._now_s]:
            self._idle_since_s[pod] = self._now_s
            for key in self._users.claims(pod):
                claim = self.inventory.claims.get(key)
                users = self._users.pods_of(key)
                runs = any(user in self._started or self._users.node(user) for user in users)
                if claim is None or claim.status.allocation is None or runs:
                    continue
                pending = {self._uids.get(user, "") for user in users}
                if all(consumer.uid in pending for consumer in claim.status.reserved_for):
                    idle[key] = claim
        return list(idle.values())

    def forget_doubts(self, key: str) -> None:
        """Forget the devices that were chosen for a pod whose binding was refused."""
        self._doubted.pop(key, None)
        _, chosen = self._chosen.pop(key, ("", ()))
        for allocation in chosen:
            meta = allocation.claim.metadata
            self.inventory.refused((meta.namespace, meta.name), allocation.devices)

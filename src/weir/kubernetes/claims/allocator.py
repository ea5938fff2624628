"""Allocation of the devices of a pod's claims on one node: a search with bounded backtracking.

The search tries devices in the order of pools, slices and devices, and returns the first complete choice. So
drivers set preferences by their order. Devices that are alike for the claims are tried once. The rules are
those of Kubernetes' own scheduler: where both see the same objects, both find the same claims feasible.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from weir.kubernetes.claims.capacity import consumed_amounts, fits
from weir.kubernetes.claims.cel.evaluator import StepMeter
from weir.kubernetes.claims.cel.values import CelError
from weir.kubernetes.claims.claim_requests import DEVICES_MAX, ClaimRequests, ExactDevices
from weir.kubernetes.claims.constraints import AttributeConstraint
from weir.kubernetes.claims.device_usage import ClaimedDeviceUsage
from weir.kubernetes.claims.devices import DeviceKey, PoolDevice
from weir.kubernetes.claims.pools import DevicePool
from weir.kubernetes.claims.selector_results import SelectorResults

STEPS_MAX = 20_000
"""Devices tried for the claims of one pod on one node."""
_POD_DEVICES_MAX = 128
_NOTHING: Mapping[str, Fraction] = {}


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """A device for a request of a claim, and the amounts that it takes of a shared one."""

    claim: int
    devices: ExactDevices
    device: PoolDevice
    consumed: Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class ClaimRefusal:
    """Refusal of a pod's claims by a node: the claim and a sentence."""

    claim: str
    sentence: str


class _Stopped(Exception):
    """The search was stopped: it reached its bound, or a selector failed for a device."""

    def __init__(self, refusal: ClaimRefusal) -> None:
        super().__init__(refusal.sentence)
        self.refusal = refusal


def allocate(
    claims: Sequence[ClaimRequests],
    pools: Sequence[DevicePool],
    usage: ClaimedDeviceUsage,
    results: SelectorResults,
    *,
    only: Mapping[str, Any] | None = None,
    meter: StepMeter | None = None,
) -> list[ChosenDevice] | ClaimRefusal:
    """Return devices for all claims of a pod, or why there are none.

    `only` maps names of attributes to values: other devices aren't considered for a number of devices.
    A request for all devices gets all of them.
    `meter` counts the devices tried.
    """
    search = _Search(claims, pools, usage, results, only)
    refusal = search.prepare()
    if refusal is not None:
        return refusal
    try:
        if search.next_claim(0):
            return search.chosen
    except _Stopped as stopped:
        return stopped.refusal
    finally:
        if meter is not None:
            meter.steps += search.steps
    return search.why_not()


class _Search:
    """Searches devices for the requests of a pod's claims within a bounded number of steps."""

    def __init__(
        self,
        claims: Sequence[ClaimRequests],
        pools: Sequence[DevicePool],
        usage: ClaimedDeviceUsage,
        results: SelectorResults,
        only: Mapping[str, Any] | None,
    ) -> None:
        self.chosen: list[ChosenDevice] = []
        self._claims, self._pools, self._usage, self._results = claims, pools, usage, results
        self._only = only or {}
        self.steps = 0
        self._constraints = [claim.constraints() for claim in claims]
        self._candidates: dict[int, list[PoolDevice]] = {}  # by identity of the request
        self._matching: dict[int, set[DeviceKey]] = {}
        self._failures: dict[tuple[int, DeviceKey], ClaimRefusal] = {}
        self._kinds: dict[DeviceKey, object] = {}
        self._pool_of: dict[DeviceKey, DevicePool] = {}
        self._left: dict[DevicePool, dict[tuple[str, str], Fraction]] = {}  # remaining counters
        self._taken: dict[DeviceKey, set[int]] = {}  # exclusively allocated devices, by claim
        self._shares: dict[DeviceKey, list[Mapping[str, Fraction]]] = {}

    # Preparation

    def prepare(self) -> ClaimRefusal | None:
        """Find the candidates of each request; return the cause if a request has too few."""
        for claim in self._claims:
            least = 0
            for alternatives in claim.requests:
                counts = []
                for devices in alternatives:
                    refusal = self._find(claim, devices)
                    if refusal is not None:
                        return refusal
                    counts.append(self._count(devices))
                least += min(counts)
            if least > DEVICES_MAX:
                sentence = f"it asks for {least} devices, and a claim has at most {DEVICES_MAX}"
                return ClaimRefusal(claim.name, sentence)
        total = sum(
            min(map(self._count, alternatives)) for claim in self._claims for alternatives in claim.requests
        )
        if total > _POD_DEVICES_MAX:
            return ClaimRefusal(self._claims[0].name, f"the claims of a pod ask for {total} devices")
        return None

    def _count(self, devices: ExactDevices) -> int:
        return len(self._candidates[id(devices)]) if devices.count is None else devices.count

    def _find(self, claim: ClaimRequests, devices: ExactDevices) -> ClaimRefusal | None:
        candidates = []
        for pool in self._pools:
            if pool.problem:
                if devices.count is None:
                    sentence = f"it asks for all devices, and the pool {'/'.join(pool.key)} {pool.problem}"
                    return ClaimRefusal(claim.name, sentence)
                continue
            for device in pool.devices:
                self._pool_of[device.key] = pool
                try:
                    is_candidate = self._is_candidate(devices, device)
                except CelError as error:
                    sentence = f"a selector fails for the device {'/'.join(device.key)}: {error}"
                    failure = ClaimRefusal(claim.name, sentence)
                    if devices.count is None:
                        return failure
                    self._failures[id(devices), device.key] = failure
                    is_candidate = True  # counted when the search reaches it
                if is_candidate:
                    candidates.append(device)
        self._candidates[id(devices)] = candidates
        self._matching[id(devices)] = {device.key for device in candidates}
        return None

    def _is_candidate(self, devices: ExactDevices, device: PoolDevice) -> bool:
        if not self._results.matches(devices, device):
            return False
        if devices.count is not None and any(
            device.attribute(name) != value for name, value in self._only.items()
        ):
            return False
        consumed = consumed_amounts(device, devices.capacity)
        if consumed is None:
            return False
        return fits(device, consumed, self._usage.shared.get(device.key, _NOTHING))

    # The search

    def next_claim(self, claim: int) -> bool:
        """Choose devices for this claim and the following ones."""
        if claim == len(self._claims):
            return True
        return self._next_request(claim, 0, len(self.chosen))

    def _next_request(self, claim: int, request: int, first: int) -> bool:
        if request == len(self._claims[claim].requests):
            return self.next_claim(claim + 1)
        for devices in self._claims[claim].requests[request]:
            candidates = self._candidates[id(devices)]
            count = self._count(devices)
            if not count or len(self.chosen) - first + count > DEVICES_MAX:
                continue
            if self._next_device((claim, request, first), devices, candidates, count, 0):
                return True
        return False

    def _next_device(
        self,
        place: tuple[int, int, int],
        devices: ExactDevices,
        candidates: Sequence[PoolDevice],
        missing: int,
        start: int,
    ) -> bool:
        claim, request, first = place
        if not missing:
            return self._next_request(claim, request + 1, first)
        tried: set[object] = set()
        for index in range(start, len(candidates) - missing + 1):
            device = candidates[index]
            kind = self._kind(device)
            is_new = kind not in tried
            tried.add(kind)
            if is_new and self._choose(claim, devices, device):
                if self._next_device(place, devices, candidates, missing - 1, index + 1):
                    return True
                self._give_back(claim)
            if devices.count is None:
                return False  # a request for all devices has one choice
        return False

    def _kind(self, device: PoolDevice) -> object:
        """Return a value that is equal for devices that are interchangeable at this point."""
        kind = self._kinds.get(device.key)
        if kind is None:
            named = {constraint.attribute for constraints in self._constraints for constraint in constraints}
            matched = tuple(key for key, those in self._matching.items() if device.key in those)
            pool = self._pool_of[device.key]
            kind = self._kinds[device.key] = (
                matched,
                tuple(device.attribute(name) for name in sorted(named)),
                pool.key,
                device.counters,
                device.taints,
                device.shareable,
                tuple(device.capacity.items()) if device.capacity else (),
                tuple(self._usage.shared.get(device.key, _NOTHING).items()),
                self._usage.uses(device.key),
                tuple(number for number, failing in self._failures if failing == device.key),
            )
        shares = self._shares.get(device.key)
        taken = self._taken.get(device.key)
        return (kind, device.key) if shares or taken else (kind,)

    def _choose(self, claim: int, devices: ExactDevices, device: PoolDevice) -> bool:
        self.steps += 1
        if self.steps > STEPS_MAX:
            sentence = f"no choice of devices found in {STEPS_MAX} steps: write a simpler claim"
            raise _Stopped(ClaimRefusal(self._claims[claim].name, sentence))
        key, taken = device.key, self._taken.get(device.key, set())
        if devices.admin:
            if claim in taken:
                return False
        elif taken or key in self._usage.exclusive:
            return False
        failure = self._failures.get((id(devices), key))
        if failure is not None:
            raise _Stopped(failure)
        consumed = consumed_amounts(device, devices.capacity)
        held = (self._usage.shared.get(key, _NOTHING), *self._shares.get(key, ()))
        if consumed is None or not fits(device, consumed, *held) or not devices.tolerates(device):
            return False
        counts = self._counts(device)
        if counts and not self._take_counters(device, 1):
            return False
        if not self._constrain(claim, devices, device):
            if counts:
                self._take_counters(device, -1)
            return False
        if device.shareable:
            self._shares.setdefault(key, []).append(consumed)
        else:
            self._taken.setdefault(key, set()).add(claim)
            consumed = {}
        self.chosen.append(ChosenDevice(claim, devices, device, consumed))
        return True

    def _give_back(self, claim: int) -> None:
        chosen = self.chosen.pop()
        device = chosen.device
        for constraint in self._covering(claim, chosen.devices):
            constraint.remove()
        if device.shareable:
            self._shares[device.key].pop()
        else:
            self._taken[device.key].discard(claim)
        if self._counts(device):
            self._take_counters(device, -1)

    def _covering(self, claim: int, devices: ExactDevices) -> Iterator[AttributeConstraint]:
        return (
            constraint
            for constraint in self._constraints[claim]
            if constraint.covers(devices.request, devices.subrequest)
        )

    def _constrain(self, claim: int, devices: ExactDevices, device: PoolDevice) -> bool:
        added: list[AttributeConstraint] = []
        for constraint in self._covering(claim, devices):
            if not constraint.add(device):
                for before in added:
                    before.remove()
                return False
            added.append(constraint)
        return True

    # Counters

    def _counts(self, device: PoolDevice) -> bool:
        """Return True if the device consumes counters, which its first share does."""
        if not device.counters:
            return False
        in_use = device.key in self._usage.shared or bool(self._shares.get(device.key))
        return not (device.shareable and in_use)

    def _take_counters(self, device: PoolDevice, sign: int) -> bool:
        """Charge the counters of a device, or release them; return False if too few are left."""
        pool = self._pool_of[device.key]
        left = self._left.get(pool)
        if left is None:
            left = self._left[pool] = dict(pool.counters or {})
            self._take_used(pool.all_devices, left)
        for counter_set, consumed in device.counters:
            for name, amount in consumed:
                left[counter_set, name] -= sign * amount
        if sign > 0 and any(amount < 0 for amount in left.values()):
            self._take_counters(device, -1)
            return False
        return True

    def _take_used(self, devices: Iterable[PoolDevice], left: dict[tuple[str, str], Fraction]) -> None:
        for device in devices:
            if self._usage.uses(device.key):
                for counter_set, consumed in device.counters:
                    for name, amount in consumed:
                        left[counter_set, name] -= amount

    # Reasons

    def why_not(self) -> ClaimRefusal:
        """Return the first request that has too few devices, or the claim if only their combination fails."""
        for claim in self._claims:
            for alternatives in claim.requests:
                counts = [
                    (self._count(alternative), self._free(alternative), alternative)
                    for alternative in alternatives
                ]
                if all(count > free or not count for count, free, _ in counts):
                    count, free, devices = counts[0]
                    matching = len(self._candidates[id(devices)])
                    supply = f"{free} free of {matching} that match"
                    sentence = f"{max(1, count)} of {devices.describe()} needed, {supply}"
                    return ClaimRefusal(claim.name, sentence)
        sentence = "enough devices are free, but no choice of them satisfies the constraints and counters"
        return ClaimRefusal(self._claims[0].name, sentence)

    def _free(self, devices: ExactDevices) -> int:
        return sum(
            (devices.admin or device.key not in self._usage.exclusive) and devices.tolerates(device)
            for device in self._candidates[id(devices)]
        )

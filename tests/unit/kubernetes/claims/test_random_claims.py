"""Random claims: no device is given twice, every rule of a claim holds, and a choice is found if one exists.

What is tried is the choice that a start makes. WEIR_EFFORT=100 tries 100,000 cases.
"""

import os
from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from random import Random

from tests.unit.kubernetes.claims.random_claims import ReadCase, random_case, read_case

from weir.kubernetes.claims.allocator import ChosenDevice, ClaimRefusal, allocate
from weir.kubernetes.claims.capacity import consumed_amounts
from weir.kubernetes.claims.claim_requests import ExactDevices
from weir.kubernetes.claims.devices import PoolDevice
from weir.kubernetes.claims.placement import choose_devices
from weir.kubernetes.claims.selector_results import SelectorResults

EFFORT = int(os.environ.get("WEIR_EFFORT", "1"))
CASES, EXHAUSTIVE = 1000 * EFFORT, 150 * EFFORT
COMBINATIONS_MAX = 3000
RESULTS = SelectorResults()


def violation(case: ReadCase, chosen: list[ChosenDevice]) -> str:
    """Return the first rule that a choice breaks; counted from scratch."""
    held: Counter[tuple[str, str, str]] = Counter()
    for each in chosen:
        key = each.device.key
        if each.devices.admin:
            continue
        if not each.device.shareable:
            held[key] += 1
            if key in case.usage.exclusive or held[key] > 1:
                return f"{key} is given twice"
        if not each.devices.tolerates(each.device):
            return f"{key} has a taint"
        if not RESULTS.matches(each.devices, each.device):
            return f"{key} doesn't match"
    return (
        _over_capacity(case, chosen)
        or _over_counters(case, chosen)
        or _wrong_counts(case, chosen)
        or _unlike(case, chosen)
    )


def _over_capacity(case: ReadCase, chosen: list[ChosenDevice]) -> str:
    sums: dict[tuple[str, str, str], Counter[str]] = {}
    devices = {each.device.key: each.device for each in chosen}
    for key, device in devices.items():
        sums[key] = Counter(case.usage.shared.get(key, {}))
        for each in chosen:
            if each.device.key == key:
                taken = consumed_amounts(device, each.devices.capacity)
                if taken is None:
                    return f"{key} has not the capacity"
                if device.shareable:
                    sums[key].update(taken)
                elif any(amount > device.capacity[name].value for name, amount in taken.items()):
                    return f"{key} is too small"
        if any(amount > device.capacity[name].value for name, amount in sums[key].items()):
            return f"{key} is over its capacity"
    return ""


def _over_counters(case: ReadCase, chosen: list[ChosenDevice]) -> str:
    for pool in case.pools:
        used = {device.key: device for device in pool.all_devices if case.usage.uses(device.key)}
        fresh = {each.device.key: each.device for each in chosen if each.device.key[:2] == pool.key}
        both = {**used, **fresh}
        totals: Counter[tuple[str, str]] = Counter()
        for device in both.values():
            for name, consumed in device.counters:
                totals.update({(name, counter): amount for counter, amount in consumed})
        new = any(key not in used and device.counters for key, device in fresh.items())
        if new and any(amount > (pool.counters or {})[key] for key, amount in totals.items()):
            return f"{pool.key} is over its counters"
    return ""


def _wrong_counts(case: ReadCase, chosen: list[ChosenDevice]) -> str:
    for at, claim in enumerate(case.claims):
        mine = [each for each in chosen if each.claim == at]
        if len(mine) > 32:
            return "too many devices"
        for alternatives in claim.requests:
            given = [each for each in mine if each.devices.request == alternatives[0].request]
            if len({id(each.devices) for each in given}) != 1:
                return f"{alternatives[0].request} has devices of several alternatives"
            wanted = given[0].devices
            if len(given) != (wanted.count or len(_matching(case, wanted))):
                return f"{alternatives[0].request} has {len(given)} devices"
    return ""


def _unlike(case: ReadCase, chosen: list[ChosenDevice]) -> str:
    for at, claim in enumerate(case.claims):
        for constraint in claim.claim.spec.devices.constraints:
            values = []
            for each in chosen:
                names = {each.devices.request, each.devices.name}
                if each.claim == at and (not constraint.requests or names & set(constraint.requests)):
                    values.append(
                        each.device.attribute(
                            constraint.match_attribute or constraint.distinct_attribute or ""
                        )
                    )
            if None in values:
                return "an attribute is missing"
            if constraint.match_attribute and len(set(values)) > 1:
                return "an attribute differs"
            if constraint.distinct_attribute and len(set(values)) < len(values):
                return "an attribute is the same"
    return ""


def served(chosen: list[ChosenDevice]) -> list[tuple[int, ExactDevices]]:
    """Return the alternative that each device serves, with its claim."""
    return [(each.claim, each.devices) for each in chosen]


def test_an_allocation_breaks_no_rule() -> None:
    chance = Random(f"claims/{EFFORT}")
    found = closer = 0
    for number in range(CASES):
        case = read_case(random_case(chance))
        chosen = choose_devices(case.claims, case.pools, case.usage, RESULTS)
        anywhere = allocate(case.claims, case.pools, case.usage, RESULTS)
        if isinstance(chosen, ClaimRefusal) or isinstance(anywhere, ClaimRefusal):
            assert chosen == anywhere, number
            continue
        found += 1
        closer += [each.device.key for each in chosen] != [each.device.key for each in anywhere]
        assert violation(case, chosen) == "", number
        assert served(chosen) == served(anywhere), number
    assert CASES // 5 < found < CASES
    assert closer > CASES // 50


def test_what_is_refused_has_no_allocation() -> None:
    chance = Random(f"refusals/{EFFORT}")
    tried = 0
    while tried < EXHAUSTIVE:
        case = read_case(random_case(chance))
        exhaustive = _exists(case)
        if exhaustive is None:
            continue
        tried += 1
        chosen = choose_devices(case.claims, case.pools, case.usage, RESULTS)
        assert exhaustive == (not isinstance(chosen, ClaimRefusal)), (tried, chosen)


def _exists(case: ReadCase) -> bool | None:
    """Try every choice of devices; None if there are too many."""
    if any(pool.problem for pool in case.pools) or any(each.admin for each in _all(case)):
        return None
    options: list[list[tuple[ChosenDevice, ...]]] = []
    size = 1
    for at, claim in enumerate(case.claims):
        for alternatives in claim.requests:
            found: list[tuple[ChosenDevice, ...]] = []
            for wanted in alternatives:
                matching = _matching(case, wanted)
                count = wanted.count or len(matching)
                if count:
                    found += [
                        tuple(ChosenDevice(at, wanted, device, {}) for device in each)
                        for each in combinations(matching, count)
                    ]
            options.append(found)
            size *= len(found)
            if size > COMBINATIONS_MAX:
                return None
    return any(
        violation(case, [each for part in parts for each in part]) == "" for parts in product(*options)
    )


def _all(case: ReadCase) -> list[ExactDevices]:
    return [each for claim in case.claims for alternatives in claim.requests for each in alternatives]


def _matching(case: ReadCase, wanted: ExactDevices) -> list[PoolDevice]:
    return [device for pool in case.pools for device in pool.devices if _suits(case, wanted, device)]


def _suits(case: ReadCase, wanted: ExactDevices, device: PoolDevice) -> bool:
    """Return True if a device is one of those that a request for all of them must have."""
    consumed = consumed_amounts(device, wanted.capacity)
    held = case.usage.shared.get(device.key, {})
    return (
        RESULTS.matches(wanted, device)
        and consumed is not None
        and all(
            amount + held.get(name, Fraction()) <= device.capacity[name].value
            for name, amount in consumed.items()
        )
    )

"""Orders of events of claims, slices, pods and restarts: Weir's free devices are those that the objects leave."""

import os
from collections.abc import Sequence
from random import Random

import pytest
from tests.unit.kubernetes.state.claims.claims_api import FURTHER_FAULTS, PARTS, WHOLE, ClaimsApi
from tests.unit.kubernetes.state.claims.test_resource_claims import why

BOUND_WITHOUT_SLICES = {510, 556, 557}
"""Orders in which a share is bound while no node's slices are there: Weir was killed after it allocated it."""
SEEDS = 32 * int(os.environ.get("WEIR_EFFORT", "1"))
LATE = ("pods", "resourceclaims", "resourceslices", "workloads")
"""Resources whose changes are seen late."""


def create(api: ClaimsApi, name: str, *, by_number: bool) -> None:
    """Create a pod with a claim, or one that asks for GPUs by number."""
    if by_number:
        api.create_by_number(name, api.chance.choice((1, 1, 2)))
    else:
        api.create(name, api.chance.choice((0, 0, 0, 1, 2)))


def happen(api: ClaimsApi, at: int, events: Sequence[str]) -> None:
    """Let one thing happen."""
    chance = api.chance
    ended = sorted(name for name, each in api.pods.items() if each.status.phase == "Succeeded")
    running = sorted(name for name, each in api.pods.items() if each.status.phase == "Running")
    match chance.choice(events):
        case "create" | "number" as kind:
            create(api, f"p{at}", by_number=kind == "number")
        case "end" if running:
            api.end(chance.choice(running))
        case "remove" if api.pods:
            api.remove(chance.choice([*ended, *sorted(api.pods)]))
        case "release":
            api.release()
        case "take":
            api.take_slice(chance.choice(api.nodes))
        case "bring":
            api.bring_slice(chance.choice(api.nodes))
        case "record":
            api.record()
        case "restart":
            api.restart()
        case "reboot":
            reboot(api)
        case "relist":
            api.relist(chance.choice(LATE))
        case "wait":
            api.step(after_s=chance.choice((5.0, 20.0, 70.0)))


_EVENTS = (
    *("create", "create", "create", "create", "create", "end", "remove", "release", "release", "release"),
    *("take", "bring", "bring", "bring", "record", "restart", "reboot", "relist", "wait"),
)
_WITH_NUMBERS = (*_EVENTS, "number", "number", "number", "number")


def reboot(api: ClaimsApi) -> None:
    """Start another Weir while the drivers of all nodes are away."""
    for name in api.nodes:
        api.take_slice(name)
    api.restart()


def settle(api: ClaimsApi) -> None:
    """Let everything that is under way come to its end, without further faults."""
    for name in api.nodes:
        api.bring_slice(name)
    for _ in range(len(api.claims) * 2 + 1):
        api.release()
    for _ in range(12):
        api.deliver_all()
        api.step(faults=False, after_s=30.0)
        api.record()
        for _ in range(len(api.claims) * 2 + 1):  # of pods that were evicted in this step too
            api.release()
    api.deliver_all()
    for _ in range(12):  # what starts now starts by itself
        api.step(faults=False)
        api.deliver_all()


def free_of(api: ClaimsApi) -> dict[str, int]:
    """Return the GPUs of each node that nothing holds, as the engine counts them."""
    cluster = api.weir.control.cluster
    free = {name: set(range(WHOLE + 1)) for name in api.nodes}
    for job in cluster.jobs.values():
        for each in (pod for group in job.pods for pod in group if pod.node >= 0):
            free[cluster.node_names[each.node]] -= set(each.devices)
    return {name: len(found) for name, found in free.items()}


@pytest.mark.parametrize("seed", sorted({*range(SEEDS), *BOUND_WITHOUT_SLICES}))
def test_free_devices_are_those_that_the_objects_leave_after_any_order_of_events(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.kubernetes.backend.AT_ONCE", (1, 3, 256)[seed // 2 % 3])
    devices_are_right(ClaimsApi(Random(seed), ("n1", "n2")[: 1 + seed % 2]), _EVENTS)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_devices_are_right_with_claims_that_weir_makes_itself(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.kubernetes.backend.AT_ONCE", (1, 3, 256)[seed // 2 % 3])
    api = ClaimsApi(Random(seed), ("n1", "n2")[: 1 + seed % 2], FURTHER_FAULTS)
    devices_are_right(api, _WITH_NUMBERS)


def devices_are_right(api: ClaimsApi, events: Sequence[str]) -> None:
    """Let events happen; assert that each device is given once, and none is lost."""
    for at in range(40):
        happen(api, at, events)
        for resource in api.chance.sample(LATE, 3):
            api.deliver(resource, api.chance.choice((0, 1, 1, 3)))
        if api.chance.random() < 0.7:
            api.step()
    settle(api)
    used = api.used()
    assert free_of(api) == {name: WHOLE - whole + (not parts) for name, (whole, parts) in used.items()}
    waiting = {name for name, each in api.pods.items() if each.status.phase == "Pending"}
    for name in sorted(waiting):
        api.remove(name)
    settle(api)
    fit = {
        **{f"one-{at}": 1 for at in range(sum(WHOLE - whole for whole, _ in used.values()))},
        **{f"part-{at}": 0 for at in range(sum(PARTS - parts for _, parts in used.values()))},
    }
    for name, count in fit.items():
        by_number = count and events is _WITH_NUMBERS and api.chance.random() < 0.5
        (api.create_by_number if by_number else api.create)(name, count)
    settle(api)
    started = {name for name in fit if api.pods[name].spec.node_name}
    assert started == fit.keys(), why(api.weir)
    assert set(api.used().values()) == {(WHOLE, PARTS)}
    more = ("one-more", "part-more", "number-more")
    api.create("one-more", 1)
    api.create("part-more", 0)
    api.create_by_number("number-more", 1)
    settle(api)
    assert not any(api.pods[name].spec.node_name for name in more)

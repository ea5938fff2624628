"""A claim that several pods name counts for one of them, and its devices always for a pod that has them."""

from itertools import permutations
from typing import Any

import pytest
from tests.unit.kubernetes.small_world import job, node, project
from tests.unit.kubernetes.state.claims.test_resource_claims import (
    allocated,
    claim,
    claiming,
    device_class,
    devices_of,
    gpus_of,
    why,
    writes_of,
)
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.api.objects import KubePod, SchedulingGate
from weir.kubernetes.api.resource_objects import ResourceClaim
from weir.kubernetes.state.claims.users import ClaimUsers
from weir.kubernetes.writes.operations import Bind, WriteDone, WriteRefused


def scene(*, limit: int = 8, count: int = 4) -> Scene:
    made = Scene()
    limited = project("team", gpus=limit)
    limited.spec["limit"] = {"gpu": limit}
    made.hear("deviceclasses", device_class())
    made.hear("nodes", node("n1", gpus=0))
    made.hear("resourceslices", gpus_of("n1", 5))
    made.hear("projects", limited)
    made.hear("owners", job("train", "j1", 2, min_pods="1"))
    made.hear("resourceclaims", claim("common", count))
    return made


def alone(name: str, *, gated: bool = False, **more: Any) -> KubePod:
    """Return a pod that names the common claim and is a workload by itself."""
    made = fellow(name, gated=gated, **more)
    made.metadata.owner_references = []
    return made


def fellow(name: str, *, gated: bool = False, **more: Any) -> KubePod:
    """Return a pod of the Job that names the common claim."""
    made = claiming(name, "common", **more)
    made.spec.scheduling_gates = [SchedulingGate("example.com/later")] if gated else []
    return made


def run(here: Scene, bind: Bind, before: ResourceClaim, made: KubePod) -> ResourceClaim:
    """Carry out a binding; return the claim as it is then."""
    (write,) = writes_of(bind)
    seen = before if write.allocation is None else allocated(write, before)
    here.backend.take_outcome(bind, WriteDone())
    here.hear("resourceclaims", seen)
    here.hear("pods", made)
    return seen


def bound(name: str, make: Any, **more: Any) -> KubePod:
    made: KubePod = make(name, on="n1", start=1, phase="Running", **more)
    return made


def counted(here: Scene) -> dict[str, int]:
    """Return the devices that count for each pod with a place."""
    pods = here.backend.cluster_state.pods.by_key.values()
    return {each.name: len(each.devices) for each in pods if each.holds}


@pytest.mark.parametrize("make", [alone, fellow])
def test_a_pod_that_cannot_start_does_not_take_the_claim_of_another_on_itself(make: Any) -> None:
    here = scene(limit=0)
    here.hear("pods", make("a", gated=True), make("b"))
    for _ in range(5):
        assert here.step(after_s=1.0) == []


def test_a_pod_that_is_counted_less_cannot_start_with_the_devices_before_its_fellow() -> None:
    here = scene(limit=0)
    here.hear("pods", fellow("a"), fellow("b"))
    for _ in range(5):
        assert here.step(after_s=1.0) == []


def test_pods_of_one_owner_share_the_devices_of_one_claim() -> None:
    here = scene(limit=4)
    here.hear("owners", job("train", "j1", 2))
    here.hear("pods", fellow("a"), fellow("b"))
    seen, names = claim("common", 4), []
    for _ in range(6):
        for bind in here.step(after_s=1.0):
            names.append(bind.name)
            devices = "0,1,2,3" if bind.annotations.get("weir.dev/gpus") else None
            seen = run(here, bind, seen, bound(bind.name, fellow, devices=devices))
    assert sorted(names) == ["a", "b"]
    assert sorted(counted(here).values()) == [0, 4]


def test_the_devices_of_a_claim_count_for_the_pod_that_is_left_with_them() -> None:
    here = scene(limit=4)
    here.hear("pods", alone("a"))
    (first,) = here.step()
    seen = run(here, first, claim("common", 4), bound("a", alone, devices="0,1,2,3"))
    here.hear("pods", alone("b"))
    (second,) = here.step()
    run(here, second, seen, bound("b", alone))
    here.step()
    assert counted(here) == {"a": 4, "b": 0}
    here.gone("a")
    here.step()
    assert counted(here) == {"b": 4}
    here.hear("resourceclaims", claim("other", 1))
    late = claiming("c", "other")
    late.metadata.owner_references = []
    here.hear("pods", late)
    assert here.step(after_s=1.0) == []
    assert "limit" in why(here)


def test_a_pod_that_is_being_bound_counts_the_devices_once_the_binding_of_the_other_is_refused() -> None:
    here = scene()
    here.hear("pods", alone("a"))
    (first,) = here.step()
    seen = allocated(writes_of(first)[0], claim("common", 4))
    here.hear("resourceclaims", seen)
    here.hear("pods", alone("b"))
    (second,) = here.step()
    assert devices_of(second) == []
    here.backend.take_outcome(first, WriteRefused(404, "The pod is gone."))
    here.gone("a")
    here.step()
    run(here, second, seen, bound("b", alone))
    here.step()
    assert counted(here) == {"b": 4}


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_the_pod_of_a_claim_does_not_depend_on_the_order_of_events(order: tuple[str, ...]) -> None:
    world = {
        "a": alone("a", gated=True),
        "b": bound("b", alone),
        "c": bound("c", alone, devices="0,1,2,3"),
    }
    here = scene()
    held = claim("common", 4)
    held.status = allocated(_write(), held, pods=("u-b", "u-c")).status
    here.hear("resourceclaims", held)
    for name in order:
        here.hear("pods", world[name])
        here.step()
    assert counted(here) == {"b": 0, "c": 4}


def _write() -> Any:
    """Return the write that allocates the common claim."""
    here = scene()
    here.hear("pods", alone("a"))
    (bind,) = here.step()
    return writes_of(bind)[0]


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "of another owner"])
def test_a_pod_is_blocked_by_a_claim_that_counted_for_a_pod_which_changed_since(is_gone: bool) -> None:
    users, key = ClaimUsers(), ("team", "common")
    for name in ("a", "b"):
        users.use(f"team/{name}", fellow(name), (key,))
    users.settle()
    assert users.why_blocked("team/a", "team", ["common"]) == ""
    if is_gone:
        users.leave("team/a")
    else:
        users.use("team/a", alone("a"), (key,))
    blocked = "its resource claim common counts for the pod team/a, which has no node yet"
    assert users.why_blocked("team/b", "team", ["common"]) == blocked
    users.settle()
    assert users.why_blocked("team/b", "team", ["common"]) == ""

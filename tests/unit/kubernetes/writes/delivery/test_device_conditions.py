"""Devices that a driver prepares before their pod is bound: what is waited for, what is released, and when."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any, cast

import pytest
from tests.unit.kubernetes.state.claims.test_resource_claims import (
    allocated,
    claim,
    claiming,
    devices_of,
    gpus_of,
    scene,
    writes_of,
)
from tests.unit.kubernetes.writes.delivery.api_writing import WatchProgress
from tests.unit.kubernetes.writes.delivery.test_claim_allocation import Server, write

from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import Conflict
from weir.kubernetes.api.leader_election import AlwaysLeader
from weir.kubernetes.writes.delivery.api_writer import ApiWriter, Pace
from weir.kubernetes.writes.delivery.claim_allocation import allocate_claim, check_devices
from weir.kubernetes.writes.delivery.device_conditions import BINDING_TIMEOUT_S, DevicesPending
from weir.kubernetes.writes.operations import (
    AllocateClaim,
    Bind,
    EmitEvent,
    Evict,
    WriteDelayed,
    WriteDone,
    WriteRefused,
)

READY, BROKEN = "example.com/attached", "example.com/broken"
RESULT = {
    "request": "gpu",
    "driver": "d",
    "pool": "n1",
    "device": "gpu-0",
    "bindingConditions": [READY, "more"],
    "bindingFailureConditions": [BROKEN],
}
ALLOCATION = {"devices": {"results": [RESULT]}}
CONDITIONS = {"bindingConditions": [READY], "bindingFailureConditions": [BROKEN]}


def report(server: Server, device: str = "gpu-0", **conditions: str) -> None:
    """Have the driver report the state of these conditions."""
    names = {"ready": READY, "broken": BROKEN, "more": "more"}
    written = [{"type": names[key], "status": value, "message": "words"} for key, value in conditions.items()]
    status = {"driver": "d", "pool": "n1", "device": device, "conditions": written}
    server.claim["status"]["devices"] = [status]


async def attempt(server: Server, order: AllocateClaim) -> None:
    api = cast(Any, server)
    await check_devices(api, order, await allocate_claim(api, order))


@pytest.mark.parametrize(
    "reported",
    [
        {},
        {"ready": "True"},
        {"ready": "True", "more": "False"},
        {"ready": "Unknown", "more": "True"},
        {"ready": "True", "more": "True", "device": "gpu-1"},
        {"ready": "False", "more": "False", "broken": "False"},
    ],
)
async def test_a_binding_waits_for_all_conditions_of_its_device(reported: dict[str, str]) -> None:
    server = Server()
    with pytest.raises(DevicesPending, match=r"the driver hasn't reported example.com/attached for .*gpu-0"):
        await attempt(server, write(ALLOCATION))
    report(server, **reported)
    with pytest.raises(DevicesPending):
        await attempt(server, write(ALLOCATION))
    assert server.claim["status"]["reservedFor"]
    report(server, ready="True", more="True", broken="False")
    await attempt(server, write(ALLOCATION))
    assert server.writes == ["", "/status"]  # waiting writes nothing


async def test_another_weir_waits_on_for_devices_that_one_before_it_allocated() -> None:
    server = Server()
    with pytest.raises(DevicesPending):
        await attempt(server, write(ALLOCATION))
    with pytest.raises(DevicesPending):
        await attempt(server, write(None))
    report(server, ready="True", more="True")
    await attempt(server, write(None))
    assert server.writes == ["", "/status"]


async def test_a_failure_releases_the_devices() -> None:
    server = Server()
    with pytest.raises(DevicesPending):
        await attempt(server, write(ALLOCATION))
    report(server, ready="True", more="True", broken="True")
    with pytest.raises(Conflict, match=r"reports example.com/broken for the device d/n1/gpu-0 \(words\)"):
        await attempt(server, write(ALLOCATION))
    assert not server.claim["status"]["allocation"]
    assert not server.claim["status"]["reservedFor"]


@pytest.mark.parametrize(
    ("age_s", "is_over"), [(BINDING_TIMEOUT_S + 5, True), (BINDING_TIMEOUT_S - 60, False)]
)
async def test_devices_are_released_once_the_time_since_their_allocation_is_over(
    age_s: float, is_over: bool
) -> None:
    at = datetime.fromtimestamp(time.time() - age_s, UTC).isoformat()
    consumer = {"resource": "pods", "name": "p1", "uid": "u-p1"}
    server = Server(allocation={**ALLOCATION, "allocationTimestamp": at}, reservedFor=[consumer])
    with pytest.raises(Conflict if is_over else DevicesPending):
        await attempt(server, write(None))
    assert bool(server.claim["status"]["allocation"]) is not is_over
    report(server, ready="True", more="True")
    if not is_over:
        await attempt(server, write(None))


async def test_devices_that_another_pod_uses_too_stay_allocated() -> None:
    server = Server()
    with pytest.raises(DevicesPending):
        await attempt(server, write(ALLOCATION))
    with pytest.raises(DevicesPending):
        await attempt(server, write(None, "p2"))
    report(server, broken="True")
    with pytest.raises(Conflict):
        await attempt(server, write(None, "p2"))
    assert [each["name"] for each in server.claim["status"]["reservedFor"]] == ["p1"]
    assert "allocation" in server.claim["status"]


async def test_an_allocation_has_its_time_if_a_device_has_conditions() -> None:
    server, began_s = Server(), time.time()
    with pytest.raises(DevicesPending):
        await attempt(server, write(ALLOCATION))
    written = server.claim["status"]["allocation"]["allocationTimestamp"]
    assert int(began_s) <= datetime.fromisoformat(written).timestamp() <= time.time()


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
async def test_the_time_since_an_allocation_is_counted_on_the_clock_of_the_api_server(ahead_s: float) -> None:
    server = Server()
    server.clock = lambda: time.time() + ahead_s
    with pytest.raises(DevicesPending):
        await attempt(server, write(ALLOCATION))
    written = server.claim["status"]["allocation"]["allocationTimestamp"]
    assert abs(datetime.fromisoformat(written).timestamp() - server.clock()) < 1800
    with pytest.raises(DevicesPending):
        await attempt(server, write(None))
    began_s = server.clock()
    server.clock = lambda: began_s + BINDING_TIMEOUT_S + 5
    with pytest.raises(Conflict):
        await attempt(server, write(None))


# The writer


class Cluster(Server):
    """An API server with one claim and one pod."""

    def __init__(self) -> None:
        super().__init__()
        self.bound = False
        self.evicted = False

    async def post(self, path: str, body: dict[str, Any], of: type[Any]) -> Any:
        if path.endswith("/binding"):
            self.bound = True
        elif path.endswith("/eviction"):
            self.evicted = True


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - the writer tells nothing else
            await asyncio.sleep(0.01)


def bind() -> Bind:
    return Bind("team", "p1", "u-p1", "n1", before=(write(ALLOCATION),))


async def test_the_writer_tries_a_binding_again_until_the_devices_are_ready() -> None:
    cluster, reported = Cluster(), WatchProgress()
    pace = Pace(first_s=0.01, most_s=0.02, give_up_s=0.05, devices_s=0.02)
    writer = ApiWriter(cast(ApiClient, cluster), AlwaysLeader(), reported, pace=pace, chance=Random(1))
    running = asyncio.create_task(writer.run())
    writer.submit([bind()])
    await until(lambda: bool(reported))
    await asyncio.sleep(0.2)  # longer than a binding is tried otherwise
    assert not cluster.bound
    assert [type(outcome) for _, outcome in reported] == [WriteDelayed]
    report(cluster, ready="True", more="True")
    await until(lambda: len(reported) == 2)
    assert cluster.bound
    assert type(reported[-1][1]) is WriteDone
    running.cancel()


async def test_an_eviction_passes_a_binding_that_waits_for_devices() -> None:
    cluster, reported, refusal = Cluster(), WatchProgress(), ""
    pace = Pace(first_s=0.01, most_s=0.02, devices_s=0.05)
    writer = ApiWriter(
        cast(ApiClient, cluster),
        AlwaysLeader(),
        reported,
        check=lambda order: refusal if isinstance(order, Bind) else "",
        pace=pace,
        chance=Random(1),
    )
    running = asyncio.create_task(writer.run())
    writer.submit([bind()])
    await until(lambda: bool(reported))
    writer.submit([Evict("team", "p1", "u-p1")])
    await until(lambda: cluster.evicted)
    assert not cluster.bound
    refusal = "The pod is being deleted."
    await until(lambda: len(reported) == 3)
    assert isinstance(reported[-1][1], WriteRefused)  # not unsent: its claim has devices
    running.cancel()


# The state


def test_devices_with_conditions_are_chosen_and_the_allocation_repeats_them() -> None:
    here = scene(gpus_of("n1", 1, bindsToNode=True, **CONDITIONS))
    (order,) = here.step()
    (result,) = cast(Any, writes_of(order)[0].allocation)["devices"]["results"]
    assert (result["bindingConditions"], result["bindingFailureConditions"]) == ([READY], [BROKEN])


def test_devices_without_conditions_come_first() -> None:
    slow, ready = gpus_of("n1", 1, **CONDITIONS), gpus_of("n1", 1)
    ready.metadata.name, ready.spec.pool.name = "ready", "z-ready"
    here = scene(slow, pods=2)
    here.hear("resourceslices", ready)
    pools = [
        cast(Any, writes_of(order)[0].allocation)["devices"]["results"][0]["pool"] for order in here.step()
    ]
    assert pools == ["z-ready", "n1"]


def test_devices_without_conditions_come_before_closer_ones() -> None:
    slow, ready = gpus_of("n1", 1, **CONDITIONS), gpus_of("n1", 3)
    ready.metadata.name, ready.spec.pool.name = "ready", "z-ready"
    slow.spec.devices[0].attributes["resource.kubernetes.io/pcieRoot"].string = "alone"
    here = scene(slow)
    here.hear("resourceslices", ready)
    (order,) = here.step()
    (result,) = cast(Any, writes_of(order)[0].allocation)["devices"]["results"]
    assert (result["pool"], result["device"]) == ("z-ready", "gpu-2")  # alone on its root


def test_a_released_pod_is_placed_again_and_no_device_is_given_twice() -> None:
    here = scene(gpus_of("n1", 1, **CONDITIONS), quota=8)
    (order,) = here.step()
    taken = allocated(writes_of(order)[0], claim("p0-gpu", 1, "u-p0"))
    here.hear("resourceclaims", taken)
    here.backend.take_outcome(order, WriteDelayed("The resource claim p0-gpu waits."))
    assert here.step(after_s=120.0) == []  # no idle devices: the pod is about to be bound
    assert here.backend.binding == 0
    assert any(isinstance(each, EmitEvent) and each.reason == "DevicesPending" for each in here.writes)
    here.hear("resourceclaims", claim("p1-gpu", 1, "u-p1"))
    here.hear("pods", claiming("p1"))
    assert here.step(after_s=1.0) == []
    here.hear("resourceclaims", claim("p0-gpu", 1, "u-p0"))
    here.backend.take_outcome(order, WriteRefused(409, "The resource claim p0-gpu has lost its devices."))
    orders = [each for _ in range(5) for each in here.step(after_s=1.0)]
    assert [device for each in orders for device in devices_of(each)] == ["gpu-0"]
    assert here.backend.binding == 1


def test_devices_stay_in_use_until_the_api_server_shows_them_as_released() -> None:
    here = scene(gpus_of("n1", 1, **CONDITIONS), quota=8)
    (order,) = here.step()
    here.hear("resourceclaims", allocated(writes_of(order)[0], claim("p0-gpu", 1, "u-p0")))
    here.backend.take_outcome(order, WriteDelayed("The resource claim p0-gpu waits."))
    here.backend.take_outcome(order, WriteRefused(409, "The resource claim p0-gpu has lost its devices."))
    here.hear("resourceclaims", claim("p1-gpu", 1, "u-p1"))
    here.hear("pods", claiming("p1"))
    orders = [each for _ in range(3) for each in here.step(after_s=1.0)]
    assert {each.name for each in orders} <= {"p0"}
    assert all(not devices_of(each) for each in orders)

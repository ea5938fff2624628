"""Resource claims on a real kubelet: what Weir allocates, what the kubelet gives, and what containers see.

The DRA plugin of the node refuses claims of devices in use. They run where a kubelet can, as those of a real node.
"""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.kubernetes.claim_objects import claiming, gpu_class, needs_claims, template
from tests.kubernetes.node_team import REST, SHARING, Team, for_real, set_aside, tracked
from tests.kubernetes.test_claims import PART, claims, devices
from tests.kubernetes.test_real_node import no_device_twice
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.work import pod
from tools.node.node import DRIVER, RealNode
from tools.node.programs import Programs

from weir.kubernetes.node.pod_resources import given_devices

pytestmark = needs_claims

WHOLE, DIVISIBLE = 4, 1
"""Devices that claims get whole, and those that they share."""
PART_BYTES = str(20 << 30)
CLAIMED = "env | sed -n 's/^CLAIMED_/claimed /p'; echo files $(ls /dev | grep nvidia); "
"""A script that writes the devices of its claims, and the device files it sees."""
ON_WHOLE = {"selectors": [{"cel": {"expression": "!device.allowMultipleAllocations"}}]}
Given = dict[str, str]
"""Devices of a container: each with "whole", or the bytes of its part."""


@pytest.fixture(scope="module")
def shared(programs: Programs, plane: ControlPlane) -> Iterator[Cluster]:
    """The control plane for all tests of this file; emptied after them."""
    cluster = Cluster(plane)
    cluster.api.create(gpu_class())
    yield cluster
    cluster.empty()


@pytest.fixture(scope="module")
def node(shared: Cluster, programs: Programs) -> Iterator[RealNode]:
    """A node whose GPUs are for claims alone."""
    options: dict[str, Any] = {"gpus": 0, "claimable": WHOLE + DIVISIBLE, "divisible": DIVISIBLE}
    with RealNode(shared.plane, programs, name="claims", **options) as running:
        yield running
        running.check()
        assert "REFUSED" not in (running.directory / "draplugin.log").read_text(), "a device given twice"


@pytest.fixture(scope="module")
def weir(shared: Cluster, node: RealNode) -> Iterator[Installed]:
    with Installed(shared.plane, name="real-claims") as running:
        running.wait_ready()
        yield running
        assert "forbidden" not in running.log_text().lower()


@pytest.fixture
def team(shared: Cluster, node: RealNode, weir: Installed) -> Iterator[Team]:
    made = Team(shared, weir, "claimers", 16)
    within = made.namespace
    shared.api.create(
        template(within, "one", 1, **ON_WHOLE),
        template(within, "two", 2, **ON_WHOLE),
        template(within, "part", **PART),
    )
    yield made
    made.remove()
    shared.until(lambda: not node.claimed(), node.last_words)
    shared.until(lambda: not claims(shared, within), "the claims to be gone")


def claim(team: Team, name: str, template_name: str) -> None:
    """Create a pod with one claim."""
    team.cluster.api.create(for_real(claiming(team.namespace, name, template_name), CLAIMED + REST))


def seen(node: RealNode, namespace: str, pod: str) -> Given | None:
    """Return the devices that a container got; None while it has yet to write them."""
    rows = [line.split() for line in node.log(namespace, pod).splitlines()]
    if not any(row[:1] == ["files"] for row in rows):
        return None
    given = dict(row[1].split("=", 1) for row in rows if row[0] == "claimed")
    (files,) = [row[1:] for row in rows if row[0] == "files"]
    assert sorted(files) == sorted(f"nvidia{number}" for number in given)
    return {f"gpu-{number}": amount for number, amount in given.items()}


def read_by_agent(node: RealNode, namespace: str) -> dict[str, dict[str, bool]]:
    """Return the devices that the agent of the node reads for each pod, and whether each is a share."""
    rows = [each for each in given_devices(node.pod_resources) if each.namespace == namespace]
    assert len(rows) == len({(each.pod, each.device) for each in rows}), rows
    assert all((each.is_claimed, each.resource) == (True, DRIVER) for each in rows), rows
    return {
        name: {each.device: each.is_share for each in rows if each.pod == name}
        for name in {each.pod for each in rows}
    }


def by_kubelet(node: RealNode, namespace: str) -> dict[str, list[str]]:
    """Return the devices of each pod as the kubelet lists them; nothing while it starts."""
    with suppress(subprocess.CalledProcessError):
        return {name: found for (space, name), found in node.claimed().items() if space == namespace}
    return {}


def until_given(team: Team, node: RealNode, names: set[str]) -> dict[str, Given]:
    """Wait until these pods run, and no others; return what each got, which is what Weir decided."""
    team.until_run(names, node)
    team.cluster.until(lambda: all(seen(node, team.namespace, name) for name in names), node.last_words)
    given = {name: seen(node, team.namespace, name) or {} for name in names}
    decided = {
        name: sorted(device for pool, device in devices(one) if pool == node.name)
        for name, one in claims(team.cluster, team.namespace).items()
        if name in names
    }
    team.cluster.until(lambda: by_kubelet(node, team.namespace).keys() == names, node.last_words)
    listed = by_kubelet(node, team.namespace)
    assert decided == {name: sorted(found) for name, found in given.items()} == listed
    shares = {
        name: {device: part != "whole" for device, part in found.items()} for name, found in given.items()
    }
    assert read_by_agent(node, team.namespace) == shares
    whole = [device for found in given.values() for device, amount in found.items() if amount == "whole"]
    parts = [device for found in given.values() for device, amount in found.items() if amount != "whole"]
    assert len(whole) == len(set(whole)), given
    assert set(parts) <= {f"gpu-{WHOLE}"}, given
    assert len(parts) <= 4, given
    return given


def test_containers_get_the_devices_that_weir_allocates_and_no_device_is_given_twice(
    team: Team, node: RealNode
) -> None:
    for at in range(3):
        claim(team, f"two-{at}", "two")
    for at in range(5):
        claim(team, f"part-{at}", "part")
    team.cluster.until(lambda: len(team.run()) == 2 + 4, node.last_words)
    first = until_given(team, node, set(team.run()))
    assert sum(name.startswith("two") for name in first) == 2, first
    assert [found for name, found in first.items() if name.startswith("part")] == [
        {f"gpu-{WHOLE}": PART_BYTES}
    ] * 4
    ended = {min(name for name in first if name.startswith(kind)) for kind in ("two", "part")}
    for name in ended:
        team.cluster.api.delete(f"/api/v1/namespaces/{team.namespace}/pods/{name}", grace_s=1)
    everyone = {f"two-{at}" for at in range(3)} | {f"part-{at}" for at in range(5)}
    after = until_given(team, node, everyone - ended)
    assert {name: after[name] for name in first if name in after} == {
        name: found for name, found in first.items() if name not in ended
    }
    assert not team.refused()


def test_devices_of_claims_stay_after_restarts_of_plugin_kubelet_and_weir(
    team: Team, node: RealNode, weir: Installed
) -> None:
    claim(team, "first", "one")
    claim(team, "part-0", "part")
    names = {"first", "part-0"}
    before = until_given(team, node, names)
    for at, restarted in enumerate(
        (["draplugin"], ["kubelet"], ["weir"], ["draplugin", "kubelet", "weir"]), 1
    ):
        if "weir" in restarted:
            weir.stop()
        for program in restarted:
            if program != "weir":
                node.restart(program)
        if "weir" in restarted:
            weir.start()
            weir.wait_ready()
        new = f"part-{at}" if at <= 3 else "last"
        claim(team, new, "part" if at <= 3 else "two")
        names.add(new)
        after = until_given(team, node, names)
        assert {name: after[name] for name in before} == before, restarted
        before = after
    claim(team, "next", "two")
    team.cluster.api.delete(f"/api/v1/namespaces/{team.namespace}/pods/first", grace_s=1)
    until_given(team, node, (names - {"first"}) | {"next"})
    assert not team.refused()


def test_pods_that_ask_by_number_get_devices_of_the_driver(
    team: Team, node: RealNode, shared: Cluster, weir: Installed
) -> None:
    numbered = gpu_class()
    numbered["metadata"]["name"] = "numbered"
    numbered["spec"]["selectors"] += ON_WHOLE["selectors"]
    numbered["spec"]["extendedResourceName"] = "nvidia.com/gpu"
    shared.api.create(numbered)
    try:
        for at in range(3):
            shared.api.create(for_real(pod(team.namespace, f"number-{at}", 2), CLAIMED + REST))
        claim(team, "part", "part")
        shared.until(lambda: len(team.run()) == 2 + 1, node.last_words)
        names = set(team.run())
        before = until_given(team, node, names)
        assert all(len(found) == 2 for name, found in before.items() if name != "part"), before
        weir.stop()
        node.restart("kubelet")
        weir.start()
        weir.wait_ready()
        assert until_given(team, node, names) == before
        ended = min(names - {"part"})
        shared.api.delete(f"/api/v1/namespaces/{team.namespace}/pods/{ended}", grace_s=1)
        everyone = {"number-0", "number-1", "number-2", "part"}
        until_given(team, node, everyone - {ended})
        assert not team.refused()
    finally:
        shared.api.delete("/apis/resource.k8s.io/v1/deviceclasses/numbered")


def test_fractions_get_parts_of_the_device_that_the_driver_shares(
    team: Team, node: RealNode, shared: Cluster, weir: Installed
) -> None:
    of_shares = gpu_class()
    of_shares["metadata"] = {"name": "shares", "labels": {SHARING: "true"}}
    shared.api.create(of_shares)
    half, path = {"weir.dev/gpu-fraction": "0.5"}, f"/api/v1/namespaces/{team.namespace}/pods"
    tries = iter(range(100))

    def is_claimed() -> bool:
        """Create a pod with a fraction, and delete it if the webhook doesn't know the class yet."""
        name = f"half-{next(tries)}"
        body = for_real(pod(team.namespace, name, 0, annotations=half), CLAIMED + REST)
        if "shares" in str(shared.api.post(path, body)["spec"]["containers"][0]["resources"]):
            return True
        shared.api.delete(f"{path}/{name}", grace_s=0)
        return False

    try:
        for _ in range(3):
            shared.until(is_claimed, "the webhook to know the class")
        claim(team, "whole", "two")
        shared.until(lambda: len(team.run()) == 2 + 1, node.last_words)
        names = set(team.run())
        before = until_given(team, node, names)
        halves = [found for name, found in before.items() if name != "whole"]
        assert halves == [{f"gpu-{WHOLE}": str(40 << 30)}] * 2
        weir.stop()
        node.restart("kubelet")
        weir.start()
        weir.wait_ready()
        assert until_given(team, node, names) == before
        shared.api.delete(f"{path}/{min(names - {'whole'})}", grace_s=1)
        shared.until(lambda: len(team.run()) == 2 + 1 and set(team.run()) != names, node.last_words)
        until_given(team, node, set(team.run()))
        assert not team.refused()
    finally:
        shared.api.delete("/apis/resource.k8s.io/v1/deviceclasses/shares")


def test_whole_devices_shares_and_claims_run_side_by_side(
    team: Team, node: RealNode, shared: Cluster, weir: Installed, programs: Programs
) -> None:
    other = Team(shared, weir, "others", 8)
    with (
        RealNode(shared.plane, programs, name="whole", gpus=4) as whole,
        RealNode(shared.plane, programs, name="aside", gpus=2) as aside,
    ):
        try:
            set_aside(shared, aside)
            for at in range(3):
                other.pod(f"whole-{at}", 2)
                other.pod(f"half-{at}", 0, annotations={"weir.dev/gpu-fraction": "0.5"})
                claim(team, f"two-{at}", "two")
                claim(team, f"part-{at}", "part")
            halves = {f"half-{at}" for at in range(3)}
            shared.until(lambda: len(other.run()) == 2 + 3, lambda: whole.last_words() + aside.last_words())
            assert halves < set(other.run())
            shared.until(lambda: len(team.run()) == 2 + 3, node.last_words)
            until_given(team, node, set(team.run()))
            no_device_twice(whole.devices())
            assert sum(map(len, whole.devices().values())) == 4
            assert not any(aside.devices().values()), "shares hold no device of the kubelet's"
            for name in set(other.run()) - halves:
                shared.until(
                    lambda name=name: "files" in tracked(whole, other.namespace, name), whole.last_words
                )
                saw = tracked(whole, other.namespace, name)
                assert saw["given"] == whole.devices()[other.namespace, name]
            indices = []
            for name in sorted(halves):
                shared.until(
                    lambda name=name: "files" in tracked(aside, other.namespace, name), aside.last_words
                )
                saw = tracked(aside, other.namespace, name)
                assert saw["given"] == saw["books"], "the webhook names the device that Weir chose"
                indices += saw["given"]
            assert sorted(indices) in (["0", "0", "1"], ["0", "1", "1"])
            assert not other.refused() + team.refused()
        finally:
            other.remove()
            for each in (whole, aside):
                shared.api.delete(f"/api/v1/nodes/{each.name}")

"""Usage of nodes by pods, and the time of its release, on a real control plane."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.kubernetes.claim_objects import needs_claims
from tests.kubernetes.constraints import HOST, Team, a_team, scheduling
from tools.controlplane.api import ApiError, collection
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir
from tools.controlplane.work import pod

CPU_ONLY = 0


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-amounts") as running:
        yield running


@pytest.fixture
def team(weir: Weir, cluster: Cluster) -> Iterator[Team]:
    with a_team(weir, cluster) as team:
        yield team


# Ports of the node


def with_port(port: int, **more: object) -> dict[str, object]:
    asks = {"requests": {"cpu": "1"}}
    return {
        "containers": [
            {
                "name": "main",
                "image": "work",
                "resources": asks,
                "ports": [{"containerPort": 80, "hostPort": port, **more}],
            }
        ]
    }


def test_a_host_port_is_taken_once_on_a_node(team: Team) -> None:
    team.cluster.add([node("a"), node("b")])
    names = ["p0", "p1", "p2"]
    for name in names:
        team.submit(name, **with_port(8080))
    team.cluster.until(lambda: len(team.cluster.running(team.namespace)) == 2, subject="two of them to run")
    running = team.cluster.running(team.namespace)
    assert set(running.values()) == {"a", "b"}
    (left,) = set(names) - running.keys()
    assert team.waits(left)
    team.lands("other-port", **with_port(8081))
    team.lands("other-protocol", **with_port(8080, protocol="UDP"))
    first = next(iter(running))
    team.delete(first)
    assert team.land(left) == [running[first]]


def test_a_host_port_that_another_scheduler_gave_away_is_taken(team: Team) -> None:
    team.cluster.add([node("a"), node("b")])
    team.place("theirs", "a", **with_port(9000))
    assert team.lands("ours", **with_port(9000)) == "b"


def test_static_pods_hold_what_they_ask_for(team: Team) -> None:
    """A kubelet reports them bound, in a namespace that Weir doesn't manage, and no scheduler sees them."""
    team.cluster.add([node("a", gpus=2), node("b", gpus=2)])
    team.found("a", "b")
    api = team.cluster.api
    for name, gpus in (("a", 2), ("b", 1)):
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "controller": True}
        owner["uid"] = api.get(f"/api/v1/nodes/{name}")["metadata"]["uid"]
        made = pod("kube-system", f"static-{name}", gpus, scheduler="default-scheduler", nodeName=name)
        made["metadata"]["ownerReferences"] = [owner]
        source = {"config.hash": name, "config.mirror": name, "config.source": "file"}
        made["metadata"]["annotations"] = {f"kubernetes.io/{key}": value for key, value in source.items()}
        api.create(made)
    try:
        team.cluster.until(lambda: "static-b" in team.cluster.running("kube-system"), subject="static pods")
        assert team.lands("one", 1) == "b"
        team.submit("two", 2)
        assert "outside Weir" in team.waits("two")
        api.delete("/api/v1/namespaces/kube-system/pods/static-a", grace_s=0)
        assert team.land("two") == ["a"]
    finally:
        for name in ("a", "b"):
            api.delete(f"/api/v1/namespaces/kube-system/pods/static-{name}", grace_s=0)


# Gates


def test_a_gated_pod_waits_until_its_gates_are_gone(team: Team) -> None:
    team.cluster.add([node("a")])
    team.submit("gated", schedulingGates=[{"name": "example.com/quota"}, {"name": "example.com/data"}])
    team.waits_for("gated", "scheduling gates example.com/quota, example.com/data")
    path = f"/api/v1/namespaces/{team.namespace}/pods/gated"
    team.cluster.api.patch(path, {"spec": {"schedulingGates": None}})
    assert team.land("gated") == ["a"]


# Priority


def priority(team: Team, name: str, value: int, **more: object) -> None:
    team.cluster.api.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            **more,
        }
    )
    one = pod(team.namespace, f"of-{name}", priorityClassName=name)

    def is_known() -> bool:
        with suppress(ApiError):
            team.cluster.api.post(f"{collection(one)}?dryRun=All", one)
            return True
        return False

    team.cluster.until(is_known, subject=f"the API server to know the priority class {name}")


def test_the_higher_priority_goes_first(team: Team) -> None:
    team.cluster.add([node("a")])
    priority(team, "low", 10)
    priority(team, "high", 90)
    team.lands("full", 8, annotations={"weir.dev/preemptible": "false"})
    team.submit("first", 8, priorityClassName="low")
    team.submit("second", 8, priorityClassName="high")
    assert team.waits("first")
    team.delete("full")
    assert team.land("second") == ["a"]
    assert not team.pod("first")["spec"].get("nodeName")


def test_the_higher_priority_takes_from_the_lower_unless_it_says_never(team: Team) -> None:
    team.cluster.add([node("a")])
    priority(team, "low", 10)
    priority(team, "high", 90)
    priority(team, "meek", 91, preemptionPolicy="Never")
    team.lands("lower", 8, priorityClassName="low")
    team.submit("waiting", 8, priorityClassName="meek")
    assert team.waits("waiting")
    assert "lower" in team.cluster.running(team.namespace)
    team.submit("taking", 4, priorityClassName="high")
    assert team.land("taking") == ["a"]
    assert "lower" not in team.cluster.running(team.namespace)


# Amounts


def parts(main: str, *init: tuple[str, bool]) -> dict[str, object]:
    def part(name: str, cpu: str, *, sidecar: bool = False) -> dict[str, object]:
        made = {"name": name, "image": "work", "resources": {"requests": {"cpu": cpu}}}
        return made | ({"restartPolicy": "Always"} if sidecar else {})

    return {
        "containers": [part("main", main)],
        "initContainers": [part(f"init-{at}", cpu, sidecar=stays) for at, (cpu, stays) in enumerate(init)],
    }


@pytest.mark.parametrize(
    ("spec", "rest"),
    [
        (parts("2", ("5", False)), 3),  # as much as the init container takes
        (parts("2", ("1", False), ("2", False)), 6),  # they follow one another
        (parts("2", ("3", True)), 3),  # a sidecar runs on
        (parts("1", ("2", True), ("4", False)), 2),  # an init container beside a sidecar
    ],
    ids=["init", "after-one-another", "sidecar", "beside"],
)
def test_init_containers_and_sidecars_take_their_capacity(
    team: Team, spec: dict[str, object], rest: int
) -> None:
    team.cluster.add([node("small", cpu=8), node("other", cpu=1)])
    here = {"nodeSelector": {HOST: "small"}}
    assert team.lands("work", CPU_ONLY, **spec, **here) == "small"
    team.submit("too-much", CPU_ONLY, **parts(f"{rest * 1000 + 1}m"), **here)
    assert team.waits("too-much")
    assert team.lands("as-much", CPU_ONLY, **parts(str(rest)), **here) == "small"


def test_overhead_takes_capacity_too(team: Team) -> None:
    team.cluster.add([node("small", cpu=8), node("other", cpu=1)])
    api, path = team.cluster.api, "/apis/node.k8s.io/v1/runtimeclasses/boxed"
    api.create(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "boxed"},
            "handler": "boxed",
            "overhead": {"podFixed": {"cpu": "3"}},
        }
    )
    try:
        here = {"nodeSelector": {HOST: "small"}}
        assert team.lands("boxed", CPU_ONLY, runtimeClassName="boxed", **parts("2"), **here) == "small"
        team.submit("too-much", CPU_ONLY, **parts("3001m"), **here)
        assert team.waits("too-much")
        assert team.lands("as-much", CPU_ONLY, **parts("3"), **here) == "small"
    finally:
        api.delete(path)


def test_further_resources_are_counted(team: Team) -> None:
    team.cluster.add([node("plain"), node("with-nics", resources={"example.com/nic": "2"})])
    asks = {"requests": {"example.com/nic": "1"}, "limits": {"example.com/nic": "1"}}
    spec = {"containers": [{"name": "main", "image": "work", "resources": asks}]}
    assert [team.lands(f"nic-{at}", **spec) for at in range(2)] == ["with-nics", "with-nics"]
    team.submit("nic-2", **spec)
    assert team.waits("nic-2")


# What can't be placed as it is written


@needs_claims
def test_a_claim_that_does_not_exist_is_a_reason_to_wait(team: Team) -> None:
    team.cluster.add([node("a")])
    claims = [{"name": "gpu", "resourceClaimName": "mine"}]
    team.submit("claims", CPU_ONLY, resourceClaims=claims)
    team.waits_for("claims", "resource claim mine, which doesn't exist")

"""Where pods really land: one test for each thing the API can state about that, on a real control plane."""

from collections.abc import Iterator

import pytest
from tests.kubernetes.constraints import (
    HOST,
    ZONE,
    Team,
    expressions,
    node_affinity,
    pod_affinity,
    spread,
    to,
)
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir, install_kinds, project

CPU_ONLY = 0


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    install_kinds(plane.api)
    with Weir(plane, plane.kubeconfig_for("weir"), name="weir-constraints", arguments=["--alone"]) as running:
        yield running


@pytest.fixture
def team(weir: Weir, cluster: Cluster) -> Iterator[Team]:
    weir.check()
    namespace = cluster.namespace()
    cluster.api.create(project(namespace, 64))
    yield Team(cluster, namespace)
    weir.check()


def add(team: Team, **labels: dict[str, str]) -> None:
    """Nodes by name, each with its labels."""
    team.cluster.add([node(name.replace("_", "-"), labels=each) for name, each in labels.items()])


# Nodes by their labels


def test_a_node_selector(team: Team) -> None:
    add(team, plain={}, ssd={"disk": "ssd"})
    assert team.lands("a", nodeSelector={"disk": "ssd"}) == "ssd"
    team.submit("b", nodeSelector={"disk": "tape"})
    assert team.waits("b")


@pytest.mark.parametrize(
    "expression",
    [
        ("gen", "In", "4", "5"),
        ("gen", "NotIn", "3", "x"),
        ("new", "Exists"),
        ("old", "DoesNotExist"),
        ("gen", "Gt", "3"),
        ("age", "Lt", "3"),
    ],
    ids=lambda each: each[1],
)
def test_node_affinity_by_each_operator(team: Team, expression: tuple[str, ...]) -> None:
    add(
        team,
        a={"gen": "3", "age": "9", "old": ""},
        wanted={"gen": "4", "age": "1", "new": ""},
        b={"gen": "x", "age": "x", "old": "yes"},
    )
    assert team.lands("p", affinity=node_affinity(expressions(expression))) == "wanted"


def test_node_affinity_by_name_and_by_one_of_several_terms(team: Team) -> None:
    add(team, a={"disk": "ssd"}, b={"disk": "ssd", "net": "fast"}, c={})
    by_name = expressions(("metadata.name", "In", "c"), kind="matchFields")
    assert team.lands("named", affinity=node_affinity(by_name)) == "c"
    both = expressions(("disk", "In", "ssd"), ("net", "Exists"))
    nowhere = expressions(("disk", "In", "tape"))
    assert team.lands("termed", affinity=node_affinity(nowhere, both)) == "b"
    team.submit("nowhere", affinity=node_affinity(nowhere))
    assert team.waits("nowhere")


def test_a_wish_for_nodes_is_granted_while_there_is_room(team: Team) -> None:
    add(team, a={}, liked={"disk": "ssd"}, b={})
    rather = node_affinity(rather=((50, expressions(("disk", "In", "ssd"))),))
    assert team.lands("first", 8, affinity=rather) == "liked"
    assert team.lands("second", 8, affinity=rather) in ("a", "b")


# Taints


def test_taints_keep_off_who_does_not_tolerate_them(team: Team) -> None:
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    team.cluster.add([node("free"), node("tainted", taints=[taint])])
    assert team.lands("stranger", 8) == "free"
    team.submit("second", 8)
    assert team.waits("second")
    here = {"nodeSelector": {HOST: "tainted"}}
    team.submit("elsewhere", 1, **here, tolerations=[{"key": "team", "operator": "Equal", "value": "y"}])
    assert (
        team.lands("ours", 1, **here, tolerations=[{"key": "team", "operator": "Equal", "value": "x"}])
        == "tainted"
    )
    assert team.lands("any", 1, **here, tolerations=[{"operator": "Exists"}]) == "tainted"
    assert team.waits("elsewhere")


def test_a_taint_that_only_discourages_is_avoided_while_there_is_room(team: Team) -> None:
    taint = {"key": "old", "effect": "PreferNoSchedule"}
    team.cluster.add([node("a-discouraged", taints=[taint]), node("b-free")])
    assert team.lands("first", 8) == "b-free"
    assert team.lands("second", 8) == "a-discouraged"


def test_a_cordoned_node_takes_nothing_new(team: Team) -> None:
    team.cluster.add([node("cordoned"), node("open")])
    assert team.lands("before", 1, nodeSelector={HOST: "cordoned"}) == "cordoned"
    team.cluster.api.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": True}})
    team.submit("after", 1, nodeSelector={HOST: "cordoned"})
    assert team.waits("after")
    assert "before" in team.cluster.running(team.namespace)
    team.cluster.api.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": None}})
    assert team.land("after") == ["cordoned"]


# Other pods


def zones(team: Team) -> None:
    add(team, a1={ZONE: "a"}, a2={ZONE: "a"}, b1={ZONE: "b"}, b2={ZONE: "b"})


def test_pod_affinity_follows_and_waits_where_there_is_nobody(team: Team) -> None:
    zones(team)
    team.submit("early", affinity=pod_affinity(near=(to(ZONE, app="cache"),)))
    assert team.waits("early")
    assert team.lands("cache", labels={"app": "cache"}, nodeSelector={HOST: "b1"}) == "b1"
    assert team.land("early")[0] in ("b1", "b2")
    assert team.lands("beside", affinity=pod_affinity(near=(to(app="cache"),))) == "b1"


def test_pod_affinity_to_its_own_kind_may_begin_and_keeps_together(team: Team) -> None:
    zones(team)
    own = {"labels": {"app": "ring"}, "affinity": pod_affinity(near=(to(ZONE, app="ring"),))}
    for at in range(4):
        team.submit(f"ring-{at}", 4, **own)
    landed = team.land(*(f"ring-{at}" for at in range(4)))
    assert len({each[0] for each in landed}) == 1
    team.submit("ring-4", 4, **own)
    assert team.waits("ring-4")


def test_pod_anti_affinity_keeps_apart(team: Team) -> None:
    add(team, a={}, b={})
    own = {"labels": {"app": "db"}, "affinity": pod_affinity(apart=(to(app="db"),))}
    for name in ("db-0", "db-1", "db-2"):
        team.submit(name, **own)
    team.cluster.until(lambda: len(team.cluster.running(team.namespace)) == 2, what="two of them to run")
    running = team.cluster.running(team.namespace)
    assert set(running.values()) == {"a", "b"}
    (left,) = {"db-0", "db-1", "db-2"} - running.keys()
    assert team.waits(left)
    team.delete(next(iter(running)))
    team.land(left)


def test_pod_anti_affinity_holds_for_those_who_do_not_ask_for_it(team: Team) -> None:
    add(team, a={}, b={})
    assert team.lands("loud", nodeSelector={HOST: "a"}, affinity=pod_affinity(apart=(to(app="calm"),))) == "a"
    assert team.lands("calm", labels={"app": "calm"}) == "b"
    team.submit("calm-too", labels={"app": "calm"}, nodeSelector={HOST: "a"})
    assert team.waits("calm-too")


def test_pods_of_other_schedulers_count_and_their_anti_affinity_holds(team: Team) -> None:
    add(team, a={}, b={}, c={})
    team.place("theirs", "a", labels={"app": "web"})
    team.place("theirs-alone", "b", affinity=pod_affinity(apart=(to(team="ours"),)))
    apart = pod_affinity(apart=(to(app="web"),))
    assert team.lands("ours", labels={"team": "ours"}, affinity=apart) == "c"
    assert team.lands("near", affinity=pod_affinity(near=(to(app="web"),))) == "a"


def test_pods_of_other_namespaces_count_only_where_they_are_named(team: Team) -> None:
    add(team, a={}, b={})
    other = Team(team.cluster, team.cluster.namespace())
    other.place("theirs", "a", labels={"app": "web"})
    team.submit("narrow", affinity=pod_affinity(near=(to(app="web"),)))
    assert team.waits("narrow")
    assert team.lands("wide", affinity=pod_affinity(near=(to(app="web", everywhere=True),))) == "a"


def test_wishes_about_pods(team: Team) -> None:
    add(team, a={}, b={}, c={})
    assert team.lands("web", labels={"app": "web"}, nodeSelector={HOST: "b"}) == "b"
    assert team.lands("near", affinity=pod_affinity(rather_near=((100, to(app="web")),))) == "b"
    assert team.lands("apart", affinity=pod_affinity(rather_apart=((100, to(app="web")),))) in ("a", "c")


# Spread


def test_spread_evens_out_over_the_domains(team: Team) -> None:
    zones(team)
    own = {"labels": {"app": "web"}, "topologySpreadConstraints": spread(app="web")}
    names = [f"web-{at}" for at in range(6)]
    for name in names:
        team.submit(name, **own)
    landed = [each[0] for each in team.land(*names)]
    assert (landed.count("a"), landed.count("b")) == (3, 3)


def test_spread_that_must_be_waits_and_spread_that_may_be_goes_on(team: Team) -> None:
    add(team, a={ZONE: "a"}, b={ZONE: "b"})
    assert team.lands("full", 8, nodeSelector={HOST: "b"}) == "b"
    own = {"labels": {"app": "web"}, "topologySpreadConstraints": spread(app="web")}
    assert team.lands("web-0", **own) == "a"
    team.submit("web-1", **own)
    assert team.waits("web-1")
    may = {"labels": {"app": "api"}, "topologySpreadConstraints": spread(must=False, app="api")}
    assert [team.lands(f"api-{at}", **may) for at in range(2)] == ["a", "a"]
    team.delete("full")
    assert team.land("web-1") == ["b"]


def test_spread_over_no_fewer_domains_than_it_says(team: Team) -> None:
    add(team, a1={ZONE: "a"}, a2={ZONE: "a"})
    own = {"labels": {"app": "web"}, "topologySpreadConstraints": spread(more={"minDomains": 2}, app="web")}
    team.lands("web-0", **own)
    team.submit("web-1", **own)
    assert team.waits("web-1")
    add(team, b1={ZONE: "b"})
    assert team.land("web-1") == ["b1"]


def test_spread_does_not_count_domains_the_pod_may_not_use(team: Team) -> None:
    add(team, a={ZONE: "a", "pool": "x"}, b={ZONE: "b"})
    own = {
        "labels": {"app": "web"},
        "topologySpreadConstraints": spread(app="web"),
        "nodeSelector": {"pool": "x"},
    }
    assert [team.lands(f"web-{at}", **own) for at in range(3)] == ["a", "a", "a"]


def test_spread_over_all_domains_where_affinity_is_not_honoured(team: Team) -> None:
    add(team, a={ZONE: "a", "pool": "x"}, b={ZONE: "b"})
    constraint = spread(more={"nodeAffinityPolicy": "Ignore"}, app="web")
    own = {"labels": {"app": "web"}, "topologySpreadConstraints": constraint, "nodeSelector": {"pool": "x"}}
    assert team.lands("web-0", **own) == "a"
    team.submit("web-1", **own)
    assert team.waits("web-1")


def test_spread_over_untainted_domains_where_taints_are_honoured(team: Team) -> None:
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    team.cluster.add([node("a", labels={ZONE: "a"}), node("b", labels={ZONE: "b"}, taints=[taint])])
    both = {"labels": {"app": "api"}, "topologySpreadConstraints": spread(app="api")}
    assert team.lands("api-0", **both) == "a"
    team.submit("api-1", **both)
    assert team.waits("api-1")
    constraint = spread(more={"nodeTaintsPolicy": "Honor"}, app="web")
    own = {"labels": {"app": "web"}, "topologySpreadConstraints": constraint}
    assert [team.lands(f"web-{at}", **own) for at in range(2)] == ["a", "a"]


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
    add(team, a={}, b={})
    names = ["p0", "p1", "p2"]
    for name in names:
        team.submit(name, **with_port(8080))
    team.cluster.until(lambda: len(team.cluster.running(team.namespace)) == 2, what="two of them to run")
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
    add(team, a={}, b={})
    team.place("theirs", "a", **with_port(9000))
    assert team.lands("ours", **with_port(9000)) == "b"


# Gates


def test_a_gated_pod_waits_until_its_gates_are_gone(team: Team) -> None:
    add(team, a={})
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


def test_the_higher_priority_goes_first(team: Team) -> None:
    add(team, a={})
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
    add(team, a={})
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
def test_init_containers_and_sidecars_take_their_room(team: Team, spec: dict[str, object], rest: int) -> None:
    team.cluster.add([node("small", cpu=8), node("other", cpu=1)])
    here = {"nodeSelector": {HOST: "small"}}
    assert team.lands("work", CPU_ONLY, **spec, **here) == "small"
    team.submit("too-much", CPU_ONLY, **parts(f"{rest * 1000 + 1}m"), **here)
    assert team.waits("too-much")
    assert team.lands("as-much", CPU_ONLY, **parts(str(rest)), **here) == "small"


def test_overhead_takes_room_too(team: Team) -> None:
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


def test_claims_of_devices_are_told_of(team: Team) -> None:
    add(team, a={})
    claims = [{"name": "gpu", "resourceClaimName": "mine"}]
    team.submit("claims", CPU_ONLY, resourceClaims=claims)
    team.waits_for("claims", "resource claims")

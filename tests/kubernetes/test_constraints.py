"""Places where pods really land: one test for each constraint of the API, on a real control plane."""

from collections.abc import Iterator

import pytest
from tests.kubernetes.claim_objects import needs_claims
from tests.kubernetes.constraints import (
    HOST,
    ZONE,
    Team,
    a_team,
    expressions,
    node_affinity,
    pod_affinity,
    scheduling,
    spread,
    to,
)
from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.nodes import node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import Weir
from tools.controlplane.work import job

pytestmark = needs_claims


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Weir]:
    with scheduling(plane, "weir-constraints") as running:
        yield running


@pytest.fixture
def team(weir: Weir, cluster: Cluster) -> Iterator[Team]:
    with a_team(weir, cluster) as team:
        yield team


def add(team: Team, **labels: dict[str, str]) -> None:
    """Nodes by name, each with its labels."""
    team.cluster.add([node(name.replace("_", "-"), labels=each) for name, each in labels.items()])


# Nodes by their labels


def test_a_node_selector(team: Team) -> None:
    add(team, plain={}, ssd={"disk": "ssd"})
    assert team.lands("a", nodeSelector={"disk": "ssd"}) == "ssd"
    team.submit("b", nodeSelector={"disk": "tape"})
    assert team.waits("b")


def test_node_affinity_by_each_operator(team: Team) -> None:
    add(
        team,
        a={"gen": "3", "age": "9", "old": ""},
        wanted={"gen": "4", "age": "1", "new": ""},
        b={"gen": "x", "age": "x", "old": "yes"},
    )
    for expression in (
        ("gen", "In", "4", "5"),
        ("gen", "NotIn", "3", "x"),
        ("new", "Exists"),
        ("old", "DoesNotExist"),
        ("gen", "Gt", "3"),
        ("age", "Lt", "3"),
    ):
        name = expression[1].lower()
        assert team.lands(name, affinity=node_affinity(expressions(expression))) == "wanted", expression


def test_node_affinity_by_name_and_by_one_of_several_terms(team: Team) -> None:
    add(team, a={"disk": "ssd"}, b={"disk": "ssd", "net": "fast"}, c={})
    by_name = expressions(("metadata.name", "In", "c"), kind="matchFields")
    assert team.lands("named", affinity=node_affinity(by_name)) == "c"
    both = expressions(("disk", "In", "ssd"), ("net", "Exists"))
    nowhere = expressions(("disk", "In", "tape"))
    assert team.lands("termed", affinity=node_affinity(nowhere, both)) == "b"
    team.submit("nowhere", affinity=node_affinity(nowhere))
    assert team.waits("nowhere")


def test_a_wish_for_nodes_is_granted_while_there_is_capacity(team: Team) -> None:
    add(team, a={}, liked={"disk": "ssd"}, b={})
    team.found("a", "liked", "b")
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


def test_a_taint_that_only_discourages_is_avoided_while_there_is_capacity(team: Team) -> None:
    taint = {"key": "old", "effect": "PreferNoSchedule"}
    team.cluster.add([node("a-discouraged", taints=[taint]), node("b-free")])
    team.found("a-discouraged", "b-free")
    assert team.lands("first", 8) == "b-free"
    assert team.lands("second", 8) == "a-discouraged"


def test_a_cordoned_node_takes_nothing_new(team: Team) -> None:
    team.cluster.add([node("cordoned"), node("open")])
    assert team.lands("before", 1, nodeSelector={HOST: "cordoned"}) == "cordoned"
    team.cluster.api.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": True}})
    team.cluster.add([node("later")])
    team.found("later")  # so Weir has heard of the cordon before it, too
    team.submit("after", 1, nodeSelector={HOST: "cordoned"})
    assert team.waits("after")
    assert "before" in team.cluster.running(team.namespace)
    team.cluster.api.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": None}})
    assert team.land("after") == ["cordoned"]


# Other pods


def zones(team: Team) -> None:
    add(team, a1={ZONE: "a"}, a2={ZONE: "a"}, b1={ZONE: "b"}, b2={ZONE: "b"})


def test_pod_affinity_follows_its_pods_and_waits_without_any(team: Team) -> None:
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
    team.cluster.until(lambda: len(team.cluster.running(team.namespace)) == 2, subject="two of them to run")
    running = team.cluster.running(team.namespace)
    assert set(running.values()) == {"a", "b"}
    (left,) = {"db-0", "db-1", "db-2"} - running.keys()
    assert team.waits(left)
    team.waits_for(left, "2 are excluded by pod anti-affinity (")
    why = team.why(left)
    assert f"app=db in {team.namespace} by {HOST})" in why
    assert "victims" not in why
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
    team.found("a", "b", "c")
    assert team.lands("web", labels={"app": "web"}, nodeSelector={HOST: "b"}) == "b"
    assert team.lands("near", affinity=pod_affinity(rather_near=((100, to(app="web")),))) == "b"
    assert team.lands("apart", affinity=pod_affinity(rather_apart=((100, to(app="web")),))) in ("a", "c")


def test_wishes_of_those_who_are_there_are_granted_too(team: Team) -> None:
    add(team, a={}, b={}, c={})
    team.found("a", "b", "c")
    shy = pod_affinity(rather_apart=((100, to(app="web")),))
    for name in ("a", "b"):
        assert team.lands(f"shy-{name}", nodeSelector={HOST: name}, affinity=shy) == name
    assert team.lands("web", labels={"app": "web"}) == "c"
    fond = pod_affinity(rather_near=((100, to(app="api")),))
    assert team.lands("fond", nodeSelector={HOST: "b"}, affinity=fond) == "b"
    assert team.lands("api", labels={"app": "api"}) == "b"


# Ports of the node


def test_a_port_of_the_node_is_taken_once_for_each_of_its_addresses(team: Team) -> None:
    add(team, a={})
    for at in (1, 2):
        team.submit(f"p{at}", containers=[listening(f"10.0.0.{at}")])
    assert team.land("p1", "p2") == ["a", "a"]
    team.submit("p1-again", containers=[listening("10.0.0.1")])
    team.submit("everywhere", containers=[listening(None)])
    assert "host port 8080" in team.waits("p1-again")
    assert "host port 8080" in team.waits("everywhere")
    team.delete("p1")
    team.land("p1-again")
    for name in ("p1-again", "p2"):
        assert team.waits("everywhere")
        team.delete(name)
    team.land("everywhere")
    team.submit("late", containers=[listening("10.0.0.3")])
    assert team.waits("late")


def listening(address: str | None) -> Object:
    asks = {"cpu": "1", "memory": "1Gi"}
    port = {"containerPort": 80, "hostPort": 8080, **({} if address is None else {"hostIP": address})}
    return {
        "name": "main",
        "image": "work",
        "resources": {"requests": asks, "limits": asks},
        "ports": [port],
    }


# Spread


def test_spread_evens_out_over_the_domains(team: Team) -> None:
    zones(team)
    team.found("a1", "b1")
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
    team.found("b")
    constraint = spread(more={"nodeAffinityPolicy": "Ignore"}, app="web")
    own = {"labels": {"app": "web"}, "topologySpreadConstraints": constraint, "nodeSelector": {"pool": "x"}}
    assert team.lands("web-0", **own) == "a"
    team.submit("web-1", **own)
    assert team.waits("web-1")


def test_spread_over_untainted_domains_where_taints_are_honoured(team: Team) -> None:
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    team.cluster.add([node("a", labels={ZONE: "a"}), node("b", labels={ZONE: "b"}, taints=[taint])])
    team.found("b", taint="team")
    both = {"labels": {"app": "api"}, "topologySpreadConstraints": spread(app="api")}
    assert team.lands("api-0", **both) == "a"
    team.submit("api-1", **both)
    assert team.waits("api-1")
    constraint = spread(more={"nodeTaintsPolicy": "Honor"}, app="web")
    own = {"labels": {"app": "web"}, "topologySpreadConstraints": constraint}
    assert [team.lands(f"web-{at}", **own) for at in range(2)] == ["a", "a"]


# Topologies


def topology(team: Team, name: str) -> None:
    made = {"apiVersion": "weir.dev/v1alpha1", "kind": "Topology", "metadata": {"name": name}}
    team.cluster.api.create(made | {"spec": {"levels": ["rack", HOST]}})


def test_a_gang_is_in_one_domain_of_a_topology(team: Team) -> None:
    racks = ("r1", "r1", "r2", "r2", "r2")
    team.cluster.add([node(f"n{at}", gpus=2, labels={"rack": rack}) for at, rack in enumerate(racks)])
    topology(team, "net")
    together = {"annotations": {"weir.dev/topology": "net:required=rack"}}
    team.cluster.api.create(job(team.namespace, "ring", 2, pods=3, **together))
    team.cluster.until(lambda: len(team.cluster.running(team.namespace)) == 3, subject="three to run")
    assert set(team.cluster.running(team.namespace).values()) == {"n2", "n3", "n4"}
    team.cluster.api.create(job(team.namespace, "large", 2, pods=4, **together))
    path = f"/apis/weir.dev/v1alpha1/namespaces/{team.namespace}/workloads/job-large"

    def why() -> str:
        status = (team.cluster.api.maybe(path) or {}).get("status") or {}
        return str((status.get("reason") or {}).get("sentence"))

    words = "more than any domain can take even when idle: the largest, r2, takes 3"
    team.cluster.until(lambda: words in why(), why)


def test_a_topology_that_is_not_there_is_waited_for_and_may_go(team: Team) -> None:
    add(team, a={"rack": "r1"}, b={"rack": "r2"})
    topology(team, "net")
    team.submit("early", annotations={"weir.dev/topology": "nte:required=rack"})
    team.waits_for("early", "there is no topology nte")
    team.submit("level", annotations={"weir.dev/topology": "net:required=row"})
    team.waits_for("level", "the topology net has no level row")
    topology(team, "nte")
    team.land("early")
    team.submit("much", 8, annotations={"weir.dev/topology": "nte:required=rack"})
    team.land("much")
    team.submit("later", 8, annotations={"weir.dev/topology": "nte:required=rack"})
    team.waits("later")
    team.cluster.api.delete("/apis/weir.dev/v1alpha1/topologies/nte")
    team.waits_for("later", "there is no topology nte")
    team.is_left_out("later")

"""Nodes, less what others hold of them."""

from tests.unit.kubernetes.small_world import node

from weir.kubernetes.state.nodes.states import NodeStates, node_of
from weir.kubernetes.state.nodes.usage import ForeignUsage, PodUsage
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.requests import ADDRESSES_MAX, DEVICES_LABEL, PLENTY
from weir.model.nodes import Node
from weir.model.workloads import Request
from weir.state.events import NodeLost, NodeSet

GiB = 1 << 30


def reported(node_states: NodeStates) -> dict[str, Node | None]:
    return {
        fact.node.name if isinstance(fact, NodeSet) else fact.name: fact.node
        if isinstance(fact, NodeSet)
        else None
        for fact in node_states.facts()
    }


def held(name: str = "n1", cpu: int = 1000, devices: int = 0, *marks: str) -> ForeignUsage:
    return ForeignUsage(name, (("cpu", cpu), ("pods", 1)), devices, marks)


def test_a_node_says_what_it_is_in_its_labels() -> None:
    made = node("n1", 8, labels={"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.memory": "81559"})
    read = node_of(made, DeviceResources())
    assert (read.gpus, read.gpu_model, read.gpu_memory) == (8, "H100", 81559 << 20)
    assert read.capacity == {"cpu": 64_000, "memory": 256 * GiB, "pods": 110}
    assert read.labels[DEVICES_LABEL] == "nvidia.com/gpu"


def test_memory_of_other_vendors() -> None:
    made = node("n1", 8, labels={"amd.com/gpu.vram": "192G", "amd.com/gpu.product-name": "MI300X"})
    made.status.allocatable["amd.com/gpu"] = made.status.allocatable.pop("nvidia.com/gpu")
    read = node_of(made, DeviceResources())
    assert (read.gpus, read.gpu_model, read.gpu_memory) == (8, "MI300X", 192 * GiB)


def test_unchanged_nodes_cause_no_events() -> None:
    node_states = NodeStates(DeviceResources())
    node_states.set(node("n1"))
    assert list(reported(node_states)) == ["n1"]
    node_states.set(node("n1"))  # a heartbeat
    assert reported(node_states) == {}
    node_states.gone("n1")
    assert reported(node_states) == {"n1": None}
    assert "n1" not in node_states


def test_a_cordoned_node_is_tainted() -> None:
    node_states = NodeStates(DeviceResources())
    node_states.set(node("n1", cordoned=True))
    made = reported(node_states)["n1"]
    assert made is not None
    assert [taint.key for taint in made.taints] == ["node.kubernetes.io/unschedulable"]


def test_what_others_hold_is_taken_off_whenever_it_is_heard_of() -> None:
    node_states = NodeStates(DeviceResources())
    node_states.set_foreign_pod("p", held("n1", 4000, 2, "m"))
    assert reported(node_states) == {}
    node_states.set(node("n1"))
    made = reported(node_states)["n1"]
    assert made is not None
    assert (made.capacity["cpu"], made.capacity["pods"]) == (60_000, 109)
    assert made.foreign_devices == (2, 3)
    assert made.foreign_marks == {"m": 1}
    node_states.set_foreign_pod("p", None)
    made = reported(node_states)["n1"]
    assert made is not None
    assert (made.capacity["cpu"], made.foreign_devices) == (64_000, ())


def test_devices_of_others_are_none_of_ours() -> None:
    node_states = NodeStates(DeviceResources())
    node_states.set(node("n1"))
    node_states.set_foreign_pod("p", held("n1", 1000, 2))
    reported(node_states)
    node_states.set_own_pod(
        "q", PodUsage("n1", Request(devices=1), (3,))
    )  # bound before others were heard of
    made = reported(node_states)["n1"]
    assert made is not None
    assert made.foreign_devices == (1, 2)
    assert node_states.free_devices("n1", Request(devices=1)) == (0,)


def test_a_binding_is_held_against_the_newest() -> None:
    node_states = NodeStates(DeviceResources())
    node_states.set(node("n1"))
    ours = PodUsage("n1", Request(devices=2, cpu_milli=2000), (0, 1))
    node_states.set_own_pod("q", ours)
    assert node_states.refusal("q", ours) == ""
    node_states.set_foreign_pod("p", held("n1", 1000, 2))
    assert node_states.refusal("q", ours) == ""
    node_states.set_foreign_pod("r", held("n1", 1000, 1))
    assert "devices" in node_states.refusal("q", ours)
    node_states.set_foreign_pod("r", held("n1", 62_000))
    assert "cpu" in node_states.refusal("q", ours)
    node_states.set_foreign_pod("r", None)
    node_states.set(node("n1", cordoned=True))
    assert "cordoned" in node_states.refusal("q", ours)
    node_states.gone("n1")
    assert "gone" in node_states.refusal("q", ours)


def test_where_both_bound_in_one_moment_others_get_devices_of_their_own_once_there_are_some() -> None:
    node_states = NodeStates(DeviceResources())
    node_states.set(node("n1"))
    whole = Request(devices=2)
    node_states.set_own_pod("a", PodUsage("n1", Request(devices=1), (2,)))
    node_states.set_own_pod("b", PodUsage("n1", whole, (0, 1)))
    node_states.set_foreign_pod("p", held("n1", 1000, 2))
    made = reported(node_states)["n1"]
    assert made is not None
    assert set(made.foreign_devices) | {0, 1, 2} == {0, 1, 2, 3}  # nothing is left
    node_states.set_own_pod("b", None)
    made = reported(node_states)["n1"]
    assert made is not None
    assert made.foreign_devices == (1, 3)
    place = PodUsage("n1", whole, (0, 1))
    node_states.set_own_pod("c", place)
    assert "took devices" in node_states.refusal("c", place)
    node_states.set_own_pod("c", None)
    place = PodUsage("n1", Request(devices=1), (0,))
    node_states.set_own_pod("c", place)
    assert node_states.refusal("c", place) == ""


def test_no_pod_goes_to_a_device_that_another_of_ours_is_found_to_have() -> None:
    node_states = NodeStates(DeviceResources())
    node_states.set(node("n1"))
    half, whole = Request(devices=1, share_milli=500), Request(devices=1)
    node_states.set_own_pod("a", PodUsage("n1", half, (0,)))
    for request, at, may in ((half, 0, True), (whole, 0, False), (whole, 1, True)):
        place = PodUsage("n1", request, (at,))
        node_states.set_own_pod("b", place)
        assert (node_states.refusal("b", place) == "") == may


def test_every_node_has_every_port() -> None:
    node_states = NodeStates(DeviceResources())
    node_states.set(node("n1"))
    node_states.set(node("n2"))
    node_states.set_foreign_pod("p", ForeignUsage("n1", (("hostport/TCP/80", ADDRESSES_MAX), ("pods", 1))))
    reported(node_states)
    node_states.use_unstated(("hostport/TCP/80", "hostport/TCP/80/10.0.0.1"))
    made = reported(node_states)
    ports = {
        name: [each.capacity[port] for port in ("hostport/TCP/80", "hostport/TCP/80/10.0.0.1")]
        for name, each in made.items()
        if each is not None
    }
    assert ports == {"n1": [0, 1], "n2": [ADDRESSES_MAX, 1]}


def test_a_node_limits_the_volumes_of_a_driver_and_others_any_number() -> None:
    node_states, disks = NodeStates(DeviceResources()), "attached-volumes/disk"
    node_states.limit("n1", {disks: 2})
    for name in ("n1", "n2"):
        node_states.set(node(name))
    node_states.use_unstated({disks})
    node_states.set_foreign_pod("p", ForeignUsage("n1", (("pods", 1),)))
    has = {name: each.capacity[disks] for name, each in reported(node_states).items() if each is not None}
    assert has == {"n1": 2, "n2": PLENTY}
    node_states.remark("p", (), ((disks, 1),))
    made = reported(node_states)["n1"]
    assert made is not None
    assert made.capacity[disks] == 1
    for at in (1, 2):
        place = PodUsage("n1", Request(further=((disks, 1),)), ())
        node_states.set_own_pod(f"ours-{at}", place)
        assert ("attached-volumes" in node_states.refusal("ours", place)) == (at == 2)
    node_states.limit("n1", {})
    assert node_states.refusal("ours", place) == ""


def test_a_node_without_pods_is_forgotten() -> None:
    node_states = NodeStates(DeviceResources())
    node_states.set_foreign_pod("p", held())
    node_states.set_foreign_pod("p", None)
    assert not [fact for fact in node_states.facts() if isinstance(fact, NodeLost)]
    assert not node_states._sites

"""Nodes, less what others hold of them."""

from weir.kubernetes.picture.nodes import Ground, Held, Ours, node_of
from weir.kubernetes.reading.requests import ADDRESSES_MOST, DEVICES_LABEL, PLENTY, Devices
from weir.model.nodes import Node
from weir.model.workloads import Request
from weir.state.events import NodeLost, NodeSet

from .small_world import node

GiB = 1 << 30


def told(ground: Ground) -> dict[str, Node | None]:
    return {
        fact.node.name if isinstance(fact, NodeSet) else fact.name: fact.node
        if isinstance(fact, NodeSet)
        else None
        for fact in ground.facts()
    }


def held(name: str = "n1", cpu: int = 1000, devices: int = 0, *marks: str) -> Held:
    return Held(name, (("cpu", cpu), ("pods", 1)), devices, marks)


def test_a_node_says_what_it_is_in_its_labels() -> None:
    made = node("n1", 8, labels={"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.memory": "81559"})
    read = node_of(made, Devices())
    assert (read.gpus, read.gpu_model, read.gpu_memory) == (8, "H100", 81559 << 20)
    assert read.capacity == {"cpu": 64_000, "memory": 256 * GiB, "pods": 110}
    assert read.labels[DEVICES_LABEL] == "nvidia.com/gpu"


def test_memory_of_other_vendors() -> None:
    made = node("n1", 8, labels={"amd.com/gpu.vram": "192G", "amd.com/gpu.product-name": "MI300X"})
    made.status.allocatable["amd.com/gpu"] = made.status.allocatable.pop("nvidia.com/gpu")
    read = node_of(made, Devices())
    assert (read.gpus, read.gpu_model, read.gpu_memory) == (8, "MI300X", 192 * GiB)


def test_what_is_not_new_is_not_told() -> None:
    ground = Ground(Devices())
    ground.set(node("n1"))
    assert list(told(ground)) == ["n1"]
    ground.set(node("n1"))  # a heartbeat
    assert told(ground) == {}
    ground.gone("n1")
    assert told(ground) == {"n1": None}
    assert "n1" not in ground


def test_a_cordoned_node_is_tainted() -> None:
    ground = Ground(Devices())
    ground.set(node("n1", cordoned=True))
    made = told(ground)["n1"]
    assert made is not None
    assert [taint.key for taint in made.taints] == ["node.kubernetes.io/unschedulable"]


def test_what_others_hold_is_taken_off_whenever_it_is_heard_of() -> None:
    ground = Ground(Devices())
    ground.foreign("p", held("n1", 4000, 2, "m"))
    assert told(ground) == {}
    ground.set(node("n1"))
    made = told(ground)["n1"]
    assert made is not None
    assert (made.capacity["cpu"], made.capacity["pods"]) == (60_000, 109)
    assert made.foreign_devices == (2, 3)
    assert made.foreign_marks == {"m": 1}
    ground.foreign("p", None)
    made = told(ground)["n1"]
    assert made is not None
    assert (made.capacity["cpu"], made.foreign_devices) == (64_000, ())


def test_devices_of_others_are_none_of_ours() -> None:
    ground = Ground(Devices())
    ground.set(node("n1"))
    ground.foreign("p", held("n1", 1000, 2))
    told(ground)
    ground.ours("q", Ours("n1", Request(devices=1), (3,)))  # bound before others were heard of
    made = told(ground)["n1"]
    assert made is not None
    assert made.foreign_devices == (1, 2)
    assert ground.free_devices("n1", Request(devices=1)) == (0,)


def test_a_binding_is_held_against_the_newest() -> None:
    ground = Ground(Devices())
    ground.set(node("n1"))
    ours = Ours("n1", Request(devices=2, cpu_milli=2000), (0, 1))
    ground.ours("q", ours)
    assert ground.refusal("q", ours) == ""
    ground.foreign("p", held("n1", 1000, 2))
    assert ground.refusal("q", ours) == ""
    ground.foreign("r", held("n1", 1000, 1))
    assert "devices" in ground.refusal("q", ours)
    ground.foreign("r", held("n1", 62_000))
    assert "cpu" in ground.refusal("q", ours)
    ground.foreign("r", None)
    ground.set(node("n1", cordoned=True))
    assert "cordoned" in ground.refusal("q", ours)
    ground.gone("n1")
    assert "gone" in ground.refusal("q", ours)


def test_where_both_bound_in_one_moment_others_get_devices_of_their_own_once_there_are_some() -> None:
    ground = Ground(Devices())
    ground.set(node("n1"))
    whole = Request(devices=2)
    ground.ours("a", Ours("n1", Request(devices=1), (2,)))
    ground.ours("b", Ours("n1", whole, (0, 1)))
    ground.foreign("p", held("n1", 1000, 2))
    made = told(ground)["n1"]
    assert made is not None
    assert set(made.foreign_devices) | {0, 1, 2} == {0, 1, 2, 3}  # nothing is left
    ground.ours("b", None)
    made = told(ground)["n1"]
    assert made is not None
    assert made.foreign_devices == (1, 3)
    place = Ours("n1", whole, (0, 1))
    ground.ours("c", place)
    assert "took devices" in ground.refusal("c", place)
    ground.ours("c", None)
    place = Ours("n1", Request(devices=1), (0,))
    ground.ours("c", place)
    assert ground.refusal("c", place) == ""


def test_no_pod_goes_to_a_device_that_another_of_ours_is_found_to_have() -> None:
    ground = Ground(Devices())
    ground.set(node("n1"))
    half, whole = Request(devices=1, share_milli=500), Request(devices=1)
    ground.ours("a", Ours("n1", half, (0,)))
    for request, at, may in ((half, 0, True), (whole, 0, False), (whole, 1, True)):
        place = Ours("n1", request, (at,))
        ground.ours("b", place)
        assert (ground.refusal("b", place) == "") == may


def test_every_node_has_every_port() -> None:
    ground = Ground(Devices())
    ground.set(node("n1"))
    ground.set(node("n2"))
    ground.foreign("p", Held("n1", (("hostport/TCP/80", ADDRESSES_MOST), ("pods", 1))))
    told(ground)
    ground.use_unstated(("hostport/TCP/80", "hostport/TCP/80/10.0.0.1"))
    made = told(ground)
    ports = {
        name: [each.capacity[port] for port in ("hostport/TCP/80", "hostport/TCP/80/10.0.0.1")]
        for name, each in made.items()
        if each is not None
    }
    assert ports == {"n1": [0, 1], "n2": [ADDRESSES_MOST, 1]}


def test_a_node_takes_only_so_many_volumes_of_a_driver_and_others_any_number() -> None:
    ground, disks = Ground(Devices()), "attached-volumes/disk"
    ground.limit("n1", {disks: 2})
    for name in ("n1", "n2"):
        ground.set(node(name))
    ground.use_unstated({disks})
    ground.foreign("p", Held("n1", (("pods", 1),)))
    has = {name: each.capacity[disks] for name, each in told(ground).items() if each is not None}
    assert has == {"n1": 2, "n2": PLENTY}
    ground.remark("p", (), ((disks, 1),))
    made = told(ground)["n1"]
    assert made is not None
    assert made.capacity[disks] == 1
    for at in (1, 2):
        place = Ours("n1", Request(further=((disks, 1),)), ())
        ground.ours(f"ours-{at}", place)
        assert ("attached-volumes" in ground.refusal("ours", place)) == (at == 2)
    ground.limit("n1", {})
    assert ground.refusal("ours", place) == ""


def test_a_node_nobody_is_on_is_forgotten() -> None:
    ground = Ground(Devices())
    ground.foreign("p", held())
    ground.foreign("p", None)
    assert not [fact for fact in ground.facts() if isinstance(fact, NodeLost)]
    assert not ground._sites

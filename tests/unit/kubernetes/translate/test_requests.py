"""Requests of pods."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kubernetes.written import container, pod

from weir.kubernetes.translate.annotations import Annotations
from weir.kubernetes.translate.claim_constraints import CLAIMED_DEVICES, ClaimConstraints
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.translate.pod_affinity import PodAffinities
from weir.kubernetes.translate.requests import (
    ADDRESSES_MAX,
    DEVICES_LABEL,
    gates,
    has_unstated,
    in_units,
    parse_request,
    priority_of,
    requested,
    unstated_in_use,
)
from weir.kubernetes.translate.volumes import VolumeConstraints
from weir.model.nodes import Toleration
from weir.model.workloads import NodeAffinityRule, NodeExpression, PodAffinityRule, Request

NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"
GI = 1 << 30


def asked(answer=Annotations(), devices=DeviceResources(), **spec):  # noqa: B008
    return parse_request(pod(**spec), answer, devices=devices)


def request(answer=Annotations(), **spec):  # noqa: B008
    result = asked(answer, **spec)
    assert result.refusals == ()
    return result.request


def cpus(*amounts, sidecars=()):
    return [
        container(f"c{at}", requests={"cpu": each}, sidecar=at in sidecars) for at, each in enumerate(amounts)
    ]


# Amounts


def test_a_pod_that_asks_for_nothing_takes_nothing_but_its_place():
    assert request() == Request(devices=0, cpu_milli=0, memory=0)


def test_containers_add_up_exactly():
    each = container(
        requests={"cpu": "100m", "memory": "1.5Gi", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}
    )
    found = request(containers=[each, each, each])
    assert (found.cpu_milli, found.memory) == (300, 3 * 3 * GI // 2)
    assert found.further == (("ephemeral-storage", 3 * GI), ("hugepages-2Mi", 12 << 20))


def test_parts_of_a_thousandth_are_rounded_once_for_the_whole_pod():
    assert request(containers=cpus("500u", "500u", "500u")).cpu_milli == 2


def test_a_pod_may_ask_for_less_than_a_thousandth_as_kubernetes_lets_it():
    container_ = container(requests={"cpu": "100u", "memory": "1500m"})
    found = asked(containers=[container_])
    assert (found.request.cpu_milli, found.request.memory, found.refusals) == (1, 2, ())


def test_a_limit_stands_where_nothing_is_requested():
    found = request(
        containers=[container(requests={"cpu": "1"}, limits={"cpu": "2", NVIDIA: "2", "memory": "1Gi"})]
    )
    assert (found.devices, found.cpu_milli, found.memory) == (2, 1000, GI)


@pytest.mark.parametrize(
    ("containers", "init", "cpu_milli"),
    [
        (cpus("1", "1"), cpus("5"), 5000),  # the largest init container
        (cpus("1", "1"), cpus("1", "1"), 2000),  # one after the other
        (cpus("1"), cpus("1", "1", sidecars=(0, 1)), 3000),  # sidecars run on
        (cpus("1"), cpus("2", "3", sidecars=(0,)), 5000),  # an init container beside the sidecar before it
        (cpus("1"), cpus("3", "2", sidecars=(1,)), 3000),  # but not beside the one after it
        (cpus("1"), cpus("1", "4", "1", sidecars=(0, 2)), 5000),
    ],
)
def test_init_containers_and_sidecars_count_as_in_kubernetes(containers, init, cpu_milli):
    assert request(containers=containers, initContainers=init).cpu_milli == cpu_milli


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=5),
)
def test_a_pod_takes_as_much_as_it_ever_runs_at_once(main, init):
    """Played through: init containers one by one, each beside the sidecars begun before it, then all the rest."""
    beside = most = 0
    for cpu, stays in init:
        most = max(most, beside + cpu)
        beside += cpu if stays else 0
    most = max(most, beside + sum(main))
    found = requested(
        pod(
            containers=[container(requests={"cpu": str(each)}) for each in main],
            initContainers=[container(requests={"cpu": str(each)}, sidecar=stays) for each, stays in init],
        )
    )
    assert found["cpu"] == most


def test_what_the_pod_states_as_a_whole_holds_and_overhead_comes_on_top():
    spec = {
        "containers": [container(requests={"cpu": "1", "memory": "1Gi", NVIDIA: "1"})],
        "resources": {"requests": {"cpu": "4", "hugepages-2Mi": "2Mi"}},
        "overhead": {"cpu": "250m", "memory": "64Mi"},
    }
    found = request(**spec)
    assert (found.cpu_milli, found.memory, found.devices) == (4250, GI + (64 << 20), 1)
    assert found.further == (("hugepages-2Mi", 2 << 20),)


def test_further_resources_are_counted_under_their_names():
    found = request(
        containers=[container(requests={"nvidia.com/mig-1g.5gb": "2", "rdma/hca": "1", "cpu": "0"})]
    )
    assert found.further == (("nvidia.com/mig-1g.5gb", 2), ("rdma/hca", 1))
    assert in_units({"cpu": Fraction(1, 3), NVIDIA: Fraction(1), "x/y": Fraction(0)}, DeviceResources()) == {
        "cpu": 334
    }


def test_an_unreadable_quantity_is_reported_with_its_resource():
    (reported,) = asked(containers=[container(requests={"memory": "lots"})]).refusals
    assert reported.startswith("memory: 'lots' is not a quantity: write")


# Devices


@pytest.mark.parametrize(
    ("answer", "devices", "share_milli", "gpu_memory"),
    [
        (Annotations(fraction_milli=500), 1, 500, 0),
        (Annotations(fraction_milli=250, devices=2), 2, 250, 0),
        (Annotations(gpu_memory=8 * GI), 1, 0, 8 * GI),
        (Annotations(gpu_memory=8 * GI, devices=4), 4, 0, 8 * GI),
        (Annotations(fraction_milli=1000), 1, 1000, 0),
    ],
)
def test_a_part_of_a_device_is_what_was_said(answer, devices, share_milli, gpu_memory):
    found = request(answer)
    assert (found.devices, found.share_milli, found.gpu_memory) == (devices, share_milli, gpu_memory)


@pytest.mark.parametrize(
    ("answer", "resources", "reported"),
    [
        (
            Annotations(fraction_milli=500),
            {NVIDIA: "1"},
            "take nvidia.com/gpu out of resources, or the fraction out",
        ),
        (
            Annotations(),
            {NVIDIA: "1", AMD: "1"},
            "amd.com/gpu and nvidia.com/gpu, and no node has both: ask for one",
        ),
        (Annotations(), {NVIDIA: "2000"}, "more than a node can have: ask for fewer"),
    ],
)
def test_impossible_requests_of_devices_are_refused_with_advice(answer, resources, reported):
    (sentence,) = asked(answer, containers=[container(requests=resources)]).refusals
    assert reported in sentence


def test_claims_are_devices_of_a_kind_of_their_own():
    claims = ClaimConstraints(needs=(("claims/gpus #1", 1),), devices=2, share_milli=500, weight_milli=250)
    devices = DeviceResources(present=frozenset({NVIDIA, CLAIMED_DEVICES}))
    parsed = parse_request(pod(), Annotations(), devices=devices, claims=claims)
    assert parsed.refusals == ()
    request = parsed.request
    assert (request.devices, request.share_milli, request.gpu_weight_milli) == (2, 500, 250)
    assert ("claims/gpus #1", 1) in request.further
    assert NodeAffinityRule(((NodeExpression(DEVICES_LABEL, "NotIn", (NVIDIA,)),),)) in request.rules


def test_shares_keep_off_nodes_whose_devices_are_claimed():
    devices = DeviceResources(present=frozenset({NVIDIA, CLAIMED_DEVICES}))
    request = asked(Annotations(fraction_milli=500), devices=devices).request
    assert NodeAffinityRule(((NodeExpression(DEVICES_LABEL, "NotIn", (CLAIMED_DEVICES,)),),)) in request.rules


def test_pods_keep_off_nodes_with_other_devices_only_where_there_are_some():
    ask_amd = {"containers": [container(requests={AMD: "1"})]}
    one_kind = DeviceResources(present=frozenset({AMD}))
    both = DeviceResources(present=frozenset({AMD, NVIDIA}))
    assert asked(devices=one_kind, **ask_amd).request.rules == ()
    assert asked(devices=both, **ask_amd).request.rules == (
        NodeAffinityRule(((NodeExpression(DEVICES_LABEL, "NotIn", (NVIDIA,)),),)),
    )
    assert asked(devices=both).request.rules == ()


def test_which_resources_are_devices_is_a_setting():
    devices = DeviceResources(("example.com/*",))
    assert devices.names("example.com/npu")
    assert not devices.names(NVIDIA)
    found = asked(
        devices=devices, containers=[container(requests={"example.com/npu": "3", NVIDIA: "1"})]
    ).request
    assert (found.devices, found.further) == (3, ((NVIDIA, 1),))


# Nodes


def _affinity(required=None, preferred=()):
    node = {"preferredDuringSchedulingIgnoredDuringExecution": list(preferred)}
    if required is not None:
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": required}
    return {"nodeAffinity": node}


def _in(key, *values, operator="In"):
    return {"key": key, "operator": operator, "values": list(values)}


def test_node_affinity_becomes_rules():
    affinity = _affinity(
        [
            {"matchExpressions": [_in("zone", "a", "b"), _in("gen", "4", operator="Gt")]},
            {"matchFields": [_in("metadata.name", "n1")]},
            {},  # matches nothing
        ],
        [
            {"weight": 20, "preference": {"matchExpressions": [_in("disk", operator="Exists")]}},
            {"weight": 5, "preference": {}},
        ],
    )
    assert request(affinity=affinity).rules == (
        NodeAffinityRule(
            (
                (NodeExpression("zone", "In", ("a", "b")), NodeExpression("gen", "Gt", ("4",))),
                (NodeExpression("metadata.name", "In", ("n1",)),),
            )
        ),
        NodeAffinityRule(((NodeExpression("disk", "Exists"),),), 20),
    )


def test_an_affinity_to_no_node_at_all_stays_one():
    assert request(affinity=_affinity([{}])).rules == (NodeAffinityRule(()),)


def test_a_node_selector_is_the_same_in_any_order():
    assert request(nodeSelector={"b": "2", "a": "1"}) == request(nodeSelector={"a": "1", "b": "2"})
    assert request(nodeSelector={"b": "2", "a": "1"}).node_selector == (("a", "1"), ("b", "2"))


def test_tolerations_are_those_written_and_no_more():
    written = [
        {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "value": "a"},
        {"operator": "Exists"},
        {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "cores", "operator": "Gt", "value": "4"},
    ]
    assert request(tolerations=written).tolerations == (
        Toleration("gpu", "Exists", "", "NoSchedule"),
        Toleration("team", "Equal", "a"),
        Toleration("", "Exists"),
    )
    assert request().tolerations == ()


# Host ports


def test_a_port_of_the_node_is_a_resource():
    ports = [
        {"hostPort": 8080},
        {"hostPort": 8080, "hostIP": "10.0.0.1"},
        {"hostPort": 53, "protocol": "UDP"},
        {"containerPort": 1},
    ]
    sidecar = container("s", ports=[{"hostPort": 9}], sidecar=True)
    init = container("i", ports=[{"hostPort": 10}])
    found = request(containers=[container(ports=ports)], initContainers=[sidecar, init])
    assert found.further == (
        ("hostport/TCP/8080", ADDRESSES_MAX),
        ("hostport/TCP/8080/10.0.0.1", 1),
        ("hostport/TCP/9", ADDRESSES_MAX),
        ("hostport/UDP/53", ADDRESSES_MAX),
    )
    other = request(containers=[container(requests={"rdma/hca": "1"}, ports=[{"hostPort": 7}])])
    assert unstated_in_use([found, other, Request()]) == {
        "hostport/TCP/7",
        "hostport/TCP/8080",
        "hostport/TCP/8080/10.0.0.1",
        "hostport/TCP/9",
        "hostport/UDP/53",
    }


@pytest.mark.parametrize(
    ("first", "second", "collide"),
    [
        ("", "", True),
        ("", "10.0.0.1", True),
        ("10.0.0.1", "0.0.0.0", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
    ],
)
def test_ports_of_a_node_collide_where_their_addresses_do(first, second, collide):
    totals = Counter()
    for address in (first, second):
        port = {"hostPort": 80, **({"hostIP": address} if address else {})}
        totals.update(dict(request(containers=[container(ports=[port])]).further))
    assert any(amount > has_unstated(name) for name, amount in totals.items()) == collide


# What else a pod says


def test_neighbours_and_volumes_become_part_of_the_request():
    rule, far = (
        NodeAffinityRule(((NodeExpression("zone", "In", ("a",)),),)),
        PodAffinityRule("anti_affinity", "m", "zone"),
    )
    found = parse_request(
        pod(nodeSelector={"x": "y"}),
        Annotations(),
        devices=DeviceResources(),
        volumes=VolumeConstraints((rule,)),
        neighbours=PodAffinities(("m",), (far,)),
    ).request
    assert (found.rules, found.marks, found.pod_rules) == ((rule,), ("m",), (far,))


@pytest.mark.parametrize(
    ("answer", "deadline", "runtime"),
    [(None, None, None), (60.0, None, 60.0), (None, 30, 30.0), (60.0, 30, 30.0), (60.0, 90, 60.0)],
)
def test_the_sooner_of_two_ends_holds(answer, deadline, runtime):
    assert asked(Annotations(max_runtime_s=answer), activeDeadlineSeconds=deadline).max_runtime_s == runtime


def test_who_may_not_take_and_how_long_a_pod_may_stop():
    assert asked().can_preempt
    never = asked(preemptionPolicy="Never", terminationGracePeriodSeconds=5)
    assert (never.can_preempt, never.grace_s) == (False, 5)


def test_gates_are_named():
    assert gates(pod()) is None
    assert gates(pod(schedulingGates=[{"name": "a.io/x"}])) == "waits for its scheduling gate a.io/x"
    assert gates(pod(schedulingGates=[{"name": "a"}, {"name": "b"}])) == "waits for its scheduling gates a, b"


@pytest.mark.parametrize(
    ("spec", "answer", "priority"),
    [
        ({}, None, None),
        ({"priority": 0}, None, None),  # every pod has one; without a class it says nothing
        ({"priority": 7, "priorityClassName": "mine"}, None, 7),
        ({"priorityClassName": "mine"}, None, 70),
        ({}, "mine", 70),
        ({}, "build", 100),
        ({}, "unheard-of", None),
        ({"priority": 7, "priorityClassName": "mine"}, "build", 7),
    ],
)
def test_priority_comes_from_a_class_that_is_named(spec, answer, priority):
    assert priority_of(pod(**spec), Annotations(priority_class=answer), {"mine": 70}) == priority

"""Nodes allowed by a pod's volumes, and the writes before its binding."""

import pytest
from tests.unit.kubernetes.written import claim, pod, storage_class, volume

from weir.kubernetes.translate.volumes import (
    NO_PROVISIONER,
    SELECTED_NODE,
    BindVolume,
    SelectNode,
    VolumeConstraints,
    VolumeInventory,
    before_bind,
    claims_of,
    volume_constraints,
)
from weir.model.nodes import Node
from weir.model.workloads import NODE_NAME, NodeAffinityRule, NodeExpression

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def using(*claims):
    return pod(
        volumes=[
            {"name": f"v{at}", "persistentVolumeClaim": {"claimName": name}} for at, name in enumerate(claims)
        ]
    )


def inventory(*claims, volumes=(), classes=()):
    return VolumeInventory(
        {(each.metadata.namespace, each.metadata.name): each for each in claims},
        {each.metadata.name: each for each in volumes},
        {each.metadata.name: each for each in classes},
    )


def node(name="n1", **labels):
    return Node(name=name, gpus=0, gpu_memory=0, capacity={}, labels={HOST: name, **labels})


def on(*hosts):
    return NodeAffinityRule(tuple((NodeExpression(HOST, "In", (host,)),) for host in hosts))


LOCAL = storage_class("local", provisioner=NO_PROVISIONER)


def test_a_pod_without_claims_goes_anywhere():
    assert volume_constraints(pod(volumes=[{"name": "scratch"}]), VolumeInventory()) == VolumeConstraints()
    assert before_bind(pod(), node(), VolumeInventory()) == ()


def test_claims_are_those_named_and_those_made_for_the_pod():
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "config"},
    ]
    assert claims_of(pod("train-0", volumes=volumes)) == ("data", "train-0-scratch")


def test_a_bound_volume_ties_the_pod_to_where_it_is():
    known = inventory(claim(volume="pv"), volumes=[volume(node="n1")])
    assert volume_constraints(using("data"), known) == VolumeConstraints((on("n1"),))
    assert before_bind(using("data"), node("n1"), known) == ()
    assert (
        before_bind(using("data"), node("n2"), known) == "the volume of claim data can't be reached from n2"
    )


def test_a_bound_volume_that_is_everywhere_ties_to_nothing():
    assert (
        volume_constraints(using("data"), inventory(claim(volume="pv"), volumes=[volume()]))
        == VolumeConstraints()
    )


def test_an_old_volume_says_its_zones_by_labels():
    old = volume(labels={ZONE: "b__a"})
    assert volume_constraints(using("data"), inventory(claim(volume="pv"), volumes=[old])).rules == (
        NodeAffinityRule(((NodeExpression(ZONE, "In", ("a", "b")),),)),
    )


def test_all_volumes_have_to_be_reached():
    known = inventory(
        claim("a", volume="pa"),
        claim("b", volume="pb"),
        volumes=[volume("pa", node="n1"), volume("pb", node="n2")],
    )
    assert volume_constraints(using("a", "b"), known).rules == (on("n1"), on("n2"))


@pytest.mark.parametrize(
    ("known", "reported"),
    [
        (inventory(), "waits for its volume claim data, which doesn't exist: create it"),
        (inventory(claim(namespace="other")), "which doesn't exist"),
        (inventory(claim(volume="pv")), "waits for its volume claim data to be bound to pv"),
        (inventory(claim(volume="pv", phase="Pending"), volumes=[volume()]), "to be bound to pv"),
        (inventory(claim(volume="pv", phase="Lost")), "has lost its volume pv: create another claim"),
        (inventory(claim()), "kubectl describe pvc data shows the cause"),
        (
            inventory(claim(), classes=[storage_class(late=False)]),
            "kubectl describe pvc data shows the cause",
        ),
        (
            inventory(claim(cls="local"), classes=[LOCAL]),
            "waits for a volume of class local that fits its claim data: create one",
        ),
    ],
)
def test_a_volume_that_is_not_there_yet_is_waited_for(known, reported):
    volumes = volume_constraints(using("data"), known)
    assert reported in volumes.waits
    assert volumes.rules == ()
    assert isinstance(before_bind(using("data"), node(), known), str)


def test_a_claim_that_is_being_deleted_is_waited_for():
    going = claim(volume="pv")
    going.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    assert "is being deleted" in volume_constraints(using("data"), inventory(going, volumes=[volume()])).waits


def test_where_a_volume_can_be_made_anywhere_the_choice_is_written_on_the_claim():
    known = inventory(claim(), classes=[storage_class()])
    assert volume_constraints(using("data"), known) == VolumeConstraints()
    assert before_bind(using("data"), node("n7"), known) == (SelectNode("team", "data", "n7"),)


def test_a_class_allows_some_nodes():
    topologies = [
        {"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]},
        {"matchLabelExpressions": [{"key": ZONE, "values": ["c"]}, {"key": "disk", "values": ["ssd"]}]},
    ]
    known = inventory(claim(), classes=[storage_class(topologies=topologies)])
    assert volume_constraints(using("data"), known).rules == (
        NodeAffinityRule(
            (
                (NodeExpression(ZONE, "In", ("a", "b")),),
                (NodeExpression(ZONE, "In", ("c",)), NodeExpression("disk", "In", ("ssd",))),
            )
        ),
    )
    assert before_bind(using("data"), node(**{ZONE: "a"}), known) == (SelectNode("team", "data", "n1"),)
    assert "can't be reached from n1" in before_bind(using("data"), node(**{ZONE: "d"}), known)


def test_a_choice_made_before_holds():
    known = inventory(claim(annotations={SELECTED_NODE: "n1"}), classes=[storage_class()])
    assert volume_constraints(using("data"), known).rules == (
        NodeAffinityRule(((NodeExpression(NODE_NAME, "In", ("n1",)),),)),
    )
    assert before_bind(using("data"), node("n1"), known) == ()
    assert "can't be reached" in before_bind(using("data"), node("n2"), known)


def test_local_volumes_are_where_they_are_and_the_smallest_that_fits_is_taken():
    volumes = [
        volume("big", cls="local", node="n1", size="40Gi"),
        volume("fit", cls="local", node="n1", size="12Gi"),
        volume("far", cls="local", node="n2"),
        volume("small", cls="local", node="n3", size="1Gi"),
        volume("other", cls="fast", node="n4"),
    ]
    known = inventory(claim(cls="local"), volumes=volumes, classes=[LOCAL])
    assert volume_constraints(using("data"), known).rules == (on("n1", "n2"),)
    assert before_bind(using("data"), node("n1"), known) == (BindVolume("fit", "team", "data", "uid-data"),)
    assert before_bind(using("data"), node("n2"), known) == (BindVolume("far", "team", "data", "uid-data"),)
    assert "can't be reached from n3" in before_bind(using("data"), node("n3"), known)


def test_two_claims_of_a_pod_take_two_volumes():
    known = inventory(
        claim("a", cls="local"),
        claim("b", cls="local"),
        volumes=[volume("one", cls="local", node="n1")],
        classes=[LOCAL],
    )
    assert before_bind(using("a", "b"), node("n1"), known) == "no volume that fits claim b is left on n1"


@pytest.mark.parametrize(
    ("changed", "free"),
    [
        ({}, True),
        ({"claim_ref": {"name": "other", "namespace": "team"}}, False),
        ({"claim_ref": {"name": "data", "namespace": "team"}}, True),
        ({"claim_ref": {"name": "data", "namespace": "team", "uid": "uid-data"}}, True),
        ({"claim_ref": {"name": "data", "namespace": "team", "uid": "of-an-older-one"}}, False),
        ({"volumeMode": "Block"}, False),
        ({"accessModes": ["ReadOnlyMany"]}, False),
        ({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}, True),
    ],
)
def test_a_volume_has_to_fit_in_every_way(changed, free):
    known = inventory(
        claim(cls="local"), volumes=[volume(cls="local", node="n1", **changed)], classes=[LOCAL]
    )
    assert (volume_constraints(using("data"), known).waits is None) is free


def test_a_claim_may_choose_volumes_by_their_labels():
    volumes = [
        volume("a", cls="local", node="n1", labels={"disk": "ssd"}),
        volume("b", cls="local", node="n2"),
    ]
    known = inventory(
        claim(cls="local", selector={"matchLabels": {"disk": "ssd"}}), volumes=volumes, classes=[LOCAL]
    )
    assert volume_constraints(using("data"), known).rules == (on("n1"),)

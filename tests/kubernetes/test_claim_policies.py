"""Resource claims of people, on an API server with the policies and rights of an installation.

A person has rights on one namespace, as an administrator gives them there. Neither this person nor Weir's
account has a way to the claims and devices of others.
"""

from typing import Any

import pytest
from tests.kubernetes.claim_objects import gpu_class, needs_claims
from tests.kubernetes.policy_site import RBAC, Site, answer
from tools.controlplane.api import Api, Object
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.work import pod

from weir.kubernetes.claims.extended_resources import EXTENDED_CLAIM

pytestmark = needs_claims

API = "resource.k8s.io/v1"
REFUSED = "Weir creates and deletes the claims for extended resources of pods, and no other claims"
SPECIAL = {EXTENDED_CLAIM: "true"}
ALLOCATION = {
    "devices": {"results": [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-0"}]}
}


def path(namespace: str, name: str = "", query: str = "") -> str:
    base = f"/apis/{API}/namespaces/{namespace}/resourceclaims"
    return (f"{base}/{name}" if name else base) + query


def owner(name: str, uid: str, kind: str = "Pod", api_version: str = "v1") -> list[Object]:
    return [{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}]


def claim(name: str, **metadata: Any) -> Object:
    exactly = {"deviceClassName": "gpu.nvidia.com"}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": name, **metadata}, "spec": spec}


def person(site: Site, role: str) -> Api:
    """Return a person who has a role of Kubernetes in one namespace, and no right elsewhere."""
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    subject = {"apiGroup": RBAC, "kind": "User", "name": "ann"}
    site.cluster.api.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "ann", "namespace": site.within},
            "roleRef": ref,
            "subjects": [subject],
        }
    )
    wait_for_rights(site.cluster.api)
    return site.act_as("ann")


@pytest.mark.parametrize("role", ["edit", "admin"])
def test_a_person_has_the_claims_of_a_namespace_and_no_devices(site: Site, role: str) -> None:
    ann, within, elsewhere = person(site, role), site.within, site.cluster.namespace()
    admin = site.cluster.api
    admin.create(gpu_class())
    admin.post(path(elsewhere), claim("theirs"))
    ann.post(path(within), claim("mine"))
    ann.post(path(within), claim("special", annotations=SPECIAL))  # the policy is about Weir's account alone
    assert answer(lambda: ann.delete(path(within, "special"))) == ""
    devices = {"status": {"allocation": ALLOCATION}}
    reserved = {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}]}}
    for change in (devices, reserved):
        assert "forbidden" in answer(lambda c=change: ann.patch(path(within, "mine/status"), c))
    for act in (
        lambda: ann.post(path(elsewhere), claim("new")),
        lambda: ann.get(path(elsewhere, "theirs")),
        lambda: ann.delete(path(elsewhere, "theirs")),
        lambda: ann.patch(path(elsewhere, "theirs"), {"metadata": {"annotations": SPECIAL}}),
        lambda: ann.patch(path(elsewhere, "theirs/status"), devices),
    ):
        assert "forbidden" in answer(act)
    assert admin.get(path(within, "mine")).get("status", {}) == {}


def test_a_person_gets_the_rights_of_weirs_account_in_no_way(site: Site) -> None:
    ann, within = person(site, "admin"), site.within
    subject = {"apiGroup": RBAC, "kind": "User", "name": "ann"}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "more", "namespace": within},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "weir"},
        "subjects": [subject],
    }
    rule = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/binding"], "verbs": ["update"]}
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": {"name": "more", "namespace": within},
        "rules": [rule],
    }
    roles = f"/apis/{RBAC}/v1/namespaces/{within}"
    token = f"/api/v1/namespaces/{site.home}/serviceaccounts/weir/token"
    assert "forbidden" in answer(lambda: ann.post(f"{roles}/rolebindings", binding))
    assert "forbidden" in answer(lambda: ann.post(f"{roles}/roles", role))
    assert "forbidden" in answer(lambda: ann.post(token, {"spec": {}}))


def test_weirs_account_makes_and_deletes_no_claim_but_those_of_extended_resources(site: Site) -> None:
    ann, weir, within = person(site, "edit"), site.weir, site.within
    made = ann.post(f"/api/v1/namespaces/{within}/pods", pod(within, "p", 0))
    of_pod = owner("p", made["metadata"]["uid"])
    for metadata in (
        {},
        {"annotations": SPECIAL},
        {"ownerReferences": of_pod},
        {"annotations": {EXTENDED_CLAIM: "false"}, "ownerReferences": of_pod},
        {"annotations": SPECIAL, "ownerReferences": owner("p", "u", "Job", "batch/v1")},
        {"annotations": SPECIAL, "ownerReferences": owner("p", "u", "Pod", "example.com/v1")},
    ):
        refused = answer(lambda m=metadata: weir.post(path(within), claim("new", **m)))
        assert REFUSED in refused, metadata
    ann.post(path(within), claim("mine"))
    assert REFUSED in answer(lambda: weir.delete(path(within, "mine")))
    assert "forbidden" in answer(lambda: weir.ask("DELETE", path(within)))
    weir.post(path(within), claim("special", annotations=SPECIAL, ownerReferences=of_pod))
    assert answer(lambda: weir.delete(path(within, "special"))) == ""
    assert [each["metadata"]["name"] for each in ann.items(path(within))] == ["mine"]


def test_weirs_account_makes_no_claim_of_a_person_its_own(site: Site) -> None:
    ann, weir, within = person(site, "edit"), site.weir, site.within
    made = ann.post(f"/api/v1/namespaces/{within}/pods", pod(within, "p", 0))
    ann.post(path(within), claim("mine", labels={"a": "b"}))
    for metadata in (
        {"annotations": SPECIAL},
        {"ownerReferences": owner("p", made["metadata"]["uid"])},
        {"labels": {"a": None}},
    ):
        change = {"metadata": metadata}
        assert "finalizers alone" in answer(lambda c=change: weir.patch(path(within, "mine"), c)), metadata
    finalizer = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    assert answer(lambda: weir.patch(path(within, "mine"), finalizer)) == ""
    assert (
        answer(lambda: weir.patch(path(within, "mine/status"), {"status": {"allocation": ALLOCATION}})) == ""
    )
    assert answer(lambda: weir.patch(path(within, "mine/status"), {"status": {"allocation": None}})) == ""
    assert answer(lambda: weir.patch(path(within, "mine"), {"metadata": {"finalizers": None}})) == ""
    assert answer(lambda: ann.delete(path(within, "mine"))) == ""

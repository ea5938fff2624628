"""The admission policies of the manifests, enforced by the real API server without any Weir running."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from tests.kubernetes.policy_site import (
    FREE,
    GPUS,
    START,
    Site,
    annotations,
    answer,
    binding,
)
from tests.kubernetes.test_gangs_by_kind import definition, remove_definitions
from tests.properties.budget import EFFORT
from tools.controlplane.api import STRATEGIC, Object, collection
from tools.controlplane.enforcement import wait_for_policies, wait_for_rights
from tools.controlplane.weir import project
from tools.controlplane.work import job, pod

from weir.kubernetes.translate.annotations import REPORTER

IMMUTABLE = f'Event "a" is invalid: reportingController: Invalid value: "{REPORTER}": field is immutable'
INSTALLING = Path(__file__).parents[2] / "docs" / "how-to" / "kubernetes" / "install.md"
ON_DEMAND = pytest.mark.skipif(EFFORT == 1, reason="Run with WEIR_EFFORT=2 or more.")


def test_no_tenant_creates_a_pod_with_the_keys_that_weir_writes(site: Site) -> None:
    who = f"system:serviceaccount:{site.within}:default"
    for words in ({GPUS: "99"}, {GPUS: ""}, {START: "9" * 5000}, {GPUS: "0,1,2,3", START: "1"}):
        key = next(iter(words))
        reported = f"{key} is written by Weir alone, not by {who}: leave it out"
        assert site.refusal(pod(site.within, "a", 0, annotations=words, **FREE)) == reported
        assert site.refusal(pod(site.within, "a", 1, annotations=words, nodeName="n")) == reported
    assert "by Weir alone" in site.refusal(pod(site.within, "a", 0, labels={GPUS: "0"}, **FREE))
    assert site.refusal(pod(site.within, "a", 0, annotations={"weir.dev/min-pods": "1"}, **FREE)) == ""


def test_no_tenant_writes_the_keys_of_a_pod_by_any_path(site: Site) -> None:
    node = site.cluster.add_nodes(1)[0]
    tenant, refused = site.tenant, "is written by Weir alone"
    site.cluster.api.create(pod(site.within, "a", 0))
    for sub in ("", "status"):
        for words in (annotations(gpus="99"), annotations(start="1"), {"metadata": {"labels": {START: "1"}}}):
            assert refused in answer(lambda w=words, s=sub: tenant.patch(site.path("a", s), w))
            assert refused in answer(lambda w=words, s=sub: tenant.patch(site.path("a", s), w, STRATEGIC))
    assert refused in answer(lambda: site.bind(tenant, "a", node, {GPUS: "0"}))
    body = binding("a", node, annotations={START: "4"})
    assert refused in answer(lambda: tenant.post(f"/api/v1/namespaces/{site.within}/bindings", body))
    body = binding("a", node, labels={GPUS: "0"})
    assert refused in answer(lambda: tenant.post(site.path("a", "binding"), body))
    tracked = site.cluster.api.get(site.path("a"))
    assert "nodeName" not in tracked["spec"]
    assert not {GPUS, START} & {
        *tracked["metadata"].get("annotations", {}),
        *tracked["metadata"].get("labels", {}),
    }


@pytest.mark.parametrize("group", ["events.k8s.io", ""])
def test_no_tenant_reports_in_the_name_of_weir(site: Site, group: str) -> None:
    api, event = site.cluster.api, _event(site.within, group)
    field, path = "reportingController" if group else "reportingComponent", collection(event)
    refused = f"Events of {REPORTER} are written by Weir alone: name another reportingController."
    assert answer(lambda: site.tenant.post(path, {**event, field: REPORTER})) == refused
    site.tenant.create({**event, field: "example.com/own"})
    assert answer(lambda: site.tenant.patch(f"{path}/a", {field: REPORTER})) in (refused, IMMUTABLE)
    assert api.get(f"{path}/a")[field] == "example.com/own"
    api.delete(f"{path}/a")
    if group:  # the form that Weir writes
        site.weir.create({**event, field: REPORTER})


def _event(namespace: str, group: str) -> Object:
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": "a"}
    own: Object = {"metadata": {"name": "a", "namespace": namespace}, "reason": "Evicted", "type": "Normal"}
    own |= {"kind": "Event", "action": "Evict", "eventTime": "2026-01-01T00:00:00.000000Z"}
    if not group:
        return own | {"apiVersion": "v1", "involvedObject": about, "reportingInstance": "a"}
    return own | {"apiVersion": f"{group}/v1", "regarding": about, "reportingInstance": "a"}


def test_what_weir_wrote_stays_while_everything_else_can_change(site: Site) -> None:
    node = site.cluster.add_nodes(1)[0]
    api, tenant, refused = site.cluster.api, site.tenant, "is written by Weir alone"
    words = {GPUS: "0,1", START: "3"}
    api.create(pod(site.within, "a", 2, annotations={"weir.dev/max-runtime": "1h"}))
    site.bind(site.weir, "a", node, words)
    assert api.get(site.path("a"))["metadata"]["annotations"].items() >= words.items()
    # KWOK plays the kubelet: it writes the status.
    site.cluster.until(lambda: api.get(site.path("a"))["status"].get("phase") == "Running")
    for change in (annotations(gpus="99"), annotations(gpus=None), annotations(start=None, gpus="0,1")):
        assert refused in answer(lambda c=change: tenant.patch(site.path("a"), c))
        assert refused in answer(lambda c=change: tenant.patch(site.path("a", "status"), c))
    whole = tenant.get(site.path("a"))
    del whole["metadata"]["annotations"][GPUS]
    reported = answer(lambda: tenant.put(site.path("a"), whole))
    assert reported.startswith(f"{GPUS} is written by Weir alone, not by system:serviceaccount:")
    assert reported.endswith(": leave it as it is")
    tenant.patch(site.path("a"), {"metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}})
    tenant.patch(site.path("a"), annotations(gpus="0,1", start="3", type="build"))
    tenant.put(site.path("a"), tenant.get(site.path("a")))
    tenant.delete(site.path("a"))


def test_controllers_work_on_pods_that_weir_placed_and_copy_no_key(site: Site) -> None:
    node = site.cluster.add_nodes(1)[0]
    api, cluster = site.cluster.api, site.cluster
    api.create(job(site.within, "good", 1))
    first = cluster.until(lambda: cluster.pods(site.within))[0]["metadata"]["name"]
    site.bind(site.weir, first, node, {GPUS: "0", START: "1"})
    cluster.until(lambda: api.get(site.path(first))["status"].get("phase") == "Running")
    api.delete(f"/apis/batch/v1/namespaces/{site.within}/jobs/good")
    cluster.until(lambda: not cluster.pods(site.within), "finalizers and pods to be gone")

    api.create(job(site.within, "copies", 1, pod_annotations={GPUS: "0"}))
    events = f"/api/v1/namespaces/{site.within}/events"
    cluster.until(
        lambda: any("is written by Weir alone" in each["message"] for each in api.items(events)),
        "an event of the Job with the sentence",
    )
    assert cluster.pods(site.within) == []


def test_the_share_of_a_placed_pod_stays(site: Site) -> None:
    node = site.cluster.add_nodes(1)[0]
    tenant = site.tenant
    half = {"weir.dev/gpu-fraction": "0.5"}
    site.cluster.api.create(pod(site.within, "a", 0, annotations=half), pod(site.within, "b", 0))
    tenant.patch(site.path("a"), {"metadata": {"annotations": {"weir.dev/gpu-fraction": "0.9"}}})
    site.bind(site.weir, "a", node, {GPUS: "0", START: "1"})
    site.bind(site.weir, "b", node, {START: "1"})
    reported = (
        "weir.dev/gpu-fraction can't be changed once the pod has a node: delete the pod and make a new one"
    )
    for value in ("0.1", None):
        change = {"metadata": {"annotations": {"weir.dev/gpu-fraction": value}}}
        assert answer(lambda c=change: tenant.patch(site.path("a"), c)) == reported
        assert answer(lambda c=change: tenant.patch(site.path("a", "status"), c)) == reported
    late = {"metadata": {"labels": {"gpu-memory": "2000"}}}
    assert "gpu-memory can't be changed" in answer(lambda: tenant.patch(site.path("b"), late))


def test_workloads_are_written_by_weir_alone_and_may_lose_their_owner(site: Site) -> None:
    admin, within = site.cluster.api, site.within
    made = admin.post(f"/apis/batch/v1/namespaces/{within}/jobs", job(within, "owner", 1))
    path = f"/apis/weir.dev/v1alpha1/namespaces/{within}/workloads"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": made["metadata"]["uid"]}
    workload = {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "job-owner", "namespace": within, "ownerReferences": [owner]},
        "spec": {"owner": owner, "project": "p", "minPods": 1},
        "status": {"phase": "Running"},
    }
    assert "written by Weir alone" in answer(lambda: admin.post(f"{path}?dryRun=All", workload))
    assert site.weir.post(path, workload)["status"] == {"phase": "Running"}
    at = f"{path}/job-owner"
    for change in ({"status": {"phase": "Failed"}}, {"spec": {"project": "other"}}, {"status": None}):
        assert "written by Weir alone" in answer(lambda c=change: admin.patch(at, c))
        assert answer(lambda c=change: site.weir.patch(f"{at}?dryRun=All", c)) == ""
    collector = site.act_as("system:serviceaccount:kube-system:generic-garbage-collector", "system:masters")
    assert answer(lambda: collector.patch(at, {"metadata": {"ownerReferences": None}})) == ""
    assert answer(lambda: admin.delete(at)) == ""


def test_the_account_of_weir_has_no_reach_into_system_namespaces(site: Site) -> None:
    node = site.cluster.add_nodes(1)[0]
    for namespace in ("kube-system", site.home):
        path = f"/api/v1/namespaces/{namespace}/pods/none"
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "none", "namespace": namespace},
        }
        reported = f"Weir neither binds nor evicts pods of the namespace {namespace}"
        assert answer(lambda p=path, e=eviction: site.weir.post(f"{p}/eviction", e)) == reported
        assert answer(lambda p=path: site.weir.post(f"{p}/binding", binding("none", node))) == reported
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": site.within},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    site.cluster.api.create(claim)
    at = f"/api/v1/namespaces/{site.within}/persistentvolumeclaims/c"
    selected = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}}
    assert answer(lambda: site.weir.patch(at, selected)) == ""
    assert "changes no spec of a claim" in answer(lambda: site.weir.patch(at, {"spec": {"volumeName": "v"}}))


def test_the_account_of_weir_writes_the_fields_that_a_scheduler_writes(site: Site) -> None:
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/none"},
            "storageClassName": "other",
        },
    }
    site.cluster.api.create(volume)
    at = "/api/v1/persistentvolumes/v"
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "c", "namespace": site.within}
    reported = "Weir gives volumes without a claim to one"
    deleted = {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
    assert reported in answer(lambda: site.weir.patch(f"{at}?dryRun=All", deleted))
    assert reported in answer(lambda: site.weir.patch(at, {"spec": {"storageClassName": "x"}}))
    assert answer(lambda: site.weir.patch(at, {"spec": {"claimRef": claim}})) == ""
    assert reported in answer(lambda: site.weir.patch(at, {"spec": {"claimRef": {**claim, "name": "d"}}}))
    assert reported in answer(lambda: site.weir.patch(at, {"spec": {"claimRef": None}}))

    site.cluster.api.create(pod(site.within, "a", 1))
    status = site.path("a", "status")
    ended, reported = {"status": {"phase": "Failed"}}, "nothing else of its status"
    assert reported in answer(lambda: site.weir.patch(f"{status}?dryRun=All", ended))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    waits = {"status": {"conditions": [condition], "nominatedNodeName": "n"}}
    assert answer(lambda: site.weir.patch(status, waits, STRATEGIC)) == ""


@ON_DEMAND
def test_the_account_of_weir_changes_nothing_of_a_node_but_label_and_taint_for_shares(site: Site) -> None:
    (name,) = site.cluster.add_nodes(1)
    path, key = f"/api/v1/nodes/{name}", "weir.dev/gpu-sharing"
    other, own = ({"key": each, "value": "true", "effect": "NoSchedule"} for each in ("example.com/x", key))
    site.cluster.api.patch(path, {"spec": {"taints": [other]}})
    for allowed in (
        {"metadata": {"labels": {key: "true"}}, "spec": {"taints": [other, own]}},
        {"metadata": {"labels": {key: None}}, "spec": {"taints": [other]}},
    ):
        site.weir.patch(path, allowed)
    for refused in (
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"labels": {"kubernetes.io/os": None}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [own]}},
        {"spec": {"taints": [{**other, "effect": "NoExecute"}]}},
    ):
        reported = answer(lambda change=refused: site.weir.patch(path, change))
        assert reported == f"Weir changes the label and the taint {key} of a node, and nothing else of it."


def test_weir_suspends_jobs_and_changes_nothing_else_of_them(site: Site) -> None:
    site.cluster.api.create(job(site.within, "idle", 0))
    path = f"/apis/batch/v1/namespaces/{site.within}/jobs/idle"
    reported = "Weir suspends a Job that is idle, and changes nothing else of it."
    for refused in (
        {"spec": {"parallelism": 2}},
        {"spec": {"suspend": True, "parallelism": 2}},
        {"metadata": {"labels": {"a": "b"}}, "spec": {"suspend": True}},
        {"metadata": {"annotations": {"a": "b"}}, "spec": {"suspend": True}},
    ):
        assert answer(lambda change=refused: site.weir.patch(path, change)) == reported
    assert answer(lambda: site.weir.patch(path, {"spec": {"suspend": True}})) == ""
    assert answer(lambda: site.weir.patch(path, {"spec": {"suspend": False}})) == reported


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_weir_suspends_and_resumes_an_mpi_job_and_changes_nothing_else_of_it(
    site: Site, version: str
) -> None:
    spec = {"slotsPerWorker": 1, "runPolicy": {"cleanPodPolicy": "None"}}
    with _owner(site, "kubeflow.org", version, "MPIJob", spec) as path:
        reported = "Weir suspends this object and resumes it, and changes nothing else of it."
        suspended = {"runPolicy": {"suspend": True}}
        for refused in (
            {"spec": {"slotsPerWorker": 2}},
            {"spec": {**suspended, "slotsPerWorker": None}},
            {"spec": {"runPolicy": {"suspend": True, "cleanPodPolicy": "All"}}},
            {"spec": {"runPolicy": {"suspend": True, "backoffLimit": 9}}},
            {"metadata": {"labels": {"a": "b"}}, "spec": suspended},
            {"metadata": {"annotations": {"a": None}}, "spec": suspended},
        ):
            assert answer(lambda change=refused: site.weir.patch(path, change)) == reported
        for suspends, mark in ((True, "true"), (False, None)):
            change = {
                "metadata": {"annotations": {"weir.dev/restarts": mark}},
                "spec": {"runPolicy": {"suspend": suspends}},
            }
            assert answer(lambda change=change: site.weir.patch(path, change)) == ""
        assert site.cluster.api.get(path)["spec"] == {
            **spec, "runPolicy": {"cleanPodPolicy": "None", "suspend": False},
        }  # fmt: skip


def test_the_documented_policy_lets_weir_suspend_a_kind_of_ones_own_and_change_nothing_else(
    site: Site,
) -> None:
    text = INSTALLING.read_text("utf-8").replace("weir-system", site.home)
    rights, policies = re.findall(
        r"```yaml\n(.*?)```", text.partition("### Kinds of your own")[2], re.DOTALL
    )[:2]
    site.cluster.api.apply(yaml.safe_load(rights.replace("[list, watch]", "[list, watch, patch]")))
    site.cluster.api.apply(*yaml.safe_load_all(policies))
    wait_for_policies(site.cluster.api)
    wait_for_rights(site.cluster.api)
    with _owner(site, "example.com", "v1", "TrainingSet", {"roles": {"a": 1}}) as path:
        for refused in (
            {"spec": {"suspend": True, "roles": None}},
            {"spec": {"suspend": True, "more": 1}},
            {"metadata": {"annotations": {"a": None}}, "spec": {"suspend": True}},
            {"metadata": {"labels": {"a": "b"}}, "spec": {"suspend": True}},
        ):
            assert "failed expression" in answer(lambda change=refused: site.weir.patch(path, change))
        for suspends, mark in ((True, "true"), (False, None)):
            change = {"metadata": {"annotations": {"weir.dev/restarts": mark}}, "spec": {"suspend": suspends}}
            assert answer(lambda change=change: site.weir.patch(path, change)) == ""


@contextmanager
def _owner(site: Site, group: str, version: str, kind: str, spec: Object) -> Iterator[str]:
    """Yield the path of an object of a kind, which the API server serves meanwhile."""
    made = definition(group, version, kind, f"{kind.lower()}s")
    site.cluster.api.apply(made)
    path = f"/apis/{group}/{version}/namespaces/{site.within}/{kind.lower()}s"
    site.cluster.until(
        lambda: answer(lambda: site.cluster.api.get(path)) == "", subject="the kind to be served"
    )
    metadata = {"name": "owner", "namespace": site.within, "annotations": {"a": "b"}}
    site.cluster.api.post(
        path, {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata, "spec": spec}
    )
    try:
        yield f"{path}/owner"
    finally:
        remove_definitions(site.cluster, [made["metadata"]["name"]])


def test_weir_changes_nothing_of_a_project_but_its_finalizers(site: Site) -> None:
    api = site.cluster.api
    api.create(project("team", 4, ["a"]))
    path = "/apis/weir.dev/v1alpha1/projects/team"

    def refusal(change: Object) -> str:
        return answer(lambda: site.weir.patch(f"{path}?dryRun=All", change))

    reported = "changes the finalizers of a project or a department, and nothing else"
    assert reported in refusal({"spec": {"quota": {"gpu": 9}}})
    assert reported in refusal({"metadata": {"labels": {"a": "b"}}})
    assert reported in refusal({"metadata": {"annotations": {"a": "b"}, "finalizers": []}})
    site.weir.patch(path, {"metadata": {"finalizers": ["weir.dev/in-use"]}})
    assert api.get(path)["metadata"]["finalizers"] == ["weir.dev/in-use"]

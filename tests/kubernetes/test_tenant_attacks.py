"""Objects that a tenant with the rights of `edit` makes against the others: each is contained and named.

The attacker has a namespace and a project, like everyone. After each attack, and after a restart amid it, the
workload that ran before is as it was, and a new one runs.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.kubernetes.test_gangs_by_kind import definition, remove_definitions
from tools.controlplane.api import Api, ApiError, Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.enforcement import wait_for_rights
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import job, pod, pod_spec

RBAC = "rbac.authorization.k8s.io"
WORKFLOW = ("argoproj.io", "v1alpha1", "Workflow", "workflows")
WORKFLOWS = "/apis/argoproj.io/v1alpha1"
DEEP = 3_000


class Attack:
    """An attacker, and a neighbour whose workload runs."""

    def __init__(self, cluster: Cluster, weir: Installed, act_as: Callable[..., Api]) -> None:
        self.cluster, self.weir, self.api = cluster, weir, cluster.api
        cluster.add_nodes(2, gpus=4)
        self.good, self.bad = cluster.namespace(), cluster.namespace()
        weir.create_queues(project(self.good, 6, [self.good]), project(self.bad, 2, [self.bad]))
        self.tenant = self._tenant(act_as)
        self.api.create(job(self.good, "before", 1))
        self.runs(self.good, "job-name=before")
        self.before = self.workload(self.good, "job-before")
        self.number = 0

    def _tenant(self, act_as: Callable[..., Api]) -> Api:
        subject = {"apiGroup": RBAC, "kind": "User", "name": "mallory"}
        free = {"apiGroups": [WORKFLOW[0]], "resources": ["*"], "verbs": ["*"]}
        about = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "mallory", "namespace": self.bad}}
        bound = {**about, "kind": "RoleBinding", "subjects": [subject]}
        metadata = {"name": "mallory-edits", "namespace": self.bad}
        self.api.apply(
            {**about, "kind": "Role", "rules": [free]},
            {**bound, "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "mallory"}},
            {
                **bound,
                "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
            },
        )
        wait_for_rights(self.api)
        return act_as("mallory")

    def runs(self, namespace: str, selector: str) -> None:
        def all_run() -> bool:
            pods = self.cluster.pods(namespace, selector)
            return bool(pods) and all(each["status"].get("phase") == "Running" for each in pods)

        self.cluster.until(all_run, lambda: f"{selector} to run: {self.weir.log_text()[-3000:]}")

    def workload(self, namespace: str, name: str) -> Object:
        """Return the facts of a workload that an attack mustn't change."""
        path = f"/apis/weir.dev/v1alpha1/namespaces/{namespace}/workloads/{name}"

        def status() -> Object:
            return (self.api.maybe(path) or {}).get("status") or {}

        self.cluster.until(lambda: status().get("phase") == "Running", f"{name} to be told")
        return {key: status().get(key) for key in ("phase", "running", "allocations", "gpus", "nodes")}

    def harms_no_other(self, *, restarts: bool = True) -> None:
        """Check that the neighbour's workload is as it was, and that a new one runs, also after a restart."""
        for _ in range(1 + restarts):
            self.number += 1
            name = f"after-{self.number}"
            self.api.create(job(self.good, name, 1))
            self.runs(self.good, f"job-name={name}")
            assert self.workload(self.good, "job-before") == self.before
            self.weir.check()
            assert "control_broken" not in self.weir.log_text()
            assert "watch_broken" not in self.weir.log_text()
            if restarts:
                self.weir.kill()
                self.weir.start()


@pytest.fixture(scope="module")
def weir(plane: ControlPlane) -> Iterator[Installed]:
    plane.api.apply(definition(*WORKFLOW))
    there = Cluster(plane)
    there.until(lambda: plane.api.maybe(f"{WORKFLOWS}/workflows") is not None, "the kind to be served")
    with Installed(plane, namespace=there.namespace(), name="attacked") as running:
        running.wait_ready()
        yield running
    there.empty()
    remove_definitions(there, [f"{WORKFLOW[3]}.{WORKFLOW[0]}"])


@pytest.fixture
def attack(plane: ControlPlane, weir: Installed, act_as: Callable[..., Api]) -> Iterator[Attack]:
    there = Cluster(plane)
    yield Attack(there, weir, act_as)
    there.empty(policies=False)


def workflow(namespace: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata, "spec": spec}


def owner(made: Object) -> Object:
    """Return a reference to a controller."""
    named = {"name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
    return {"apiVersion": made["apiVersion"], "kind": made["kind"], **named, "controller": True}


def test_a_deeply_nested_object_hides_no_other_of_its_kind(attack: Attack) -> None:
    deep = '{"a":' * DEEP + "1" + "}" * DEEP
    metadata = '{"name":"deep"}'
    text = f'{{"apiVersion":"argoproj.io/v1alpha1","kind":"Workflow","metadata":{metadata},"spec":{deep}}}'
    attack.tenant.send(f"{WORKFLOWS}/namespaces/{attack.bad}/workflows", text)
    text = text.replace("argoproj.io/v1alpha1", "weir.dev/v1alpha1").replace('"Workflow"', '"Sweep"')
    text = (
        text.replace('"spec":', '"spec":{"project":"p","params":{"lr":"1"},"rungs":[1],"jobTemplate":') + "}"
    )
    sweeps = f"/apis/weir.dev/v1alpha1/namespaces/{attack.bad}/sweeps"
    attack.tenant.send(sweeps, text)
    attack.harms_no_other()
    for number in range(2):
        (made,) = attack.api.create(workflow(attack.good, f"flow-{number}", {"suspend": False}))
        step = pod(attack.good, f"flow-{number}-step", 1, labels={"of": f"flow-{number}"})
        step["metadata"]["ownerReferences"] = [owner(made)]
        attack.api.create(step)
        attack.runs(attack.good, f"of=flow-{number}")
        attack.weir.kill()
        attack.weir.start()
    attack.cluster.until(lambda: f"{attack.bad}/deep" in attack.weir.log_text(), "the object to be named")
    for path in (f"{WORKFLOWS}/namespaces/{attack.bad}/workflows", sweeps):
        attack.tenant.delete(f"{path}/deep")


def test_references_to_objects_of_others_take_nothing_from_them(attack: Attack) -> None:
    (theirs,) = attack.cluster.pods(attack.good, "job-name=before")
    their_job = attack.api.get(f"/apis/batch/v1/namespaces/{attack.good}/jobs/before")
    reference = owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": their_job["metadata"]})
    claims_it = pod(attack.bad, "claims-it", 1)
    of_pod = pod(attack.bad, "of-pod", 1)
    of_pod["metadata"]["ownerReferences"] = [
        owner({"apiVersion": "v1", "kind": "Pod", "metadata": theirs["metadata"]})
    ]
    below = job(attack.bad, "below", 1)
    for made in (claims_it, below):
        made["metadata"]["ownerReferences"] = [reference]
    circle = [workflow(attack.bad, name, {}) for name in ("one", "two")]
    first, second = attack.tenant.create(*circle)
    for made, above in ((first, second), (second, first)):
        path = f"{WORKFLOWS}/namespaces/{attack.bad}/workflows/{made['metadata']['name']}"
        attack.tenant.patch(path, {"metadata": {"ownerReferences": [owner(above)]}})
    in_circle = pod(attack.bad, "in-circle", 1)
    in_circle["metadata"]["ownerReferences"] = [owner(first)]
    attack.tenant.create(claims_it, of_pod, below, in_circle)
    attack.harms_no_other()


def test_huge_metadata_delays_no_other(attack: Attack) -> None:
    made = []
    for number in range(20):
        huge = pod(attack.bad, f"huge-{number}", 1)
        huge["metadata"]["annotations"] = {f"weir.dev/{'x' * 50}{at}": "y" * 250 for at in range(800)}
        huge["metadata"]["labels"] = {f"weir.dev/l{at}": "z" * 63 for at in range(1_500)}
        made.append(huge)
    with pytest.raises(ApiError, match=r"isn't known"):
        attack.tenant.create(made[0])
    for number, huge in enumerate(made):
        huge["metadata"]["annotations"] = {f"a.io/{at}": "y" * 250 for at in range(900)}
        huge["metadata"]["labels"] = {f"a.io/l{at}": f"{number}" for at in range(5_000)}
    attack.tenant.create(*made)
    attack.harms_no_other()


@pytest.mark.parametrize("amount", ["0", "1e30", "9223372036854775807", "-1", "1e-3", "0.5"])
def test_impossible_amounts_of_gpus_take_nothing(attack: Attack, amount: str) -> None:
    def asks(name: str, **parts: Any) -> Object:
        made = pod(attack.bad, name, 0)
        made["spec"].update(parts)
        return made

    limits = {"nvidia.com/gpu": amount}
    container = {"name": "main", "image": "work", "resources": {"limits": limits, "requests": limits}}
    first = {**container, "name": "first"}
    free = {"name": "main", "image": "work"}
    for made in (
        asks("main", containers=[container]),
        asks("init", containers=[free], initContainers=[first]),
        asks("sidecar", containers=[free], initContainers=[{**first, "restartPolicy": "Always"}]),
    ):
        try:
            attack.tenant.create(made)
        except ApiError as refusal:
            assert refusal.code in (403, 422, 400), refusal
    attack.harms_no_other(restarts=amount == "1e30")
    held = [each for each in attack.cluster.pods(attack.bad) if "nodeName" in each["spec"]]
    assert {each["metadata"]["name"] for each in held} <= (
        {"main", "init", "sidecar"} if amount == "0" else set()
    )


def test_pods_that_never_go_and_names_that_are_cut_off_are_told_apart(attack: Attack) -> None:
    stuck = pod(attack.bad, "stuck", 8)
    stuck["metadata"]["finalizers"] = ["example.com/never"]
    long = [job(attack.bad, f"{'x' * 50}{at}", 1) for at in range(2)]
    gated = pod(attack.bad, "gated", 1, schedulingGates=[{"name": "example.com/never"}])
    attack.tenant.create(stuck, *long, gated)
    attack.tenant.delete(f"/api/v1/namespaces/{attack.bad}/pods/stuck", grace_s=0)
    for made in long:
        attack.runs(attack.bad, f"job-name={made['metadata']['name']}")
    flipped = pod(attack.bad, "flips", 1)
    for scheduler in ("weir", "default-scheduler", "weir", "other", "weir"):
        attack.tenant.create({**flipped, "spec": {**pod_spec(1), "schedulerName": scheduler}})
        attack.tenant.delete(f"/api/v1/namespaces/{attack.bad}/pods/flips", grace_s=0)
    attack.harms_no_other()
    found = attack.api.items(f"/apis/weir.dev/v1alpha1/namespaces/{attack.bad}/workloads")
    names = {each["metadata"]["name"] for each in found}
    assert {f"job-{made['metadata']['name']}" for made in long} <= names
    attack.tenant.patch(f"/api/v1/namespaces/{attack.bad}/pods/stuck", {"metadata": {"finalizers": None}})

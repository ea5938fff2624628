"""An installation that manages some namespaces: no right in others, no change to them, and their GPUs counted."""

from collections.abc import Iterator

import pytest
from tests.kubernetes.test_installed import one, phase, workloads
from tools.controlplane.api import ApiError, Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import install_kinds, project
from tools.controlplane.work import job, pod

from weir.kubernetes.api.managed_namespaces import ManagedNamespaces

NOT_MANAGED = "Weir doesn't manage the namespace other"
OWN = {"apiVersion": "weir.dev/v1alpha1", "metadata": {"name": "before", "namespace": "other"}}
RULE = OWN | {
    "kind": "NotificationRule",
    "spec": {"channel": "mail", "address": "mia@lab.example", "topics": ["failure"]},
}
SWEEP = OWN | {
    "kind": "Sweep",
    "spec": {
        "project": "team",
        "params": {"lr": "log:1e-5..1e-1"},
        "trials": 2,
        "rungs": [1, 3],
        "jobTemplate": {"spec": {"template": job("other", "trial", 1)["spec"]["template"]}},
    },
}


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    """A Weir that manages `team`, and not `other`, in which there is work with its name already."""
    for name in ("team", "other"):
        cluster.namespace(name)
    install_kinds(cluster.api)
    (node,) = cluster.add_nodes(1, gpus=4)
    held = pod("other", "held", 2)
    held["spec"]["nodeName"] = node
    cluster.api.create(held)
    cluster.api.create(pod("other", "unplaced", 1), RULE, SWEEP)
    options = {"managed": ManagedNamespaces(("team",))}
    with Installed(plane, namespace=cluster.namespace(), name="managed", **options) as running:
        running.wait_ready()
        running.create_queues(project("team", 4, ["team", "other"]))
        yield running
        assert "forbidden" not in running.log_text().lower()


def refusal(cluster: Cluster, thing: Object) -> str:
    try:
        cluster.api.create(thing)
    except ApiError as why:
        return why.message
    return ""


def said_of(cluster: Cluster, name: str) -> str:
    found = cluster.api.get(f"/apis/weir.dev/v1alpha1/projects/{name}")
    return str(found.get("status", {}).get("message", ""))


def test_other_namespaces_keep_their_pods_and_are_told(
    weir: Installed, cluster: Cluster, plane: ControlPlane
) -> None:
    cluster.api.create(one("team", "fits", 2))
    cluster.until(lambda: phase(cluster, "team", "job-fits") == "Running", "the job of the team to run")
    cluster.api.create(one("team", "large", 1))
    cluster.until(lambda: phase(cluster, "team", "job-large") == "Pending", "GPUs of others to count")
    cluster.until(lambda: NOT_MANAGED in said_of(cluster, "team"), "the project to say it")

    assert NOT_MANAGED in refusal(cluster, pod("other", "new", 1))
    assert NOT_MANAGED in refusal(cluster, job("other", "new", 1))
    cluster.api.create(
        {**project("", 0), "kind": "SchedulerConfig", "metadata": {"name": "weir"}, "spec": {}}
    )
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    cluster.until(
        lambda: [
            each for each in cluster.api.items(events) if each["regarding"]["kind"] == "SchedulerConfig"
        ],
        "an event about an object of the cluster",
    )
    for there in (RULE, SWEEP):
        assert NOT_MANAGED in refusal(cluster, there | {"metadata": {"name": "new", "namespace": "other"}})
    cluster.api.create(one("other", "stock", 1))
    cluster.until(lambda: len(cluster.pods("other")) == 3, "the pod of the Job")

    pods = {each["metadata"]["name"]: each for each in cluster.pods("other")}
    (made,) = (each for name, each in pods.items() if name.startswith("stock"))
    assert made["spec"]["schedulerName"] == "default-scheduler", "the webhook leaves it alone"
    assert not pods["unplaced"]["status"].get("conditions")
    assert "deletionTimestamp" not in pods["held"]["metadata"]
    assert workloads(cluster, "other") == {}
    for plural in ("notificationrules", "sweeps"):
        (kept,) = cluster.api.items(f"/apis/weir.dev/v1alpha1/namespaces/other/{plural}")
        assert "status" not in kept
    cluster.api.delete("/api/v1/namespaces/other/pods/held", grace_s=0)
    cluster.until(lambda: phase(cluster, "team", "job-large") == "Running", "the GPUs to be free")

"""Settings of the scheduler in the cluster: applied live, contained where they are bad, untouched by upgrades."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.controlplane.api import ApiError
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import job

from weir.kubernetes.install.manifests import as_yaml

CONFIGS = "/apis/weir.dev/v1alpha1/schedulerconfigs"
KIND = {
    "kind": "TrainingSet",
    "api": "example.com/v1",
    "resource": "trainingsets",
    "type": "train",
    "pods": [{"count": "spec.replicas"}],
}


@pytest.fixture
def weir(cluster: Cluster, plane: ControlPlane) -> Iterator[Installed]:
    with Installed(plane, namespace=cluster.namespace(), name="configured") as running:
        running.wait_ready()
        yield running


def config(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "weir"}
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "SchedulerConfig",
        "metadata": metadata,
        "spec": spec,
    }


def test_settings_are_applied_live_and_a_bad_object_is_contained(
    weir: Installed, cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    def status() -> dict[str, Any]:
        return dict(cluster.api.get(f"{CONFIGS}/weir").get("status") or {})

    cluster.api.create(config(policy={"preset": "throughput"}))
    cluster.until(lambda: status().get("phase") == "Ready", "the settings to be in force")
    assert [line["policy"] for line in weir.lines("settings_changed")] == ["throughput"]

    with pytest.raises(ApiError, match="did you mean placement"):
        cluster.api.patch(f"{CONFIGS}/weir", {"spec": {"policy": {"placment": "spread"}}})
    for kind in ("mutating", "validating"):
        cluster.api.delete(f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/weir")

    def got_past() -> bool:
        try:
            cluster.api.patch(f"{CONFIGS}/weir", {"spec": {"policy": {"placment": "spread"}}})
        except ApiError:
            return False
        return True

    cluster.until(got_past, "the webhooks to be gone")
    cluster.until(lambda: status().get("phase") == "Refused", "the refusal")
    (condition,) = status()["conditions"]
    assert (condition["type"], condition["status"]) == ("Accepted", "False")
    assert "placment" in condition["message"]
    events = "/apis/events.k8s.io/v1/events"
    cluster.until(
        lambda: any(
            each["reason"] == "Refused" and each["regarding"].get("kind") == "SchedulerConfig"
            for each in cluster.api.items(events)
        ),
        "an event on it",
    )
    weir.kill()
    weir.start()
    cluster.until(lambda: len(list(weir.lines("started"))) == 2, "it to start again")
    assert [line["policy"] for line in weir.lines("started")] == ["balanced", "throughput"]

    path = tmp_path / "weir.yaml"
    path.write_text(as_yaml(weir.objects()))
    plane.kubectl("apply", "--server-side", "--field-manager", "tests", "-f", str(path))
    assert cluster.api.get(f"{CONFIGS}/weir")["spec"]["policy"]["preset"] == "throughput"

    cluster.api.patch(f"{CONFIGS}/weir", {"spec": {"policy": {"placment": None}, "kinds": [KIND]}})
    cluster.until(lambda: len(list(weir.lines("started"))) == 3, "another instance with the new kind")
    cluster.until(lambda: status().get("phase") == "Ready", "the settings to be in force")
    cluster.add_nodes(1, gpus=2)
    within = cluster.namespace()
    weir.create_queues(project(within, 2))
    cluster.api.create(job(within, "goes-on", 1))
    cluster.until(lambda: len(cluster.running(within)) == 1, "pods to be placed as before")

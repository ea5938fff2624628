"""Owners that are suspended or scaled to 0 before Weir has a Workload of them: each answer names the command."""

from typing import Any

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.main import main

SUSPENDED = {"spec": {"suspend": True}}
BY_POLICY = {"spec": {"runPolicy": {"suspend": True}}}
PATCH = "--type merge --patch"
SPEC = """'{"spec": {"suspend": false}}'"""
RUN_POLICY = """'{"spec": {"runPolicy": {"suspend": false}}}'"""
CASES: list[tuple[str, str, str, dict[str, Any], str]] = [
    (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "jobsets",
        SUSPENDED,
        f"kubectl patch -n vision jobset.jobset.x-k8s.io train {PATCH} {SPEC}",
    ),
    (
        "kubeflow.org/v1",
        "PyTorchJob",
        "pytorchjobs",
        BY_POLICY,
        f"kubectl patch -n vision pytorchjob.kubeflow.org train {PATCH} {RUN_POLICY}",
    ),
    (
        "kubeflow.org/v2beta1",
        "MPIJob",
        "mpijobs",
        BY_POLICY,
        f"kubectl patch -n vision mpijob.kubeflow.org train {PATCH} {RUN_POLICY}",
    ),
    (
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        "trainjobs",
        SUSPENDED,
        f"kubectl patch -n vision trainjob.trainer.kubeflow.org train {PATCH} {SPEC}",
    ),
    (
        "ray.io/v1",
        "RayJob",
        "rayjobs",
        SUSPENDED,
        f"kubectl patch -n vision rayjob.ray.io train {PATCH} {SPEC}",
    ),
    (
        "ray.io/v1",
        "RayCluster",
        "rayclusters",
        SUSPENDED,
        f"kubectl patch -n vision raycluster.ray.io train {PATCH} {SPEC}",
    ),
    (
        "argoproj.io/v1alpha1",
        "Workflow",
        "workflows",
        SUSPENDED,
        f"kubectl patch -n vision workflow.argoproj.io train {PATCH} {SPEC}",
    ),
    (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        "leaderworkersets",
        {"spec": {"replicas": 0}},
        "kubectl scale -n vision leaderworkerset.leaderworkerset.x-k8s.io train --replicas 1",
    ),
    (
        "apps/v1",
        "Deployment",
        "deployments",
        {"spec": {"replicas": 0}},
        "kubectl scale -n vision deployment train --replicas 1",
    ),
    (
        "apps/v1",
        "StatefulSet",
        "statefulsets",
        {"spec": {"replicas": 0}},
        "kubectl scale -n vision statefulset train --replicas 1",
    ),
    (
        "kubeflow.org/v1",
        "Notebook",
        "notebooks",
        {"metadata": {"annotations": {"kubeflow-resource-stopped": "2026-01-01T00:00:00Z"}}},
        "kubectl annotate -n vision notebook.kubeflow.org train kubeflow-resource-stopped-",
    ),
    (
        "serving.kserve.io/v1beta1",
        "InferenceService",
        "inferenceservices",
        {"metadata": {"annotations": {"serving.kserve.io/stop": "true"}}},
        "kubectl annotate -n vision inferenceservice.serving.kserve.io train serving.kserve.io/stop-",
    ),
]


def add(cluster: FakeCluster, api: str, kind: str, plural: str, body: dict[str, Any]) -> None:
    metadata = {"name": "train", "namespace": "vision", "uid": "u", **body.get("metadata", {})}
    cluster.add("/apis", {"groups": [{"name": api.partition("/")[0]}]})
    cluster.add(
        f"/apis/{api}/namespaces/vision/{plural}/train",
        {"apiVersion": api, "kind": kind, "spec": {}, **body, "metadata": metadata},
    )


@pytest.mark.parametrize(("api", "kind", "plural", "body", "command"), CASES, ids=[case[1] for case in CASES])
@pytest.mark.parametrize("word", ["why", "describe"])
def test_a_stopped_owner_names_the_command_that_resumes_it(
    fake_cluster: FakeCluster,
    capsys: pytest.CaptureFixture[str],
    word: str,
    api: str,
    kind: str,
    plural: str,
    body: dict[str, Any],
    command: str,
) -> None:
    add(fake_cluster, api, kind, plural, body)
    for name in ("vision/train", f"vision/{kind.lower()}-train"):
        assert main([word, name]) == 2
        printed = " ".join(capsys.readouterr().err.split())
        assert f"{kind} train has no pods, since" in printed
        assert f"`{command}` resumes it" in printed


def test_an_owner_that_another_program_resumes_names_the_program(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    queued = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "gpus"}}, **SUSPENDED}
    add(fake_cluster, "jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets", queued)
    assert main(["why", "vision/train"]) == 2
    assert "Kueue resumes it, from its queue gpus" in " ".join(capsys.readouterr().err.split())


def test_an_owner_that_is_not_stopped_is_no_workload(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    add(fake_cluster, "apps/v1", "Deployment", "deployments", {"spec": {"replicas": 2}})
    assert main(["why", "vision/train"]) == 2
    printed = capsys.readouterr().err
    assert "There is no workload vision/train" in printed
    assert "Deployment" not in printed


@pytest.mark.parametrize(
    ("api", "kind", "action", "command"),
    [
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "resume",
            f"kubectl patch -n vision jobset.jobset.x-k8s.io train {PATCH} {SPEC}",
        ),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            "suspend",
            f"kubectl patch -n vision pytorchjob.kubeflow.org train {PATCH} {RUN_POLICY}".replace(
                "false", "true"
            ),
        ),
        ("apps/v1", "Deployment", "suspend", "kubectl scale -n vision deployment train --replicas 0"),
        ("kubeflow.org/v1", "PyTorchJob", "stop", "kubectl delete -n vision pytorchjob.kubeflow.org train"),
    ],
)
def test_suspend_and_resume_of_other_owners_name_the_command(
    fake_cluster: FakeCluster,
    capsys: pytest.CaptureFixture[str],
    api: str,
    kind: str,
    action: str,
    command: str,
) -> None:
    name = f"{kind.lower()}-train"
    owner = {"uid": "u", "apiVersion": api, "kind": kind, "name": "train"}
    fake_cluster.rows = [{"metadata": {"namespace": "vision", "name": name}, "name": f"vision/{name}"}]
    fake_cluster.add(
        f"/apis/weir.dev/v1alpha1/namespaces/vision/workloads/{name}",
        {"metadata": {"name": name, "namespace": "vision", "uid": "w"}, "spec": {"owner": owner}},
    )
    assert main([action, f"vision/{name}", *(["--yes"] if action == "stop" else [])]) == 2
    assert command in " ".join(capsys.readouterr().err.split())

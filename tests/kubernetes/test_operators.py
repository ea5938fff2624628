"""Work of real operators: KubeRay and Kubeflow's training operator make the pods, and Weir runs beside them."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest
from tools.controlplane import operators
from tools.controlplane.api import Object, collection
from tools.controlplane.binaries import Binaries, NoBinaries
from tools.controlplane.cluster import Cluster
from tools.controlplane.installed import Installed
from tools.controlplane.nodes import nodes
from tools.controlplane.plane import ControlPlane
from tools.controlplane.weir import project
from tools.controlplane.work import job, pod_spec

from weir.kubernetes.translate.owner_suspensions import RESTARTS

_REPLICAS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}
_CONTAINERS = {"PyTorchJob": "pytorch", "TFJob": "tensorflow", "XGBoostJob": "xgboost", "MPIJob": "mpi"}
"""Name of the container that each controller looks for."""
_JOB_LABEL = "training.kubeflow.org/job-name"
_CLUSTER_LABEL = "ray.io/cluster"


@pytest.fixture(scope="module")
def programs_of_operators(pytestconfig: pytest.Config) -> Path:
    if operators.is_skipped():
        pytest.skip(
            "LEFT OUT: THE TESTS BESIDE OPERATORS. WEIR_OPERATORS=skip or WEIR_KUBERNETES=skip says so."
        )
    captured = pytestconfig.pluginmanager.getplugin("capturemanager")
    try:
        with captured.global_and_fixture_disabled() if captured else nullcontext():
            return operators.find()
    except NoBinaries as why:
        if operators.must_run():
            pytest.fail(f"THE TESTS BESIDE OPERATORS HAVE TO RUN HERE. {why}", pytrace=False)
        pytest.skip(f"LEFT OUT: THE TESTS BESIDE OPERATORS. {why}")


@pytest.fixture(scope="module")
def cluster(binaries: Binaries, programs_of_operators: Path) -> Iterator[Cluster]:
    """A control plane of its own, because other tests have kinds of the same names."""
    with ControlPlane(binaries) as plane:
        for each in operators.OPERATORS:
            operators.run(plane, programs_of_operators, each)
        yield Cluster(plane)


@pytest.fixture
def weir(cluster: Cluster) -> Iterator[Installed]:
    with Installed(cluster.plane) as running:
        running.wait_ready()
        yield running


def training(namespace: str, kind: str, roles: Mapping[str, tuple[int, int]], restarts: str) -> Object:
    """Return a job of the training operator, by role the number of pods and the GPUs of each."""

    def replicas(count: int, gpus: int) -> Object:
        spec = pod_spec(gpus, grace_s=1)
        del spec["restartPolicy"]
        spec["containers"][0]["name"] = _CONTAINERS[kind]
        return {"replicas": count, "restartPolicy": restarts, "template": {"spec": spec}}

    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": f"{kind.lower()}-{restarts.lower()}", "namespace": namespace},
        "spec": {_REPLICAS[kind]: {role: replicas(*counts) for role, counts in roles.items()}},
    }


def ray_cluster(workers: int) -> Object:
    """Return the spec of a RayCluster: a head without GPUs, and workers with one each."""

    def template(gpus: int) -> Object:
        spec = pod_spec(gpus, grace_s=1)
        del spec["restartPolicy"]
        return {"spec": spec}

    group = {"groupName": "small", "replicas": workers, "minReplicas": workers, "maxReplicas": workers}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": template(0)},
        "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": template(1)}],
    }


def ray(namespace: str, kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def with_gpus(cluster: Cluster, namespace: str) -> list[str]:
    """Return the running pods that hold GPUs, without the numbers that controllers give them."""
    running = cluster.running(namespace)
    return sorted(
        each["metadata"]["labels"].get(_JOB_LABEL) or each["metadata"]["labels"][_CLUSTER_LABEL][:3]
        for each in cluster.pods(namespace)
        if each["metadata"]["name"] in running
        and "nvidia.com/gpu" in each["spec"]["containers"][0]["resources"]["requests"]
    )


def generations(cluster: Cluster, paths: Iterable[str]) -> dict[str, int]:
    """Return the generation of each object, which a suspension and its end change."""
    return {path: int(cluster.api.get(path)["metadata"]["generation"]) for path in paths}


def has_failed(made: Object) -> bool:
    """Return True if an operator has given its object up."""
    status = made.get("status", {})
    of_training = {one["type"] for one in status.get("conditions", ()) if one["status"] == "True"}
    return "Failed" in of_training or status.get("jobDeploymentStatus") == "Failed"


def test_work_of_operators_gives_way_and_runs_again(weir: Installed, cluster: Cluster) -> None:
    """A reclaim stops jobs of all kinds, also with a Weir that is killed meanwhile, and none of them fails."""
    cluster.add(nodes(3, gpus=4, resources={"ephemeral-storage": "100Gi"}))
    borrower, owner = cluster.namespace(), cluster.namespace()
    weir.create_queues(project(borrower, 0), project(owner, 12))
    whole = [
        training(borrower, "PyTorchJob", {"Master": (1, 1), "Worker": (1, 1)}, "Never"),
        training(borrower, "TFJob", {"Worker": (2, 1)}, "OnFailure"),
        training(borrower, "XGBoostJob", {"Master": (1, 1), "Worker": (1, 1)}, "OnFailure"),
        training(borrower, "MPIJob", {"Launcher": (1, 0), "Worker": (2, 1)}, "OnFailure"),
        ray(
            borrower,
            "RayJob",
            "rayjob",
            {"entrypoint": "train", "shutdownAfterJobFinishes": True, "rayClusterSpec": ray_cluster(2)},
        ),
    ]
    by_pods = training(borrower, "PyTorchJob", {"Master": (1, 1), "Worker": (1, 1)}, "OnFailure")
    for each in (*whole, by_pods):
        cluster.api.create(each)
    paths = [f"{collection(each)}/{each['metadata']['name']}" for each in (*whole, by_pods)]
    everything = sorted(2 * [*(path.rpartition("/")[2] for path in paths if "rayjob" not in path), "ray"])
    cluster.until(lambda: with_gpus(cluster, borrower) == everything, "all to run on idle GPUs")

    before = generations(cluster, paths[: len(whole)])
    cluster.api.create(job(owner, "owner", 4, pods=3))
    cluster.until(lambda: generations(cluster, before) != before, "the first to be suspended")
    weir.kill()
    weir.start()
    cluster.until(lambda: len(cluster.running(owner)) == 3, "the owner of the quota to run")
    assert with_gpus(cluster, borrower) == []
    assert not [path for path in paths if has_failed(cluster.api.get(path))]

    cluster.api.delete(f"/apis/batch/v1/namespaces/{owner}/jobs/owner")
    cluster.until(lambda: with_gpus(cluster, borrower) == everything, "all to run again")
    assert not [path for path in paths if has_failed(cluster.api.get(path))]
    for path in paths:
        assert RESTARTS not in str(cluster.api.get(path)["metadata"].get("annotations")), path


def test_a_kind_that_is_served_in_two_versions_is_one_workload(weir: Installed, cluster: Cluster) -> None:
    """The pods of a RayCluster stay in one workload, in whatever version people and the operator write it."""
    cluster.add(nodes(2, gpus=4, prefix="ray"))
    team = cluster.namespace()
    weir.create_queues(project(team, 4))
    for version in ("v1", "v1alpha1"):
        made = ray(team, "RayCluster", version, ray_cluster(2))
        cluster.api.create({**made, "apiVersion": f"ray.io/{version}"})
    path = f"/apis/weir.dev/v1alpha1/namespaces/{team}/workloads"

    def running() -> dict[str, str]:
        return {each["metadata"]["name"]: each["status"]["running"] for each in cluster.api.items(path)}

    expected = {"raycluster-v1": "3/3", "raycluster-v1alpha1": "3/3"}
    cluster.until(lambda: running() == expected, "both to run")
    assert len(cluster.running(team)) == 6

"""Makers of gangs of every kind that Weir knows, and what each of them must become."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.controlplane.api import Object
from tools.controlplane.cluster import Cluster
from tools.controlplane.work import pod_spec

from weir.kubernetes.translate.kinds import load_kinds

ROLE = "training.kubeflow.org/replica-type"
MPI_ROLE = "training.kubeflow.org/job-role"
JOBSET_ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
RAY_GROUP, RAY_CLUSTER = "ray.io/group", "ray.io/cluster"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
CUSTOM_KINDS = {
    watched.kind: (watched.api_versions[0], watched.resource)
    for watched in load_kinds().watched
    if "." in watched.api_versions[0].partition("/")[0]
}
KNATIVE_CHAIN = ("Service", "Configuration", "Revision")
"""Kinds of Knative above a Deployment, topmost first."""
GPU_LIMITS = {"limits": {"nvidia.com/gpu": 1}}
_BUILT_IN = {
    "Job": ("batch/v1", "jobs"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "Deployment": ("apps/v1", "deployments"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "ReplicationController": ("v1", "replicationcontrollers"),
}
_KINDS = CUSTOM_KINDS | _BUILT_IN


def template(gpus: int, labels: Mapping[str, str], *, restarts: str = "Never") -> Object:
    """A pod's template of people: it names no scheduler."""
    spec = pod_spec(gpus)
    del spec["schedulerName"]
    return {"metadata": {"labels": dict(labels)}, "spec": {**spec, "restartPolicy": restarts}}


class Makers:
    """Objects of one namespace, as people and controllers make them."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def make(
        self,
        kind: str,
        name: str,
        spec: Object,
        above: Object | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Object:
        api_version, plural = _KINDS[kind]
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        metadata = self._metadata(name, {}, above) | {"annotations": dict(annotations or {})}
        made = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
        path = f"{root}/namespaces/{self.namespace}/{plural}"
        return {**self.cluster.api.post(path, made), "apiVersion": api_version, "kind": kind}

    def pod(
        self, name: str, gpus: int, labels: Mapping[str, str], above: Object | None, **more: Any
    ) -> Object:
        written = template(gpus, labels)
        written["spec"].update(more)
        metadata = self._metadata(name, labels, above)
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": written["spec"]}
        return {**self.cluster.api.create(made)[0], "apiVersion": "v1", "kind": "Pod"}

    def job(
        self, name: str, gpus: int, labels: Mapping[str, str], above: Object | None, pods: int = 1
    ) -> Object:
        spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed"}
        return self.make("Job", name, {**spec, "template": template(gpus, labels)}, above)

    def stateful_set(
        self,
        name: str,
        gpus: int,
        labels: Mapping[str, str],
        above: Object | None,
        pods: int = 1,
        first: int = 0,
    ) -> Object:
        labels = {**labels, "set": name}
        spec = {
            "replicas": pods,
            "serviceName": "",
            "podManagementPolicy": "Parallel",
            "ordinals": {"start": first},
            "selector": {"matchLabels": {"set": name}},
            "template": template(gpus, labels, restarts="Always"),
        }
        return self.make("StatefulSet", name, spec, above)

    def made_by_controller(self, name: str) -> Object:
        """A pod that a real controller makes, once it is there."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        found = self.cluster.until(lambda: self.cluster.api.maybe(path), f"the pod {name}")
        assert found is not None
        return {**found, "apiVersion": "v1", "kind": "Pod"}

    def _metadata(self, name: str, labels: Mapping[str, str], above: Object | None) -> Object:
        metadata: Object = {"name": name, "namespace": self.namespace, "labels": dict(labels)}
        if above is not None:
            reference = {key: above[key] for key in ("apiVersion", "kind")}
            reference |= {key: above["metadata"][key] for key in ("name", "uid")}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        return metadata


# The kinds


def kubeflow(kind: str, key: str) -> Callable[[Makers], None]:
    def make(it: Makers) -> None:
        specs = {"Master": {"replicas": 1, "template": template(0, {})}}
        specs["Worker"] = {"replicas": 2, "template": template(1, {})}
        owner = it.make(kind, "it", {f"{key}ReplicaSpecs": specs})
        it.pod("it-worker-0", 1, {ROLE: "worker"}, owner)
        it.pod("it-master-0", 0, {ROLE: "master"}, owner)
        it.pod("it-worker-1", 1, {ROLE: "worker"}, owner)

    return make


def mpi(it: Makers) -> None:
    specs = {"Launcher": {"replicas": 1, "template": template(0, {})}}
    specs["Worker"] = {"replicas": 2, "template": template(1, {})}
    owner = it.make("MPIJob", "it", {"mpiReplicaSpecs": specs})
    it.job("it-launcher", 0, {MPI_ROLE: "launcher"}, owner)
    for at in range(2):
        it.pod(f"it-worker-{at}", 1, {MPI_ROLE: "worker"}, owner)


def jobset(it: Makers, above: Object | None = None) -> None:
    jobs = [
        {"name": "driver", "replicas": 1, "template": {"spec": {"template": template(0, {})}}},
        {
            "name": "workers",
            "replicas": 1,
            "template": {"spec": {"parallelism": 2, "template": template(1, {})}},
        },
    ]
    owner = it.make("JobSet", "it", {"replicatedJobs": jobs}, above)
    it.job("it-driver-0", 0, {JOBSET_ROLE: "driver"}, owner)
    it.job("it-workers-0", 1, {JOBSET_ROLE: "workers"}, owner, pods=2)


def train_job(it: Makers) -> None:
    jobset(it, it.make("TrainJob", "it", {"trainer": {"numNodes": 2, "resourcesPerNode": GPU_LIMITS}}))


def leader_worker_set(it: Makers) -> None:
    spec = {"leaderTemplate": template(0, {}), "workerTemplate": template(1, {}), "size": 3}
    owner = it.make("LeaderWorkerSet", "it", {"replicas": 1, "leaderWorkerTemplate": spec})
    it.stateful_set("it", 0, {GROUP_INDEX: "0"}, owner)
    leader = it.made_by_controller("it-0")
    it.stateful_set("it-0", 1, {GROUP_INDEX: "0"}, leader, pods=2, first=1)


def ray_spec() -> Object:
    group = {"groupName": "gpu", "replicas": 2, "minReplicas": 2, "template": template(1, {})}
    return {"headGroupSpec": {"template": template(0, {})}, "workerGroupSpecs": [group]}


def ray_cluster(it: Makers, above: Object | None = None) -> None:
    owner = it.make("RayCluster", "it", ray_spec(), above)
    labels = {RAY_CLUSTER: "it"}
    it.pod("it-head", 0, {**labels, RAY_GROUP: "headgroup"}, owner)
    for at in range(2):
        it.pod(f"it-gpu-{at}", 1, {**labels, RAY_GROUP: "gpu"}, owner)


def ray_job(it: Makers) -> None:
    ray_cluster(it, it.make("RayJob", "it", {"rayClusterSpec": ray_spec()}))


def ray_service(it: Makers) -> None:
    ray_cluster(it, it.make("RayService", "it", {"rayClusterConfig": ray_spec()}))


def spark(it: Makers) -> None:
    gpu = {"name": "nvidia.com/gpu", "quantity": 1}
    owner = it.make("SparkApplication", "it", {"driver": {}, "executor": {"instances": 2, "gpu": gpu}})
    driver = it.pod("it-driver", 0, {"spark-role": "driver"}, owner)
    for at in range(2):
        it.pod(f"it-exec-{at}", 1, {"spark-role": "executor"}, driver)


def workflow(it: Makers) -> None:
    steps = [
        {"name": name, "container": {"resources": {"limits": limits}}}
        for name, limits in (("prepare", {"cpu": 1}), ("train", {"nvidia.com/gpu": 1}))
    ]
    owner = it.make("Workflow", "it", {"templates": steps})
    it.pod("it-prepare", 0, {}, owner)
    it.pod("it-train", 1, {}, owner)


def notebook(it: Makers) -> None:
    it.stateful_set("it", 1, {}, it.make("Notebook", "it", {"template": template(1, {})}))


def two_replicas(kind: str = "Deployment") -> Object:
    labels = {"app": "it"}
    selector: Object = labels if kind == "ReplicationController" else {"matchLabels": labels}
    return {"replicas": 2, "selector": selector, "template": template(1, labels, restarts="Always")}


def replicated(kind: str) -> Callable[[Makers], None]:
    def make(it: Makers) -> None:
        it.make(kind, "it", two_replicas(kind))

    return make


def model_server(chain: Sequence[str], spec: Object) -> Callable[[Makers], None]:
    """Return a maker of these objects, each above the next, and of a Deployment below."""

    def make(it: Makers) -> None:
        above = None
        for kind in chain:
            above = it.make(kind, "it", spec, above)
        it.make("Deployment", "it-server", two_replicas(), above)

    return make


def stateful(it: Makers) -> None:
    it.stateful_set("it", 1, {}, None, pods=2)


def plain_job(it: Makers) -> None:
    it.job("it", 1, {}, None, pods=2)


@dataclass(frozen=True)
class Case:
    """Objects of a kind, with the expected pods and GPUs by workload."""

    make: Callable[[Makers], None]
    pods: int
    gpus: Mapping[str, str]


CASES = {
    "MPIJob": Case(mpi, 3, {"mpijob-it": "2"}),
    "JobSet": Case(jobset, 3, {"jobset-it": "2"}),
    "LeaderWorkerSet": Case(leader_worker_set, 3, {"leaderworkerset-it-0": "2"}),
    "RayCluster": Case(ray_cluster, 3, {"raycluster-it": "2"}),
    "RayJob": Case(ray_job, 3, {"rayjob-it": "2"}),
    "RayService": Case(ray_service, 3, {"rayservice-it-it": "2"}),
    "InferenceService": Case(
        model_server(["InferenceService"], {"predictor": {"model": {"resources": GPU_LIMITS}}}),
        2,
        {"deployment-it-server": "2"},
    ),
    "LLMInferenceService": Case(
        model_server(["LLMInferenceService"], {"template": template(1, {})["spec"]}),
        2,
        {"deployment-it-server": "2"},
    ),
    "Service": Case(
        model_server(KNATIVE_CHAIN, {"template": template(1, {})}), 2, {"deployment-it-server": "2"}
    ),
    "PyTorchJob": Case(kubeflow("PyTorchJob", "pytorch"), 3, {"pytorchjob-it": "2"}),
    "TFJob": Case(kubeflow("TFJob", "tf"), 3, {"tfjob-it": "2"}),
    "XGBoostJob": Case(kubeflow("XGBoostJob", "xgb"), 3, {"xgboostjob-it": "2"}),
    "PaddleJob": Case(kubeflow("PaddleJob", "paddle"), 3, {"paddlejob-it": "2"}),
    "JAXJob": Case(kubeflow("JAXJob", "jax"), 3, {"jaxjob-it": "2"}),
    "TrainJob": Case(train_job, 3, {"trainjob-it": "2"}),
    "SparkApplication": Case(spark, 3, {"sparkapplication-it": "2"}),
    "Workflow": Case(workflow, 2, {"workflow-it-it-prepare": "0", "workflow-it-it-train": "1"}),
    "Notebook": Case(notebook, 1, {"notebook-it": "1"}),
    "StatefulSet": Case(stateful, 2, {"statefulset-it": "2"}),
    "Deployment": Case(replicated("Deployment"), 2, {"deployment-it": "2"}),
    "ReplicaSet": Case(replicated("ReplicaSet"), 2, {"replicaset-it": "2"}),
    "ReplicationController": Case(replicated("ReplicationController"), 2, {"replicationcontroller-it": "2"}),
    "Job": Case(plain_job, 2, {"job-it": "2"}),
}

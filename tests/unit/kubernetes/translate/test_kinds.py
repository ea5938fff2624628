"""The table of kinds: what each kind means for its pods, and what a table's mistakes are told."""

import pytest
from tests.unit.kubernetes.translate.owner_objects import KINDS, derive, job, obj, pod

from weir.model.workloads import WorkloadType
from weir.state.events import WorkloadOutcome

ROLE = "training.kubeflow.org/replica-type"
BATCH = ("train", WorkloadType.TRAIN)


# Kubernetes' own kinds


@pytest.mark.parametrize(
    ("spec", "status", "gang", "pods"),
    [
        ({}, {}, 1, 1),
        ({"parallelism": 4}, {}, 1, 4),
        ({"parallelism": 4, "completionMode": "Indexed", "completions": 4}, {}, 4, 4),
        ({"parallelism": 4, "completionMode": "Indexed", "completions": 2}, {}, 2, 2),
        ({"parallelism": 2, "completionMode": "Indexed", "completions": 10}, {}, 2, 2),
        ({"parallelism": 2, "completionMode": "Indexed", "completions": 10}, {"succeeded": 9}, 1, 1),
        ({"parallelism": 0, "completionMode": "Indexed", "completions": 4}, {}, 0, 0),
    ],
)
def test_an_indexed_job_is_a_gang_and_any_other_starts_one_by_one(spec, status, gang, pods):
    derived = derive(job(spec, status))
    assert (derived.min_pods, derived.pods, derived.type) == (gang, pods, WorkloadType.TRAIN)
    assert derived.key.kind == "Job"


def test_min_pods_that_people_say_hold_but_never_beyond_what_is_left_to_do():
    derived = derive(job({"parallelism": 4, "completions": 4}))
    assert derived.needed().min_pods == 1
    assert derived.needed(min_pods=4).min_pods == 4
    assert derived.needed(min_pods=4, succeeded={"": 3}).min_pods == 1
    assert derive(job({"parallelism": 2, "completions": 10}, {"succeeded": 5})).needed(2).min_pods == 2
    assert (
        derive(job({"parallelism": 2})).needed(2, succeeded={"": 1}).min_pods == 2
    )  # a work queue has no count


@pytest.mark.parametrize(
    ("conditions", "over"),
    [
        ([], None),
        ([("Complete", "True")], WorkloadOutcome.SUCCEEDED),
        ([("Failed", "True")], WorkloadOutcome.FAILED),
        ([("Failed", "False")], None),
    ],
)
def test_a_job_says_when_it_is_over(conditions, over):
    status = {"conditions": [{"type": kind, "status": value} for kind, value in conditions]}
    assert derive(job({}, status)).over == over


def test_a_suspended_job_is_not_wanted_now():
    assert derive(job({"suspend": True})).suspended
    assert not derive(job({"suspend": False})).suspended


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_a_service_needs_one_pod_and_the_rest_is_elastic(kind):
    derived = derive(obj(kind, "apps/v1", {"replicas": 5}))
    assert (derived.min_pods, derived.pods, derived.total) == (1, 5, None)
    assert derived.type is WorkloadType.INFERENCE
    assert derived.minima == {"": 0}


def test_the_topmost_known_owner_is_the_workload():
    replica_set = obj("ReplicaSet", "apps/v1", {"replicas": 3}, name="web-1")
    deployment = obj("Deployment", "apps/v1", {"replicas": 3}, name="web")
    assert derive(replica_set, deployment).key.name == "web"
    above = obj("Website", "example.com/v1", name="site")
    assert derive(replica_set, deployment, above).key.name == "web"
    assert derive(job({}, name="run-1"), obj("CronJob", "batch/v1", name="nightly")).key.name == "run-1"


def test_a_bare_pod_is_a_workload_by_itself():
    derived = KINDS.derive(pod(name="alone"))
    assert (derived.key.kind, derived.key.name, derived.key.uid) == ("Pod", "alone", "uid-alone")
    assert (derived.min_pods, derived.pods) == (1, 1)
    assert KINDS.derive(pod(phase="Succeeded")).over is WorkloadOutcome.SUCCEEDED


def test_an_unknown_kind_starts_its_pods_one_by_one():
    owner = obj("Website", "example.com/v1")
    derived = KINDS.derive(pod(owner=owner), [])
    assert (derived.key.kind, derived.key.name, derived.min_pods, derived.pods) == (
        "Website",
        "it",
        1,
        None,
    )
    assert derived.needed(min_pods=3).min_pods == 3


# Sets of jobs and of groups


def _jobset(**spec):
    jobs = [
        {"name": "driver", "template": {"spec": {}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 3}}},
    ]
    return obj("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": jobs, **spec})


def test_a_jobset_starts_as_a_whole():
    label = {"jobset.sigs.k8s.io/replicatedjob-name": "workers"}
    derived = derive(job(), _jobset(), labels=label)
    assert (derived.role, derived.min_pods, derived.minima) == ("workers", 7, {"driver": 1, "workers": 6})
    assert (derived.total, derived.key.gang) == (7, "")


@pytest.mark.parametrize(
    "spec",
    [
        {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
        {
            "replicatedJobs": [
                {"name": "workers", "replicas": 6, "dependsOn": [{"name": "driver", "status": "Ready"}]}
            ]
        },
    ],
)
def test_a_jobset_whose_jobs_wait_for_one_another_starts_them_apart(spec):
    derived = derive(job(), _jobset(**spec), labels={"jobset.sigs.k8s.io/replicatedjob-name": "workers"})
    assert (derived.key.gang, derived.min_pods, derived.minima) == ("workers", 6, {"workers": 6})


def test_every_group_of_a_leader_worker_set_is_a_gang():
    lws = obj(
        "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", {"replicas": 3, "leaderWorkerTemplate": {"size": 4}}
    )
    leader = obj("Pod", "v1", name="lws-1")
    stateful_set = obj("StatefulSet", "apps/v1", {"replicas": 3}, name="lws")
    label = {"leaderworkerset.sigs.k8s.io/group-index": "1"}
    of_leader = derive(stateful_set, lws, labels=label)
    of_worker = derive(
        obj("StatefulSet", "apps/v1", {"replicas": 3}, name="lws-1"), leader, stateful_set, lws, labels=label
    )
    assert (of_leader.key.gang, of_leader.min_pods, of_leader.type) == ("1", 4, WorkloadType.INFERENCE)
    assert (of_worker.key, of_worker.min_pods) == (of_leader.key, 4)


def test_a_leader_that_has_to_be_up_first_does_not_wait_for_its_workers():
    spec = {"leaderWorkerTemplate": {"size": 4}, "startupPolicy": "LeaderReady"}
    assert derive(obj("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", spec)).min_pods == 1


# Kubeflow


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("PyTorchJob", "pytorch"),
        ("TFJob", "tf"),
        ("XGBoostJob", "xgb"),
        ("PaddleJob", "paddle"),
        ("JAXJob", "jax"),
    ],
)
def test_a_training_job_starts_with_all_its_replicas(kind, key):
    spec = {f"{key}ReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
    derived = derive(obj(kind, "kubeflow.org/v1", spec), labels={ROLE: "worker"})
    assert (derived.role, derived.min_pods, derived.minima) == ("worker", 4, {"master": 1, "worker": 3})
    assert derived.type is WorkloadType.TRAIN


def test_a_replica_that_has_ended_well_is_not_waited_for():
    spec = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}
    assert derive(obj("PyTorchJob", "kubeflow.org/v1", spec)).needed(succeeded={"worker": 2}).min_pods == 2


def test_an_elastic_training_job_starts_with_its_least():
    spec = {
        "pytorchReplicaSpecs": {"Worker": {"replicas": 8}},
        "elasticPolicy": {"minReplicas": 2, "maxReplicas": 8},
    }
    derived = derive(obj("PyTorchJob", "kubeflow.org/v1", spec), labels={ROLE: "worker"})
    assert (derived.min_pods, derived.pods, derived.minima) == (2, 8, {"worker": 0})


def test_the_gang_that_a_training_job_states_holds_and_masters_come_first():
    spec = {
        "pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}},
        "runPolicy": {"schedulingPolicy": {"minAvailable": 2}},
    }
    derived = derive(obj("PyTorchJob", "kubeflow.org/v1", spec))
    assert (derived.min_pods, derived.minima) == (2, {"master": 1, "worker": 1})


@pytest.mark.parametrize(
    ("policy", "gang"), [({}, 5), ({"launcherCreationPolicy": "WaitForWorkersReady"}, 4)]
)
@pytest.mark.parametrize("version", ["v1", "v2beta1"])
def test_an_mpi_job_is_its_launcher_and_its_workers(policy, gang, version):
    spec = {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 4}}, **policy}
    mpi = obj("MPIJob", f"kubeflow.org/{version}", spec, name="mpi")
    launcher = derive(
        job({}, name="mpi-launcher"), mpi, labels={"training.kubeflow.org/job-role": "launcher"}
    )
    assert (launcher.key.name, launcher.role, launcher.min_pods) == ("mpi", "launcher", gang)


def test_a_train_job_is_as_big_as_the_jobset_it_makes():
    train = obj(
        "TrainJob",
        "trainer.kubeflow.org/v1alpha1",
        name="tune",
        status={"conditions": [{"type": "Failed", "status": "True"}]},
    )
    derived = derive(job(), _jobset(), train, labels={"jobset.sigs.k8s.io/replicatedjob-name": "workers"})
    assert (derived.key.name, derived.role, derived.min_pods, derived.over) == (
        "tune",
        "workers",
        7,
        WorkloadOutcome.FAILED,
    )


def test_a_notebook_is_built_in():
    derived = derive(obj("StatefulSet", "apps/v1", name="nb"), obj("Notebook", "kubeflow.org/v1", name="nb"))
    assert (derived.key.kind, derived.type, derived.min_pods) == ("Notebook", WorkloadType.BUILD, 1)


# Ray, workflows, Spark

RAY = {
    "headGroupSpec": {},
    "workerGroupSpecs": [
        {"groupName": "gpu", "replicas": 4, "minReplicas": 2},
        {"groupName": "big", "replicas": 1, "minReplicas": 1, "numOfHosts": 2},
        {"groupName": "spare", "replicas": 3},
    ],
}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("RayCluster", RAY), ("RayJob", {"rayClusterSpec": RAY}), ("RayService", {"rayClusterConfig": RAY})],
)
def test_ray_needs_its_head_and_the_least_of_its_workers(kind, spec):
    cluster = obj("RayCluster", "ray.io/v1", RAY, name="c")
    owners = [cluster] if kind == "RayCluster" else [cluster, obj(kind, "ray.io/v1", spec, name="c")]
    derived = derive(*owners, labels={"ray.io/group": "gpu", "ray.io/cluster": "c-1"})
    assert (derived.key.kind, derived.role) == (kind, "gpu")
    assert (derived.min_pods, derived.pods) == (5, 10)
    assert derived.minima == {"headgroup": 1, "gpu": 2, "big": 2, "spare": 0}
    assert derived.key.gang == ("c-1" if kind == "RayService" else "")


@pytest.mark.parametrize(
    ("status", "over"),
    [
        ({"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"}, WorkloadOutcome.SUCCEEDED),
        ({"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"}, WorkloadOutcome.FAILED),
        ({"jobStatus": "FAILED", "jobDeploymentStatus": "Retrying"}, None),
        ({"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"}, None),
    ],
)
def test_a_ray_job_says_when_it_is_over(status, over):
    assert derive(obj("RayJob", "ray.io/v1", {"rayClusterSpec": RAY}, status)).over == over


def test_every_pod_of_a_workflow_is_by_itself():
    derived = derive(obj("Workflow", "argoproj.io/v1alpha1"))
    assert (derived.key.gang, derived.min_pods) == ("pod-0", 1)


def test_spark_needs_its_driver():
    spec = {"executor": {"instances": 4}}
    spark = obj(
        "SparkApplication", "sparkoperator.k8s.io/v1beta2", spec, {"applicationState": {"state": "COMPLETED"}}
    )
    derived = derive(obj("Pod", "v1", name="driver"), spark, labels={"spark-role": "executor"})
    assert (derived.role, derived.min_pods, derived.minima, derived.pods) == (
        "executor",
        1,
        {"driver": 1, "executor": 0},
        5,
    )
    assert derived.over is WorkloadOutcome.SUCCEEDED
    native = derive(obj("Pod", "v1", name="driver"), labels={"spark-role": "executor"})
    assert (native.key.name, native.role, native.min_pods) == ("driver", "executor", 1)


# Model servers


def test_the_deployment_below_a_knative_service_is_the_workload():
    deployment = obj("Deployment", "apps/v1", {"replicas": 3}, name="chat-00001-deployment")
    above = [
        obj("Revision", "serving.knative.dev/v1", name="chat-00001"),
        obj("Configuration", "serving.knative.dev/v1", name="chat"),
        obj("Service", "serving.knative.dev/v1", name="chat"),
        obj("InferenceService", "serving.kserve.io/v1beta1", name="chat"),
    ]
    derived = derive(
        obj("ReplicaSet", "apps/v1", {"replicas": 3}, name="chat-00001-deployment-1"), deployment, *above
    )
    assert (derived.key.name, derived.pods, derived.type) == (
        "chat-00001-deployment",
        3,
        WorkloadType.INFERENCE,
    )
    assert all(KINDS.wants(each) is None for each in above)


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_the_groups_below_an_llm_service_are_the_workloads(version):
    lws = obj(
        "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", {"leaderWorkerTemplate": {"size": 4}}, name="llm-mn"
    )
    llm = obj("LLMInferenceService", f"serving.kserve.io/{version}", name="llm")
    derived = derive(lws, llm, labels={"leaderworkerset.sigs.k8s.io/group-index": "2"})
    assert (derived.key.name, derived.key.gang, derived.min_pods) == ("llm-mn", "2", 4)


def test_pods_right_below_an_object_that_is_no_workload_start_one_by_one():
    derived = derive(obj("Revision", "serving.knative.dev/v1", name="chat-00001"))
    assert (derived.key.kind, derived.key.name, derived.min_pods, derived.pods) == (
        "Revision",
        "chat-00001",
        1,
        None,
    )

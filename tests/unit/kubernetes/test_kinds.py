"""The table of kinds: what each kind means for its pods, and what a table's mistakes are told."""

import pytest

from weir.kubernetes.api.objects import KubePod, Metadata, OwnerReference, PodSpec, PodStatus
from weir.kubernetes.translate.kinds import WorkloadKinds, load_kinds
from weir.model.scenario import InvalidFile
from weir.model.workloads import WorkloadType
from weir.state.events import WorkloadOutcome

KINDS = load_kinds()
ROLE = "training.kubeflow.org/replica-type"
BATCH = ("train", WorkloadType.TRAIN)


def obj(kind, api, spec=None, status=None, name="it", **metadata):
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{name}", **metadata},
        "spec": spec or {},
        "status": status or {},
    }


def pod(labels=None, owner=None, name="pod-0", phase="Pending"):
    references = []
    if owner is not None:
        references = [
            OwnerReference(
                owner["apiVersion"], owner["kind"], owner["metadata"]["name"], owner["metadata"]["uid"], True
            )
        ]
    metadata = Metadata(name=name, uid="uid-" + name, labels=labels or {}, owner_references=references)
    return KubePod(metadata=metadata, spec=PodSpec(), status=PodStatus(phase=phase))


def derive(*owners, labels=None, kinds: WorkloadKinds = KINDS):
    """As it is done: the objects narrowed to what the table reads."""
    return kinds.derive(pod(labels, owners[0] if owners else None), [kinds.narrow(owner) for owner in owners])


def job(spec=None, status=None, **more):
    return obj("Job", "batch/v1", spec, status, **more)


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
    assert derived.owner.kind == "Job"
    assert derived.hint is None


def test_min_pods_that_people_say_hold_but_never_beyond_what_is_left_to_do():
    derived = derive(job({"parallelism": 4, "completions": 4}))
    assert derived.needed().min_pods == 1
    assert derived.needed(min_pods=4).min_pods == 4
    assert derived.needed(min_pods=4, succeeded=3).min_pods == 1
    assert derive(job({"parallelism": 2, "completions": 10}, {"succeeded": 5})).needed(2).min_pods == 2
    assert derive(job({"parallelism": 2})).needed(2, succeeded=1).min_pods == 2  # a work queue has no count


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
    assert derive(replica_set, deployment).owner.name == "web"
    above = obj("Website", "example.com/v1", name="site")
    assert derive(replica_set, deployment, above).owner.name == "web"
    assert derive(job({}, name="run-1"), obj("CronJob", "batch/v1", name="nightly")).owner.name == "run-1"


def test_a_bare_pod_is_a_workload_by_itself():
    derived = KINDS.derive(pod(name="alone"))
    assert (derived.owner.kind, derived.owner.name, derived.owner.uid) == ("Pod", "alone", "uid-alone")
    assert (derived.min_pods, derived.pods, derived.hint) == (1, 1, None)
    assert KINDS.derive(pod(phase="Succeeded")).over is WorkloadOutcome.SUCCEEDED


def test_a_kind_nobody_knows_starts_its_pods_one_by_one_and_says_how_to_do_better():
    owner = obj("Website", "example.com/v1")
    derived = KINDS.derive(pod(owner=owner), [])
    assert (derived.owner.kind, derived.owner.name, derived.min_pods, derived.pods) == (
        "Website",
        "it",
        1,
        None,
    )
    assert "Website of example.com/v1" in derived.hint
    assert "weir.dev/min-pods" in derived.hint
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
    assert (derived.total, derived.gang) == (7, "")


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
    assert (derived.gang, derived.min_pods, derived.minima) == ("workers", 6, {"workers": 6})


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
    assert (of_leader.gang, of_leader.min_pods, of_leader.type) == ("1", 4, WorkloadType.INFERENCE)
    assert (of_worker.owner, of_worker.gang, of_worker.min_pods) == (of_leader.owner, "1", 4)


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
    assert derive(obj("PyTorchJob", "kubeflow.org/v1", spec)).needed(succeeded=2).min_pods == 2


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
    assert (launcher.owner.name, launcher.role, launcher.min_pods) == ("mpi", "launcher", gang)


def test_a_train_job_is_as_big_as_the_jobset_it_makes():
    train = obj(
        "TrainJob",
        "trainer.kubeflow.org/v1alpha1",
        name="tune",
        status={"conditions": [{"type": "Failed", "status": "True"}]},
    )
    derived = derive(job(), _jobset(), train, labels={"jobset.sigs.k8s.io/replicatedjob-name": "workers"})
    assert (derived.owner.name, derived.role, derived.min_pods, derived.over) == (
        "tune",
        "workers",
        7,
        WorkloadOutcome.FAILED,
    )


def test_a_notebook_is_built_in():
    derived = derive(obj("StatefulSet", "apps/v1", name="nb"), obj("Notebook", "kubeflow.org/v1", name="nb"))
    assert (derived.owner.kind, derived.type, derived.min_pods) == ("Notebook", WorkloadType.BUILD, 1)


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
    assert (derived.owner.kind, derived.role) == (kind, "gpu")
    assert (derived.min_pods, derived.pods) == (5, 10)
    assert derived.minima == {"headgroup": 1, "gpu": 2, "big": 2, "spare": 0}
    assert derived.gang == ("c-1" if kind == "RayService" else "")


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
    assert (derived.gang, derived.min_pods) == ("pod-0", 1)


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
    assert (native.owner.name, native.role, native.min_pods) == ("driver", "executor", 1)


# The table itself

OWN = """
kinds:
- kind: Website
  api: example.com/v1
  resource: websites
  type: inference
  pods: [{count: spec.servers|2}]
- {kind: Job, api: batch/v1, resource: jobs, pods: [{count: 9}]}
"""


def test_an_administrators_entries_go_first():
    kinds = load_kinds(OWN, "own.yaml")
    website = obj("Website", "example.com/v1beta1", {"servers": 6})
    derived = derive(obj("Deployment", "apps/v1"), website, kinds=kinds)
    assert (derived.owner.kind, derived.min_pods, derived.type) == ("Website", 6, WorkloadType.INFERENCE)
    assert derive(job(), kinds=kinds).min_pods == 9


def test_what_is_watched_names_every_version_once():
    watched = {each.resource: each.api_versions for each in KINDS.watched}
    assert watched["jobs"] == ("batch/v1",)
    assert watched["mpijobs"] == ("kubeflow.org/v2beta1", "kubeflow.org/v1")
    assert "pods" not in watched
    assert KINDS.knows("ray.io/v1alpha1", "RayCluster")
    assert not KINDS.knows("batch/v1", "CronJob")


def test_what_is_kept_of_an_object_is_what_is_read():
    whole = job(
        {"parallelism": 2, "template": {"spec": {"containers": []}}}, managedFields=[{"manager": "x"}]
    )
    kept = KINDS.narrow(whole)
    assert kept["spec"] == {"parallelism": 2}
    assert kept["metadata"] == {"name": "it", "uid": "uid-it"}
    assert KINDS.narrow(obj("Website", "example.com/v1", {"big": 1})) == {}


BROKEN = """
kinds:
- kind: A
  api: example.com/v1
  resource: as
  pods: [{count: "sum(spec.*"}]
- kind: B
  api: a/b/c
  resource: bs
  type: gaming
  gagn: owner
  pods: [{count: 1, each: spec.x}]
- {kind: C, api: example.com/v1, resource: cs, when: not this, gang: label, pods: [{role: head, count: 1, name: x}]}
"""


def test_all_mistakes_of_a_table_come_at_once_with_their_lines():
    with pytest.raises(InvalidFile) as refused:
        load_kinds(BROKEN, "own.yaml")
    reported = [str(each) for each in refused.value.mistakes]
    assert len(reported) == 6
    for line, text in [
        (6, "has a bracket that isn't closed; write one such as"),
        (8, "write GROUP/VERSION such as batch/v1"),
        (10, "'gaming' isn't known; write train, inference or build"),
        (11, "unknown key gagn; did you mean gang?"),
        (12, "'spec.x' is a single value; write a path to a list, such as spec.x.*"),
        (13, "is no condition; write one such as"),
    ]:
        assert any(each.startswith(f"own.yaml:{line}: ") and text in each for each in reported), (
            line,
            reported,
        )


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        ("gang: label, pods: [{count: 1}]", "write owner, pod or a label such as a.io/b"),
        ("pods: [{count: 1, role: head}]", "write the label that tells the role of a pod of C too"),
        ("pods: [{count: 1, name: x}]", "write role, or each and name"),
        ("role: x.io/r, pods: [{count: 1, role: h, each: spec.a.*}]", "write name instead of role"),
        ("pods: []", "pods or below: write one of them"),
        ("pods: [{count: 1}], below: true", "pods or below: write one of them"),
        ("pods: [{count: true}]", "true is no expression; write a number"),
    ],
)
def test_contradicting_words_of_a_kind_are_reported(words, reported):
    with pytest.raises(InvalidFile, match=r"own\.yaml:1: ") as refused:
        load_kinds(f"kinds: [{{kind: C, api: x.io/v1, resource: cs, {words}}}]", "own.yaml")
    assert reported in str(refused.value)

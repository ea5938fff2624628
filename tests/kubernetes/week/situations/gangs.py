"""Gangs of custom kinds, with CPU-only members, and rules about their places."""

from tests.kubernetes.week.environment import Environment
from tests.kubernetes.week.objects import job
from tests.kubernetes.week.operators import KINDS

ROLE = "training.kubeflow.org/replica-type"
MPI_ROLE = "training.kubeflow.org/job-role"
JOBSET_ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
RAY_GROUP = "ray.io/group"
KEPT_STEPS = 30
Pods = list[tuple[str, int, dict[str, str]]]


def _submit(
    env: Environment, kind: str, name: str, spec: dict, pods: Pods, least: int, runs_s: float | None
) -> str:
    if kind not in env.operators.installed:
        env.operators.install(kind)
        return f"the kind {kind} is installed; its first object comes the next time"
    namespace = env.space()
    made = env.operators.submit(kind, namespace, name, spec, pods, least=least, runs_s=runs_s)
    if runs_s is None:
        path = env.operators.path(kind, made)
        env.after(KEPT_STEPS, f"delete {name}", lambda: env.api.delete(path))
    return f"{kind} {namespace}/{name}: {len(pods)} pods, at least {least}"


def _container(gpus: int) -> dict:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    return {"spec": {"containers": [{"name": "main", "image": "work", "resources": {"limits": limits}}]}}


def mpi(env: Environment) -> str:
    """Submit an MPIJob: its launcher asks for no GPU."""
    name, workers = env.name("mpi"), env.chance.choice((2, 3))
    specs = {
        "Launcher": {"replicas": 1, "template": _container(0)},
        "Worker": {"replicas": workers, "template": _container(4)},
    }
    pods: Pods = [(f"{name}-worker-{at}", 4, {MPI_ROLE: "worker"}) for at in range(workers)]
    pods.append((f"{name}-launcher", 0, {MPI_ROLE: "launcher"}))
    return _submit(env, "MPIJob", name, {"mpiReplicaSpecs": specs}, pods, len(pods), env.life_s())


def pytorch(env: Environment) -> str:
    """Submit a PyTorchJob."""
    name = env.name("torch")
    specs = {
        "Master": {"replicas": 1, "template": _container(2)},
        "Worker": {"replicas": 2, "template": _container(2)},
    }
    pods: Pods = [(f"{name}-master-0", 2, {ROLE: "master"})]
    pods += [(f"{name}-worker-{at}", 2, {ROLE: "worker"}) for at in range(2)]
    return _submit(env, "PyTorchJob", name, {"pytorchReplicaSpecs": specs}, pods, 3, env.life_s())


def elastic_pytorch(env: Environment) -> str:
    """Submit an elastic PyTorchJob: it starts with two workers of four."""
    name = env.name("elastic-torch")
    specs = {"Worker": {"replicas": 4, "template": _container(2)}}
    spec = {"pytorchReplicaSpecs": specs, "elasticPolicy": {"minReplicas": 2, "maxReplicas": 4}}
    pods: Pods = [(f"{name}-worker-{at}", 2, {ROLE: "worker"}) for at in range(4)]
    return _submit(env, "PyTorchJob", name, spec, pods, 2, env.life_s())


def jobset(env: Environment) -> str:
    """Submit a JobSet with a CPU-only driver, with its pods made directly."""
    name = env.name("set")
    jobs = [
        {"name": "driver", "replicas": 1, "template": {"spec": {"template": _container(0)}}},
        {
            "name": "workers",
            "replicas": 1,
            "template": {"spec": {"parallelism": 2, "template": _container(4)}},
        },
    ]
    pods: Pods = [(f"{name}-driver-0", 0, {JOBSET_ROLE: "driver"})]
    pods += [(f"{name}-workers-{at}", 4, {JOBSET_ROLE: "workers"}) for at in range(2)]
    return _submit(env, "JobSet", name, {"replicatedJobs": jobs}, pods, 3, env.life_s())


def leader_workers(env: Environment) -> str:
    """Deploy a LeaderWorkerSet: two groups of a CPU-only leader and two workers."""
    name = env.name("lws")
    spec = {"leaderTemplate": _container(0), "workerTemplate": _container(1), "size": 3}
    pods: Pods = []
    for group in range(2):
        pods += [(f"{name}-{group}-{at}", min(at, 1), {GROUP_INDEX: str(group)}) for at in range(3)]
    whole = {"replicas": 2, "leaderWorkerTemplate": spec}
    return _submit(env, "LeaderWorkerSet", name, whole, pods, 3, None)


def ray(env: Environment) -> str:
    """Start a Ray cluster: a CPU-only head, at least one worker of three."""
    name = env.name("ray")
    group = {"groupName": "gpu", "replicas": 3, "minReplicas": 1, "template": _container(2)}
    spec = {"headGroupSpec": {"template": _container(0)}, "workerGroupSpecs": [group]}
    pods: Pods = [(f"{name}-head", 0, {RAY_GROUP: "headgroup"})]
    pods += [(f"{name}-gpu-{at}", 2, {RAY_GROUP: "gpu"}) for at in range(3)]
    return _submit(env, "RayCluster", name, spec, pods, 2, None)


def spark(env: Environment) -> str:
    """Submit a Spark application: a CPU-only driver and executors."""
    name = env.name("spark")
    spec = {"driver": {}, "executor": {"instances": 2, "gpu": {"name": "nvidia.com/gpu", "quantity": 1}}}
    pods: Pods = [(f"{name}-driver", 0, {"spark-role": "driver"})]
    pods += [(f"{name}-exec-{at}", 1, {"spark-role": "executor"}) for at in range(2)]
    return _submit(env, "SparkApplication", name, spec, pods, 1, env.life_s())


def upgrade_kind(env: Environment) -> str:
    """Upgrade the definition of a kind: it has one more version, or one less."""
    kind = env.pick(sorted(env.operators.installed & {"PyTorchJob", "RayCluster", "JobSet"}))
    if kind is None:
        return ""
    versions = env.chance.choice(((), ("v9alpha1",), ("v1alpha1",)))  # Weir knows the last of RayClusters
    env.operators.install(kind, versions)
    return f"{KINDS[kind][0]} {kind} with {versions}"


def same_rack(env: Environment) -> str:
    """Submit a gang that needs one rack."""
    marks = {"weir.dev/topology": "net:required=example.com/rack"}
    pods = env.chance.choice((2, 4))
    made = job(env.space(), env.name("rack"), 4, pods=pods, marks=marks, runs_s=env.life_s())
    return env.create(made)


def near(env: Environment) -> str:
    """Submit a gang that prefers one rack."""
    marks = {"weir.dev/topology": "net:preferred=example.com/rack"}
    return env.create(job(env.space(), env.name("near"), 2, pods=4, marks=marks, runs_s=env.life_s()))


def too_large_for_racks(env: Environment) -> str:
    """Submit a gang that needs one rack, and more of it than any has; delete it later."""
    marks = {"weir.dev/topology": "net:required=example.com/rack"}
    made = job(env.space(), env.name("wide"), 8, pods=3, marks=marks)
    path = f"/apis/batch/v1/namespaces/{made['metadata']['namespace']}/jobs/{made['metadata']['name']}"
    env.after(15, "delete", lambda: env.api.delete(path))
    return env.create(made)


def delete(env: Environment) -> str:
    """Delete an object of a custom kind while its pods run."""
    found = [
        (kind, each) for kind, objects in sorted(env.operators.objects.items()) for each in objects.values()
    ]
    picked = env.pick(found)
    if picked is None:
        return ""
    env.api.delete(env.operators.path(*picked))
    return f"{picked[0]} {picked[1]['metadata']['name']}"

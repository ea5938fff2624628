"""Bare pods, pods of other schedulers, shares, gates, volumes, and what people do to pods by hand."""

from collections.abc import Callable

from tests.kubernetes.week.environment import FREE, STATIC_CLASS, Environment
from tests.kubernetes.week.objects import claim, job, pod, volume, with_claim
from tools.controlplane.api import ApiError, Object
from tools.controlplane.nodes import RUNS

THIRD = "third"
_HOLD = "example.com/hold"
_GONE, _CONFLICT, _TOO_MANY = 404, 409, 429
KEPT_STEPS = 25


def _bare(env: Environment, made: Object) -> str:
    """Create a bare pod, and delete it some time later: nothing else does."""
    env.after(KEPT_STEPS, "delete a bare pod", lambda: env.api.delete(path(made)))
    return env.create(made)


def path(made: Object) -> str:
    """Return where a pod is."""
    return f"/api/v1/namespaces/{made['metadata']['namespace']}/pods/{made['metadata']['name']}"


def life(env: Environment) -> dict[str, str]:
    """Return the annotation of a life."""
    return {RUNS: f"{env.life_s():.1f}s"}


def bare(env: Environment) -> str:
    """Create a bare pod."""
    gpus = env.chance.choice((1, 2, 4))
    return _bare(env, pod(env.space(), env.name("bare"), gpus, annotations=life(env)))


def sidecars(env: Environment) -> str:
    """Create a pod with an init container and a sidecar that asks for a GPU, too."""
    made = pod(env.space(), env.name("sidecar"), 1, annotations=life(env))
    asks = {"limits": {"nvidia.com/gpu": "1", "cpu": "500m"}}
    made["spec"]["initContainers"] = [
        {"name": "proxy", "image": "work", "restartPolicy": "Always", "resources": asks},
        {"name": "fetch", "image": "work", "resources": {"limits": {"cpu": "2"}}},
    ]
    return _bare(env, made)


def gated(env: Environment) -> str:
    """Create a pod with a scheduling gate, which is taken off later."""
    made = pod(
        env.space(),
        env.name("gated"),
        1,
        annotations=life(env),
        schedulingGates=[{"name": "example.com/wait"}],
    )
    env.after(7, "take the gate off", lambda: env.patch(path(made), {"spec": {"schedulingGates": None}}))
    return _bare(env, made)


def gated_gang(env: Environment) -> str:
    """Submit a Job whose pods have a gate, which is taken off one after another."""
    gates = [{"name": "example.com/wait"}]
    made = job(env.space(), env.name("gated"), 1, pods=2, runs_s=5, schedulingGates=gates)
    namespace, name = made["metadata"]["namespace"], made["metadata"]["name"]

    def open_one() -> None:
        found = [each for each in env.pods(waits=True) if each.labels.get("job-name") == name and each.gates]
        for each in found[:1]:
            env.patch(f"/api/v1/namespaces/{namespace}/pods/{each.name}", {"spec": {"schedulingGates": None}})

    for steps in (5, 8, 11, 14):
        env.after(steps, "take a gate off", open_one)
    env.after(30, "delete", lambda: env.api.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"))
    return env.create(made)


def host_port(env: Environment) -> str:
    """Create a pod that wants port 8080 of its node."""
    made = pod(env.space(), env.name("port"), 1, annotations=life(env))
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    return _bare(env, made)


def late_claim(env: Environment) -> str:
    """Create a pod whose volume claim is made later, and its volume later still."""
    name, space = env.name("volume"), env.space()
    made = pod(space, name, 1, annotations=life(env))
    with_claim(made["spec"], name)
    env.after(3, "make the claim", lambda: env.create(claim(space, name, STATIC_CLASS)))
    env.after(6, "make the volume", lambda: env.create(volume(name, STATIC_CLASS)))
    claims = f"/api/v1/namespaces/{space}/persistentvolumeclaims/{name}"
    env.after(KEPT_STEPS + 1, "delete the claim", lambda: env.api.delete(claims))
    env.after(
        KEPT_STEPS + 2, "delete the volume", lambda: env.api.delete(f"/api/v1/persistentvolumes/{name}")
    )
    return _bare(env, made)


def fraction(env: Environment) -> str:
    """Create a pod that asks for a part of a GPU."""
    marks = {"weir.dev/gpu-fraction": env.chance.choice(("0.25", "0.5", "0.7")), **life(env)}
    return _bare(env, pod(env.space(), env.name("part"), 0, annotations=marks))


def memory(env: Environment) -> str:
    """Create a pod that asks for memory of a GPU."""
    marks = {"weir.dev/gpu-memory": env.chance.choice(("10Gi", "30Gi")), **life(env)}
    return _bare(env, pod(env.space(), env.name("memory"), 0, annotations=marks))


def two_fractions(env: Environment) -> str:
    """Create a pod that asks for a half of each of two GPUs."""
    marks = {"weir.dev/gpu-fraction": "0.5", "weir.dev/gpu-devices": "2", **life(env)}
    return _bare(env, pod(env.space(), env.name("halves"), 0, annotations=marks))


def plain(env: Environment) -> str:
    """Create a pod without GPUs in a project: it is kube-scheduler's."""
    return _bare(env, pod(env.space(), env.name("plain"), 0, annotations=life(env)))


def of_kube_scheduler(env: Environment) -> str:
    """Create a pod with GPUs in a namespace without a project: it is kube-scheduler's."""
    return _bare(env, pod(FREE, env.name("stock"), env.chance.choice((1, 2)), annotations=life(env)))


def third(env: Environment) -> str:
    """Have a third scheduler place a pod where devices are free."""
    gpus = env.chance.choice((1, 2))
    free = [
        name
        for name in env.gpu_nodes()
        if env.snapshot.nodes[name].gpus - env.snapshot.nodes[name].gpus_held >= gpus
        and not env.snapshot.nodes[name].cordoned
        and not env.snapshot.nodes[name].taints
    ]
    node = env.pick(free)
    if node is None:
        return ""
    made = pod(FREE, env.name("third"), gpus, annotations=life(env), scheduler=THIRD)
    answer = _bare(env, made)
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    metadata = {"name": made["metadata"]["name"]}
    env.api.post(
        f"{path(made)}/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target},
    )
    return f"{answer} on {node}"


def static(env: Environment) -> str:
    """Have a kubelet report a static pod, and take it back later."""
    node = env.pick(env.gpu_nodes())
    if node is None:
        return ""
    name = f"{env.name('static')}-{node}"
    made = pod("kube-system", name, 0, scheduler="default-scheduler", nodeName=node)
    uid = env.api.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
    marks = {f"kubernetes.io/config.{key}": name for key in ("hash", "mirror", "source")}
    made["metadata"] |= {"annotations": marks, "ownerReferences": [reference]}
    env.after(10, "end a static pod", lambda: env.api.delete(path(made), grace_s=0))
    return env.create(made)


def names_its_node(env: Environment) -> str:
    """Create a pod of a project that names its node itself, where devices are free."""
    free = [
        name for name in env.gpu_nodes() if env.snapshot.nodes[name].gpus_held < env.snapshot.nodes[name].gpus
    ]
    node = env.pick(free)
    if node is None:
        return ""
    return _bare(env, pod(env.space(), env.name("direct"), 1, annotations=life(env), nodeName=node))


def delete_pod(env: Environment) -> str:
    """Delete a pod by hand."""
    found = env.pick(env.pods(holds=True))
    if found is None:
        return ""
    env.api.delete(f"/api/v1/namespaces/{found.namespace}/pods/{found.name}")
    return str(found.full_name)


def delete_pod_at_once(env: Environment) -> str:
    """Delete a pod without its grace period."""
    found = env.pick(env.pods(is_weirs=True))
    if found is None:
        return ""
    env.api.delete(f"/api/v1/namespaces/{found.namespace}/pods/{found.name}", grace_s=0)
    return str(found.full_name)


def evict(env: Environment) -> str:
    """Evict a pod through the API, as people and descheduler do; a budget may refuse it."""
    found = env.pick(env.pods(holds=True))
    if found is None:
        return ""
    return f"{found.full_name}: {evict_pod(env, found.namespace, found.name)}"


def evict_pod(env: Environment, namespace: str, name: str) -> str:
    """Evict a pod, and say what came of it."""
    metadata = {"name": name, "namespace": namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    try:
        env.api.ask("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body, tries=1)
    except ApiError as why:
        if why.code != _TOO_MANY:
            raise
        return "a budget refuses"
    return "evicted"


def finalizer(env: Environment) -> str:
    """Delete a pod that a finalizer keeps for a while."""
    found = env.pick(env.pods(holds=True, is_weirs=True, deleting=False))
    if found is None:
        return ""
    at = f"/api/v1/namespaces/{found.namespace}/pods/{found.name}"
    if not _change_finalizers(env, at, found.uid, lambda there: [*there, _HOLD]):
        return ""
    env.api.delete(at)

    def release() -> None:
        _change_finalizers(env, at, found.uid, lambda there: [each for each in there if each != _HOLD])

    env.after(5, "take the finalizer off", release)
    return str(found.full_name)


def _change_finalizers(env: Environment, at: str, uid: str, change: Callable[[list[str]], list[str]]) -> bool:
    """Change the finalizers of a pod as they are, and return False if it is gone.

    The controller of jobs takes its own off meanwhile: writing a list that was read before would put it back, which
    the API server refuses once the pod is being deleted.
    """
    while (there := env.api.maybe(at)) is not None and there["metadata"]["uid"] == uid:
        metadata = there["metadata"]
        left = change(metadata.get("finalizers") or [])
        body = {"finalizers": left or None, "resourceVersion": metadata["resourceVersion"]}
        try:
            env.patch(at, {"metadata": body})
        except ApiError as why:
            if why.code == _GONE:
                return False
            if why.code != _CONFLICT:
                raise
        else:
            return True
    return False

"""Services: work that runs until it is deleted, is scaled, rolled out and protected."""

from tests.kubernetes.week.environment import Environment
from tests.kubernetes.week.objects import budget, service
from tools.controlplane.api import Object

LEND = {"weir.dev/preemptible": "true"}
MIN_REPLICAS = "weir.dev/min-replicas"
KEPT_STEPS = 40
"""Services are deleted after this number of steps, so that a long run isn't full of them."""


def path(found: Object) -> str:
    """Return where a service is."""
    metadata, plural = found["metadata"], f"{found.get('kind', 'Deployment').lower()}s"
    return f"/apis/apps/v1/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"


def submit(env: Environment, made: Object) -> str:
    """Create a service, and delete it with its budget some time later."""
    metadata = made["metadata"]
    budgets = f"/apis/policy/v1/namespaces/{metadata['namespace']}/poddisruptionbudgets"

    def end() -> None:
        env.api.delete(path(made))
        env.api.delete(f"{budgets}/{metadata['name']}")

    env.after(KEPT_STEPS, f"delete {metadata['name']}", end)
    return env.create(made)


def inference(env: Environment) -> str:
    """Deploy a model server: it isn't preemptible."""
    replicas = env.chance.choice((1, 2))
    return submit(env, service(env.space(), env.name("serve"), 1, replicas=replicas))


def preemptible(env: Environment) -> str:
    """Deploy a service that may be stopped for others."""
    made = service(env.space(), env.name("web"), 2, replicas=3, marks=LEND, annotations=LEND)
    return submit(env, made)


def borrowing(env: Environment) -> str:
    """Deploy a service that keeps some replicas and borrows the others."""
    kept = {MIN_REPLICAS: str(env.chance.choice((1, 2, 3)))}
    return submit(env, service(env.space(), env.name("web"), 1, replicas=6, marks=kept))


def change_minimum(env: Environment) -> str:
    """Change how many replicas such a service keeps."""
    found = env.pick(
        each
        for each in env.objects("deployments")
        if MIN_REPLICAS in (each["metadata"].get("annotations") or {})
    )
    if found is None:
        return ""
    kept = str(env.chance.choice((1, 2, 4, 50)))
    env.patch(path(found), {"metadata": {"annotations": {MIN_REPLICAS: kept}}})
    return f"{path(found)} keeps {kept}"


def scale(env: Environment) -> str:
    """Scale a service, as an autoscaler does."""
    found = env.pick(env.objects("deployments"))
    if found is None:
        return ""
    replicas = env.chance.choice((0, 1, 2, 4, 6))
    env.patch(path(found), {"spec": {"replicas": replicas}})
    return f"{path(found)} to {replicas}"


def roll_out(env: Environment) -> str:
    """Change the template of a service: its pods are replaced one after another."""
    found = env.pick(env.objects("deployments"))
    if found is None:
        return ""
    marks = {"release": env.name("v")}
    env.patch(path(found), {"spec": {"template": {"metadata": {"annotations": marks}}}})
    return path(found)


def recreate(env: Environment) -> str:
    """Deploy a service that stops all old pods before it starts new ones."""
    spec = {"strategy": {"type": "Recreate"}}
    return submit(env, service(env.space(), env.name("serve"), 2, replicas=2, spec=spec))


def stateful(env: Environment) -> str:
    """Make a StatefulSet."""
    return submit(env, service(env.space(), env.name("store"), 1, kind="StatefulSet", replicas=2))


def scale_stateful(env: Environment) -> str:
    """Scale a StatefulSet."""
    found = env.pick(env.objects("statefulsets"))
    if found is None:
        return ""
    replicas = env.chance.choice((0, 1, 3))
    env.patch(path({**found, "kind": "StatefulSet"}), {"spec": {"replicas": replicas}})
    return f"StatefulSet {found['metadata']['name']} to {replicas}"


def replica_set(env: Environment) -> str:
    """Make a ReplicaSet without a Deployment."""
    return submit(env, service(env.space(), env.name("copies"), 1, kind="ReplicaSet", replicas=2))


def apart(env: Environment) -> str:
    """Deploy pods that mustn't share a node."""
    name = env.name("web")
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    replicas = env.chance.choice((2, 4, 8))
    made = service(env.space(), name, 1, replicas=replicas, marks=LEND, annotations=LEND, affinity=affinity)
    return submit(env, made)


def spread(env: Environment) -> str:
    """Deploy pods that are to be spread over racks."""
    name = env.name("web")
    rule = {
        "maxSkew": 1,
        "topologyKey": "example.com/rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    made = service(
        env.space(), name, 1, replicas=3, marks=LEND, annotations=LEND, topologySpreadConstraints=[rule]
    )
    return submit(env, made)


def protect(env: Environment) -> str:
    """Write a disruption budget for a service, strict or loose."""
    found = env.pick(env.objects("deployments"))
    if found is None:
        return ""
    metadata = found["metadata"]
    allows = env.chance.choice(({"maxUnavailable": 0}, {"maxUnavailable": 1}, {"minAvailable": 1}))
    env.api.apply(budget(metadata["namespace"], metadata["name"], metadata["name"], **allows))
    return f"{path(found)}: {allows}"


def unprotect(env: Environment) -> str:
    """Delete a disruption budget."""
    found = env.pick(env.objects("poddisruptionbudgets"))
    if found is None:
        return ""
    metadata = found["metadata"]
    env.api.delete(
        f"/apis/policy/v1/namespaces/{metadata['namespace']}/poddisruptionbudgets/{metadata['name']}"
    )
    return f"PodDisruptionBudget {metadata['name']}"


def orphan(env: Environment) -> str:
    """Delete a service and leave its pods: they go on by themselves, and are deleted later."""
    found = env.pick(env.objects("replicasets"))
    if found is None:
        return ""
    metadata = found["metadata"]
    namespace, app = metadata["namespace"], found["spec"]["selector"]["matchLabels"]["app"]
    env.api.delete(path({**found, "kind": "ReplicaSet"}), propagation="Orphan")
    pods = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app={app}"
    env.after(12, "delete orphans", lambda: env.api.delete(pods))
    return f"ReplicaSet {metadata['name']}"


def foreground(env: Environment) -> str:
    """Delete a service that stays until its pods are gone."""
    found = env.pick(env.objects("deployments"))
    if found is None:
        return ""
    env.api.delete(path(found), propagation="Foreground")
    return path(found)


def release_pod(env: Environment) -> str:
    """Take a pod out of its service by its label, to look at it in peace; delete it later."""
    pod = env.pick(
        pod for pod in env.pods(holds=True) if pod.labels.get("app", "").startswith(("web", "serve"))
    )
    if pod is None:
        return ""
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
    env.patch(path, {"metadata": {"labels": {"app": "debug"}}})
    env.after(8, "delete a released pod", lambda: env.api.delete(path))
    return pod.full_name

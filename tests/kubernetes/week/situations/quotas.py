"""Situations of administrators: quotas, projects, departments, namespaces, priorities and settings."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.kubernetes.week.environment import DEPARTMENTS, TEAMS, WEIR, Environment
from tests.kubernetes.week.objects import job
from tools.controlplane.api import Object
from tools.controlplane.weir import install_kinds, project

NAMESPACE_GOES = "see the namespace"
CONFIG = f"{WEIR}/schedulerconfigs"
POLICY: Mapping[str, Any] = {
    "gang_grace": "3s",
    "reserve_after": "40s",
    "budgets": {"grace": "6s", "retry": "1s"},
    "life": {"pause_first": "1s", "max_pause": "6s"},
}
"""Weir's own times, shortened as far as they can be."""


WORK = (
    *(("batch/v1", plural) for plural in ("cronjobs", "jobs")),
    *(("apps/v1", plural) for plural in ("deployments", "statefulsets", "replicasets")),
)
"""Collections of what makes pods."""


def _open_projects(env: Environment) -> list[Object]:
    found = [each for each in env.snapshot.projects.values() if "deletionTimestamp" not in each["metadata"]]
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


def _edit(env: Environment, spec: Object) -> str:
    found = env.pick(_open_projects(env))
    if found is None:
        return ""
    name = found["metadata"]["name"]
    env.patch(f"{WEIR}/projects/{name}", {"spec": spec})
    return f"{name}: {spec}"


def quota(env: Environment) -> str:
    """Change the quota of a project; it is set back later."""
    name, (_, gpus, _) = env.chance.choice(sorted(TEAMS.items()))
    path = f"{WEIR}/projects/{name}"
    new = env.chance.choice((0, gpus // 2, gpus + 4))
    env.after(10, "set the quota back", lambda: env.patch(path, {"spec": {"quota": {"gpu": gpus}}}))
    env.patch(path, {"spec": {"quota": {"gpu": new}}})
    return f"{name}: {new}"


def limit(env: Environment) -> str:
    """Give a project a limit for a while."""
    found = env.pick(_open_projects(env))
    if found is None:
        return ""
    path = f"{WEIR}/projects/{found['metadata']['name']}"
    gpus = int(found["spec"]["quota"]["gpu"]) + env.chance.choice((0, 2, 6))
    env.after(9, "take the limit off", lambda: env.patch(path, {"spec": {"limit": None}}))
    env.patch(path, {"spec": {"limit": {"gpu": gpus}}})
    return f"{found['metadata']['name']}: {gpus}"


def weight(env: Environment) -> str:
    """Change the weight of a project."""
    return _edit(env, {"weight": {"gpu": env.chance.choice((0, 1, 3))}})


def priority(env: Environment) -> str:
    """Change the priority of a project."""
    return _edit(env, {"priority": env.chance.choice((50, 100, 150))})


def department_quota(env: Environment) -> str:
    """Change the quota of a department; it is set back later."""
    name, gpus = env.chance.choice(sorted(DEPARTMENTS.items()))
    path = f"{WEIR}/departments/{name}"
    env.after(8, "set the quota back", lambda: env.patch(path, {"spec": {"quota": {"gpu": gpus}}}))
    env.patch(path, {"spec": {"quota": {"gpu": gpus + 6}}})
    return f"{name}: {gpus + 6}"


def new_department(env: Environment) -> str:
    """Move a project to a new department and back, and delete the department."""
    name = env.name("department")
    team = env.chance.choice(sorted(TEAMS))
    if team not in env.snapshot.projects:
        return ""
    old, gpus, _ = TEAMS[team]
    path = f"{WEIR}/projects/{team}"
    spec = {"quota": {"gpu": gpus}}
    env.create(
        {"apiVersion": "weir.dev/v1alpha1", "kind": "Department", "metadata": {"name": name}, "spec": spec}
    )
    env.after(1, f"{team} moves to {name}", lambda: env.patch(path, {"spec": {"department": name}}))
    env.after(9, f"{team} moves back", lambda: env.patch(path, {"spec": {"department": old}}))
    env.after(11, f"delete {name}", lambda: env.api.delete(f"{WEIR}/departments/{name}"))
    return f"{team} to {name}"


def new_team(env: Environment) -> str:
    """Create a namespace and its project, submit work, and delete the project with work, then the namespace."""
    name = env.name("team")
    env.cluster.namespace(name)
    env.create(project(name, 4, [name], department="product"))
    env.after(2, f"{name} submits", lambda: env.create(job(name, "first", 4, runs_s=15)))
    env.after(2, f"{name} submits more", lambda: env.create(job(name, "more", 9)))
    env.after(8, f"delete the project {name}", lambda: env.api.delete(f"{WEIR}/projects/{name}"))
    env.after(16, f"delete the namespace {name}", lambda: _remove(env, name))
    return name


def rename(env: Environment) -> str:
    """Rename a project: create one of another name for its namespaces, move the work, delete the old one."""
    old, new = env.name("team"), env.name("team-renamed")
    env.cluster.namespace(old)
    env.create(project(old, 4, [old], department="product"))
    env.after(2, f"{old} submits", lambda: env.create(job(old, "before", 2, runs_s=12)))
    env.after(5, f"create {new}", lambda: env.create(project(new, 4, [old], department="product")))
    marks = {"weir.dev/project": new}

    def submit() -> None:
        env.create(job(old, "after", 2, runs_s=12, marks=marks, pod_marks=marks))

    env.after(6, f"{new} submits", submit)
    env.after(7, f"delete the project {old}", lambda: env.api.delete(f"{WEIR}/projects/{old}"))
    env.after(24, f"delete the project {new}", lambda: env.api.delete(f"{WEIR}/projects/{new}"))
    env.after(26, f"delete the namespace {old}", lambda: _remove(env, old))
    return f"{old} to {new}"


def delete_project(env: Environment) -> str:
    """Delete a project with work by mistake, and apply it again once it is gone."""
    name, (department, gpus, namespaces) = env.chance.choice(sorted(TEAMS.items()))
    path = f"{WEIR}/projects/{name}"
    if env.api.maybe(path) is None:
        return ""
    env.api.delete(path)

    def again() -> None:
        there = env.api.maybe(path)
        if there is None:
            env.create(project(name, gpus, namespaces, department=department))
        elif "deletionTimestamp" in there["metadata"]:
            for namespace in namespaces:
                _end_work(env, namespace)
            env.after(3, f"apply the project {name}", again)

    env.after(6, f"apply the project {name}", again)
    return name


def _end_work(env: Environment, namespace: str) -> None:
    """Delete all work of a namespace: a project that is deleted goes when its last workload is over."""
    for group, plural in WORK:
        env.api.delete(f"/apis/{group}/namespaces/{namespace}/{plural}")
    for kind, objects in env.operators.objects.items():
        for (where, _), found in objects.items():
            if where == namespace:
                env.api.delete(env.operators.path(kind, found))
    env.api.delete(f"/api/v1/namespaces/{namespace}/pods")


def delete_namespace(env: Environment) -> str:
    """Delete a namespace with work, and create it again once it is gone."""
    name = env.chance.choice(("blue-b", "guest-a"))
    if not env.is_open(name):
        return ""
    _remove(env, name, lambda: env.cluster.namespace(name))
    return name


def _remove(env: Environment, name: str, afterwards: Callable[[], object] = lambda: None) -> None:
    """Delete a namespace, and do something once it is gone.

    If no instance leads meanwhile, its Jobs are deleted, as the documentation says.
    """
    env.api.delete(f"/api/v1/namespaces/{name}")
    was_led = True

    def look() -> None:
        nonlocal was_led
        was_led = was_led and env.replicas.leads()
        if env.api.maybe(f"/api/v1/namespaces/{name}") is None:
            afterwards()
            return
        if not was_led:
            env.api.delete(f"/apis/batch/v1/namespaces/{name}/jobs")
        env.after(4, f"{NAMESPACE_GOES} {name} go", look)

    env.after(3, f"{NAMESPACE_GOES} {name} go", look)


def priority_class(env: Environment) -> str:
    """Submit work of a PriorityClass of its own, which evicts nothing."""
    name = "polite"
    env.api.apply(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": 90,
            "preemptionPolicy": "Never",
        }
    )
    return env.create(job(env.space(), env.name("polite"), 2, runs_s=env.life_s(), priorityClassName=name))


def urgent(env: Environment) -> str:
    """Submit work of a higher priority than the rest of its project."""
    return env.create(job(env.space(), env.name("urgent"), 4, runs_s=8, priorityClassName="weir-inference"))


def change_priority(env: Environment) -> str:
    """Change the type of work that waits, and so its priority."""
    found = env.pick(env.objects("jobs", "single"))
    if found is None:
        return ""
    metadata = found["metadata"]
    path = f"/apis/batch/v1/namespaces/{metadata['namespace']}/jobs/{metadata['name']}"
    kind = env.chance.choice(("build", "train"))
    env.patch(path, {"metadata": {"annotations": {"weir.dev/type": kind}}})
    return f"{path}: {kind}"


def object_quota(env: Environment) -> str:
    """Let a ResourceQuota of objects keep a gang from having all its pods, for a while."""
    namespace, name = "green-a", env.name("objects")
    pods = sum(each.namespace == namespace for each in env.snapshot.pods)
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    env.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"hard": {"pods": str(pods + 1)}},
        }
    )
    env.after(8, f"delete {name}", lambda: env.api.delete(f"{quotas}/{name}"))
    return env.create(job(namespace, env.name("gang"), 1, pods=3, runs_s=5))


def settings(env: Environment) -> str:
    """Change the policy of the scheduler, as its administrators do."""
    preset = env.chance.choice(("fair", "balanced", "throughput"))
    spec = {"policy": {**POLICY, "preset": preset}}
    env.api.apply(
        {
            "apiVersion": "weir.dev/v1alpha1",
            "kind": "SchedulerConfig",
            "metadata": {"name": "weir"},
            "spec": spec,
        }
    )
    return str(preset)


def upgrade_own_kinds(env: Environment) -> str:
    """Apply the definitions of Weir's own kinds again, as an upgrade does."""
    install_kinds(env.api)
    return "applied"


def rebuild_topology(env: Environment) -> str:
    """Delete the topology, and apply it again later."""
    path = f"{WEIR}/topologies/net"
    found = env.api.maybe(path)
    if found is None:
        return ""
    made = {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "net"},
        "spec": found["spec"],
    }
    env.api.delete(path)
    env.after(4, "apply the topology", lambda: env.create(made))
    return "net"

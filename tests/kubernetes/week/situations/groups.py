"""Pod groups of `scheduling.k8s.io`, and the pods that name them."""

from typing import Any

from tests.kubernetes.group_plane import GROUPS_API
from tests.kubernetes.week.environment import Environment
from tests.kubernetes.week.objects import job, pod
from tests.kubernetes.week.oracle import RACK
from tools.controlplane.api import Object
from tools.controlplane.nodes import RUNS

KEPT_STEPS = 30
GROUPS = f"/apis/{GROUPS_API}"


def _group(env: Environment, within: str, name: str, least: int = 0, **spec: Any) -> Object:
    """Return a group whose pods start together from this number on, or one by one; it is deleted later."""
    path = f"{GROUPS}/namespaces/{within}/podgroups/{name}"
    env.after(KEPT_STEPS + 1, f"delete the group {name}", lambda: env.api.delete(path))
    return {
        "apiVersion": GROUPS_API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": within},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}} if least else {"basic": {}}, **spec},
    }


def _members(env: Environment, within: str, name: str, count: int, gpus: int, first: int = 0) -> list[Object]:
    """Return pods of a group, which are deleted later."""
    marks = {RUNS: f"{env.life_s():.1f}s"}
    made = []
    for at in range(first, first + count):
        each = pod(within, f"{name}-{at}", gpus, annotations=marks)
        each["spec"]["schedulingGroup"] = {"podGroupName": name}
        path = f"/api/v1/namespaces/{within}/pods/{name}-{at}"
        env.after(KEPT_STEPS, f"delete {name}-{at}", lambda path=path: env.api.delete(path))
        made.append(each)
    return made


def _submit(env: Environment, kind: str, least: int, count: int, gpus: int, **spec: Any) -> str:
    if not env.has_groups:
        return ""
    within, name = env.space(), env.name(kind)
    env.api.create(_group(env, within, name, least, **spec))
    env.api.create(*_members(env, within, name, count, gpus))
    return f"PodGroup {within}/{name}: {count} pods of {gpus} GPUs, at least {least}"


def whole(env: Environment) -> str:
    """Submit a group all of whose pods start together."""
    count = env.chance.choice((2, 3, 4))
    return _submit(env, "group", count, count, env.chance.choice((1, 2, 4)))


def part(env: Environment) -> str:
    """Submit a group that starts with half of its pods."""
    return _submit(env, "group-part", 2, 4, env.chance.choice((1, 2)))


def basic(env: Environment) -> str:
    """Submit a group whose pods start one by one."""
    return _submit(env, "group-basic", 0, 3, env.chance.choice((1, 4)))


def same_rack(env: Environment) -> str:
    """Submit a group that keeps to one rack."""
    return _submit(env, "group-rack", 2, 2, 4, schedulingConstraints={"topology": [{"key": RACK}]})


def too_large(env: Environment) -> str:
    """Submit a group that no cluster of this size starts."""
    return _submit(env, "group-large", 9, 9, 8)


def late(env: Environment) -> str:
    """Create pods whose group is made later."""
    if not env.has_groups:
        return ""
    within, name = env.space(), env.name("group-late")
    env.api.create(*_members(env, within, name, 2, 1))
    made = _group(env, within, name, 2)
    env.after(3, f"make the group {name}", lambda: env.create(made))
    return f"pods of PodGroup {within}/{name}"


def short(env: Environment) -> str:
    """Submit a group whose last pod is made later."""
    if not env.has_groups:
        return ""
    within, name = env.space(), env.name("group-short")
    env.api.create(_group(env, within, name, 3))
    env.api.create(*_members(env, within, name, 2, 1))
    (last,) = _members(env, within, name, 1, 1, first=2)
    env.after(4, f"make the last pod of {name}", lambda: env.create(last))
    return f"PodGroup {within}/{name}: 2 of 3 pods"


def of_job(env: Environment) -> str:
    """Submit a Job whose pods name a group that asks for fewer pods than the Job."""
    if not env.has_groups:
        return ""
    within, name = env.space(), env.name("group-job")
    made = job(within, name, 1, pods=3, runs_s=env.life_s())
    made["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": name}
    env.api.create(_group(env, within, name, env.chance.choice((0, 2))))
    return env.create(made)


def deleted_with_pods(env: Environment) -> str:
    """Delete a group while its pods are there: it stays until they are gone."""
    found = env.pick(env.objects("podgroups"))
    if found is None:
        return ""
    within, name = found["metadata"]["namespace"], found["metadata"]["name"]
    env.api.delete(f"{GROUPS}/namespaces/{within}/podgroups/{name}")
    return f"PodGroup {within}/{name}"

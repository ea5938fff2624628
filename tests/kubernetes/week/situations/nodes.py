"""Situations of nodes: cordons, drains, taints, losses, replacements, changes of labels and devices."""

from tests.kubernetes.week.environment import GPUS, RACK, SHARED, Environment
from tests.kubernetes.week.objects import job
from tests.kubernetes.week.situations.pods import evict_pod
from tools.controlplane.nodes import set_down

SPOT = "example.com/spot"
BACK_STEPS = 8
NODES_MIN = 4


def _path(name: str) -> str:
    return f"/api/v1/nodes/{name}"


def _idle(env: Environment) -> str | None:
    """Return a node that nothing is wrong with, if enough others are left."""
    well = [
        name
        for name in env.gpu_nodes()
        if not env.snapshot.nodes[name].cordoned and not env.snapshot.nodes[name].taints
    ]
    return env.pick(well) if len(well) > NODES_MIN else None


def cordon(env: Environment) -> str:
    """Cordon a node for a while."""
    name = _idle(env)
    if name is None:
        return ""
    env.patch(_path(name), {"spec": {"unschedulable": True}})
    env.after(BACK_STEPS, "uncordon", lambda: env.patch(_path(name), {"spec": {"unschedulable": None}}))
    return name


def drain(env: Environment) -> str:
    """Drain a node: cordon it and evict its pods as far as budgets let them go."""
    name = _idle(env)
    if name is None:
        return ""
    env.patch(_path(name), {"spec": {"unschedulable": True}})
    answer = [evict_pod(env, pod.namespace, pod.name) for pod in env.pods(holds=True, node=name)]
    env.after(BACK_STEPS, "uncordon", lambda: env.patch(_path(name), {"spec": {"unschedulable": None}}))
    return f"{name}: {answer}"


def _taint(env: Environment, effect: str) -> str:
    name = _idle(env)
    if name is None:
        return ""
    taints = [{"key": "example.com/repair", "effect": effect}]
    env.patch(_path(name), {"spec": {"taints": taints}})
    env.after(BACK_STEPS, "take the taint off", lambda: env.patch(_path(name), {"spec": {"taints": None}}))
    return name


def taint(env: Environment) -> str:
    """Taint a node so that no new pod starts on it."""
    return _taint(env, "NoSchedule")


def taint_at_once(env: Environment) -> str:
    """Taint a node so that its pods have to go."""
    return _taint(env, "NoExecute")


def down(env: Environment) -> str:
    """Have a node not be ready for a while."""
    name = _idle(env)
    if name is None:
        return ""
    set_down(env.api, name)
    env.after(BACK_STEPS, "node is ready again", lambda: set_down(env.api, name, down=False))
    return name


def replace(env: Environment) -> str:
    """Delete a node, with its pods, and add another."""
    name = _idle(env)
    if name is None:
        return ""
    rack = int(env.snapshot.nodes[name].labels.get(RACK, "rack-0").rpartition("-")[2])
    env.api.delete(_path(name))
    new = env.name("gpu-new")
    env.after(3, "add the new node", lambda: env.create(env.new_node(new, rack * 2)))
    return f"{name} by {new}"


def add_and_remove(env: Environment) -> str:
    """Add a node as an autoscaler does, and drain and delete it later."""
    name = env.name("gpu-more")

    def remove() -> None:
        env.patch(_path(name), {"spec": {"unschedulable": True}})
        for pod in env.pods(holds=True, node=name):
            env.api.delete(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")

    env.after(15, f"drain {name}", remove)
    env.after(19, f"delete {name}", lambda: env.api.delete(_path(name)))
    return env.create(env.new_node(name, 8))


def spot(env: Environment) -> str:
    """Add a spot node that goes without notice, and work that tolerates it."""
    name = env.name("spot")
    taints = [{"key": SPOT, "value": "true", "effect": "NoSchedule"}]
    env.create(env.new_node(name, 10, labels={SPOT: "true"}, taints=taints))
    tolerations = [{"key": SPOT, "operator": "Exists"}]
    pods = env.chance.choice((1, 3))
    made = job(env.space(), env.name("cheap"), 2, pods=pods, runs_s=env.life_s(), tolerations=tolerations)
    env.after(12, f"{name} is lost", lambda: env.api.delete(_path(name)))
    return f"{name}; {env.create(made)}"


def fewer_devices(env: Environment) -> str:
    """Have a device plugin report fewer devices for a while."""
    name = _idle(env)
    if name is None:
        return ""
    path = f"{_path(name)}/status"

    def report(gpus: int) -> None:
        env.patch(path, {"status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}})

    fewer = env.chance.choice((0, 4, 6))
    report(fewer)
    env.after(env.chance.choice((1, 12)), f"{name} has all devices again", lambda: report(GPUS))
    return f"{name}: {fewer}"


def relabel(env: Environment) -> str:
    """Move a node to another rack, by its label."""
    name = _idle(env)
    if name is None:
        return ""
    rack = f"rack-{env.chance.randint(0, 3)}"
    env.patch(_path(name), {"metadata": {"labels": {RACK: rack}}})
    return f"{name} to {rack}"


def pool(env: Environment) -> str:
    """Move a node to another pool, and submit work for that pool."""
    name = _idle(env)
    if name is None:
        return ""
    env.patch(_path(name), {"metadata": {"labels": {"pool": "special"}}})
    made = job(env.space(), env.name("pooled"), 4, runs_s=env.life_s(), nodeSelector={"pool": "special"})
    path = f"/apis/batch/v1/namespaces/{made['metadata']['namespace']}/jobs/{made['metadata']['name']}"

    def back() -> None:
        env.patch(_path(name), {"metadata": {"labels": {"pool": "main"}}})

    env.after(10, f"{name} moves back", back)
    env.after(20, "delete", lambda: env.api.delete(path))
    return f"{name}; {env.create(made)}"


def share_another(env: Environment) -> str:
    """Set another node aside for shares, and take it back later."""
    name = _idle(env)
    if name is None or name == SHARED:
        return ""

    def label(value: str | None) -> None:
        env.patch(_path(name), {"metadata": {"labels": {"weir.dev/gpu-sharing": value}}})

    label("true")
    env.after(12, f"{name} serves whole devices again", lambda: label(None))
    return name

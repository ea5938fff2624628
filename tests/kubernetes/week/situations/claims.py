"""Work that asks for GPUs by resource claims, and what becomes of slices and claims."""

from tests.kubernetes.claim_objects import GPU, claimed, gpu_slice, template
from tests.kubernetes.week.environment import CLAIMED, CLAIMED_GPUS, Environment
from tests.kubernetes.week.objects import job, pod
from tests.kubernetes.week.pods import TEMPLATE_OF_GPUS
from tests.unit.kubernetes.claims.random_claims import API
from tools.controlplane.api import ApiError, Object

RESOURCES = f"/apis/{API}"
KEPT_STEPS = 25


def single(env: Environment) -> str:
    """Submit a Job whose pod claims GPUs."""
    return _submit(env, "claims", env.chance.choice((1, 2, 4)), 1)


def gang(env: Environment) -> str:
    """Submit an Indexed Job whose pods claim GPUs and need one another."""
    pods, gpus = env.chance.choice(((2, 2), (2, 4), (3, 2), (4, 1)))
    return _submit(env, "claiming-gang", gpus, pods)


def too_many(env: Environment) -> str:
    """Submit a Job whose pod claims more GPUs than any node has, and delete it later."""
    said = _submit(env, "claims-too-many", CLAIMED_GPUS + 1, 1)
    _, _, where = said.partition(" ")
    namespace, name = where.split("/")
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
    env.after(15, "delete", lambda: env.api.delete(path))
    return said


def _submit(env: Environment, prefix: str, gpus: int, pods: int) -> str:
    within = env.space()
    made = job(within, env.name(prefix), 0, pods=pods, runs_s=env.life_s(), scheduler="weir")
    claimed(made["spec"]["template"], resourceClaimTemplateName=_template(env, within, gpus))
    return env.create(made)


def _template(env: Environment, within: str, gpus: int) -> str:
    """Return the name of the namespace's template of a claim for this number of GPUs, made if it isn't there."""
    made = template(within, f"{TEMPLATE_OF_GPUS}{gpus}", gpus)
    try:
        env.api.create(made)
    except ApiError as why:
        if "already exists" not in str(why):
            raise
    return str(made["metadata"]["name"])


def own_claim(env: Environment) -> str:
    """Create a claim that one pod after another uses, and delete it later."""
    within, name = env.space(), env.name("claim")
    made = template(within, name)
    env.api.create({**made, "kind": "ResourceClaim", "spec": made["spec"]["spec"]})
    path = f"{RESOURCES}/namespaces/{within}/resourceclaims/{name}"
    for at in range(2):
        body = pod(within, f"{name}-user-{at}", 0, scheduler="weir")
        claimed(body, resourceClaimName=name)
        env.after(1 + 8 * at, "use the claim", lambda body=body: env.create(body))
        at_pod = f"/api/v1/namespaces/{within}/pods/{name}-user-{at}"
        env.after(8 + 8 * at, "delete its user", lambda at_pod=at_pod: env.api.delete(at_pod))
    env.after(KEPT_STEPS, "delete the claim", lambda: env.api.delete(path))
    return f"ResourceClaim {within}/{name}"


def missing_template(env: Environment) -> str:
    """Submit a Job that names a template which comes later."""
    within, name = env.space(), env.name("late-template")
    made = job(within, f"{name}-job", 0, runs_s=env.life_s(), scheduler="weir")
    claimed(made["spec"]["template"], resourceClaimTemplateName=name)
    env.after(5, "create the template", lambda: env.api.create(template(within, name)))
    return env.create(made)


def fewer_devices(env: Environment) -> str:
    """Have a driver report fewer devices of a node for a while."""
    name = env.chance.choice(CLAIMED)
    _resize(env, name, CLAIMED_GPUS - 2)
    env.after(8, "report all devices", lambda: _resize(env, name, CLAIMED_GPUS))
    return f"{name} has {CLAIMED_GPUS - 2} devices"


def _resize(env: Environment, node: str, count: int) -> None:
    path = f"{RESOURCES}/resourceslices/{node}-gpus"
    found = env.api.maybe(path)
    made = gpu_slice(node, count)
    if found is None:
        env.api.create(made)
        return
    generation = found["spec"]["pool"]["generation"] + 1
    spec = {**made["spec"], "pool": {**made["spec"]["pool"], "generation": generation}}
    env.patch(path, {"spec": spec})


def driver_away(env: Environment) -> str:
    """Take away the slice of a node, as an upgrade of its driver does, and publish it again."""
    name = env.chance.choice(CLAIMED)
    env.api.delete(f"{RESOURCES}/resourceslices/{name}-gpus")
    env.after(6, "publish the slice", lambda: _resize(env, name, CLAIMED_GPUS))
    return f"the slice of {name}"


def delete_claim(env: Environment) -> str:
    """Delete the claim of a pod: it stays until the pod is gone."""
    found: Object | None = env.pick(
        each for each in env.objects("resourceclaims") if (each.get("status") or {}).get("allocation")
    )
    if found is None:
        return ""
    metadata = found["metadata"]
    env.api.delete(f"{RESOURCES}/namespaces/{metadata['namespace']}/resourceclaims/{metadata['name']}")
    return f"{GPU} of {metadata['namespace']}/{metadata['name']}"

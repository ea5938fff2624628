"""Jobs in the forms in which people run them."""

from tests.kubernetes.week.environment import Environment
from tests.kubernetes.week.objects import job
from tools.controlplane.api import Object
from tools.controlplane.nodes import FAILS, RUNS, STARTS_AFTER, STOPS_AFTER

JOBS = "/apis/batch/v1/namespaces"


def path(found: Object) -> str:
    """Return where a Job is."""
    return f"{JOBS}/{found['metadata']['namespace']}/jobs/{found['metadata']['name']}"


def single(env: Environment) -> str:
    """Submit a Job of one pod."""
    gpus = env.chance.choice((1, 1, 2, 4, 8))
    return env.create(job(env.space(), env.name("single"), gpus, runs_s=env.life_s()))


def gang(env: Environment) -> str:
    """Submit an Indexed Job whose pods need one another."""
    pods, gpus = env.chance.choice(((2, 2), (2, 8), (3, 4), (4, 1), (4, 4), (6, 2)))
    return env.create(job(env.space(), env.name("gang"), gpus, pods=pods, runs_s=env.life_s()))


def work_queue(env: Environment) -> str:
    """Submit a Job that works through more completions than it has pods at once."""
    spec = {"completions": 6, "parallelism": 2}
    made = job(env.space(), env.name("queue"), 1, indexed=False, runs_s=env.life_s() / 3, spec=spec)
    return env.create(made)


def elastic(env: Environment) -> str:
    """Submit a Job that starts with two pods and uses up to five."""
    marks = {"weir.dev/min-pods": "2"}
    return env.create(job(env.space(), env.name("elastic"), 2, pods=5, marks=marks, runs_s=env.life_s()))


def resize(env: Environment) -> str:
    """Give an elastic Job more or fewer pods."""
    found = env.pick(env.objects("jobs", "elastic"))
    if found is None:
        return ""
    pods = env.chance.choice((2, 3, 5, 6))
    env.patch(path(found), {"spec": {"parallelism": pods, "completions": pods}})
    return f"{path(found)} to {pods} pods"


def suspended(env: Environment) -> str:
    """Submit a suspended Job, and resume it later."""
    made = job(env.space(), env.name("suspended"), 2, pods=2, runs_s=env.life_s(), spec={"suspend": True})
    env.after(6, "resume", lambda: env.patch(path(made), {"spec": {"suspend": False}}))
    return env.create(made)


def suspend(env: Environment) -> str:
    """Suspend a Job that was submitted, and resume it later."""
    found = env.pick(each for each in env.objects("jobs") if not each["spec"].get("suspend"))
    if found is None or _is_over(found):
        return ""
    env.patch(path(found), {"spec": {"suspend": True}})
    env.after(5, "resume", lambda: env.patch(path(found), {"spec": {"suspend": False}}))
    return path(found)


def no_pods(env: Environment) -> str:
    """Submit a Job with parallelism 0, and give it pods later."""
    made = job(env.space(), env.name("parked"), 1, runs_s=env.life_s(), spec={"parallelism": 0})
    env.after(4, "unpark", lambda: env.patch(path(made), {"spec": {"parallelism": 1}}))
    return env.create(made)


def delete(env: Environment) -> str:
    """Delete a Job."""
    found = env.pick(env.objects("jobs"))
    if found is None:
        return ""
    env.api.delete(path(found))
    return path(found)


def delete_and_make_again(env: Environment) -> str:
    """Delete a Job and submit one of the same name at once."""
    found = env.pick(env.objects("jobs", "single"))
    if found is None:
        return ""
    metadata = found["metadata"]
    env.api.delete(path(found))
    return env.create(job(metadata["namespace"], metadata["name"], 2, runs_s=env.life_s()))


def failing(env: Environment) -> str:
    """Submit a Job whose pod fails each time."""
    marks = {RUNS: "1s", FAILS: "true"}
    return env.create(job(env.space(), env.name("failing"), 1, pod_marks=marks, spec={"backoffLimit": 2}))


def bounded(env: Environment) -> str:
    """Submit a Job that Weir ends after a while."""
    marks = {"weir.dev/max-runtime": f"{env.chance.randint(2, 8)}s"}
    return env.create(job(env.space(), env.name("bounded"), 1, pods=2, marks=marks, runs_s=60))


def deadline(env: Environment) -> str:
    """Submit a Job that its controller ends after a while."""
    spec = {"activeDeadlineSeconds": env.chance.randint(3, 12)}
    return env.create(job(env.space(), env.name("deadline"), 2, runs_s=60, spec=spec))


def too_large(env: Environment) -> str:
    """Submit a pod that asks for more devices than any node has, and delete the Job later."""
    made = job(env.space(), env.name("large"), 9)
    env.after(15, "delete", lambda: env.api.delete(path(made)))
    return env.create(made)


def wrong_selector(env: Environment) -> str:
    """Submit a Job for nodes that don't exist; label one of the nodes so some time later."""
    wanted = {"disk": "fast"}
    made = job(env.space(), env.name("choosy"), 1, runs_s=4, nodeSelector=wanted)
    node = env.pick(env.gpu_nodes())

    def label(value: str | None) -> None:
        env.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"disk": value}}})

    env.after(6, "label a node", lambda: label("fast"))
    env.after(14, "take the label off", lambda: label(None))
    env.after(16, "delete", lambda: env.api.delete(path(made)))
    return env.create(made)


def fixed(env: Environment) -> str:
    """Submit a Job that isn't to be stopped for others."""
    marks = {"weir.dev/preemptible": "false"}
    gpus = env.chance.choice((2, 4, 8))
    return env.create(job(env.space(), env.name("fixed"), gpus, marks=marks, runs_s=env.life_s()))


def session(env: Environment) -> str:
    """Submit an interactive session."""
    marks = {"weir.dev/type": "build"}
    return env.create(job(env.space(), env.name("session"), 1, marks=marks, runs_s=env.life_s()))


def checkpointing(env: Environment) -> str:
    """Submit a Job, or note that a running one has saved its state."""
    found = env.pick(env.objects("jobs", "saving"))
    if found is None:
        return env.create(job(env.space(), env.name("saving"), 4, runs_s=40))
    pods = [pod for pod in env.pods(holds=True) if pod.labels.get("job-name") == found["metadata"]["name"]]
    for pod in pods:
        answer = {"weir.dev/checkpointed-at": "2026-03-01T12:00:00Z"}
        env.patch(
            f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", {"metadata": {"annotations": answer}}
        )
    return f"{len(pods)} pods of {path(found)}"


def slow(env: Environment) -> str:
    """Submit a Job whose pods take a while to start and to stop."""
    marks = {STARTS_AFTER: "2s", STOPS_AFTER: "3s", RUNS: f"{env.life_s():.1f}s"}
    return env.create(job(env.space(), env.name("slow"), 4, pods=2, pod_marks=marks))


def own_failure_policy(env: Environment) -> str:
    """Submit a Job with a failure policy of its own, in which an eviction counts as a failure."""
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]
    spec = {"podFailurePolicy": {"rules": rules}, "backoffLimit": 20}
    return env.create(job(env.space(), env.name("policed"), 2, runs_s=env.life_s(), spec=spec))


def restarting(env: Environment) -> str:
    """Submit a Job whose containers restart in place."""
    made = job(env.space(), env.name("restarting"), 1, runs_s=env.life_s(), restarts="OnFailure")
    return env.create(made)


def of_cron(env: Environment) -> str:
    """Make a CronJob, or a Job of one as its schedule does."""
    found = env.pick(env.objects("cronjobs"))
    if found is None:
        made = job(env.space(), env.name("nightly"), 1, runs_s=3)
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": made["spec"]}}
        return env.create(
            {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": made["metadata"], "spec": spec}
        )
    metadata = found["metadata"]
    made = job(metadata["namespace"], env.name("manual"), 1, runs_s=3)
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "controller": True}
    reference |= {"name": metadata["name"], "uid": metadata["uid"]}
    made["metadata"]["ownerReferences"] = [reference]
    return env.create(made)


def stop_cron(env: Environment) -> str:
    """Delete a CronJob with its Jobs."""
    found = env.pick(env.objects("cronjobs"))
    if found is None:
        return ""
    metadata = found["metadata"]
    env.api.delete(f"/apis/batch/v1/namespaces/{metadata['namespace']}/cronjobs/{metadata['name']}")
    return f"CronJob {metadata['name']}"


def _is_over(found: Object) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(each["type"] in ("Complete", "Failed") for each in conditions)

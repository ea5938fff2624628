"""Invariants, computed from the pods alone and not from the engine's columns."""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from weir.engine.plan import Plan
from weir.engine.transaction import Accounting
from weir.model.reasons import EvictionRule
from weir.model.workloads import WHOLE_MILLI, PodAffinityRule, Request
from weir.state.cluster import Cluster
from weir.state.events import PodKey
from weir.state.jobs import Job, Phase, Pod

from .running import key_of, pods_of

HOLDS = (Phase.RUNNING, Phase.STOPPING)


def everyone(cluster: Cluster) -> list[Pod]:
    """Return all pods of all jobs."""
    return [pod for job in cluster.jobs.values() for pod in pods_of(job)]


# Capacity


def nothing_is_overcommitted(cluster: Cluster) -> None:
    """Neither now, with what is still being stopped, nor then, with what is promised."""
    now = [(pod, pod.node, pod.devices) for pod in everyone(cluster) if pod.phase in HOLDS]
    then = [(pod, pod.node, pod.devices) for pod in everyone(cluster) if pod.phase is Phase.RUNNING]
    then += [(pod, *pod.nomination) for pod in everyone(cluster) if pod.nomination is not None]
    for when, places in (("now", now), ("then", then)):
        _fits(cluster, when, places)


def _fits(cluster: Cluster, when: str, places: Iterable[tuple[Pod, int, tuple[int, ...]]]) -> None:
    shares: Counter[tuple[int, int]] = Counter()
    memory: Counter[tuple[int, int]] = Counter()
    wholes: Counter[tuple[int, int]] = Counter()
    amounts: Counter[tuple[int, str]] = Counter()
    for pod, index, devices in places:
        node, request = cluster.nodes[index], pod.shape.request
        assert node is not None, f"{key_of(pod)} is on a lost node"
        assert len(set(devices)) == len(devices) == request.devices, f"{key_of(pod)} has devices {devices}"
        assert all(device < node.gpus for device in devices), (
            f"{key_of(pod)} has devices {devices} of {node.gpus}"
        )
        assert not set(devices) & set(node.foreign_devices), f"{key_of(pod)} is on a device of others"
        if request.gpu_models and request.devices:
            assert node.gpu_model in request.gpu_models, f"{key_of(pod)} is on a {node.gpu_model}"
        for device in devices:
            shares[index, device] += request.share_on(node.gpu_memory)
            memory[index, device] += request.memory_on(node.gpu_memory)
            wholes[index, device] += request.is_whole and not request.gpu_memory
        wanted = {"cpu": request.cpu_milli, "memory": request.memory, "pods": 1, **dict(request.further)}
        for name, amount in wanted.items():
            amounts[index, name] += amount
    for (index, device), milli in shares.items():
        node = cluster.nodes[index]
        assert node is not None
        assert milli <= WHOLE_MILLI, f"{when}, device {device} of {node.name} carries {milli} thousandths"
        assert memory[index, device] <= node.gpu_memory, (
            f"{when}, device {device} of {node.name} lacks memory"
        )
        assert wholes[index, device] <= 1, (
            f"{when}, two pods have the whole of device {device} of {node.name}"
        )
    for (index, name), amount in amounts.items():
        node = cluster.nodes[index]
        assert node is not None
        most = node.capacity.get(name, 0)
        assert amount <= most, f"{when}, {node.name} carries {amount} of {most} {name}"


# Quotas


def charges(request: Request) -> dict[str, int]:
    """Return what a pod counts with in quotas besides devices: its request, and what is assumed of it."""
    cpu, memory = request.cpu_milli + request.assumed_cpu_milli, request.memory + request.assumed_memory
    return {"cpu": cpu, "memory": memory, "pods": 1, **dict(request.further)}


def held(cluster: Cluster, *, fixed: bool, without: Iterable[Job] = ()) -> Counter[tuple[str, str]]:
    """Return the usage of each queue by resource, nominations included, in all or of non-preemptible work."""
    gone = {job.spec.name for job in without}
    usage: Counter[tuple[str, str]] = Counter()
    for pod in everyone(cluster):
        if pod.phase is not Phase.RUNNING and pod.nomination is None:
            continue
        if pod.job.spec.name in gone or (fixed and pod.job.spec.preemptible):
            continue
        count(cluster, pod, pod.nomination[0] if pod.nomination is not None else pod.node, usage)
    return usage


def count(cluster: Cluster, pod: Pod, index: int, usage: Counter[tuple[str, str]], sign: int = 1) -> None:
    """Add what a pod counts with on a node to the usage of its queues."""
    node, request = cluster.nodes[index], pod.shape.request
    amounts = charges(request)
    if request.devices and node is not None:
        milli = request.devices * request.share_on(node.gpu_memory) * request.gpu_weight_milli // WHOLE_MILLI
        amounts["gpu"] = milli
        if node.gpu_model is not None:
            amounts[f"gpu.{node.gpu_model}"] = milli
    ledger = cluster.ledger
    for queue in ledger.path[ledger.position[pod.job.spec.project]]:
        for name, amount in amounts.items():
            usage[ledger.queues[queue].name, name] += sign * amount


def books_agree(cluster: Cluster, plan: Plan, accounting: Accounting) -> None:
    """Asked before a plan is carried out: the usage in the engine is that of the cluster with the plan.

    Resource by resource and queue by queue, non-preemptible work by itself. The pods that the engine counts as
    leaving are those that the plan evicts.
    """
    evicted = [_pod(cluster, eviction.pod) for eviction in plan.evictions]
    assert accounting.leaving == set(evicted), "other pods leave than are evicted"
    places = [*plan.binds, *(place for nominated in plan.nominations for place in nominated.places)]
    new = [(_pod(cluster, place.pod), cluster.node_at[place.node]) for place in places]
    changes = [(pod, index, 1) for pod, index in new if pod.nomination is None]
    changes += [(pod, pod.node, -1) for pod in evicted]
    ledger, rows = cluster.ledger, cluster.rows.names
    for fixed, used in ((False, accounting.overlay.used), (True, accounting.overlay.fixed)):
        expected = held(cluster, fixed=fixed)
        for pod, index, sign in changes:
            if not (fixed and pod.job.spec.preemptible):
                count(cluster, pod, index, expected, sign)
        for queue, line in zip(ledger.queues, used, strict=True):
            charged = {name: amount for name, amount in zip(rows, line, strict=True) if amount}
            wanted = {
                name: amount for (owner, name), amount in expected.items() if owner == queue.name and amount
            }
            assert charged == wanted, f"{queue.name}: {charged} charged, {wanted} with the plan"


def limits_hold(cluster: Cluster) -> None:
    """No queue holds more than its limit."""
    amounts = held(cluster, fixed=False)
    for queue in cluster.ledger.queues:
        for name, most in queue.limit.items():
            have = amounts[queue.name, name]
            assert have <= most, f"{queue.name} holds {have} {name} with a limit of {most}"


def fixed_work_is_in_quota(cluster: Cluster) -> None:
    """Check that non-preemptible work never exceeds a quota."""
    amounts = held(cluster, fixed=True)
    for queue in cluster.ledger.queues:
        for name, most in queue.quota.items():
            have = amounts[queue.name, name]
            assert have <= most, f"{queue.name} holds {have} {name} non-preemptible with a quota of {most}"


# Gangs


def placed(job: Job) -> list[int]:
    """Return the pods of each group that run or have a nomination."""
    return [
        sum(pod.phase is Phase.RUNNING or pod.nomination is not None for pod in group) for group in job.pods
    ]


def is_complete(job: Job) -> bool:
    """Return True if a job has all pods of its gang."""
    return all(have >= need for have, need in zip(placed(job), job.spec.needed(), strict=True))


def gangs_are_whole(cluster: Cluster, broken: Iterable[str] = ()) -> None:
    """A job has what its gang needs or nothing at all; `broken` are those something happened to."""
    for name, job in cluster.jobs.items():
        if name not in broken:
            assert is_complete(job) or not any(placed(job)), (
                f"{name} has {placed(job)} of {job.spec.needed()}"
            )


# Plans


def plan_is_sound(cluster: Cluster, plan: Plan) -> None:
    """Asked before it is carried out: who is stopped may be, and not for nothing."""
    promised = {place.pod for promise in plan.nominations for place in promise.places}
    served = {promise.workload for promise in plan.nominations}
    bound = [place.pod for place in plan.binds]
    assert len(set(bound)) == len(bound), f"bound twice: {bound}"
    assert not set(bound) & promised, "bound and promised at once"
    for eviction in plan.evictions:
        pod = _pod(cluster, eviction.pod)
        victim, rule = pod.job, eviction.cause.rule
        assert pod.phase is Phase.RUNNING, f"{eviction.pod} is stopped but {pod.phase.name}"
        if rule is EvictionRule.GANG_BROKEN:
            continue
        assert victim.spec.preemptible, f"{eviction.pod} is stopped and not preemptible"
        assert eviction.moves is (eviction.pod in promised), f"{eviction.pod}: moves without a place, or not"
        asker = eviction.cause.by
        assert asker in served, f"{eviction.pod} is stopped for {asker}, who is promised nothing"
        assert asker is not None
        if eviction.moves or rule is EvictionRule.SWAP:
            continue
        if rule is EvictionRule.PREEMPT:
            assert cluster.jobs[asker].spec.project == victim.spec.project, f"{eviction} across projects"
            assert cluster.jobs[asker].spec.priority > victim.spec.priority, (
                f"{eviction} of no lower priority"
            )
        elif rule in (EvictionRule.RECLAIM_QUOTA, EvictionRule.RECLAIM_SHARE):
            assert cluster.jobs[asker].spec.project != victim.spec.project, f"{eviction} inside a project"


def _pod(cluster: Cluster, key: PodKey) -> Pod:
    return cluster.jobs[key.workload].pods[key.group][key.index]


# Pod rules


def pod_rules_hold(cluster: Cluster, plan: Plan) -> None:
    """Asked before it is carried out: no pod is bound where a rule of it forbids it, as things then stand."""
    bearers: Counter[tuple[int, str]] = Counter()  # by node and mark
    for index, node in enumerate(cluster.nodes):
        if node is not None:
            for mark, pods in node.foreign_marks.items():
                bearers[index, mark] += pods
    for pod in everyone(cluster):
        places = [pod.node] if pod.phase in HOLDS else []
        places += [] if pod.nomination is None else [pod.nomination[0]]
        for index in places:
            _bear(bearers, pod, index, 1)
    for _, binds in groupby(plan.binds, key=lambda place: place.pod.workload):
        bound = [(_pod(cluster, place.pod), cluster.node_at[place.node]) for place in binds]
        for pod, index in bound:
            if pod.nomination is None:
                _bear(bearers, pod, index, 1)
        for pod, index in bound:
            _bear(bearers, pod, index, -1)
            for rule in pod.shape.request.pod_rules:
                if not rule.weight:
                    assert _allows(cluster, pod, rule, index, bearers), (
                        f"{key_of(pod)} on n{index} against {rule}"
                    )
            _bear(bearers, pod, index, 1)


def _bear(bearers: Counter[tuple[int, str]], pod: Pod, index: int, sign: int) -> None:
    for mark in pod.shape.request.marks:
        bearers[index, mark] += sign


def _allows(
    cluster: Cluster, pod: Pod, rule: PodAffinityRule, index: int, bearers: Counter[tuple[int, str]]
) -> bool:
    """By the words of Kubernetes, domain by domain."""
    domains: dict[str, int] = {}
    for other, node in enumerate(cluster.nodes):
        if node is not None and rule.topology in node.labels:
            domain = node.labels[rule.topology]
            domains[domain] = domains.get(domain, 0) + bearers[other, rule.mark]
    node = cluster.nodes[index]
    assert node is not None
    own = node.labels.get(rule.topology)
    bears = rule.mark in pod.shape.request.marks
    if rule.kind == "anti_affinity":
        return own is None or not domains[own]
    if own is None:
        return False
    if rule.kind == "affinity":
        return domains[own] > 0 or (bears and not any(domains.values()))
    least = min(domains.values()) if len(domains) >= rule.min_domains else 0
    return domains[own] + bears - least <= rule.max_skew

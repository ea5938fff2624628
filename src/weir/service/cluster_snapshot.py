"""Live pool as a scenario: the engine makes the same next decisions in both.

The scenario contains the history that decisions depend on: pending since, run time, since when its gang
lacks pods, and the workloads it was stopped for. A scenario can't express stopping pods, nominated
capacity, or learned run times and usage; the head of the file counts them. A suspended workload is left
out: it requests nothing.
"""

from collections.abc import Iterator
from dataclasses import replace

from weir.model.budgets import DisruptionBudget
from weir.model.nodes import DRAINED
from weir.model.policy import Policy
from weir.model.scenario import Expect, PlacedPod, Scenario, WorkloadPast
from weir.model.workloads import Workload
from weir.scenario_io.writing import write_scenario
from weir.service.cluster_copy import ClusterFacts, copy_cluster
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Phase


def snapshot(picture: ClusterFacts, policy: Policy, now_s: float) -> str:
    """Return the cluster as the text of a scenario file."""
    cluster = copy_cluster(picture)
    stopping = sum(job.stopping for job in cluster.jobs.values())
    suspended = sum(job.held for job in cluster.jobs.values())
    notes = [
        f"Pods that were being stopped: {stopping}. Their devices count as free here." if stopping else "",
        f"Workloads with nominated capacity: {len(cluster.nominated)}. Here only their order reserves it."
        if cluster.nominated
        else "",
        f"Suspended workloads, which are left out: {suspended}." if suspended else "",
    ]
    head = "".join(f"# {note}\n" for note in notes if note)
    return head + write_scenario(scenario_of(cluster, policy, now_s))


def cluster_alone(picture: ClusterFacts, policy: Policy, now_s: float) -> str:
    """Return the cluster without workloads, as a scenario for replays: nothing drained, nothing in use."""
    found = scenario_of(copy_cluster(picture), policy, now_s)
    nodes = tuple(
        replace(
            node,
            taints=tuple(taint for taint in node.taints if taint.key != DRAINED),
            foreign_devices=(),
            outages=(),
            foreign_marks={},
        )
        for node in found.nodes
    )
    alone = replace(
        found,
        name="pool",
        nodes=nodes,
        workloads=(),
        placed=(),
        started_s={},
        checkpointed_s={},
        past={},
        expect=Expect(),
        budgets=(),
    )
    return write_scenario(alone)


def scenario_of(cluster: Cluster, policy: Policy, now_s: float) -> Scenario:
    """Return the cluster as a scenario, its times as seconds before now."""
    jobs = [job for job in cluster.jobs.values() if not job.held or job.running_pods()]
    placed = [each for job in jobs for each in _placed(cluster, job)]
    runs = {pod.workload for pod in placed}
    return Scenario(
        name="snapshot",
        nodes=tuple(node for node in cluster.nodes if node is not None),
        topologies=tuple(cluster.topologies.values()),
        queues=tuple(replace(queue, created_s=queue.created_s - now_s) for queue in cluster.ledger.queues),
        workloads=tuple(_workload(job, now_s) for job in jobs),
        placed=tuple(placed),
        started_s={
            job.spec.name: _past(job.started_s, now_s)
            for job in jobs
            if job.spec.name in runs and job.started_s is not None
        },
        checkpointed_s={job.spec.name: _past(job.saved_s, now_s) for job in jobs if job.saved_s is not None},
        past={job.spec.name: _past_of(job, now_s) for job in jobs},
        policy=policy,
        expect=Expect(cycles=1, stable=0),
        budgets=tuple(
            DisruptionBudget(name, max(0, budget.allowed)) for name, budget in cluster.budgets.items()
        ),
        protected={key: names for job in jobs for key, names in _protected(job)},
    )


def _protected(job: Job) -> Iterator[tuple[tuple[str, int], tuple[str, ...]]]:
    """Yield, for each group, the budgets that protect any of its pods."""
    position = 0
    for pods, running in zip(job.pods, _running(job), strict=True):
        names = dict.fromkeys(budget.name for pod in pods for budget in pod.budgets)
        if names:
            yield (job.spec.name, position), tuple(names)
        position += 1 if running or not job.held else 0


def _past_of(job: Job, now_s: float) -> WorkloadPast:
    """Return the part of a workload's history that decisions depend on."""
    waits = job.waits_since_s != job.spec.submitted_s
    absent, position = [], 0
    for group, running in zip(job.pods, _running(job), strict=True):
        if job.held and not running:
            continue
        absent += [(position, pod.index) for pod in group if pod.phase is Phase.ABSENT and not job.held]
        position += 1
    return WorkloadPast(
        waits_since_s=_past(job.waits_since_s, now_s) if waits else None,
        ran_s=job.ran_s,
        short_since_s=None if job.below_since_s is None else _past(job.below_since_s, now_s),
        stopped_for=tuple((by, _past(at_s, now_s)) for by, at_s in job.stopped_for.items()),
        absent=tuple(absent),
    )


def _past(at_s: float, now_s: float) -> float:
    return min(0.0, at_s - now_s)


def _running(job: Job) -> list[list[int]]:
    """Return the indices of its running pods, by group."""
    return [[pod.index for pod in pods if pod.phase is Phase.RUNNING] for pods in job.pods]


def _placed(cluster: Cluster, job: Job) -> list[PlacedPod]:
    position, found = 0, []
    for at, indices in enumerate(_running(job)):
        for index in indices:
            pod = job.pods[at][index]
            name = cluster.node_names[pod.node]
            found.append(PlacedPod(job.spec.name, position, index, name, pod.devices))
        position += 1 if indices or not job.held else 0
    return found


def _workload(job: Job, now_s: float) -> Workload:
    """Return a workload as the engine sees it: a suspended one counts only its running pods."""
    spec = replace(job.spec, submitted_s=_past(job.spec.submitted_s, now_s))
    if not job.held:
        return spec
    groups = []
    for group, indices in zip(spec.groups, _running(job), strict=True):
        count = max(indices, default=-1) + 1
        if count:
            groups.append(replace(group, count=count, min=min(group.min, count)))
    return replace(spec, groups=tuple(groups), min_pods=sum(group.min for group in groups))

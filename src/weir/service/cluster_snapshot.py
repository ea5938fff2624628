"""Live pool as a scenario: the engine makes the same next decisions in both.

The scenario contains the history that decisions depend on: pending since, run time, since when its gang
lacks pods, and the workloads it was stopped for. A scenario can't express stopping pods, nominated
capacity, or learned run times and usage; the head of the file counts them. A suspended workload is left
out: it requests nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weir.model.budgets import DisruptionBudget
from weir.model.nodes import DRAINED
from weir.model.policy import Policy
from weir.model.scenario import Expect, Placed, Scenario, WorkloadPast
from weir.model.workloads import Workload
from weir.scenario_io.writing import write_scenario
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Phase, Pod


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Scenario of a cluster with times as the cluster counts them, and notes on its omissions.

    The control thread reads it, which is quick; any thread can write it.
    """

    scenario: Scenario
    notes: tuple[str, ...]
    now_s: float  # the latest time of any event


def read_cluster(cluster: Cluster, policy: Policy) -> ClusterSnapshot:
    """Return the content of a snapshot."""
    jobs = [job for job in cluster.jobs.values() if not job.held or job.running_pods()]
    scenario = Scenario(
        name="snapshot",
        nodes=tuple([node for node in cluster.nodes if node is not None]),
        topologies=tuple(cluster.topologies.values()),
        queues=cluster.ledger.queues,
        workloads=tuple([_workload(job) for job in jobs]),
        past={job.name: _past_of(cluster, job) for job in jobs},
        policy=policy,
        expect=Expect(cycles=1, stable=0),
        budgets=tuple(
            [DisruptionBudget(name, max(0, budget.allowed)) for name, budget in cluster.budgets.items()]
        ),
        protected={key: names for job in jobs if cluster.budgets for key, names in _protected(job)},
    )
    return ClusterSnapshot(scenario, _notes(cluster), cluster.now_s)


def _notes(cluster: Cluster) -> tuple[str, ...]:
    stopping = sum([job.stopping for job in cluster.jobs.values()])
    suspended = sum([job.held for job in cluster.jobs.values()])
    notes = (
        f"Pods that were being stopped: {stopping}. Their devices count as free here." if stopping else "",
        f"Workloads with nominated capacity: {len(cluster.nominated)}. Here only their order reserves it."
        if cluster.nominated
        else "",
        f"Suspended workloads, which are left out: {suspended}." if suspended else "",
    )
    return tuple([note for note in notes if note])


def snapshot(read: ClusterSnapshot, now_s: float) -> str:
    """Return the cluster as the text of a scenario file."""
    head = "".join(f"# {note}\n" for note in read.notes)
    return head + write_scenario(_relative(read.scenario, now_s))


def cluster_alone(read: ClusterSnapshot, now_s: float) -> str:
    """Return the cluster without workloads, as a scenario for replays: no node drained, no device in use."""
    nodes = tuple(
        replace(
            node,
            taints=tuple(taint for taint in node.taints if taint.key != DRAINED),
            foreign_devices=(),
            outages=(),
            foreign_marks={},
        )
        for node in read.scenario.nodes
    )
    alone = replace(
        read.scenario,
        name="pool",
        nodes=nodes,
        workloads=(),
        past={},
        expect=Expect(),
        budgets=(),
    )
    return write_scenario(_relative(alone, now_s))


def _relative(scenario: Scenario, now_s: float) -> Scenario:
    """Return a scenario with its times as seconds before now."""

    def past(at_s: float) -> float:
        return min(0.0, at_s - now_s)

    def optional(at_s: float | None) -> float | None:
        return None if at_s is None else past(at_s)

    return replace(
        scenario,
        queues=tuple([replace(queue, created_s=queue.created_s - now_s) for queue in scenario.queues]),
        workloads=tuple(
            [replace(workload, submitted_s=past(workload.submitted_s)) for workload in scenario.workloads]
        ),
        past={
            name: replace(
                job_past,
                started_s=optional(job_past.started_s),
                checkpointed_s=optional(job_past.checkpointed_s),
                waits_since_s=optional(job_past.waits_since_s),
                short_since_s=optional(job_past.short_since_s),
                stopped_for=tuple([(by, past(at_s)) for by, at_s in job_past.stopped_for]),
            )
            for name, job_past in scenario.past.items()
        },
    )


def _groups(job: Job) -> list[list[Pod]]:
    """Return the groups for the scenario: of a suspended workload only those that run."""
    if not job.held:
        return job.pods
    return [pods for pods in job.pods if any(pod.phase is Phase.RUNNING for pod in pods)]


def _protected(job: Job) -> Iterator[tuple[tuple[str, int], tuple[str, ...]]]:
    """Yield, for each group, the budgets that protect any of its pods."""
    for position, pods in enumerate(_groups(job)):
        if names := dict.fromkeys([budget.name for pod in pods for budget in pod.budgets]):
            yield (job.name, position), tuple(names)


def _past_of(cluster: Cluster, job: Job) -> WorkloadPast:
    """Return the part of a workload's history that decisions depend on."""
    pods = (pod for group in job.pods for pod in group) if any(job.absent) and not job.held else ()
    placed = _placed(cluster, job)
    return WorkloadPast(
        placed=placed,
        started_s=job.started_s if placed else None,
        checkpointed_s=job.saved_s,
        waits_since_s=None if job.waits_since_s == job.submitted_s else job.waits_since_s,
        ran_s=job.ran_s,
        short_since_s=job.below_since_s,
        stopped_for=tuple(job.stopped_for.items()),
        absent=tuple([(pod.group, pod.index) for pod in pods if pod.phase is Phase.ABSENT]),
    )


def _placed(cluster: Cluster, job: Job) -> Placed:
    return {
        (position, pod.index): (cluster.node_names[pod.node], pod.devices)
        for position, pods in enumerate(_groups(job))
        for pod in pods
        if pod.phase is Phase.RUNNING
    }


def _workload(job: Job) -> Workload:
    """Return a workload as the engine sees it: a suspended one counts only its running pods."""
    spec = job.spec
    if not job.held:
        return spec
    groups = []
    for pods in _groups(job):
        group = spec.groups[pods[0].group]
        count = 1 + max([pod.index for pod in pods if pod.phase is Phase.RUNNING])
        groups.append(replace(group, count=count, min=min(group.min, count)))
    return replace(spec, groups=tuple(groups), min_pods=sum([group.min for group in groups]))

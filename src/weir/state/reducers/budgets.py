"""Disruption budgets: set, removed, assigned to pods; and stops that a backend couldn't carry out."""

from weir.model.resources import UNLIMITED
from weir.state import events
from weir.state.budgets import Budget
from weir.state.cluster import Cluster
from weir.state.jobs import Phase, Pod
from weir.state.reducers.accounting import charge, pod_of
from weir.state.reducers.nominations import release_nominations
from weir.state.reducers.pending_index import update_status


def budget_set(cluster: Cluster, event: events.BudgetSet) -> None:
    """Set the allowance of a new or known budget."""
    name, allowed = event.budget.name, event.budget.allowed
    budget = cluster.budgets.get(name)
    if budget is None:
        cluster.budgets[name] = Budget(name, allowed)
    else:
        budget.allowed = allowed


def budget_removed(cluster: Cluster, event: events.BudgetRemoved) -> None:
    """Remove a budget. It no longer protects any pod."""
    budget = cluster.budgets.pop(event.name, None)
    if budget is not None:
        budget.allowed = UNLIMITED


def pod_protected(cluster: Cluster, event: events.PodProtected) -> None:
    """Set the budgets that an eviction of a pod counts against."""
    pod = pod_of(cluster, event.pod)
    if pod is not None:
        budgets = (cluster.budgets.get(name) for name in event.budgets)
        pod.budgets = tuple([budget for budget in budgets if budget is not None])


def use(pod: Pod) -> None:
    """Subtract an evicted pod from its budgets."""
    for budget in pod.budgets:
        budget.allowed -= 1


def stop_refused(cluster: Cluster, event: events.StopRefused) -> None:
    """Keep a pod running after a refused eviction, and record the time of the attempt.

    Its budgets allow nothing until the backend reports another allowance. A new nomination of its workload is
    released, because the pod can't move there.
    """
    pod = pod_of(cluster, event.pod)
    if pod is None or pod.phase is not Phase.STOPPING:
        return
    job, node = pod.job, pod.node
    release_nominations(cluster, job)
    charge(cluster, pod, -1)
    pod.phase = Phase.RUNNING
    job.forget_running()
    job.placed[pod.group] += 1
    job.stopping -= 1
    charge(cluster, pod, 1)
    cluster.running_pods.add(pod, job.since_s)
    cluster.releasing.hold(node, pod.shape, pod.devices, cluster.device_memory[node], 1)
    cluster.releasing_on[node] -= 1
    if not cluster.releasing_on[node]:
        del cluster.releasing_on[node]
    cluster.changed(node)
    for budget in pod.budgets:
        budget.allowed = min(budget.allowed, 0)
    if event.by is not None:
        job.stopped_for.pop(event.by, None)
        if event.by in cluster.jobs:
            cluster.withdrawn[event.by] = event.at_s
    cluster.refused[pod] = event.at_s
    update_status(cluster, job, event.at_s)

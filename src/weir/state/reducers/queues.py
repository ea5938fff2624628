"""The quota tree and the topologies; each event of them has the whole tree, or all topologies."""

from weir.state import events
from weir.state.cluster import Cluster
from weir.state.quota_usage import QuotaUsage
from weir.state.reducers.accounting import charge
from weir.state.reducers.column_growth import grow
from weir.state.reducers.pending_index import dequeue, enqueue, set_running


def queues_set(cluster: Cluster, event: events.QueuesSet) -> None:
    """Replace the quota tree, and charge all workloads again."""
    cluster.ledger = QuotaUsage(event.queues, cluster.rows)
    grow(cluster, nodes=len(cluster.nodes), devices=1)
    cluster.running.clear()
    cluster.priorities.clear()
    for job in cluster.jobs.values():
        dequeue(cluster, job)
        job.belong(cluster.ledger.path[cluster.ledger.position[job.spec.project]])
        cluster.running_pods.belong(job)
        cluster.ledger.add_sharing(job.path, job.sharing)
        for group in job.pods:
            for pod in group:
                charge(cluster, pod, 1)
        if job.started_s is not None:
            set_running(cluster, job, True)
        enqueue(cluster, job)
    cluster.admission.set_queues(event.queues, cluster.jobs)
    cluster.static_version += 1


def topologies_set(cluster: Cluster, event: events.TopologiesSet) -> None:
    """Replace the topologies."""
    cluster.topologies = {topology.name: topology for topology in event.topologies}
    cluster.static_version += 1

"""The quota tree and the topologies, each told as a whole."""

from weir.state import events
from weir.state.ledger import Ledger
from weir.state.reducers.counting import count
from weir.state.reducers.growing import grow
from weir.state.reducers.standing import leave_class, rank, set_running
from weir.state.state import Cluster


def queues_set(cluster: Cluster, event: events.QueuesSet) -> None:
    """The quota tree is another: everything counts in it anew."""
    cluster.ledger = Ledger(event.queues, cluster.rows)
    grow(cluster, nodes=len(cluster.nodes), devices=1)
    cluster.running.clear()
    cluster.priorities.clear()
    for job in cluster.jobs.values():
        leave_class(cluster, job)
        job.belong(cluster.ledger.path[cluster.ledger.position[job.spec.project]])
        cluster.running_pods.belong(job)
        cluster.ledger.add_sharing(job.path, job.sharing)
        for group in job.pods:
            for pod in group:
                count(cluster, pod, 1)
        if job.started_s is not None:
            set_running(cluster, job, True)
        rank(cluster, job)
    cluster.static_version += 1


def topologies_set(cluster: Cluster, event: events.TopologiesSet) -> None:
    """The topologies are others."""
    cluster.topologies = {topology.name: topology for topology in event.topologies}
    cluster.static_version += 1

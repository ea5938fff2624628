"""Limits of persons: pending workloads beyond them are withheld from the engine."""

from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.person_admission import Person
from weir.state.reducers.accounting import recharged
from weir.state.reducers.pending_index import enqueue


def settle_limits(cluster: Cluster) -> None:
    """Withhold and admit the workloads of the persons that an event has changed."""
    admission = cluster.admission
    changed, admission.changed = admission.changed, {}
    touched: dict[Person, None] = {}
    for name, job in changed.items():
        is_there = cluster.jobs.get(name) is job
        is_bound = admission.count(job if is_there else None, name, touched)
        if is_there and not is_bound:
            _withhold(cluster, job, False)
    for person in touched:
        usage = admission.persons[person]
        before, usage.admitted = usage.admitted, usage.next_admitted()
        for name in {**before, **usage.admitted}:
            if name in usage.entries:
                _withhold(cluster, usage.entries[name].job, usage.is_withheld(name))
    for name, job in changed.items():
        if name in admission.person_of:
            _withhold(cluster, job, admission.persons[admission.person_of[name]].is_withheld(name))
    admission.forget_idle(touched)
    admission.changed.clear()  # withholding a workload changes no usage


def _withhold(cluster: Cluster, job: Job, withheld: bool) -> None:
    """Withhold a pending workload from the engine, or admit it."""
    if job.withheld == withheld:
        return
    with recharged(cluster, job):
        job.withheld = withheld
    enqueue(cluster, job)

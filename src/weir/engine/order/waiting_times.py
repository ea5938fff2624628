"""Waiting times: when pending workloads gain options by waiting alone."""

from collections.abc import Iterable

from weir.model.policy import Policy
from weir.state.cluster import Cluster


def patience_times_s(cluster: Cluster, policy: Policy, now_s: float) -> list[float]:
    """Return the times at which minimum run times and waits of patience end, after now."""
    pending = [of.members[0][2] for of in cluster.waiting.values()]
    times: list[float] = []
    if policy.reclaim_share_after:
        times += _first_end_s([job.waits_since_s for job in pending], policy.reclaim_share_after, now_s)
    if policy.topology.patience:
        gangs_s = [job.waits_since_s for job in pending if job.topology is not None]
        times += _first_end_s(gangs_s, policy.topology.patience, now_s)
    if policy.min_runtime.any and pending:
        for running in cluster.running.values():
            for job in running.values():
                if job.started_s is not None:
                    times.append(job.started_s + policy.min_runtime.of(job.type))
    return times


def _first_end_s(since_s: Iterable[float], patience_s: float, now_s: float) -> list[float]:
    """Return the first time after now at which a wait since one of these times reaches a patience."""
    ends_s = [wait_s + patience_s for wait_s in since_s if wait_s + patience_s > now_s]
    return [min(ends_s)] if ends_s else []

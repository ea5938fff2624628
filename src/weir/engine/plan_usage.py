"""Usage of a plan: the GPUs and pods by which it changes the usage of each project."""

from weir.engine.plan import Plan
from weir.engine.usage.quota_overlay import UsageOverlay
from weir.state.cluster import Cluster
from weir.state.shapes import GPU_ROW, PODS_ROW

_NO_CHANGE = [0, 0]


def assert_accounted(cluster: Cluster, overlay: UsageOverlay, plan: Plan) -> None:
    """Assert that a cycle charged its bindings and nominations, and released its evictions.

    The quota checks of the cycle read these sums. If one is wrong, the plan may exceed a limit. Sums of
    departments follow those of their projects.
    """
    if not overlay.charged and not plan.acts:
        return
    ledger, changes = cluster.ledger, _changes(cluster, plan)
    for queue in overlay.charged:
        if queue in changes or ledger.queues[queue].is_project:
            used, held = overlay.used[queue], ledger.allocated[queue]
            charged = [used[GPU_ROW] - held[GPU_ROW], used[PODS_ROW] - held[PODS_ROW]]
            planned = changes.pop(queue, _NO_CHANGE)
            assert charged == planned, (
                f"{ledger.queues[queue].name}: {charged} charged, {planned} in the plan"
            )
    assert all(change == _NO_CHANGE for change in changes.values()), (
        f"not charged, but in the plan: {changes}"
    )


def _changes(cluster: Cluster, plan: Plan) -> dict[int, list[int]]:
    """Return the change of each project by a plan: thousandths of GPUs, and pods."""
    changes: dict[int, list[int]] = {}
    jobs, node_at, device_memory = cluster.jobs, cluster.node_at, cluster.device_memory
    for places in (plan.binds, *[nominated.places for nominated in plan.nominations]):
        for place in places:
            key = place.pod
            job = jobs[key.workload]
            if key.workload in cluster.nominated and job.pods[key.group][key.index].nomination is not None:
                continue  # already charged when it was nominated
            shape, change = job.shapes[key.group], changes.setdefault(job.project, [0, 0])
            if shape.devices:
                change[0] += shape.charge_on(device_memory[node_at[place.node]])
            change[1] += 1
    for eviction in plan.evictions:
        key = eviction.pod
        job = jobs[key.workload]
        change = changes.setdefault(job.project, [0, 0])
        change[0] -= job.pods[key.group][key.index].charge_milli()
        change[1] -= 1
    return changes

"""The simplest engine that can be: first come, first served, first fit, gangs whole. It preempts nothing.

For tests of the world and the control loop: what they show doesn't depend on the real engine.
"""

from weir.engine.cache import EngineCache
from weir.engine.plan import Eviction, Plan
from weir.model.policy import Policy
from weir.model.reasons import EvictionCause, EvictionRule
from weir.model.workloads import WHOLE_MILLI
from weir.state.capacity_columns import CapacityColumns
from weir.state.cluster import Cluster
from weir.state.events import Placement, PodKey
from weir.state.jobs import Job
from weir.state.quota_usage import Amounts, QuotaUsage
from weir.state.reduce import usage_on
from weir.state.shapes import RequestShape


def first_fit(cluster: Cluster, policy: Policy, now_s: float, cache: EngineCache) -> Plan:
    """Place what fits, oldest first within each class; stop gangs that stay incomplete."""
    plan = Plan()
    capacity = cluster.free_capacity.copy()
    held = Held(cluster)
    for queued in sorted(cluster.waiting.values(), key=lambda queued: queued.members[0][:2]):
        for _, _, job in list(queued.members):
            places = _places(cluster, capacity, job, held)
            if places is None:
                break
            plan.binds += places
    bound = {place.pod.workload for place in plan.binds}
    for name, job in cluster.incomplete.items():
        if name in bound or job.below_since_s is None:
            continue
        ends_s = job.below_since_s + policy.gang_grace
        if now_s >= ends_s:
            cause = EvictionCause(EvictionRule.GANG_BROKEN, None, f"{name} stayed incomplete.")
            plan.evictions += [
                Eviction(PodKey(name, pod.group, pod.index), cause) for pod in job.running_pods()
            ]
        else:
            plan.wake_s = ends_s if plan.wake_s is None else min(plan.wake_s, ends_s)
    return plan


class Held:
    """Usage of the queues with the bindings of this plan."""

    def __init__(self, cluster: Cluster) -> None:
        self.ledger = cluster.ledger
        self.allocated = [list(line) for line in cluster.ledger.allocated]
        self.fixed = [list(line) for line in cluster.ledger.fixed]

    def add(self, job: Job, amounts: Amounts) -> bool:
        """Hold more, if limits and the quota of what can't be stopped allow it."""
        for queue in job.path:
            bounds = [(self.allocated[queue], [*self.ledger.limited[queue], *static(self.ledger, queue)])]
            if not job.spec.preemptible:
                bounds.append((self.fixed[queue], self.ledger.bounded[queue]))
            by_row = dict(amounts)
            if any(line[row] + by_row.get(row, 0) > most for line, rows in bounds for row, most in rows):
                return False
        for queue in job.path:
            for row, amount in amounts:
                self.allocated[queue][row] += amount
                self.fixed[queue][row] += amount if not job.spec.preemptible else 0
        return True

    def copy(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return a copy of the usage to restore."""
        return [list(line) for line in self.allocated], [list(line) for line in self.fixed]


def static(ledger: QuotaUsage, queue: int) -> list[tuple[int, int]]:
    """The rows in which a queue is never over its quota: those in which it has no weight."""
    return [(row, most) for row, most in ledger.bounded[queue] if ledger.weight[queue][row] == 0]


def _places(cluster: Cluster, capacity: CapacityColumns, job: Job, held: Held) -> list[Placement] | None:
    before = held.copy()
    places = _try(cluster, capacity, job, held)
    if places is None:
        held.allocated, held.fixed = before
    return places


def _try(cluster: Cluster, capacity: CapacityColumns, job: Job, held: Held) -> list[Placement] | None:
    places: list[Placement] = []
    trial = capacity.copy()
    lacks = job.lacks()
    for group, shape in enumerate(job.shapes):
        pending = job.pending_pods(group)
        for number, pod in enumerate(pending):
            placement = _first(cluster, trial, shape)
            if placement is None or not held.add(job, usage_on(cluster, shape, placement[0])):
                if number < lacks[group]:
                    return None
                break
            node, devices = placement
            trial.hold(node, shape, devices, cluster.device_memory[node])
            places.append(
                Placement(PodKey(job.spec.name, group, pod.index), cluster.node_names[node], devices)
            )
    capacity.free, capacity.share, capacity.memory = trial.free, trial.share, trial.memory
    return places


def _first(
    cluster: Cluster, capacity: CapacityColumns, shape: RequestShape
) -> tuple[int, tuple[int, ...]] | None:
    for node_index, node in enumerate(cluster.nodes):
        if node is None or any(capacity.free[row, node_index] < amount for row, amount in shape.needs):
            continue
        if not shape.devices:
            return node_index, ()
        need = WHOLE_MILLI if shape.whole else shape.share_on(cluster.device_memory[node_index])
        devices = [index for index in range(node.gpus) if capacity.share[node_index, index] >= need]
        if len(devices) >= shape.devices:
            return node_index, tuple(devices[: shape.devices])
    return None

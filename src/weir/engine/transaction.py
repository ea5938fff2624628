"""Transactions: capacity and accounting that begin, commit and roll back together.

Accounting covers the quota usage, the disruption budgets, the pods to be stopped and the workloads to be
started in one cycle. There are two transactions: one with the present capacity, one with the capacity after
all releases. They have the accounting in common.
"""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from weir.engine.placement.capacity import Capacity, CapacityTrial
from weir.engine.placement.pod_placer import NodePlacement
from weir.engine.protection.victim_protection import DisruptionAllowances
from weir.engine.usage.quota_overlay import QuotaOverlay
from weir.state.cluster import Cluster
from weir.state.jobs import Job, Pod
from weir.state.quota_usage import Amounts
from weir.state.reduce import usage_on


class Accounting:
    """Usage and budgets of one cycle with its planned and tried changes.

    `leaving` are the pods that the plan stops or moves. `coming` are the workloads that get capacity in the
    plan or have a nomination. They aren't victims before they run: otherwise a stopped gang would keep a pod.
    """

    def __init__(self, cluster: Cluster, overlay: QuotaOverlay, disruptions: DisruptionAllowances) -> None:
        self.overlay = overlay
        self.disruptions = disruptions
        self.leaving: set[Pod] = set()
        self.coming: set[str] = set()
        self._cluster = cluster
        # Undo log: pods added to (True) or removed from `leaving`, and names added to `coming`
        self._log: list[tuple[Pod, bool] | str] = []

    def start(self, placements: Sequence[NodePlacement], sign: int = 1) -> None:
        """Charge the usage of placed pods (sign -1: release it)."""
        for pod, node, _ in placements:
            self.charge_request(pod.job, usage_on(self._cluster, pod.shape, node), sign)

    def charge_request(self, job: Job, request: Amounts, sign: int = 1) -> None:
        """Charge a request of a workload (sign -1: release it)."""
        self.overlay.add(job.path, request, not job.preemptible, sign)

    def charge(self, pods: Iterable[Pod]) -> None:
        """Charge the usage of running pods."""
        for pod in pods:
            self.charge_request(pod.job, pod.amounts)

    def release(self, pods: Iterable[Pod]) -> None:
        """Release the usage of running pods."""
        for pod in pods:
            self.charge_request(pod.job, pod.amounts, -1)

    def evict(self, pods: Sequence[Pod]) -> None:
        """Release the usage of running pods and charge them to their budgets, to test the effect."""
        self.release(pods)
        if self.disruptions.any:
            self.disruptions.use(pods)

    def stop(self, pods: Sequence[Pod]) -> None:
        """Release the usage of running pods, mark them as leaving, and charge them to their budgets."""
        self.evict(pods)
        for pod in pods:
            if pod not in self.leaving:
                self._log.append((pod, True))
                self.leaving.add(pod)

    def resume(self, pods: Sequence[Pod]) -> None:
        """Undo `stop` for these pods."""
        self.charge(pods)
        self.disruptions.use(pods, -1)
        for pod in pods:
            if pod in self.leaving:
                self._log.append((pod, False))
                self.leaving.remove(pod)

    def expect(self, names: Iterable[str]) -> None:
        """Mark workloads as getting capacity in this plan, so that they aren't victims."""
        for name in names:
            if name not in self.coming:
                self._log.append(name)
                self.coming.add(name)

    def position(self) -> tuple[int, int, int]:
        """Return the position in the logs to roll back to."""
        return len(self.overlay.log), len(self.disruptions.log), len(self._log)

    def rollback(self, position: tuple[int, int, int]) -> None:
        """Restore the accounting at a position of the logs."""
        usage_length, disruptions_length, own_length = position
        self.overlay.rollback(usage_length)
        self.disruptions.rollback(disruptions_length)
        while len(self._log) > own_length:
            entry = self._log.pop()
            if isinstance(entry, str):
                self.coming.remove(entry)
            elif entry[1]:
                self.leaving.remove(entry[0])
            else:
                self.leaving.add(entry[0])


class Trial(CapacityTrial):
    """Trial of a transaction: `with transaction.trial() as trial`; it rolls back unless committed."""

    __slots__ = ("_accounting", "_position")

    def __init__(self, capacity: Capacity, accounting: Accounting) -> None:
        super().__init__(capacity)
        self._accounting = accounting
        self._position = (0, 0, 0)

    def __enter__(self) -> Self:
        self._position = self._accounting.position()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        rolls_back = self._open
        super().__exit__(kind, error, trace)
        if rolls_back:
            self._accounting.rollback(self._position)


class Transaction:
    """Capacity with the accounting of the cycle."""

    def __init__(self, capacity: Capacity, accounting: Accounting) -> None:
        self.capacity = capacity
        self.accounting = accounting

    def trial(self) -> Trial:
        """Return a trial; trials nest."""
        return Trial(self.capacity, self.accounting)

    def stop(self, pods: Sequence[Pod]) -> None:
        """Stop running pods: release their capacity and account for it."""
        self.accounting.stop(pods)
        self.release_capacity(pods)

    def release_capacity(self, pods: Iterable[Pod]) -> None:
        """Release the capacity of running pods, but not their usage."""
        for pod in pods:
            self.capacity.release(pod.node, pod.shape, pod.devices)

    def cancel(self, placements: Sequence[NodePlacement]) -> None:
        """Withdraw placements: release their capacity and usage."""
        self.accounting.start(placements, -1)
        for placement in placements:
            self.capacity.release(placement.node, placement.pod.shape, placement.devices)

"""Quota overlay: usage of each queue in the cycle with its quota and share, and the order among queues."""

from collections.abc import Callable, Sequence

from weir.engine.usage.fair_share import Excess, FairShares, FairShareTree
from weir.model.policy import Policy
from weir.model.resources import UNLIMITED
from weir.state.cluster import Cluster
from weir.state.quota_usage import Amounts
from weir.state.shapes import GPU_ROW
from weir.state.versions import Versions

INFINITE = float("inf")


class UsageOverlay:
    """Usage and fair shares of one cycle: `used` and `fixed` (its non-preemptible part), queue by row.

    A row is the state's own until an amount is charged to its queue; then it is copied.

    Args:
        cluster: the state.
        policy: the configuration.
        usage: each queue's decayed share of the capacity it used.
        tree: the fair shares of an earlier cycle, to be updated.
        excess: returns the requests of pending workloads that no node could ever take.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        usage: Sequence[float],
        tree: FairShareTree | None = None,
        excess: Callable[[], Excess] = dict,
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._usage = usage
        self._tree = FairShareTree(cluster.ledger) if tree is None else tree
        self._share: FairShares | None = None
        self._excess = excess
        self.ledger = cluster.ledger
        self.used = list(cluster.ledger.allocated)
        self.fixed = list(cluster.ledger.fixed)
        self.charged: set[int] = set()  # queues with a charge in this overlay: their rows are copies
        self.log: list[tuple[tuple[int, ...], Amounts, bool, int]] = []  # charges (1) and releases (-1)
        self._totals: list[int] = []  # of all nodes, once shares are known
        self._scaled: dict[tuple[int, int], bool] = {}
        self._dominant: dict[int, tuple[float, int]] = {}  # dominant share by queue, until its usage changes

    @property
    def share(self) -> FairShares:
        """Return the fair shares; they don't change within a cycle."""
        if self._share is None:
            usage_k, self._totals = self._policy.usage.k, self._cluster.totals()
            self._share = self._tree.update(self._totals, self._usage, usage_k, self._excess())
        return self._share

    def share_versions(self) -> Versions:
        """Return how often the fair share of each queue has changed."""
        assert self.share is not None, "computed now, if it wasn't yet"
        return self._tree.versions

    def is_scaled(self, parent: int, row: int) -> bool:
        """Return True if the guarantees of a queue's children (-1: of the top) exceed the capacity."""
        is_scaled = self._scaled.get((parent, row))
        if is_scaled is None:
            ledger, share, demand = self.ledger, self.share, self._tree.demand
            siblings = ledger.top if parent < 0 else ledger.children[parent]
            have = self._totals[row] if parent < 0 else share[parent][row]
            claims = sum(
                min(ledger.quota[queue][row], demand[queue][row])
                for queue in siblings
                if ledger.quota[queue][row] < UNLIMITED
            )
            is_scaled = self._scaled[(parent, row)] = claims > have + 1e-6
        return is_scaled

    def rollback(self, position: int) -> None:
        """Restore the usage at a position of the log."""
        while len(self.log) > position:
            path, amounts, fixed, sign = self.log[-1]
            self.add(path, amounts, fixed, -sign)
            del self.log[-2:]

    def add(self, path: tuple[int, ...], amounts: Amounts, fixed: bool, sign: int) -> None:
        """Charge amounts to the queues of a path (sign -1: release them).

        Only `Accounting` calls this, which keeps capacity and usage consistent.
        """
        for queue in path:
            self._dominant.pop(queue, None)
            if queue not in self.charged:
                self.charged.add(queue)
                self.used[queue], self.fixed[queue] = self.used[queue].copy(), self.fixed[queue].copy()
            line = self.used[queue]
            for row, amount in amounts:
                line[row] += sign * amount
            if fixed:
                line = self.fixed[queue]
                for row, amount in amounts:
                    line[row] += sign * amount
        self.log.append((path, amounts, fixed, sign))

    def in_quota(self, queue: int, request: Amounts) -> bool:
        """Return True if the queue's quota covers the request as well."""
        bounded = self.ledger.bounded[queue]
        if bounded:
            used = self.used[queue]
            for row, amount in request:
                if amount and used[row] + amount > self.ledger.quota[queue][row]:
                    return False
        return True

    def in_share(self, queue: int, request: Amounts) -> bool:
        """Return True if the queue's fair share covers the request as well."""
        used, share = self.used[queue], self.share[queue]
        for row, amount in request:
            if amount and used[row] + amount > share[row] + 1e-6:
                return False
        return True

    def covers(self, path: Sequence[int], request: Amounts) -> bool:
        """Return True if the quotas of all queues on the path cover the request."""
        for queue in path:
            if not self.in_quota(queue, request):
                return False
        return True

    def over_share(self, queue: int) -> bool:
        """Return True if a queue exceeds its fair share of a resource with a finite quota."""
        used, share = self.used[queue], self.share[queue]
        for row, _ in self.ledger.bounded[queue]:
            if used[row] > share[row] + 1e-6:
                return True
        return False

    def over_any_quota(self, path: Sequence[int]) -> bool:
        """Return True if a queue of a path exceeds its quota of any resource."""
        for queue in path:
            if not self.within_quota(queue):
                return True
        return False

    def fills_quota(self, queue: int, request: Amounts) -> bool:
        """Return True if a queue uses all its quota of a requested resource."""
        used, quota = self.used[queue], self.ledger.quota[queue]
        return any(amount and used[row] >= quota[row] for row, amount in request)

    def within_quota(self, queue: int) -> bool:
        """Return True if a queue is within its quota of every resource."""
        used = self.used[queue]
        for row, most in self.ledger.bounded[queue]:
            if used[row] > most:
                return False
        return True


def usage_of(cluster: Cluster, policy: Policy, now_s: float) -> list[float]:
    """Return each queue's decayed share of the devices, from 0 to 1; departments sum their projects."""
    ledger, rules = cluster.ledger, policy.usage
    used = [0.0] * len(ledger.queues)
    total = cluster.total(GPU_ROW) if rules.k else 0
    if total:
        projects = [project for project, queue in enumerate(ledger.queues) if queue.is_project]
        names = [ledger.queues[project].name for project in projects]
        decayed = cluster.usage.decayed(names, now_s, rules.half_life, rules.window)
        for project, milli in zip(projects, decayed, strict=True):
            for queue in ledger.path[project]:
                used[queue] += milli / total
    return used


class QuotaOverlay(UsageOverlay):
    """Sort keys by the usage of one cycle."""

    def dominant(self, queue: int, request: Amounts = ()) -> tuple[float, int]:
        """Return the largest (allocated + request) ÷ share; for a share of 0 infinite and the amount."""
        without = self._dominant.get(queue)
        if without is None:
            if request:
                return self._largest(queue, request)
            without = self._dominant[queue] = self._largest(queue, ())
        return self._dominant_with(queue, request, without) if request else without

    def _largest(self, queue: int, request: Amounts) -> tuple[float, int]:
        share = self.share[queue]
        used = self.used[queue]
        if request:
            used = used.copy()
            for row, amount in request:
                used[row] += amount
        largest = 0.0
        for amount, most in zip(used, share, strict=True):
            if amount > 0:
                if most <= 0:
                    return INFINITE, amount
                ratio = amount / most
                if ratio > largest:
                    largest = ratio
        return largest, 0

    def key(self, queue: int, request: Amounts = ()) -> tuple[object, ...]:
        """Return the sort key among siblings, smaller first; without a request, by present usage alone."""
        without = self.dominant(queue)
        largest, beside = self._dominant_with(queue, request, without)
        created_s, position = self.ledger.age[queue]
        return (
            self.over_share(queue),
            not self.in_quota(queue, request) if request else not self.within_quota(queue),
            -self.ledger.priority[queue],
            largest,
            beside,
            *without,
            created_s,
            position,
        )

    def _dominant_with(self, queue: int, request: Amounts, without: tuple[float, int]) -> tuple[float, int]:
        """Return `dominant` for a larger request, from the value without it: only its resources change."""
        if without[0] == INFINITE:
            return self._largest(queue, request)
        share, used = self.share[queue], self.used[queue]
        largest = without[0]
        for row, amount in request:
            if amount:
                if share[row] <= 0:
                    return self._largest(queue, request)
                ratio = (used[row] + amount) / share[row]
                if ratio > largest:
                    largest = ratio
        return largest, 0

    def giving_key(self, queue: int) -> tuple[object, ...]:
        """Return the sort key by which queues lose capacity, by present usage; the smallest loses first."""
        dominant, beside = self.dominant(queue)
        created_s, position = self.ledger.age[queue]
        return (
            not self.over_share(queue),
            self.within_quota(queue),
            self.ledger.priority[queue],
            -dominant,
            -beside,
            -created_s,
            -position,
        )

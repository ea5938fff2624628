"""Fair shares of a quota tree: the amount that each queue may hold, from the root down.

Guarantees come first, then the surplus by weighted max-min (water filling, after Bertsekas and Gallager),
each by priority. Among siblings that costs O(n log n) for the n that want more than their guarantee.
Demands are summed from the projects up. From one update to the next only queues whose usage or requests
changed are computed again, with their siblings where a resource is short.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add
from types import MappingProxyType

from weir.model.resources import UNLIMITED
from weir.model.workloads import WHOLE_MILLI
from weir.state.cluster import Cluster
from weir.state.jobs import EquivalenceClass
from weir.state.quota_usage import QuotaUsage
from weir.state.shapes import GPU_ROW
from weir.state.versions import changed_since, versions_of

_TOP = -1
_UNKNOWN = -1
FairShares = list[list[float]]
"""Queue by row, in the units of the rows."""
Excess = Mapping[int, Mapping[int, int]]
"""Requests of workloads that no node could ever take, by the position of their project and by row."""
NO_EXCESS: Excess = MappingProxyType({})


@dataclass(slots=True)
class Siblings:
    """Queues that divide their parent's amounts; `tiers` are positions among them, highest priority first.

    `usage` is each queue's decayed share of the capacity it used, 0 to 1. `usage_k` is how strongly that
    lowers its claim on the surplus; 0 = not at all.
    """

    ledger: QuotaUsage
    queues: list[int]
    tiers: list[list[int]]
    usage: Sequence[float]
    usage_k: float

    def want_unentitled(self, row: int, wanted: Sequence[int]) -> bool:
        """Return True if a queue with weight 0 wants more than its quota."""
        ledger = self.ledger
        for queue, want in zip(self.queues, wanted, strict=True):
            if want > ledger.quota[queue][row] and ledger.weight[queue][row] <= 0:
                return True
        return False

    def divide(self, row: int, have: float, wanted: Sequence[int]) -> list[float]:
        """Divide the parent's amount of a resource by the siblings' demands."""
        given = _guarantees(self, row, have, wanted)
        left = max(0.0, have - sum(given))
        for tier in self.tiers:
            if left <= 0:
                break
            short = [index for index in tier if wanted[index] > given[index]]
            missing = [wanted[index] - given[index] for index in short]
            risen = water_fill(left, missing, self._weights(tier, short, row))
            if row == GPU_ROW and not self.share_devices(tier):
                risen = _rounded(risen, [self.ledger.age[self.queues[index]] for index in short])
            for index, added in zip(short, risen, strict=True):
                given[index] += added
            left -= sum(risen)
        return given

    def _weights(self, tier: Sequence[int], short: Sequence[int], row: int) -> list[float]:
        """Return the weights of the siblings of a tier that want more than their guarantee."""
        weight = self.ledger.weight
        weights = [weight[self.queues[index]][row] for index in short]
        if not self.usage_k:
            return weights
        total = sum([weight[self.queues[index]][row] for index in tier]) or 1.0
        normal = [value / total for value in weights]
        return [
            max(0.0, share + self.usage_k * (share - self.usage[self.queues[index]])) if share else 0.0
            for share, index in zip(normal, short, strict=True)
        ]

    def share_devices(self, tier: Sequence[int]) -> bool:
        """Return True if a queue of the tier requests parts of devices."""
        sharing, queues = self.ledger.sharing, self.queues
        return sum([sharing[queues[index]] for index in tier]) > 0


def _guarantees(siblings: Siblings, row: int, have: float, wanted: Sequence[int]) -> list[float]:
    """Return min(quota, demand), scaled down by priority and quota if capacity is short."""
    quota, queues = siblings.ledger.quota, siblings.queues
    given = [0.0] * len(wanted)
    left = have
    for index, queue in enumerate(queues):
        if quota[queue][row] >= UNLIMITED:
            given[index] = min(float(wanted[index]), have)
            left -= given[index]
    left = max(0.0, left)
    for tier in siblings.tiers:
        finite = [index for index in tier if quota[queues[index]][row] < UNLIMITED]
        claims = [float(min(quota[queues[index]][row], wanted[index])) for index in finite]
        claimed = sum(claims)
        if claimed > left:
            claims = water_fill(left, claims, [float(quota[queues[index]][row]) for index in finite])
            if row == GPU_ROW and not siblings.share_devices(finite):
                claims = _rounded(claims, [siblings.ledger.age[queues[index]] for index in finite])
            claimed = sum(claims)
        for index, claim in zip(finite, claims, strict=True):
            given[index] = claim
        left = max(0.0, left - claimed)
    return given


def water_fill(amount: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Divide `amount`: each share rises in proportion to its weight until its demand is met.

    A share is complete at the level demand ÷ weight. In this order each gets its whole demand, until the rest
    is divided at one common level. Weight 0 gets nothing.
    """
    given = [0.0] * len(wanted)
    levels = [(wanted[index] / weight, index) for index, weight in enumerate(weights) if weight > 0]
    levels.sort()
    weight_left = sum([weights[index] for _, index in levels])
    for place, (level, index) in enumerate(levels):
        if level * weight_left > amount:
            per_weight = amount / weight_left
            for _, rest in levels[place:]:
                given[rest] = per_weight * weights[rest]
            break
        given[index] = wanted[index]
        amount -= wanted[index]
        weight_left -= weights[index]
    return given


def _rounded(exact: Sequence[float], ages: Sequence[tuple[float, int]]) -> list[float]:
    """Round to whole devices by largest remainder, then older queue; the sum doesn't grow."""
    parts = [amount % WHOLE_MILLI for amount in exact]
    if not sum(parts):
        return list(exact)
    floors = [amount // WHOLE_MILLI for amount in exact]
    # A remainder within a millionth of a device is a rounding error.
    spare = int((sum(exact) + 1e-3) // WHOLE_MILLI - sum(floors))
    # Few distinct values: most amounts are whole or equal
    near = {part: -round(part, 3) for part in set(parts)}
    largest = sorted(
        [(near[part], age, index) for index, (part, age) in enumerate(zip(parts, ages, strict=True))]
    )
    for _, _, index in largest[:spare]:
        floors[index] += 1
    return [floor * WHOLE_MILLI for floor in floors]


def excess_demand(cluster: Cluster, could_run: Callable[[EquivalenceClass], bool]) -> Excess:
    """Return the requests of pending workloads that don't fit the nodes even if all are idle.

    If they counted as demand, their fair share would stay unused, and siblings couldn't borrow it.
    """
    excess: dict[int, dict[int, int]] = {}
    for queued in cluster.waiting.values():
        job = queued.first
        if could_run(queued) or job.is_running:  # a part of a running one does fit
            continue
        line = excess.setdefault(queued.project, {})
        for request, pending in zip(job.requests, job.pending, strict=True):
            for row, amount in request:
                line[row] = line.get(row, 0) + amount * pending * len(queued.members)
    return excess


class FairShareTree:
    """Demand and fair share of every queue of one quota tree.

    `demand` is min(limit, allocated + requested), of a parent the sum of its children's within its limit.
    """

    def __init__(self, ledger: QuotaUsage, *, filled: bool = True) -> None:
        """Create a tree; with rows for the queues only if `filled`."""
        rows, queues = len(ledger.weightless), range(len(ledger.queues) if filled else 0)
        self._ledger = ledger
        self._quota = ledger.quota  # the list object itself: a change of rows replaces it
        self._touched = versions_of(len(queues), _UNKNOWN)
        self._excess: Excess = NO_EXCESS
        self.demand = [[0] * rows for _ in queues]
        self.share: FairShares = [[0.0] * rows for _ in queues]
        self.versions = versions_of(len(queues))  # number of changes of each queue's share
        # Sums of the children's demands; the last entry is the top's
        self._sums = [[0] * rows for _ in (*queues, _TOP)]
        self._have: dict[int, list[float]] = {}  # amounts that each parent divided the last time
        # Rows in which a parent's share is below the demand
        self._short = [[False] * rows for _ in (*queues, _TOP)]

    def is_of(self, ledger: QuotaUsage) -> bool:
        """Return True if the tree belongs to these queues with their present rows."""
        return self._ledger is ledger and self._quota is ledger.quota

    def branch(self, ledger: QuotaUsage) -> "FairShareTree":
        """Return a copy for a branch of the quota usage; updates replace changed rows."""
        copy = FairShareTree(ledger, filled=False)
        copy._touched, copy._excess = self._touched, self._excess
        copy.demand, copy.versions, copy.share = self.demand.copy(), self.versions[:], self.share.copy()
        copy._sums, copy._have, copy._short = self._sums.copy(), self._have.copy(), self._short.copy()
        return copy

    def _update_demand(self, excess: Excess) -> dict[int, list[int]]:
        """Compute the demand of changed queues and return them by parent."""
        ledger = self._ledger
        changed = set(changed_since(ledger.touched, self._touched))
        self._touched = ledger.touched[:]
        if excess or self._excess:
            for project in {*excess, *self._excess}:
                if excess.get(project) != self._excess.get(project):
                    changed.update(ledger.path[project])
            self._excess = excess
        by_parent: dict[int, list[int]] = {}
        for queue in sorted(changed, reverse=True):  # children come after their parents
            line, old = self._demand_of(queue), self.demand[queue]
            parent = ledger.parent[queue]
            siblings = by_parent.get(parent)
            if siblings is None:
                siblings = by_parent[parent] = []
                self._sums[parent] = self._sums[parent].copy()
            siblings.append(queue)
            if line != old:
                self.demand[queue] = line
                sums = self._sums[parent]
                for row, amount in enumerate(line):
                    sums[row] += amount - old[row]
        return by_parent

    def _demand_of(self, queue: int) -> list[int]:
        ledger = self._ledger
        if ledger.children[queue]:
            line = self._sums[queue].copy()
        else:
            line = list(map(add, ledger.allocated[queue], ledger.asked[queue]))
            for row, amount in self._excess.get(queue, {}).items():
                line[row] -= amount
        for row, most in ledger.limited[queue]:
            line[row] = min(line[row], most)
        return line

    def update(
        self, total: Sequence[int], usage: Sequence[float], usage_k: float, excess: Excess = NO_EXCESS
    ) -> FairShares:
        """Return the fair share of every queue.

        Args:
            total: what all nodes together have, by row.
            usage: each queue's decayed share of the capacity it used, 0 to 1.
            usage_k: how strongly use in the past lowers the claim on the surplus; 0 = not at all.
            excess: requests of each project's workloads that no node could ever take; they aren't demand.
        """
        ledger = self._ledger
        by_parent = self._update_demand(excess)
        if usage_k:
            self._have.clear()  # past usage, which changes with time, affects the division
        top = Siblings(ledger, ledger.top, ledger.top_tiers, usage, usage_k)
        self._divide(_TOP, top, list(map(float, total)), by_parent.get(_TOP, ()))
        for queue in ledger.parents:
            siblings = Siblings(ledger, ledger.children[queue], ledger.tiers[queue], usage, usage_k)
            self._divide(queue, siblings, self.share[queue], by_parent.get(queue, ()))
        return self.share

    def _divide(self, parent: int, siblings: Siblings, have: list[float], changed: Iterable[int]) -> None:
        """Divide a parent's amounts among its children, for each resource that is short."""
        ledger, queues, demand, share = self._ledger, siblings.queues, self.demand, self.share
        had, sums = self._have.get(parent), self._sums[parent]
        if not queues or (had == have and not changed):
            return
        self._have[parent] = have.copy()
        short = self._short[parent] = self._short[parent].copy()
        changed = queues if had is None else changed
        for queue in changed:
            share[queue] = list(map(float, demand[queue]))  # enough for all: each gets its demand
            self.versions[queue] += 1
        for row, amount in enumerate(have):
            weightless = ledger.weightless[row]
            if sums[row] <= amount and not weightless:
                if short[row]:
                    short[row] = False
                    self._set(row, queues, [float(demand[queue][row]) for queue in queues])
                continue
            wanted = [demand[queue][row] for queue in queues]
            if sums[row] > amount or siblings.want_unentitled(row, wanted):
                given = siblings.divide(row, amount, wanted)
            else:
                given = list(map(float, wanted))
            short[row] = True
            self._set(row, queues, given)

    def _set(self, row: int, queues: Iterable[int], shares: Iterable[float]) -> None:
        """Set the shares of a resource that have changed."""
        share, versions = self.share, self.versions
        for queue, new_share in zip(queues, shares, strict=True):
            if share[queue][row] != new_share:
                share[queue] = share[queue].copy()
                share[queue][row] = new_share
                versions[queue] += 1

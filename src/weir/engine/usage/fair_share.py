"""Fair shares among siblings: how queues of one parent divide one resource.

Guarantees come first, then the surplus by weighted max-min (water filling, after Bertsekas and Gallager),
each by priority. Cost: O(n log n) for the n siblings that want more than their guarantee.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from weir.model.resources import UNLIMITED
from weir.model.workloads import WHOLE_MILLI
from weir.state.quota_usage import QuotaUsage
from weir.state.shapes import GPU_ROW


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
            short = [at for at in tier if wanted[at] > given[at]]
            missing = [wanted[at] - given[at] for at in short]
            risen = water_fill(left, missing, self._weights(tier, short, row))
            if row == GPU_ROW and not self.share_devices(tier):
                risen = _rounded(risen, self.ages(short))
            for at, more in zip(short, risen, strict=True):
                given[at] += more
            left -= sum(risen)
        return given

    def _weights(self, tier: Sequence[int], short: Sequence[int], row: int) -> list[float]:
        """Return the weights of the siblings of a tier that want more than their guarantee."""
        weight = self.ledger.weight
        weights = [weight[self.queues[at]][row] for at in short]
        if not self.usage_k:
            return weights
        total = sum([weight[self.queues[at]][row] for at in tier]) or 1.0
        normal = [each / total for each in weights]
        return [
            max(0.0, share + self.usage_k * (share - self.usage[self.queues[at]])) if share else 0.0
            for share, at in zip(normal, short, strict=True)
        ]

    def share_devices(self, tier: Sequence[int]) -> bool:
        """Return True if a queue of the tier requests parts of devices."""
        sharing, queues = self.ledger.sharing, self.queues
        return sum([sharing[queues[at]] for at in tier]) > 0

    def ages(self, some: Sequence[int]) -> list[tuple[float, int]]:
        """Return the ages of some siblings, for ties."""
        return [self.ledger.age[self.queues[at]] for at in some]


def _guarantees(siblings: Siblings, row: int, have: float, wanted: Sequence[int]) -> list[float]:
    """Return min(quota, demand), scaled down by priority and quota if capacity is short."""
    quota, queues = siblings.ledger.quota, siblings.queues
    given = [0.0] * len(wanted)
    left = have
    for at, queue in enumerate(queues):
        if quota[queue][row] >= UNLIMITED:
            given[at] = min(float(wanted[at]), have)
            left -= given[at]
    left = max(0.0, left)
    for tier in siblings.tiers:
        finite = [at for at in tier if quota[queues[at]][row] < UNLIMITED]
        claims = [float(min(quota[queues[at]][row], wanted[at])) for at in finite]
        claimed = sum(claims)
        if claimed > left:
            claims = water_fill(left, claims, [float(quota[queues[at]][row]) for at in finite])
            if row == GPU_ROW and not siblings.share_devices(finite):
                claims = _rounded(claims, siblings.ages(finite))
            claimed = sum(claims)
        for at, claim in zip(finite, claims, strict=True):
            given[at] = claim
        left = max(0.0, left - claimed)
    return given


def water_fill(amount: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Divide `amount`: each share rises in proportion to its weight until its demand is met.

    The level at which one is satisfied is wanted ÷ weight. In that order each either gets all it
    wants or the rest is divided at one level. Weight 0 gets nothing.
    """
    given = [0.0] * len(wanted)
    levels = [(wanted[at] / weight, at) for at, weight in enumerate(weights) if weight > 0]
    levels.sort()
    weight_left = sum([weights[at] for _, at in levels])
    for place, (level, at) in enumerate(levels):
        if level * weight_left > amount:
            each = amount / weight_left
            for _, rest in levels[place:]:
                given[rest] = each * weights[rest]
            break
        given[at] = wanted[at]
        amount -= wanted[at]
        weight_left -= weights[at]
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
    largest = sorted([(near[part], age, at) for at, (part, age) in enumerate(zip(parts, ages, strict=True))])
    for _, _, at in largest[:spare]:
        floors[at] += 1
    return [floor * WHOLE_MILLI for floor in floors]

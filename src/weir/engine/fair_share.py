"""Fair shares: the amount that each queue may hold, from the root down, resource by resource.

A parent's share is what its children divide: guarantees first, then the surplus by weighted max-min
(water filling, after Bertsekas and Gallager), each by priority. Cost: O(Q log Q) a level.
"""

from collections.abc import Sequence
from operator import add
from types import MappingProxyType

from weir.engine.never_runs import Excess
from weir.model.resources import UNLIMITED
from weir.model.workloads import WHOLE_MILLI
from weir.state.quota_usage import QuotaUsage
from weir.state.shapes import GPU_ROW

_NONE: Excess = MappingProxyType({})
FairShares = list[list[float]]
"""Queue by row, in the units of the rows."""


def demands(ledger: QuotaUsage, excess: Excess = _NONE) -> list[list[int]]:
    """Return the demand of each queue: min(limit, allocated + requested); of a parent its children's.

    `excess` is what workloads of a project ask for that no node could ever take: it is no demand.
    """
    both = zip(ledger.allocated, ledger.asked, strict=True)
    result = [list(map(add, held, asked)) for held, asked in both]
    for project, line in excess.items():
        for row, amount in line.items():
            result[project][row] -= amount
    for queue in reversed(range(len(result))):
        children = ledger.children[queue]
        if children:
            lines = [result[child] for child in children]
            result[queue] = [sum(column) for column in zip(*lines, strict=True)]
        for row, most in ledger.limited[queue]:
            result[queue][row] = min(result[queue][row], most)
    return result


def fair_shares(
    ledger: QuotaUsage,
    total: Sequence[int],
    usage: Sequence[float],
    usage_k: float,
    excess: Excess = _NONE,
) -> FairShares:
    """Return the fair share of every queue.

    Args:
        ledger: the quota tree and what is held and asked for.
        total: what all nodes together have, by row.
        usage: each queue's decayed share of the capacity it used, 0 to 1.
        usage_k: how strongly use in the past lowers the claim on the surplus; 0 = not at all.
        excess: what workloads of each project ask for that no node could ever take.
    """
    demand = demands(ledger, excess)
    result: FairShares = [[] for _ in ledger.queues]
    have = [float(amount) for amount in total]
    _divide(_Siblings(ledger, ledger.top, ledger.top_tiers, usage, usage_k), have, demand, result)
    for queue, children in enumerate(ledger.children):
        if children:
            siblings = _Siblings(ledger, children, ledger.tiers[queue], usage, usage_k)
            _divide(siblings, result[queue], demand, result)
    return result


class _Siblings:
    """Queues that divide what their parent has; `tiers` are positions among them, highest priority first."""

    __slots__ = ("ledger", "queues", "tiers", "usage", "usage_k")

    def __init__(
        self,
        ledger: QuotaUsage,
        queues: list[int],
        tiers: list[list[int]],
        usage: Sequence[float],
        usage_k: float,
    ) -> None:
        self.ledger = ledger
        self.queues = queues
        self.tiers = tiers
        self.usage = usage
        self.usage_k = usage_k

    def rounded(self, row: int, tier: Sequence[int], exact: list[float]) -> list[float]:
        """Round what a tier gets to exclusive devices, if it requests nothing else."""
        if row != GPU_ROW:
            return exact
        ledger, queues = self.ledger, [self.queues[at] for at in tier]
        if sum([ledger.sharing[queue] for queue in queues]):
            return exact
        return _rounded(exact, [ledger.age[queue] for queue in queues])


def _divide(
    siblings: _Siblings, have: Sequence[float], demand: Sequence[Sequence[int]], result: FairShares
) -> None:
    ledger, queues = siblings.ledger, siblings.queues
    lines = [demand[queue] for queue in queues]
    for queue, line in zip(queues, lines, strict=True):
        result[queue] = list(map(float, line))  # all it wants, where there is enough
    by_row = list(zip(*lines, strict=True))
    for row, amount in enumerate(have if lines else ()):
        wanted = by_row[row]
        if sum(wanted) > amount or (
            ledger.weightless[row] and _wants_unentitled(ledger, queues, row, wanted)
        ):
            given = _divide_row(siblings, row, amount, wanted)
            for queue, share in zip(queues, given, strict=True):
                result[queue][row] = share


def _wants_unentitled(ledger: QuotaUsage, siblings: Sequence[int], row: int, wanted: Sequence[int]) -> bool:
    """Return True if a queue with weight 0 wants more than its quota."""
    for queue, want in zip(siblings, wanted, strict=True):
        if want > ledger.quota[queue][row] and ledger.weight[queue][row] <= 0:
            return True
    return False


def _divide_row(siblings: _Siblings, row: int, have: float, wanted: Sequence[int]) -> list[float]:
    given = _guarantees(siblings, row, have, wanted)
    left = max(0.0, have - sum(given))
    for tier in siblings.tiers:
        if left <= 0:
            break
        missing = [max(0.0, wanted[at] - given[at]) for at in tier]
        risen = siblings.rounded(row, tier, water_fill(left, missing, _weights(siblings, tier, row)))
        for at, more in zip(tier, risen, strict=True):
            given[at] += more
        left -= sum(risen)
    return given


def _guarantees(siblings: _Siblings, row: int, have: float, wanted: Sequence[int]) -> list[float]:
    """Return min(quota, demand), scaled down by priority and quota if capacity is short."""
    given = [0.0] * len(wanted)
    quotas = [siblings.ledger.quota[queue][row] for queue in siblings.queues]
    left = have
    for at, quota in enumerate(quotas):
        if quota >= UNLIMITED:
            given[at] = min(float(wanted[at]), have)
            left -= given[at]
    left = max(0.0, left)
    for tier in siblings.tiers:
        finite = [at for at in tier if quotas[at] < UNLIMITED]
        claims = [float(min(quotas[at], wanted[at])) for at in finite]
        if sum(claims) > left:
            claims = water_fill(left, claims, [float(quotas[at]) for at in finite])
            claims = siblings.rounded(row, finite, claims)
        for at, claim in zip(finite, claims, strict=True):
            given[at] = claim
        left = max(0.0, left - sum(claims))
    return given


def _weights(siblings: _Siblings, tier: Sequence[int], row: int) -> list[float]:
    queues, usage_k = [siblings.queues[at] for at in tier], siblings.usage_k
    weights = [siblings.ledger.weight[queue][row] for queue in queues]
    if not usage_k:
        return weights
    total = sum(weights) or 1.0
    normal = [weight / total for weight in weights]
    return [
        max(0.0, share + usage_k * (share - siblings.usage[queue])) if share else 0.0
        for share, queue in zip(normal, queues, strict=True)
    ]


def water_fill(amount: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Divide `amount`: each rises in proportion to its weight until it has what it wants.

    The level at which one is satisfied is wanted ÷ weight; in that order each either gets all it
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
    # A remainder within a millionth of a device of the next whole is arithmetic, not a claim.
    spare = int((sum(exact) + 1e-3) // WHOLE_MILLI - sum(floors))
    near = {part: -round(part, 3) for part in set(parts)}  # few: most are whole, or at one level
    largest = sorted([(near[part], age, at) for at, (part, age) in enumerate(zip(parts, ages, strict=True))])
    for _, _, at in largest[:spare]:
        floors[at] += 1
    return [floor * WHOLE_MILLI for floor in floors]

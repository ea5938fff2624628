"""Fair shares: what each queue may hold, from the root down, resource by resource.

A parent's share is what its children divide: guarantees first, then the surplus by weighted max-min
(water filling, after Bertsekas and Gallager), each by priority. Cost: O(Q log Q) a level.
"""

from collections.abc import Sequence
from operator import add

from weir.cluster.ledger import Ledger
from weir.cluster.shapes import GPU_ROW
from weir.model.resources import UNLIMITED
from weir.model.workloads import WHOLE_MILLI

Shares = list[list[float]]
"""Queue by row, in the units of the rows."""


def demands(ledger: Ledger) -> list[list[int]]:
    """Demand of each queue: min(limit, allocated + asked); of a parent: min(limit, its children's)."""
    both = zip(ledger.allocated, ledger.asked, strict=True)
    result = [list(map(add, held, asked)) for held, asked in both]
    for queue in reversed(range(len(result))):
        children = ledger.children[queue]
        if children:
            lines = [result[child] for child in children]
            result[queue] = [sum(column) for column in zip(*lines, strict=True)]
        for row, most in ledger.limited[queue]:
            result[queue][row] = min(result[queue][row], most)
    return result


def shares(ledger: Ledger, total: Sequence[int], usage: Sequence[float], usage_k: float) -> Shares:
    """The fair share of every queue.

    Args:
        ledger: the quota tree and what is held and asked for.
        total: what all nodes together have, by row.
        usage: each queue's decayed share of the capacity it used, 0 to 1.
        usage_k: how strongly use in the past lowers the claim on the surplus; 0 = not at all.
    """
    demand = demands(ledger)
    result: Shares = [[] for _ in ledger.queues]
    _divide(ledger, ledger.top, [float(amount) for amount in total], demand, result, usage, usage_k)
    for queue in range(len(ledger.queues)):
        if ledger.children[queue]:
            _divide(ledger, ledger.children[queue], result[queue], demand, result, usage, usage_k)
    return result


def _divide(
    ledger: Ledger,
    siblings: Sequence[int],
    have: Sequence[float],
    demand: Sequence[Sequence[int]],
    result: Shares,
    usage: Sequence[float],
    usage_k: float,
) -> None:
    lines = [demand[queue] for queue in siblings]
    for queue, line in zip(siblings, lines, strict=True):
        result[queue] = list(map(float, line))  # all it wants, where there is enough
    by_row = list(zip(*lines, strict=True))
    for row, amount in enumerate(have if lines else ()):
        wanted = by_row[row]
        if sum(wanted) > amount or (
            ledger.weightless[row] and _wants_unentitled(ledger, siblings, row, wanted)
        ):
            given = _divide_row(ledger, siblings, row, amount, wanted, usage, usage_k)
            for queue, share in zip(siblings, given, strict=True):
                result[queue][row] = share


def _wants_unentitled(ledger: Ledger, siblings: Sequence[int], row: int, wanted: Sequence[int]) -> bool:
    """Whether a queue without a claim to any surplus wants more than its quota."""
    for queue, want in zip(siblings, wanted, strict=True):
        if want > ledger.quota[queue][row] and ledger.weight[queue][row] <= 0:
            return True
    return False


def _divide_row(
    ledger: Ledger,
    siblings: Sequence[int],
    row: int,
    have: float,
    wanted: Sequence[int],
    usage: Sequence[float],
    usage_k: float,
) -> list[float]:
    given = _guarantees(ledger, siblings, row, have, wanted)
    left = max(0.0, have - sum(given))
    for tier in _tiers(ledger, siblings):
        if left <= 0:
            break
        weights = _weights(ledger, [siblings[at] for at in tier], row, usage, usage_k)
        missing = [max(0.0, wanted[at] - given[at]) for at in tier]
        risen = water_fill(left, missing, weights)
        if row == GPU_ROW and _whole_only(ledger, siblings, tier):
            risen = _rounded(risen, [ledger.age[siblings[at]] for at in tier])
        for at, more in zip(tier, risen, strict=True):
            given[at] += more
        left -= sum(risen)
    return given


def _guarantees(
    ledger: Ledger, siblings: Sequence[int], row: int, have: float, wanted: Sequence[int]
) -> list[float]:
    """min(quota, demand), scaled down by priority and in proportion to quota where there is too little."""
    given = [0.0] * len(siblings)
    quotas = [ledger.quota[queue][row] for queue in siblings]
    left = have
    for at, quota in enumerate(quotas):
        if quota >= UNLIMITED:
            given[at] = min(float(wanted[at]), have)
            left -= given[at]
    left = max(0.0, left)
    for tier in _tiers(ledger, siblings):
        finite = [at for at in tier if quotas[at] < UNLIMITED]
        claims = [float(min(quotas[at], wanted[at])) for at in finite]
        if sum(claims) > left:
            claims = water_fill(left, claims, [float(quotas[at]) for at in finite])
            if row == GPU_ROW and _whole_only(ledger, siblings, finite):
                claims = _rounded(claims, [ledger.age[siblings[at]] for at in finite])
        for at, claim in zip(finite, claims, strict=True):
            given[at] = claim
        left = max(0.0, left - sum(claims))
    return given


def _tiers(ledger: Ledger, siblings: Sequence[int]) -> list[list[int]]:
    """Positions among the siblings by priority, highest first."""
    by_priority: dict[int, list[int]] = {}
    for at, queue in enumerate(siblings):
        by_priority.setdefault(ledger.priority[queue], []).append(at)
    return [by_priority[priority] for priority in sorted(by_priority, reverse=True)]


def _weights(
    ledger: Ledger, queues: Sequence[int], row: int, usage: Sequence[float], usage_k: float
) -> list[float]:
    weights = [ledger.weight[queue][row] for queue in queues]
    if not usage_k:
        return weights
    total = sum(weights) or 1.0
    normal = [weight / total for weight in weights]
    return [
        max(0.0, share + usage_k * (share - usage[queue])) if share else 0.0
        for share, queue in zip(normal, queues, strict=True)
    ]


def water_fill(amount: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Divide `amount`: each rises in proportion to its weight until it has what it wants.

    The level at which one is satisfied is wanted ÷ weight; in that order each either gets all it
    wants or the rest is divided at one level. Weight 0 gets nothing.
    """
    given = [0.0] * len(wanted)
    order = sorted(
        (want / weight, at)
        for at, (want, weight) in enumerate(zip(wanted, weights, strict=True))
        if weight > 0
    )
    weight_left = sum(weights[at] for _, at in order)
    for place, (level, at) in enumerate(order):
        if level * weight_left > amount:
            each = amount / weight_left
            for _, rest in order[place:]:
                given[rest] = each * weights[rest]
            break
        given[at] = wanted[at]
        amount -= wanted[at]
        weight_left -= weights[at]
    return given


def _whole_only(ledger: Ledger, siblings: Sequence[int], tier: Sequence[int]) -> bool:
    return all(ledger.sharing[siblings[at]] == 0 for at in tier)


def _rounded(exact: Sequence[float], ages: Sequence[tuple[float, int]]) -> list[float]:
    """Whole devices by largest remainder, then older queue; the sum doesn't grow."""
    floors = [amount // WHOLE_MILLI for amount in exact]
    # A remainder within a millionth of a device of the next whole is arithmetic, not a claim.
    spare = int((sum(exact) + 1e-3) // WHOLE_MILLI - sum(floors))
    remainders = sorted(
        range(len(exact)), key=lambda at: (-round(exact[at] - floors[at] * WHOLE_MILLI, 3), ages[at])
    )
    for at in remainders[:spare]:
        floors[at] += 1
    return [floor * WHOLE_MILLI for floor in floors]

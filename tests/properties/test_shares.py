"""Fair shares (§2): what each queue may hold, held against the rules one by one and against a linear program."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weir.engine.usage.fair_share import FairShareTree, water_fill
from weir.model.queues import Queue
from weir.model.resources import UNLIMITED
from weir.model.workloads import WHOLE_MILLI
from weir.state.quota_usage import QuotaUsage
from weir.state.shapes import GPU_ROW, RowIndex

from .budget import examples
from .random_cluster import trees

NEAR = 1e-3
SOME = st.integers(0, 9)


@dataclass(frozen=True)
class Books:
    """Queues, what each project holds and asks for in devices, and how many there are."""

    queues: tuple[Queue, ...]
    holds: dict[str, int]
    asks: dict[str, int]
    total: int
    sharing: frozenset[str] = frozenset()

    def ledger(self) -> QuotaUsage:
        """The engine's view of it, in thousandths."""
        rows = RowIndex()
        ledger = QuotaUsage(self.queues, rows)
        for name, index in ledger.position.items():
            if ledger.queues[index].is_project:
                ledger.add_allocated(ledger.path[index], ((GPU_ROW, self.holds[name]),), fixed=False)
                ledger.add_asked(ledger.path[index], ((GPU_ROW, self.asks[name]),), 1)
                ledger.add_sharing(ledger.path[index], int(name in self.sharing))
        ledger.fit(rows)
        return ledger

    def fair_shares(self, usage: dict[str, float] | None = None, k: float = 0.0) -> dict[str, float]:
        """Each queue's share of the devices."""
        ledger = self.ledger()
        used = [(usage or {}).get(queue.name, 0.0) for queue in self.queues]
        total = [self.total if row == GPU_ROW else 1 << 40 for row in range(len(ledger.allocated[0]))]
        shares = FairShareTree(ledger).update(total, used, k)
        return {queue.name: shares[index][GPU_ROW] for index, queue in enumerate(self.queues)}


@st.composite
def overlay(draw: st.DrawFn, *, whole: bool = False, deep: bool = True) -> Books:
    """Random books; `whole` ones want nothing but whole devices."""
    queues = draw(trees(projects_max=5, deep=deep))
    projects = [queue.name for queue in queues if queue.is_project]
    unit = WHOLE_MILLI if whole else 100
    return Books(
        queues,
        {name: draw(SOME) * unit for name in projects},
        {name: draw(SOME) * unit for name in projects},
        draw(st.integers(0, 20)) * (WHOLE_MILLI if whole else 500),
        frozenset() if whole else frozenset(projects),
    )


def families(books: Books) -> list[tuple[float, list[Queue]]]:
    """Siblings, and what they divide."""
    share = books.fair_shares()
    groups = [(float(books.total), [queue for queue in books.queues if queue.parent is None])]
    for parent in books.queues:
        children = [queue for queue in books.queues if queue.parent == parent.name]
        if children:
            groups.append((share[parent.name], children))
    return groups


def demand_of(books: Books) -> dict[str, int]:
    """The least of a queue's limit and what it or its children hold and ask for."""
    demand: dict[str, int] = {}
    for queue in reversed(books.queues):
        below = [demand[child.name] for child in books.queues if child.parent == queue.name]
        wants = (
            sum(below) if below or not queue.is_project else books.holds[queue.name] + books.asks[queue.name]
        )
        demand[queue.name] = min(wants, queue.limit.get("gpu", UNLIMITED))
    return demand


def guarantee_of(queue: Queue, demand: dict[str, int]) -> int:
    """The least of its quota and its demand."""
    return min(queue.quota.get("gpu", UNLIMITED), demand[queue.name])


@examples(48)
@given(overlay())
def test_demand_is_what_is_held_and_asked_for_within_the_limits(books: Books) -> None:
    expected = demand_of(books)
    ledger = books.ledger()
    tree = FairShareTree(ledger)
    tree.update([books.total] * len(ledger.weightless), [0.0] * len(books.queues), 0.0)
    demand = tree.demand
    assert {queue.name: demand[index][GPU_ROW] for index, queue in enumerate(books.queues)} == expected


@examples(60)
@given(overlay() | overlay(whole=True))
def test_shares_add_up_and_no_queue_has_more_than_its_demand(books: Books) -> None:
    share, demand = books.fair_shares(), demand_of(books)
    for have, siblings in families(books):
        unlimited = sum(guarantee_of(queue, demand) for queue in siblings if "gpu" not in queue.quota)
        assert sum(share[queue.name] for queue in siblings) <= max(have, unlimited) + NEAR
        for queue in siblings:
            assert -NEAR <= share[queue.name] <= demand[queue.name] + NEAR


@examples(60)
@given(overlay() | overlay(whole=True))
def test_guarantees_are_honoured_where_they_can_be(books: Books) -> None:
    share, demand = books.fair_shares(), demand_of(books)
    for have, siblings in families(books):
        wanted = {queue.name: guarantee_of(queue, demand) for queue in siblings}
        if sum(wanted.values()) <= have + NEAR:
            for queue in siblings:
                assert share[queue.name] >= wanted[queue.name] - NEAR, queue.name


@examples(60)
@given(overlay())
def test_guarantees_that_cannot_be_honoured_are_scaled_by_priority_then_quota(books: Books) -> None:
    share, demand = books.fair_shares(), demand_of(books)
    for have, siblings in families(books):
        finite = [queue for queue in siblings if "gpu" in queue.quota]
        left = have - sum(min(demand[queue.name], have) for queue in siblings if "gpu" not in queue.quota)
        for priority in sorted({queue.priority for queue in finite}, reverse=True):
            tier = [queue for queue in finite if queue.priority == priority]
            wanted = [float(guarantee_of(queue, demand)) for queue in tier]
            if sum(wanted) > max(left, 0.0) + NEAR:
                fair = level_by_linear_program(max(left, 0.0), wanted, [queue.quota["gpu"] for queue in tier])
                assert np.allclose([share[queue.name] for queue in tier], fair, atol=NEAR)
            left -= sum(wanted)


@examples(60)
@given(overlay())
def test_the_surplus_follows_priority_and_nothing_wanted_is_left_over(books: Books) -> None:
    share, demand = books.fair_shares(), demand_of(books)
    for have, siblings in families(books):
        if sum(guarantee_of(queue, demand) for queue in siblings) > have + NEAR:
            continue
        short = [
            queue
            for queue in siblings
            if share[queue.name] < demand[queue.name] - NEAR and queue.weight.get("gpu", 1.0) > 0
        ]
        given_ = sum(share[queue.name] for queue in siblings)
        assert not short or given_ >= have - NEAR, "someone is short and something is left over"
        for queue in siblings:
            above = share[queue.name] > guarantee_of(queue, demand) + NEAR
            assert not above or queue.weight.get("gpu", 1.0) > 0, "weight 0 has a part of the surplus"
            for other in short:
                assert not above or queue.priority >= other.priority, (
                    "the lower priority has what the higher lacks"
                )


@examples(40)
@given(overlay(deep=False))
def test_inside_one_priority_the_surplus_is_divided_as_a_linear_program_divides_it(books: Books) -> None:
    books = replace(books, queues=tuple(replace(queue, priority=100) for queue in books.queues))
    share, demand = books.fair_shares(), demand_of(books)
    given_ = {queue.name: guarantee_of(queue, demand) for queue in books.queues}
    left = books.total - sum(given_.values())
    if left <= 0:
        return
    missing = [float(demand[queue.name] - given_[queue.name]) for queue in books.queues]
    weights = [queue.weight.get("gpu", 1.0) for queue in books.queues]
    fair = level_by_linear_program(left, missing, weights)
    extra = [share[queue.name] - given_[queue.name] for queue in books.queues]
    assert np.allclose(extra, fair, atol=NEAR)


@examples(48)
@given(
    st.floats(0, 50),
    st.lists(st.tuples(st.floats(0, 20), st.sampled_from((0.0, 0.5, 1.0, 2.0, 3.0))), max_size=6),
)
def test_water_filling_is_the_weighted_max_min(amount: float, claims: list[tuple[float, float]]) -> None:
    wanted, weights = [want for want, _ in claims], [weight for _, weight in claims]
    filled = water_fill(amount, wanted, weights)
    assert np.allclose(filled, level_by_linear_program(amount, wanted, weights), atol=1e-4)


def level_by_linear_program(amount: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The weighted max-min division, by raising the lowest level again and again until none can rise."""
    from scipy.optimize import linprog  # not above: every process of a run collects this file

    count = len(wanted)
    fixed: dict[int, float] = {index: 0.0 for index in range(count) if weights[index] <= 0}
    while len(fixed) < count:
        open_ = [index for index in range(count) if index not in fixed]
        # Variables: what each open one gets, and the level all of them reach.
        cost = [0.0] * len(open_) + [-1.0]
        rows = [[-1.0 if other == index else 0.0 for other in open_] + [weights[index]] for index in open_]
        limits = [0.0] * len(open_)
        rows.append([1.0] * len(open_) + [0.0])
        limits.append(max(0.0, amount - sum(fixed.values())))
        most = [(0.0, wanted[index]) for index in open_]
        level = -linprog(cost, rows, limits, bounds=[*most, (0.0, None)], method="highs").fun
        before = len(fixed)
        for index in open_:
            if wanted[index] <= level * weights[index] + 1e-7:
                fixed[index] = wanted[index]
        if len(fixed) == before:  # no queue is satisfied: all stand at the level
            fixed.update({index: level * weights[index] for index in open_})
    return [fixed[index] for index in range(count)]


@examples(40)
@given(overlay(whole=True))
def test_whole_devices_are_divided_whole_and_no_queue_loses_one_by_it(books: Books) -> None:
    exact = replace(
        books, sharing=frozenset(queue.name for queue in books.queues if queue.is_project)
    ).fair_shares()
    rounded = books.fair_shares()
    top = [queue for queue in books.queues if queue.parent is None]
    quotas_are_whole = all(queue.quota.get("gpu", 0) % WHOLE_MILLI == 0 for queue in books.queues)
    for queue in top:
        assert not quotas_are_whole or abs(rounded[queue.name] / WHOLE_MILLI % 1.0) < 1e-6
        assert abs(rounded[queue.name] - exact[queue.name]) <= 2 * WHOLE_MILLI + NEAR


@examples(24)
@given(overlay(deep=False), st.floats(0.1, 4.0), st.integers(0, 4))
def test_who_used_more_in_the_past_has_no_larger_share_for_it(books: Books, k: float, which: int) -> None:
    name = books.queues[which % len(books.queues)].name
    spared = books.fair_shares({}, k)
    used = books.fair_shares({name: 0.5}, k)
    assert used[name] <= spared[name] + NEAR
    for queue in books.queues:
        if queue.name != name:
            assert used[queue.name] >= spared[queue.name] - NEAR


@examples(20)
@given(overlay(), st.dictionaries(st.sampled_from(("p0", "p1", "p2")), st.floats(0, 1)))
def test_without_a_memory_past_use_counts_for_nothing(books: Books, usage: dict[str, float]) -> None:
    assert books.fair_shares(usage, 0.0) == books.fair_shares()


@st.composite
def histories(draw: st.DrawFn) -> tuple[Books, list[tuple[str, int, int, int]]]:
    """Books, and changes: a project, what it holds and asks for more, and how many parts it asks for."""
    books = draw(overlay(whole=draw(st.booleans())))
    projects = st.sampled_from(sorted(books.holds))
    units = st.integers(0, 8).map(lambda count: count * 250)
    return books, draw(
        st.lists(st.tuples(projects, units, units, st.integers(0, 1)), min_size=1, max_size=12)
    )


@examples(60)
@given(histories(), st.sampled_from([0.0, 1.0]))
def test_shares_updated_change_by_change_equal_shares_computed_at_once(
    history: tuple[Books, list[tuple[str, int, int, int]]], k: float
) -> None:
    books, changes = history
    ledger = books.ledger()
    tree = FairShareTree(ledger)
    usage = [0.1 * index for index in range(len(books.queues))]
    for step, (project, held, asked, parts) in enumerate(changes):
        position = ledger.position[project]
        ledger.add_allocated(ledger.path[position], ((GPU_ROW, held),), fixed=False)
        ledger.add_asked(ledger.path[position], ((GPU_ROW, asked),), 1)
        ledger.add_sharing(ledger.path[position], parts)
        excess = {position: {GPU_ROW: asked}} if step % 3 == 2 else {}
        total = [books.total + 1000 * (step % 2)] * len(ledger.weightless)
        fresh = FairShareTree(ledger)
        assert tree.update(total, usage, k, excess) == fresh.update(total, usage, k, excess)
        assert tree.demand == fresh.demand

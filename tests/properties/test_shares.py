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
        for name, at in ledger.position.items():
            if ledger.queues[at].is_project:
                ledger.add_allocated(ledger.path[at], ((GPU_ROW, self.holds[name]),), fixed=False)
                ledger.add_asked(ledger.path[at], ((GPU_ROW, self.asks[name]),), 1)
                ledger.add_sharing(ledger.path[at], int(name in self.sharing))
        ledger.fit(rows)
        return ledger

    def fair_shares(self, usage: dict[str, float] | None = None, k: float = 0.0) -> dict[str, float]:
        """Each queue's share of the devices."""
        ledger = self.ledger()
        used = [(usage or {}).get(queue.name, 0.0) for queue in self.queues]
        total = [self.total if row == GPU_ROW else 1 << 40 for row in range(len(ledger.allocated[0]))]
        found = FairShareTree(ledger).update(total, used, k)
        return {queue.name: found[at][GPU_ROW] for at, queue in enumerate(self.queues)}


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


def families(of: Books) -> list[tuple[float, list[Queue]]]:
    """Siblings, and what they divide."""
    share = of.fair_shares()
    found = [(float(of.total), [queue for queue in of.queues if queue.parent is None])]
    for parent in of.queues:
        children = [queue for queue in of.queues if queue.parent == parent.name]
        if children:
            found.append((share[parent.name], children))
    return found


def demand_of(of: Books) -> dict[str, int]:
    """The least of a queue's limit and what it or its children hold and ask for."""
    found: dict[str, int] = {}
    for queue in reversed(of.queues):
        below = [found[child.name] for child in of.queues if child.parent == queue.name]
        wants = sum(below) if below or not queue.is_project else of.holds[queue.name] + of.asks[queue.name]
        found[queue.name] = min(wants, queue.limit.get("gpu", UNLIMITED))
    return found


def guarantee_of(queue: Queue, demand: dict[str, int]) -> int:
    """The least of its quota and its demand."""
    return min(queue.quota.get("gpu", UNLIMITED), demand[queue.name])


@examples(48)
@given(overlay())
def test_demand_is_what_is_held_and_asked_for_within_the_limits(of: Books) -> None:
    expected = demand_of(of)
    ledger = of.ledger()
    tree = FairShareTree(ledger)
    tree.update([of.total] * len(ledger.weightless), [0.0] * len(of.queues), 0.0)
    found = tree.demand
    assert {queue.name: found[at][GPU_ROW] for at, queue in enumerate(of.queues)} == expected


@examples(60)
@given(overlay() | overlay(whole=True))
def test_shares_add_up_and_no_queue_has_more_than_its_demand(of: Books) -> None:
    share, demand = of.fair_shares(), demand_of(of)
    for have, siblings in families(of):
        unlimited = sum(guarantee_of(queue, demand) for queue in siblings if "gpu" not in queue.quota)
        assert sum(share[queue.name] for queue in siblings) <= max(have, unlimited) + NEAR
        for queue in siblings:
            assert -NEAR <= share[queue.name] <= demand[queue.name] + NEAR


@examples(60)
@given(overlay() | overlay(whole=True))
def test_guarantees_are_honoured_where_they_can_be(of: Books) -> None:
    share, demand = of.fair_shares(), demand_of(of)
    for have, siblings in families(of):
        wanted = {queue.name: guarantee_of(queue, demand) for queue in siblings}
        if sum(wanted.values()) <= have + NEAR:
            for queue in siblings:
                assert share[queue.name] >= wanted[queue.name] - NEAR, queue.name


@examples(60)
@given(overlay())
def test_guarantees_that_cannot_be_honoured_are_scaled_by_priority_then_quota(of: Books) -> None:
    share, demand = of.fair_shares(), demand_of(of)
    for have, siblings in families(of):
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
def test_the_surplus_follows_priority_and_nothing_wanted_is_left_over(of: Books) -> None:
    share, demand = of.fair_shares(), demand_of(of)
    for have, siblings in families(of):
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
def test_inside_one_priority_the_surplus_is_divided_as_a_linear_program_divides_it(of: Books) -> None:
    of = replace(of, queues=tuple(replace(queue, priority=100) for queue in of.queues))
    share, demand = of.fair_shares(), demand_of(of)
    given_ = {queue.name: guarantee_of(queue, demand) for queue in of.queues}
    left = of.total - sum(given_.values())
    if left <= 0:
        return
    missing = [float(demand[queue.name] - given_[queue.name]) for queue in of.queues]
    weights = [queue.weight.get("gpu", 1.0) for queue in of.queues]
    fair = level_by_linear_program(left, missing, weights)
    found = [share[queue.name] - given_[queue.name] for queue in of.queues]
    assert np.allclose(found, fair, atol=NEAR)


@examples(48)
@given(
    st.floats(0, 50),
    st.lists(st.tuples(st.floats(0, 20), st.sampled_from((0.0, 0.5, 1.0, 2.0, 3.0))), max_size=6),
)
def test_water_filling_is_the_weighted_max_min(amount: float, claims: list[tuple[float, float]]) -> None:
    wanted, weights = [want for want, _ in claims], [weight for _, weight in claims]
    found = water_fill(amount, wanted, weights)
    assert np.allclose(found, level_by_linear_program(amount, wanted, weights), atol=1e-4)


def level_by_linear_program(amount: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The weighted max-min division, by raising the lowest level again and again until none can rise."""
    from scipy.optimize import linprog  # not above: every process of a run collects this file

    count = len(wanted)
    fixed: dict[int, float] = {at: 0.0 for at in range(count) if weights[at] <= 0}
    while len(fixed) < count:
        open_ = [at for at in range(count) if at not in fixed]
        # Variables: what each open one gets, and the level all of them reach.
        cost = [0.0] * len(open_) + [-1.0]
        rows = [[-1.0 if other == at else 0.0 for other in open_] + [weights[at]] for at in open_]
        limits = [0.0] * len(open_)
        rows.append([1.0] * len(open_) + [0.0])
        limits.append(max(0.0, amount - sum(fixed.values())))
        most = [(0.0, wanted[at]) for at in open_]
        level = -linprog(cost, rows, limits, bounds=[*most, (0.0, None)], method="highs").fun
        before = len(fixed)
        for at in open_:
            if wanted[at] <= level * weights[at] + 1e-7:
                fixed[at] = wanted[at]
        if len(fixed) == before:  # no queue is satisfied: all stand at the level
            fixed.update({at: level * weights[at] for at in open_})
    return [fixed[at] for at in range(count)]


@examples(40)
@given(overlay(whole=True))
def test_whole_devices_are_divided_whole_and_no_queue_loses_one_by_it(of: Books) -> None:
    exact = replace(
        of, sharing=frozenset(queue.name for queue in of.queues if queue.is_project)
    ).fair_shares()
    rounded = of.fair_shares()
    top = [queue for queue in of.queues if queue.parent is None]
    quotas_are_whole = all(queue.quota.get("gpu", 0) % WHOLE_MILLI == 0 for queue in of.queues)
    for queue in top:
        assert not quotas_are_whole or abs(rounded[queue.name] / WHOLE_MILLI % 1.0) < 1e-6
        assert abs(rounded[queue.name] - exact[queue.name]) <= 2 * WHOLE_MILLI + NEAR


@examples(24)
@given(overlay(deep=False), st.floats(0.1, 4.0), st.integers(0, 4))
def test_who_used_more_in_the_past_has_no_larger_share_for_it(of: Books, k: float, which: int) -> None:
    name = of.queues[which % len(of.queues)].name
    spared = of.fair_shares({}, k)
    used = of.fair_shares({name: 0.5}, k)
    assert used[name] <= spared[name] + NEAR
    for queue in of.queues:
        if queue.name != name:
            assert used[queue.name] >= spared[queue.name] - NEAR


@examples(20)
@given(overlay(), st.dictionaries(st.sampled_from(("p0", "p1", "p2")), st.floats(0, 1)))
def test_without_a_memory_past_use_counts_for_nothing(of: Books, usage: dict[str, float]) -> None:
    assert of.fair_shares(usage, 0.0) == of.fair_shares()


@st.composite
def histories(draw: st.DrawFn) -> tuple[Books, list[tuple[str, int, int, int]]]:
    """Books, and changes: a project, what it holds and asks for more, and how many parts it asks for."""
    of = draw(overlay(whole=draw(st.booleans())))
    projects = st.sampled_from(sorted(of.holds))
    units = st.integers(0, 8).map(lambda count: count * 250)
    return of, draw(st.lists(st.tuples(projects, units, units, st.integers(0, 1)), min_size=1, max_size=12))


@examples(60)
@given(histories(), st.sampled_from([0.0, 1.0]))
def test_shares_updated_change_by_change_equal_shares_computed_at_once(
    history: tuple[Books, list[tuple[str, int, int, int]]], k: float
) -> None:
    of, changes = history
    ledger = of.ledger()
    tree = FairShareTree(ledger)
    usage = [0.1 * at for at in range(len(of.queues))]
    for step, (project, held, asked, parts) in enumerate(changes):
        at = ledger.position[project]
        ledger.add_allocated(ledger.path[at], ((GPU_ROW, held),), fixed=False)
        ledger.add_asked(ledger.path[at], ((GPU_ROW, asked),), 1)
        ledger.add_sharing(ledger.path[at], parts)
        excess = {at: {GPU_ROW: asked}} if step % 3 == 2 else {}
        total = [of.total + 1000 * (step % 2)] * len(ledger.weightless)
        fresh = FairShareTree(ledger)
        assert tree.update(total, usage, k, excess) == fresh.update(total, usage, k, excess)
        assert tree.demand == fresh.demand

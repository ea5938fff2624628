"""A trial that isn't committed leaves capacity and accounting as they were, wherever it ends."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import CO_GENERATOR
from types import FrameType
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.engine import transaction
from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.placement.capacity import Capacity
from weir.engine.plan import Plan
from weir.engine.transaction import Accounting, Trial

from .budget import examples
from .cluster_view import differs
from .random_cluster import POLICIES, ROUGH, World, worlds
from .running import Running
from .test_policies import answer

ENDINGS = {"commit", "rollback", "__exit__"}
"""Functions that end a trial: what fails in them isn't inside of it."""

pytestmark = pytest.mark.skipif(
    not transaction.__file__.endswith(".py"), reason="compiled functions can't be made to fail"
)


class InjectedError(Exception):
    """Raised inside a trial."""


def snapshot(capacity: Capacity, accounting: Accounting) -> list[object]:
    """Copy what a trial may change, as plain values."""
    columns, overlay = capacity.columns, accounting.overlay
    return [
        *(array.tolist() for array in (columns.free, columns.share, columns.memory, columns.marks)),
        capacity.whole.tolist(),
        [line.copy() for line in overlay.used],
        [line.copy() for line in overlay.fixed],
        {budget.name: accounting.disruptions.left(budget) for budget in accounting.disruptions._used},
        {(pod.job.name, pod.group, pod.index) for pod in accounting.leaving},
        set(accounting.coming),
    ]


class Audit:
    """Trials while they run: compares the state at the beginning of each with that after its rollback."""

    def __init__(self) -> None:
        self.open = 0
        self.calls = 0  # of engine functions inside a trial
        self.fail_at = -1
        self.rollbacks = 0
        self.differences: list[tuple[object, object]] = []

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call inside a trial, and fail at one of them."""
        code, caller = frame.f_code, frame.f_back
        if event != "call" or not self.open or "/weir/engine/" not in code.co_filename:
            return
        if code.co_flags & CO_GENERATOR:  # it may only be closed
            return
        if code.co_name in ENDINGS or (caller is not None and caller.f_code.co_name in ENDINGS):
            return
        self.calls += 1
        if self.calls == self.fail_at:
            raise InjectedError

    def trial(self) -> Callable[[Capacity, Accounting], Trial]:
        """Return the class of trials that this audit observes."""
        audit = self

        class AuditedTrial(Trial):
            def __enter__(self) -> Self:
                self._before = snapshot(self._capacity, self._accounting)
                super().__enter__()
                audit.open += 1
                return self

            def __exit__(self, *error: object) -> None:
                audit.open -= 1
                rolls_back = self._open
                super().__exit__(*error)
                if rolls_back:
                    audit.rollbacks += 1
                    after = snapshot(self._capacity, self._accounting)
                    audit.differences += [
                        (was, now) for was, now in zip(self._before, after, strict=True) if was != now
                    ]

        return AuditedTrial


@contextmanager
def audited(fail_at: int = -1) -> Iterator[Audit]:
    """Audit every trial; fail at the given call inside one."""
    audit, kept = Audit(), transaction.Trial
    audit.fail_at = fail_at
    transaction.Trial = audit.trial()  # type: ignore[assignment,misc]
    sys.setprofile(audit.profile)
    try:
        yield audit
    finally:
        sys.setprofile(None)
        transaction.Trial = kept  # type: ignore[misc]


@examples(6)
@given(
    worlds(happens=ROUGH, policies=POLICIES, topology=True, rules=True),
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
)
def test_an_exception_inside_a_trial_leaves_no_trace(world: World, points: list[float]) -> None:
    running = Running(world)

    def look(_: Plan) -> None:
        with audited() as audit:
            plan = decide(running.cluster, world.policy, running.now_s, EngineCache())
        assert not audit.differences
        for call in {1 + int(point * (audit.calls - 1)) for point in points} if audit.calls else ():
            cache = EngineCache()
            with audited(fail_at=call) as failing, pytest.raises(InjectedError):
                decide(running.cluster, world.policy, running.now_s, cache)
            assert failing.rollbacks
            assert not failing.differences
            assert not failing.open
            again = decide(running.cluster, world.policy, running.now_s, cache)
            assert not differs(answer(plan), answer(again)), "a failed decision leaves nothing in the cache"

    running.before(look)
    for _ in running.run():
        pass

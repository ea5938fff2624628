"""Successive halving: every decision against a count by hand over the same records."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.sweeps.halving import BestResult, Halving, Promotion


def test_best_third_of_a_rung_goes_on() -> None:
    halving = Halving(3, 3)
    for trial, value in enumerate((0.5, 0.2, 0.9, 0.4, 0.1, 0.6)):
        halving.record(trial, 0, value)
    assert halving.promotion() == Promotion(4, 0, 6)
    halving.leave(4)
    assert halving.promotion() == Promotion(1, 0, 6)
    halving.leave(1)
    assert halving.promotion() is None
    halving.record(6, 0, 0.3)
    assert halving.promotion() is None  # the third best of seven, of whom two go on
    for trial in (7, 8):
        halving.record(trial, 0, 1.0)
    assert halving.promotion() == Promotion(6, 0, 9)


def test_higher_rungs_come_first() -> None:
    halving = Halving(3, 2)
    for trial in range(4):
        halving.record(trial, 0, float(trial))
    for trial in (0, 1):
        halving.leave(trial)
        halving.record(trial, 1, float(trial))
    for trial in range(4, 8):
        halving.record(trial, 0, 0.1 * trial)
    assert halving.promotion() == Promotion(0, 1, 2)


def test_a_trial_that_is_not_ready_or_over_is_passed_over() -> None:
    halving = Halving(2, 2)
    for trial in range(4):
        halving.record(trial, 0, float(trial))
    assert halving.promotion(ready={1, 2, 3}) == Promotion(1, 0, 4)
    halving.leave(0)
    halving.leave(1)
    assert halving.promotion() is None


def test_few_trials_end_with_a_complete_one() -> None:
    halving = Halving(3, 3)
    halving.record(0, 0, 2.0)
    halving.record(1, 0, 1.0)
    assert halving.promotion() is None
    assert halving.promotion(last=True) == Promotion(1, 0, 2)
    halving.leave(1)
    halving.record(1, 1, 1.0)
    assert halving.promotion(last=True) == Promotion(1, 1, 1)
    halving.record(1, 2, 1.0)
    assert halving.promotion(last=True) is None
    assert halving.best() == BestResult(1, 2)


def test_best_result_may_be_at_a_lower_rung_than_others() -> None:
    halving = Halving(3, 2)
    halving.record(0, 0, 0.5)
    halving.record(1, 0, 0.4)
    halving.record(1, 1, 0.2)
    halving.record(1, 2, 0.3)
    assert halving.best() == BestResult(1, 1)
    halving.record(0, 1, 0.2)
    assert halving.best() == BestResult(0, 1)


def test_equal_results_are_best_at_the_highest_rung() -> None:
    halving = Halving(2, 2)
    halving.record(0, 0, 0.5)
    halving.record(0, 1, 0.5)
    assert halving.best() == BestResult(0, 1)


def test_no_number_is_the_worst() -> None:
    halving = Halving(2, 2)
    halving.record(0, 0, nan)
    halving.record(1, 0, inf)
    halving.record(2, 0, 1e9)
    assert halving.best() == BestResult(2, 0)


def test_prospects_are_ordered_by_rung_and_by_result() -> None:
    halving = Halving(3, 2)
    for trial, value in ((0, 0.3), (1, 0.1), (2, 0.2)):
        halving.record(trial, 0, value)
    halving.record(0, 1, 0.3)
    assert halving.by_prospect([3, 2, 1, 0]) == [0, 1, 2, 3]


def test_result_counts_once() -> None:
    halving = Halving(2, 2)
    assert halving.record(0, 0, 1.0)
    assert not halving.record(0, 0, 0.0)
    assert halving.reached(0) == 1
    with pytest.raises(AssertionError):
        halving.record(1, 1, 0.0)


@given(
    rungs=st.integers(2, 4),
    eta=st.integers(2, 4),
    acts=st.lists(
        st.tuples(
            st.sampled_from(["report", "new", "promote", "fail"]), st.integers(0, 30), st.integers(0, 9)
        ),
        max_size=120,
    ),
)
def test_promotions_are_those_that_a_count_of_the_records_allows(
    rungs: int, eta: int, acts: list[tuple[str, int, int]]
) -> None:
    """Random orders of new trials, results, failures and promotions, against sorted lists of all results."""
    halving = Halving(rungs, eta)
    values: list[list[int]] = []  # of each trial, by rung
    target: list[int] = []
    over: set[int] = set()
    for act, which, value in acts:
        if act == "new" or not values:
            values.append([])
            target.append(0)
            continue
        trial = which % len(values)
        if act == "fail":
            halving.leave(trial)
            over.add(trial)
        elif act == "report" and trial not in over and len(values[trial]) == target[trial]:
            halving.record(trial, target[trial], float(value))
            values[trial].append(value)
        elif act == "promote":
            expected = by_hand(values, target, over, rungs, eta)
            promotion = halving.promotion()
            assert promotion == expected
            if promotion is not None:
                halving.leave(promotion.trial)
                target[promotion.trial] += 1


def by_hand(
    values: list[list[int]], target: list[int], over: set[int], rungs: int, eta: int
) -> Promotion | None:
    for rung in reversed(range(rungs - 1)):
        reached = sorted(
            (results[rung], trial) for trial, results in enumerate(values) if len(results) > rung
        )
        for _, trial in reached[: len(reached) // eta]:
            if target[trial] == rung and trial not in over:
                return Promotion(trial, rung, len(reached))
    return None

"""Progress of a sweep of a cluster, from its recorded trials."""

import json

import pytest

from weir.api.sweep_submissions import SweepSubmission
from weir.kubernetes.crd.sweep_objects import (
    FAILED_TRIAL,
    LIVE,
    PARKED,
    STOPPED_TRIAL,
    SUCCEEDED_TRIAL,
    ReachedRung,
    SweepTrial,
)
from weir.kubernetes.sweeps.progress import SweepProgress
from weir.sweeps.halving import BestResult

PLAN = SweepSubmission.model_validate(
    {
        "params": {"lr": "float:0..1"},
        "trials": 6,
        "rungs": [1, 3, 9],
        "eta": 3,
        "workload": {"project": "a", "command": "train"},
    }
)


def trial(number: int = 0) -> SweepTrial:
    return SweepTrial(json.dumps({"lr": number / 10}))


def reached(value: float | None, *rungs: int) -> list[ReachedRung]:
    return [ReachedRung(rung, PLAN.rungs[rung], "", value) for rung in rungs]


def started(count: int) -> SweepProgress:
    return SweepProgress(PLAN, [trial(number) for number in range(count)])


def test_a_trial_at_a_rung_is_parked_and_the_best_third_goes_on() -> None:
    progress = started(3)
    for number, value in enumerate((0.3, 0.1, 0.2)):
        assert progress.promotion() is None
        progress.end_run(number, reached(value, 0), 2.0, failed=False)
    assert [each.state for each in progress.trials] == [PARKED] * 3
    promotion = progress.promotion()
    assert promotion is not None
    assert (promotion.trial, promotion.rung, promotion.reached) == (1, 0, 3)
    progress.promote(promotion)
    best = progress.trials[1]
    assert (best.state, best.target, best.results[0].promoted_among) == (LIVE, 1, 3)
    assert progress.promotion() is None
    again = SweepProgress(PLAN, progress.trials)
    assert again.promotion() is None, "its records say the same"
    assert again.best() == BestResult(1, 0)


def test_a_run_may_pass_several_rungs() -> None:
    progress = started(1)
    progress.end_run(0, reached(0.5, 0, 1), 1.0, failed=False)
    assert (progress.trials[0].state, progress.trials[0].target) == (PARKED, 1)
    progress.trials[0].state = LIVE
    progress.end_run(0, reached(0.4, 2), 1.5, failed=True)
    assert (progress.trials[0].state, progress.trials[0].seconds) == (SUCCEEDED_TRIAL, 2.5)


@pytest.mark.parametrize(("failed", "state"), [(True, FAILED_TRIAL), (False, SUCCEEDED_TRIAL)])
def test_a_trial_without_its_rung_is_over(failed: bool, state: str) -> None:
    progress = started(1)
    progress.end_run(0, [], 1.0, failed=failed)
    assert progress.trials[0].state == state
    assert progress.past()[0].is_over


def test_a_trial_that_leaves_at_its_rung_with_an_error_is_parked() -> None:
    progress = started(1)
    progress.end_run(0, reached(0.5, 0), 1.0, failed=True)
    assert progress.trials[0].state == PARKED


def test_a_sweep_whose_first_trials_fail_is_given_up() -> None:
    progress = started(5)
    for number in range(4):
        progress.end_run(number, [], 0.0, failed=True)
    assert not progress.has_failed
    progress.end_run(4, [], 0.0, failed=True)
    assert progress.has_failed


def test_small_sweep_whose_trials_all_fail_has_failed() -> None:
    plan = PLAN.model_copy(update={"trials": 2})
    progress = SweepProgress(plan, [trial(0), trial(1)])
    progress.end_run(0, [], 0.0, failed=True)
    assert not progress.has_failed
    progress.end_run(1, [], 0.0, failed=True)
    assert progress.has_failed


def test_the_last_promotions_complete_a_trial() -> None:
    progress = started(6)
    for number in range(6):
        if number == 5:
            progress.stop(number)
        else:
            progress.end_run(number, reached(number / 10, 0), 0.0, failed=False)
    for rung in (1, 2):
        promotion = progress.promotion()
        assert promotion is not None
        assert promotion.trial == 0
        progress.promote(promotion)
        progress.end_run(0, reached(0.0, rung), 0.0, failed=False)
    assert progress.trials[5].state == STOPPED_TRIAL
    assert progress.promotion() is None
    assert progress.outcome() == "All 6 trials are over. The best is trial 0: loss 0 at rung 9."


def test_sweep_without_a_result_names_the_missing_call() -> None:
    progress = started(2)
    assert progress.silence() == ""
    progress.end_run(1, [], 0.0, failed=False)
    missing = "before rung 1, without a result: the script has to call `weir.report(step=1, loss=...)`."
    assert progress.silence() == f"trial 1 has succeeded {missing}"
    assert progress.outcome() == f"All 2 trials are over {missing}"
    progress.end_run(0, reached(0.5, 0), 0.0, failed=False)
    assert progress.silence() == ""


def test_a_metric_that_is_no_number_is_the_worst() -> None:
    progress = started(3)
    for number, value in enumerate((None, 5.0, None)):
        progress.end_run(number, reached(value, 0), 0.0, failed=False)
    assert progress.best() == BestResult(1, 0)


def test_the_running_trial_that_is_least_likely_to_be_promoted_goes_first() -> None:
    progress = started(4)
    for number, value in enumerate((0.3, 0.1, 0.2)):
        progress.end_run(number, reached(value, 0), 2.0, failed=False)
    promotion = progress.promotion()
    assert promotion is not None
    progress.promote(promotion)
    assert progress.prospects(progress.live) == {1: 1, 3: 0}, "trial 3 has reached no rung"

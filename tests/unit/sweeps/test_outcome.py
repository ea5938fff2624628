"""Sentences about the results of a sweep."""

import pytest

from weir.sweeps.outcome import missing_result, outcome, result_words


def test_the_best_trial_is_named_with_its_result() -> None:
    result = result_words("loss", 0.114821, 9)
    assert outcome(9, "digits-4", result, "") == (
        "All 9 trials are over. The best is digits-4: loss 0.114821 at rung 9."
    )


@pytest.mark.parametrize(
    ("succeeded", "end"),
    [(False, "."), (True, ": the script has to call `weir.report(step=3, accuracy=...)`.")],
)
def test_sweep_without_results_names_the_first_rung_and_the_missing_call(succeeded: bool, end: str) -> None:
    missing = missing_result("accuracy", 3, succeeded=succeeded)
    assert outcome(1, None, "", missing) == f"Its trial is over before rung 3, without a result{end}"


def test_a_value_that_was_no_number_is_named_so() -> None:
    assert result_words("loss", None, 3) == "loss no number at rung 3"

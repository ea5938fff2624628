"""Sentences about the results of a sweep."""

from weir.sweeps.outcome import outcome, result_words


def test_the_best_trial_is_named_with_its_result() -> None:
    result = result_words("loss", 0.114821, 9)
    assert outcome(9, 1, "digits-4", result) == (
        "All 9 trials are over. The best is digits-4: loss 0.114821 at rung 9."
    )


def test_a_sweep_without_results_names_the_first_rung() -> None:
    assert outcome(1, 3, None, "") == "Its trial is over before rung 3, without a result."


def test_a_value_that_was_no_number_is_named_so() -> None:
    assert result_words("loss", None, 3) == "loss no number at rung 3"

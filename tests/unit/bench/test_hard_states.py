"""The hard states of the benchmark, on a small cluster: each can be made, and cycles play on it."""

import pytest
from bench.hard_states import STATES, is_good, played

from weir.model.policy import Policy


@pytest.mark.parametrize("state", list(STATES))
def test_state(state: str) -> None:
    row = played(STATES[state](10, Policy()))
    assert row["cycles"]
    assert is_good(row | {"longest_s": 0.5})


def test_a_decision_that_was_broken_off_is_no_good_one() -> None:
    assert not is_good({"longest_s": "more than 60"})
    assert not is_good({"longest_s": 1.5})

"""Results of trials in the texts that containers leave."""

import json
from typing import Any

import pytest

from weir.sweeps.trial_message import ENTRIES_MAX, MESSAGE_KEY, message_of, results_in


def test_results_are_read_as_they_were_written() -> None:
    reached = [(1, 0.1), (3, None), (10**15, -2.5e300)]
    assert results_in(message_of(reached)) == reached


@pytest.mark.parametrize(
    "message",
    [
        *("", "Killed", "[1, 2]", "{}", '"text"', "null", "[" * 100_000),
        *(
            json.dumps({MESSAGE_KEY: value})
            for value in (None, 7, "text", [7], [[1]], [[1, "a"]], [["1", 1.0]], [[True, 1.0]], [[-1, 1.0]])
        ),
        '{"weir_rungs": [[1, 1' + "0" * 400 + "]]}",
    ],
)
def test_other_text_has_no_results(message: str) -> None:
    assert results_in(message) == []


def test_numbers_that_are_not_finite_are_no_numbers() -> None:
    assert results_in('{"weir_rungs": [[1, NaN], [2, Infinity], [3, 1]]}') == [(1, None), (2, None), (3, 1.0)]


def test_a_message_has_a_bounded_number_of_results() -> None:
    many: Any = [[step, 1.0] for step in range(10_000)]
    assert len(results_in(json.dumps({MESSAGE_KEY: many}))) == ENTRIES_MAX

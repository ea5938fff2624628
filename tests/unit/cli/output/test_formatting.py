"""Texts for people: sentences."""

import pytest

from weir.cli.output.formatting import lasting, number, sentence
from weir.model.resources import seconds, span


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("no node has 2 free GPUs", "No node has 2 free GPUs."),
        ("it has failed", "It has failed."),
        ("titan has 0 GPUs free, and a pod asks for 1", "titan has 0 GPUs free, and a pod asks for 1."),
        (
            "titan has no GPU with as much free as a pod asks for",
            "titan has no GPU with as much free as a pod asks for.",
        ),
    ],
)
def test_name_of_a_node_keeps_its_case_at_the_start_of_a_sentence(text: str, written: str) -> None:
    assert sentence(text) == written


@pytest.mark.parametrize(
    ("value", "text"), [(0.001, "0.001"), (0.00012, "0.0001"), (1e-9, "0"), (0.0, "0"), (1.004, "1")]
)
def test_small_amount_is_not_nothing(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("lasts_s", "shown"), [(74.0, "1m14s"), (7500.0, "2h5m"), (40.0, "40s")])
def test_durations_of_tables_and_sentences_can_be_written_back(lasts_s: float, shown: str) -> None:
    assert lasting(lasts_s) == span(lasts_s) == shown
    assert seconds(shown) == lasts_s

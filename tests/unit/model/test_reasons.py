"""Reasons as sentences."""

import pytest

from weir.model.reasons import as_sentence


@pytest.mark.parametrize(
    ("clause", "sentence"),
    [
        ("the project is full", "The project is full."),
        ("It waits.", "It waits."),
        ("weir.dev/type: 'x' is no type", "weir.dev/type: 'x' is no type."),
        (
            "weir.dev/usr isn't known: did you mean weir.dev/user?",
            "weir.dev/usr isn't known: did you mean weir.dev/user?",
        ),
        ("train-launcher waits", "train-launcher waits."),
        ("", ""),
    ],
)
def test_a_clause_becomes_a_sentence_with_its_names_as_written(clause: str, sentence: str) -> None:
    assert as_sentence(clause) == sentence

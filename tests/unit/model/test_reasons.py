"""Reasons as sentences."""

import pytest

from weir.model.reasons import EvictionRule, as_sentence, rule_phrase


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


def test_every_rule_is_in_words_and_an_unknown_one_is_its_code() -> None:
    phrases = {rule: rule_phrase(rule) for rule in EvictionRule}
    assert phrases[EvictionRule.RECLAIM_QUOTA] == "reclaim of quota"
    assert not [phrase for phrase in phrases.values() if "_" in phrase]
    assert len(set(phrases.values())) == len(phrases)
    assert rule_phrase("of_tomorrow") == "of tomorrow"

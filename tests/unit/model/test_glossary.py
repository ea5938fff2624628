"""The glossary has every public word once, in order, with one sentence."""

import re
from pathlib import Path

from weir.model.reasons import EvictionRule
from weir.model.workloads import WorkloadType

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "glossary.md"
ENTRY = re.compile(r"^(?P<word>\S.*)\n: (?P<sentence>.+)$", re.MULTILINE)


def entries() -> list[tuple[str, str]]:
    """Return the words of the glossary with their sentences."""
    return [(found["word"], found["sentence"]) for found in ENTRY.finditer(PAGE.read_text("utf-8"))]


def test_rules_and_types_are_explained() -> None:
    page = dict(entries())
    assert {rule.value for rule in EvictionRule} <= set(page)
    assert all(f"`{type_.value}`" in page["type"] for type_ in WorkloadType)


def test_words_stand_once_and_in_order() -> None:
    words = [word for word, _ in entries()]
    assert len(words) > 50
    assert words == sorted(set(words), key=lambda word: re.sub("[-_ ]", "", word.lower()))


def test_each_word_has_one_short_sentence() -> None:
    for word, sentence in entries():
        assert sentence.endswith("."), word
        assert len(sentence.split()) <= 25, word

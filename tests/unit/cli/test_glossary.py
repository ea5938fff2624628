"""The glossary of the docs: one sentence for each public word."""

import re
from pathlib import Path
from typing import get_args

import pytest

from weir.api.workload_list import Status
from weir.cli.commands import COMMANDS
from weir.model.reasons import EvictionRule, ReasonCode

GLOSSARY = (Path(__file__).parents[3] / "docs/glossary.md").read_text()
ENTRIES = dict(re.findall(r"^- (?:\*\*|`)([^*`]+)(?:\*\*|`): (.+(?:\n  .+)*)$", GLOSSARY, re.MULTILINE))
PUBLIC = {
    "command": {f"weir {command.name}" for command in COMMANDS},
    "reason": set(ReasonCode),
    "rule of an eviction": set(EvictionRule),
    "state": set(get_args(Status)),
}


@pytest.mark.parametrize("kind", sorted(PUBLIC))
def test_each_public_word_has_an_entry(kind: str) -> None:
    assert sorted(PUBLIC[kind] - set(ENTRIES)) == []


def test_each_code_word_of_the_glossary_exists() -> None:
    written = set(re.findall(r"^- `([^`]+)`:", GLOSSARY, re.MULTILINE))
    assert sorted(written - set().union(*PUBLIC.values())) == []


@pytest.mark.parametrize("word", sorted(ENTRIES))
def test_an_entry_is_one_sentence(word: str) -> None:
    assert re.fullmatch(r"[^.]+\.", ENTRIES[word])
    assert len(ENTRIES[word].split()) <= 25

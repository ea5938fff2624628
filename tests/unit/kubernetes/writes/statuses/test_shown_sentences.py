"""Sentences with words of people: nothing in them controls a terminal, or turns the text around."""

from typing import Any

import msgspec
from tests.unit.kubernetes.small_world import job, node, pod, project
from tests.unit.kubernetes.test_backend import Scene

from weir.kubernetes.writes.statuses.values import SENTENCE_MAX, cut

HOSTILE = "<b>\u202eevil\u2066\x1b[31m\r\nX"


def test_a_sentence_has_no_unprintable_characters() -> None:
    assert cut("plain, and naïve") == "plain, and naïve"
    assert cut(HOSTILE) == r"<b>\u202eevil\u2066\x1b[31m\r\nX"
    assert len(cut("\u202e" * 10 * SENTENCE_MAX)) == SENTENCE_MAX


def test_a_project_with_unprintable_characters_is_written_escaped_everywhere() -> None:
    here = Scene()
    here.hear("nodes", node("n1"))
    here.hear("projects", project("team"))
    here.hear("owners", job("train", "j1", 1))
    named: Any = pod("train-0", owner=("train", "j1"), labels={"weir.dev/project": HOSTILE})
    here.hear("pods", named)
    here.step()
    here.now_s += 60.0
    written = "".join(map(repr, here.reported()))
    assert r"There is no project <b>\\u202eevil" in written
    assert not {each for each in written if not each.isprintable()}
    assert msgspec.json.encode(HOSTILE).decode() not in written

"""More questions than may wait for the database: the answer is short, and says so."""

import asyncio
import threading

import pytest

from weir.api.answers import EventFilter
from weir.kubernetes.history import stored_answers
from weir.kubernetes.history.options import HistoryOptions
from weir.kubernetes.history.stored_answers import StoredAnswers
from weir.kubernetes.query.aggregation.refusals import QueryRefused


async def test_a_question_that_finds_no_place_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_answers, "WAITING_MAX", 1)
    monkeypatch.setattr(stored_answers, "ANSWER_S", 60.0)
    asked, answered = threading.Event(), threading.Event()

    def url() -> str:
        asked.set()
        answered.wait()
        raise ValueError("There is no database.")

    answers = StoredAnswers(HistoryOptions(url), lambda: "c1")
    first = asyncio.ensure_future(answers.events(EventFilter(), 0, 9))
    await asyncio.to_thread(asked.wait)
    assert answers.note is None
    assert await answers.events(EventFilter(), 0, 9) is None
    assert "queries wait for it already" in str(answers.note)
    refusal = QueryRefused(404, "There is no workload a in ns.").noted(answers.note)
    assert (refusal.status, refusal.sentence.startswith("There is no workload a in ns. The history's")) == (
        404,
        True,
    )
    answered.set()
    assert await first is None
    assert "questions wait" not in str(answers.note)
    assert QueryRefused(404, "No.").noted(None).sentence == "No."
    answers.close()

"""Questions to a database that can't be reached: people learn that, and the log learns the address."""

import pytest

from weir.api.answers import EventFilter
from weir.kubernetes.history.options import HistoryOptions
from weir.kubernetes.history.stored_answers import IN_LOG, StoredAnswers


async def test_people_are_not_shown_the_words_of_a_driver() -> None:
    pytest.importorskip("psycopg")
    url = "postgresql://weir@127.0.0.1:1/history"
    answers = StoredAnswers(HistoryOptions(lambda: url), lambda: "c1")
    assert await answers.events(EventFilter(), 0, 9) is None
    assert answers.note is not None
    assert answers.note.endswith(IN_LOG)
    answers.close()

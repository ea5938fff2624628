"""Suggestions that are tried in the background: a reason doesn't wait, and nothing is tried twice."""

import asyncio

import pytest

from weir.api.answers import Suggestion, WhyAnswer
from weir.service import kept_suggestions
from weir.service.kept_suggestions import (
    PERSON_TRIALS_MAX,
    TRIALS_MAX,
    KeptSuggestions,
    with_suggestions_found,
)
from weir.service.suggestions import SuggestionsFound

LONG_S = 60.0


class Trials:
    """Trials that end when they are let."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = asyncio.Event()

    async def __call__(self) -> SuggestionsFound:
        self.begun += 1
        number = self.begun
        await self.may_end.wait()
        return SuggestionsFound((Suggestion(sentence=f"{number}."),))


def sentences(answer: SuggestionsFound | None) -> list[str] | None:
    return None if answer is None else [suggestion.sentence for suggestion in answer.suggestions]


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(kept_suggestions, "monotonic", lambda: now[0])
    return now


async def test_trials_go_on_without_a_waiter_and_serve_all_requesters() -> None:
    kept, trials = KeptSuggestions(), Trials()
    assert await kept.find("a", 1, trials, 0.0) is None
    waits = [asyncio.create_task(kept.find("a", 1, trials, LONG_S)) for _ in range(3)]
    await asyncio.sleep(0)
    waits[0].cancel()
    trials.may_end.set()
    assert [sentences(await wait) for wait in waits[1:]] == [["1."], ["1."]]
    assert sentences(await kept.find("a", 1, trials, 0.0)) == ["1."]
    assert trials.begun == 1


async def test_another_version_is_tried_again_and_a_late_old_one_does_not_replace_it() -> None:
    kept, old, new = KeptSuggestions(), Trials(), Trials()
    new.begun = 1
    assert await kept.find("a", 1, old, 0.0) is None
    new.may_end.set()
    assert sentences(await kept.find("a", 2, new, LONG_S)) == ["2."]
    old.may_end.set()
    await asyncio.sleep(0)
    assert sentences(await kept.find("a", 2, new, LONG_S)) == ["2."]


async def test_they_are_kept_for_some_time_and_then_forgotten(now_s: list[float]) -> None:
    kept, trials = KeptSuggestions(), Trials()
    trials.may_end.set()
    assert sentences(await kept.find("a", 1, trials, LONG_S)) == ["1."]
    now_s[0] += kept_suggestions.KEPT_S
    assert sentences(await kept.find("a", 1, trials, LONG_S)) == ["1."]
    now_s[0] += 1
    assert sentences(await kept.find("b", 1, trials, LONG_S)) == ["2."]
    assert sentences(await kept.find("a", 1, trials, LONG_S)) == ["3."]


async def test_failed_trials_are_told_to_those_who_wait_and_made_again() -> None:
    kept, trials = KeptSuggestions(), Trials()
    trials.may_end.set()

    async def failing() -> SuggestionsFound:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    assert await kept.find("a", 1, failing, 0.0) is None
    await asyncio.sleep(0.01)
    with pytest.raises(ZeroDivisionError):
        await kept.find("a", 1, failing, LONG_S)
    assert sentences(await kept.find("a", 1, trials, LONG_S)) == ["1."]


async def test_no_more_than_some_are_under_way_and_the_next_begins_when_one_ends() -> None:
    kept, trials, late = KeptSuggestions(), Trials(), Trials()
    late.may_end.set()
    for uid in range(TRIALS_MAX):
        assert await kept.find(uid, 1, trials, 0.0) is None
    assert await kept.find("late", 1, late, 0.0) is None
    assert await kept.find("late", 1, late, 0.01) is None
    assert late.begun == 0
    waits = asyncio.create_task(kept.find("late", 1, late, LONG_S))
    await asyncio.sleep(0)
    trials.may_end.set()
    assert sentences(await waits) == ["1."]


async def test_a_person_who_asks_about_many_waits_for_their_own_and_holds_up_no_one_else() -> None:
    kept, trials, quick = KeptSuggestions(), Trials(), Trials()
    quick.may_end.set()
    for uid in range(PERSON_TRIALS_MAX + 2):
        assert await kept.find(uid, 1, trials, 0.0, "mia") is None
    await asyncio.sleep(0)
    assert trials.begun == PERSON_TRIALS_MAX
    assert sentences(await kept.find("b", 1, quick, LONG_S, "ben")) == ["1."]
    waits = asyncio.create_task(kept.find("m", 1, quick, LONG_S, "mia"))
    await asyncio.sleep(0)
    assert quick.begun == 1
    trials.may_end.set()
    assert sentences(await waits) == ["2."]


def test_an_answer_without_suggestions_says_if_they_are_still_being_tried() -> None:
    answer = WhyAnswer(name="a", status="pending", reason=None)
    assert with_suggestions_found(answer, None).unfinished
    done = with_suggestions_found(answer, SuggestionsFound((Suggestion(sentence="x."),), ("more GPUs",)))
    assert (done.unfinished, done.untried, len(done.suggestions)) == (False, ["more GPUs"], 1)

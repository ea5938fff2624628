"""Places for the requests of several people."""

import asyncio
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.unit.kubernetes.query.test_routes import Answers, Rights, served

from weir.kubernetes.query.aggregation.discovery import ROOT
from weir.kubernetes.query.aggregation.refusals import QueryRefused
from weir.kubernetes.query.aggregation.request_places import RequestPlaces
from weir.kubernetes.query.routes import LARGE_OF_ONE_MAX


async def test_requests_of_one_person_leave_places_for_others(tmp_path: Path) -> None:
    answers = Answers()
    async with served(tmp_path, Rights(), answers) as session:

        async def status_of(person: str, path: str) -> int:
            async with session.get(f"{ROOT}/{path}", headers={"X-Remote-User": person}) as answer:
                return answer.status

        large = LARGE_OF_ONE_MAX
        held = [asyncio.create_task(status_of("ann", "pools/cluster/snapshot")) for _ in range(large)]
        for _ in held:
            await asyncio.wait_for(answers.begun.acquire(), 60)
        assert await status_of("ann", "pools/cluster/snapshot") == 429
        held.append(asyncio.create_task(status_of("bob", "pools/cluster/snapshot")))
        await asyncio.wait_for(answers.begun.acquire(), 60)
        answers.go_on.set()
        assert await asyncio.gather(*held) == [200] * (large + 1)


def test_a_person_has_a_limit_below_that_of_all() -> None:
    places = RequestPlaces(3, 2)
    with ExitStack() as taken:
        for person in ("ann", "ann", "bob"):
            with suppress(QueryRefused):
                taken.enter_context(places.taken(person))
        for person, sentence in (("ann", "too many"), ("cat", "too many")):
            with pytest.raises(QueryRefused, match=sentence), places.taken(person):
                pass
    with ExitStack() as taken:
        for _ in range(2):
            taken.enter_context(places.taken("ann"))
        with pytest.raises(QueryRefused, match="You have 2"), places.taken("ann"):
            pass
        with places.taken("bob"):
            pass

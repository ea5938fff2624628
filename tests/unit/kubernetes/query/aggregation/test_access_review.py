"""Rights of people, as the API server states them."""

import asyncio
from typing import Any

import pytest
from tests.unit.kubernetes.query.test_routes import Rights

from weir.kubernetes.query.aggregation.access_review import OF_ONE_MAX, UNDER_WAY_MAX, AccessReviewer
from weir.kubernetes.query.aggregation.front_proxy import Identity
from weir.kubernetes.query.aggregation.refusals import QueryRefused


async def decisions(people: list[Identity]) -> tuple[Rights, list[bool]]:
    """Return the rights of people who send requests at the same time, and the API server that decides."""
    api: Any = Rights()
    reviewer = AccessReviewer(api)
    found = await asyncio.gather(*(reviewer.may_list(person, "workloads") for person in people))
    return api, found


async def test_reviews_are_bounded() -> None:
    api, found = await decisions([Identity(f"p{at}") for at in range(UNDER_WAY_MAX + 5)])
    assert found.count(True) == len(api.asked) == UNDER_WAY_MAX


async def test_requests_of_one_person_share_a_review() -> None:
    api, found = await decisions([*[Identity("ann")] * (UNDER_WAY_MAX + 5), Identity("bob")])
    assert (all(found), len(api.asked)) == (True, 2)


async def test_many_tokens_of_one_person_leave_reviews_to_others() -> None:
    tokens = [Identity("ann", extra=(("id", (str(at),)),)) for at in range(UNDER_WAY_MAX)]
    api, found = await decisions([*tokens, Identity("bob")])
    assert (found[-1], found.count(True), len(api.asked)) == (True, OF_ONE_MAX + 1, OF_ONE_MAX + 1)


@pytest.mark.parametrize(("allowed", "status"), [(False, 403), (None, 503)])
async def test_a_right_that_is_unknown_is_refused_for_now(allowed: bool | None, status: int) -> None:
    api: Any = Rights(allowed)
    with pytest.raises(QueryRefused) as refused:
        await AccessReviewer(api).refuse_unless_lists(Identity("ann"), "workloads", "It needs a right.")
    assert refused.value.status == status
    assert (refused.value.sentence == "It needs a right.") == (allowed is False)

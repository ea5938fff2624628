"""Rights to metrics: equal questions are one, and an earlier answer counts while the API server is away."""

import asyncio
from typing import Any

import msgspec
import pytest

from weir.kubernetes.admission.token_review import (
    KEPT_AWAY_S,
    KEPT_S,
    NEW,
    NEW_OF_ADDRESS,
    TokenReviewer,
    TooManyTokens,
)
from weir.kubernetes.api.errors import ApiError, ApiUnreachable
from weir.kubernetes.api.subject_reviews import TokenReview


class Authenticator:
    """Vouches for the token `good`, when it is let; `trouble` is what it raises instead."""

    def __init__(self) -> None:
        self.reviews = 0
        self.go = asyncio.Event()
        self.go.set()
        self.trouble: ApiError | None = None
        self.good = "good"

    async def post(self, _path: str, body: dict[str, Any], of: type[Any]) -> Any:
        self.reviews += of is TokenReview
        await self.go.wait()
        if self.trouble is not None:
            raise self.trouble
        good = of is not TokenReview or body["spec"]["token"] == self.good
        return msgspec.convert({"status": {"authenticated": good, "allowed": good}}, of)


class Site:
    """A reviewer with a clock of its own."""

    def __init__(self) -> None:
        self.api, self.now_s = Authenticator(), 0.0
        self.reviewer = TokenReviewer(self.api, lambda: self.now_s)  # type: ignore[arg-type]

    async def may(self, token: str = "good", address: str = "10.0.0.1") -> bool | None:
        return await self.reviewer.may_get(f"Bearer {token}", "/metrics", address)


@pytest.mark.parametrize("known", [False, True])
async def test_requests_with_one_token_at_a_time_are_one_review(*, known: bool) -> None:
    site = Site()
    if known:
        assert await site.may()
        site.now_s = KEPT_S
    before = site.api.reviews
    site.api.go.clear()
    asked = [asyncio.create_task(site.may()) for _ in range(50)]
    for _ in range(5):
        await asyncio.sleep(0)
    asked[0].cancel()  # the others still get the answer
    site.api.go.set()
    assert await asyncio.gather(*asked[1:]) == [True] * 49
    assert site.api.reviews == before + 1


async def test_a_known_bearer_reads_on_while_the_api_server_is_away_and_no_stranger_does() -> None:
    site = Site()
    assert await site.may()
    site.api.trouble = ApiUnreachable("it is away", may_have_happened=False)
    site.now_s = KEPT_AWAY_S - 1
    assert await site.may()
    with pytest.raises(ApiError):
        await site.may("other")
    site.now_s = KEPT_AWAY_S
    with pytest.raises(ApiError):
        await site.may()
    site.api.trouble = None
    assert await site.may()


async def test_a_known_bearer_waits_a_moment_alone_for_an_api_server_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("weir.kubernetes.admission.token_review.ANSWER_S", 0.01)
    site = Site()
    assert await site.may()
    site.now_s = KEPT_S
    site.api.go.clear()
    assert await site.may()
    assert await site.may()
    assert site.api.reviews == 2
    site.api.go.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert await site.may()
    assert site.api.reviews == 2, "the answer that came late counts"


async def test_a_bearer_whom_the_api_server_refuses_is_a_stranger_at_once() -> None:
    site = Site()
    assert await site.may("bad") is None
    assert await site.may()
    site.now_s, site.api.good = KEPT_S, "another"
    assert await site.may() is None
    site.api.trouble = ApiUnreachable("it is away", may_have_happened=False)
    with pytest.raises(ApiError):
        await site.may()


async def test_a_flood_of_one_address_leaves_the_turn_of_a_new_prometheus() -> None:
    site = Site()
    refused = 0
    for at in range(3 * NEW.at_once):
        try:
            assert await site.may(f"forged-{at}", "10.0.0.66") is None
        except TooManyTokens:
            refused += 1
    assert site.api.reviews == NEW_OF_ADDRESS.at_once
    assert refused == 3 * NEW.at_once - NEW_OF_ADDRESS.at_once
    assert await site.may()


async def test_equal_questions_give_their_address_one_token_back() -> None:
    site = Site()
    for at in range(NEW_OF_ADDRESS.at_once - 1):
        assert await site.may(f"own-{at}") is None
    site.api.go.clear()
    asked = [asyncio.create_task(site.may()) for _ in range(50)]
    await asyncio.sleep(0)
    site.api.go.set()
    assert all(await asyncio.gather(*asked))
    assert await site.may("own-last") is None
    with pytest.raises(TooManyTokens):
        await site.may("own-beyond")

"""Access to Weir's metrics: the API server authenticates a token and decides about its bearer's rights.

Answers are kept for a minute, by the token's digest: a Prometheus asks all the time. Equal questions at a
time are one.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from functools import partial

from weir.control.token_bucket import TokenRate
from weir.kubernetes.admission.token_rates import TokenRates
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.subject_reviews import bearer_token, is_allowed, review_token

KEPT_S = 60.0
KEPT_AWAY_S = 3600.0
"""Time for which a cached review is valid while the API server doesn't answer."""
ANSWER_S = 3.0
"""Time that the bearer of a token with an earlier answer waits for a new one."""
UNDER_WAY_MAX = 8
"""Limit of concurrent reviews; further callers are refused for now."""
NEW, NEW_OF_ADDRESS = TokenRate(100, 5.0), TokenRate(20, 0.2)
"""Rates of reviews of new tokens: in total, and of one address."""
TOKENS_MAX = 1024
_Key = tuple[bytes, str]
"""Digest of a token, and a path."""


class TooManyTokens(Exception):
    """Too many tokens are under review; the caller has to retry."""


class TokenReviewer:
    """Check of rights to non-resource paths such as /metrics."""

    def __init__(self, api: ApiClient, now_s: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._now_s = now_s
        self._answers: dict[_Key, tuple[float, bool]] = {}
        self._rates = TokenRates(NEW, NEW_OF_ADDRESS, now_s())
        self._asked: dict[_Key, asyncio.Task[bool | None]] = {}  # reviews in progress

    async def may_get(self, authorization: str, path: str, address: str = "") -> bool | None:
        """Return True if the bearer of this header may get this path; None if the token is unknown.

        While the API server can't be reached an earlier answer stays valid: metrics are needed most then.

        Raises:
            TooManyTokens: the answer isn't known yet.
            ApiError: the API server doesn't answer.
        """
        token = bearer_token(authorization)
        if not token:
            return None
        key = hashlib.sha256(token.encode()).digest(), path
        cached, now_s = self._answers.get(key), self._now_s()
        if cached is not None and now_s - cached[0] < KEPT_S:
            return cached[1]
        asked, is_new = self._asked.get(key), False
        if asked is None:
            is_new = cached is None
            if is_new and (not self._rates.take(address, now_s) or len(self._asked) >= UNDER_WAY_MAX):
                raise TooManyTokens
            asked = self._asked[key] = asyncio.create_task(self._ask(key, token, path))
            asked.add_done_callback(partial(self._answered, key))
        counts = cached is not None and now_s - cached[0] < KEPT_AWAY_S
        try:
            allowed = await asyncio.wait_for(asyncio.shield(asked), ANSWER_S if counts else None)
        except (ApiError, TimeoutError):
            if cached is None or not counts:
                raise
            return cached[1]
        # Of several equal requests, the first one took a token of the bucket
        if is_new and allowed is not None:
            self._rates.vouched(address)
        return allowed

    async def _ask(self, key: _Key, token: str, path: str) -> bool | None:
        """Ask the API server, and keep its answer; None without an answer."""
        review = await review_token(self._api, token)
        if not review.authenticated:
            self._answers.pop(key, None)
            return None
        attributes = {"nonResourceAttributes": {"path": path, "verb": "get"}}
        allowed = await is_allowed(self._api, review.user, attributes)
        if len(self._answers) >= TOKENS_MAX:
            self._answers.clear()
        self._answers[key] = self._now_s(), allowed
        return allowed

    def _answered(self, key: _Key, asked: "asyncio.Task[bool | None]") -> None:
        del self._asked[key]
        if not asked.cancelled():
            asked.exception()  # retrieve the error of a review without waiters

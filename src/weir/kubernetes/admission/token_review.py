"""Access to Weir's metrics: the API server authenticates a token and says what its bearer may read.

Answers are kept for a minute, by the token's digest: a Prometheus asks all the time.
"""

import hashlib
import time
from collections.abc import Callable

from msgspec import Struct, field

from weir.control.token_bucket import TokenBucket
from weir.kubernetes.api.client import ApiClient

KEPT_S = 60.0
UNDER_WAY_MAX = 8
"""Tokens that the API server is asked about at a time; callers beyond are refused for now."""
NEW_AT_ONCE, NEW_PER_S = 100, 5.0
"""Tokens that the API server didn't vouch for before and is asked about: a burst, then a rate."""
TOKENS_MOST, TOKEN_LENGTH_MOST = 1024, 16_384


class TooManyTokens(Exception):
    """The API server is being asked about other tokens; the caller has to try again."""


class User(Struct):
    """User of a token."""

    username: str = ""
    groups: list[str] = []
    uid: str = ""
    extra: dict[str, list[str]] = {}


class TokenStatus(Struct):
    """Result of a TokenReview."""

    authenticated: bool = False
    user: User = field(default_factory=User)
    audiences: list[str] = []


class TokenReview(Struct):
    """The answer to a token."""

    status: TokenStatus = field(default_factory=TokenStatus)


class AccessStatus(Struct):
    """Result of a SubjectAccessReview."""

    allowed: bool = False


class AccessReview(Struct):
    """Answer of the API server: is this account allowed to do this?"""

    status: AccessStatus = field(default_factory=AccessStatus)


class TokenReviewer:
    """Check of rights to non-resource paths such as /metrics."""

    def __init__(self, api: ApiClient, now_s: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._now_s = now_s
        self._known: dict[tuple[bytes, str], tuple[float, bool]] = {}
        self._new = TokenBucket(NEW_AT_ONCE, now_s())
        self._under_way = 0

    async def may_get(self, authorization: str, path: str) -> bool | None:
        """Return True if the bearer of this header may get this path; None if the token is unknown.

        Raises:
            TooManyTokens: the answer isn't known yet.
            ApiError: the API server doesn't answer.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not 0 < len(token) <= TOKEN_LENGTH_MOST:
            return None
        key = hashlib.sha256(token.encode()).digest(), path
        known, now_s = self._known.get(key), self._now_s()
        if known is not None and now_s - known[0] < KEPT_S:
            return known[1]
        if known is None and self._new.take(1.0, NEW_PER_S, NEW_AT_ONCE, now_s):
            raise TooManyTokens
        if known is None and self._under_way >= UNDER_WAY_MAX:
            raise TooManyTokens
        self._under_way += 1
        try:
            user = await self._user(token)
            allowed = user is not None and await self._allowed(user, path)
        finally:
            self._under_way -= 1
        if user is None:
            self._known.pop(key, None)
            return None
        if len(self._known) >= TOKENS_MOST:
            self._known.clear()
        self._known[key] = self._now_s(), allowed
        return allowed

    async def _user(self, token: str) -> User | None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await self._api.post("/apis/authentication.k8s.io/v1/tokenreviews", body, TokenReview)
        return answer.status.user if answer.status.authenticated else None

    async def _allowed(self, user: User, path: str) -> bool:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.username,
                "groups": user.groups,
                "uid": user.uid,
                "nonResourceAttributes": {"path": path, "verb": "get"},
            },
        }
        answer = await self._api.post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews", body, AccessReview
        )
        return answer.status.allowed

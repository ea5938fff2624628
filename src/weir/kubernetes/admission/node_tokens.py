"""Identity of the agents of nodes: the API server says on which node the bearer of a token runs.

The token is for Weir alone (its audience), and for one account. So an agent speaks for its own node only.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import Any

from weir.kubernetes.admission.token_review import TOKEN_LENGTH_MOST, TOKENS_MOST, TokenReview
from weir.kubernetes.api.client import ApiClient

AUDIENCE = "node.weir.dev"
ACCOUNT = "weir-node"
"""Service account of the agents, in Weir's namespace."""
KEPT_S = 300.0
"""Time for which an answer of the API server counts. A token of a deleted pod is refused after it."""
UNDER_WAY_MAX, WAITING_MAX = 16, 256
"""Tokens that the API server is asked about at a time, and those that may wait for it."""
WAIT_S = 5.0
"""Time that a token waits. An agent that is refused reports again after half a minute."""
_NODE = "authentication.kubernetes.io/node-name"


class TooManyTokens(Exception):
    """The API server is being asked about other tokens; the caller has to try again."""


class NodeTokens:
    """Answers of the API server by token, kept for a while."""

    def __init__(self, api: ApiClient, namespace: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._account = f"system:serviceaccount:{namespace}:{ACCOUNT}"
        self._now_s = now_s
        self._known: dict[bytes, tuple[float, str]] = {}
        self._free = asyncio.Semaphore(UNDER_WAY_MAX)
        self._waiting = 0

    async def node_of(self, authorization: str) -> str:
        """Return the node of the agent with this header; nothing if the bearer is no agent.

        Raises:
            TooManyTokens: the answer isn't known yet.
            ApiError: the API server doesn't answer.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not 0 < len(token) <= TOKEN_LENGTH_MOST:
            return ""
        key = hashlib.sha256(token.encode(errors="replace")).digest()
        known = self._known.get(key)
        if known is not None and self._now_s() - known[0] < KEPT_S:
            return known[1]
        node = await self._in_turn(token)
        if len(self._known) >= 16 * TOKENS_MOST:
            self._known.clear()
        self._known[key] = self._now_s(), node
        return node

    async def _in_turn(self, token: str) -> str:
        """Ask when few others are asked: after a start, each agent comes with a token that is new here."""
        if self._waiting >= WAITING_MAX:
            raise TooManyTokens
        self._waiting += 1
        try:
            await asyncio.wait_for(self._free.acquire(), WAIT_S)
        except TimeoutError:
            raise TooManyTokens from None
        finally:
            self._waiting -= 1
        try:
            return await self._ask(token)
        finally:
            self._free.release()

    async def _ask(self, token: str) -> str:
        body: dict[str, Any] = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        answer = await self._api.post("/apis/authentication.k8s.io/v1/tokenreviews", body, TokenReview)
        status = answer.status
        if not status.authenticated or status.user.username != self._account:
            return ""
        if AUDIENCE not in status.audiences:
            return ""  # an API server that knows no audiences vouches for tokens of any
        return next(iter(status.user.extra.get(_NODE, [])), "")

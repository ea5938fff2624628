"""Identity of node agents: the API server reviews their tokens, which name the node.

The token is for Weir alone (its audience), and for one account. So an agent speaks for its own node only.

Every pod of the cluster may reach the port, with tokens of its own making. Tokens that don't even claim to be
an agent's are refused at no cost. The others cost the API server a review each, so reviews are limited for
each address and in all. Tokens of known agents have no such limit, and no other token can displace them from
the cache.
"""

import asyncio
import base64
import hashlib
import time
from collections.abc import Callable

import msgspec

from weir.control.token_bucket import TokenRate
from weir.kubernetes.admission.token_rates import TokenRates
from weir.kubernetes.admission.token_review import TOKENS_MAX, TooManyTokens
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.subject_reviews import bearer_token, review_token

AUDIENCE = "node.weir.dev"
ACCOUNT = "weir-node"
"""Service account of the agents, in Weir's namespace."""
KEPT_S = 300.0
"""Time for which a review is cached; a deleted pod's token is refused after it."""
FORGOTTEN_S = 2 * KEPT_S
"""Time after which the token of a silent agent is forgotten."""
AGENTS_MAX = 40_000
"""Limit of cached agents' tokens: two for each node, because tokens rotate."""
NEW = TokenRate(1_000, 100.0)
"""Rate of reviews of tokens that aren't known as an agent's: a burst, and the number per second."""
NEW_OF_ADDRESS = TokenRate(64, 1.0)
"""The same rate for one address; a proxy may give all agents the same address."""
UNDER_WAY_MAX, WAITING_MAX = 16, 256
"""Limits of concurrent reviews, and of tokens that wait for one."""
WAIT_S = 5.0
"""Time that a token waits for a review. A refused agent reports again after half a minute."""
_NODE = "authentication.kubernetes.io/node-name"


class _Claims(msgspec.Struct):
    """Unverified claims of a token."""

    sub: str = ""
    aud: str | list[str] = ""


class NodeTokens:
    """Answers of the API server by token, cached for a while."""

    def __init__(self, api: ApiClient, namespace: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._account = f"system:serviceaccount:{namespace}:{ACCOUNT}"
        self._now_s = now_s
        self._agents: dict[bytes, tuple[float, str]] = {}  # in the order of their last reviews
        self._refused: dict[bytes, float] = {}
        self._rates = TokenRates(NEW, NEW_OF_ADDRESS, now_s())
        self._free = asyncio.Semaphore(UNDER_WAY_MAX)
        self._waiting = 0

    async def node_of(self, authorization: str, address: str = "") -> str:
        """Return the node of the agent that sent this header; an empty text if the sender is no agent.

        Raises:
            TooManyTokens: the answer isn't known yet.
            ApiError: the API server doesn't answer.
        """
        token = bearer_token(authorization)
        if not self._claims_to_be_an_agent(token):
            return ""
        key, now_s = hashlib.sha256(token.encode()).digest(), self._now_s()
        agent = self._agents.get(key)
        if agent is not None and now_s - agent[0] < KEPT_S:
            return agent[1]
        if now_s - self._refused.get(key, -KEPT_S) < KEPT_S:
            return ""
        if agent is None and not self._rates.take(address, now_s):
            raise TooManyTokens
        node = await self._in_turn(token, is_known=agent is not None)
        if agent is None and node:
            self._rates.vouched(address)
        self._note(key, node)
        return node

    def _claims_to_be_an_agent(self, token: str) -> bool:
        """Return True if a token claims to be an agent's, which is unverified."""
        if token.count(".") != 2 or not token.isascii():
            return False
        part = token.split(".")[1]
        try:
            claims = msgspec.json.decode(
                base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), type=_Claims
            )
        except (ValueError, RecursionError):
            return False
        audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        return claims.sub == self._account and AUDIENCE in audiences

    def _note(self, key: bytes, node: str) -> None:
        """Cache a review. The oldest are dropped, agents and others separately."""
        now_s = self._now_s()
        self._agents.pop(key, None)
        if not node:
            if len(self._refused) >= TOKENS_MAX:
                self._refused.clear()
            self._refused[key] = now_s
            return
        self._agents[key] = now_s, node
        while len(self._agents) > AGENTS_MAX or now_s - next(iter(self._agents.values()))[0] > FORGOTTEN_S:
            del self._agents[next(iter(self._agents))]

    async def _in_turn(self, token: str, *, is_known: bool) -> str:
        """Review a token when few others wait: after a start, each agent has a token that is new here."""
        if is_known:  # no more of these than agents
            return await self._ask(token)
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
        status = await review_token(self._api, token, [AUDIENCE])
        if not status.authenticated or status.user.username != self._account:
            return ""
        if AUDIENCE not in status.audiences:
            return ""  # an API server without audiences would accept tokens for any
        return next(iter(status.user.extra.get(_NODE, [])), "")

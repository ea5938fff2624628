"""Rights of people beyond the path of their request: the API server decides, cached for some seconds."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.subject_reviews import User, is_allowed
from weir.kubernetes.query.aggregation.discovery import GROUP, VERSION
from weir.kubernetes.query.aggregation.front_proxy import Identity
from weir.kubernetes.query.aggregation.refusals import QueryRefused

KEPT_S = 10.0
ANSWERS_MAX = 1_000
UNDER_WAY_MAX, OF_ONE_MAX = 16, 4
"""Limits of concurrent access reviews, of all people and of one; beyond them a right is unknown for now."""


class AccessReviewer:
    """Rights to read a resource of the whole cluster."""

    def __init__(self, api: ApiClient, now_s: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._now_s = now_s
        self._answers: dict[tuple[Identity, str], tuple[float, bool]] = {}
        self._under_way: dict[tuple[Identity, str], asyncio.Task[bool | None]] = {}

    async def may_list(self, person: Identity, resource: str) -> bool:
        """Return True if a person may list a resource in all namespaces; False if it is unknown for now."""
        return bool(await self._decided(person, resource))

    async def refuse_unless_lists(self, person: Identity, resource: str, refusal: str) -> None:
        """Refuse a person who may not list a resource of the API in all namespaces.

        Raises:
            QueryRefused: with this sentence, or because the right is unknown for now.
        """
        decided = await self._decided(person, resource)
        if decided is None:
            raise QueryRefused(
                503, f"The API server doesn't say now if you may list {resource}: try again in some seconds."
            )
        if not decided:
            raise QueryRefused(403, refusal)

    async def _decided(self, person: Identity, resource: str) -> bool | None:
        """Return the decision of the API server; None if it is unknown for now."""
        key = person, resource
        cached = self._answers.get(key)
        if cached is not None and self._now_s() - cached[0] < KEPT_S:
            return cached[1]
        review = self._under_way.get(key)
        if review is None:
            of_one = sum(other.user == person.user for other, _ in self._under_way)
            if of_one >= OF_ONE_MAX or len(self._under_way) >= UNDER_WAY_MAX:
                return None
            review = self._under_way[key] = asyncio.create_task(self._review(person, resource))
        return await asyncio.shield(review)  # a request that ends must not cancel the others

    async def _review(self, person: Identity, resource: str) -> bool | None:
        key = person, resource
        try:
            allowed = await is_allowed(self._api, _user(person), _listing(resource))
        except ApiError:
            return None  # not cached
        finally:
            del self._under_way[key]
        if len(self._answers) >= ANSWERS_MAX:
            self._answers.clear()
        self._answers[key] = self._now_s(), allowed
        return allowed


def _user(person: Identity) -> User:
    extra = {key: list(values) for key, values in person.extra}
    return User(person.user, list(person.groups), person.uid, extra)


def _listing(resource: str) -> dict[str, Any]:
    listed = {"group": GROUP, "version": VERSION, "resource": resource, "verb": "list"}
    return {"resourceAttributes": listed}

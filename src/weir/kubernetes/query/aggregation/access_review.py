"""Rights of people beyond the path of their request: the API server decides, for some seconds at a time."""

import time
from collections.abc import Callable
from typing import Any

from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.subject_reviews import User, is_allowed
from weir.kubernetes.query.aggregation.discovery import GROUP, VERSION
from weir.kubernetes.query.aggregation.front_proxy import Identity

KEPT_S = 10.0
ANSWERS_MAX = 1_000
UNDER_WAY_MAX = 16
"""Limit of concurrent access reviews; beyond it a right is denied for now."""


class AccessReviewer:
    """Rights to read a resource of the whole cluster."""

    def __init__(self, api: ApiClient, now_s: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._now_s = now_s
        self._known: dict[tuple[Identity, str], tuple[float, bool]] = {}
        self._under_way = 0

    async def may_list(self, person: Identity, resource: str) -> bool:
        """Return True if a person may list a resource of the API in all namespaces."""
        key = person, resource
        known = self._known.get(key)
        if known is not None and self._now_s() - known[0] < KEPT_S:
            return known[1]
        if self._under_way >= UNDER_WAY_MAX:
            return False
        self._under_way += 1
        try:
            allowed = await is_allowed(self._api, _user(person), _listing(resource))
        except ApiError:
            return False  # unknown at the moment: not cached
        finally:
            self._under_way -= 1
        if len(self._known) >= ANSWERS_MAX:
            self._known.clear()
        self._known[key] = self._now_s(), allowed
        return allowed


def _user(person: Identity) -> User:
    extra = {key: list(values) for key, values in person.extra}
    return User(person.user, list(person.groups), person.uid, extra)


def _listing(resource: str) -> dict[str, Any]:
    listed = {"group": GROUP, "version": VERSION, "resource": resource, "verb": "list"}
    return {"resourceAttributes": listed}

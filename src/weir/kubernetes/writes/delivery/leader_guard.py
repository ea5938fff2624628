"""Guard of writes: a connection that sends no write unless this replica leads.

Leadership is checked before every single write, so that no caller can forget the check.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from weir.kubernetes.api.client import ApiClient, Patch
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.leader_election import Leadership

T = TypeVar("T")


class NotLeading(ApiError):
    """The request wasn't sent, because this replica no longer leads."""


class LeaderGuard:
    """Client that sends requests only in the term in which they were decided."""

    def __init__(
        self,
        api: ApiClient,
        leadership: Leadership,
        term: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a guard. `clock` has the times that are written and compared."""
        self.clock = clock
        self._api = api
        self._leadership = leadership
        self._term = term

    def check(self) -> None:
        """Check that this replica still leads in the term of the guard.

        Raises:
            NotLeading: the replica doesn't lead, or leads in a later term.
        """
        if self._leadership.term != self._term or not self._leadership.may_write():
            raise NotLeading("This one doesn't lead any more.")

    async def get(self, path: str, object_type: type[T]) -> T:
        """Return one object. Reading needs no leadership."""
        return await self._api.get(path, object_type)

    async def post(self, path: str, body: object, object_type: type[T]) -> T:
        """Create an object, or carry out the action of a subresource."""
        self.check()
        return await self._api.post(path, body, object_type)

    async def delete(self, path: str, *, uid: str, propagation: str = "", grace_s: int | None = None) -> None:
        """Delete an object, if its uid is this one; `grace_s` replaces the grace period of a pod."""
        self.check()
        await self._api.delete(path, uid=uid, propagation=propagation, grace_s=grace_s)

    async def patch(self, path: str, body: object, kind: Patch, object_type: type[T]) -> T:
        """Change part of an object."""
        self.check()
        return await self._api.patch(path, body, kind, object_type)

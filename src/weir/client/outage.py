"""Silence of a pool that answered before: waited out for a while, and reported when it begins and ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from weir.client.errors import Unreachable

PATIENCE_S = 60.0
"""Time to wait for a pool that answered before: long enough for an upgrade."""
OutageReport: TypeAlias = Callable[[Unreachable | None], None]
"""Function that is called with the error when an outage begins, and with None when the pool answers again."""


class ServerOutage:
    """Present outage of a pool. A connection that is restored at once doesn't count."""

    def __init__(
        self,
        report: OutageReport | None,
        *,
        has_answered: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._report = report
        self._has_answered = has_answered
        self._patience_s = patience_s
        self._since_s: float | None = None
        self._is_reported = False

    def answered(self) -> None:
        """Record that the pool answers."""
        if self._is_reported and self._report is not None:
            self._report(None)
        self._has_answered, self._since_s, self._is_reported = True, None, False

    def failed(self, error: Unreachable) -> None:
        """Record that the pool doesn't answer.

        Raises:
            Unreachable: it never answered, or it is silent for too long.
        """
        now_s = time.monotonic()
        if not self._has_answered:
            raise error
        if self._since_s is None:
            self._since_s = now_s
            return
        if now_s - self._since_s > self._patience_s:
            raise error
        if not self._is_reported:
            self._is_reported = True
            if self._report is not None:
                self._report(error)

"""Unix accounts of this machine, remembered for a few seconds: the account database may be on a network."""

import asyncio
import grp
import os
import pwd
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from weir.local.server.http.problem_details import RequestRefused

FRESH_S = 10.0
"""Age after which an account is looked up again: a change of its groups is then in force."""
LOOKUP_S_MAX = 10.0
ACCOUNTS_MAX = 4096
_GROUPS_MAX = 65_536


@dataclass(frozen=True, slots=True)
class UnixAccount:
    """An account, with the names of its groups."""

    name: str
    uid: int
    home: str
    groups: frozenset[str]


@dataclass(frozen=True, slots=True)
class _LookedUp:
    account: UnixAccount | None
    at_s: float


class UnixAccounts:
    """Accounts by user id and by name. Belongs to the event loop; lookups run beside it."""

    def __init__(
        self,
        lookup: Callable[[int | str], UnixAccount | None] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._lookup = read_account if lookup is None else lookup
        self._clock = clock
        self._accounts: dict[int | str, _LookedUp] = {}
        self._running: dict[int | str, asyncio.Task[None]] = {}

    async def get(self, which: int | str) -> UnixAccount | None:
        """Return the account with a user id or a name from a recent look-up; None if there is none.

        Raises:
            RequestRefused: the account database doesn't answer.
        """
        cached = self._accounts.get(which)
        if cached is None or self._clock() - cached.at_s >= FRESH_S:
            task = self._running.get(which)
            if task is None:
                task = self._running[which] = asyncio.create_task(self._look(which))
            try:
                await asyncio.wait_for(asyncio.shield(task), LOOKUP_S_MAX)
            except (TimeoutError, OSError):
                raise RequestRefused(
                    503, "The account database of this machine doesn't answer: try again.", retry_after_s=5.0
                ) from None
            cached = self._accounts[which]
        return cached.account

    async def has_group(self, name: str) -> bool:
        """Return True if a Unix group exists."""
        return await asyncio.to_thread(_is_group, name)

    def cached(self, which: int | str) -> UnixAccount | None:
        """Return the account from the last look-up; None without one."""
        cached = self._accounts.get(which)
        return None if cached is None else cached.account

    async def _look(self, which: int | str) -> None:
        try:
            account = await asyncio.to_thread(self._lookup, which)
            while len(self._accounts) >= ACCOUNTS_MAX:
                del self._accounts[next(iter(self._accounts))]
            self._accounts.pop(which, None)
            self._accounts[which] = _LookedUp(account, self._clock())
        finally:
            del self._running[which]


def read_account(which: int | str) -> UnixAccount | None:
    """Return the account with a user id or a name; None if there is none, or its name can't be shown."""
    try:
        entry = pwd.getpwuid(which) if isinstance(which, int) else pwd.getpwnam(which)
    except (KeyError, ValueError):
        return None
    if not entry.pw_name.isprintable() or not entry.pw_name:
        return None
    names = set()
    for gid in os.getgrouplist(entry.pw_name, entry.pw_gid)[:_GROUPS_MAX]:
        with suppress(KeyError):
            names.add(grp.getgrgid(gid).gr_name)
    return UnixAccount(entry.pw_name, entry.pw_uid, entry.pw_dir, frozenset(names))


def _is_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except (KeyError, ValueError):
        return False
    return True

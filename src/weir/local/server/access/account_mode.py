"""Account mode of a pool: the people it serves, and the Unix users of their jobs.

A personal pool serves the user who started it. An installed pool serves everyone on the machine, each job as
its person. With `--shared-account` people have tokens, and every job runs as the user of the server.
"""

import os
from dataclasses import dataclass, field
from enum import StrEnum

from weir.local.server.access.unix_accounts import UnixAccount, UnixAccounts
from weir.local.server.http.problem_details import RequestRefused
from weir.user_names import own_user

ADMIN_GROUP = "weir-admin"
INSTALL = "`sudo weir install` serves everyone on this machine, and runs each job as its own user"
OIDC_PREFIX = "oidc:"
"""Beginning of the names of people and groups of an identity provider. No Unix account has a colon in its
name."""
_SAME_NAME = (
    "Submit with your Unix account, over ssh or on the machine. An administrator can let people act as the "
    "accounts with their names: `weir up --oidc-unix-accounts same-name`."
)
_ROOT = 0


class AccountMode(StrEnum):
    """The people that a pool serves."""

    PERSONAL = "personal"
    SHARED_ACCOUNT = "shared account"
    UNIX_ACCOUNTS = "unix accounts"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAccounts:
    """The account mode of a pool, and the accounts of its machine.

    Attributes:
        mode: the people that the pool serves.
        owner: the user of the server.
        owner_uid: the user id of the server.
        admin_group: members of this Unix group are administrators of an installed pool.
        unix: the accounts of the machine.
        oidc: True if people of an identity provider can sign in.
    """

    mode: AccountMode = AccountMode.PERSONAL
    owner: str = field(default_factory=own_user)
    owner_uid: int = field(default_factory=os.getuid)
    admin_group: str = ADMIN_GROUP
    unix: UnixAccounts = field(default_factory=UnixAccounts)
    oidc: bool = False

    def check_token_user(self, user: str) -> None:
        """Refuse to make a token for a person whom this pool doesn't serve.

        Raises:
            RequestRefused: the pool is personal, and the token is for another person.
        """
        if self.mode is AccountMode.PERSONAL and user != self.owner:
            raise RequestRefused(
                403, f"This pool is personal: it serves {self.owner} alone, not {user}. {INSTALL}."
            )

    def is_admin(self, account: UnixAccount) -> bool:
        """Return True for root, members of the group of administrators, and the pool's own account."""
        return account.uid in (_ROOT, self.owner_uid) or self.admin_group in account.groups

    async def job_account(self, user: str) -> UnixAccount | None:
        """Return the account that a person's jobs run as; None for the account of the server.

        Raises:
            RequestRefused: the person has no account here, or no job may run as it.
        """
        if self.mode is not AccountMode.UNIX_ACCOUNTS:
            return None
        if user.startswith(OIDC_PREFIX):
            raise RequestRefused(403, f"{user} has no account on this machine to run jobs as. {_SAME_NAME}")
        account = await self.unix.get(user)
        if account is None:
            raise RequestRefused(
                403, f"{user} has no account on this machine to run jobs as: ask its administrator for one."
            )
        if account.uid == _ROOT:
            raise RequestRefused(403, "No job runs as root: submit it as yourself, without sudo.")
        if account.uid == self.owner_uid:
            raise RequestRefused(
                403, f"No job runs as {self.owner}, the account of the pool itself: submit it as yourself."
            )
        return account

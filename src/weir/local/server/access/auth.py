"""Authentication: by the peer of a Unix socket, by the token in the home, or by a token that this pool made.

A credential is the hash of a token, `uid:` with the peer's user id, or `oidc:` for a person of an identity
provider. Tokens are compared by their hashes, in constant time. No token is logged or stored as text, except
the administrator's own, in a file that only its owner can read.
"""

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import Request

from weir.control.clock import in_utc
from weir.local.server.access.account_mode import INSTALL, OIDC_PREFIX, AccountMode, PoolAccounts
from weir.local.server.access.authorization import Person, Role, RoleLookup
from weir.local.server.access.unix_accounts import UnixAccount
from weir.local.server.http.peers import PeerCredentials
from weir.local.server.http.problem_details import RequestRefused
from weir.store.projects.tokens import TokenTable, token_hash
from weir.store.records import TokenRecord

if TYPE_CHECKING:
    from weir.local.server.access.oidc_sign_in import OidcSignIn  # with libraries that other pools don't need

TOKEN_FILE = "token"  # noqa: S105 - the name of a file, no secret
_TOKEN_LENGTH_MAX = 1000
_TOKEN = re.compile(r"[!-~]{20,}", re.ASCII)
"""Pattern of the administrator's token, which an administrator may also write."""
_UID = "uid:"
_SAY_WHO = (
    "Set WEIR_TOKEN to a token of this pool. Its administrator creates one with `weir token create`, and has "
    "one of their own in the file token of the pool's home ($WEIR_HOME, ~/.weir by default)."
)


class Authenticator:
    """Authenticates requests."""

    def __init__(
        self,
        admin_token: str,
        tokens: TokenTable,
        clock: Callable[[], float] = time.time,
        *,
        accounts: PoolAccounts,
        roles: RoleLookup,
        oidc: "OidcSignIn | None" = None,
    ) -> None:
        self._clock = clock
        self._admin = token_hash(admin_token)
        self._accounts = accounts
        self._roles = roles
        self._admin_person = Person(accounts.owner, is_admin=True)
        self._tokens = tokens
        self.oidc = oidc

    def peer_credential(self, peer: PeerCredentials | None) -> str | None:
        """Return the credential of a peer; None if this pool asks everyone for a token."""
        if peer is None or self._accounts.mode is AccountMode.SHARED_ACCOUNT:
            return None
        return f"{_UID}{peer.uid}"

    async def bearer_credential(self, authorization: str) -> str:
        """Return the credential of an Authorization header.

        Raises:
            RequestRefused: the header has no token, or an invalid one of the identity provider.
        """
        text = bearer_token(authorization)
        if not text:
            login = "Log in with `weir login`. " if self.oidc is not None else ""
            raise RequestRefused(401, f"Missing token. {login}{_SAY_WHO}")
        if self.oidc is not None and _is_signed(text):
            return await self.oidc.admit(text)
        return token_hash(text)

    async def refresh(self, credential: str) -> None:
        """Look up the account of a peer, or the identity of a session, if that was long ago.

        Raises:
            RequestRefused: the account database or the identity provider doesn't answer.
        """
        if credential.startswith(OIDC_PREFIX) and self.oidc is not None:
            await self.oidc.refresh(credential)
        elif credential.startswith(_UID) and self._accounts.mode is AccountMode.UNIX_ACCOUNTS:
            await self._accounts.unix.get(int(credential.removeprefix(_UID)))

    def person_with(self, credential: str) -> Person:
        """Return the person of a credential.

        Raises:
            RequestRefused: the token is unknown or has expired, or the pool doesn't serve this user.
        """
        if credential.startswith(_UID):
            return self._peer(int(credential.removeprefix(_UID)))
        if credential.startswith(OIDC_PREFIX):
            if self.oidc is None:
                raise RequestRefused(
                    401, f"This pool has no sign-in with OpenID Connect any more. {_SAY_WHO}"
                )
            return self.oidc.person(credential)
        if compare_digest(credential, self._admin):
            return self._admin_person
        row = self._tokens.with_hash(credential)
        if row is None:
            raise RequestRefused(401, f"Unknown token. {_SAY_WHO}")
        now_s = self._clock()
        if not row.holds(now_s):
            assert row.expires_s is not None
            if row.is_of_later(now_s):
                text = (
                    "This token was made while the clock of the machine was ahead, so its expiry isn't known"
                )
                raise RequestRefused(401, f"{text}: ask an administrator for a new one.")
            day = in_utc(row.expires_s)
            raise RequestRefused(401, f"This token expired at {day}: ask an administrator for a new one.")
        self._accounts.check_token_user(row.user)
        self._tokens.used(row.id, now_s)
        return token_person(row)

    def open_person(self, credential: str) -> Person:
        """Return the person of a long request, whose sign-in was valid at its beginning.

        Raises:
            RequestRefused: the person has signed out, or signed in too long ago.
        """
        if self.oidc is None:
            return self.person_with(credential)
        return self.oidc.person(credential, is_open=True)

    def is_known(self, credential: str) -> bool:
        """Return False for a session of an identity provider that has ended."""
        return not credential.startswith(OIDC_PREFIX) or (
            self.oidc is not None and self.oidc.is_known(credential)
        )

    def _peer(self, uid: int) -> Person:
        """Return the person of a user id of this machine."""
        accounts = self._accounts
        if accounts.mode is AccountMode.PERSONAL:
            if uid != accounts.owner_uid:
                raise RequestRefused(
                    403, f"This pool is personal: it serves {accounts.owner} alone. {INSTALL}."
                )
            return replace(self._admin_person, uid=uid)
        if accounts.mode is not AccountMode.UNIX_ACCOUNTS:
            raise RequestRefused(401, f"Missing token. {_SAY_WHO}")
        account = accounts.unix.cached(uid)
        if account is None:
            raise RequestRefused(
                403, f"User id {uid} has no account on this machine: ask its administrator for one."
            )
        return account_person(account, accounts, self._roles)


def token_person(row: TokenRecord) -> Person:
    """Return the person of a token, with its rights."""
    is_admin = row.role == "admin"
    roles = {} if is_admin else dict.fromkeys(row.projects, Role[row.role.upper()])
    return Person(row.user, is_admin, roles, row.id, row.label)


def account_person(account: UnixAccount, accounts: PoolAccounts, roles: RoleLookup) -> Person:
    """Return the person of a Unix account, with the present roles."""
    is_admin = accounts.is_admin(account)
    own = {} if is_admin else roles(account.name, account.groups)
    return Person(account.name, is_admin, own, uid=account.uid, groups=account.groups)


def bearer_token(authorization: str) -> str:
    """Return the token in an Authorization header; an empty text if there is none."""
    scheme, _, text = authorization.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def _is_signed(token: str) -> bool:
    """Return True for the form of a token of an identity provider; tokens of the pool have no dots."""
    return token.count(".") == 2


def person_of(request: Request) -> Person:
    """Return the requester that authentication has found."""
    person: Person = request.state.person
    return person


def _written_token(path: Path) -> str | None:
    """Return the token in a file; None if the file is irregular, or its text is no token (such as zeros)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
            return None
        raise
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with os.fdopen(descriptor, "rb") as file:
        os.fchmod(descriptor, 0o600)
        text = file.read(_TOKEN_LENGTH_MAX).decode("ascii", "replace").strip()
    return text if _TOKEN.fullmatch(text) is not None else None


def admin_token(home: Path) -> str:
    """Return the administrator's token of a home; create it if missing. Only its owner can read it."""
    path = home / TOKEN_FILE
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        written = _written_token(path)
        if written is None:  # a crash or a full disk cut it short
            path.unlink()
            return admin_token(home)
        return written
    text = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    return text

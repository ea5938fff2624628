"""Authentication: the administrator by the token in the home, everyone else by a token that this pool made.

Tokens are compared by their hashes, in constant time. No token is logged or stored as text, except the
administrator's own, in a file that only its owner can read.
"""

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from getpass import getuser
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Protocol

from fastapi import Request

from weir.local.server.problem_details import RequestRefused
from weir.store.records import TokenRecord

TOKEN_FILE = "token"  # noqa: S105 - the name of a file, no secret
_TOKEN_LENGTH_LEAST = 20
_SAY_WHO = "Set WEIR_TOKEN; an administrator creates tokens with `weir token create`."


@dataclass(frozen=True, slots=True)
class Person:
    """A requester and the projects they may act in; an administrator may act in all.

    `token`: the number of their token, with its label; None for the administrator's own in the home.
    """

    user: str
    is_admin: bool
    projects: frozenset[str] = frozenset()
    token: int | None = None
    label: str = ""

    def may_act_in(self, project: str | None) -> bool:
        """Return True if the person may act in a project and see all of it."""
        return self.is_admin or project in self.projects


class TokenLookup(Protocol):
    """Lookup of people's tokens."""

    def token_with(self, hashed: str) -> TokenRecord | None:
        """Return the token whose text has this hash."""
        ...

    def token_used(self, id_: int, at_s: float) -> None:
        """Record that a token was used."""
        ...


class Authenticator:
    """Authenticates requests."""

    def __init__(self, admin_token: str, tokens: TokenLookup, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._admin = token_hash(admin_token)
        self._admin_person = Person(_user(), is_admin=True)
        self._tokens = tokens

    def who(self, authorization: str | None) -> Person:
        """Return the person that an Authorization header names.

        Raises:
            Refused: the token is unknown or has expired.
        """
        return self.person_with(hash_of_header(authorization or ""))

    def person_with(self, hashed: str) -> Person:
        """Return the person of the token with this hash.

        Raises:
            RequestRefused: the token is unknown or has expired.
        """
        if compare_digest(hashed, self._admin):
            return self._admin_person
        row = self._tokens.token_with(hashed)
        if row is None:
            raise RequestRefused(401, f"Unknown token. {_SAY_WHO}")
        now_s = self._clock()
        if not row.holds(now_s):
            assert row.expires_s is not None
            day = datetime.fromtimestamp(row.expires_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
            raise RequestRefused(401, f"This token expired at {day}: ask an administrator for a new one.")
        self._tokens.token_used(row.id, now_s)
        return Person(row.user, row.role == "admin", frozenset(row.projects), row.id, row.label)


def hash_of_header(authorization: str) -> str:
    """Return the hash of the token in an Authorization header.

    Raises:
        RequestRefused: there is none.
    """
    scheme, _, text = authorization.partition(" ")
    text = text.strip()
    if scheme.lower() != "bearer" or not text:
        raise RequestRefused(401, f"Missing token. {_SAY_WHO}")
    return token_hash(text)


def token_hash(text: str) -> str:
    """Return the hash by which the store knows a token."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def person_of(request: Request) -> Person:
    """Return the requester that authentication has found."""
    found: Person = request.state.person
    return found


def require_admin(person: Person) -> None:
    """Refuse everyone but administrators.

    Raises:
        Refused: they are none.
    """
    if not person.is_admin:
        raise RequestRefused(403, "Only an administrator may do this.")


def require_project(person: Person, project: str) -> None:
    """Refuse a person who may not act in a project.

    Raises:
        Refused: they may not.
    """
    if not person.may_act_in(project):
        raise RequestRefused(403, f"Your token isn't valid for project {project}.")


def admin_token(home: Path) -> str:
    """Return the administrator's token of a home; create it if missing. Only its owner can read it."""
    path = home / TOKEN_FILE
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        path.chmod(0o600)
        text = path.read_text("utf-8").strip()
        if len(text) >= _TOKEN_LENGTH_LEAST:
            return text
        path.unlink()
        return admin_token(home)
    text = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    return text


def _user() -> str:
    try:
        return getuser()
    except (OSError, KeyError):
        return "admin"

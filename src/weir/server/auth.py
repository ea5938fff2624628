"""Who asks: the administrator of this machine by the token in its home, everyone else by a token made here.

Only hashes of tokens are compared, in constant time; no token is ever logged or stored as it is, but for
the administrator's own in a file only its owner can read.
"""

import os
import secrets
from dataclasses import dataclass
from getpass import getuser
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Protocol

from fastapi import Request

from weir.server.problems import Refused
from weir.store.rows import TokenRow

TOKEN_FILE = "token"  # noqa: S105 - the name of a file, no secret
_TOKEN_LENGTH_LEAST = 20
_SAY_WHO = (
    "Say who asks: send `Authorization: Bearer TOKEN`. The administrator's token is in $WEIR_HOME/token."
)


@dataclass(frozen=True, slots=True)
class Person:
    """Who asks, and in which projects they may act; an administrator may everywhere."""

    user: str
    is_admin: bool
    projects: frozenset[str] = frozenset()

    def acts_in(self, project: str | None) -> bool:
        """Whether they may act in a project and see all of it."""
        return self.is_admin or project in self.projects


class Tokens(Protocol):
    """Where tokens of people are looked up."""

    def token(self, text: str) -> TokenRow | None:
        """Who asks with this text."""
        ...


class Door:
    """Tells who asks."""

    def __init__(self, admin_token: str, tokens: Tokens) -> None:
        self._admin = sha256(admin_token.encode()).digest()
        self._admin_person = Person(_user(), is_admin=True)
        self._tokens = tokens

    def who(self, authorization: str | None) -> Person:
        """The person a header names.

        Raises:
            Refused: nobody.
        """
        scheme, _, text = (authorization or "").partition(" ")
        text = text.strip()
        if scheme.lower() != "bearer" or not text:
            raise Refused(401, _SAY_WHO)
        if compare_digest(sha256(text.encode()).digest(), self._admin):
            return self._admin_person
        row = self._tokens.token(text)
        if row is None:
            raise Refused(401, f"This token isn't known here. {_SAY_WHO}")
        return Person(row.user, row.role == "admin", frozenset(row.projects))


def person_of(request: Request) -> Person:
    """Who sent a request, as the door has said."""
    found: Person = request.state.person
    return found


def admin_only(person: Person) -> None:
    """Refuse everyone but administrators.

    Raises:
        Refused: they are none.
    """
    if not person.is_admin:
        raise Refused(403, "Only an administrator may do this.")


def acts_only(person: Person, project: str) -> None:
    """Refuse who may not act in a project.

    Raises:
        Refused: they may not.
    """
    if not person.acts_in(project):
        raise Refused(403, f"Your token doesn't hold for project {project}.")


def admin_token(home: Path) -> str:
    """The administrator's token of a home, made if there is none. The file is readable by its owner only."""
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

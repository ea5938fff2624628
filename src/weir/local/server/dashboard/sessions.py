"""Sessions of the dashboard: each stands for a token or a Unix user, with exactly their rights.

A browser proves a session by two secrets: a cookie that scripts can't read, and a proof that the page alone
keeps, in storage of its origin. Cookies are sent to every port of a host, so the cookie alone is worth
nothing. The file in the home has hashes only. A session ends with its token: when it expires, is rotated or
is revoked.
"""

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from structlog import get_logger

from weir.local.server.auth import Authenticator
from weir.local.server.authorization import Person
from weir.local.server.problem_details import RequestRefused

FILE = "sessions.json"
SESSION_S = 7 * 86400.0
"""Length of a session."""
CODE_S = 60.0
"""Time for which a one-time link is valid."""
SESSIONS_MAX = 1000
CODES_MAX = 256
_FILE_BYTES_MAX = 1 << 20
_Hash = Field(pattern="^[0-9a-f]{64}$")
_Credential = Field(pattern="^((oidc:)?[0-9a-f]{64}|uid:[0-9]{1,10})$")
_LOG = get_logger(__name__)
SIGNED_OUT = "You aren't signed in here any more: run `weir dashboard`, or type your token."


class DashboardSession(BaseModel):
    """A session in the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    proof: str = _Hash
    credential: str = _Credential
    until_s: float


_SESSIONS = TypeAdapter(dict[str, DashboardSession])


@dataclass(frozen=True, slots=True)
class _LinkCode:
    credential: str
    until_s: float
    browser: str | None  # hash of the cookie of the only browser that may use it; None for any


class DashboardSessions:
    """Sessions and one-time links of a server. Belongs to the event loop."""

    def __init__(self, home: Path, authenticator: Authenticator, clock: Callable[[], float]) -> None:
        self._path = home / FILE
        self._authenticator = authenticator
        self._clock = clock
        self._codes: dict[str, _LinkCode] = {}
        self._sessions = _read(self._path)

    def make_code(self, credential: str, browser: str | None = None) -> tuple[str, float]:
        """Return the code of a new one-time link for a credential, and when it ends.

        `browser`: a cookie of the only browser that may use it.
        """
        now_s = self._clock()
        self._codes = {key: code for key, code in self._codes.items() if code.until_s > now_s}
        while len(self._codes) >= CODES_MAX:
            del self._codes[next(iter(self._codes))]
        text = secrets.token_urlsafe(32)
        self._codes[_hash(text)] = _LinkCode(
            credential, now_s + CODE_S, None if browser is None else _hash(browser)
        )
        return text, now_s + CODE_S

    def redeem(self, code: str, browser: str = "") -> str:
        """Return the credential that a one-time link is for; it can't be used again.

        Raises:
            RequestRefused: the code is unknown, was used, is too old, or belongs to another browser.
        """
        found = self._codes.pop(_hash(code), None)
        if found is None or found.until_s <= self._clock():
            raise RequestRefused(
                401, "This link was used already or is older than a minute: run `weir dashboard` again."
            )
        if found.browser is not None and not compare_digest(found.browser, _hash(browser)):
            raise RequestRefused(401, "This sign-in was begun in another browser: sign in here.")
        return found.credential

    def begin(self, credential: str) -> tuple[str, str]:
        """Return the cookie and the proof of a new session for a credential."""
        now_s = self._clock()
        known = self._authenticator.is_known
        live = {
            key: each
            for key, each in self._sessions.items()
            if each.until_s > now_s and known(each.credential)
        }
        while len(live) >= SESSIONS_MAX:
            del live[next(iter(live))]
        cookie, proof = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        live[_hash(cookie)] = DashboardSession(
            proof=_hash(proof), credential=credential, until_s=now_s + SESSION_S
        )
        self._sessions = live
        self._write()
        return cookie, proof

    def end(self, cookie: str) -> None:
        """End a session."""
        if self._sessions.pop(_hash(cookie), None) is not None:
            self._write()

    def credential_of(self, cookie: str, proof: str) -> str:
        """Return the credential that a session stands for.

        Raises:
            RequestRefused: there is no such session, or the proof is not its own.
        """
        found = self._sessions.get(_hash(cookie))
        if found is None or found.until_s <= self._clock():
            raise RequestRefused(401, SIGNED_OUT)
        if not compare_digest(_hash(proof), found.proof):
            raise RequestRefused(401, SIGNED_OUT)
        return found.credential

    def who(self, cookie: str, proof: str) -> Person:
        """Return the person of a session, with the present rights of their token.

        Raises:
            RequestRefused: the session or its token has ended.
        """
        return self._authenticator.person_with(self.credential_of(cookie, proof))

    def _write(self) -> None:
        """Replace the file; without it, people sign in again after a restart."""
        beside = self._path.with_suffix(".new")
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_SESSIONS.dump_json(self._sessions))
            beside.replace(self._path)
        except OSError as error:
            _LOG.warning("sessions_not_kept", why=error.strerror or str(error))


def _read(path: Path) -> dict[str, DashboardSession]:
    """Return the sessions of a file; none if there is no file or it can't be used."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            return _SESSIONS.validate_json(file.read(_FILE_BYTES_MAX))
    except FileNotFoundError:
        return {}
    except (OSError, ValidationError) as error:
        _LOG.warning("sessions_unreadable", why=type(error).__name__)
        return {}


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

"""Sessions and one-time links of the dashboard, each for a credential and with its rights only.

A browser proves a session by two secrets: a cookie that scripts can't read, and a proof that the page alone
keeps, in storage of its origin. Cookies are sent to every port of a host, so the cookie alone is worth
nothing. The table has hashes only.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest

from pydantic import BaseModel, ConfigDict, Field

from weir.dashboard.fair_table import make_space

SESSION_S = 7 * 86400.0
"""Length of a session."""
CODE_S = 60.0
"""Time for which a one-time link is valid."""
SESSIONS_MAX = 1000
CODES_MAX = 256
_Hash = Field(pattern="^[0-9a-f]{64}$")
_Credential = Field(pattern="^((oidc:)?[0-9a-f]{64}|uid:[0-9]{1,10}|kubeconfig)$")


class SignInRefused(Exception):
    """A link or a session is invalid; the sentence names the remedy."""


class DashboardSession(BaseModel):
    """A session."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    proof: str = _Hash
    credential: str = _Credential
    until_s: float


@dataclass(frozen=True, slots=True)
class _LinkCode:
    credential: str
    until_s: float
    browser: str | None  # hash of the cookie of the only allowed browser; None: any


class SessionTable:
    """Sessions and one-time links of a server. Belongs to the event loop."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        is_known: Callable[[str], bool],
        signed_out: str,
        sessions: Mapping[str, DashboardSession] | None = None,
        again: str = "run `weir dashboard` again",
    ) -> None:
        """Create a table; `is_known` validates a credential, `signed_out` is the sentence for invalid ones.

        `again` says how to get another link.
        """
        self._clock = clock
        self._is_known = is_known
        self._signed_out = signed_out
        self._again = again
        self._codes: dict[str, _LinkCode] = {}
        self.sessions: dict[str, DashboardSession] = dict(sessions or {})

    def refusal(self, sentence: str) -> Exception:
        """Return the refusal of an invalid link or session."""
        return SignInRefused(sentence)

    def owner_of(self, credential: str) -> str:
        """Return the person of a credential, who may have several."""
        return credential

    def make_code(self, credential: str, browser: str | None = None) -> tuple[str, float]:
        """Return the code of a new one-time link for a credential, and when it ends.

        `browser`: a cookie of the only browser that may use it.
        """
        now_s = self._clock()
        self._codes = {key: code for key, code in self._codes.items() if code.until_s > now_s}
        make_space(self._codes, CODES_MAX, lambda code: self.owner_of(code.credential))
        text = secrets.token_urlsafe(32)
        self._codes[_hash(text)] = _LinkCode(
            credential, now_s + CODE_S, None if browser is None else _hash(browser)
        )
        return text, now_s + CODE_S

    def redeem(self, code: str, browser: str = "") -> str:
        """Return the credential of a one-time link, and invalidate the link.

        Raises:
            SignInRefused: the code is unknown, was used, is too old, or belongs to another browser.
        """
        link = self._codes.pop(_hash(code), None)
        if link is None or link.until_s <= self._clock():
            raise self.refusal(f"This link was used already or is older than a minute: {self._again}.")
        if link.browser is not None and not compare_digest(link.browser, _hash(browser)):
            raise self.refusal("This sign-in was begun in another browser: sign in here.")
        return link.credential

    def begin(self, credential: str) -> tuple[str, str]:
        """Return the cookie and the proof of a new session for a credential."""
        now_s = self._clock()
        live = {
            key: session
            for key, session in self.sessions.items()
            if session.until_s > now_s and self._is_known(session.credential)
        }
        make_space(live, SESSIONS_MAX, lambda session: self.owner_of(session.credential))
        cookie, proof = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        live[_hash(cookie)] = DashboardSession(
            proof=_hash(proof), credential=credential, until_s=now_s + SESSION_S
        )
        self.sessions = live
        return cookie, proof

    def end(self, cookie: str) -> bool:
        """End a session; return False if there was none."""
        return self.sessions.pop(_hash(cookie), None) is not None

    def credential_of(self, cookie: str, proof: str) -> str:
        """Return the credential of a session.

        Raises:
            SignInRefused: there is no such session, or the proof is not its own.
        """
        session = self.sessions.get(_hash(cookie))
        if session is None or session.until_s <= self._clock():
            raise self.refusal(self._signed_out)
        if not compare_digest(_hash(proof), session.proof):
            raise self.refusal(self._signed_out)
        return session.credential


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

"""Sessions of the dashboard: each stands for a token or a Unix user, with exactly their rights.

The file in the home has hashes only. A session ends with its token: when it expires, is rotated or is
revoked.
"""

from collections.abc import Callable
from pathlib import Path

from pydantic import TypeAdapter
from structlog import get_logger

from weir.dashboard.session_table import DashboardSession, SessionTable, SignInRefused
from weir.local.server.access.auth import Authenticator
from weir.local.server.home import private_files
from weir.local.server.http.problem_details import RequestRefused

FILE = "sessions.json"
_LOG = get_logger(__name__)
SIGNED_OUT = "You aren't signed in here any more: run `weir dashboard`, or type your token."
_SESSIONS = TypeAdapter(dict[str, DashboardSession])


class DashboardSessions:
    """Sessions and one-time links of a server. Belongs to the event loop."""

    def __init__(self, home: Path, authenticator: Authenticator, clock: Callable[[], float]) -> None:
        self._path = home / FILE
        self._authenticator = authenticator
        self._table = SessionTable(
            clock,
            is_known=authenticator.is_known,
            signed_out=SIGNED_OUT,
            sessions=private_files.read_entries(self._path, _SESSIONS, unreadable="sessions_unreadable"),
        )
        self.make_code = self._table.make_code

    def redeem(self, code: str, browser: str = "") -> str:
        """Return the credential that a one-time link is for; it can't be used again.

        Raises:
            RequestRefused: the code is unknown, was used, is too old, or belongs to another browser.
        """
        try:
            return self._table.redeem(code, browser)
        except SignInRefused as refused:
            raise RequestRefused(401, str(refused)) from None

    def begin(self, credential: str) -> tuple[str, str]:
        """Return the cookie and the proof of a new session for a credential."""
        made = self._table.begin(credential)
        self._write()
        return made

    def end(self, cookie: str) -> None:
        """End a session."""
        if self._table.end(cookie):
            self._write()

    def credential_of(self, cookie: str, proof: str) -> str:
        """Return the credential that a session stands for.

        Raises:
            RequestRefused: there is no such session, or the proof is not its own.
        """
        try:
            return self._table.credential_of(cookie, proof)
        except SignInRefused as refused:
            raise RequestRefused(401, str(refused)) from None

    def _write(self) -> None:
        """Replace the file; without it, people sign in again after a restart."""
        try:
            private_files.write(self._path, _SESSIONS.dump_json(self._table.sessions))
        except OSError as error:
            _LOG.warning("sessions_not_kept", why=error.strerror or str(error))

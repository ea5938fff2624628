"""Sessions of the dashboard: each belongs to a token or a Unix user, and has exactly their rights.

The file in the home has hashes only. A session ends with its token: when it expires, is rotated or is
revoked.
"""

from collections.abc import Callable
from pathlib import Path

from pydantic import TypeAdapter
from structlog import get_logger

from weir.dashboard.session_table import DashboardSession, SessionTable
from weir.local.server.access.auth import Authenticator
from weir.local.server.home import private_files
from weir.local.server.http.problem_details import RequestRefused

FILE = "sessions.json"
_LOG = get_logger(__name__)
SIGNED_OUT = "You aren't signed in here any more: run `weir dashboard`, or type your token."
_SESSIONS = TypeAdapter(dict[str, DashboardSession])


class DashboardSessions(SessionTable):
    """Sessions and one-time links of a server. Belongs to the event loop."""

    def __init__(self, home: Path, authenticator: Authenticator, clock: Callable[[], float]) -> None:
        self._path = home / FILE
        self._authenticator = authenticator
        super().__init__(
            clock,
            is_known=authenticator.is_known,
            signed_out=SIGNED_OUT,
            sessions=private_files.read_entries(self._path, _SESSIONS, unreadable="sessions_unreadable"),
        )

    def refusal(self, sentence: str) -> Exception:
        """Return the refusal as an answer to a request."""
        return RequestRefused(401, sentence)

    def owner_of(self, credential: str) -> str:
        """Return the user of a credential; the credential itself if it no longer has a user."""
        try:
            return self._authenticator.person_with(credential).user
        except RequestRefused:
            return credential

    def begin(self, credential: str) -> tuple[str, str]:
        """Return the cookie and the proof of a new session for a credential, and store it."""
        made = super().begin(credential)
        self._write()
        return made

    def end(self, cookie: str) -> bool:
        """End a session, and store that; return False if there was none."""
        has_ended = super().end(cookie)
        if has_ended:
            self._write()
        return has_ended

    def _write(self) -> None:
        """Replace the file; if that fails, people have to sign in again after a restart."""
        try:
            private_files.write(self._path, _SESSIONS.dump_json(self.sessions))
        except OSError as error:
            _LOG.warning("sessions_not_kept", why=error.strerror or str(error))

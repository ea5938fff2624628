"""Views: permissions of a browser for one session of a workload, each with the rights of a credential.

A view begins with a link that works once. Its cookie is sent to the path of its session alone. The file in
the home has hashes only.
"""

import secrets
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from structlog import get_logger

from weir.dashboard.fair_table import make_space
from weir.local.server.home import private_files
from weir.local.server.http.problem_details import RequestRefused
from weir.store.projects.tokens import token_hash

FILE = "session-views.json"
VIEW_S = 12 * 3600.0
CODE_S = 60.0
VIEWS_MAX, CODES_MAX = 2000, 256
_LOG = get_logger(__name__)
_AGAIN = "Open it again: with the dashboard, `weir jupyter NAME` or `weir code NAME`."


class SessionView(BaseModel):
    """Permission of a browser for the session of one workload."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    credential: str = Field(max_length=100)
    user: str = Field(max_length=300)
    uid: int  # uid of the workload
    name: str = Field(max_length=300)
    kind: str = Field(pattern="^(jupyter|code)$")
    until_s: float
    peer_uid: int | None = None
    """The account on this machine whose browser, or tunnel, opened the link; None if that isn't known."""


_VIEWS = TypeAdapter(dict[str, SessionView])


class SessionViews:
    """Views and the links that begin them. Belongs to the event loop."""

    def __init__(self, home: Path, clock: Callable[[], float]) -> None:
        self._path = home / FILE
        self._clock = clock
        self._codes: dict[str, SessionView] = {}
        self._views = private_files.read_entries(self._path, _VIEWS, unreadable="session_views_unreadable")

    def make_code(self, credential: str, user: str, uid: int, name: str, kind: str) -> tuple[str, float]:
        """Return the code of a link to a session, and when it ends. `user` has the credential."""
        until_s = self._clock() + CODE_S
        make_space(self._codes, CODES_MAX, _user)
        code = secrets.token_urlsafe(32)
        self._codes[token_hash(code)] = SessionView(
            credential=credential, user=user, uid=uid, name=name, kind=kind, until_s=until_s
        )
        return code, until_s

    def users(self) -> set[str]:
        """Return the people who have views."""
        now_s = self._clock()
        return {view.user for view in self._views.values() if view.until_s > now_s}

    def begin(
        self, code: str, name: str, is_of: Callable[[str, str], bool], peer_uid: int | None = None
    ) -> str:
        """Return the cookie of a new view, once for each code. `is_of`: the session of a user is here.

        The view holds for connections of the account `peer_uid` alone.

        Raises:
            RequestRefused: the code is unknown, was used, is too old, or is for another session.
        """
        issued = self._codes.pop(token_hash(code), None)
        now_s = self._clock()
        if issued is None or issued.until_s <= now_s or issued.name != name or not is_of(issued.user, name):
            raise RequestRefused(401, f"This link was used already or is older than a minute. {_AGAIN}")
        live = {key: view for key, view in self._views.items() if view.until_s > now_s}
        make_space(live, VIEWS_MAX, _user)
        cookie = secrets.token_urlsafe(32)
        live[token_hash(cookie)] = issued.model_copy(update={"until_s": now_s + VIEW_S, "peer_uid": peer_uid})
        self._views = live
        try:
            private_files.write(self._path, _VIEWS.dump_json(live))
        except OSError as error:
            _LOG.warning("session_views_not_kept", why=error.strerror or str(error))
        return cookie

    def view_of(
        self, cookie: str, name: str, is_of: Callable[[str, str], bool], peer_uid: int | None = None
    ) -> SessionView:
        """Return the view of a cookie. `is_of`: the session of a user is here.

        Raises:
            RequestRefused: there is none, it has ended, or it is of another session or account.
        """
        view = self._views.get(token_hash(cookie))
        is_valid = view is not None and view.until_s > self._clock() and view.name == name
        is_theirs = view is not None and view.peer_uid in (None, peer_uid) and is_of(view.user, name)
        if view is None or not is_valid or not is_theirs:
            raise RequestRefused(401, f"This browser has no access to {name[:80]}. {_AGAIN}")
        return view


def _user(view: SessionView) -> str:
    return view.user

"""Gate of sessions in a browser: the people who may open one, and the requests of its own pages."""

import asyncio

from weir.dashboard.web_sessions.page_origin import BrowserRequest, page_refusal
from weir.local.records import pod_files
from weir.local.server.access.auth import Authenticator
from weir.local.server.access.authorization import Person
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.pool import PoolService
from weir.local.server.views.workload_view import WorkloadView
from weir.local.server.web_sessions.sites import SessionSite
from weir.local.server.web_sessions.views import SessionView, SessionViews
from weir.local.starts.session_programs import path_too_long


def check_origin(request: BrowserRequest, site: SessionSite) -> None:
    """Refuse a request for another host, or of another page than the session's own.

    Raises:
        RequestRefused: the host or the page is another one.
    """
    site.check_host(request.host)
    if (refusal := page_refusal(request, site.scheme)) is not None:
        raise RequestRefused(403, refusal)


class SessionGate:
    """Finds the pod's directory for a view, while its person may enter the workload."""

    def __init__(self, pool: PoolService, authenticator: Authenticator, views: SessionViews) -> None:
        self._pool = pool
        self._authenticator = authenticator
        self.views = views

    async def directory_of(self, view: SessionView) -> str:
        """Return the own directory of the pod that a view is for.

        Raises:
            RequestRefused: the person lost the right, or the workload doesn't run.
        """
        await self._authenticator.refresh(view.credential)
        person = self._authenticator.person_with(view.credential)
        # After a start of the server, recovery may not be complete
        if not self._pool.view.is_live(view.name):
            stored = await asyncio.to_thread(self._pool.store.workloads.get, view.uid)
            if stored is not None and stored.row.ended_s is None:
                raise RequestRefused(503, "The pool has just started: try again.", retry_after_s=1.0)
        return self.own_directory(person, view.name, view.uid)

    def own_directory(self, person: Person, name: str, uid: int) -> str:
        """Return the own directory of the first pod of a person's workload.

        Raises:
            RequestRefused: it isn't theirs, is over or doesn't run.
        """
        live = self._pool.view.workloads.get(name)
        if live is None or live.uid != uid:
            raise RequestRefused(404, f"The session {name[:80]} is over.")
        if live.spec.user != person.user:
            raise RequestRefused(
                403, f"{name[:80]} runs as {live.spec.user}, and only that user can enter it."
            )
        own = self._directory(live)
        if own is None:
            raise RequestRefused(409, f"{name[:80]} doesn't run now.", retry_after_s=1.0)
        if (problem := path_too_long(own)) is not None:
            raise RequestRefused(422, f"{name[:80]} can't be opened: {problem}.")
        return own

    def _directory(self, live: WorkloadView) -> str | None:
        for key, pod in live.pods.items():
            if pod.status == "running" and pod.start is not None:
                return pod_files.own_directory(
                    f"{self._pool.home}/{pod_files.RECORDS}/{live.uid}/{pod.start}-{key.group}-{key.index}"
                )
        return None

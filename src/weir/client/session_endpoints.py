"""Calls for the entry into workloads of one's own, for both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weir.client.calls import Call, endpoint, form
from weir.client.path_parts import params, path_part

if TYPE_CHECKING:
    from weir.api import answers as model


class SessionEndpoints:
    """Ways into running workloads."""

    @endpoint
    def enter(self, name: str, *, pod: str | None = None) -> Call[model.EnteredProcess]:
        """Put this process into a running pod of one's own; return the pod's first process."""
        from weir.api.answers import EnteredProcess

        return Call("POST", f"/workloads/{path_part(name)}/entry", form(EnteredProcess), params(pod=pod))

    @endpoint
    def session_link(self, name: str) -> Call[model.SessionLink]:
        """Return a link that opens the session of one's own workload in a browser, once."""
        from weir.api.answers import SessionLink

        return Call("POST", f"/workloads/{path_part(name)}/session", form(SessionLink))

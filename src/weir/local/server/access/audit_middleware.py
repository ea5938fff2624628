"""Lines of requests for the audit log: the action, its person, its origin and its outcome."""

import re
from secrets import token_hex
from typing import Any

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weir.local.server.access.audit import PATH, AuditLog, Outcome
from weir.local.server.access.authorization import Person
from weir.local.server.http.peers import peer_of

READS = frozenset({"GET", "HEAD", "OPTIONS"})
CONFIDENTIAL = ("/api/v1/tokens", "/api/v1/snapshot", PATH)
"""Paths whose reads are logged too, like the output of workloads."""
_LOGS = "/logs"
_TOKEN = re.compile(r"weir_[A-Za-z0-9_-]{8,}")
"""A token that was put into a path by mistake."""
REQUEST_ID = b"x-request-id"
_LEFT_OUT = "left_out"


class AuditMiddleware:
    """Logs requests when their answers begin, and puts the id of the line into each answer."""

    def __init__(self, app: ASGIApp, audit: AuditLog, guarded: tuple[str, ...]) -> None:
        self._app = app
        self._audit = audit
        self._guarded = guarded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and log it."""
        if scope["type"] != "http" or not scope["path"].startswith(self._guarded):
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        request = state["request_id"] = token_hex(8)
        state["audit"] = {}
        is_written = False

        async def answered(message: Message) -> None:
            nonlocal is_written
            if message["type"] == "http.response.start":
                is_written = True
                self._write(scope, message["status"])
                message = {**message, "headers": [*message["headers"], (REQUEST_ID, request.encode())]}
            await send(message)

        try:
            await self._app(scope, receive, answered)
        finally:
            if not is_written:
                self._write(scope, None)

    def _write(self, scope: Scope, status: int | None) -> None:
        method, path = scope["method"], _TOKEN.sub("weir_...", scope["path"])
        outcome = outcome_of(status)
        if outcome != "refused" and method in READS and not _is_confidential(path):
            return
        state = scope["state"]
        if outcome == "failed" and state.get(_LEFT_OUT):
            return
        person: Person | None = state.get("person")
        if person is not None and person.subject:
            state["audit"].update(signed_in_by=person.signed_in_by, subject=person.subject)
        self._audit.write(
            request=state["request_id"],
            user=None if person is None else person.user,
            token=None if person is None else person.token,
            label="" if person is None else person.label,
            source=source_of(scope),
            method=method,
            path=path,
            status=status,
            outcome=outcome,
            details=state["audit"],
        )


def outcome_of(status: int | None) -> Outcome:
    """Return the outcome of a request with this status; None if the request ended without a response."""
    if status in (401, 403):
        return "refused"
    return "allowed" if status is not None and status < 400 else "failed"


def source_of(scope: Scope) -> str:
    """Return where a request came from: an address and port, or the process behind a Unix socket."""
    peer = peer_of(scope)
    if peer is not None:
        return str(peer)
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client and client[0] else "unix"


def note(request: Request, **words: Any) -> None:
    """Add these fields to the audit line of a request. Never pass a token, a value or a command."""
    request.state.audit.update(words)


def leave_out(request: Request) -> None:
    """Leave a failed request out of the log: it changed nothing, and its client repeats it."""
    setattr(request.state, _LEFT_OUT, True)


def _is_confidential(path: str) -> bool:
    return path.startswith(CONFIDENTIAL) or path.endswith(_LOGS)

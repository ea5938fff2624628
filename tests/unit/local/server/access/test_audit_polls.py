"""Requests that ask again until they succeed fill no audit log."""

from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, Request, Response

from weir.local.server.access.audit import AuditLog
from weir.local.server.access.audit_middleware import AuditMiddleware, leave_out


@pytest.mark.parametrize(("status", "lines"), [(409, 0), (201, 1), (403, 1)])
async def test_repeated_request_is_written_down_unless_it_fails(
    status: int, lines: int, tmp_path: Path
) -> None:
    app = FastAPI()

    @app.post("/api/v1/link")
    async def link(request: Request) -> Response:
        leave_out(request)
        return Response(status_code=status)

    audit = AuditLog(tmp_path)
    transport = httpx.ASGITransport(AuditMiddleware(app, audit, ("/api",)))
    async with httpx.AsyncClient(transport=transport, base_url="http://pool") as client:
        assert (await client.post("/api/v1/link")).status_code == status
    assert len(audit.read(9)) == lines

"""Requests that the API server forwards, and refusals of them."""

import asyncio
from datetime import UTC, datetime

import msgspec
from aiohttp import web

from weir.kubernetes.admission.webhook_server import client_certificate
from weir.kubernetes.query.aggregation.front_proxy import FrontProxyRules, Identity
from weir.kubernetes.query.aggregation.refusals import QueryRefused

BODY_S_MAX = 10.0
"""Time limit for the body of a request, so that an endless body doesn't occupy a place."""
_PART = 1 << 14


def requester(request: web.Request, rules: FrontProxyRules) -> Identity | None:
    """Return the identity behind a request; None unless the front proxy forwards it."""
    if not rules.trusts(client_certificate(request), datetime.now(UTC)):
        return None
    return rules.identity(request.headers, request.headers.getall)


async def bounded_body(request: web.Request, most: int) -> bytes:
    """Return the body; a longer one than allowed is cut off, one byte after the most.

    Raises:
        QueryRefused: it takes too long.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for part in request.content.iter_chunked(_PART):
                body += part
                if len(body) > most:
                    break
    except TimeoutError:
        raise QueryRefused(408, "The request takes too long: send it again.") from None
    return bytes(body[: most + 1])


def refusal(error: QueryRefused) -> web.Response:
    """Return the response of a refusal."""
    headers = {"Retry-After": "1"} if error.status in (429, 503) else None
    body = msgspec.json.encode(error.as_status())
    answer = web.Response(status=error.status, body=body, content_type="application/json", headers=headers)
    if error.status == 401:
        answer.force_close()  # the connection may be older than the front proxy's certificates
    return answer

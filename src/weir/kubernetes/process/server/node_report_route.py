"""Routes for the nodes' agents: they report the use of their GPUs, and read the shares to limit."""

import asyncio
from collections.abc import Callable

from aiohttp import web
from msgspec import DecodeError
from msgspec.json import Decoder, encode
from structlog import get_logger

from weir.kubernetes.admission.node_tokens import NodeTokens
from weir.kubernetes.admission.token_review import TooManyTokens
from weir.kubernetes.admission.webhook_server import refused
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.query.aggregation.http_exchange import bounded_body
from weir.kubernetes.query.aggregation.refusals import QueryRefused
from weir.kubernetes.usage.node_reports import BYTES_MAX, NodeReport, NodeReports
from weir.kubernetes.usage.node_shares import NodeShares

PATH, SHARES_PATH = "/node-report", "/node-shares"
_DECODER = Decoder(NodeReport)
_LOG = get_logger(__name__)


class NodeReportRoute:
    """Serves agents that the API server vouches for, each for its own node."""

    def __init__(
        self, tokens: NodeTokens, reports: NodeReports, shares_of: Callable[[str], NodeShares | None]
    ) -> None:
        self._tokens = tokens
        self._reports = reports
        self._shares_of = shares_of

    def add(self, app: web.Application) -> None:
        """Answer on an application."""
        app.router.add_post(PATH, self._take_report)
        app.router.add_get(SHARES_PATH, self._answer_shares)

    async def _node_of(self, request: web.Request) -> str | web.Response:
        """Return the node of the requesting agent, or the refusal."""
        try:
            header = request.headers.get("Authorization", "")
            node = await self._tokens.node_of(header, request.remote or "")
        except (TooManyTokens, ApiError):
            return refused(503, "The token can't be checked now: try again.")
        return node or refused(401, "Only weir-node may report and ask, with a token of its pod.")

    async def _answer_shares(self, request: web.Request) -> web.Response:
        node = await self._node_of(request)
        if isinstance(node, web.Response):
            return node
        shares = await asyncio.to_thread(self._shares_of, node)
        if shares is None:
            return refused(503, f"Node {node} isn't known yet: try again.")
        return web.Response(body=encode(shares), content_type="application/json")

    async def _take_report(self, request: web.Request) -> web.Response:
        node = await self._node_of(request)
        if isinstance(node, web.Response):
            return node
        if (request.content_length or 0) > BYTES_MAX:
            return refused(413, f"The report has {request.content_length} bytes: send at most {BYTES_MAX}.")
        try:
            report = _DECODER.decode(await bounded_body(request, BYTES_MAX))
        except QueryRefused as error:
            return refused(error.status, error.sentence)
        except (DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
            why = str(error)[:200]
            _LOG.warning("node_report_refused", node=node, why=why)
            return refused(400, f"The report can't be read: {why}")
        self._reports.take(node, report)
        return web.Response(status=204)

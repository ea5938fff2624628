"""Routes that try a changed department or project out, through the API server."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from aiohttp import web
from structlog import get_logger

from weir.api.previews import QuotaPreview
from weir.api.workload_list import WorkloadRow
from weir.kubernetes.query.aggregation.access_review import AccessReviewer
from weir.kubernetes.query.aggregation.discovery import API_VERSION, PREVIEWS, ROOT
from weir.kubernetes.query.aggregation.front_proxy import FrontProxy, Identity
from weir.kubernetes.query.aggregation.http_exchange import bounded_body, refusal, requester
from weir.kubernetes.query.aggregation.refusals import QueryRefused, not_forwarded
from weir.kubernetes.query.aggregation.request_places import RequestPlaces
from weir.kubernetes.query.cluster.answers import SchedulerAnswers
from weir.kubernetes.query.workloads.index import WorkloadIndex

UNDER_WAY_MAX = 2
"""Limit of concurrent previews, of one person each: a preview takes the time of two decisions."""
BYTES_MAX = 1 << 20
_LOG = get_logger(__name__)


class _Asked(msgspec.Struct):
    """Body of a request: the spec as it would be."""

    spec: dict[str, Any]


class PreviewRoutes:
    """Answers the effects of changed quotas, from the state of this replica."""

    def __init__(
        self,
        proxy: FrontProxy,
        access: AccessReviewer,
        workloads: WorkloadIndex,
        answers: SchedulerAnswers,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the routes. `clock` is that of the times in objects."""
        self._clock = clock
        self._proxy = proxy
        self._access = access
        self._workloads = workloads
        self._answers = answers
        self._places = RequestPlaces(UNDER_WAY_MAX, 1)

    def add(self, app: web.Application) -> None:
        """Answer on an application."""
        for kind, resource in PREVIEWS.items():
            plural, _, action = resource.name.partition("/")
            app.router.add_post(f"{ROOT}/{plural}/{{name}}/{action}", partial(self._answer, kind))

    async def _answer(self, kind: str, request: web.Request) -> web.Response:
        person = requester(request, self._proxy.rules)
        if person is None:
            return refusal(not_forwarded())
        try:
            with self._places.taken(person.user):
                preview = await self._preview(kind, request, person)
        except QueryRefused as error:
            return refusal(error)
        except Exception as error:  # noqa: BLE001 - the others are answered
            _LOG.error("preview_failed", exc_info=error)
            return refusal(QueryRefused(500, "Weir failed at this preview; its log says why."))
        answer = {"kind": "QuotaPreview", "apiVersion": API_VERSION, **preview.model_dump(mode="json")}
        return web.Response(status=201, body=msgspec.json.encode(answer), content_type="application/json")

    async def _preview(self, kind: str, request: web.Request, person: Identity) -> QuotaPreview:
        needs = "A preview names workloads of all namespaces: it needs the right to list workloads there."
        await self._access.refuse_unless_lists(person, "workloads", needs)
        spec = _spec_of(await bounded_body(request, BYTES_MAX))
        previewed = await self._answers.preview(kind, request.match_info["name"], spec)
        return previewed.answer(self._row)

    def _row(self, key: str) -> WorkloadRow | None:
        workload = self._workloads.by_key(key)
        return None if workload is None else workload.row(self._clock())


def _spec_of(body: bytes) -> dict[str, Any]:
    if len(body) > BYTES_MAX:
        raise QueryRefused(413, f"A preview takes at most {BYTES_MAX} bytes.")
    try:
        return msgspec.json.decode(body, type=_Asked).spec
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise QueryRefused(400, f'The body is no spec: {error}; write {{"spec": {{...}}}}.') from None

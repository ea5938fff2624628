"""The path by which jobs report on themselves, through the API server."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from structlog import get_logger

from weir.control.token_bucket import TokenBuckets, TokenRate
from weir.kubernetes.query.aggregation.discovery import ROOT
from weir.kubernetes.query.aggregation.front_proxy import FrontProxy
from weir.kubernetes.query.aggregation.http_exchange import bounded_body, refusal, requester
from weir.kubernetes.query.aggregation.refusals import QueryRefused, not_forwarded, too_many
from weir.kubernetes.query.aggregation.request_places import RequestPlaces
from weir.kubernetes.query.messages.job_messages import BYTES_MAX, PodMessage, parse_message, sender_uid
from weir.kubernetes.query.messages.report_writer import PendingReport, ReportWriter

UNDER_WAY_MAX, OF_NAMESPACE_MAX = 32, 16
"""Limits of concurrent messages, of all namespaces and of one.

Jobs of one tenant can't keep people or other tenants from sending requests.
"""
RATE = TokenRate(16.0, 1.0)
"""Rate of messages of a pod, which may have a process for each of its GPUs."""
PODS_MAX = 20_000
"""Pods whose rate is remembered."""
_ACCEPTED = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":200}'
_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReportSource:
    """A running pod: its uid, its workload with the uid of the owner, and when it got its node."""

    uid: str
    workload: str
    owner: str
    since_s: float


class MessageRoute:
    """Takes messages of pods that Weir schedules. `find` returns a running one by namespace and name."""

    def __init__(
        self,
        proxy: FrontProxy,
        find: Callable[[str, str], ReportSource | None],
        writer: ReportWriter,
        busy_s_max: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._proxy = proxy
        self._find = find
        self._writer = writer
        self._busy_s_max = busy_s_max
        self._clock = clock
        self._rates = TokenBuckets(RATE, PODS_MAX)  # by uid of the pod
        self._places = RequestPlaces(UNDER_WAY_MAX, OF_NAMESPACE_MAX)

    def add(self, app: web.Application) -> None:
        """Answer on an application."""
        app.router.add_post(f"{ROOT}/namespaces/{{namespace}}/pods/{{name}}/messages", self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            with self._places.taken(request.match_info["namespace"]):
                await self._take(request)
        except QueryRefused as error:
            return refusal(error)
        except Exception as error:  # noqa: BLE001 - the others are answered
            _LOG.error("message_failed", exc_info=error)
            return refusal(QueryRefused(500, "Weir failed at this message; its log says why."))
        return web.Response(body=_ACCEPTED, content_type="application/json")

    async def _take(self, request: web.Request) -> None:
        person = requester(request, self._proxy.rules)
        if person is None:
            raise not_forwarded()
        namespace, name = (request.match_info[key] for key in ("namespace", "name"))
        uid = sender_uid(person, namespace, name)
        pod = self._find(namespace, name)
        if pod is None or pod.uid != uid:
            raise QueryRefused(404, f"Weir doesn't schedule the pod {name[:300]}, or it doesn't run yet.")
        if self._rates.take(uid, time.monotonic()):
            raise QueryRefused(429, f"The pod sends more than {RATE.per_s:g} messages per second.")
        message = parse_message(await bounded_body(request, BYTES_MAX))
        if not self._writer.add(pod.workload, self._report(pod, message)):
            raise too_many()

    def _report(self, pod: ReportSource, message: PodMessage) -> PendingReport:
        """Return a message with times of Weir's clock: a checkpoint lies between the pod's start and now."""
        now_s = self._clock()
        report = PendingReport(pod.owner, time.monotonic(), now_s)
        if message.report is not None:
            report.state(message.report.step, message.report.values)
        if message.checkpointed is not None:
            report.checkpointed_s = max(now_s - message.checkpointed.age_seconds, min(pod.since_s, now_s))
        if message.busy is not None:
            until_s = now_s - message.busy.age_seconds + message.busy.for_seconds
            report.busy_until_s = max(0.0, min(until_s, now_s + self._busy_s_max()))
            report.busy_why = message.busy.why
        return report

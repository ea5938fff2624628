"""The one port that Weir opens in a cluster: admission webhooks, health and metrics, over TLS.

The API server calls the webhooks. It shows no certificate unless it was configured to. So the path of a
webhook ends with a key: Weir writes the path into its webhook configurations, which administrators and the
API server can read. Calls without the key are refused before their body is read. With `client_authorities`
callers need a certificate too. Health says "ok" and nothing else, metrics go to bearers the API server
vouches for.

Bodies are received on the event loop, which also renews the lease; all other work is in `review_worker`.
"""

import asyncio
import base64
import hmac
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from aiohttp import web
from structlog import get_logger

from weir.kubernetes.admission.claiming_pods import Claimant, ClaimedClasses, claimant
from weir.kubernetes.admission.connection_limit import HANDSHAKE_S, ConnectionLimit
from weir.kubernetes.admission.fresh_quota_tree import FreshQuotaTree
from weir.kubernetes.admission.gang_members import MemberCandidate, candidate
from weir.kubernetes.admission.http_runner import http_runner
from weir.kubernetes.admission.owner_index import OwnerIndex
from weir.kubernetes.admission.review_worker import ReviewsBusy, ReviewWorker
from weir.kubernetes.admission.reviews import (
    PodRules,
    QuotaTree,
    defaulting_patch,
    lacks_project,
    review_errors,
)
from weir.kubernetes.admission.token_review import TokenReviewer, TooManyTokens
from weir.kubernetes.api.errors import ApiError

CONNECTIONS = web.AppKey("connections", ConnectionLimit)
BACKLOG = 128
BYTES_MAX = 2 << 20
"""Bytes of a review: the largest object that etcd takes (1.5 MiB), and the fields around it."""
LINGER_S = 1.0
"""After a refusal: the rest of a body is read and dropped for no longer."""
MISTAKES_TOLD_MAX, MISTAKE_CHARACTERS_MAX = 20, 200
"""Bounds of an answer."""
_UNREADABLE = (
    *(msgspec.MsgspecError, LookupError, TypeError, AttributeError, ValueError),
    *(ArithmeticError, RuntimeError),  # numbers that are too large, and nesting that is too deep
)
_LOG = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookServices:
    """Services that answer requests: the state for reviews, health, metrics."""

    quota_tree: Callable[[], QuotaTree | None]  # None: not yet
    reading: PodRules
    token_reviewer: TokenReviewer
    caller_key: Callable[[], str]  # last part of the webhooks' paths; empty: not yet known
    is_alive: Callable[[], bool] = lambda: True
    is_ready: Callable[[], bool] = lambda: True
    trouble: Callable[[], str] = lambda: ""  # sentence about the part without progress
    metrics: Callable[[], bytes] = lambda: b""
    owners: OwnerIndex | None = None  # None: owners don't make pods Weir's
    claims: ClaimedClasses | None = None  # None: claims don't make pods Weir's
    fresh_quota_tree: FreshQuotaTree | None = None  # None: judge by the watched objects only
    # True for the front proxy's certificate, which is no webhook caller
    is_front_proxy: Callable[[bytes], bool] = lambda _: False


def application(served: WebhookServices, *, client_authorities: bool = False) -> web.Application:
    """Return the application with all routes of the port."""
    worker, later_worker = ReviewWorker(), ReviewWorker()  # a flood of one kind mustn't delay the other

    owners, claims = served.owners, served.claims
    later = partial(
        _review_candidate, served=served, worker=later_worker, client_authorities=client_authorities
    )
    reviewed = partial(_review, served=served, worker=worker, client_authorities=client_authorities)
    reviews = {
        "mutate": partial(reviewed, answer=_patched),
        "validate": partial(reviewed, answer=_judged),
        "members": partial(later, find=candidate, confirm=None if owners is None else owners.has_gpus_above),
        "claims": partial(later, find=claimant, confirm=None if claims is None else claims.are_claimed),
    }

    async def close(_app: web.Application) -> None:
        worker.close()
        later_worker.close()

    async def alive(_request: web.Request) -> web.Response:
        return _health_response(well=served.is_alive())

    async def ready(_request: web.Request) -> web.Response:
        if trouble := served.trouble():
            return web.Response(status=503, text=f"{trouble}\n")
        return _health_response(well=served.is_ready() and served.quota_tree() is not None)

    async def metrics(request: web.Request) -> web.Response:
        try:
            header = request.headers.get("Authorization", "")
            may = await served.token_reviewer.may_get(header, "/metrics", request.remote or "")
        except (TooManyTokens, ApiError):
            return refused(503, "The token can't be checked now: try again.")
        if may is None:
            return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
        if not may:
            return web.Response(
                status=403, text="This account may not get /metrics: bind weir-metrics to it.\n"
            )
        return web.Response(body=served.metrics(), content_type="text/plain", charset="utf-8")

    limit = ConnectionLimit()
    app = web.Application(client_max_size=BYTES_MAX, middlewares=[limit.middleware])
    app[CONNECTIONS] = limit
    app.on_cleanup.append(close)
    for first, review in reviews.items():
        app.router.add_post(f"/{first}", review)
        app.router.add_post(f"/{first}/{{key}}", review)
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", metrics)
    return app


def tls_context(client_authorities: Path | None = None) -> ssl.SSLContext:
    """Return the TLS settings of the port, without a certificate yet.

    A client certificate is optional here: the handler of each path decides if it requires one.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if client_authorities is not None:
        context.load_verify_locations(client_authorities)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


@dataclass(frozen=True, slots=True)
class Listener:
    """Holds the open port until `cleanup`."""

    runner: web.AppRunner
    server: asyncio.Server

    @property
    def port(self) -> int:
        """Return the number of the port."""
        return int(self.server.sockets[0].getsockname()[1])

    async def cleanup(self) -> None:
        """Close the port, and end open requests.

        asyncio loses the socket of a connection that it accepted just before its server closes. So first it
        stops accepting connections, and then the loop runs twice to set up those accepted before.
        """
        loop = asyncio.get_running_loop()
        for listening in self.server.sockets:
            loop.remove_reader(listening.fileno())
        for _ in range(2):
            await asyncio.sleep(0)
        self.runner.app[CONNECTIONS].close()
        self.server.close()
        await self.runner.cleanup()


async def serve(app: web.Application, tls: ssl.SSLContext, host: str | None, port: int) -> Listener:
    """Listen. `cleanup` of the returned runner ends it."""
    runner = http_runner(app, shutdown_s=5.0, handle_signals=False, lingering_time=LINGER_S)
    await runner.setup()
    assert runner.server is not None
    listening = await asyncio.get_running_loop().create_server(
        app[CONNECTIONS].wrap(runner.server),
        host,
        port,
        ssl=tls,
        backlog=BACKLOG,
        ssl_handshake_timeout=HANDSHAKE_S,
    )
    return Listener(runner, listening)


def _health_response(*, well: bool) -> web.Response:
    return web.Response(text="ok\n") if well else web.Response(status=503, text="not yet\n")


_NAME_MAX, _DENIAL_MAX = 253, 1_000
"""Characters of a name and of a denial that the log repeats."""


class ReviewAnswer(NamedTuple):
    """Response to a review, and True if it depends on objects that a watch may be about to report."""

    response: Mapping[str, Any]
    is_doubtful: bool
    denial: Mapping[str, str] | None = None  # for the log


Judgement = TypeVar("Judgement")
Candidate = TypeVar("Candidate", MemberCandidate, Claimant)
Answer = Callable[[Mapping[str, Any], QuotaTree, PodRules], ReviewAnswer]


async def _review(
    request: web.Request,
    *,
    served: WebhookServices,
    worker: ReviewWorker,
    answer: Answer,
    client_authorities: bool,
) -> web.Response:
    quota_tree = served.quota_tree()
    if quota_tree is None or not served.caller_key():
        return refused(503, "not yet")
    refusal = _not_taken(request, served, client_authorities=client_authorities)
    if refusal is not None:
        return refusal
    try:
        result = await worker.answer(
            request.read,
            lambda read: _read_review(read, answer, quota_tree, served.reading),
            length=request.content_length,
        )
    except ReviewsBusy as error:
        _LOG.warning("review_not_answered", why=str(error))
        return refused(503, f"Not now: {error}.")
    if result is not None and result[1].is_doubtful and served.fresh_quota_tree is not None:
        now = await served.fresh_quota_tree.tree()
        if now is not None:
            with suppress(ReviewsBusy):  # if busy, the first answer stays
                again = partial(_read_review, judge=answer, quota_tree=now, reading=served.reading)
                result = await worker.answer(request.read, again)  # the body has been read
    if result is None:
        return refused(400, "This is no AdmissionReview that can be read.")
    uid, answered = result
    if answered.denial is not None:
        _LOG.info("denied", **answered.denial)
    return web.Response(body=_as_review(uid, answered.response), content_type="application/json")


async def _review_candidate(
    request: web.Request,
    *,
    served: WebhookServices,
    worker: ReviewWorker,
    find: Callable[[Mapping[str, Any], QuotaTree, PodRules], Candidate | None],
    confirm: Callable[[Candidate], Awaitable[bool]] | None,
    client_authorities: bool,
) -> web.Response:
    """Answer the review of an object that is Weir's if another object makes it so. That one may come late."""
    quota_tree, reading = served.quota_tree(), served.reading
    if quota_tree is None or confirm is None or not served.caller_key():
        return refused(503, "not yet")
    refusal = _not_taken(request, served, client_authorities=client_authorities)
    if refusal is not None:
        return refusal
    try:
        result = await worker.answer(
            request.read,
            lambda read: _read_review(read, find, quota_tree, reading),
            length=request.content_length,
        )
    except ReviewsBusy as error:
        return refused(503, f"Not now: {error}.")
    if result is None:
        return refused(400, "This is no AdmissionReview that can be read.")
    uid, may_be = result
    is_ours = may_be is not None and bool(may_be.patch) and await confirm(may_be)
    answer = _with_patch(may_be.patch if may_be is not None and is_ours else [])
    return web.Response(body=_as_review(uid, answer), content_type="application/json")


def _not_taken(
    request: web.Request, served: WebhookServices, *, client_authorities: bool
) -> web.Response | None:
    """Return the refusal of a call by its head only; None if its body may be read."""
    if client_authorities and not _has_certificate(request, served):
        return refused(403, "Show the API server's certificate.")
    shown = request.match_info.get("key", "").encode(errors="replace")
    if not hmac.compare_digest(shown, served.caller_key().encode()):
        return refused(403, "The path isn't that of Weir's webhook configuration: only the API server calls.")
    if (request.content_length or 0) > BYTES_MAX:
        return refused(413, f"The review has {request.content_length} bytes: send at most {BYTES_MAX}.")
    return None


def _has_certificate(request: web.Request, served: WebhookServices) -> bool:
    """Return True if the caller has shown a certificate of a caller of webhooks."""
    certificate = client_certificate(request)
    return certificate is not None and not served.is_front_proxy(certificate)


def client_certificate(request: web.Request) -> bytes | None:
    """Return the certificate that the caller has shown, in DER; None without one."""
    tls = None if request.transport is None else request.transport.get_extra_info("ssl_object")
    certificate: bytes | None = None if tls is None else tls.getpeercert(binary_form=True)
    return certificate


def refused(status: int, sentence: str) -> web.Response:
    """Return a response with a sentence."""
    return web.Response(status=status, text=f"{sentence}\n")


def _read_review(
    body: bytes,
    judge: Callable[[Mapping[str, Any], QuotaTree, PodRules], Judgement],
    quota_tree: QuotaTree,
    reading: PodRules,
) -> tuple[Any, Judgement] | None:
    """Return uid and judgement of a review, in the worker's thread; None if the review can't be read."""
    try:
        request = msgspec.json.decode(body)["request"]
        return request["uid"], judge(request, quota_tree, reading)
    except _UNREADABLE as error:
        _LOG.warning("review_not_understood", why=str(error)[:300])
        return None


def _as_review(uid: Any, response: Mapping[str, Any]) -> bytes:
    review = {"uid": uid, **response}
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": review}
    )


def _patched(request: Mapping[str, Any], quota_tree: QuotaTree, reading: PodRules) -> ReviewAnswer:
    patch = defaulting_patch(request, quota_tree, reading)
    return ReviewAnswer(_with_patch(patch), not patch and lacks_project(request, quota_tree, reading))


def _with_patch(ops: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not ops:
        return {"allowed": True}
    patch = base64.b64encode(msgspec.json.encode(ops)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def _judged(request: Mapping[str, Any], quota_tree: QuotaTree, reading: PodRules) -> ReviewAnswer:
    wrong: Sequence[str] = review_errors(request, quota_tree, reading)
    if not wrong:
        return ReviewAnswer({"allowed": True}, is_doubtful=False)
    message = summary(wrong)
    status = {"code": 422, "reason": "Invalid", "message": message}
    denial = None if request.get("dryRun") else _denial(request, message)
    return ReviewAnswer({"allowed": False, "status": status}, is_doubtful=True, denial=denial)


def _denial(request: Mapping[str, Any], message: str) -> dict[str, str]:
    """Return the fields of a refused object that the log repeats."""
    kind, metadata = request.get("kind") or {}, (request.get("object") or {}).get("metadata") or {}
    return {
        "kind": str(kind.get("kind", ""))[:_NAME_MAX],
        "namespace": str(request.get("namespace", ""))[:_NAME_MAX],
        "name": str(request.get("name") or metadata.get("generateName", ""))[:_NAME_MAX],
        "why": message[:_DENIAL_MAX],
    }


def summary(sentences: Sequence[str]) -> str:
    """Return the first sentences, each shortened, and the number of those left out."""
    shortened = [
        sentence
        if len(sentence) <= MISTAKE_CHARACTERS_MAX
        else sentence[: MISTAKE_CHARACTERS_MAX - 3] + "..."
        for sentence in sentences[:MISTAKES_TOLD_MAX]
    ]
    left = len(sentences) - len(shortened)
    return "; ".join([*shortened, f"and {left} more"] if left else shortened)

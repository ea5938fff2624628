"""The port by itself: what it answers to whom."""

import asyncio
import json
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tools.controlplane.certificates import Authority

from weir.kubernetes.admission.certificates import first
from weir.kubernetes.admission.reviews import PodRules, QuotaTree
from weir.kubernetes.admission.token_review import (
    KEPT_S,
    NEW,
    UNDER_WAY_MAX,
    TokenReviewer,
    TooManyTokens,
)
from weir.kubernetes.admission.webhook_server import (
    BYTES_MAX,
    WebhookServices,
    application,
    serve,
    tls_context,
)
from weir.kubernetes.api.subject_reviews import TokenReview
from weir.kubernetes.crd.queue_tree import QueueObject

KEY = "0" * 32
REVIEW = {
    "request": {"uid": "u", "kind": {"kind": "Pod"}, "namespace": "x", "object": {"metadata": {}, "spec": {}}}
}


class NoTokenReviewer(TokenReviewer):
    """No API server to ask."""

    def __init__(self) -> None:
        pass

    async def may_get(self, authorization: str, path: str, address: str = "") -> bool | None:
        return True if authorization == "Bearer good" else None


def served(known: QuotaTree | None, **more: Any) -> WebhookServices:
    return WebhookServices(
        lambda: known,
        PodRules("weir", {"nvidia.com/gpu"}.__contains__),
        NoTokenReviewer(),
        lambda: KEY,
        **more,
    )


@asynccontextmanager
async def port(
    what: WebhookServices, tmp_path: Path, *, authorities: bool = False, shows: bool = False
) -> AsyncIterator[tuple[aiohttp.ClientSession, ssl.SSLContext]]:
    """Serve, and return a client of it."""
    ours, theirs = first(["127.0.0.1"], datetime.now(UTC)), Authority(tmp_path)
    crt, key = tmp_path / "ours.crt", tmp_path / "ours.key"
    crt.write_bytes(ours.certificate)
    key.write_bytes(ours.key)
    tls = tls_context(theirs.certificate if authorities else None)
    tls.load_cert_chain(crt, key)
    caller = ssl.create_default_context(cadata=ours.bundle.decode())
    if shows:
        pair = theirs.client("apiserver")
        caller.load_cert_chain(pair.certificate, pair.key)
    runner = await serve(application(what, client_authorities=authorities), tls, "127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(f"https://127.0.0.1:{runner.port}") as session:
            yield session, caller
    finally:
        await runner.cleanup()
        await asyncio.sleep(0.1)


async def answers(
    what: WebhookServices,
    asks: list[tuple[str, str, Any]],
    tmp_path: Path,
    *,
    authorities: bool = False,
    shows: bool = False,
) -> list[tuple[int, bytes]]:
    found = []
    async with port(what, tmp_path, authorities=authorities, shows=shows) as (session, caller):
        for method, path, body in asks:
            headers = {"Authorization": "Bearer good"} if path == "/metrics?" else {}
            async with session.request(
                method, path, data=None if body is None else BytesIO(body), headers=headers, ssl=caller
            ) as answer:
                found.append((answer.status, await answer.read()))
    return found


async def test_health_says_ok_and_nothing_else(tmp_path: Path) -> None:
    asks = [
        ("GET", "/healthz", None),
        ("GET", "/readyz", None),
        ("POST", f"/validate/{KEY}", b"{}"),
        ("GET", "/", None),
    ]
    found = await answers(served(None), asks, tmp_path)
    assert found[0] == (200, b"ok\n")
    assert [status for status, _ in found[1:]] == [503, 503, 404]
    unwell = served(QuotaTree(), is_alive=lambda: False, is_ready=lambda: True)
    assert [status for status, _ in await answers(unwell, asks[:2], tmp_path)] == [503, 200]


async def test_metrics_are_for_bearers(tmp_path: Path) -> None:
    asks = [("GET", "/metrics", None), ("GET", "/metrics?", None)]
    found = await answers(served(QuotaTree(), metrics=lambda: b"up 1\n"), asks, tmp_path)
    assert [status for status, _ in found] == [401, 200]
    assert found[1][1] == b"up 1\n"


async def test_what_is_no_review_is_refused_without_a_crash(tmp_path: Path) -> None:
    bodies = [b"", b"{}", b"[]", b"[" * 100_000, b'{"request": 1}', b"\xff", b" " * (BYTES_MAX + 1)]
    found = await answers(
        served(QuotaTree()), [("POST", f"/validate/{KEY}", body) for body in bodies], tmp_path
    )
    assert [status for status, _ in found] == [400] * 6 + [413]


async def test_only_the_api_server_is_answered_where_it_can_show_who_it_is(tmp_path: Path) -> None:
    asks = [("POST", f"/validate/{KEY}", json.dumps(REVIEW).encode()), ("GET", "/healthz", None)]
    for shows, status in ((False, 403), (True, 200)):
        found = await answers(served(QuotaTree()), asks, tmp_path, authorities=True, shows=shows)
        assert [each for each, _ in found] == [status, 200]


# Bounds


def padded(size: int, **more: Any) -> dict[str, Any]:
    """Return a review of a pod with unknown annotations under our prefix, of this size together."""
    words = {f"weir.dev/unknown-{at:06}": "" for at in range(size // len("weir.dev/unknown-000000"))}
    one = {"metadata": {"annotations": words}, "spec": {"schedulerName": "weir", "containers": []}}
    return {"request": {**REVIEW["request"], "operation": "CREATE", "object": one, **more}}


async def test_the_answer_to_a_large_object_is_small_and_names_the_first_mistakes(tmp_path: Path) -> None:
    many = json.dumps(padded(252 << 10)).encode()
    words = {"weir.dev/type": "x" * (250 << 10), "weir.dev/project": "y" * 1000}
    long = padded(0)
    long["request"]["object"]["metadata"]["annotations"] = words
    asks = [("POST", f"/validate/{KEY}", many), ("POST", f"/mutate/{KEY}", many)]
    asks.append(("POST", f"/validate/{KEY}", json.dumps(long).encode()))
    found = await answers(served(QuotaTree()), asks, tmp_path)
    assert [status for status, _ in found] == [200] * 3
    assert all(len(body) < 8192 for _, body in found)
    reported = json.loads(found[0][1])["response"]["status"]["message"]
    assert reported.count("isn't known") == 20
    assert "weir.dev/unknown-000019" in reported
    assert "; and " in reported
    reported = json.loads(found[2][1])["response"]["status"]["message"]
    assert "weir.dev/type has 256000 characters: write at most 1024, such as train" in reported


async def test_reviews_without_the_key_of_the_path_are_refused(tmp_path: Path) -> None:
    body = json.dumps(REVIEW).encode()
    paths = ["/validate", "/validate/", f"/validate/{'1' * 32}", f"/mutate/{KEY[1:]}", f"/mutate/{KEY}"]
    found = await answers(served(QuotaTree()), [("POST", path, body) for path in paths], tmp_path)
    assert [status for status, _ in found] == [403, 404, 403, 403, 200]
    not_yet = WebhookServices(QuotaTree, PodRules("weir", bool), NoTokenReviewer(), lambda: "")
    found = await answers(not_yet, [("POST", "/mutate", body)], tmp_path)
    assert found[0][0] == 503


async def test_the_event_loop_answers_while_a_review_is_worked_on(tmp_path: Path) -> None:
    """The thread is held by the first review until the event loop has done something else."""
    begun, go_on = threading.Event(), threading.Event()

    def refusals(_pod: Any, _said: Any) -> list[str]:
        begun.set()
        assert go_on.wait(60)
        return ["held"]

    known = QuotaTree(projects={"p": QueueObject("p", {"namespaces": ["x"]}, 1.0)})
    what = WebhookServices(lambda: known, PodRules("weir", bool, refusals), NoTokenReviewer(), lambda: KEY)
    body = json.dumps(padded(0)).encode()
    async with port(what, tmp_path) as (session, caller):

        async def review() -> tuple[int, bytes]:
            async with session.post(f"/validate/{KEY}", data=body, ssl=caller) as answer:
                return answer.status, await answer.read()

        waiting = asyncio.create_task(review())
        assert await asyncio.to_thread(begun.wait, 60)
        async with session.get("/healthz", ssl=caller) as answer:
            assert answer.status == 200
        assert not waiting.done()
        go_on.set()
        status, reply = await waiting
        assert (status, b"held" in reply) == (200, True)


async def test_strange_tokens_ask_the_api_server_a_few_at_a_time() -> None:
    asked, go_on = 0, asyncio.Event()

    class Slow:
        async def post(self, _path: str, _body: object, of: type[TokenReview]) -> TokenReview:
            nonlocal asked
            asked += 1
            await go_on.wait()
            return of()

    now_s = [0.0]
    token_reviewer = TokenReviewer(Slow(), lambda: now_s[0])  # type: ignore[arg-type]
    waiting = [
        asyncio.create_task(token_reviewer.may_get(f"Bearer t{at}", "/metrics", f"10.0.0.{at}"))
        for at in range(NEW.at_once)
    ]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert asked == UNDER_WAY_MAX
    go_on.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    busy = sum(isinstance(each, TooManyTokens) for each in found)
    assert (found.count(None), busy) == (UNDER_WAY_MAX, NEW.at_once - UNDER_WAY_MAX)
    with pytest.raises(TooManyTokens):
        await token_reviewer.may_get("Bearer t", "/metrics")
    now_s[0] = 1.0
    assert await token_reviewer.may_get("Bearer t", "/metrics") is None


async def test_a_bearer_who_is_known_reads_metrics_while_strangers_come() -> None:
    class Vouching:
        async def post(self, path: str, body: dict[str, Any], of: type[Any]) -> Any:
            good = path.endswith("subjectaccessreviews") or body["spec"]["token"] == "good"
            return msgspec.convert({"status": {"authenticated": good, "allowed": good}}, of)

    now_s = [0.0]
    token_reviewer = TokenReviewer(Vouching(), lambda: now_s[0])  # type: ignore[arg-type]
    assert await token_reviewer.may_get("Bearer good", "/metrics")
    now_s[0] = KEPT_S
    strangers = [token_reviewer.may_get(f"Bearer t{at}", "/metrics") for at in range(2 * NEW.at_once)]
    found = await asyncio.gather(*strangers, return_exceptions=True)
    assert any(isinstance(each, TooManyTokens) for each in found)
    assert await token_reviewer.may_get("Bearer good", "/metrics")

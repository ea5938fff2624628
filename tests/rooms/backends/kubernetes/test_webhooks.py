"""The port by itself: what it answers to whom."""

import asyncio
import json
import ssl
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
from tools.controlplane.certificates import Authority

from weir.backends.kubernetes.admission.admission import Known, Reading
from weir.backends.kubernetes.admission.callers import Callers
from weir.backends.kubernetes.admission.certificates import first
from weir.backends.kubernetes.admission.webhooks import BYTES_MOST, Served, application, serve, tls_context

REVIEW = {
    "request": {"uid": "u", "kind": {"kind": "Pod"}, "namespace": "x", "object": {"metadata": {}, "spec": {}}}
}


class Nobody(Callers):
    """No API server to ask."""

    def __init__(self) -> None:
        pass

    async def may_get(self, authorization: str, path: str) -> bool | None:
        return True if authorization == "Bearer good" else None


def served(known: Known | None, **more: Any) -> Served:
    return Served(lambda: known, Reading("weir", {"nvidia.com/gpu"}.__contains__), Nobody(), **more)


async def answers(
    what: Served,
    asks: list[tuple[str, str, Any]],
    tmp_path: Path,
    *,
    authorities: bool = False,
    shows: bool = False,
) -> list[tuple[int, bytes]]:
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
    found = []
    try:
        async with aiohttp.ClientSession(f"https://127.0.0.1:{runner.addresses[0][1]}") as session:
            for method, path, body in asks:
                headers = {"Authorization": "Bearer good"} if path == "/metrics?" else {}
                async with session.request(
                    method, path, data=None if body is None else BytesIO(body), headers=headers, ssl=caller
                ) as answer:
                    found.append((answer.status, await answer.read()))
    finally:
        await runner.cleanup()
        await asyncio.sleep(0.1)
    return found


async def test_health_says_ok_and_nothing_else(tmp_path: Path) -> None:
    asks = [
        ("GET", "/healthz", None),
        ("GET", "/readyz", None),
        ("POST", "/validate", b"{}"),
        ("GET", "/", None),
    ]
    found = await answers(served(None), asks, tmp_path)
    assert found[0] == (200, b"ok\n")
    assert [status for status, _ in found[1:]] == [503, 503, 404]
    unwell = served(Known(), is_alive=lambda: False, is_ready=lambda: True)
    assert [status for status, _ in await answers(unwell, asks[:2], tmp_path)] == [503, 200]


async def test_metrics_are_for_bearers(tmp_path: Path) -> None:
    asks = [("GET", "/metrics", None), ("GET", "/metrics?", None)]
    found = await answers(served(Known(), metrics=lambda: b"up 1\n"), asks, tmp_path)
    assert [status for status, _ in found] == [401, 200]
    assert found[1][1] == b"up 1\n"


async def test_what_is_no_review_is_refused_without_a_crash(tmp_path: Path) -> None:
    bodies = [b"", b"{}", b"[]", b"[" * 100_000, b'{"request": 1}', b"\xff", b" " * (BYTES_MOST + 1)]
    found = await answers(served(Known()), [("POST", "/validate", body) for body in bodies], tmp_path)
    assert [status for status, _ in found] == [400] * 6 + [413]


async def test_only_the_api_server_is_answered_where_it_can_show_who_it_is(tmp_path: Path) -> None:
    asks = [("POST", "/validate", json.dumps(REVIEW).encode()), ("GET", "/healthz", None)]
    for shows, status in ((False, 403), (True, 200)):
        found = await answers(served(Known()), asks, tmp_path, authorities=True, shows=shows)
        assert [each for each, _ in found] == [status, 200]

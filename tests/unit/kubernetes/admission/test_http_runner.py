"""The name of the server in answers: that of Weir, and none of the programs that it is made of."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web, web_response

import weir
from weir.kubernetes.admission.http_runner import http_runner

REQUESTS = {
    "answered": b"GET /well HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n",
    "without a route": b"GET /nothing HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n",
    "broken": b"GET /broken HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n",
    "unreadable": b"no request\r\n\r\n",
}


@pytest.fixture(autouse=True)
def others_name() -> Iterator[None]:
    before = vars(web_response)["SERVER_SOFTWARE"]
    yield
    vars(web_response)["SERVER_SOFTWARE"] = before


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS)
async def test_no_answer_names_python_or_aiohttp(request_bytes: bytes) -> None:
    async def well(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def broken(_request: web.Request) -> web.Response:
        raise RuntimeError

    app = web.Application()
    app.router.add_get("/well", well)
    app.router.add_get("/broken", broken)
    runner = http_runner(app, shutdown_s=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        reader, writer = await asyncio.open_connection(*runner.addresses[0])
        writer.write(request_bytes)
        answer = (await reader.read()).lower()
        writer.close()
    finally:
        await runner.cleanup()
    assert b"\r\nserver: weir\r\n" in answer
    assert b"python" not in answer
    assert b"aiohttp" not in answer


def test_every_server_of_aiohttp_has_this_runner() -> None:
    root = Path(weir.__file__).parent
    makers = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if any(maker in path.read_text() for maker in ("AppRunner(", "ServerRunner(", "run_app("))
    }
    assert makers == {"kubernetes/admission/http_runner.py"}

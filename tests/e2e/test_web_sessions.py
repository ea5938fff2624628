"""Programs of workloads in a browser: the proxy lets its own pages through, and no secret of the pool."""

import http.client
import json
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.e2e.ssh_session import LIMIT_S, received, until
from tests.unit.local.server.server_process import Serving, serving
from tools.controlplane.ports import free_port

PROGRAM = Path(__file__).with_name("session_program.py")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    home = Path(tmp_path_factory.mktemp("w"))
    with serving(home, settings={"sessions_port": free_port()}) as server:
        _begin(server, "notes", "jupyter")
        yield server


@pytest.fixture
def cookie(server: Serving) -> str:
    return _open(server, "notes")


def test_a_program_gets_the_request_and_nothing_that_signs_in_to_the_pool(
    server: Serving, cookie: str
) -> None:
    sent = {
        "Cookie": f"weir_session=a; {cookie}; _xsrf=own; __Host-weir_session=b",
        "Authorization": f"Bearer {server.token}",
        "X-Weir-Proof": "c",
        "X-Forwarded-For": "6.6.6.6",
    }
    status, headers, told = _ask(server, "POST", "/sessions/notes/api/x?y=1", sent, b"body")
    assert status == 200
    assert told["line"] == "POST /sessions/notes/api/x?y=1 HTTP/1.1"
    assert told["body"] == "body"
    got = dict(told["headers"])
    assert got["cookie"] == "_xsrf=own"
    assert not {"authorization", "x-weir-proof", "x-forwarded-for"} & got.keys()
    assert server.token not in json.dumps(told)
    assert "--ServerApp.base_url=/sessions/notes/" in told["args"]
    assert ("Set-Cookie", "_xsrf=1; Path=/sessions/notes/") in headers
    assert ("Service-Worker-Allowed", "/sessions/notes/") in headers
    names = {name.lower() for name, _ in headers}
    assert not {"clear-site-data", "access-control-allow-origin", "strict-transport-security"} & names
    assert not any("weir_session" in value for _, value in headers)


def test_a_link_works_once_and_leads_to_an_address_without_it(server: Serving) -> None:
    link = urlsplit(_link(server, "notes"))
    status, headers, _ = _ask(server, "GET", f"{link.path}?{link.query}&tree=1", {})
    assert (status, dict(headers)["Location"]) == (303, "/sessions/notes/?tree=1")
    for part in (f"weir_view_{_port(server)}=", "HttpOnly", "SameSite=Lax", "Path=/sessions/notes/"):
        assert part in dict(headers)["Set-Cookie"]
    assert _ask(server, "GET", f"{link.path}?{link.query}", {})[0] == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Host": "evil.example"},
        {"Upgrade": "websocket", "Connection": "Upgrade", "Origin": "http://evil.example"},
    ],
)
def test_a_page_of_another_origin_is_refused(server: Serving, cookie: str, headers: dict[str, str]) -> None:
    for method in ("GET", "POST"):
        status, _, text = _ask(server, method, "/sessions/notes/x", {"Cookie": cookie, **headers})
        assert status == 403, text


def test_no_or_another_cookie_is_refused(server: Serving, cookie: str) -> None:
    _begin(server, "others", "jupyter")
    assert _ask(server, "GET", "/sessions/notes/x", {})[0] == 401
    assert _ask(server, "GET", "/sessions/notes/x", {"Cookie": f"weir_view_{_port(server)}=guess"})[0] == 401
    assert _ask(server, "GET", "/sessions/others/x", {"Cookie": cookie})[0] == 401
    assert _ask(server, "GET", "/api/v1/workloads", {"Cookie": cookie})[0] == 404


def test_a_web_socket_passes_both_ways(server: Serving, cookie: str) -> None:
    with _upgraded(server, cookie) as stream:
        for word in (b"one", b"\0\xfftwo"):
            stream.sendall(word)
            assert received(stream, len(word)) == word


def test_a_view_holds_over_a_crash_of_the_server(server: Serving, cookie: str) -> None:
    with _upgraded(server, cookie) as stream:
        server.end(signal.SIGKILL)
        assert stream.recv(1) == b"", "the stream ends, and the page connects again"
    server.begin()
    statuses: list[int] = []

    def answers() -> bool:
        statuses.append(_ask(server, "GET", "/sessions/notes/x", {"Cookie": cookie})[0])
        return statuses[-1] == 200

    until(answers)
    assert set(statuses) <= {200, 503}, "a page mustn't take its kernel for one that is gone"
    assert b"weir_view" not in (server.home / "session-views.json").read_bytes()


def test_a_program_of_code_answers_below_its_own_root(server: Serving) -> None:
    _begin(server, "editor", "code")
    status, _, told = _ask(
        server, "GET", "/sessions/editor/static/x?a=b", {"Cookie": _open(server, "editor")}
    )
    assert (status, told["line"]) == (200, "GET /static/x?a=b HTTP/1.1")
    assert told["args"][2:6] == ["--socket-mode", "660", "--auth", "none"]


def test_a_link_in_the_place_of_the_socket_is_not_followed(server: Serving) -> None:
    code = "import os; os.symlink({!r}, os.environ['WEIR_POD_DIRECTORY'] + '/session.sock'); import time; time.sleep(600)"
    command = [sys.executable, "-c", code.format(str(server.home / "weir.sock"))]
    server.submit(*command, name="hostile", gpus=0, session="jupyter")
    server.until("hostile", "running")
    link = []

    def is_refused() -> bool:
        status, answer = server.ask("POST", "/api/v1/workloads/hostile/session")
        link.append(answer)
        return status == 502

    until(is_refused)
    assert "there is no socket of its user" in link[-1]["detail"]


def test_a_session_that_is_over_or_is_none_is_refused(server: Serving) -> None:
    _begin(server, "short", "jupyter")
    cookie = _open(server, "short")
    with _upgraded(server, cookie, "short") as stream:
        server.ask("POST", "/api/v1/workloads/short/stop")
        server.until("short", "stopped")
        assert stream.recv(1) == b""
    assert _ask(server, "GET", "/sessions/short/x", {"Cookie": cookie})[0] == 404
    server.submit("sleep", "600", name="plain", gpus=0)
    status, answer = server.ask("POST", "/api/v1/workloads/plain/session")
    assert (status, "no session in a browser" in answer["detail"]) == (422, True)


@pytest.mark.parametrize(
    "head", [b"\x16\x03\x01\0\0", b"GET /sessions/notes/ HTTP/1.1\r\n" + b"x: y\r\n" * 20_000]
)
def test_what_is_no_request_harms_no_other(server: Serving, cookie: str, head: bytes) -> None:
    with _raw(server) as stream:
        stream.sendall(head)
        stream.shutdown(socket.SHUT_WR)
        while stream.recv(4096):
            pass
    assert _ask(server, "GET", "/sessions/notes/x", {"Cookie": cookie})[0] == 200


def _begin(server: Serving, name: str, kind: str) -> None:
    server.submit(sys.executable, str(PROGRAM), name=name, gpus=0, session=kind)
    server.until(name, "running")


def _link(server: Serving, name: str) -> str:
    """Return a link, once the program listens."""
    found: list[Any] = []

    def is_made() -> bool:
        status, answer = server.ask("POST", f"/api/v1/workloads/{name}/session")
        assert status in (201, 409), answer
        found.append(answer.get("url"))
        return status == 201

    until(is_made)
    return str(found[-1])


def _open(server: Serving, name: str) -> str:
    """Return the cookie of a new view."""
    link = urlsplit(_link(server, name))
    status, headers, text = _ask(server, "GET", f"{link.path}?{link.query}", {})
    assert status == 303, text
    return dict(headers)["Set-Cookie"].partition(";")[0]


def _port(server: Serving) -> int:
    port: int = server.settings["sessions_port"]
    return port


def _ask(
    server: Serving, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
) -> tuple[int, list[tuple[str, str]], Any]:
    connection = http.client.HTTPConnection("127.0.0.1", _port(server), timeout=LIMIT_S)
    try:
        connection.request(method, path, body or None, dict(headers))
        answer = connection.getresponse()
        text = answer.read()
        is_json = answer.getheader("content-type") == "application/json"
        return answer.status, answer.getheaders(), json.loads(text) if is_json else text
    finally:
        connection.close()


def _raw(server: Serving) -> socket.socket:
    return socket.create_connection(("127.0.0.1", _port(server)), timeout=LIMIT_S)


def _upgraded(server: Serving, cookie: str, name: str = "notes") -> socket.socket:
    stream = _raw(server)
    host = f"127.0.0.1:{_port(server)}"
    stream.sendall(
        f"GET /sessions/{name}/socket HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {cookie}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += received(stream, 1)
    assert head.startswith(b"HTTP/1.1 101"), head
    return stream

"""Sessions of several people in one browser: a page of one person's session is of another origin than the others'."""

import http.client
import signal
import socket
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.ssh_session import LIMIT_S, received, until
from tests.unit.local.server.server_process import SHARED_ACCOUNT, Serving, serving
from tools.controlplane.ports import free_port

from weir.local.server.web_sessions.proxy import PERSON_CONNECTIONS_MAX

PROGRAM = Path(__file__).with_name("session_program.py")


def test_a_page_of_another_person_has_no_way_to_a_session(tmp_path: Path) -> None:
    with serving(tmp_path, settings={**SHARED_ACCOUNT, "sessions_port": free_port()}) as server:
        links = {user: _link(server, user) for user in ("mia", "eve")}
        places = {user: urlsplit(link) for user, link in links.items()}
        assert len({"127.0.0.1", *(place.hostname for place in places.values())}) == 3, links
        mia, eve = (str(places[user].netloc) for user in ("mia", "eve"))
        eves = f"{places['eve'].path}?{places['eve'].query}"
        assert _get(mia, eves, "")[0] == 401, "a link to a session of eve opens none at the address of mia"
        status, cookie = _get(mia, f"{places['mia'].path}?{places['mia'].query}", "")
        assert status == 303
        assert _get(mia, "/sessions/s-mia/x", cookie)[0] == 200
        for other in (eve, f"127.0.0.1:{places['mia'].port}"):
            for host in (other, mia):
                assert _get(other, "/sessions/s-mia/x", cookie, host)[0] == 401
        server.end(signal.SIGKILL)
        server.begin()
        until(lambda: _is_answered(mia, cookie))


def _is_answered(place: str, cookie: str) -> bool:
    """Return True once the server listens at an address again, and lets the view through."""
    with suppress(ConnectionRefusedError):
        return _get(place, "/sessions/s-mia/x", cookie)[0] == 200
    return False


def test_one_person_leaves_connections_for_others(tmp_path: Path) -> None:
    with serving(tmp_path, settings={**SHARED_ACCOUNT, "sessions_port": free_port()}) as server:
        views = {}
        for user in ("mia", "eve"):
            place = urlsplit(_link(server, user))
            views[user] = (str(place.netloc), _get(place.netloc, f"{place.path}?{place.query}", "")[1])
        with ExitStack() as streams:
            for _ in range(PERSON_CONNECTIONS_MAX):
                streams.enter_context(_upgraded(*views["eve"], "/sessions/s-eve/socket"))
            assert _get(views["eve"][0], "/sessions/s-eve/x", views["eve"][1])[0] == 429
            assert _get(views["mia"][0], "/sessions/s-mia/x", views["mia"][1])[0] == 200
        until(lambda: _get(views["eve"][0], "/sessions/s-eve/x", views["eve"][1])[0] == 200)


def _upgraded(place: str, cookie: str, path: str) -> socket.socket:
    host, _, port = place.partition(":")
    stream = socket.create_connection((host, int(port)), timeout=LIMIT_S)
    stream.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {place}\r\nOrigin: http://{place}\r\nCookie: {cookie}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += received(stream, 1)
    assert head.startswith(b"HTTP/1.1 101"), head
    return stream


def _link(server: Serving, user: str) -> str:
    """Return a link of a new person to a session of theirs."""
    body: dict[str, Any] = {"user": user, "role": "member", "projects": ["default"]}
    status, made = server.ask("POST", "/api/v1/tokens", body)
    assert status == 201, made
    pods = [{"gpus": 0, "cpu": "100m", "memory": "16Mi"}]
    command = [sys.executable, str(PROGRAM)]
    body = {"project": "default", "command": command, "pods": pods, "name": f"s-{user}", "session": "jupyter"}
    status, answer = server.ask("POST", "/api/v1/workloads", body, token=made["token"])
    assert status == 201, answer
    found: list[str] = []

    def is_made() -> bool:
        status, answer = server.ask("POST", f"/api/v1/workloads/s-{user}/session", token=made["token"])
        assert status in (201, 409), answer
        found.append(answer.get("url", ""))
        return status == 201

    until(is_made)
    return found[-1]


def _get(place: str, path: str, cookie: str, host: str = "") -> tuple[int, str]:
    """Return the status of an answer and the cookie that it sets."""
    connection = http.client.HTTPConnection(place, timeout=LIMIT_S)
    try:
        connection.request("GET", path, headers={"Cookie": cookie, "Host": host or place})
        answer = connection.getresponse()
        answer.read()
        return answer.status, (answer.getheader("Set-Cookie") or "").partition(";")[0]
    finally:
        connection.close()

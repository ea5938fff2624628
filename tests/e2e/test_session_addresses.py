"""Sessions of several people in one browser: a page of one person's session is of another origin than the others'."""

import http.client
import signal
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.ssh_session import LIMIT_S, until
from tests.unit.local.server.server_process import SHARED_ACCOUNT, Serving, serving
from tools.controlplane.ports import free_port

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
        until(lambda: _get(mia, "/sessions/s-mia/x", cookie)[0] == 200)


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

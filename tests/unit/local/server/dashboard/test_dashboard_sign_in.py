"""Sign-in to the dashboard: links, sessions, and what keeps other sites and other ports out."""

import asyncio
import stat
from pathlib import Path

import httpx
import pytest
from tests.unit.local.server.in_process_server import Standing

from weir.dashboard.browser_checks import is_this_machine
from weir.dashboard.session_table import CODE_S, SESSION_S
from weir.local.server.dashboard.sessions import DashboardSessions

SIGN_IN = "/api/v1/dashboard/sign-in"
SESSION = "/api/v1/dashboard/session"


def browser(stands: Standing, host: str = "127.0.0.1:9347") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=stands.transport, base_url=f"http://{host}")


async def signed_in(stands: Standing, token: str) -> httpx.AsyncClient:
    page = browser(stands)
    answer = await page.post(SIGN_IN, json={"token": token})
    assert answer.status_code == 201, answer.text
    page.headers["X-Weir-Proof"] = answer.json()["proof"]
    return page


async def link(client: httpx.AsyncClient) -> str:
    answer = await client.post("/api/v1/dashboard/links", json={})
    assert answer.status_code == 201, answer.text
    path: str = answer.json()["path"]
    return path.removeprefix("/#code=")


async def test_link_signs_in_once_with_the_rights_of_its_token(stands: Standing) -> None:
    member = await stands.member("default")
    code = await link(member)
    page = browser(stands)
    answer = await page.post(SIGN_IN, json={"code": code})
    assert answer.status_code == 201
    assert {key: answer.json()[key] for key in ("user", "is_admin", "projects")} == {
        "user": "mia",
        "is_admin": False,
        "projects": ["default"],
    }
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    page.headers["X-Weir-Proof"] = answer.json()["proof"]
    assert (await page.get("/api/v1/status")).status_code == 200
    assert (await page.get("/api/v1/audit")).status_code == 403
    assert (await page.put("/api/v1/projects/x", json={"name": "x"})).status_code == 403
    again = await browser(stands).post(SIGN_IN, json={"code": code})
    assert again.status_code == 401
    assert "weir dashboard" in again.json()["detail"]


async def test_link_ends_after_a_minute_and_session_after_a_week(stands: Standing, tmp_path: Path) -> None:
    now_s = 1000.0
    authenticator = stands.transport.app.state.authenticator  # type: ignore[attr-defined]
    sessions = DashboardSessions(tmp_path, authenticator, lambda: now_s)
    token = sessions.redeem(sessions.make_code("a" * 64)[0])
    cookie, proof = sessions.begin(token)
    code, until_s = sessions.make_code("a" * 64)
    assert until_s == now_s + CODE_S
    now_s += CODE_S
    with pytest.raises(Exception, match="older than a minute"):
        sessions.redeem(code)
    assert sessions.credential_of(cookie, proof) == "a" * 64
    now_s += SESSION_S
    with pytest.raises(Exception, match="signed in"):
        sessions.credential_of(cookie, proof)


async def test_session_ends_with_its_token_and_outlives_the_server(stands: Standing) -> None:
    made = (await stands.admin.post("/api/v1/tokens", json={"user": "mia", "projects": ["default"]})).json()
    page = await signed_in(stands, made["token"])
    file = stands.pool.home / "sessions.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    for secret in (made["token"], page.cookies["weir_session_9347"], page.headers["X-Weir-Proof"]):
        assert secret not in text
    state = stands.transport.app.state  # type: ignore[attr-defined]
    later = DashboardSessions(stands.pool.home, state.authenticator, stands.pool.clock)
    own = page.cookies["weir_session_9347"], page.headers["X-Weir-Proof"]
    assert later.credential_of(*own) == state.sessions.credential_of(*own)
    assert (await stands.admin.delete(f"/api/v1/tokens/{made['id']}")).status_code == 204
    assert (await page.get(SESSION)).status_code == 401


async def test_damaged_sessions_mean_to_sign_in_again(stands: Standing, tmp_path: Path) -> None:
    authenticator = stands.transport.app.state.authenticator  # type: ignore[attr-defined]
    for text in ("", "nonsense", "[]", '{"x": {"proof": 1}}', "[" * 5000):
        (tmp_path / "sessions.json").write_text(text)
        sessions = DashboardSessions(tmp_path, authenticator, stands.pool.clock)
        cookie, proof = sessions.begin("a" * 64)
        assert sessions.credential_of(cookie, proof) == "a" * 64


async def test_cookie_alone_is_worth_nothing(stands: Standing) -> None:
    page = await signed_in(stands, stands.token)
    for proof in ("", "wrong", page.cookies["weir_session_9347"]):
        headers = {"X-Weir-Proof": proof}
        assert (await page.get(SESSION, headers=headers)).status_code == 401
        stopped = await page.post("/api/v1/workloads/x/stop", headers=headers)
        assert stopped.status_code == 401
    alone = browser(stands)
    alone.headers["X-Weir-Proof"] = page.headers["X-Weir-Proof"]
    assert (await alone.get(SESSION)).status_code == 401


async def test_other_sites_and_forged_hosts_are_refused(stands: Standing) -> None:
    page = await signed_in(stands, stands.token)
    row = await stands.submit()
    stop = f"/api/v1/workloads/{row['name']}/stop"
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example:9347"},
        {"Host": "127.0.0.1.evil.example:9347"},
    ):
        assert (await page.post(stop, headers=headers)).status_code == 403, headers
    for host in ("evil.example", "[", "", "10.0.0.1"):
        assert (await page.get("/", headers={"Host": host})).status_code == 403, host
        refused = await browser(stands).post(SIGN_IN, json={"token": stands.token}, headers={"Host": host})
        assert refused.status_code == 403, host
    assert (await stands.get(f"workloads/{row['name']}"))["status"] in ("pending", "starting", "running")
    assert (await page.post(stop, headers={"Origin": "http://127.0.0.1:9347"})).status_code == 200


def test_hosts_of_this_machine() -> None:
    for host in ("localhost", "localhost:1", "127.0.0.1:9347", "127.1.2.3", "[::1]:80", "LOCALHOST"):
        assert is_this_machine(host), host
    for host in ("", "[", "[::", "example.org", "localhost.example.org", "0.0.0.0", "192.168.1.1", "a@b@c"):
        assert not is_this_machine(host), host


async def test_sign_in_tells_nothing_of_what_is_wrong(stands: Standing) -> None:
    page = browser(stands)
    for body in ({"token": "x" * 40}, {"code": "x" * 40}):
        assert (await page.post(SIGN_IN, json=body)).status_code == 401
    for body in ({}, {"token": "a", "code": "b"}, {"token": ""}, {"token": "x" * 501}, {"token": 1}, []):
        assert (await page.post(SIGN_IN, json=body)).status_code == 422, body
    assert "set-cookie" not in (await page.post(SIGN_IN, json={"token": "x"})).headers


async def test_sign_out_ends_the_session(stands: Standing) -> None:
    page = await signed_in(stands, stands.token)
    headers = dict(page.headers)
    cookie = page.cookies["weir_session_9347"]
    ended = await page.delete(SESSION)
    assert (ended.status_code, ended.json()) == (200, {"provider": None})
    again = browser(stands)
    again.cookies.set("weir_session_9347", cookie)
    assert (await again.get(SESSION, headers={"X-Weir-Proof": headers["x-weir-proof"]})).status_code == 401


async def test_sign_in_is_in_the_audit_log_without_secrets(stands: Standing) -> None:
    page = await signed_in(stands, stands.token)
    await asyncio.sleep(0)
    text = (stands.pool.home / "audit.jsonl").read_text()
    assert "/api/v1/dashboard/sign-in" in text
    for secret in (stands.token, page.cookies["weir_session_9347"], page.headers["X-Weir-Proof"]):
        assert secret not in text


async def test_page_comes_with_a_strict_policy(stands: Standing) -> None:
    answer = await browser(stands).get("/")
    if answer.status_code == 503:
        pytest.skip("the page isn't built: `make web` builds it")
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "style=" not in answer.text
    script = answer.text.split('src="./')[1].split('"')[0]
    found = await browser(stands).get(f"/{script}", headers={"Accept-Encoding": "gzip"})
    assert found.status_code == 200
    assert found.headers["content-encoding"] == "gzip"
    for name in ("..%2findex.html", "%2e%2e", "x", ".made-from"):
        assert (await browser(stands).get(f"/assets/{name}")).status_code == 404

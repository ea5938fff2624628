"""A pool that other machines reach: tokens of a real provider, the dashboard over HTTPS, `weir login`."""

import re
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from weir.dashboard.tls_listener import HANDSHAKES_MAX

from .page import SIGN_IN, START, Page
from .pool import LIMIT_S, RemotePool, remote_pool
from .provider import Provider, Providers, browser, sign_in


@pytest.fixture(scope="module")
def pool(providers: Providers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemotePool]:
    with remote_pool(tmp_path_factory.mktemp("remote"), providers.start(lifetime_s=120)) as found:
        found.administer("PUT", "/api/v1/projects/default/members/@oidc:vision", {"role": "member"})
        yield found


@pytest.fixture
def provider(pool: RemotePool) -> Provider:
    return pool.provider


def tokens(pool: RemotePool, account: str) -> dict[str, str]:
    """Return what a person gets by the device flow of `weir login`."""
    redirect = f"{pool.url}/api/v1/dashboard/oidc/callback"
    return pool.provider.tokens(account, redirect=redirect)


def test_the_status_says_when_the_certificate_ends(pool: RemotePool) -> None:
    ends_s = pool.get("/api/v1/status", pool.token).json()["certificate_ends_s"]
    assert 0 < ends_s - time.time() < 3600


def test_a_member_of_a_group_has_its_roles(pool: RemotePool) -> None:
    answer = pool.get("/api/v1/whoami", tokens(pool, "mia")["id_token"])
    assert answer.json() == {
        "user": "oidc:mia",
        "signed_in_by": "OpenID Connect",
        "is_admin": False,
        "roles": {"default": "member"},
        "groups": ["oidc:vision"],
    }


def test_a_person_without_a_role_is_refused_and_audited(pool: RemotePool) -> None:
    answer = pool.get("/api/v1/workloads", tokens(pool, "tom")["id_token"])
    assert answer.status_code == 403
    assert "oidc:tom has no role" in answer.json()["detail"]
    assert pool.audited(path="/api/v1/workloads", outcome="refused", status=403)[0]["details"]["why"]


def test_the_group_of_administrators_administers(pool: RemotePool) -> None:
    token = tokens(pool, "ada")["id_token"]
    assert pool.get("/api/v1/tokens", token).status_code == 200
    line = pool.audited(user="oidc:ada", path="/api/v1/tokens")[0]
    assert line["details"] == {"signed_in_by": "OpenID Connect", "subject": "ada"}


def test_a_forged_token_is_refused_and_audited(pool: RemotePool) -> None:
    token = tokens(pool, "mia")["id_token"]
    forged = token[:-6] + ("AAAAAA" if token[-6:] != "AAAAAA" else "BBBBBB")
    answer = pool.get("/api/v1/workloads", forged)
    assert answer.status_code == 401
    assert "signature" in answer.json()["detail"]
    line = pool.audited(path="/api/v1/workloads", outcome="refused", status=401)[0]
    assert "signature is wrong" in line["details"]["why"]
    assert forged not in str(pool.audited())


def test_a_token_of_the_pool_and_the_local_socket_work_beside_it(pool: RemotePool) -> None:
    assert pool.get("/api/v1/whoami", pool.token).json()["is_admin"]
    answer = pool.get("/api/v1/whoami")
    assert answer.status_code == 401
    assert "weir login" in answer.json()["detail"]


def test_a_person_submits_and_stops_their_own_work(pool: RemotePool) -> None:
    with pool.asks(tokens(pool, "mia")["id_token"]) as mia:
        body = {
            "project": "default",
            "name": "own",
            "command": ["sleep", "3600"],
            "pods": [{"gpus": 1, "cpu": "100m"}],
        }
        assert mia.post("/api/v1/workloads", json=body).status_code == 201
        assert mia.get("/api/v1/workloads/own").json()["user"] == "oidc:mia"
        assert mia.post("/api/v1/workloads/own/stop").is_success
        until(lambda: mia.get("/api/v1/workloads/own").json()["status"] == "stopped")


@pytest.fixture
def page(pool: RemotePool) -> Iterator[Page]:
    found = Page(pool)
    yield found
    found.opened.close()


def test_the_dashboard_signs_in_by_the_code_flow_and_out(pool: RemotePool, page: Page) -> None:
    begun = page.sign_in("mia")
    assert begun.status_code == 201
    assert begun.json()["user"] == "oidc:mia"
    cookie = begun.headers["set-cookie"]
    for word in ("__Host-weir_session=", "Secure", "HttpOnly", "SameSite=strict", "Path=/"):
        assert word in cookie
    for word in ("__Host-weir_oidc=", "Secure", "HttpOnly", "SameSite=lax", "Path=/"):
        assert word in page.flow_cookie
    assert page.opened.get("/api/v1/status").status_code == 200
    assert page.opened.get("/api/v1/tokens").status_code == 403
    ended = page.opened.delete("/api/v1/dashboard/session")
    assert ended.status_code == 200
    assert ended.json()["provider"].endswith("/session/end?client_id=weir")
    assert page.opened.get("/api/v1/status").status_code == 401
    line = pool.audited(path=SIGN_IN, outcome="allowed")[0]
    assert line["details"]["signed_in_by"] == "OpenID Connect"
    assert line["user"] == "oidc:mia"


def test_the_way_to_the_provider_has_pkce_state_and_nonce(page: Page) -> None:
    asked = parse_qs(urlsplit(page.to_provider()).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["response_type"] == ["code"]
    texts = [asked[name][0] for name in ("state", "nonce", "code_challenge")]
    assert len(set(texts)) == 3
    assert all(len(each) == 43 for each in texts)
    again = parse_qs(urlsplit(page.to_provider()).query)
    assert not set(texts) & {again[name][0] for name in ("state", "nonce", "code_challenge")}


def test_a_sign_in_of_another_browser_is_refused(pool: RemotePool, page: Page) -> None:
    """An attacker hands a victim the address with the attacker's code."""
    with browser() as at_provider:
        back = sign_in(at_provider, page.to_provider(), "mia")
    victim = Page(pool)
    assert victim.come_back(back).status_code == 401
    victim.to_provider()
    refused = victim.come_back(back)
    assert refused.status_code == 401
    assert "started in another browser" in refused.text
    victim.opened.close()
    assert page.finish(page.come_back(back)).status_code == 201


def test_the_end_of_a_sign_in_can_not_be_handed_to_another_browser(pool: RemotePool, page: Page) -> None:
    """An attacker stops before the last step, and sends the link to a victim."""
    with browser() as at_provider:
        back = page.come_back(sign_in(at_provider, page.to_provider(), "mia"))
    victim = Page(pool)
    victim.to_provider()  # has a cookie of its own
    refused = victim.finish(back)
    assert refused.status_code == 401
    assert "another browser" in refused.json()["detail"]
    victim.opened.close()
    assert page.finish(back).status_code == 401, "the link is used up"
    assert page.sign_in("mia").status_code == 201
    assert "__Host-weir_oidc" not in page.opened.cookies


def test_a_code_works_once(page: Page) -> None:
    with browser() as at_provider:
        back = sign_in(at_provider, page.to_provider(), "mia")
    cookies = dict(page.opened.cookies)
    assert page.finish(page.come_back(back)).status_code == 201
    page.opened.cookies.update(cookies)
    assert page.come_back(back).status_code == 401


@pytest.mark.parametrize("query", ["", "?error=access_denied", "?code=x", "?code=x&state=y", "?state=y"])
def test_a_callback_without_a_sign_in_is_refused(pool: RemotePool, query: str) -> None:
    asked_before = pool.provider.requests("/token")
    assert pool.get(f"/api/v1/dashboard/oidc/callback{query}").status_code == 401
    assert pool.provider.requests("/token") == asked_before


def test_a_session_is_worth_nothing_to_another_site(page: Page) -> None:
    page.sign_in("mia")
    body = {"project": "default", "command": ["true"], "pods": [{"gpus": 1}]}
    for headers in (
        {"Origin": "https://evil.example.org"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"X-Weir-Proof": ""},
        {"X-Weir-Proof": "guess"},
    ):
        answer = page.opened.post("/api/v1/workloads", json=body, headers=headers)
        assert answer.status_code in (401, 403), headers
    with page.pool.asks() as other:
        other.headers["X-Weir-Proof"] = page.proof
        assert other.get("/api/v1/status").status_code == 401


@pytest.mark.parametrize("path", ["/", START, SIGN_IN])
def test_another_name_of_the_pool_is_refused(pool: RemotePool, path: str) -> None:
    with pool.asks() as opened:
        answer = opened.request(
            "POST" if path == SIGN_IN else "GET", path, headers={"Host": f"127.0.0.1:{pool.port}"}
        )
        assert answer.status_code == 403
        assert pool.url in answer.text


def test_plain_http_offers_no_such_sign_in(pool: RemotePool) -> None:
    with httpx.Client(base_url=pool.local_url, trust_env=False, timeout=LIMIT_S) as opened:
        assert opened.get(START).status_code == 404
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://localhost:{pool.port}/healthz", trust_env=False)


def test_no_secret_of_a_sign_in_is_on_disk_or_in_a_log(pool: RemotePool, page: Page) -> None:
    begun = page.sign_in("mia")
    token = tokens(pool, "mia")
    assert pool.get("/api/v1/whoami", token["id_token"]).status_code == 200
    secrets = [
        page.proof,
        *page.opened.cookies.values(),
        *(token[name] for name in ("id_token", "refresh_token")),
    ]
    secrets += [
        token["id_token"].split(".")[2],
        re.findall("session=([^;]+)", begun.headers["set-cookie"])[0],
    ]
    files = [path for path in (*pool.home.rglob("*"), pool.log) if path.is_file()]
    assert len(files) > 3
    for path in files:
        content = path.read_bytes()
        for secret in secrets:
            assert secret.encode() not in content, path


def test_a_silent_provider_stops_no_one_else(pool: RemotePool, page: Page, provider: Provider) -> None:
    token = tokens(pool, "mia")["id_token"]
    page.sign_in("mia")
    provider.ask("mute", on=True)
    try:
        assert pool.get("/api/v1/status", token).status_code == 200
        assert page.opened.get("/api/v1/status").status_code == 200
        assert pool.get("/api/v1/status", pool.token).status_code == 200
        assert pool.administer("GET", "/api/v1/status")
    finally:
        provider.ask("mute", on=False)


def serial_of(pool: RemotePool) -> int:
    plain = socket.create_connection(("127.0.0.1", pool.port), timeout=LIMIT_S)
    with pool.context.wrap_socket(plain, server_hostname="localhost") as opened:
        found = opened.getpeercert()
        assert found is not None
        return int(str(found["serialNumber"]), 16)


def until(true: object, *args: object) -> None:
    end = time.monotonic() + LIMIT_S
    while not true(*args):  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_replaced_certificate_is_served_and_a_broken_one_is_not(pool: RemotePool) -> None:
    before = serial_of(pool)
    made = pool.authority.certify(pool.certificate, pool.key)
    until(lambda: serial_of(pool) == made)
    assert made != before
    pool.certificate.write_text("nothing")
    with httpx.Client(base_url=pool.local_url, trust_env=False, timeout=LIMIT_S) as local:
        until(lambda: "tls-certificate" in local.get("/readyz").text)
    assert serial_of(pool) == made
    again = pool.authority.certify(pool.certificate, pool.key)
    until(lambda: serial_of(pool) == again)


def test_half_open_connections_keep_no_one_out(pool: RemotePool) -> None:
    silent = [
        socket.create_connection(("127.0.0.1", pool.port), timeout=LIMIT_S) for _ in range(3 * HANDSHAKES_MAX)
    ]
    try:
        assert pool.get("/healthz").status_code == 200
        assert pool.administer("GET", "/api/v1/status")
        open_files = len(list(Path(f"/proc/{pool.process.pid}/fd").iterdir()))
        assert open_files < 3 * HANDSHAKES_MAX
    finally:
        for each in silent:
            each.close()


def test_old_versions_of_tls_are_refused(pool: RemotePool) -> None:
    context = ssl.create_default_context(cafile=str(pool.authority.file))
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    plain = socket.create_connection(("127.0.0.1", pool.port), timeout=LIMIT_S)
    with plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="localhost")


def test_login_by_the_device_flow_and_logout(pool: RemotePool, tmp_path: Path, provider: Provider) -> None:
    with pool.weir("login", state=tmp_path) as login, browser() as opened:
        assert login.stdout is not None
        told = re.search(r"Open (\S+) in a browser, .* the code (\S+)\.", login.stdout.readline())
        if told is None:
            login.kill()
            pytest.fail(str(login.communicate()))
        assert told[2] in told[1]
        sign_in(opened, told[1], "mia")
        assert "You are logged in" in said(login)
    file = tmp_path / "weir" / "logins.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert said(pool.weir("whoami", state=tmp_path)).startswith("oidc:mia, by OpenID Connect\ndefault")
    assert "oidc:mia" not in said(pool.weir("list", state=tmp_path))
    assert said(pool.weir("dashboard", state=tmp_path)) == f"{pool.url}\n"
    _expire(file)
    before = provider.requests("/token")
    both = [pool.weir("whoami", state=tmp_path) for _ in range(2)]
    assert all(said(each).startswith("oidc:mia") for each in both), "a refresh token works once"
    assert provider.requests("/token") == before + 1
    assert "logged out" in said(pool.weir("logout", state=tmp_path))
    assert file.read_text() == "{}"
    refused = pool.weir("whoami", state=tmp_path)
    assert "weir login" in refused.communicate(timeout=LIMIT_S)[1]
    assert refused.returncode == 2


def _expire(file: Path) -> None:
    file.write_text(re.sub(r'"expires_s": [0-9.]+', '"expires_s": 1.0', file.read_text()))


def said(command: subprocess.Popen[str]) -> str:
    output, errors = command.communicate(timeout=LIMIT_S)
    assert command.returncode == 0, errors
    return output


def test_the_page_offers_the_sign_in_of_the_provider(pool: RemotePool) -> None:
    ways = pool.get("/api/v1/sign-in").json()
    assert ways == {
        "issuer": pool.provider.issuer,
        "client_id": "weir",
        "scopes": "openid profile email",
        "dashboard": START,
        "links_only": False,
    }
    with httpx.Client(base_url=pool.local_url, trust_env=False, timeout=LIMIT_S) as opened:
        assert opened.get("/api/v1/sign-in").json() == ways


def test_a_stream_ends_with_the_role_of_its_reader(pool: RemotePool) -> None:
    with pool.asks(tokens(pool, "mia")["id_token"]) as mia, mia.stream("GET", "/api/v1/stream") as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        next(lines)
        pool.administer("DELETE", "/api/v1/projects/default/members/@oidc:vision")
        try:
            assert sum(1 for _ in lines) < 1000, "it ends"
        finally:
            pool.administer("PUT", "/api/v1/projects/default/members/@oidc:vision", {"role": "member"})


def test_a_request_in_the_same_packet_as_the_end_of_the_handshake_is_answered(pool: RemotePool) -> None:
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = pool.context.wrap_bio(received, sent, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", pool.port), timeout=LIMIT_S) as plain:
        while True:
            try:
                tls.do_handshake()
                break  # the last message of it isn't sent yet
            except ssl.SSLWantReadError:
                plain.sendall(sent.read())
                received.write(plain.recv(65_536))
        tls.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        plain.sendall(sent.read())
        answer = b""
        while b"\r\n\r\n" not in answer:
            try:
                answer += tls.read(65_536)
            except ssl.SSLWantReadError:
                received.write(plain.recv(65_536))
        assert answer.startswith(b"HTTP/1.1 200")

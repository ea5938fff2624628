"""Sessions in a browser of another machine: each has a host name of its own, and people sign in by the pool."""

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.browser.conftest import missing
from tests.browser.notebook_page import open_notebook, run_cell
from tests.browser.serving import CHROMIUM
from tests.e2e.ssh_session import until
from tests.session_programs import need_programs

from .page import Page
from .pool import LIMIT_S, RemotePool, remote_pool
from .provider import Providers

DOMAIN = "sessions.pool.test"
PROGRAM = Path(__file__).parents[1] / "e2e" / "session_program.py"
NAVIGATED = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture(scope="module")
def pool(providers: Providers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemotePool]:
    with remote_pool(tmp_path_factory.mktemp("sessions"), providers.start(), DOMAIN) as found:
        found.administer("PUT", "/api/v1/projects/default/members/@oidc:vision", {"role": "member"})
        yield found
        for row in found.administer("GET", "/api/v1/workloads?limit=1000")["items"]:
            found.administer("POST", f"/api/v1/workloads/{row['name']}/stop")


@pytest.fixture(scope="module")
def members(pool: RemotePool) -> dict[str, str]:
    """Tokens of two people, each with a session."""
    made = {}
    for user in ("mia", "eve"):
        body = {"user": user, "role": "member", "projects": ["default"]}
        made[user] = pool.administer("POST", "/api/v1/tokens", body)["token"]
        with pool.asks(made[user]) as person:
            begin(person, f"s-{user}")
    return made


def begin(
    person: httpx.Client,
    name: str,
    command: Sequence[str] = (sys.executable, str(PROGRAM)),
    memory: str = "16Mi",
    **env: str,
) -> None:
    pods = [{"gpus": 0, "cpu": "100m", "memory": memory}]
    words: dict[str, Any] = {"command": [*command], "pods": pods, "session": "jupyter"}
    answer = person.post("/api/v1/workloads", json={"project": "default", "name": name, "env": env, **words})
    assert answer.status_code == 201, answer.text


def link_to(person: httpx.Client, name: str) -> str:
    found: list[str] = []

    def is_made() -> bool:
        answer = person.post(f"/api/v1/workloads/{name}/session")
        assert answer.status_code in (201, 409), answer.text
        found.append(answer.json().get("url", ""))
        return answer.status_code == 201

    until(is_made)
    return found[-1]


class Host(http.client.HTTPSConnection):
    """Connection to the host of a session, whose name leads to this machine."""

    def __init__(self, pool: RemotePool, netloc: str) -> None:
        super().__init__(netloc, timeout=LIMIT_S, context=pool.context)
        self.pool = pool

    def connect(self) -> None:
        plain = socket.create_connection(("127.0.0.1", self.pool.port), timeout=LIMIT_S)
        self.sock = self.pool.context.wrap_socket(plain, server_hostname=self.host)


def ask(
    pool: RemotePool, netloc: str, path: str, headers: Mapping[str, str], method: str = "GET"
) -> tuple[int, dict[str, str], str]:
    connection = Host(pool, netloc)
    try:
        connection.request(method, path, headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def opened(pool: RemotePool, link: str) -> tuple[str, str]:
    """Return the host of a session, and the cookie of a view that a link began."""
    place = urlsplit(link)
    status, headers, text = ask(pool, place.netloc, f"{place.path}?{place.query}", NAVIGATED)
    assert (status, headers["Location"]) == (303, place.path), text
    return place.netloc, headers["Set-Cookie"]


@pytest.fixture
def views(pool: RemotePool, members: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Host and cookie of each person's session."""
    found = {}
    for user, token in members.items():
        with pool.asks(token) as person:
            host, cookie = opened(pool, link_to(person, f"s-{user}"))
            found[user] = (host, cookie.partition(";")[0])
    return found


def test_each_session_has_its_own_host_and_cookie(pool: RemotePool, members: Mapping[str, str]) -> None:
    with pool.asks(members["mia"]) as mia:
        begin(mia, "second")
        links = [link_to(mia, name) for name in ("s-mia", "second", "s-mia")]
    hosts = [urlsplit(link).netloc for link in links]
    assert hosts[0] == hosts[2] != hosts[1]
    assert all(host.endswith(f".{DOMAIN}:{pool.port}") for host in hosts)
    host, cookie = opened(pool, links[0])
    assert cookie.startswith("__Host-weir_view=")
    assert all(word in cookie for word in ("Path=/;", "Secure", "HttpOnly", "SameSite=Lax"))
    assert "Domain" not in cookie
    status, _, text = ask(pool, host, "/sessions/s-mia/x", {"Cookie": f"a=b; {cookie.partition(';')[0]}"})
    told = dict(json.loads(text)["headers"])
    assert (status, told["cookie"]) == (200, "a=b")
    place = urlsplit(links[0])
    assert ask(pool, host, f"{place.path}?{place.query}", {})[0] == 401, "a link works once"


def test_no_one_elses_cookie_link_or_host_opens_a_session(
    pool: RemotePool, members: Mapping[str, str], views: Mapping[str, tuple[str, str]]
) -> None:
    (mia, mias), (eve, eves) = views["mia"], views["eve"]
    path = "/sessions/s-mia/x"
    assert ask(pool, mia, path, {"Cookie": mias})[0] == 200
    assert ask(pool, mia, path, {"Cookie": eves})[0] == 401
    assert ask(pool, eve, path, {"Cookie": mias})[0] == 401
    assert ask(pool, eve, "/sessions/s-eve/x", {"Cookie": mias})[0] == 401
    assert ask(pool, eve, path, {"Cookie": mias, "Host": mia})[0] == 421
    with pool.asks(members["eve"]) as person:
        place = urlsplit(link_to(person, "s-eve"))
        assert person.post("/api/v1/workloads/s-mia/session").status_code == 403
    assert ask(pool, mia, f"{place.path}?{place.query}", {})[0] == 401
    for headers in (
        {"Origin": f"https://{eve}"},
        {"Origin": f"http://{mia}"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ):
        assert ask(pool, mia, path, {"Cookie": mias, **headers})[0] == 403
    assert ask(pool, mia, "/api/v1/workloads", {"Cookie": mias})[0] == 404
    assert ask(pool, f"localhost:{pool.port}", path, {"Cookie": mias, "Host": mia})[0] == 404


def test_a_browser_without_a_view_is_led_to_the_dashboard(pool: RemotePool, members: object) -> None:
    with pool.asks(pool.token) as person:
        answer = person.get("/api/v1/workloads/s-mia/session")
    assert answer.status_code == 405
    host = f"notes-{'a' * 16}.{DOMAIN}:{pool.port}"
    status, headers, _ = ask(pool, host, "/sessions/notes/tree", NAVIGATED)
    assert (status, headers["Location"]) == (303, f"{pool.url}/#/workload/notes")
    assert ask(pool, host, "/sessions/notes/tree", {})[0] == 401


def test_a_web_socket_passes_both_ways(pool: RemotePool, views: Mapping[str, tuple[str, str]]) -> None:
    host, cookie = views["mia"]
    connection = Host(pool, host)
    connection.connect()
    stream = connection.sock
    assert isinstance(stream, ssl.SSLSocket)
    with stream:
        stream.sendall(
            f"GET /sessions/s-mia/socket HTTP/1.1\r\nHost: {host}\r\nOrigin: https://{host}\r\n"
            f"Cookie: {cookie}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += stream.recv(1)
        assert head.startswith(b"HTTP/1.1 101"), head
        sent = os.urandom(200_000)
        stream.sendall(sent)
        got = b""
        while len(got) < len(sent):
            got += stream.recv(65536)
        assert got == sent


def test_a_person_of_the_provider_opens_a_session_by_the_dashboard(pool: RemotePool) -> None:
    token = str(
        pool.provider.tokens("mia", redirect=f"{pool.url}/api/v1/dashboard/oidc/callback")["id_token"]
    )
    with pool.asks(token) as mia:
        begin(mia, "provided")
        answer = mia.post("/api/v1/workloads/provided/session")
        assert (answer.status_code, "sign in there" in answer.json()["detail"]) == (422, True)
    page = Page(pool)
    assert page.sign_in("mia").status_code == 201
    host, cookie = opened(pool, link_to(page.opened, "provided"))
    view = {"Cookie": cookie.partition(";")[0]}
    assert ask(pool, host, "/sessions/provided/x", view)[0] == 200
    other = Page(pool)
    assert other.sign_in("root").status_code == 201
    assert other.opened.post("/api/v1/workloads/provided/session").status_code == 403
    assert page.opened.delete("/api/v1/dashboard/session").is_success
    assert ask(pool, host, "/sessions/provided/x", view)[0] == 401, "it ends with the sign-in"
    assert ask(pool, host, "/sessions/provided/x", {**view, **NAVIGATED})[0] == 303
    for each in (page, other):
        each.opened.close()


def test_the_command_prints_a_link_that_works_from_another_machine(
    pool: RemotePool, members: Mapping[str, str]
) -> None:
    done = pool.weir("jupyter", "s-mia", "--no-open", token=members["mia"])
    out, err = done.communicate(timeout=LIMIT_S)
    assert done.returncode == 0, err
    host, cookie = opened(pool, out.strip())
    assert ask(pool, host, "/sessions/s-mia/x", {"Cookie": cookie.partition(";")[0]})[0] == 200


def test_a_certificate_without_the_names_of_sessions_is_refused(pool: RemotePool, tmp_path: Path) -> None:
    state = {"WEIR_HOME": str(tmp_path / "home")}
    certificate, key = tmp_path / "tls.pem", tmp_path / "tls.key"
    pool.authority.certify(certificate, key)
    words = [
        *("--listen", "127.0.0.1:1", "--tls-certificate", str(certificate), "--tls-key", str(key)),
        *("--oidc-issuer", "https://sso.example.org", "--oidc-client-id", "weir", "--port", "0"),
        *("--shared-account", "root", "--sessions-domain", "other.test", "--public-url", pool.url),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "weir", "up", *words],
        env={**os.environ, **state},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "isn't a certificate for *.other.test" in done.stderr


@contextmanager
def opened_browser() -> Iterator[Any]:
    """Yield a chromium to which the hosts of sessions lead to this machine."""
    from playwright.sync_api import sync_playwright

    rules = f"--host-resolver-rules=MAP *.{DOMAIN} 127.0.0.1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=[*CHROMIUM, rules]
        )
        try:
            yield browser
        finally:
            browser.close()


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_notebook_of_jupyterlab_runs_code_at_its_own_host(
    pool: RemotePool, members: Mapping[str, str], tmp_path: Path
) -> None:
    path = f"{need_programs().path}:{os.environ['PATH']}"
    with pool.asks(members["mia"]) as mia:
        begin(mia, "lab", ["jupyter-lab"], "2Gi", PATH=path, HOME=str(tmp_path))
        link = link_to(mia, "lab")
    with opened_browser() as browser:
        context = browser.new_context(ignore_https_errors=True)
        context.set_default_timeout(LIMIT_S * 1000)
        page = context.new_page()
        open_notebook(page, link)
        run_cell(page, "import os; print('ran in', os.environ['WEIR_WORKLOAD'])", "ran in lab")
        assert urlsplit(page.url).hostname == urlsplit(link).hostname


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_page_of_a_session_reaches_no_other_session(
    pool: RemotePool, members: Mapping[str, str], tmp_path: Path
) -> None:
    own = tmp_path / "page.html"
    own.write_text("<!doctype html><title>hostile</title>")
    with pool.asks(members["mia"]) as mia:
        begin(mia, "hostile", PAGE=str(own))
        hostile, victim = link_to(mia, "hostile"), link_to(mia, "s-mia")
    with opened_browser() as browser:
        context = browser.new_context(ignore_https_errors=True)
        context.set_default_timeout(LIMIT_S * 1000)
        page = context.new_page()
        page.goto(victim)
        address = page.url
        assert "args" in page.content()
        page.goto(hostile.replace("/?", "/page?"))
        assert page.title() == "hostile"
        found = page.evaluate(ATTACK, [address, pool.url])
        assert set(found["said"]) <= {"", "opaque0"}, found
        assert "weir" not in found["cookie"]
        names = {each["name"] for each in context.cookies([address])}
        assert "__Host-weir_view" in names
        unsigned = browser.new_context(ignore_https_errors=True).new_page()
        unsigned.set_default_timeout(LIMIT_S * 1000)
        unsigned.goto(address)
        unsigned.get_by_role("link", name="Sign in with OpenID Connect").wait_for()
        assert unsigned.url == f"{pool.url}/#/workload/s-mia"


ATTACK = """async ([address, pool]) => {
  const said = []
  for (const mode of ['no-cors', 'cors'])
    for (const method of ['GET', 'POST'])
      for (const place of [address, pool + '/api/v1/workloads'])
        try { const sent = await fetch(place, {mode, method, credentials: 'include'}); said.push(sent.type + sent.status) }
        catch (error) { said.push('') }
  const socket = new WebSocket(address.replace('http', 'ws') + 'socket')
  said.push(await new Promise(done => { socket.onopen = () => done('open'); socket.onerror = () => done('') }))
  const frame = document.createElement('iframe')
  frame.src = address
  document.body.append(frame)
  await new Promise(done => { frame.onload = done })
  try { said.push(frame.contentDocument.body.textContent) } catch (error) { said.push('') }
  return {said, cookie: document.cookie}
}"""

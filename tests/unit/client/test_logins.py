"""Logins of the command line: the file, and what a hostile pool or provider can make of a login."""

import base64
import json
import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from weir.client import Pool, device_login, logins
from weir.client.device_login import LoginFailed
from weir.client.errors import Unreachable
from weir.client.logins import Login

POOL, ISSUER = "https://gpu1.example.org:8443", "https://sso.example.org"
WELL_KNOWN = f"{ISSUER}/.well-known/openid-configuration"
Answers = dict[str, Any]


def token(exp: object = 4e9) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps({'exp': exp}).encode()).decode().rstrip('=')}.sig"


def login(**changed: Any) -> Login:
    fields = {
        "issuer": ISSUER,
        "client_id": "weir",
        "token": token(),
        "refresh_token": "again",
        "expires_s": 4e9,
    }
    return Login(**{**fields, **changed})


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("WEIR_URL", "WEIR_TOKEN", "WEIR_HOME", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "weir" / "logins.json"


def answers() -> Answers:
    """Return the answers of a pool and a provider that do all right, by address."""
    return {
        f"{POOL}/api/v1/sign-in": {"issuer": ISSUER, "client_id": "weir", "scopes": "openid"},
        WELL_KNOWN: {
            "issuer": ISSUER,
            "device_authorization_endpoint": f"{ISSUER}/device",
            "token_endpoint": f"{ISSUER}/token",
        },
        f"{ISSUER}/device": {
            "device_code": "d",
            "user_code": "ABCD",
            "verification_uri": f"{ISSUER}/go",
            "expires_in": 60,
            "interval": 1,
        },
        f"{ISSUER}/token": {"id_token": token(), "refresh_token": "again"},
    }


class Elsewhere:
    """The servers, and the requests that they got."""

    def __init__(self, pool_answers: Answers) -> None:
        self.answers = pool_answers
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        answer = self.answers[str(request.url)]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, httpx.Response):
            return answer
        status = 400 if "error" in answer else 200
        return httpx.Response(status, json=answer)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    elsewhere_ = Elsewhere(answers())
    monkeypatch.setattr(
        device_login, "client_of", lambda _: httpx.Client(transport=httpx.MockTransport(elsewhere_))
    )
    return elsewhere_


def log_in(slept: list[float] | None = None) -> tuple[str, str]:
    told: list[tuple[str, str]] = []
    device_login.log_in(POOL, lambda *words: told.append(words), ([] if slept is None else slept).append)
    return told[0]


def test_a_login_is_kept_in_a_file_of_its_user_alone(elsewhere: Elsewhere, state: Path) -> None:
    assert log_in() == (f"{ISSUER}/go", "ABCD")
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.parent.stat().st_mode) == 0o700
    assert logins.login_of(POOL) == login()
    assert logins.forget(POOL) == login()
    assert logins.login_of(POOL) is None


def test_it_polls_at_the_stated_interval(elsewhere: Elsewhere) -> None:
    pending, slower = {"error": "authorization_pending"}, {"error": "slow_down"}
    elsewhere.answers[f"{ISSUER}/token"] = [pending, slower, pending, {"id_token": token()}]
    slept: list[float] = []
    log_in(slept)
    assert slept == [1.0, 1.0, 6.0, 6.0]


def changed(where: str, **fields: object) -> Callable[[Answers], None]:
    def change(pool_answers: Answers) -> None:
        pool_answers[where] = {
            key: value for key, value in {**pool_answers[where], **fields}.items() if value is not None
        }

    return change


def plain(where: str, answer: object) -> Callable[[Answers], None]:
    return lambda pool_answers: pool_answers.__setitem__(where, answer)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (changed(f"{POOL}/api/v1/sign-in", issuer=""), "no sign-in with OpenID Connect"),
        (changed(f"{POOL}/api/v1/sign-in", client_id=None), "--oidc-cli-client-id"),
        (changed(f"{POOL}/api/v1/sign-in", issuer="http://sso.example.org"), "without HTTPS"),
        (changed(f"{POOL}/api/v1/sign-in", issuer="file:///etc/passwd"), "without HTTPS"),
        (changed(f"{POOL}/api/v1/sign-in", issuer=7), "no client"),
        (changed(WELL_KNOWN, issuer="https://evil.example.org"), "calls itself"),
        (changed(WELL_KNOWN, device_authorization_endpoint=None), "no device flow"),
        (changed(WELL_KNOWN, device_authorization_endpoint="http://sso.example.org/device"), "without HTTPS"),
        (changed(WELL_KNOWN, token_endpoint="http://127.0.0.1/token"), "without HTTPS"),
        (changed(WELL_KNOWN, token_endpoint=None), "without HTTPS"),
        (plain(f"{ISSUER}/device", {"error": "unauthorized_client"}), "unauthorized_client"),
        (plain(f"{ISSUER}/token", {"error": "access_denied"}), "refused in the browser"),
        (plain(f"{ISSUER}/token", {"error": "expired_token"}), "expired_token"),
        (plain(f"{ISSUER}/token", {"error": "a\x1b[2Jb"}), r"a\[2Jb"),
        (plain(f"{ISSUER}/token", {"access_token": "x"}), "no ID token"),
        (plain(f"{ISSUER}/token", httpx.Response(200, text="<html>")), "doesn't answer as expected"),
        (plain(f"{ISSUER}/token", httpx.Response(200, text="[" * 100_000)), "doesn't answer as expected"),
        (plain(f"{ISSUER}/token", httpx.Response(200, content=b"x" * 300_000)), "sends too much"),
        (
            plain(f"{ISSUER}/token", httpx.Response(302, headers={"Location": "https://evil.example.org"})),
            "expected",
        ),
    ],
)
def test_a_login_that_can_not_be_trusted_is_refused(
    elsewhere: Elsewhere, state: Path, change: Callable[[Answers], None], problem: str
) -> None:
    change(elsewhere.answers)
    with pytest.raises(LoginFailed, match=problem):
        log_in()
    assert not state.exists()


def test_what_a_provider_tells_is_shown_as_one_line(elsewhere: Elsewhere) -> None:
    changed(f"{ISSUER}/device", verification_uri="https://x\n\x1b]0;evil\x07", user_code="A" * 9000)(
        elsewhere.answers
    )
    address, code = log_in()
    assert address.isprintable()
    assert len(code) == 500


def test_an_endless_interval_is_shortened(elsewhere: Elsewhere) -> None:
    for interval, expected in ((1e9, 60.0), (-5, 5.0), ("x", 5.0), (True, 5.0), (float("nan"), 5.0)):
        elsewhere.answers[f"{ISSUER}/device"]["interval"] = interval
        elsewhere.answers[f"{ISSUER}/device"] = dict(elsewhere.answers[f"{ISSUER}/device"])
        slept: list[float] = []
        if interval != interval:
            assert device_login._number(interval, 5.0, 60.0) == expected
            continue
        log_in(slept)
        assert slept == [expected]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_that_others_can_read_is_refused(state: Path, mode: int) -> None:
    logins.keep(POOL, login())
    state.chmod(mode)
    with pytest.raises(Unreachable, match="0600"):
        logins.login_of(POOL)


def test_a_link_in_place_of_the_file_is_refused(state: Path, tmp_path: Path) -> None:
    logins.keep(POOL, login())
    other = tmp_path / "other"
    state.rename(other)
    state.symlink_to(other)
    with pytest.raises(Unreachable, match="can't be read"):
        logins.login_of(POOL)


def test_a_pipe_in_place_of_the_file_is_refused_at_once(state: Path) -> None:
    state.parent.mkdir(parents=True)
    os.mkfifo(state, 0o600)
    with pytest.raises(Unreachable, match="0600"):
        logins.login_of(POOL)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"https://x": 7}', '{"https://x": {}}', "[" * 9000])
def test_a_file_that_is_cut_off_holds_no_login_and_is_written_again(state: Path, content: str) -> None:
    logins.keep(POOL, login())
    state.write_text(content)
    assert logins.login_of(POOL) is None
    logins.keep(POOL, login())
    assert logins.login_of(POOL) == login()


@pytest.mark.parametrize(
    "url",
    [
        "https://gpu1.example.org",
        "https://gpu1.example.org:8444",
        "https://gpu1.example.org.evil.example.org:8443",
        "http://gpu1.example.org:8443",
        "https://gpu1.example.org:8443@evil.example.org",
    ],
)
def test_a_login_goes_to_its_own_pool_alone(url: str) -> None:
    logins.keep(POOL, login())
    seen: list[Mapping[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(401, json={"title": "no", "status": 401, "detail": "no"})

    for address in (POOL, url):
        with (
            Pool(address, transport=httpx.MockTransport(answer)) as pool,
            pytest.raises(Exception, match="no"),
        ):
            pool.status()
    assert token() not in str(seen[-1])
    assert seen[0]["authorization"] == f"Bearer {token()}"


def test_a_refused_token_is_renewed_once(elsewhere: Elsewhere) -> None:
    logins.keep(POOL, login(token="old.old.old"))
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(401, json={"title": "no", "status": 401, "detail": "no"})

    with Pool(POOL, transport=httpx.MockTransport(answer)) as pool, pytest.raises(Exception, match="no"):
        pool.status()
    assert seen == ["Bearer old.old.old", f"Bearer {token()}"]
    assert elsewhere.asked.count(f"{ISSUER}/token") == 1


def test_a_login_that_the_provider_ended_names_the_command(elsewhere: Elsewhere) -> None:
    elsewhere.answers[f"{ISSUER}/token"] = {"error": "invalid_grant"}
    for kept in (login(expires_s=time.time()), login(expires_s=0, refresh_token="")):
        logins.keep(POOL, kept)
        with pytest.raises(LoginFailed, match="weir login"):
            device_login.current(POOL)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (httpx.ConnectError("[Errno 111] Connection refused"), "Connection refused"),
        (httpx.ConnectTimeout(""), "no answer in time"),
    ],
)
def test_an_address_that_cannot_be_reached_says_why(
    elsewhere: Elsewhere, error: httpx.TransportError, why: str
) -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    elsewhere.answers = dict.fromkeys(elsewhere.answers, fail)
    with pytest.raises(Unreachable, match=rf"can't be reached at \S+: {why}\.$"):
        log_in()

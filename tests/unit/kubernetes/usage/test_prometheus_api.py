"""Queries to Prometheus: what a hostile, broken or slow server can do to the reader."""

import gzip
import ssl
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.unit.kubernetes.usage.prometheus_servers import answer, reply, serving

from weir.kubernetes.usage import prometheus_api as module
from weir.kubernetes.usage.prometheus_api import PrometheusApi
from weir.kubernetes.usage.series import PrometheusFailed, Series

GOOD = answer({"metric": {"pod": "a"}, "values": [[1.5, "0.25"], [2.5, "NaN"], [3.5, "+Inf"]]})


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    return tmp_path


def ask(url: str, secrets: Path) -> list[Series]:
    api = PrometheusApi(url, secrets)
    try:
        return api.query("x[1m]")
    finally:
        api.close()


def test_series_come_with_their_finite_samples(secrets: Path) -> None:
    queries = []

    def handle(request: BaseHTTPRequestHandler, query: str) -> None:
        queries.append((request.path, query))
        reply(request, GOOD)

    with serving(handle) as url:
        assert ask(url, secrets) == [Series({"pod": "a"}, [(1.5, 0.25)])]
    assert queries == [("/api/v1/query", "x[1m]")]


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"", 200, "something else than series"),
        (b"<html>login</html>", 200, "something else than series"),
        (b'{"status":"success","data":{"result":[{"metric":{"a":1}}]}}', 200, "something else"),
        (b'{"status":"success","data":{"result":"x"}}', 200, "something else"),
        (b"[" * 100_000, 200, "something else"),
        (b'{"status":"error","error":"bad\\nquery\\u001b[31m."}', 400, "answers 400: bad query"),
        (GOOD, 503, "answers 503"),
        (b'{"status":"success"}', 200, "answers 200"),
    ],
)
def test_an_answer_without_series_is_named(secrets: Path, body: bytes, status: int, why: str) -> None:
    with (
        serving(lambda request, _: reply(request, body, status)) as url,
        pytest.raises(PrometheusFailed) as failed,
    ):
        ask(url, secrets)
    assert why in str(failed.value)
    assert "\x1b" not in str(failed.value)


def test_a_redirect_is_not_followed(secrets: Path) -> None:
    hits = []

    def elsewhere(request: BaseHTTPRequestHandler, _query: str) -> None:
        hits.append(request.path)
        reply(request, GOOD)

    with (
        serving(elsewhere) as other,
        serving(lambda request, _: reply(request, b"", 307, Location=f"{other}/stolen")) as url,
        pytest.raises(PrometheusFailed, match="307"),
    ):
        ask(url, secrets)
    assert hits == []


def test_too_large_an_answer_is_broken_off(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_BYTES_MAX", 1 << 20)
    with (
        serving(lambda request, _: reply(request, b" " * (8 << 20))) as url,
        pytest.raises(PrometheusFailed, match="larger than 1 MiB"),
    ):
        ask(url, secrets)


def test_a_compressed_answer_is_not_unpacked(secrets: Path) -> None:
    bomb = gzip.compress(b" " * (64 << 20))
    with (
        serving(lambda request, _: reply(request, bomb, Content_Encoding="gzip")) as url,
        pytest.raises(PrometheusFailed, match="compressed"),
    ):
        ask(url, secrets)


def test_a_server_that_drips_is_left(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 1.0)
    done = threading.Event()

    def drip(request: BaseHTTPRequestHandler, _query: str) -> None:
        request.send_response(200)
        request.end_headers()
        while not done.wait(0.05):
            request.wfile.write(b" " * (1 << 16))
            request.wfile.flush()

    with serving(drip) as url:
        try:
            with pytest.raises(PrometheusFailed, match="longer than"):
                ask(url, secrets)
        finally:
            done.set()


def test_a_server_that_says_nothing_is_left(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_S", 0.5)
    done = threading.Event()
    with serving(lambda _request, _query: done.wait(60) and None) as url:
        try:
            with pytest.raises(PrometheusFailed, match="in time"):
                ask(url, secrets)
        finally:
            done.set()


def test_a_server_that_is_away_is_named(secrets: Path) -> None:
    with serving(lambda request, _: reply(request, GOOD)) as url:
        pass
    with pytest.raises(PrometheusFailed, match="can't be reached"):
        ask(url, secrets)


def test_a_token_goes_over_loopback_and_tls_alone(secrets: Path) -> None:
    (secrets / "token").write_text("s3cret\n")
    seen = []

    def handle(request: BaseHTTPRequestHandler, _query: str) -> None:
        seen.append(request.headers.get("Authorization"))
        reply(request, GOOD)

    with serving(handle) as url:
        ask(url, secrets)
    assert seen == ["Bearer s3cret"]
    for url, sent in (
        ("http://prometheus.monitoring.svc", False),
        ("http://10.1.2.3", False),
        ("https://prometheus.monitoring.svc", True),
        ("http://[::1]:9090", True),
        ("http://localhost:9090", True),
    ):
        api = PrometheusApi(url, secrets)
        assert ("Authorization" in api._client.headers) is sent, url
        api.close()


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")


def test_proxies_of_the_environment_are_not_used(secrets: Path, no_proxy: None) -> None:
    with serving(lambda request, _: reply(request, GOOD)) as url:
        assert ask(url, secrets)


@pytest.mark.parametrize("text", ["two words", "a\x00b", "ä", "x" * (65 << 10)])
def test_a_token_that_is_none_is_named_without_its_text(secrets: Path, text: str) -> None:
    (secrets / "token").write_text(text)
    with pytest.raises(PrometheusFailed) as failed:
        PrometheusApi("https://x", secrets)
    assert str(secrets / "token") in str(failed.value)
    assert text not in str(failed.value)


def test_authorities_of_the_secret_are_the_only_ones(secrets: Path) -> None:
    (secrets / "ca.crt").write_text("no certificate")
    with pytest.raises(PrometheusFailed, match=r"ca\.crt holds no certificates"):
        PrometheusApi("https://x", secrets)
    assert module._tls(secrets / "absent").verify_mode is ssl.CERT_REQUIRED

"""An agent reports to every replica of Weir, asks whichever answers, and tells its token to no other server."""

import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from weir.kubernetes.admission.certificates import Certificates, first
from weir.kubernetes.node.report_sender import NotDelivered, ReportSender
from weir.kubernetes.usage.node_reports import NodeReport
from weir.kubernetes.usage.node_shares import BYTES_MAX, NodeShares, PodShare

NAME, TOKEN = "weir.weir-system.svc", "node-token"
SHARES = NodeShares((PodShare("uid-1", (0,), 8 << 30),))
ADDRESSES = ("127.0.0.1", "127.0.0.2")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 32


class Replicas:
    """Two replicas with one port, each at an address of its own. `asked` are the tokens of all requests."""

    def __init__(self, directory: Path) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        made = first((NAME,), datetime.now(UTC))
        self.authority, self.token = directory / "ca.crt", directory / "token"
        self.authority.write_bytes(made.bundle)
        self.token.write_text(f"{TOKEN}\n")
        self._directory = directory
        self.servers: list[_Server] = []
        self.port = self._serve(made)

    def _serve(self, made: Certificates) -> int:
        (self._directory / "tls.crt").write_bytes(made.certificate)
        (self._directory / "tls.key").write_bytes(made.key)
        while True:
            port = 0
            try:
                for address in ADDRESSES:
                    self.servers.append(_Server((address, port), self._handler(address)))
                    port = self.servers[-1].server_port
            except OSError:  # the other address has this port in use
                for server in self.servers:
                    server.server_close()
                self.servers.clear()
                continue
            break
        for server in self.servers:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(self._directory / "tls.crt", self._directory / "tls.key")
            server.socket = tls.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return port

    def _handler(self, address: str) -> type[BaseHTTPRequestHandler]:
        replicas = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                replicas.asked.append(self.headers["Authorization"])
                status, body = replicas.answers[address]
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_words: object) -> None:
                """Keep the output of the tests clean."""

        return Handler

    def sender(self) -> ReportSender:
        return ReportSender("weir", self.port, NAME, self.authority, self.token)


@pytest.fixture
def replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replicas]:
    made = Replicas(tmp_path)

    real = socket.getaddrinfo

    def found(host: str, port: int, *words: Any, **named: Any) -> list[Any]:
        if host != "weir":
            return list(real(host, port, *words, **named))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ADDRESSES]

    with monkeypatch.context() as patched:
        patched.setattr("weir.kubernetes.node.report_sender.socket.getaddrinfo", found)
        yield made
    for server in made.servers:
        server.shutdown()
        server.server_close()


GOOD = 200, msgspec.json.encode(SHARES)


@pytest.mark.parametrize(
    "bad", [(503, b"not ready"), (200, b"{"), (200, b" " * (BYTES_MAX + 1)), (403, b"no agent")]
)
def test_shares_come_from_the_replica_that_states_them(replicas: Replicas, bad: tuple[int, bytes]) -> None:
    for order in (ADDRESSES, ADDRESSES[::-1]):
        replicas.answers = dict(zip(order, (bad, GOOD), strict=True))
        for _ in range(4):  # the replica that is asked first is drawn
            assert replicas.sender().shares() == SHARES


def test_without_an_answer_the_last_reason_is_named(replicas: Replicas) -> None:
    replicas.answers = dict.fromkeys(ADDRESSES, (503, b"It has read nothing yet."))
    with pytest.raises(NotDelivered, match=r"127\.0\.0\.[12] answers 503: It has read nothing yet\."):
        replicas.sender().shares()


def test_a_report_goes_to_every_replica_and_each_refusal_is_named(replicas: Replicas) -> None:
    replicas.answers = {ADDRESSES[0]: (204, b""), ADDRESSES[1]: (413, b"too large")}
    assert replicas.sender().send(NodeReport()) == ["127.0.0.2 answers 413: too large"]
    assert replicas.asked == [f"Bearer {TOKEN}"] * 2


def test_a_server_with_another_authority_gets_no_token(replicas: Replicas) -> None:
    replicas.answers = dict.fromkeys(ADDRESSES, GOOD)
    replicas.authority.write_bytes(first((NAME,), datetime.now(UTC)).bundle)
    with pytest.raises(NotDelivered, match="certificate"):
        replicas.sender().shares()
    assert len(replicas.sender().send(NodeReport())) == len(ADDRESSES)
    assert replicas.asked == []


def test_a_token_that_is_gone_is_named(replicas: Replicas) -> None:
    replicas.token.unlink()
    with pytest.raises(NotDelivered, match="the token or the CA certificate can't be read"):
        replicas.sender().shares()

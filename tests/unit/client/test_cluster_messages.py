"""Messages of a job on a cluster: what is sent, with which token, and what a job notices of failures."""

import base64
import json
import math
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from weir.client import cluster_messages
from weir.client.cluster_messages import ClusterMessages
from weir.kubernetes.admission.certificates import first


class ApiServer:
    """A TLS server that notes requests and answers them with a status."""

    def __init__(self, place: Path) -> None:
        self.status = 200
        self.message = "No."
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.answered_max = math.inf
        self._arrived = threading.Condition()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server._arrived:
                    server.asked.append((self.path, self.headers["Authorization"], body))
                    server._arrived.notify_all()
                    number = len(server.asked)
                    server._arrived.wait_for(lambda: number <= server.answered_max, 120)
                text = json.dumps({"message": server.message}).encode()
                self.send_response(server.status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_words: object) -> None:
                pass

        made = first(["127.0.0.1"], datetime.now(UTC))
        certificate, key = place / "tls.crt", place / "tls.key"
        certificate.write_bytes(made.certificate)
        key.write_bytes(made.key)
        (place / "ca.crt").write_bytes(made.bundle)
        (place / "token").write_text(bound_token("ns", "train-0"))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.variables = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._server.server_address[1]),
        }
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait(self, is_there: Callable[[], bool]) -> None:
        with self._arrived:
            assert self._arrived.wait_for(is_there, 120)

    def answer_all(self) -> None:
        """Answer the requests that wait for it, and later ones."""
        with self._arrived:
            self.answered_max = math.inf
            self._arrived.notify_all()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def bound_token(namespace: str, pod: str) -> str:
    claims = json.dumps({"kubernetes.io": {"namespace": namespace, "pod": {"name": pod, "uid": "u"}}})
    return f"e30.{base64.urlsafe_b64encode(claims.encode()).decode().rstrip('=')}.c2ln"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    monkeypatch.setattr(cluster_messages, "EVERY_S", 0.05)
    monkeypatch.setattr(cluster_messages, "TIMEOUT_S", 120.0)
    running = ApiServer(tmp_path)
    yield running
    running.close()


def test_newest_messages_go_to_the_path_of_the_pod_with_its_token(server: ApiServer, tmp_path: Path) -> None:
    messages = ClusterMessages(server.variables, str(tmp_path))
    messages.checkpointed()
    messages.busy(60.0, "index\ning")
    messages.report(3, {"loss": 0.5, "": 1.0})
    server.wait(lambda: any("report" in body for _, _, body in server.asked))
    path, authorization, _ = server.asked[0]
    assert path == "/apis/query.weir.dev/v1/namespaces/ns/pods/train-0/messages"
    assert authorization == f"Bearer {bound_token('ns', 'train-0')}"
    sent = {kind: part for _, _, body in server.asked for kind, part in body.items()}
    assert 0.0 <= sent["checkpointed"]["ageSeconds"] < 60.0
    assert (sent["busy"]["forSeconds"], sent["busy"]["why"]) == (60.0, "index ing")
    assert sent["report"] == {"step": 3, "values": {"loss": 0.5}}


def test_messages_of_a_failed_try_are_sent_later_with_newer_values(
    server: ApiServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.status = 503
    messages = ClusterMessages(server.variables, str(tmp_path))
    messages.report(1, {"loss": 0.5, "progress": 0.1})
    server.wait(lambda: len(server.asked) >= 2)
    messages.report(2, {"progress": 0.2})
    server.status = 200
    server.wait(
        lambda: server.asked[-1][2].get("report") == {"step": 2, "values": {"loss": 0.5, "progress": 0.2}}
    )
    assert len(capfd.readouterr().err.splitlines()) <= 1


def test_pod_that_weir_does_not_know_yet_hears_of_it_only_if_that_lasts(
    server: ApiServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.status, server.message = 404, "Weir doesn't schedule the pod train-0."
    server.answered_max = 2
    messages = ClusterMessages(server.variables, str(tmp_path))
    messages.report(1, {})
    server.wait(lambda: len(server.asked) == 3)
    assert capfd.readouterr().err == ""
    server.answer_all()
    server.wait(lambda: len(server.asked) >= 4)
    assert "doesn't schedule" in capfd.readouterr().err


def test_refusal_is_named_once(server: ApiServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server.status, server.message = 403, 'pods "train-0" is forbidden'
    messages = ClusterMessages(server.variables, str(tmp_path))
    for step in range(4):
        messages.report(step, {})
        server.wait(lambda step=step: len(server.asked) > step)  # type: ignore[misc]
    messages.flush(120.0)
    assert capfd.readouterr().err.splitlines() == [
        'weir: calls such as weir.report() have no effect now: pods "train-0" is forbidden'
    ]


def test_last_message_is_sent_at_the_end_of_the_process(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_messages, "EVERY_S", 3600.0)
    messages = ClusterMessages(server.variables, str(tmp_path))
    messages.report(1, {})
    server.wait(lambda: bool(server.asked))
    messages.checkpointed()
    messages.flush(120.0)
    assert "checkpointed" in server.asked[-1][2]


def test_tries_after_a_failure_at_the_end_keep_their_pause(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EVERY_S", "PAUSE_S_MAX"):
        monkeypatch.setattr(cluster_messages, name, 3600.0)
    server.status = 403
    messages = ClusterMessages(server.variables, str(tmp_path))
    messages.report(1, {})
    messages.flush(120.0)
    messages.report(2, {})
    time.sleep(0.3)
    assert len(server.asked) == 1


@pytest.mark.parametrize("token", ["", "opaque", "a.b.c"])
def test_token_that_is_not_bound_to_a_pod_is_not_sent(
    server: ApiServer, tmp_path: Path, capfd: pytest.CaptureFixture[str], token: str
) -> None:
    (tmp_path / "token").write_text(token)
    messages = ClusterMessages(server.variables, str(tmp_path))
    messages.report(1, {})
    messages.flush(120.0)
    assert "isn't bound" in capfd.readouterr().err
    assert not server.asked


def test_forked_child_ends_although_the_lock_of_the_messages_was_held_at_the_fork() -> None:
    script = """
import os, sys, threading
from weir.client.cluster_messages import messages_of_this_process
messages = messages_of_this_process()
messages.report(1, {"loss": 1.0})
held = threading.Event()
def hold():
    with messages._changed:
        held.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
child = os.fork()
if child == 0:
    sys.exit(7)
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as parent:
        try:
            assert parent.wait(60) == 7
        finally:
            with suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)

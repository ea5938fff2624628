"""Prometheus servers for tests: a real one with an exporter of the test, and one that misbehaves."""

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tools.prometheus import SETTING, at_hand

PROGRAM = None if os.environ.get(SETTING) == "skip" else at_hand()
MISSING = "needs Prometheus (python -m tools.prometheus)"
WAIT_S = 90.0

Handle = Callable[[BaseHTTPRequestHandler, str], None]


@contextmanager
def serving(handle: Handle) -> Iterator[str]:
    """Serve on loopback; `handle` gets each request with its query."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            handle(self, "")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            with suppress(BrokenPipeError, ConnectionResetError):  # the client has had enough
                handle(self, parse_qs(body).get("query", [""])[0])

        def log_message(self, *_words: Any) -> None:
            """Keep the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def reply(request: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    """Answer a request."""
    request.send_response(status)
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def answer(*series: dict[str, Any]) -> bytes:
    """Return an answer with series."""
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}}).encode()


@contextmanager
def real_prometheus(directory: Path, metrics: Callable[[str], str]) -> Iterator[str]:
    """Run a Prometheus server that scrapes /gpu and /kubelet every second, with labels as in a cluster."""
    assert PROGRAM is not None

    def export(request: BaseHTTPRequestHandler, _query: str) -> None:
        reply(request, metrics(request.path).encode(), Content_Type="text/plain; version=0.0.4")

    with serving(export) as exporter:
        target = exporter.removeprefix("http://")
        config = directory / "prometheus.yml"
        config.write_text(
            f"""
global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: gpu
  metrics_path: /gpu
  static_configs:
  - targets: ["{target}"]
    labels: {{namespace: gpu-operator, pod: dcgm-exporter-x}}
- job_name: kubelet
  metrics_path: /kubelet
  honor_labels: true
  static_configs:
  - targets: ["{target}"]
    labels: {{namespace: kube-system}}
"""
        )
        words = [
            PROGRAM,
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'data'}",
            "--log.level=error",
        ]
        process, port = _listening(words, directory / "log")
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _listening(words: list[str], log: Path) -> tuple["subprocess.Popen[bytes]", int]:
    """Start the program on a free port, on another one if that is taken meanwhile; return it once it listens."""
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        address = f"--web.listen-address=127.0.0.1:{port}"
        with log.open("wb") as written:
            process = subprocess.Popen([*words, address], stdout=subprocess.DEVNULL, stderr=written)
        until(lambda of=process, at=port: of.poll() is not None or _listens(at), "answer of Prometheus")
        if process.poll() is None:
            return process, port
        assert "address already in use" in log.read_text(), log.read_text()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def until(look: Callable[[], Any], what: str) -> Any:
    """Return what a look finds, as soon as it finds something."""
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        found = look()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"no {what} within {WAIT_S:g} s")

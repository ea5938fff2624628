"""A server in front of a pool's that answers the live stream with a prepared list."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from weir.dashboard.live_frames import GZIP_HEADER, compressed

STREAM = "/api/v1/dashboard/stream"
_PIECE = 1 << 16
_HEARTBEAT_S = 5.0


class Front(ThreadingHTTPServer):
    """Everything of a pool but its live stream."""

    daemon_threads = False  # each ends with its connection

    def __init__(self, url: str, line: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.body = GZIP_HEADER + compressed(line)
        self.pool = url.removeprefix("http://")
        self.ended = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Let connections of a page that has gone end."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Front

    def log_message(self, *_words: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        if self.path == STREAM:
            self.stream()
        else:
            self.forward("GET")

    def do_POST(self) -> None:
        self.forward("POST")

    def forward(self, method: str) -> None:
        given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = http.client.HTTPConnection(self.server.pool)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        asked.request(method, self.path, given or None, headers)
        answer = asked.getresponse()
        reply = answer.read()
        asked.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        body = self.server.body
        for offset in range(0, len(body), _PIECE):
            self.chunk(body[offset : offset + _PIECE])
        while not self.server.ended.wait(_HEARTBEAT_S):
            self.chunk(compressed(b"\n"))

    def chunk(self, piece: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.flush()


@contextmanager
def front_of(url: str, line: bytes) -> Iterator[str]:
    """Serve everything of a pool but its live stream; yield the address."""
    server = Front(url, line)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.ended.set()
        server.shutdown()
        serving.join()
        server.server_close()

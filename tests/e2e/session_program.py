"""Program of a session: it answers with what it got, and speaks back after an upgrade. Standard library only."""

import json
import os
import socketserver
import sys
from pathlib import Path

SOCKET = (
    next((word.partition("=")[2] for word in sys.argv if word.startswith("--ServerApp.sock=")), "")
    or sys.argv[sys.argv.index("--socket") + 1]
)
PAGE = Path(os.environ["PAGE"]).read_bytes() if "PAGE" in os.environ else b""


class Answers(socketserver.StreamRequestHandler):
    """Answer the requests of one connection."""

    def handle(self) -> None:
        line = self.rfile.readline().decode("latin-1")
        headers: list[tuple[str, str]] = []
        while header := self.rfile.readline().decode("latin-1").strip():
            name, _, value = header.partition(":")
            headers.append((name.strip().lower(), value.strip()))
        found = dict(headers)
        if found.get("upgrade") == "websocket":
            self.wfile.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            while part := self.request.recv(4096):
                self.request.sendall(part)
            return
        body = self.rfile.read(int(found.get("content-length", "0")))
        target = line.split()[1]
        if PAGE and target.partition("?")[0].endswith("/page"):
            self.answer(PAGE, "text/html", [])
            return
        told = {
            "line": line.strip(),
            "headers": headers,
            "body": body.decode("latin-1"),
            "args": sys.argv[1:],
        }
        hostile = [
            "Set-Cookie: weir_session=stolen; Path=/",
            "Set-Cookie: _xsrf=1; Path=/; Domain=127.0.0.1",
            'Clear-Site-Data: "cookies"',
            "Service-Worker-Allowed: /",
            "Access-Control-Allow-Origin: http://evil.example",
            "Strict-Transport-Security: max-age=1",
        ]
        self.answer(json.dumps(told).encode(), "application/json", hostile)

    def answer(self, body: bytes, kind: str, headers: list[str]) -> None:
        lines = [f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
        self.wfile.write(("HTTP/1.1 200 OK\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode() + body)


class Server(socketserver.ThreadingUnixStreamServer):
    """The program."""

    daemon_threads = True
    request_queue_size = 64


with Server(SOCKET, Answers) as server:
    Path(SOCKET).chmod(0o660)
    server.serve_forever()

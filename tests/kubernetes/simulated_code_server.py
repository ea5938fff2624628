#!/usr/bin/env python3
"""A program with the options and the interface of code-server, which can't be installed everywhere.

It listens on a socket, shows the directory that it opened, and echoes messages of WebSockets.
"""

import argparse
import base64
import hashlib
import socketserver
import struct
from http.server import BaseHTTPRequestHandler
from pathlib import Path

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT = 0x81


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self._echo()
            return
        body = f"{self.path} of {arguments.directory}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _echo(self) -> None:
        key = self.headers["Sec-WebSocket-Key"].encode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accept = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.close_connection = True
        while (head := self.rfile.read(2)) and head[0] == _TEXT:
            length = head[1] & 0x7F
            if length == 126:
                (length,) = struct.unpack(">H", self.rfile.read(2))
            mask = self.rfile.read(4)
            text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(length)))
            size = bytes((length,)) if length < 126 else struct.pack(">BH", 126, length)
            self.wfile.write(bytes((_TEXT,)) + size + text)

    def address_string(self) -> str:
        return "socket"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Listens on a socket."""

    daemon_threads = True


parser = argparse.ArgumentParser()
parser.add_argument("--socket", required=True)
parser.add_argument("--socket-mode", required=True)
parser.add_argument("--auth", choices=["none"], required=True)
parser.add_argument("--disable-telemetry", action="store_true")
parser.add_argument("--disable-update-check", action="store_true")
parser.add_argument("directory")
arguments = parser.parse_args()
with Server(arguments.socket, Handler) as server:
    Path(arguments.socket).chmod(int(arguments.socket_mode, 8))
    server.serve_forever()

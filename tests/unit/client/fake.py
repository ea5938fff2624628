"""A pool that isn't one: answers what a test has put there, over real HTTP, and remembers what was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass(frozen=True)
class Said:
    """An answer: JSON, or pieces of text one after the other."""

    body: Any = None
    status: int = 200
    pieces: tuple[str, ...] | None = None
    content: str = "application/json"


Answer = Said | Callable[[Asked], Said]


@dataclass
class Fake:
    url: str
    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def on(self, method: str, path: str, answer: Any) -> None:
        """Answer this with that: a `Said`, what makes one, or what becomes JSON."""
        self.answers[method, path] = answer if isinstance(answer, Said) or callable(answer) else Said(answer)


@contextmanager
def served() -> Iterator[Fake]:
    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            parts = urlsplit(self.path)
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = Asked(
                self.command,
                parts.path.removeprefix("/api/v1"),
                {key: values[0] for key, values in parse_qs(parts.query).items()},
                json.loads(raw) if raw else None,
                {key.lower(): value for key, value in self.headers.items()},
            )
            fake.asked.append(asked)
            answer = fake.answers.get((asked.method, asked.path))
            if answer is None:
                answer = problem(404, f"There is nothing at {asked.path}.")
            reply = answer(asked) if callable(answer) else answer
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content)
            self.end_headers()
            for piece in reply.pieces or (() if reply.body is None else (json.dumps(reply.body),)):
                self.wfile.write(piece.encode())
                self.wfile.flush()

        do_GET = do_POST = do_PUT = do_DELETE = do  # noqa: N815 - what the library calls

        def log_message(self, *_words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake = Fake(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def problem(status: int, detail: str, *errors: dict[str, str]) -> Said:
    body = {"type": "about:blank", "title": "No", "status": status, "detail": detail, "errors": list(errors)}
    return Said(body, status, content="application/problem+json")


def page(*items: Any, next: str | None = None, total: int | None = None) -> dict[str, Any]:  # noqa: A002
    return {"total": len(items) if total is None else total, "next": next, "items": list(items)}


def row(name: str = "train-1", **words: Any) -> dict[str, Any]:
    """A workload as a pool answers it."""
    return {
        "uid": 1,
        "name": name,
        "project": "vision",
        "user": "ada",
        "type": "train",
        "status": "running",
        "priority": 50,
        "preemptible": True,
        "devices": 2.0,
        "pods": 1,
        "pods_running": 1,
        "submitted_s": 1_000_000.0,
        "started_s": 1_000_060.0,
        "nodes": ["box"],
        **words,
    }


def queue(name: str, **words: Any) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "project",
        "parent": "research",
        "quota": {"gpu": 4.0},
        "share": {"gpu": 4.0},
        "allocated": {"gpu": 2.0},
        "running": 1,
        "pending": 2,
        **words,
    }

"""A server that a browser looks at, and how chromium is started."""

import signal
from pathlib import Path
from typing import Any

from tests.unit.local.server.server_process import Serving
from tools.controlplane.ports import free_port

CHROMIUM = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


class ServingOnPort(Serving):
    """A server that begins again on the same port, as a page expects it."""

    def __init__(self, home: Path, gpus: int) -> None:
        self.port = free_port()
        super().__init__(home, gpus)

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def put(self, kind: str, name: str, **words: Any) -> None:
        status, answer = self.ask("PUT", f"/api/v1/{kind}/{name}", {"name": name, **words})
        assert status in (200, 201), answer

    def link(self, token: str | None = None) -> str:
        status, answer = self.ask("POST", "/api/v1/dashboard/links", {}, token)
        assert status == 201, answer
        return f"{self.url}{answer['path']}"

    def member(self, user: str, *projects: str) -> str:
        status, answer = self.ask("POST", "/api/v1/tokens", {"user": user, "projects": list(projects)})
        assert status == 201, answer
        token: str = answer["token"]
        return token

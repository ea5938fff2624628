"""A real server: `weir up` in a process of its own on a free port of loopback."""

import http.client
import json
import os
import pwd
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools import prefork

PATIENT = (
    "from weir.service.shutdown_deadline import ShutdownDeadline; "
    "ShutdownDeadline.__init__.__kwdefaults__['within_s'] = 110.0; "
)
"""Code of a process that may take longer to stop than a server may: others have the cores."""
UP = (
    f"{PATIENT}"
    "import gc, sys; gc.disable(); from pathlib import Path, PosixPath; from weir.local.server.main import run; "
    "from weir.local.server.settings.server_settings import ServerSettings as Settings; gc.enable(); "
    "from weir.local.server.state import what_if_runs; what_if_runs.NICE = int(sys.argv[5]); "
    "sys.exit(run(Settings(home=Path(sys.argv[1]), port=int(sys.argv[3]), virtual_gpus=int(sys.argv[2]), "
    "log_level='warning', **eval(sys.argv[4]))))"
)
SHARED_ACCOUNT = {"shared_account": pwd.getpwuid(os.getuid()).pw_name}
"""Settings of a pool whose people have tokens."""


FRESH_S = 30.0


class Serving:
    """The server, and an administrator who asks it."""

    replay_nice = 0  # as the pool has it, other tests could starve a replay
    _fresh_until_s = 0.0
    port = 0  # any

    def __init__(self, home: Path, gpus: int = 4, settings: Mapping[str, Any] = SHARED_ACCOUNT) -> None:
        self.settings = settings
        self.home = home
        self.gpus = gpus
        self.begin()

    def begin(self) -> None:
        command = [sys.executable, "-c", UP, str(self.home), str(self.gpus), str(self.port)]
        command += [repr(dict(self.settings)), str(self.replay_nice)]
        reading, writing = os.pipe()
        self.output = os.fdopen(reading)
        self.process = prefork.start(command, stdout=writing)
        os.close(writing)
        place = self.home / "server.json"
        until = time.monotonic() + 120
        while True:
            if place.exists() and (reply := json.loads(place.read_text()))["pid"] == self.process.pid:
                break
            assert self.process.poll() is None, "it didn't begin"
            assert time.monotonic() < until
            time.sleep(0.02)
        self.url: str = reply["url"]
        self.token = (self.home / "token").read_text().strip()
        self._connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=120)

    def ask(self, method: str, path: str, body: object = None, token: str | None = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        if time.monotonic() > self._fresh_until_s:
            self._connection.close()  # it is opened again; the server ends those that are idle
        self._fresh_until_s = time.monotonic() + FRESH_S
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        text = answer.read()
        is_json = "json" in (answer.getheader("content-type") or "")
        return answer.status, json.loads(text) if is_json else text.decode()

    def get(self, path: str, token: str | None = None) -> Any:
        status, reply = self.ask("GET", path, token=token)
        assert status == 200, reply
        return reply

    def until_ready(self) -> None:
        """Wait until nothing is late: on a busy machine, a probe may take longer than it should."""
        until = time.monotonic() + 120
        while (answer := self.ask("GET", "/readyz")) != (200, {"status": "ok"}):
            assert time.monotonic() < until, answer
            time.sleep(0.05)

    def submit(self, *command: str, **more: Any) -> Any:
        pods = [{"gpus": more.pop("gpus", 1), "cpu": "100m", "memory": "16Mi"}]
        body = {"project": "default", "command": list(command), "pods": pods, **more}
        status, reply = self.ask("POST", "/api/v1/workloads", body)
        assert status == 201, reply
        return reply

    def until(self, name: str, *statuses: str, within_s: float = 120.0) -> Any:
        begun = time.monotonic()
        while (row := self.get(f"/api/v1/workloads/{name}"))["status"] not in statuses:
            waited_s = time.monotonic() - begun
            assert waited_s < within_s, row
            time.sleep(min(0.2, 0.02 + waited_s / 10))
        return row

    def end(self, sig: int = signal.SIGTERM) -> int:
        self._connection.close()
        self.process.send_signal(sig)
        code = self.process.wait(120)
        self.output.close()
        return code

    def stop_all(self) -> None:
        """End every job, and wait until they are gone."""
        until = time.monotonic() + 120
        while rows := self.get("/api/v1/workloads?limit=1000")["items"]:
            for row in rows:
                self.ask("POST", f"/api/v1/workloads/{row['name']}/stop")
            assert time.monotonic() < until
            time.sleep(0.05)


@contextmanager
def serving(home: Path, gpus: int = 4, settings: Mapping[str, Any] = SHARED_ACCOUNT) -> Iterator[Serving]:
    """A server for the length of a block; its jobs end with it."""
    os.environ.setdefault("PYTHONPATH", "src")
    server = Serving(home, gpus, settings)
    try:
        yield server
        server.stop_all()
    finally:
        if server.process.poll() is None:
            server.end()

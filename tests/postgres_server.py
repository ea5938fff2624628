"""A private PostgreSQL server of this machine's programs, in a directory of its own, for tests."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from tools.controlplane.ports import free_port

_READY_S = 120.0


class Postgres:
    """A server that may be stopped and started again; its data stay. Its user may create databases."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._programs = programs
        self._data = directory / "data"
        self._directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        # PostgreSQL refuses to run as root.
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._account is not None:
            os.chown(directory, self._account.pw_uid, self._account.pw_gid)
        words = [
            "-D",
            str(self._data),
            "-U",
            "weir",
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
        ]
        subprocess.run([programs / "initdb", *words], check=True, capture_output=True, **self._as())

    def _as(self) -> dict[str, object]:
        if self._account is None:
            return {"cwd": self._directory}
        return {
            "cwd": self._directory,
            "user": self._account.pw_uid,
            "group": self._account.pw_gid,
            "extra_groups": [],
        }

    @property
    def url(self) -> str:
        """Return the address of its first database."""
        return f"postgresql+psycopg://weir@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it, and return when it answers."""
        words = ["-D", str(self._data), "-p", str(self.port), "-c", "listen_addresses=127.0.0.1"]
        words += ["-c", f"unix_socket_directories={self._directory}", "-c", "fsync=off"]
        log = (self._directory / "log").open("ab")
        self._process = subprocess.Popen(
            [self._programs / "postgres", *words], stdout=log, stderr=log, **self._as()
        )
        log.close()
        end = time.monotonic() + _READY_S
        ready = [self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "weir"]
        while subprocess.run(ready, check=False).returncode:
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL doesn't answer: {(self._directory / 'log').read_text()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        if self._process is not None:
            self._process.send_signal(3)  # SIGQUIT: an immediate shutdown
            self._process.wait(180)
            self._process = None

    def pause(self) -> None:
        """Have all of its processes hang."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Have them go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        server = psutil.Process(self._process.pid)
        for each in (server, *server.children()):
            each.send_signal(number)


def programs() -> Path | None:
    """Return the directory of PostgreSQL's programs; None without them."""
    found = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    on_path = shutil.which("postgres")
    if on_path is not None:
        found.append(Path(on_path).resolve().parent)
    return next(
        (
            each
            for each in found
            if all((each / name).exists() for name in ("initdb", "postgres", "pg_isready"))
        ),
        None,
    )


@contextmanager
def private_postgres() -> Iterator[Postgres]:
    """Run a server for tests, and remove everything of it."""
    where = programs()
    assert where is not None, "look for the programs first"
    directory = Path(tempfile.mkdtemp(prefix="weir-postgres-"))
    server = Postgres(where, directory)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)

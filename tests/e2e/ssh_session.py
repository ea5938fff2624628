"""A person with a pool of their own and OpenSSH, whose home is a temporary directory."""

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.unit.local.server.server_process import Serving
from tools import prefork

LIMIT_S = 180.0


class PersonAtHome:
    """Runs `weir`, ssh and what builds on it as one person; `pool` are variables that name the pool."""

    def __init__(self, home: Path, pool: Mapping[str, str]) -> None:
        self.home = home
        kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH", "LANG", "USER") if key in os.environ}
        if "PYTHONPATH" in kept:
            kept["PYTHONPATH"] = str(Path(kept["PYTHONPATH"]).absolute())
        self.environment = {**kept, "HOME": str(home), **pool}
        self.config = home / ".config" / "weir" / "ssh_config"

    def weir(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "weir", *words]
        return prefork.run(command, env=self.environment, text=text, timeout=LIMIT_S)

    def ssh(self, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return self.run("ssh", "-F", str(self.config), *words, text=text)

    def run(self, *command: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def begin_ssh(self, *words: str) -> subprocess.Popen[bytes]:
        """Begin ssh with pipes for its input and output."""
        return subprocess.Popen(
            ["ssh", "-F", str(self.config), *words],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def on_terminal(self, *command: str) -> tuple[subprocess.Popen[bytes], int]:
        """Begin a command on a terminal of its own; return it with the other end of the terminal."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            command,
            env=self.environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_heed_interrupts,  # noqa: PLW1509 - it takes no lock
        )
        os.close(theirs)
        return process, ours


class Person(PersonAtHome):
    """A person with a pool of their own on this machine."""

    def __init__(self, server: Serving, home: Path) -> None:
        super().__init__(home, {"WEIR_HOME": str(server.home), "WEIR_PROJECT": "default"})
        self.server = server


def _heed_interrupts() -> None:
    """Undo what a shell does to a command in its background, tests among them: it ignores ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def read_until(fd: int, *wanted: bytes) -> bytes:
    """Read until these texts have come, in any order; return all that was read."""
    read, until_s = b"", time.monotonic() + LIMIT_S
    while not all(each in read for each in wanted):
        ready, _, _ = select.select([fd], [], [], max(0.0, until_s - time.monotonic()))
        assert ready, read
        try:
            part = os.read(fd, 1 << 16)
        except OSError:  # the terminal's other side is closed
            part = b""
        assert part, read
        read += part
    return read


def until(holds: Callable[[], object]) -> None:
    """Wait for something."""
    until_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def connected(address: str | tuple[str, int]) -> socket.socket:
    """Return a connection to a port or a socket, once something listens there."""
    found: list[socket.socket] = []

    def tries() -> bool:
        one = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        one.settimeout(LIMIT_S)
        try:
            one.connect(address)
        except OSError:
            one.close()
            return False
        found.append(one)
        return True

    until(tries)
    return found[0]


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End a process with the block."""
    try:
        yield process
    finally:
        process.kill()
        process.wait(LIMIT_S)
        for each in (process.stdin, process.stdout):
            if each is not None:
                each.close()


def received(stream: socket.socket, wanted: int) -> bytes:
    """Receive a number of bytes."""
    got = b""
    while len(got) < wanted:
        part = stream.recv(wanted - len(got))
        assert part, got
        got += part
    return got


def words_of(process: subprocess.CompletedProcess[str]) -> Sequence[str]:
    """Return the output of a command that succeeded, in words."""
    assert process.returncode == 0, process.stderr
    return process.stdout.split()

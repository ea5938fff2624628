"""Child processes that end with their parent, however that ends.

Every process has a session of its own, so that a Ctrl-C in the terminal reaches only the parent, which
stops all in order. In case the parent is killed there is a watch: a small process that holds the
reading end of a pipe from the parent. When that ends it kills what it was told of, by process and
not by number, and removes the directory.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from tools import prefork
from tools.prefork import Process

_STOP_S = 5.0
_WATCH = "from tools.controlplane.processes import watch; watch()"


class Processes:
    """The processes of one directory, with their logs in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[str, Process] = {}
        self._watch = subprocess.Popen(
            [sys.executable, "-c", _WATCH],
            stdin=subprocess.PIPE,
            cwd=Path(__file__).resolve().parent.parent.parent,
            start_new_session=True,
        )
        self._tell(f"directory {directory}")

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        aloud: bool = False,
        is_weir: bool = False,
    ) -> Process:
        """Run it, with what it says in NAME.log, or aloud; Weir by the prefork server, where there is one."""
        begin = prefork.start if is_weir else subprocess.Popen
        with self.log(name).open("ab") as log, Path(os.devnull).open("rb") as nothing:
            process: Process = begin(
                command,
                stdin=nothing.fileno(),
                stdout=1 if aloud else log.fileno(),
                stderr=2 if aloud else log.fileno(),
                cwd=self.directory,
                env=None if environment is None else {**os.environ, **environment},
                start_new_session=True,
            )
        self.running[name] = process
        self._tell(f"process {process.pid}")
        return process

    def log(self, name: str) -> Path:
        """Return the path of the process's log."""
        return self.directory / f"{name}.log"

    def check(self) -> None:
        """Raise if one has ended by itself."""
        for name, process in self.running.items():
            if (code := process.poll()) is not None:
                raise Ended(name, code, self.last_words(name))

    def last_words(self, name: str, lines: int = 12) -> str:
        """Return the end of a process's log."""
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-lines:])

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM, within_s: float = _STOP_S) -> None:
        """End one and wait for it; by force after so long."""
        process = self.running.pop(name, None)
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Kill what still runs, the last started first, and remove the directory."""
        for name in reversed(list(self.running)):
            self.stop(name, signal.SIGKILL)
        assert self._watch.stdin is not None
        self._watch.stdin.close()
        self._watch.wait()

    def _tell(self, text: str) -> None:
        assert self._watch.stdin is not None
        self._watch.stdin.write(f"{text}\n".encode())
        self._watch.stdin.flush()


class Ended(Exception):
    """A process ended by itself."""

    def __init__(self, name: str, code: int, message: str) -> None:
        super().__init__(f"{name} ended with {code}; the last it said:\n{message}")
        self.message = message


def watch(reported: BinaryIO | None = None) -> None:
    """Until the parent is gone, remember what it started; then end it all."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    held: list[int] = []
    directory = ""
    for line in reported or sys.stdin.buffer:
        word, _, value = line.decode().rstrip("\n").partition(" ")
        if word == "directory":
            directory = value
        else:
            with contextlib.suppress(ProcessLookupError):
                held.append(os.pidfd_open(int(value)))
    for process in held:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
    if directory:
        _remove(directory)


def _remove(directory: str) -> None:
    """Remove a directory into which a process that is being killed may still write."""
    for _ in range(50):
        shutil.rmtree(directory, ignore_errors=True)
        if not Path(directory).exists():
            return
        time.sleep(0.1)

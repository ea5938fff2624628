"""The process of a job script: its output is copied, and it gets signals as Slurm would send them."""

import fcntl
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from weir.slurm.job_settings import JobSettings
from weir.slurm.output_copies import OutputCopy
from weir.slurm.running_steps import signal_steps

_BLOCK = 1 << 16
_LAST_WORDS_S = 5.0
"""Time between SIGTERM and the end of the grace period, after a signal of the user."""


class BatchProcess:
    """A running script. Signals and output are handled in one loop."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        source: int,
        copies: tuple[OutputCopy, OutputCopy],
        settings: JobSettings,
        place: Path,
    ) -> None:
        """Start the script.

        Raises:
            OSError: it can't be started.
        """
        self._settings = settings
        self._place = place
        self._wakes, wakes = _nonblocking_pipe()
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda *_: None)
        same = copies[0] is copies[1]
        reading, writing = os.pipe()
        errors, writing_errors = (reading, writing) if same else os.pipe()
        try:
            self._child = subprocess.Popen(  # noqa: S603 - the script of the user
                command,
                env={**environment, "SLURM_TASK_PID": str(os.getpid())},
                stdin=source,
                stdout=writing,
                stderr=writing_errors,
                start_new_session=True,
            )
        finally:
            for fd in {writing, writing_errors, source}:
                os.close(fd)
        self._copies = {reading: (1, copies[0]), errors: (2 if not same else 1, copies[1])}
        self._end = os.pidfd_open(self._child.pid)
        limit, notice = settings.limit_s, settings.notice
        self._notice_at = (
            None if limit is None or notice is None else time.monotonic() + max(0.0, limit - notice[1])
        )
        self._term_at: float | None = None
        self._notified = False

    def run(self) -> int:
        """Copy output until the script ends; return its exit code, or die of its signal."""
        selector = selectors.DefaultSelector()
        for fd in (*self._copies, self._end, self._wakes):
            os.set_blocking(fd, False)
            selector.register(fd, selectors.EVENT_READ)
        over = False
        while not over:
            for key, _ in selector.select(self._pause_s()):
                if key.fd == self._end:
                    over = True
                elif key.fd == self._wakes:
                    self._stop_if_told(os.read(self._wakes, _BLOCK))
                elif not self._copy(key.fd):
                    selector.unregister(key.fd)
            self._keep_time()
        status = self._child.wait()
        for fd in self._copies:
            while self._copy(fd, last=True):
                pass
        if status < 0:
            _die_of(-status)
        return status

    def _copy(self, fd: int, *, last: bool = False) -> bool:
        """Copy a block; return False at the end. `last`: an empty pipe is the end, too."""
        try:
            block = os.read(fd, _BLOCK)
        except BlockingIOError:
            return not last
        log, copy = self._copies[fd]
        had_problem = bool(copy.problem)
        _write(log, block)
        copy.write(block)
        if copy.problem and not had_problem:
            _write(2, f"weir: {copy.problem}.\n".encode(errors="replace"))
        return bool(block)

    def _stop_if_told(self, numbers: bytes) -> None:
        """Pass notice on: the signal of the user first, if there is one."""
        if signal.SIGTERM not in numbers:
            return
        now = time.monotonic()
        if self._settings.notice is None or self._notified:
            self._terminate()
        else:
            self._notify()
            self._term_at = now + max(0.0, self._settings.grace_s - _LAST_WORDS_S)

    def _keep_time(self) -> None:
        now = time.monotonic()
        if self._notice_at is not None and now >= self._notice_at:
            self._notify()
        if self._term_at is not None and now >= self._term_at:
            self._terminate()

    def _pause_s(self) -> float | None:
        due = [time_s for time_s in (self._notice_at, self._term_at) if time_s is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _notify(self) -> None:
        """Send the signal of --signal: to the script, or to the tasks of its steps."""
        self._notice_at, self._notified = None, True
        assert self._settings.notice is not None
        number, _, to_shell = self._settings.notice
        if to_shell:
            with suppress(ProcessLookupError):
                os.kill(self._child.pid, number)
        else:
            signal_steps(self._place, number)

    def _terminate(self) -> None:
        self._term_at = None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, signal.SIGTERM)
            os.killpg(self._child.pid, signal.SIGCONT)


def _nonblocking_pipe() -> tuple[int, int]:
    reading, writing = os.pipe()
    for fd in (reading, writing):
        os.set_blocking(fd, False)
        fcntl.fcntl(fd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    return reading, writing


def _write(fd: int, block: bytes) -> None:
    """Write a block; a log that takes no more is no reason to stop."""
    while block:
        try:
            block = block[os.write(fd, block) :]
        except OSError:
            return


def _die_of(number: int) -> None:
    """End this process by a signal, so that Weir records it."""
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
    os.kill(os.getpid(), number)

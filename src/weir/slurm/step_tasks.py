"""Tasks of a step: processes with their input and output, up to their end."""

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from weir.slurm.file_patterns import expand, pattern_values
from weir.slurm.job_place import host
from weir.slurm.step_request import StepRequest
from weir.slurm.task_output import LinePrefixer

_BLOCK = 1 << 16
_NOT_FOUND, _SIGNALLED = 2, 128
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_ALSO_PASSED_ON = (signal.SIGALRM, signal.SIGCONT, signal.SIGTSTP)


@dataclass(frozen=True, slots=True)
class TaskStart:
    """Command and environment of a task."""

    command: Sequence[str]
    environment: Mapping[str, str]


class StepTasks:
    """The tasks of one step."""

    def __init__(self, request: StepRequest, step: int, starts: Sequence[TaskStart]) -> None:
        self._request = request
        self._step = step
        self._starts = starts
        self._tasks: dict[int, subprocess.Popen[bytes]] = {}
        self._codes: dict[int, int] = {}
        self._readers: dict[int, LinePrefixer] = {}
        self._files: dict[str, int] = {}
        self._first_end_s: float | None = None
        self._have_started = False
        self._early: list[int] = []  # signals that came while tasks were started

    def run(self) -> int:
        """Start all tasks, wait for their end, and return the highest exit code."""
        for number in (*_PASSED_ON, *_ALSO_PASSED_ON):
            signal.signal(number, self._pass_on)
        selector = selectors.DefaultSelector()
        for rank, start in enumerate(self._starts):
            self._start(rank, start)
        self._have_started = True
        for early in self._early:
            self._signal_all(early)
        self._feed()
        for fd in self._readers:
            selector.register(fd, selectors.EVENT_READ)
        ends = {os.pidfd_open(task.pid): rank for rank, task in self._tasks.items()}
        for fd in ends:
            selector.register(fd, selectors.EVENT_READ)
        while ends or self._readers:
            for key, _ in selector.select(self._pause_s()):
                if key.fd in ends:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    self._ended(ends.pop(key.fd))
                elif not self._readers[key.fd].copy(key.fd):
                    selector.unregister(key.fd)
                    del self._readers[key.fd]
            if not ends:
                self._drain()
                break
            if self._overdue():
                self._signal_all(signal.SIGTERM)
                self._first_end_s = None
        return max(self._codes.values(), default=0)

    def _start(self, rank: int, start: TaskStart) -> None:
        output, error = self._outputs(rank)
        source = self._source(rank)
        try:
            self._tasks[rank] = subprocess.Popen(  # noqa: S603 - the program of the user
                start.command,
                env=dict(start.environment),
                cwd=self._request.chdir,
                stdin=source,
                stdout=output,
                stderr=error,
                process_group=0,
            )
        except OSError as failure:
            self._tell(rank, f"{start.command[0]}: {failure.strerror}")
            self._codes[rank] = _NOT_FOUND if isinstance(failure, FileNotFoundError) else 126
        finally:
            for fd in {output, error} - {1, 2} - set(self._files.values()):
                os.close(fd)
            if isinstance(source, int) and source > 2:
                os.close(source)

    def _outputs(self, rank: int) -> tuple[int, int]:
        """Return descriptors for the output and the errors of a task."""
        request = self._request
        output = self._file(request.output, rank)
        error = self._file(request.error, rank) if request.error is not None else None
        if output is None:
            output = self._labelled(rank, 1) if request.label else 1
            error = error if error is not None else self._labelled(rank, 2) if request.label else 2
        return output, output if error is None else error

    def _labelled(self, rank: int, target: int) -> int:
        """Return a pipe that prefixes each line with the task number."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        width = len(str(self._request.tasks - 1))
        self._readers[reading] = LinePrefixer(f"{rank:>{width}}: ".encode(), target)
        return writing

    def _file(self, pattern: str | None, rank: int) -> int | None:
        """Return a descriptor of a file; None for the output of this program."""
        if pattern is None or pattern == "all":
            return None
        if pattern == "none":
            pattern = os.devnull
        elif pattern.isdecimal():
            if int(pattern) == rank:
                return None
            pattern = os.devnull
        values = pattern_values(
            os.environ.get("SLURM_JOB_ID", "0"),
            name=os.environ.get("SLURM_JOB_NAME", ""),
            array=os.environ.get("SLURM_ARRAY_JOB_ID"),
            index=os.environ.get("SLURM_ARRAY_TASK_ID"),
            step=str(self._step),
            task=str(rank),
        )
        name = str(Path(self._request.chdir or ".", expand(pattern, values)))
        if name not in self._files:
            how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
            self._files[name] = os.open(name, how, 0o666)
        return self._files[name]

    def _source(self, rank: int) -> int | None:
        """Return the input of a task: that of this program for a task alone, else a pipe or nothing."""
        pattern = self._request.input
        if pattern is None or pattern == "all":
            return None if self._request.tasks == 1 else subprocess.PIPE
        if pattern == "none" or (pattern.isdecimal() and int(pattern) != rank):
            return subprocess.DEVNULL
        if pattern.isdecimal():
            return None
        return os.open(Path(self._request.chdir or ".", pattern.replace("%t", str(rank))), os.O_RDONLY)

    def _feed(self) -> None:
        """Give each of several tasks all of the input."""
        pipes = [task.stdin for task in self._tasks.values() if task.stdin is not None]
        if pipes:
            threading.Thread(target=_broadcast, args=(pipes,), daemon=True).start()

    def _ended(self, rank: int) -> None:
        status = self._tasks[rank].wait()
        code = _SIGNALLED - status if status < 0 else status
        self._codes[rank] = code
        if status < 0:
            self._tell(rank, signal.strsignal(-status) or f"signal {-status}")
        elif status:
            self._tell(rank, f"Exited with exit code {status}")
        if self._first_end_s is None and self._request.wait_s:
            self._first_end_s = time.monotonic()
        if code and self._request.kill_on_bad_exit:
            self._signal_all(signal.SIGTERM)

    def _overdue(self) -> bool:
        return self._first_end_s is not None and time.monotonic() > self._first_end_s + self._request.wait_s

    def _pause_s(self) -> float | None:
        return None if self._first_end_s is None else 0.1

    def _drain(self) -> None:
        for fd, reader in self._readers.items():
            while reader.copy(fd, last=True):
                pass
            reader.finish()

    def _pass_on(self, number: int, _: object) -> None:
        """Send a signal to all tasks, once they have started."""
        if self._have_started:
            self._signal_all(number)
        else:
            self._early.append(number)

    def _signal_all(self, number: int) -> None:
        for rank, task in self._tasks.items():
            if rank not in self._codes:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(task.pid, number)

    def _tell(self, rank: int, problem: str) -> None:
        print(f"srun: error: {host()}: task {rank}: {problem}", file=sys.stderr, flush=True)


def _broadcast(pipes: Sequence[IO[bytes]]) -> None:
    """Copy the input to all tasks, until it ends or none of them reads."""
    open_pipes = list(pipes)
    while open_pipes:
        try:
            block = os.read(0, _BLOCK)
        except OSError:
            block = b""
        for pipe in list(open_pipes):
            try:
                if block:
                    pipe.write(block)
                    pipe.flush()
                else:
                    pipe.close()
            except OSError:
                open_pipes.remove(pipe)
        if not block:
            return

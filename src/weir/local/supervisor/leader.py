"""Leader of a pod: the process that becomes the submitted command.

It enters the pod's control groups, takes the rights of the pod's user, and waits for its supervisor.
Standard library only.
"""

import json
import os
import select
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from weir.local.records import start_files
from weir.local.records.pod_records import StartRecord, parse_start
from weir.local.records.start_files import StartFiles
from weir.local.supervisor import spawn_errors
from weir.local.supervisor.spawn_errors import SpawnError

NOT_FOUND, NOT_RUNNABLE = 127, 126
"""Exit codes of a shell for a missing command, and for one that isn't executable."""
_SIGNALS = sorted(set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP})
_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_REPORT_MAX, _TEXT_MAX = 1 << 16, 2000
_LOOK_S = 0.5


class NotStarted(Exception):
    """The command could not be started. `code`: the exit code that a shell would have."""

    def __init__(self, code: int, error: SpawnError) -> None:
        super().__init__(error.problem)
        self.code = code
        self.error = error


class Leader:
    """A leader that was forked and waits until its supervisor lets it go, or is gone."""

    def __init__(self) -> None:
        own_end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        self._other = own_end if self.pid else theirs
        (theirs if self.pid else own_end).close()

    def go(self, log: int, waits: Callable[[], bool]) -> None:
        """Make the process become its command, with `log` as the descriptor of its output.

        `waits` is called now and then while a file system doesn't answer. If it returns False, the process is
        killed.

        Raises:
            NotStarted: the command can't be executed.
        """
        with self._other, suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._other, [b"go"], [log])
            while not select.select([self._other], [], [], _LOOK_S)[0]:
                if not waits():
                    os.kill(self.pid, signal.SIGKILL)
                    return
            if report := self._other.recv(_REPORT_MAX):
                code, *sentences = json.loads(report)
                raise NotStarted(code, SpawnError(*sentences))

    def dismiss(self) -> None:
        """End the process without its command."""
        self._other.close()

    def wait(self, files: StartFiles, problem: str = "", *, gpu_memory_limited: bool = False) -> None:
        """Wait in the leader itself until it may go, and become the command; report a problem instead.

        `gpu_memory_limited`: the driver shows the command its share of a GPU as all there is.
        """
        try:
            message, logs, _, _ = socket.recv_fds(self._other, 16, 1)
            if message:
                start = parse_start(start_files.read(files.spec))
                assert isinstance(start, StartRecord)
                if gpu_memory_limited:
                    _forget_fraction(start.environment)
                _become(start, files, logs[0], problem)
        except NotStarted as failure:
            report = [failure.code, *(sentence[:_TEXT_MAX] for sentence in failure.error)]
            self._other.send(json.dumps(report).encode())


def _become(start: StartRecord, files: StartFiles, log: int, problem: str) -> None:
    """Become the command of a start.

    Raises:
        NotStarted: it couldn't be started.
    """
    if problem:
        raise NotStarted(NOT_RUNNABLE, SpawnError(problem, ""))
    os.setpgid(0, 0)
    for number in _SIGNALS:  # resets handlers of Python and of the server's parent
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    command, environment = start.command, {**start.environment, **_secrets(files)}
    try:
        os.chdir(start.directory)
    except (OSError, ValueError) as failure:
        error = spawn_errors.bad_directory(start.directory, _problem(failure))
        raise NotStarted(NOT_RUNNABLE, error) from None
    program = _program_path(command, environment.get("PATH", os.defpath))
    os.umask(start.umask)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    try:
        os.execve(program, command, environment)  # noqa: S606 - that is what was submitted
    except FileNotFoundError:
        raise NotStarted(NOT_FOUND, spawn_errors.not_found(command)) from None
    except (OSError, ValueError) as failure:
        raise NotStarted(NOT_RUNNABLE, spawn_errors.not_runnable(command, _problem(failure))) from None


def _forget_fraction(environment: dict[str, str]) -> None:
    """Forget a fraction of memory that Weir set: it would be a fraction of the share."""
    if environment.get(_FRACTION) == environment.get("WEIR_GPU_FRACTION"):
        environment.pop(_FRACTION, None)


def _secrets(files: StartFiles) -> dict[str, str]:
    """Return the variables of secrets that the server passed on.

    Raises:
        NotStarted: one isn't set.
    """
    if files.secrets < 0:
        return {}
    passed: dict[str, dict[str, str] | str] = json.loads(start_files.read(files.secrets))
    values = passed.get("values")
    if not isinstance(values, dict):
        raise NotStarted(NOT_RUNNABLE, SpawnError(str(passed["refused"]), ""))
    return values


def _program_path(command: Sequence[str], path: str) -> str:
    """Return the file a command means, by the path of the environment it is to have."""
    program = command[0]
    if "/" in program:
        return program
    exists = False
    for directory in path.split(os.pathsep):
        candidate = f"{directory or '.'}/{program}"
        if not os.path.isfile(candidate):
            continue
        if os.access(candidate, os.X_OK):
            return candidate
        exists = True
    if exists:
        raise NotStarted(NOT_RUNNABLE, spawn_errors.not_runnable(command, "permission denied"))
    raise NotStarted(NOT_FOUND, spawn_errors.not_found(command))


def _problem(failure: OSError | ValueError) -> str:
    reason = failure.strerror if isinstance(failure, OSError) else None
    text = reason or str(failure)
    return text[:1].lower() + text[1:]

"""Entry into the namespaces of a running container, for `weir exec` and sessions.

The kernel lets a user enter namespaces of their own containers and no others. The command has no
capabilities and gains no privileges there, as the container's own processes.
"""

import ctypes
import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from weir.local.containers import leftovers
from weir.local.containers.user_namespace import NEW_MOUNTS

_NEW_USERS, _NEW_PIDS = 0x1000_0000, 0x2000_0000
_DROP_FROM_BOUNDS, _NO_NEW_PRIVILEGES, _CAPABILITIES_MAX = 24, 38, 64
_NOT_FOUND, _NOT_RUNNABLE = 127, 126
_PID_BYTES_MAX = 20
_LINE_BYTES_MAX, _SAID_BYTES_MAX = 1 << 10, 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class NotEntered(Exception):
    """The container can't be entered; the text says why."""


def first_process(environment: Mapping[str, str]) -> int:
    """Return the first process of the container of a pod, whose leader has this environment.

    Raises:
        NotEntered: the container doesn't run yet, or is over.
    """
    directory = environment.get("WEIR_POD_DIRECTORY", "")
    try:
        with open(f"{directory}/{leftovers.DIRECTORY}/{leftovers.PID}", "rb") as file:
            pid = int(file.read(_PID_BYTES_MAX))
        own = environment_of(pid).get("WEIR_POD_ID")
    except (OSError, ValueError):
        raise NotEntered("its container doesn't run: it may still get its image") from None
    if pid <= 1 or own != environment.get("WEIR_POD_ID"):
        raise NotEntered("its container is over, or about to start")
    return pid


def environment_of(pid: int) -> dict[str, str]:
    """Return the environment with which a process was started.

    Raises:
        OSError: the process has ended, or belongs to another user.
    """
    with open(f"/proc/{pid}/environ", "rb") as file:
        text = file.read().decode("utf-8", "surrogateescape")
    return dict(variable.split("=", 1) for variable in text.split("\0") if "=" in variable)


def run(pid: int, command: Sequence[str]) -> int:
    """Run a command in the namespaces of a container's first process; return its exit code.

    Raises:
        NotEntered: the namespaces can't be entered.
    """

    def become(environment: dict[str, str]) -> NoReturn:
        drop_capabilities()
        environment |= {name: os.environ[name] for name in ("TERM",) if name in os.environ}
        os.execvpe(command[0], list(command), environment)  # noqa: S606 - that is what was asked for

    return inside(pid, become, command[0])


def inside(
    pid: int,
    act: Callable[[dict[str, str]], NoReturn],
    program: str,
    say: Callable[[str], None] | None = None,
) -> int:
    """Call a function in the namespaces of a container's first process; return the exit code.

    It gets the environment of that process, and becomes the program, or ends its process. Of the caller's
    open files it gets the standard ones alone. If there is `say`, that gets the lines of the error output, as
    far as they are few; the program then has no terminal of the caller.

    Raises:
        NotEntered: the namespaces can't be entered.
    """
    try:
        environment = environment_of(pid)
        kinds = (("user", _NEW_USERS), ("pid", _NEW_PIDS), ("mnt", NEW_MOUNTS))
        spaces = [
            (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in kinds
        ]
        directory = os.open(f"/proc/{pid}/cwd", os.O_PATH | os.O_CLOEXEC)
    except OSError as failure:
        raise NotEntered(f"its container can't be entered: {failure.strerror}") from None
    errors, errors_there = (None, None) if say is None else os.pipe()
    child = os.fork()  # the kernel refuses a change of user namespace with threads
    if child == 0:
        os._exit(_in_namespaces(spaces, directory, errors_there, lambda: act(environment), program))
    for fd in (*(space for space, _ in spaces), directory, errors_there):
        if fd is not None:
            os.close(fd)
    return _code_of(child, errors, say)


def drop_capabilities(*kept: int) -> None:
    """Drop all capabilities but the kept ones with the next program, which gains no privileges either."""
    for capability in range(_CAPABILITIES_MAX):
        if capability not in kept:
            _libc.prctl(_DROP_FROM_BOUNDS, capability, 0, 0, 0)
    _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def _in_namespaces(
    spaces: Sequence[tuple[int, int]],
    directory: int,
    errors: int | None,
    act: Callable[[], NoReturn],
    program: str,
) -> int:
    if errors is not None:
        os.dup2(errors, 2)
    opened = [int(name) for name in os.listdir("/proc/self/fd")]
    for space, kind in spaces:
        if _libc.setns(space, kind) < 0:
            os.write(
                2, f"weir: its container can't be entered: {os.strerror(ctypes.get_errno())}.\n".encode()
            )
            return _NOT_RUNNABLE
    child = os.fork()  # our first process in the PID namespace
    if child:
        return _code_of(child)
    code = _NOT_RUNNABLE
    try:
        os.fchdir(directory)
        for fd in opened:
            if fd > 2:
                with suppress(OSError):  # the descriptor of the listing is closed by now
                    os.close(fd)
        if errors is not None:
            os.setsid()
        act()
    except FileNotFoundError:
        os.write(2, f"weir: {program} isn't in the container.\n".encode(errors="replace"))
        code = _NOT_FOUND
    except NotEntered as refusal:
        os.write(2, f"weir: {refusal}.\n".encode(errors="replace"))
    except OSError as failure:
        os.write(2, f"weir: {program} can't be run: {failure.strerror}.\n".encode(errors="replace"))
    finally:
        os._exit(code)


def _pass_on(child: int, errors: int, say: Callable[[str], None]) -> None:
    """Pass on lines of a child's error output until it ends: others may keep the output open longer."""
    left, line = _SAID_BYTES_MAX, b""
    with suppress(ChildProcessError):
        ended = os.pidfd_open(child)
        while True:
            ready, _, _ = select.select([errors, ended], [], [])
            if errors not in ready:
                break
            data = os.read(errors, _LINE_BYTES_MAX)
            if not data:
                break
            *lines, line = (line + data[:left]).split(b"\n")
            left -= len(data[:left])
            if len(line) > _LINE_BYTES_MAX:
                lines, line = [*lines, line], b""
            for whole_line in lines:
                say(whole_line.decode(errors="replace").rstrip("\r"))
        os.close(ended)
    os.close(errors)
    if line:
        say(line.decode(errors="replace"))


def _code_of(child: int, errors: int | None = None, say: Callable[[str], None] | None = None) -> int:
    """Wait for a child, which gets the signals of the terminal; return its exit code."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if errors is not None and say is not None:
        _pass_on(child, errors, say)
    status = 0
    with suppress(ChildProcessError):
        _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code

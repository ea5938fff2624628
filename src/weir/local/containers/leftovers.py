"""Files in a pod's own directory of no use once it is over: of its container, and keys of its session.

Standard library only, and little of it: supervisors delete them.
"""

import os
import stat
from contextlib import suppress

from weir.local.files.tree_removal import remove_tree

DIRECTORY, SESSION = "container", "session"
PID = "pid"
PROBLEM = "problem"
AGAIN, NEVER = 125, 126
"""Exit codes of a container that can't be started now, or never; runtimes use the same codes."""
_PROBLEM_BYTES_MAX = 2000
_EARLIER_MAX = 16
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_problem(own: str, sentence: str) -> None:
    """Say in the directory of a pod why its container couldn't be started."""
    with suppress(OSError):
        os.makedirs(f"{own}/{DIRECTORY}", 0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(f"{own}/{DIRECTORY}/{PROBLEM}", flags, 0o600)
        try:
            os.write(fd, sentence.encode(errors="replace")[:_PROBLEM_BYTES_MAX])
        finally:
            os.close(fd)


def problem(own: int) -> str:
    """Return why the container of a pod couldn't be started; empty if it could, or the pod has none."""
    with suppress(OSError):
        directory = os.open(DIRECTORY, _OPEN, dir_fd=own)
        try:
            fd = os.open(
                PROBLEM, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory
            )
            try:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    return os.read(fd, _PROBLEM_BYTES_MAX).decode(errors="replace")
            finally:
                os.close(fd)
        finally:
            os.close(directory)
    return ""


def remove(own: int) -> None:
    """Delete these files from the open directory of a pod, as far as that is allowed."""
    for name in (DIRECTORY, SESSION):
        try:
            os.stat(name, dir_fd=own, follow_symlinks=False)
        except OSError:
            continue
        remove_tree(own, name)


def remove_earlier(own: str) -> None:
    """Delete these files of earlier starts of a pod, whose supervisors may have been killed.

    `own` ends in UID/START-GROUP-INDEX.
    """
    above, _, name = own.rpartition("/")
    start, _, pod = name.partition("-")
    for number in range(max(1, int(start) - _EARLIER_MAX), int(start)):
        with suppress(OSError):
            earlier = os.open(f"{above}/{number}-{pod}", _OPEN)
            try:
                remove(earlier)
            finally:
                os.close(earlier)

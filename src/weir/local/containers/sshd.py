"""sshd of a container's image, as root of its user namespace, which has one id.

sshd of root changes to other ids, which don't exist there, and to other groups, which the kernel refuses.
So it sees accounts in which its own unprivileged user is root too, and its changes of groups do nothing.
Only its processes see these files. It keeps one capability of the namespace, that of chroot.
"""

import ctypes
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from weir.local.containers import enter, user_namespace
from weir.local.files import job_files

NO_SSHD = 81
"""Exit code of an image without sshd."""
_PLACES = "/usr/sbin:/usr/local/sbin:/sbin:/usr/bin:/usr/local/bin:/bin"
_PRIVILEGE_SEPARATION = "/run/sshd"
_ACCOUNT_BYTES_MAX = 1 << 20
_KEPT = ("PATH", "TZ", "WEIR_POD_ID")
_SHELLS = ("/bin/bash", "/bin/sh")
_NO_SHELLS = ("nologin", "false")
_ROOT = ["root", "*", "0", "0", "", "/root", ""]
_CHROOT, _SECCOMP, _FILTER = 18, 22, 2
_ALLOWED, _SUCCESS = 0x7FFF_0000, 0x0005_0000  # seccomp: allow, and fail with errno 0
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _MACHINE_AT = 0, 4
_SYSTEM_CALLS = {"x86_64": (0xC000_003E, 116), "aarch64": (0xC000_00B7, 159)}
"""For each machine, its number in filters and that of setgroups."""
_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def run(pid: int, *, config: str, user: str, say: Callable[[str], None]) -> int:
    """Run sshd on the standard input and output in a container; return its exit code.

    `pid` is the container's first process, `config` the path of the configuration in it, and `user` the name
    that logs in. `say` gets the lines of its error output. It has no terminal of its caller.

    Raises:
        NotEntered: the container can't be entered.
    """

    def become(environment: dict[str, str]) -> NoReturn:
        program = shutil.which("sshd", path=_PLACES)
        if program is None:
            os._exit(NO_SSHD)
        user_namespace.enter_own_mounts()
        _replace_accounts(user)
        os.makedirs(_PRIVILEGE_SEPARATION, 0o755, exist_ok=True)
        enter.drop_capabilities(_CHROOT)
        _keep_groups()
        os.chdir("/")
        own = {key: value for key, value in environment.items() if key in _KEPT}
        os.execve(program, [program, "-i", "-e", "-f", config], own)  # noqa: S606 - a program of the image

    return enter.inside(pid, become, "sshd", say)


def accounts(passwd: str, user: str, has_shell: Callable[[str], bool]) -> str:
    """Return the accounts of a container, in which `user` and the user of sshd are root.

    `has_shell` returns True for a program that the container has.
    """
    lines = [line for line in passwd.splitlines() if line.partition(":")[0] not in (user, "sshd")]
    rows = [fields for line in passwd.splitlines() if len(fields := line.split(":")) == len(_ROOT)]
    root = next((fields for fields in rows if fields[2] == "0"), _ROOT)
    shell = root[6]
    if os.path.basename(shell) in _NO_SHELLS or not has_shell(shell):
        shell = next(filter(has_shell, _SHELLS), _SHELLS[-1])
    lines += [f"{user}:*:0:0::{root[5]}:{shell}", f"sshd:*:0:0::{_PRIVILEGE_SEPARATION}:/bin/false"]
    return "".join(f"{line}\n" for line in lines)


def groups(text: str) -> str:
    """Return the groups of a container without tty, whose terminals have the group of root."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("tty:"))


def _replace_accounts(user: str) -> None:
    """Replace the files of accounts in this mount namespace.

    The container may have made them anything: what isn't a small regular file is refused unread.

    Raises:
        NotEntered: one of them can't be read.
    """

    def has_shell(path: str) -> bool:
        return os.access(path, os.X_OK)

    changes: dict[str, Callable[[str], str]] = {
        "/etc/passwd": lambda text: accounts(text, user, has_shell),
        "/etc/group": groups,
        "/etc/shadow": lambda _: "",  # sshd refuses accounts that are locked in it
    }
    with suppress(FileExistsError):
        os.close(os.open("/etc/passwd", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    texts = {}
    for path, change in changes.items():
        text = job_files.read_at(None, path, _ACCOUNT_BYTES_MAX)
        if isinstance(text, job_files.UnreadableFile):
            raise enter.NotEntered(f"accounts of its container can't be read: {text.sentence.rstrip('.')}")
        if text is not None:
            texts[path] = change(text.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    user_namespace.replace_files(texts)


def _keep_groups() -> None:
    """Let setgroups succeed without a change, for this process and its children.

    Raises:
        OSError: the kernel has no filters of system calls.
    """
    if os.uname().machine not in _SYSTEM_CALLS:
        return
    machine, set_groups = _SYSTEM_CALLS[os.uname().machine]
    instructions = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_IF_EQUAL, 0, 3, machine),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_EQUAL, 0, 1, set_groups),
        (_RETURN, 0, 0, _SUCCESS),
        (_RETURN, 0, 0, _ALLOWED),
    ]
    code = b"".join(
        part.to_bytes(size, "little")
        for instruction in instructions
        for part, size in zip(instruction, (2, 1, 1, 4), strict=True)
    )
    program = _Program(len(instructions), code)
    user_namespace.check_call(_libc.prctl(_SECCOMP, _FILTER, ctypes.byref(program), 0, 0))

"""Resource limits of a user's login, as the administrator wrote them for pam_limits (limits.conf(5)).

The server reads them, and the node process sets them for a job. It sets none above its own hard limits.
"""

import grp
import os
import pwd
import resource
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from weir.local.node.orders import Rlimit

DIRECTORY = Path("/etc/security")
_FILES_MAX, _FILE_MAX = 256, 1 << 20
_NUMBER_MAX = 1 << 62
_KIB, _MINUTE = 1024, 60
_ITEMS = {
    "as": (resource.RLIMIT_AS, _KIB),
    "core": (resource.RLIMIT_CORE, _KIB),
    "cpu": (resource.RLIMIT_CPU, _MINUTE),
    "data": (resource.RLIMIT_DATA, _KIB),
    "fsize": (resource.RLIMIT_FSIZE, _KIB),
    "memlock": (resource.RLIMIT_MEMLOCK, _KIB),
    "msgqueue": (resource.RLIMIT_MSGQUEUE, 1),
    "nofile": (resource.RLIMIT_NOFILE, 1),
    "nproc": (resource.RLIMIT_NPROC, 1),
    "rss": (resource.RLIMIT_RSS, _KIB),
    "rtprio": (resource.RLIMIT_RTPRIO, 1),
    "sigpending": (resource.RLIMIT_SIGPENDING, 1),
    "stack": (resource.RLIMIT_STACK, _KIB),
}
"""Numbers and units of the limits that the kernel has for each process."""
_AT_START = {number: resource.getrlimit(number) for number, _ in _ITEMS.values()}
"""Limits of the node process, which this process inherited and may change for itself."""
_USER, _GROUP, _ALL, _NOT_FOR = 3, 2, 1, 0


@dataclass(frozen=True)
class _Login:
    """A user, with the groups that are looked up only where a line names one."""

    account: pwd.struct_passwd

    @cached_property
    def gids(self) -> set[int]:
        """Return the groups of the user."""
        return set(os.getgrouplist(self.account.pw_name, self.account.pw_gid))


@dataclass(frozen=True, slots=True)
class _Line:
    domain: str
    kind: str
    item: str
    value: str


def user_rlimits(user: str, directory: Path = DIRECTORY) -> tuple[Rlimit, ...]:
    """Return the resource limits that a login of a user would set; none for an unknown user."""
    try:
        login = _Login(pwd.getpwnam(user))
    except KeyError:
        return ()
    limits: dict[tuple[int, bool], tuple[int, int]] = {}  # precedence and value, by resource and hardness
    for line in _lines(directory):
        precedence = _precedence(line.domain, login)
        if precedence == _NOT_FOR:
            continue
        if not line.item:  # `mia -` removes all limits
            return ()
        number, unit = _ITEMS.get(line.item, (-1, 1))
        value = _value(line.value, unit)
        if number < 0 or value is None:
            continue
        for hard in (True, False):
            before, _ = limits.get((number, hard), (_NOT_FOR, 0))
            if line.kind in ("-", "hard" if hard else "soft") and precedence >= before:
                limits[number, hard] = precedence, value
    return tuple(_rlimit(number, limits) for number in sorted({number for number, _ in limits}))


def _rlimit(number: int, limits: dict[tuple[int, bool], tuple[int, int]]) -> Rlimit:
    soft, hard = (
        limits.get((number, is_hard), (0, at_start))[1]
        for is_hard, at_start in zip((False, True), _AT_START[number], strict=True)
    )
    return number, min(soft, hard, key=lambda limit: limit % (1 << 64)), hard


def _lines(directory: Path) -> Iterator[_Line]:
    """Yield the lines of all files, in the order in which they count."""
    files = [directory / "limits.conf"]
    with suppress(OSError):
        files += sorted((directory / "limits.d").glob("*.conf"))[:_FILES_MAX]
    for file in files:
        for text in _text(file).splitlines():
            words = text.partition("#")[0].split()
            if len(words) == 2 and words[1] == "-":
                yield _Line(words[0], "-", "", "")
            elif len(words) == 4 and words[1] in ("-", "hard", "soft"):
                yield _Line(*words)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_FILE_MAX).decode(errors="replace")
    except OSError:
        return ""


def _value(text: str, unit: int) -> int | None:
    """Return a limit in the kernel's unit; None if it isn't a number."""
    if text in ("unlimited", "infinity", "-1"):
        return resource.RLIM_INFINITY
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        return None
    return min(int(text) * unit, _NUMBER_MAX)


def _precedence(domain: str, login: _Login) -> int:
    """Return how closely a line means a user; 0 if it doesn't."""
    account = login.account
    if domain == "*":
        return _ALL
    if domain == account.pw_name:
        return _USER
    is_group = domain.startswith("@")
    least, colon, most = domain.removeprefix("@").partition(":")
    if colon and all(not text or (text.isascii() and text.isdigit()) for text in (least, most)):
        precedence, own = (_GROUP, account.pw_gid) if is_group else (_USER, account.pw_uid)
        if not least:
            exact = int(most or -1)
            return precedence if exact == own or (is_group and exact in login.gids) else _NOT_FOR
        return precedence if int(least) <= own <= int(most or own) else _NOT_FOR
    return _GROUP if is_group and _gid(domain[1:]) in login.gids else _NOT_FOR


def _gid(group: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return -1

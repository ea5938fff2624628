"""Program that is installed: its command, its fingerprint, and other users' rights on it."""

import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from pathlib import Path

import weir
from weir.cli.install.settings import InstallSettings

PLACE = "install Weir into a directory of root's that everyone can read, such as /opt/weir"
_DIGITS = 16


def node_command(settings: InstallSettings) -> tuple[str, ...]:
    """Return the command of the node process, which root runs."""
    group = ("--allow-group", settings.allow_group) if settings.allow_group else ()
    rules = ("--uid-min", str(settings.uid_min)) if settings.uid_min != InstallSettings().uid_min else ()
    gains = ("--new-privileges",) if settings.new_privileges else ()
    own = ("--user", settings.user, "--home", str(settings.home), *group, *rules, *gains)
    return (sys.executable, "-I", "-m", "weir", "node", *own, "--", *settings.options)


def program_link() -> Path | None:
    """Return the `weir` beside the interpreter; None if this environment has none."""
    beside = Path(sys.executable).with_name("weir")
    return beside if os.access(beside, os.X_OK) else None


def fingerprint() -> str:
    """Return a digest of the package, of all packages beside it with their files, and of the interpreter."""
    digest = hashlib.sha256(sys.version.encode())
    package = Path(weir.__file__).parent
    for file in sorted(package.rglob("*.py")):
        digest.update(f"\n{file.relative_to(package)}\n".encode())
        digest.update(file.read_bytes())
    named = sorted(
        {
            f"{distribution.name} {distribution.version} {distribution.read_text('RECORD')}"
            for distribution in distributions()
        }
    )
    digest.update("\n".join(named).encode())
    return digest.hexdigest()[:_DIGITS]


def why_unsafe(
    paths: Iterator[Path] | None = None, lstat: Callable[[Path], os.stat_result] = Path.lstat
) -> str | None:
    """Return why root should not run this program; None if it is safe.

    Root runs it at each start of the machine, so only root may change it. The server and every user of the
    machine run it, too, so everyone must be able to read it.
    """
    for path in _own_paths() if paths is None else paths:
        for part in reversed((path, *path.parents)):
            try:
                status = lstat(part)
            except OSError as error:
                return f"{part} can't be read ({error.strerror}): {PLACE}"
            problem = _problem(part, status)
            if problem is not None:
                return problem
    return None


def _problem(part: Path, status: os.stat_result) -> str | None:
    mode = status.st_mode
    if status.st_uid != 0:
        return (
            f"{part} belongs to another user than root, and that user could change programs of root: {PLACE}"
        )
    if stat.S_ISLNK(mode):
        return None
    by_group = mode & stat.S_IWGRP and status.st_gid != 0
    sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
    if (by_group or mode & stat.S_IWOTH) and not sticky:
        return f"{part} can be written by others than root, and they could change programs of root: {PLACE}"
    needed = stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    if not mode & needed:
        return f"{part} is closed to the server's user and to others, but both run this program: {PLACE}"
    return None


def _own_paths() -> Iterator[Path]:
    """Yield the interpreter, the package and the directories of packages, each with its resolved path."""
    named = [Path(sys.executable), Path(weir.__file__), *map(Path, sys.path)]
    for path in named:
        if path.is_absolute() and os.access(path, os.F_OK, effective_ids=True):
            yield path
            yield path.resolve()

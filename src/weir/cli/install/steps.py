"""Steps of an installation: each has a description, a check if it is done, and an action.

A dry run prints exactly the steps of a real one, and a second run changes nothing.
"""

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from weir.cli.install.host import Host, InstallFailed

_KEPT_PARENTS = {
    Path("/"),
    Path("/etc"),
    Path("/usr/local"),
    Path("/usr/local/bin"),
    Path("/usr/local/share"),
}
"""Directories that aren't removed with their content, even if they are empty."""


@dataclass(frozen=True, slots=True)
class Step:
    """Change of a host. `do` raises InstallFailed or an OSError if it can't be made."""

    sentence: str  # in the imperative
    is_done: Callable[[Host], bool]
    do: Callable[[Host], object]

    def __str__(self) -> str:
        return self.sentence


def make_group(name: str) -> Step:
    """Make a Unix group of the system."""
    return Step(
        f"Make the group {name}.",
        lambda host: host.has_group(name),
        lambda host: host.run("groupadd", "--system", name),
    )


def make_server_user(name: str, home: Path) -> Step:
    """Make the user that runs the server, with a group of the same name and without a shell."""

    def do(host: Host) -> None:
        group = ("--gid", name) if host.has_group(name) else ("--user-group",)
        place = ("--home-dir", str(home), "--no-create-home", "--shell", "/usr/sbin/nologin")
        host.run("useradd", "--system", *group, *place, "--comment", "Weir GPU pool", name)

    sentence = f"Make the system user {name}, which runs the server."
    return Step(sentence, lambda host: host.user_id(name) is not None, do)


def add_member(user: str, group: str) -> Step:
    """Put a user into a group."""
    return Step(
        f"Put {user} into the group {group}.",
        lambda host: host.is_member(user, group),
        lambda host: host.run("usermod", "--append", "--groups", group, user),
    )


def make_directory(path: Path) -> Step:
    """Make a directory that root owns, and its parents; an existing directory keeps its mode."""

    def do(host: Host) -> None:
        place = host.path(path)
        place.mkdir(parents=True)
        place.chmod(0o755)

    return Step(f"Make the directory {path}.", lambda host: host.path(path).is_dir(), do)


def write_file(path: Path, text: str, holds: str) -> Step:
    """Write a file of root's that everyone can read and only root can change."""

    def is_done(host: Host) -> bool:
        place = host.path(path)
        try:
            status = place.lstat()
            return (
                stat.S_ISREG(status.st_mode)
                and stat.S_IMODE(status.st_mode) == 0o644
                and status.st_uid == os.geteuid()
                and place.read_text("utf-8") == text
            )
        except (OSError, ValueError):
            return False

    def do(host: Host) -> None:
        """Write the file under another name and rename it, so that no reader sees half of it."""
        place = host.path(path)
        beside = _beside(place)
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as written:
            written.write(text)
            os.fchmod(written.fileno(), 0o644)
            os.fsync(written.fileno())
        beside.replace(place)

    return Step(f"Write {path} ({holds}).", is_done, do)


def make_link(path: Path, target: Path) -> Step:
    """Put the program where everyone's shell finds it. Another program of that name stays."""

    def is_done(host: Host) -> bool:
        place = host.path(path)
        return place.is_symlink() and place.readlink() == target

    def do(host: Host) -> None:
        place = host.path(path)
        if place.exists() and not place.is_symlink():
            raise InstallFailed(f"{path} is another program: move it away")
        beside = _beside(place)
        beside.symlink_to(target)
        beside.replace(place)

    return Step(f"Link {path} to {target}.", is_done, do)


def _beside(place: Path) -> Path:
    """Return a free name in the directory of a file; create the directory if needed."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name}.new")
    with suppress(FileNotFoundError):
        beside.unlink()
    return beside


def enable_unit(unit: str) -> Step:
    """Let systemd start a unit with the machine."""
    return Step(
        f"Let systemd start {unit} with the machine.",
        lambda host: host.succeeds("systemctl", "is-enabled", "--quiet", unit),
        lambda host: host.run("systemctl", "enable", "--quiet", unit),
    )


def stop_unit(unit: str) -> Step:
    """Stop and disable a unit."""
    asked = ("is-active", "is-enabled")
    return Step(
        f"Stop {unit}.",
        lambda host: not any(host.succeeds("systemctl", verb, "--quiet", unit) for verb in asked),
        lambda host: host.run("systemctl", "disable", "--now", "--quiet", unit),
    )


def remove_file(path: Path) -> Step:
    """Remove a file or a link, and the directories that are empty without it."""

    def do(host: Host) -> None:
        host.path(path).unlink()
        with suppress(OSError):
            for above in path.parents:
                if above in _KEPT_PARENTS:
                    break
                host.path(above).rmdir()

    return Step(f"Remove {path}.", lambda host: not os.path.lexists(host.path(path)), do)


def remove_tree(path: Path, holds: str) -> Step:
    """Delete a directory with all that it contains, without following links."""
    return Step(
        f"Delete {path} ({holds}).",
        lambda host: not os.path.lexists(host.path(path)),
        lambda host: shutil.rmtree(host.path(path)),
    )


def remove_user(name: str) -> Step:
    """Remove a user that the installation made, and its group."""
    return Step(
        f"Remove the user {name}.",
        lambda host: host.user_id(name) is None,
        lambda host: host.run("userdel", name),
    )


def remove_group(name: str) -> Step:
    """Remove a group that the installation made."""
    return Step(
        f"Remove the group {name}.",
        lambda host: not host.has_group(name),
        lambda host: host.run("groupdel", name),
    )

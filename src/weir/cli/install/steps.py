"""Steps of an installation: each says what it does, knows if it is done, and can be done and undone.

A step is a plain value: a dry run prints exactly what would be done, and a second run changes nothing.
"""

import os
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from weir.cli.install.host import Host, InstallFailed

_KEPT_PARENTS = {
    Path("/"),
    Path("/etc"),
    Path("/usr/local"),
    Path("/usr/local/bin"),
    Path("/usr/local/share"),
}
"""Directories that aren't removed with what was put into them, even if they are empty."""


class Step(Protocol):
    """Change of a host."""

    def __str__(self) -> str:
        """Return the sentence of the step, in the imperative."""
        ...

    def is_done(self, host: Host) -> bool:
        """Return True if there is nothing to do."""
        ...

    def do(self, host: Host) -> None:
        """Do it.

        Raises:
            InstallFailed: it can't be done.
            OSError: a file can't be changed.
        """
        ...


@dataclass(frozen=True, slots=True)
class MakeGroup:
    """Make a Unix group of the system."""

    name: str

    def __str__(self) -> str:
        return f"Make the group {self.name}."

    def is_done(self, host: Host) -> bool:
        """Return True if it exists."""
        return host.has_group(self.name)

    def do(self, host: Host) -> None:
        """Make it."""
        host.run("groupadd", "--system", self.name)


@dataclass(frozen=True, slots=True)
class MakeServerUser:
    """Make the user that runs the server, with a group of the same name and without a shell."""

    name: str
    home: Path

    def __str__(self) -> str:
        return f"Make the system user {self.name}, which runs the server."

    def is_done(self, host: Host) -> bool:
        """Return True if it exists."""
        return host.user_id(self.name) is not None

    def do(self, host: Host) -> None:
        """Make it."""
        group = ("--gid", self.name) if host.has_group(self.name) else ("--user-group",)
        home = ("--home-dir", str(self.home), "--no-create-home", "--shell", "/usr/sbin/nologin")
        comment = ("--comment", "Weir GPU pool")
        host.run("useradd", "--system", *group, *home, *comment, self.name)


@dataclass(frozen=True, slots=True)
class AddMember:
    """Put a user into a group."""

    user: str
    group: str

    def __str__(self) -> str:
        return f"Put {self.user} into the group {self.group}."

    def is_done(self, host: Host) -> bool:
        """Return True if the group lists the user."""
        return host.is_member(self.user, self.group)

    def do(self, host: Host) -> None:
        """Add the user."""
        host.run("usermod", "--append", "--groups", self.group, self.user)


@dataclass(frozen=True, slots=True)
class MakeDirectory:
    """Make a directory of root's."""

    path: Path
    mode: int = 0o755

    def __str__(self) -> str:
        return f"Make the directory {self.path}."

    def is_done(self, host: Host) -> bool:
        """Return True if there is a directory, whatever its mode is."""
        return host.path(self.path).is_dir()

    def do(self, host: Host) -> None:
        """Make it, with the directories above it."""
        place = host.path(self.path)
        place.mkdir(parents=True)
        place.chmod(self.mode)


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write a file of root's that everyone can read."""

    path: Path
    text: str
    holds: str

    def __str__(self) -> str:
        return f"Write {self.path} ({self.holds})."

    def is_done(self, host: Host) -> bool:
        """Return True if the file has this text and can't be changed by others."""
        place = host.path(self.path)
        try:
            status = place.lstat()
            return (
                stat.S_ISREG(status.st_mode)
                and stat.S_IMODE(status.st_mode) == 0o644
                and status.st_uid == os.geteuid()
                and place.read_text("utf-8") == self.text
            )
        except (OSError, ValueError):
            return False

    def do(self, host: Host) -> None:
        """Write the file under another name and rename it, so that no reader sees half of it."""
        place = host.path(self.path)
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f".{place.name}.new")
        with suppress(FileNotFoundError):
            beside.unlink()
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as written:
            written.write(self.text)
            os.fchmod(written.fileno(), 0o644)
            os.fsync(written.fileno())
        beside.replace(place)


@dataclass(frozen=True, slots=True)
class MakeLink:
    """Put the program where everyone's shell finds it. Another program of that name stays."""

    path: Path
    target: Path

    def __str__(self) -> str:
        return f"Link {self.path} to {self.target}."

    def is_done(self, host: Host) -> bool:
        """Return True if the link is there."""
        place = host.path(self.path)
        return place.is_symlink() and place.readlink() == self.target

    def do(self, host: Host) -> None:
        """Make the link, in place of an older one.

        Raises:
            InstallFailed: a file has its name.
        """
        place = host.path(self.path)
        if place.exists() and not place.is_symlink():
            raise InstallFailed(f"{self.path} is another program: move it away")
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f".{place.name}.new")
        with suppress(FileNotFoundError):
            beside.unlink()
        beside.symlink_to(self.target)
        beside.replace(place)


@dataclass(frozen=True, slots=True)
class EnableUnit:
    """Let systemd start a unit with the machine."""

    unit: str

    def __str__(self) -> str:
        return f"Let systemd start {self.unit} with the machine."

    def is_done(self, host: Host) -> bool:
        """Return True if it is enabled."""
        return host.succeeds("systemctl", "is-enabled", "--quiet", self.unit)

    def do(self, host: Host) -> None:
        """Enable it."""
        host.run("systemctl", "enable", "--quiet", self.unit)


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """Remove a file or a link, and the directories that are empty without it."""

    path: Path

    def __str__(self) -> str:
        return f"Remove {self.path}."

    def is_done(self, host: Host) -> bool:
        """Return True if there is none."""
        place = host.path(self.path)
        return not place.is_symlink() and not place.exists()

    def do(self, host: Host) -> None:
        """Remove it."""
        host.path(self.path).unlink()
        with suppress(OSError):
            for above in self.path.parents:
                if above in _KEPT_PARENTS:
                    break
                host.path(above).rmdir()


@dataclass(frozen=True, slots=True)
class RemoveTree:
    """Delete a directory with all that it contains."""

    path: Path
    holds: str

    def __str__(self) -> str:
        return f"Delete {self.path} ({self.holds})."

    def is_done(self, host: Host) -> bool:
        """Return True if there is none."""
        return not os.path.lexists(host.path(self.path))

    def do(self, host: Host) -> None:
        """Delete it, without following links."""
        shutil.rmtree(host.path(self.path))


@dataclass(frozen=True, slots=True)
class StopUnit:
    """Stop a unit, and let systemd start it no more."""

    unit: str

    def __str__(self) -> str:
        return f"Stop {self.unit}."

    def is_done(self, host: Host) -> bool:
        """Return True if the service neither runs nor starts with the machine."""
        asked = ("is-active", "is-enabled")
        return not any(host.succeeds("systemctl", each, "--quiet", self.unit) for each in asked)

    def do(self, host: Host) -> None:
        """Stop it."""
        host.run("systemctl", "disable", "--now", "--quiet", self.unit)


@dataclass(frozen=True, slots=True)
class RemoveUser:
    """Remove a user that the installation made, and its group."""

    name: str

    def __str__(self) -> str:
        return f"Remove the user {self.name}."

    def is_done(self, host: Host) -> bool:
        """Return True if there is none."""
        return host.user_id(self.name) is None

    def do(self, host: Host) -> None:
        """Remove it; its files are gone."""
        host.run("userdel", self.name)


@dataclass(frozen=True, slots=True)
class RemoveGroup:
    """Remove a group that the installation made."""

    name: str

    def __str__(self) -> str:
        return f"Remove the group {self.name}."

    def is_done(self, host: Host) -> bool:
        """Return True if there is none."""
        return not host.has_group(self.name)

    def do(self, host: Host) -> None:
        """Remove it."""
        host.run("groupdel", self.name)

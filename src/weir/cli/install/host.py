"""Host of an installation: its files below a root directory, its accounts, and programs that change them."""

import grp
import pwd
import subprocess
from collections.abc import Sequence
from pathlib import Path

_COMMAND_S_MAX = 120.0


class InstallFailed(Exception):
    """A step can't be done; the text has the cause and the remedy."""


class Host:
    """This machine. Tests replace the root directory, the accounts and the programs."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def path(self, path: Path) -> Path:
        """Return the place of an absolute path below the root directory."""
        return self._root / path.relative_to("/")

    def user_id(self, name: str) -> int | None:
        """Return the id of a user; None for an unknown user."""
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            return None

    def has_group(self, name: str) -> bool:
        """Return True if a group exists."""
        return self._group(name) is not None

    def is_member(self, user: str, group: str) -> bool:
        """Return True if a group lists a user."""
        record = self._group(group)
        return record is not None and user in record.gr_mem

    def systemd_version(self) -> int | None:
        """Return the version of the systemd that runs this machine; None if another program does."""
        if not self.path(Path("/run/systemd/system")).is_dir():
            return None
        try:
            words = self.run("systemctl", "--version").split()
        except InstallFailed:
            return None
        return next((int(word) for word in words if word.isdigit()), None)

    def run(self, *command: str) -> str:
        """Run a program and return its output.

        Raises:
            InstallFailed: the program isn't installed, or it failed.
        """
        done = self._run(command)
        if done.returncode != 0:
            words = " ".join((done.stderr or done.stdout).split())[-500:]
            raise InstallFailed(
                f"`{' '.join(command)}` failed with {done.returncode}: {words or 'no message'}"
            )
        return done.stdout

    def succeeds(self, *command: str) -> bool:
        """Return True if a query program exits with 0."""
        return self._run(command).returncode == 0

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(  # noqa: S603 - fixed programs, with checked names
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_COMMAND_S_MAX,
                check=False,
            )
        except FileNotFoundError:
            raise InstallFailed(f"{command[0]} is missing: install the package that has it") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InstallFailed(f"`{' '.join(command)}` can't be run: {error}") from None

    def _group(self, name: str) -> grp.struct_group | None:
        try:
            return grp.getgrnam(name)
        except KeyError:
            return None

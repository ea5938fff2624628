"""Home of an installed pool: the checks before root takes a directory over, and before root deletes it."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from weir.cli.install.host import Host, InstallFailed

_DATABASE, _DIRECTORIES = "weir.db", frozenset({"checkpoints", "jobs", "pods"})
"""Names that show that a directory is the home of a pool. A kubelet has `pods`, too."""
_OF_A_DISK = "lost+found"


def check_new_home(home: Path, host: Host) -> None:
    """Check that a new home has no files of others.

    Raises:
        InstallFailed: the directory is a link, or has content that isn't a pool's.
    """
    place = host.path(home)
    if place.is_symlink():
        raise InstallFailed(f"--home: {home} is a link: name the directory itself")
    names: set[str] = set()
    with suppress(FileNotFoundError, PermissionError):  # without rights, only a dry run goes on
        names = {path.name for path in place.iterdir()} - {_OF_A_DISK}
    if names and not _is_home(names):
        other = f"--home: {home} contains files of others, such as {min(names)[:80]!r}"
        raise InstallFailed(f"{other}: name an empty directory, or a new one")


def check_removed_home(home: Path) -> None:
    """Check that a directory to delete is a pool's home.

    Raises:
        InstallFailed: the directory isn't a pool's home, or is a link or a mount.
    """
    if not home.exists():
        return
    if home.is_symlink() or home.is_mount():
        raise InstallFailed(f"{home} is a link or a mount, and only you can delete it")
    if not _is_home({path.name for path in home.iterdir()}):
        raise InstallFailed(f"{home} isn't the home of a pool: delete it yourself")


def _is_home(names: Iterable[str]) -> bool:
    """Return True if a directory with these names is the home of a pool."""
    return (present := {*names}) >= _DIRECTORIES or _DATABASE in present

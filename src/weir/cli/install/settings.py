"""Settings of an installation, and the record of it that a later installation and the removal read."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weir.cli.install.host import Host, InstallFailed

RECORD = Path("/etc/weir/install.json")
CONFIGURATION = RECORD.parent
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_HOME = re.compile(r"(/[A-Za-z0-9._-]+){2,}")
_OF_THE_SYSTEM = (
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib64",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
)
_OF_OTHERS = frozenset(map(Path, ("/var/lib", "/var/log", "/var/cache", "/var/run")))
_RECORD_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class InstallSettings:
    """Settings of an installation.

    Attributes:
        user: the user that runs the server.
        home: directory of the pool's state.
        allow_group: Unix group whose users may run jobs; empty for every user.
        uid_min: least user id of people.
        new_privileges: let jobs gain privileges.
        options: options of `weir up`.
        made_users: users that an installation made, which `--purge` removes.
        made_groups: groups that an installation made.
    """

    user: str = "weir"
    home: Path = Path("/var/lib/weir")
    allow_group: str = ""
    uid_min: int = 1000
    new_privileges: bool = False
    options: tuple[str, ...] = ()
    made_users: tuple[str, ...] = ()
    made_groups: tuple[str, ...] = ()

    def record(self) -> str:
        """Return the text of the record."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(fields, default=str, indent=2) + "\n"


def recorded(host: Host) -> InstallSettings | None:
    """Return the recorded settings of the last installation; None if there was none.

    Raises:
        InstallFailed: the record can't be read.
    """
    path = host.path(RECORD)
    try:
        with path.open("rb") as file:
            record = json.loads(file.read(_RECORD_BYTES_MAX))
        options, users, groups = (
            tuple(map(str, record[name])) for name in ("options", "made_users", "made_groups")
        )
        own = (str(record["user"]), Path(str(record["home"])), str(record["allow_group"]))
        numbers = (int(record["uid_min"]), record["new_privileges"] is True)
        return checked(InstallSettings(*own, *numbers, options, users, groups))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InstallFailed(
            f"{RECORD} can't be read ({error}): delete it, and name all options again"
        ) from None


def chosen(
    before: InstallSettings | None,
    *,
    user: str | None,
    home: Path | None,
    allow_group: str | None,
    uid_min: int | None,
    new_privileges: bool | None,
    options: Sequence[str],
) -> InstallSettings:
    """Return the settings of a command line; settings that it leaves out stay as they were.

    Raises:
        InstallFailed: one isn't valid, or can't be changed later.
    """
    settings = before or InstallSettings()
    for option, now, was in (("--user", user, settings.user), ("--home", home, settings.home)):
        if before is not None and now is not None and now != was:
            raise InstallFailed(
                f"{option} can't change from {was} to {now}: `weir uninstall` removes this installation first"
            )
    return checked(
        replace(
            settings,
            user=user or settings.user,
            home=home or settings.home,
            allow_group=settings.allow_group if allow_group is None else allow_group,
            uid_min=uid_min or settings.uid_min,
            new_privileges=settings.new_privileges if new_privileges is None else new_privileges,
            options=tuple(options) or settings.options,
        )
    )


def checked(settings: InstallSettings) -> InstallSettings:
    """Return settings that are safe in a unit file and in commands.

    Raises:
        InstallFailed: a setting isn't safe.
    """
    for name in (settings.user, *filter(None, (settings.allow_group,))):
        if _NAME.fullmatch(name) is None:
            raise InstallFailed(f"{name[:80]!r} is no name of a user or a group: write one such as weir")
    if settings.user == "root":
        raise InstallFailed("the server can't run as root: name another user with --user")
    home = settings.home
    parts = home.parts
    if _HOME.fullmatch(str(home)) is None or ".." in parts:
        raise InstallFailed(
            f"--home: {str(home)[:200]!r} can't be the home: write an absolute path of letters, digits, "
            "dots and hyphens, such as /var/lib/weir"
        )
    if parts[1] in _OF_THE_SYSTEM or home in _OF_OTHERS:
        raise InstallFailed(f"--home: {home} belongs to the system: name a directory of Weir's own")
    if any("\n" in word or "\0" in word for word in settings.options):
        raise InstallFailed("an option of `weir up` contains a line break")
    return settings

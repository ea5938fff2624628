"""A host whose files are in a directory of the test, and whose accounts and services are in memory."""

from pathlib import Path

from weir.cli.install.host import Host, InstallFailed


class FakeHost(Host):
    """Runs no program: it carries out what the known ones would do."""

    def __init__(self, root: Path, *, systemd: int | None = None) -> None:
        super().__init__(root)
        self.users: dict[str, int] = {"root": 0, "mia": 1000}
        self.groups: dict[str, set[str]] = {}
        self.version = systemd
        self.enabled: set[str] = set()
        self.started_s: dict[str, float] = {}
        self.reload_needed = True
        self.log: list[str] = []
        self.fails = ""

    def user_id(self, name: str) -> int | None:
        return self.users.get(name)

    def has_group(self, name: str) -> bool:
        return name in self.groups

    def is_member(self, user: str, group: str) -> bool:
        return user in self.groups.get(group, ())

    def systemd_version(self) -> int | None:
        return self.version

    def run(self, *command: str) -> str:
        self.log.append(" ".join(command))
        if self.fails and self.fails in self.log[-1]:
            raise InstallFailed("no")
        match command:
            case ("groupadd", *_, name):
                self.groups[name] = set()
            case ("useradd", *_, name):
                self.users[name] = 990
                self.groups.setdefault(name, set())
            case ("usermod", "--append", "--groups", group, user):
                self.groups[group].add(user)
            case ("userdel", name):
                del self.users[name]
                self.groups.pop(name, None)
            case ("groupdel", name):
                del self.groups[name]
            case ("systemctl", *words):
                return self._systemctl(words)
        return ""

    def succeeds(self, *command: str) -> bool:
        asked, unit = command[1], command[-1]
        return unit in (self.enabled if asked == "is-enabled" else self.started_s)

    def _systemctl(self, words: list[str]) -> str:
        match words:
            case ["daemon-reload"]:
                self.reload_needed = False
            case ["enable", *_, unit]:
                self.enabled.add(unit)
            case ["disable", *_, unit]:
                self.enabled.discard(unit)
                self.started_s.pop(unit, None)
            case ["start" | "restart", unit]:
                self.started_s[unit] = self.path(Path("/etc/systemd/system") / unit).stat().st_mtime
            case ["show", "--property=NeedDaemonReload", *_]:
                return "yes" if self.reload_needed else "no"
        return ""


def files_of(host: FakeHost) -> dict[str, str]:
    """Return every file and link of a host, with its content."""
    root = host.path(Path("/"))
    return {
        f"/{found.relative_to(root)}": str(found.readlink()) if found.is_symlink() else found.read_text()
        for found in sorted(root.rglob("*"))
        if found.is_symlink() or found.is_file()
    }

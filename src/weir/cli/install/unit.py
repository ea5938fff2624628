"""Unit of systemd: the text for this machine, and the service that runs by it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from weir.cli.install.host import Host, InstallFailed
from weir.cli.install.steps import RemoveFile, WriteFile

UNIT = "weir.service"
UNIT_FILE = Path("/etc/systemd/system") / UNIT
SUBGROUP_SINCE = 254
"""Version of systemd that starts a service in a group below its own, so that jobs can be limited."""
_LINES = "10"
_SINCE = {"DelegateSubgroup": SUBGROUP_SINCE}
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-=:,+@")


def unit_text(command: Sequence[str], home: Path, version: int, fingerprint: str) -> str:
    """Return the unit for a version of systemd. A line that it doesn't know is left out."""
    shipped = (files("weir.cli.install") / UNIT).read_text("utf-8")
    lines = [line for line in shipped.splitlines() if version >= _SINCE.get(line.partition("=")[0], 0)]
    text = "\n".join(lines) + "\n"
    text = text.replace("@COMMAND@", " ".join(map(unit_word, command))).replace("@HOME@", str(home))
    return text.replace("[Service]\n", f"[Service]\n# Program: {fingerprint}\n", 1)


def unit_word(word: str) -> str:
    """Return a word of a command as a unit file has it, in which nothing of it has another meaning."""
    if word and set(word) <= _PLAIN:
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return '"' + escaped.replace("\t", "\\t") + '"'


@dataclass(frozen=True, slots=True)
class WriteUnit:
    """Write the unit, and let systemd read it."""

    text: str

    def __str__(self) -> str:
        return f"Write {UNIT_FILE} (the service), and let systemd read it."

    def is_done(self, host: Host) -> bool:
        """Return True if the unit is written, and systemd has read it."""
        return self._file.is_done(host) and shown(host, "NeedDaemonReload") == "no"

    def do(self, host: Host) -> None:
        """Write the unit, and have systemd read it."""
        self._file.do(host)
        host.run("systemctl", "daemon-reload")

    @property
    def _file(self) -> WriteFile:
        return WriteFile(UNIT_FILE, self.text, "the service")


@dataclass(frozen=True, slots=True)
class RemoveUnit:
    """Remove the unit, and let systemd forget it."""

    def __str__(self) -> str:
        return f"Remove {UNIT_FILE}, and let systemd forget it."

    def is_done(self, host: Host) -> bool:
        """Return True if there is no unit."""
        return RemoveFile(UNIT_FILE).is_done(host)

    def do(self, host: Host) -> None:
        """Remove the unit."""
        RemoveFile(UNIT_FILE).do(host)
        host.run("systemctl", "daemon-reload")


@dataclass(frozen=True, slots=True)
class RunUnit:
    """Start the service, or start it again because its unit or its program changed."""

    text: str
    running: bool

    def __str__(self) -> str:
        return f"Restart {UNIT}; jobs run on." if self.running else f"Start {UNIT}."

    def is_done(self, host: Host) -> bool:
        """Return True if the service runs by this unit."""
        written = WriteUnit(self.text)
        if not written.is_done(host) or not is_running(host):
            return False
        started_s = _started_s(host)
        return started_s is not None and started_s >= host.path(UNIT_FILE).stat().st_mtime

    def do(self, host: Host) -> None:
        """Start the service."""
        host.run("systemctl", "reset-failed", UNIT)
        host.run("systemctl", "restart" if is_running(host) else "start", UNIT)


def is_running(host: Host) -> bool:
    """Return True if the service runs, or waits to be started again."""
    return host.succeeds("systemctl", "is-active", "--quiet", UNIT)


def has_failed(host: Host) -> bool:
    """Return True if the service has ended by itself, whether it is started again or not."""
    return shown(host, "SubState") in ("failed", "auto-restart", "dead")


def last_lines(host: Host) -> str:
    """Return the last lines of the service's log."""
    try:
        return host.run("journalctl", "--unit", UNIT, "--lines", _LINES, "--output", "cat", "--no-pager")
    except InstallFailed:
        return ""


def shown(host: Host, name: str) -> str:
    """Return a property of the unit that systemd shows."""
    return host.run("systemctl", "show", f"--property={name}", "--value", UNIT).strip()


def _started_s(host: Host) -> float | None:
    """Return the wall-clock time at which the node process was started, by the clock of now."""
    monotonic_us = shown(host, "ExecMainStartTimestampMonotonic")
    if not monotonic_us.isdigit() or monotonic_us == "0":
        return None
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC) + int(monotonic_us) / 1e6

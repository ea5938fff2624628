"""Unit of systemd: the text for this machine, and the service that runs by it."""

import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from weir.cli.install.host import Host, InstallFailed
from weir.cli.install.steps import Step, remove_file, write_file

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
    """Return a word of a command, escaped for a unit file."""
    if word and set(word) <= _PLAIN:
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return '"' + escaped.replace("\t", "\\t") + '"'


def write_unit(text: str) -> Step:
    """Write the unit, and let systemd read it."""
    file = write_file(UNIT_FILE, text, "the service")

    def do(host: Host) -> None:
        file.do(host)
        host.run("systemctl", "daemon-reload")

    return Step(
        f"Write {UNIT_FILE} (the service), and let systemd read it.",
        lambda host: file.is_done(host) and shown(host, "NeedDaemonReload") == "no",
        do,
    )


def remove_unit() -> Step:
    """Remove the unit, and let systemd forget it."""
    file = remove_file(UNIT_FILE)

    def do(host: Host) -> None:
        file.do(host)
        host.run("systemctl", "daemon-reload")

    return Step(f"Remove {UNIT_FILE}, and let systemd forget it.", file.is_done, do)


def run_unit(text: str, *, running: bool) -> Step:
    """Start the service, or start it again because its unit or its program changed."""

    def is_done(host: Host) -> bool:
        if not write_unit(text).is_done(host) or not is_running(host):
            return False
        started_s = _started_s(host)
        return started_s is not None and started_s >= host.path(UNIT_FILE).stat().st_mtime

    def do(host: Host) -> None:
        host.run("systemctl", "reset-failed", UNIT)
        host.run("systemctl", "restart" if is_running(host) else "start", UNIT)

    return Step(f"Restart {UNIT}; jobs run on." if running else f"Start {UNIT}.", is_done, do)


def is_running(host: Host) -> bool:
    """Return True if the service runs, or is about to restart."""
    return host.succeeds("systemctl", "is-active", "--quiet", UNIT)


def has_failed(host: Host) -> bool:
    """Return True if the service ended by itself, with or without a restart to come."""
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
    """Return the wall-clock time at which the node process was started; None if it doesn't run.

    It is computed from the monotonic time of the start, so a clock that was set since doesn't shift it.
    """
    monotonic_us = shown(host, "ExecMainStartTimestampMonotonic")
    if not monotonic_us.isdigit() or monotonic_us == "0":
        return None
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC) + int(monotonic_us) / 1e6

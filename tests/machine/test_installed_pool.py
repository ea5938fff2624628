"""A pool of a machine with systemd, from `weir install` to its removal, as its administrator and users see it."""

import json
import pwd
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 240.0
GROUPS = Path("/sys/fs/cgroup/system.slice")
HOME = Path("/var/lib/weir")


def done(*words: str, user: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command as root, or as a user who logs in."""
    login = ["runuser", "-u", user, "--", "env", f"HOME=/home/{user}"] if user else []
    return subprocess.run(
        [*login, *words], check=False, capture_output=True, text=True, timeout=LIMIT_S, cwd="/"
    )


def said(*words: str, user: str = "") -> str:
    """Run a command that succeeds; return its output."""
    answer = done(*words, user=user)
    assert answer.returncode == 0, answer
    return answer.stdout


def until(true: Callable[[], object], tell: Callable[[], object] = lambda: "") -> None:
    """Wait until something is so."""
    ends_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < ends_s, tell()
        time.sleep(0.3)


def row(name: str) -> dict[str, Any]:
    """Return a workload; empty if the server doesn't answer."""
    answer = done("weir", "describe", name, "--output", "json")
    found: dict[str, Any] = json.loads(answer.stdout) if answer.returncode == 0 else {}
    return found


def is_running(name: str) -> bool:
    return bool(row(name).get("status") == "running")


def processes_of(user: str) -> set[int]:
    """Return the processes of the jobs of a user."""
    return {int(pid) for pid in done("pgrep", "-u", user, "sleep").stdout.split()}


@pytest.fixture(scope="module")
def people() -> tuple[str, str]:
    """Two users of the machine."""
    names = ("alice", "bob")
    for name in names:
        said("useradd", "--create-home", name)
    return names


@pytest.fixture(scope="module")
def installed(weir: Path) -> str:
    """The machine after `weir install`; what it said."""
    return said(f"{weir}/bin/weir", "install", "--", "--virtual-gpus", "4")


def test_installation_starts_a_service_that_everyone_can_use(installed: str, people: tuple[str, str]) -> None:
    assert "Start weir.service." in installed
    assert said("systemctl", "is-active", "weir").strip() == "active"
    assert "Nothing to do" in said("weir", "install")
    assert "0 failed" in said("weir", "doctor")
    said("weir", "submit", "-p", "default", "--gpus", "1", "--name", "who", "--", "id", "-un", user=people[0])
    until(lambda: row("who").get("status") == "succeeded", lambda: row("who"))
    assert said("weir", "logs", "who", user=people[0]).strip() == people[0]


def test_a_job_has_a_group_of_its_own_beside_the_service_with_its_limits(
    installed: str, people: tuple[str, str]
) -> None:
    words = ("weir", "submit", "-p", "default", "--gpus", "1", "--memory", "64Mi", "--cpu", "500m")
    said(*words, "--name", "kept", "--", "sleep", "3600", user=people[0])
    until(lambda: is_running("kept"), lambda: row("kept"))
    (pid,) = processes_of(people[0])
    group = Path(f"/sys/fs/cgroup{Path(f'/proc/{pid}/cgroup').read_text().strip().removeprefix('0::')}")
    assert group.is_relative_to(GROUPS)
    assert not group.is_relative_to(GROUPS / "weir.service")
    assert (group / "memory.max").read_text().strip() == str(64 << 20)
    assert (group / "cpu.weight").read_text().strip() == "50"
    assert (group / "pids.max").read_text().strip().isdigit()
    eats = "x = bytearray(500 << 20)"
    said(*words, "--name", "eater", "--", "python3", "-c", eats, user=people[1])
    until(lambda: row("eater").get("status") == "failed", lambda: row("eater"))
    assert "more memory than its limit" in said("weir", "describe", "eater", user=people[1]).replace(
        "\n", " "
    )
    assert is_running("kept")


def test_jobs_run_on_while_the_service_is_stopped_started_and_killed(
    installed: str, people: tuple[str, str]
) -> None:
    before = processes_of(people[0])
    assert before
    said("systemctl", "stop", "weir")
    assert processes_of(people[0]) == before
    refused = done("weir", "list", user=people[0])
    assert (refused.returncode, "is stopped: ask its administrator" in refused.stderr) == (3, True), refused
    said("systemctl", "start", "weir")
    until(lambda: is_running("kept"))
    said("systemctl", "daemon-reload")
    said("systemctl", "kill", "--signal=KILL", "weir")
    until(lambda: is_running("kept"))
    assert processes_of(people[0]) == before
    assert row("kept")["restarts"] == 0
    journal = said("journalctl", "--unit=weir", "--no-pager")
    assert "Traceback" not in journal, journal


def test_removal_waits_for_jobs_and_not_for_the_server(installed: str, people: tuple[str, str]) -> None:
    refused = done("weir", "uninstall")
    assert (refused.returncode, "(1 job)" in refused.stderr) == (1, True), refused
    said("weir", "stop", "kept", user=people[0])
    until(lambda: not processes_of(people[0]))
    assert f"The state stays in {HOME}" in said("weir", "uninstall")
    assert done("systemctl", "is-active", "weir").returncode != 0
    assert not list(GROUPS.glob("weir-[0-9]*"))
    assert not Path("/run/weir").exists()


def test_a_later_installation_goes_on_and_a_purge_leaves_nothing(
    weir: Path, installed: str, people: tuple[str, str]
) -> None:
    said(f"{weir}/bin/weir", "install")
    assert re.search(r"^who +.*succeeded", said("weir", "list", "--all", user=people[0]), re.MULTILINE)
    said(
        "weir",
        "submit",
        "-p",
        "default",
        "--gpus",
        "1",
        "--name",
        "last",
        "--",
        "sleep",
        "3600",
        user=people[1],
    )
    until(lambda: is_running("last"))
    assert "Stop 1 job." in said("weir", "uninstall", "--purge", "--stop-jobs")
    assert not processes_of(people[1])
    assert not any(path.exists() for path in (HOME, Path("/etc/weir"), Path("/usr/local/bin/weir")))
    with pytest.raises(KeyError):
        pwd.getpwnam("weir")

"""The unit that `weir install` writes, and the control group that it starts the pool in."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from weir.cli.install.unit import unit_text, unit_word
from weir.local import cgroups

COMMAND = (sys.executable, "-I", "-m", "weir", "node", "--user", "weir", "--", "--price", "2.50")
HOME = Path("/var/lib/weir")
KEEPS_JOBS = ("KillMode=process", "OOMPolicy=continue", "TasksMax=infinity", "LimitMEMLOCK=infinity")
DELEGATES = ("Delegate=yes", f"DelegateSubgroup={cgroups._OWN}")
HIDES_GPUS = ("PrivateDevices", "ProtectClock", "DeviceAllow", "DevicePolicy")
CHANGES_WHAT_JOBS_SEE = (
    *("ProtectSystem", "ProtectHome", "PrivateTmp", "ReadOnlyPaths", "TemporaryFileSystem", "PrivateNetwork"),
    *("ProtectControlGroups", "ProtectKernelTunables", "ProtectProc", "PrivateMounts", "PrivateUsers"),
)
STOPS_PROGRAMS = (
    *("NoNewPrivileges", "RestrictSUIDSGID", "RestrictNamespaces", "RestrictAddressFamilies"),
    *("SystemCallFilter", "SystemCallArchitectures", "MemoryDenyWriteExecute", "LockPersonality", "User"),
)
NEEDS = {
    *("CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_FOWNER", "CAP_DAC_OVERRIDE", "CAP_KILL", "CAP_SYS_ADMIN"),
    *("CAP_BPF", "CAP_NET_ADMIN", "CAP_SYS_RESOURCE", "CAP_MKNOD", "CAP_SYS_MODULE"),
}


def settings(version: int = 255) -> list[str]:
    """Return the lines of the unit that set something."""
    lines = unit_text(COMMAND, HOME, version, "0123").splitlines()
    return [line for line in lines if line and line[0] not in "#["]


def test_unit_keeps_jobs_and_changes_nothing_of_what_they_see() -> None:
    unit = settings()
    assert set(KEEPS_JOBS) | set(DELEGATES) <= set(unit)
    names = {line.partition("=")[0] for line in unit}
    assert not names & {*HIDES_GPUS, *CHANGES_WHAT_JOBS_SEE, *STOPS_PROGRAMS}


def test_unit_keeps_the_capabilities_that_starting_as_a_user_needs() -> None:
    bounding = [line.partition("=")[2] for line in settings() if line.startswith("CapabilityBoundingSet=")]
    assert all(line.startswith("~") for line in bounding)
    assert not {word for line in bounding for word in line[1:].split()} & NEEDS


def test_unit_of_an_older_systemd_has_no_line_that_it_does_not_know() -> None:
    assert set(settings()) - set(settings(253)) == {f"DelegateSubgroup={cgroups._OWN}"}


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("--price", "--price"),
        ("", '""'),
        ("a b", '"a b"'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("';'", "\"';'\""),
        (";", '";"'),
    ],
)
def test_words_of_a_command_have_no_meaning_to_systemd(word: str, written: str) -> None:
    assert unit_word(word) == written


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "weir.service"
    odd = (*COMMAND, "--currency", "100% $USD 'x' \\")
    known = int(subprocess.check_output(["systemd-analyze", "--version"], text=True).split()[1])
    unit.write_text(unit_text(odd, HOME, known, "0123").replace("/usr/bin/nvidia-modprobe", "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=120, check=False
    )
    answer = [line for line in checked.stderr.splitlines() if str(unit) in line]
    assert (checked.returncode, answer) == (0, []), checked.stdout + checked.stderr


class OwnGroup:
    """Files of a version 2 group in which this process is alone."""

    def __init__(self, path: str) -> None:
        self.group = f"/sys/fs/cgroup{path}"
        self.files = {
            "/proc/self/mountinfo": "24 1 0:21 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "/proc/self/cgroup": f"0::{path}\n",
            f"{self.group}/cgroup.procs": f"{os.getpid()}\n",
        }
        self.divided: list[str] = []

    def use(self, monkeypatch: pytest.MonkeyPatch, *, busy: bool) -> None:
        """Let the module see the group. A `busy` one can't hand down controllers."""

        def try_to_set(path: str, _value: str) -> bool:
            if path.endswith("subtree_control") and busy and not self.divided:
                return False
            self.divided.append(path)
            return True

        monkeypatch.setattr(cgroups, "text_of", lambda path: self.files.get(path, self.answer(path)))
        monkeypatch.setattr(cgroups, "_try_to_set", try_to_set)
        monkeypatch.setattr(os, "mkdir", lambda path, *_: self.divided.append(path))

    @staticmethod
    def answer(path: str) -> str:
        """Return the content of the other files."""
        return "cpu memory pids" if path.endswith("cgroup.controllers") else ""


def test_pool_in_the_group_of_the_unit_divides_the_group_above(monkeypatch: pytest.MonkeyPatch) -> None:
    own = OwnGroup(f"/system.slice/weir.service/{cgroups._OWN}")
    own.use(monkeypatch, busy=False)
    assert list(cgroups._own()) == [([""], "/sys/fs/cgroup/system.slice/weir.service")]


@pytest.mark.parametrize(("path", "divides"), [("/system.slice/weir.service", False), ("/lxc/box", True)])
def test_only_a_group_that_no_service_is_started_in_is_divided(
    monkeypatch: pytest.MonkeyPatch, path: str, divides: bool
) -> None:
    """systemd could not start a service again whose own group is divided, as long as jobs run in it."""
    own = OwnGroup(path)
    own.use(monkeypatch, busy=True)
    cgroups._handed_down(own.group)
    assert bool(own.divided) == divides


@pytest.mark.parametrize("before", [False, True])
def test_groups_of_pods_lie_beside_a_service_that_must_not_be_divided(
    monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """A pool that has pods below its service from before keeps them there."""
    own = OwnGroup("/system.slice/weir.service")
    own.files["/sys/fs/cgroup/system.slice/cgroup.subtree_control"] = "cpu memory pids\n"
    own.use(monkeypatch, busy=True)
    monkeypatch.setattr(cgroups, "_may_make", lambda *_: True)
    monkeypatch.setattr(os.path, "isdir", lambda path: before and path == f"{own.group}/weir-x")
    found = cgroups.usable_cgroups("weir-x", "supervisors")
    if before:
        assert (found.unified, found.controllers) == (own.group, "")
    else:
        assert (found.unified, found.controllers) == ("/sys/fs/cgroup/system.slice", "memory cpu pids")
    assert not own.divided
    assert cgroups.usable_cgroups("weir-x").unified == own.group, "only root may make groups beside its own"


def test_every_group_above_may_hand_down_memory_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    own = OwnGroup(f"/system.slice/weir.service/{cgroups._OWN}")
    own.use(monkeypatch, busy=False)
    monkeypatch.setattr(cgroups, "_may_make", lambda *_: True)
    cgroups.usable_cgroups("weir-x", "supervisors", gpu_memory=True)
    asked = [path.removesuffix("/cgroup.subtree_control") for path in own.divided]
    assert asked[:4] == ["/sys", "/sys/fs", "/sys/fs/cgroup", "/sys/fs/cgroup/system.slice"]
    assert asked[4] == "/sys/fs/cgroup/system.slice/weir.service", "as for every other controller"


BESIDE = """
import os, sys
from weir.local import cgroups
base = sys.argv[1]
cgroups._WANTED = ("hugetlb", "cpu", "pids")  # what this machine leaves to version 2
cgroups._own = lambda: iter([([""], base + "/x.service")])
found = cgroups.usable_cgroups("weir-x", "supervisors")
assert (found.unified, found.controllers) == (base, "hugetlb"), found
found.make_supervisors()
pod = cgroups.Cgroup(found.path(base, "1/1-0-0"), {}, "+hugetlb")
assert pod.make() and cgroups.Cgroup(base + "/weir-x/supervisors", {}, "").join()
if os.fork() == 0:
    assert pod.join()
    os.write(1, b"ready")
    os.read(0, 1)
    os._exit(0)
os.wait()
"""


def test_a_service_starts_again_while_limited_pods_run_beside_it() -> None:
    """The kernel takes a process into the group of the service, as systemd puts it there at a restart."""
    root = Path("/sys/fs/cgroup/unified")
    try:
        offered = (root / "cgroup.controllers").read_text().split()
    except OSError:
        offered = []
    if os.getuid() != 0 or "hugetlb" not in offered:
        pytest.skip("this machine leaves no controller to version 2 beside version 1")
    base = root / f"weir-t-{os.getpid()}"
    before = (root / "cgroup.subtree_control").read_text()
    (root / "cgroup.subtree_control").write_text("+hugetlb")
    try:
        (base / "x.service").mkdir(parents=True)
        (base / "cgroup.subtree_control").write_text("+hugetlb")
        join = f'echo $$ > {base}/x.service/cgroup.procs && exec "$@"'
        with subprocess.Popen(
            ["sh", "-c", join, "sh", sys.executable, "-c", BESIDE, str(base)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as node:
            assert node.stdout is not None
            assert node.stdout.read(5) == b"ready"
            assert (base / "weir-x" / "1.1-0-0" / "hugetlb.2MB.max").exists(), "the pod can be limited"
            assert subprocess.run(["sh", "-c", join, "sh", "true"], check=False).returncode == 0
            node.communicate(b"end")
        assert node.returncode == 0
    finally:
        for group in ("weir-x/1.1-0-0", "weir-x/supervisors", "weir-x", "x.service", "."):
            if (base / group).is_dir():
                (base / group).rmdir()
        if "hugetlb" not in before:
            (root / "cgroup.subtree_control").write_text("-hugetlb")

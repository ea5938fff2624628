"""The systemd unit that is shipped, and the control group that it starts the pool in."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from weir.local import cgroups

UNITS = Path(__file__).parents[3] / "deploy" / "systemd"
PROGRAM = "/opt/weir/bin/weir"
KEEPS_JOBS = ("KillMode=process", "OOMPolicy=continue", "RemoveIPC=no", "PrivateTmp=no")
HIDES_GPUS = ("PrivateDevices", "ProtectClock", "DeviceAllow", "DevicePolicy")


def settings(name: str) -> list[str]:
    """Return the lines of a unit that set something."""
    lines = (UNITS / name).read_text("utf-8").splitlines()
    return [line for line in lines if line and line[0] not in "#["]


def test_unit_keeps_jobs_and_shows_gpus() -> None:
    unit = settings("weir.service")
    assert set(KEEPS_JOBS) <= set(unit)
    assert not [line for line in unit if line.split("=")[0] in HIDES_GPUS]
    assert f"ExecStart={PROGRAM} up --shared-account weir --log-format json" in unit


def test_drop_in_starts_the_pool_in_its_own_group() -> None:
    assert f"DelegateSubgroup={cgroups._OWN}" in settings("limits.conf")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize(
    "check", [("verify",), ("security", "--offline=true", "--threshold=35", "--no-pager")]
)
def test_systemd_accepts_the_unit(check: tuple[str, ...], tmp_path: Path) -> None:
    unit = tmp_path / "weir.service"
    unit.write_text((UNITS / "weir.service").read_text("utf-8").replace(PROGRAM, sys.executable))
    checked = subprocess.run(
        ["systemd-analyze", *check, str(unit)], capture_output=True, text=True, timeout=120, check=False
    )
    answer = [line for line in checked.stderr.splitlines() if str(unit) in line]
    assert (checked.returncode, answer) == (0, []), checked.stdout + checked.stderr


def test_pool_in_the_group_of_the_drop_in_divides_the_group_above(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/self/mountinfo": "24 1 0:21 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "/proc/self/cgroup": f"0::/system.slice/weir.service/{cgroups._OWN}\n",
    }
    monkeypatch.setattr(cgroups, "_text", files.__getitem__)
    assert list(cgroups._own()) == [([""], "/sys/fs/cgroup/system.slice/weir.service")]

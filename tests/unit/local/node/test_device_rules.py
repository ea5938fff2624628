"""Rules for device files, enforced by this machine's kernel where it lets this process set them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.local.node.device_rules import DeviceRules, deny

OPENS = "import os, sys\nfor path in sys.argv[1:]:\n    os.close(os.open(path, os.O_RDONLY))\n"
HIERARCHIES = {
    "v1": ("/sys/fs/cgroup/devices", False),
    "v2 beside v1": ("/sys/fs/cgroup/unified", True),
    "v2": ("/sys/fs/cgroup", True),
}


@pytest.fixture(params=HIERARCHIES)
def group(request: pytest.FixtureRequest) -> Iterator[tuple[str, bool]]:
    """A control group of a hierarchy that can hold devices apart."""
    base, unified = HIERARCHIES[request.param]
    marker = "cgroup.controllers" if unified else "devices.deny"
    if not Path(base, marker).exists() or not os.access(base, os.W_OK):
        pytest.skip(f"this process can't make groups in {base}")
    path = Path(base, f"weir-test-{os.getpid()}")
    try:
        path.mkdir()
    except OSError as failure:
        pytest.skip(f"no group can be made in {base}: {failure.strerror}")
    yield str(path), unified
    path.rmdir()


def opens(group: str, path: str) -> bool:
    """Return True if a process of the group can open a device."""
    join = f"echo $$ > {group}/cgroup.procs && exec {sys.executable} -S -c '{OPENS}' {path}"
    done = subprocess.run(["sh", "-c", join], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "Operation not permitted" in done.stderr, done.stderr
    return done.returncode == 0


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Files of three devices that every machine has."""
    made = []
    for at, minor in enumerate((7, 8, 9)):  # full, random, urandom
        path = tmp_path / f"gpu{at}"
        try:
            os.mknod(path, 0o020666, os.makedev(1, minor))
        except OSError:
            pytest.skip("this process can't make device files")
        made.append(str(path))
    return made


def test_a_group_opens_its_own_devices_alone(group: tuple[str, bool], files: list[str]) -> None:
    path, unified = group
    rules = DeviceRules([[each] for each in files])
    assert all(opens(path, each) for each in files)
    deny(path, rules.denied([1]), unified=unified)
    assert [opens(path, each) for each in files] == [False, True, False]
    assert opens(path, "/dev/null")


def test_a_device_that_two_gpus_share_is_open_to_both(files: list[str]) -> None:
    shared, first, second = files
    rules = DeviceRules([[shared, first], [shared, second]])
    assert rules.denied([0]) == [(1, 9)]
    assert rules.denied([]) == [(1, 7), (1, 8), (1, 9)]
    assert rules.denied([0, 1]) == []


def test_a_gpu_without_a_file_denies_nothing(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    assert DeviceRules([[str(tmp_path / "missing")], [str(plain)]]).denied([]) == []

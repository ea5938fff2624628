"""Mounts of a pod's own, which close device files; the kernel keeps them closed."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.local.cgroups import Cgroups
from weir.local.node.device_rules import MOUNTS, DeviceRules
from weir.local.node.own_mounts import can_close_devices, close_devices

PROGRAM = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
closed, opened, way = sys.argv[1:]
if way != "as it is":
    made = libc.unshare(0x10000000 | 0x00020000)  # namespaces of users and mounts, with every right in them
    print("namespaces" if made == 0 else "no namespaces")
if way == "unmount":
    libc.umount2(closed.encode(), 0), libc.umount2(closed.encode(), 2)
if way == "remount":
    libc.mount(None, closed.encode(), None, ctypes.c_ulong(32 | 4096), None)
if way == "mount the directory elsewhere":
    elsewhere = os.path.dirname(closed) + "/own"
    if libc.mount(os.path.dirname(closed).encode(), elsewhere.encode(), None, ctypes.c_ulong(4096), None) == 0:
        closed = elsewhere + "/" + os.path.basename(closed)
if way == "mount the file elsewhere":
    file = os.path.dirname(closed) + "/own/file"
    open(file, "w").close()
    if libc.mount(closed.encode(), file.encode(), None, ctypes.c_ulong(4096), None) == 0:
        libc.mount(None, file.encode(), None, ctypes.c_ulong(32 | 4096), None)
        closed = file
os.close(os.open(opened, os.O_RDONLY))
try:
    os.open(closed, os.O_RDONLY)
    print("opened")
except PermissionError:
    print("refused")
"""


@pytest.fixture
def files() -> Iterator[list[str]]:
    """Device files of GPUs that this machine doesn't have, which every user can reach."""
    if os.getuid() != 0 or not can_close_devices():
        pytest.skip("this process can't make mounts of its own")
    with tempfile.TemporaryDirectory(prefix="weir-t-", dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        made = [Path(place) / f"gpu{at}" for at in range(2)]
        for path, minor in zip(made, (7, 8), strict=True):  # full, random
            os.mknod(path, 0o020666, os.makedev(1, minor))
            path.chmod(0o666)
        (Path(place) / "own").mkdir()
        os.chown(Path(place) / "own", 65_534, 65_534)
        yield [str(path) for path in made]


@pytest.mark.parametrize(
    "way",
    ["as it is", "unmount", "remount", "mount the directory elsewhere", "mount the file elsewhere"],
)
def test_a_closed_device_stays_closed_for_a_user(files: list[str], way: str) -> None:
    closed, opened = files

    def enter() -> None:
        close_devices([closed])
        os.setgroups([])
        os.setresgid(65_534, 65_534, 65_534)
        os.setresuid(65_534, 65_534, 65_534)

    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", PROGRAM, closed, opened, way],
        preexec_fn=enter,
        capture_output=True,
        text=True,
        check=False,
    )
    *namespaces, outcome = done.stdout.split("\n")[:-1]
    assert outcome == "refused", done.stdout + done.stderr
    if namespaces == ["no namespaces"]:
        pytest.skip("users can't make namespaces here")
    os.close(os.open(closed, os.O_RDONLY))  # this process has its mounts as before


def test_mounts_close_devices_where_no_control_group_can(files: list[str]) -> None:
    rules = DeviceRules([[each] for each in files])
    assert rules.means(Cgroups("weir-x", pids="/sys/fs/cgroup/pids")) == MOUNTS
    assert rules.files(rules.denied([0])) == [files[1]]
    assert rules.files(rules.denied([0, 1])) == []
    assert DeviceRules(()).means(Cgroups("weir-x")) == ""


def test_files_of_links_are_closed_where_they_lead_and_shared_ones_stay(
    files: list[str], tmp_path: Path
) -> None:
    link = tmp_path / "by-path"
    link.symlink_to(files[1])
    rules = DeviceRules([[files[0]], [str(link)]])
    assert rules.files(rules.denied([0])) == [files[1]]
    shared = DeviceRules([[files[0]], [files[0], files[1]]])
    assert shared.files(shared.denied([1])) == []

"""A job in a directory that doesn't answer can be stopped, and other jobs run."""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.local.harness import Rig

from weir.control.port import PodExit
from weir.model.workloads import Request


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Path]:
    """A file system without a program that answers for it, where this user may mount one."""
    path = tmp_path / "hanging"
    path.mkdir()
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        pytest.skip("no file system in user space can be mounted here")
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"hanging", str(path).encode(), b"fuse", 0, options.encode()) != 0:
        os.close(device)
        pytest.skip("no file system in user space can be mounted here")
    try:
        yield path
    finally:
        os.close(device)  # waiting processes get an error
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_a_job_in_a_hanging_directory_says_so_and_is_stopped_at_once(rig: Rig, hanging: Path) -> None:
    pod = rig.run("sleep", "600", name="waits", directory=str(hanging))
    other = rig.run("true", name="other", request=Request(memory=0))
    assert rig.exit(other).how is PodExit.DONE
    assert str(hanging) in rig.says(pod, "doesn't answer yet")
    rig.stop(pod, grace_s=3600.0)
    assert rig.exit(pod).how is PodExit.STOPPED

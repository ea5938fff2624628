"""A server starts on a full disk, knows the running jobs, and can stop the one that fills the disk."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.unit.local.harness import until
from tests.unit.local.server.server_process import Serving, serving

from weir.local.files.disk_reserve import FILE

FILLS = 'trap "" TERM; while :; do cat /dev/zero 2>/dev/null; done'


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MiB, where this user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "weir", str(place)]
    if mount is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a file system can't be mounted here")
    try:
        yield place
    finally:
        subprocess.run([unmount or "umount", "-l", str(place)], check=True)


def fill(place: Path) -> None:
    with (place / "fill").open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert free(place) == 0


def free(place: Path) -> int:
    return os.statvfs(place).f_bavail


def test_a_killed_server_starts_again_beside_the_job_that_fills_its_disk(small_disk: Path) -> None:
    home = small_disk / "home"
    with serving(home, gpus=1) as server:
        server.submit("sh", "-c", FILLS, name="filler", grace=0.5, pods=[{"gpus": 1}])
        server.until("filler", "running")
        until(lambda: free(small_disk) == 0)
        server.end(signal.SIGKILL)
        server.begin()
        assert server.get("/api/v1/workloads/filler")["status"] == "running"
        assert "full" in server.get("/api/v1/workloads")["trouble"]
        assert server.ask("POST", "/api/v1/workloads/filler/stop")[0] == 200
        next(small_disk.glob("home/jobs/*/*/log")).unlink()
        server.until("filler", "stopped")
        until(lambda: _succeeds(server))


def _succeeds(server: Serving) -> bool:
    """Return True if a job can be queued, and ends."""
    pods = [{"gpus": 1, "cpu": "100m", "memory": "16Mi"}]
    body = {"project": "default", "command": ["true"], "name": "next", "pods": pods}
    status, _ = server.ask("POST", "/api/v1/workloads", body)
    return status == 201 and server.until("next", "succeeded") is not None


def test_a_stopped_server_starts_again_with_a_part_of_its_reserve(small_disk: Path) -> None:
    home = small_disk / "home"
    with serving(home, gpus=1) as server:
        server.submit("sleep", "600", name="job")
        server.until("job", "running")
        server.end()
        size = (home / FILE).stat().st_size
        fill(small_disk)
        server.begin()
        assert server.get("/api/v1/workloads/job")["status"] == "running"
        assert 0 < (home / FILE).stat().st_size < size
        (small_disk / "fill").unlink()


def test_a_server_without_reserve_names_the_full_file_system_and_starts_once_it_has_space(
    small_disk: Path,
) -> None:
    home = small_disk / "home"
    fill(small_disk)
    code = "import sys; from weir.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "up", "--virtual-gpus", "1", "--port", "0"]
    environment = {**os.environ, "WEIR_HOME": str(home)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 1
    named = rf"weir: Can't start: the file system at {small_disk}, which holds {home}, is full: free [0-9.]+[MK]i "
    assert re.fullmatch(named + r"or more. Running jobs continue meanwhile.\n", ended.stderr), ended.stderr
    (small_disk / "fill").unlink()
    with serving(home, gpus=1) as server:
        assert server.submit("true", name="next")

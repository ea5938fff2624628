"""A job that fills the disk can be stopped, people are told, and nothing is lost over it."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.local.server.in_process_server import Standing, reconnect, standing

from weir.local.files import disk_reserve
from weir.store.errors import StoreFailed

FILLS = {
    "and waits": "cat /dev/zero; exec sleep 600",
    "as fast as it can, deaf to notices": 'trap "" TERM; while :; do cat /dev/zero 2>/dev/null; done',
}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MiB, where this user may mount one: the journal of the database alone takes up to 4."""
    place = tmp_path / "disk"
    place.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "weir", str(place)]
    if mount is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a file system can't be mounted here; the tests below make do without")
    try:
        yield place
    finally:
        subprocess.run([unmount or "umount", "-l", str(place)], check=True)


def free(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def remove_logs(place: Path) -> None:
    for log in place.glob("home/jobs/*/*/log"):
        log.unlink()


async def until_full(place: Path) -> None:
    async with asyncio.timeout(120):
        while free(place) > 0:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("how", FILLS)
async def test_the_job_that_fills_the_disk_is_stopped(small_disk: Path, how: str) -> None:
    async with standing(small_disk / "home", gpus=1) as pool:
        reserve = pool.pool.cancellations.reserve
        assert reserve.is_there
        await pool.submit("sh", "-c", FILLS[how], name="filler", grace=0.5)
        await pool.until("filler", "running")
        await until_full(small_disk)
        refused = await pool.admin.post(
            "/api/v1/workloads",
            json={"project": "default", "command": ["true"] * 2000, "pods": [{"gpus": 1}]},
        )
        assert refused.status_code == 503, refused.text
        assert "full" in (await pool.get("status"))["trouble"]
        assert "full" in (await pool.get("workloads"))["trouble"]
        stopped = await pool.admin.post("/api/v1/workloads/filler/stop")
        assert stopped.status_code == 200, stopped.text
        row = await pool.until("filler", "stopped")
        assert row["reason"]["sentence"] == "filler was stopped by root."
        events = (await pool.get("events", workload="filler"))["items"]
        assert [each["kind"] for each in events].count("ended") == 1
        remove_logs(small_disk)
        assert reserve.restore()
        assert (await pool.get("status"))["allocated"] == 0
        await pool.submit("true", name="next")
        await pool.until("next", "succeeded")
        async with asyncio.timeout(120):  # the server looks at its disk now and then
            while (await pool.get("workloads"))["trouble"] is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("is_full", [True, False])
async def test_a_stop_that_cant_be_written_is_carried_out_and_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """As on a full disk, wherever the tests run: the reserve is given back once the job is gone."""
    async with standing(tmp_path / "home", gpus=1) as pool:
        inner, reserve = pool.pool, pool.pool.cancellations.reserve
        write = inner.store.workloads.cancel
        left_at_release: list[bool] = []

        def cancel(name: str, at_s: float) -> Any:
            if reserve.is_there:
                return _refused(is_full=is_full)
            return write(name, at_s)

        def release() -> bool:
            left_at_release.append(inner.backend.is_quiet("job"))
            return disk_reserve.DiskReserve.release(reserve)

        monkeypatch.setattr(inner.store.workloads, "cancel", cancel)
        monkeypatch.setattr(reserve, "release", release)
        await pool.submit("sleep", "600", name="job")
        await pool.until("job", "running")
        stopped = await pool.admin.post("/api/v1/workloads/job/stop")
        assert stopped.status_code == 200, stopped.text
        await pool.until("job", "stopped")
        await _written(pool)
        assert left_at_release[0]
        assert reserve.restore()


async def test_a_restarted_control_still_knows_of_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with standing(tmp_path / "home", gpus=1) as pool:
        inner, full = pool.pool, True
        write = inner.store.workloads.cancel
        monkeypatch.setattr(
            inner.store.workloads, "cancel", lambda name, at_s: _refused() if full else write(name, at_s)
        )
        monkeypatch.setattr("weir.local.server.changes.cancellations.ANSWERED_AFTER_S", 0.1)
        script = f'trap "" TERM; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done'
        await pool.submit("sh", "-c", script, name="job", grace=300)
        await pool.until("job", "running")
        assert (await pool.admin.post("/api/v1/workloads/job/stop")).status_code == 200
        assert "job" in str((await pool.get("workloads"))["trouble"])
        await reconnect(pool)
        (tmp_path / "go").touch()
        await pool.until("job", "stopped")
        full = False
        await _written(pool)


def test_a_reserve_is_made_where_there_is_space_and_given_back_once(tmp_path: Path) -> None:
    reserve = disk_reserve.DiskReserve(tmp_path)
    assert not reserve.release()
    assert reserve.restore()
    size = (tmp_path / disk_reserve.FILE).stat().st_size
    assert 0 < size <= disk_reserve.BYTES
    assert (tmp_path / disk_reserve.FILE).stat().st_blocks * 512 >= size
    assert reserve.release()
    assert not reserve.is_there
    assert not reserve.release()


def test_on_a_small_disk_the_reserve_leaves_most_of_it(small_disk: Path) -> None:
    before = free(small_disk)
    reserve = disk_reserve.DiskReserve(small_disk)
    assert reserve.restore()
    assert free(small_disk) > before * 0.9
    (small_disk / "data").write_bytes(b"x" * free(small_disk))
    assert reserve.trouble is not None
    assert "full" in reserve.trouble
    assert reserve.release()
    freed = free(small_disk)
    reserve.restore()
    assert free(small_disk) > freed * 0.9


def _refused(*, is_full: bool = True) -> "asyncio.Future[Any]":
    from concurrent.futures import Future

    failed: Future[Any] = Future()
    failed.set_exception(StoreFailed("The database can't be written.", is_full=is_full))
    return failed  # type: ignore[return-value]


async def _written(pool: Standing) -> None:
    async with asyncio.timeout(120):
        while pool.pool.cancellations.trouble is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

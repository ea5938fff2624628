"""Jobs that write what they like, and a server that is started again: the pool decides, and charges each for its own."""

import time
from pathlib import Path

from tests.unit.local.hostile_files import HUGE_NOTE

from .in_process_server import Standing, standing

NOTE = HUGE_NOTE.decode().strip().replace('"', '\\"')
JOBS = {
    "huge": f'echo "{NOTE}" > "$WEIR_POD_DIRECTORY/notes.jsonl"',
    "fifo": 'mkfifo "$WEIR_POD_DIRECTORY/notes.jsonl"',
    "log": 'rm "$WEIR_POD_DIRECTORY/log"; mkfifo "$WEIR_POD_DIRECTORY/log"',
    "gone": 'rm -r "$WEIR_POD_DIRECTORY"',
    "forged": """
        records=$(dirname $WEIR_NOTES)/pods/$WEIR_POD_ID
        echo '{"code":0,"at_s":1}' > $records/exit.json; sleep 3600
    """,
}


async def work(stands: Standing, *names: str) -> None:
    """Neighbours that take all devices, one after the other."""
    for name in names:
        await stands.submit("sleep", "0.1", project="neighbours", name=name, gpus=8)
    for name in names:
        assert (await stands.until(name, "succeeded", "failed"))["restarts"] == 0


async def test_the_pool_decides_and_charges_right(tmp_path: Path) -> None:
    began_s = time.time()
    async with standing(tmp_path / "home", gpus=8, end_jobs=False) as stands:
        await stands.project("neighbours", 8)
        for name, script in JOBS.items():
            await stands.submit("sh", "-c", script, name=name, gpus=0)
        for name in JOBS.keys() - {"forged"}:
            await stands.until(name, "succeeded")
        await stands.until("forged", "running")
        await work(stands, "first", "second")
    async with standing(tmp_path / "home", gpus=8) as stands:
        await stands.until_ready()
        assert (await stands.get("workloads/forged"))["status"] == "running"
        usage = {row["key"]: row for row in (await stands.get("usage"))["rows"]}
        assert 8 * 0.2 <= usage["neighbours"]["allocated_gpu_s"] <= 8 * (time.time() - began_s), usage
        await work(stands, "third")
        await stands.admin.post("/api/v1/workloads/forged/stop")
        await stands.until("forged", "stopped")
        rows = [await stands.get(f"workloads/{name}") for name in ("first", "second", "third")]
    for row in rows:
        assert began_s <= row["started_s"] <= row["ended_s"] <= time.time(), row
        assert 0.1 <= row["ran_s"] <= time.time() - began_s, row

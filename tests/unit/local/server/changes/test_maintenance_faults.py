"""Maintenance windows through kills, broken files and GPUs that are gone."""

import http.client
import json
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.local.server.in_process_server import Standing, standing
from tests.unit.local.server.server_process import Serving, serving

from weir.local.server.home.maintenance_windows import FILE, WINDOWS_MAX, MaintenanceWindow

HOUR_S = 3600.0


async def test_windows_of_gpus_that_are_gone_stop_nothing(tmp_path: Path) -> None:
    home, now_s = tmp_path / "home", time.time()
    async with standing(home, gpus=2):
        pass
    windows: list[dict[str, Any]] = [
        {"name": "one-gone", "from_s": now_s - 5, "until_s": now_s + HOUR_S, "gpus": [0, 900]},
        {"name": "all-gone", "from_s": now_s - 5, "until_s": now_s + HOUR_S, "gpus": [900]},
        {"name": "drain-gpu-9", "from_s": now_s - 5, "gpus": [9]},
    ]
    (home / FILE).write_text(json.dumps({"windows": windows}))
    async with standing(home, gpus=2) as stands:
        await stands.pool.node_changes.maintenance.look()
        (node,) = (await stands.get("nodes"))["items"]
        (state,) = node["state"]
        assert state.startswith("GPU 0: maintenance from ")
        assert [device["drained"] for device in node["devices"]] == [None, None]
        await stands.submit(name="other")
        await stands.until("other", "running")
        assert len((await stands.get("maintenance"))["items"]) == 2


@pytest.mark.parametrize("from_s", [1e300, 1e12, -1e12])
async def test_a_time_outside_the_calendar_stops_no_server(tmp_path: Path, from_s: float) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / FILE).write_text(json.dumps({"windows": [{"name": "a", "from_s": from_s, "until_s": from_s}]}))
    async with standing(home) as stands:
        assert "can't be read" in (stands.pool.node_changes.maintenance.trouble or "")


async def test_drains_at_a_time_are_bounded(stands: Standing) -> None:
    maintenance, begins_s = stands.pool.node_changes.maintenance, time.time() + HOUR_S
    path = f"/api/v1/nodes/{stands.pool.node.name}"
    far = await stands.admin.post(f"{path}/drain", json={"after": "1000000d"})
    assert far.status_code == 422
    for number in range(WINDOWS_MAX - 1):
        window = MaintenanceWindow(name=f"window-{number}", from_s=begins_s, until_s=begins_s + 1)
        maintenance._windows = maintenance._windows.with_(window)
    assert (await stands.admin.post(f"{path}/drain", json={"after": "1h"})).status_code == 200
    assert (await stands.admin.post(f"{path}/drain", json={"after": "2h"})).status_code == 200  # in its place
    refused = await stands.admin.post(f"{path}/gpus/0/drain", json={"after": "1h"})
    assert refused.status_code == 422
    assert "no more are kept" in refused.text


def test_an_answered_window_outlives_a_kill_and_keeps_work_out(tmp_path: Path) -> None:
    """The server is killed at random moments around its answers; a window without an answer may be either."""
    chance, begins_s = random.Random(7), time.time() + HOUR_S
    with serving(tmp_path / "home", gpus=1) as server:
        answered: set[str] = set()
        for attempt in range(4):
            answered |= _announced_until_killed(server, attempt, begins_s, chance.uniform(0.0, 0.2))
            server.begin()
            names = [row["name"] for row in server.get("/api/v1/maintenance")["items"]]
            assert answered <= set(names), "an answered window is lost"
            assert len(names) == len(set(names))
        assert answered, "no announcement was answered before a kill"
        server.submit("sleep", "300", name="long", max_runtime="2h")
        server.submit("true", name="short", max_runtime="10m")
        server.until("short", "succeeded")
        assert server.get("/api/v1/workloads/long")["status"] == "pending"
        assert server.get("/api/v1/workloads/long/why")["reason"]["why"] == "maintenance"


def _announced_until_killed(server: Serving, attempt: int, begins_s: float, after_s: float) -> set[str]:
    """Announce windows until the server is killed, some time after the first answer; return the answered."""
    answered: set[str] = set()
    first = threading.Event()

    def kill() -> None:
        first.wait(180)
        time.sleep(after_s)
        server.process.send_signal(signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    try:
        for number in range(20):
            name = f"window-{attempt}-{number}"
            body = {"name": name, "from_s": begins_s, "until_s": begins_s + HOUR_S}
            assert server.ask("POST", "/api/v1/maintenance", body)[0] == 201
            answered.add(name)
            first.set()
    except (OSError, http.client.HTTPException):
        pass  # killed
    finally:
        first.set()
        killing.join()
    server.end(signal.SIGKILL)
    return answered

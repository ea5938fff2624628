"""Maintenance windows and drains at a time: announced, heeded, kept over restarts, and over by themselves."""

import getpass
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.local.server.in_process_server import Standing, standing

from weir.control.clock import Clock, boot_time, in_utc
from weir.local.server.home.gpu_drain import with_drained
from weir.local.server.home.maintenance_windows import FILE, WINDOWS_MAX, MaintenanceWindow
from weir.service.queue_rows import DeviceUtilization

HOUR_S = 3600.0
REASON = "new disks"


class Clocks:
    """A boot clock and a wall clock, which the test puts forward."""

    def __init__(self) -> None:
        self._ahead_s, self._wrong_s = 0.0, 0.0

    @property
    def wall_s(self) -> float:
        return time.time() + self._ahead_s + self._wrong_s

    def clock(self) -> Clock:
        return Clock(wall=lambda: self.wall_s, boot=lambda: boot_time() + self._ahead_s)

    def pass_(self, span_s: float) -> None:
        self._ahead_s += span_s

    def set_by(self, span_s: float) -> None:
        """Set the wall clock alone."""
        self._wrong_s += span_s


async def look(stands: Standing) -> None:
    """Let the server see the time that has passed, and control all that follows."""
    await stands.pool.node_changes.maintenance.look()
    stands.pool.control_thread.wake()
    await stands.pool.query(lambda _: None)


async def announce(stands: Standing, from_s: float, until_s: float, **more: Any) -> dict[str, Any]:
    body = {"from_s": from_s, "until_s": until_s, "reason": REASON, **more}
    made = await stands.admin.post("/api/v1/maintenance", json=body)
    assert made.status_code == 201, made.text
    return made.json()


async def test_long_work_waits_for_the_end_of_a_window_and_then_starts(tmp_path: Path) -> None:
    clocks = Clocks()
    async with standing(tmp_path / "home", clock=clocks.clock()) as stands:
        begins_s = clocks.wall_s + HOUR_S
        row = await announce(stands, begins_s, begins_s + HOUR_S)
        assert (row["name"], row["begun"], row["gpus"]) == ("maintenance-1", False, None)
        await stands.submit(name="long", max_runtime="2h")
        await stands.submit(name="short", max_runtime="50m")
        await stands.until("short", "running")
        why = await stands.until_true(lambda answer: answer["reason"], "workloads/long/why")
        assert why["reason"]["why"] == "maintenance"
        times = f"from {in_utc(begins_s)} until {in_utc(begins_s + HOUR_S)}"
        assert f"maintenance {times} ({REASON})" in why["reason"]["sentence"]
        assert "it could start after the end, in " in why["reason"]["sentence"]
        (node,) = (await stands.get("nodes"))["items"]
        assert node["state"] == [f"maintenance {times} ({REASON})"]
        clocks.pass_(HOUR_S)
        await look(stands)
        await stands.until("short", "stopped", "pending")
        (row,) = (await stands.get("maintenance"))["items"]
        assert row["begun"]
        clocks.pass_(HOUR_S)
        await look(stands)
        await stands.until("long", "running")
        assert (await stands.get("maintenance"))["items"] == []
        (node,) = (await stands.get("nodes"))["items"]
        assert node["state"] == []


async def test_preemptible_work_is_evicted_in_time_and_resumes_after_the_window(tmp_path: Path) -> None:
    clocks = Clocks()
    async with standing(tmp_path / "home", clock=clocks.clock()) as stands:
        await announce(stands, clocks.wall_s + HOUR_S, clocks.wall_s + 2 * HOUR_S)
        await stands.submit(name="open", grace=60)
        await stands.until("open", "running")
        clocks.pass_(HOUR_S / 2)
        await look(stands)
        assert (await stands.get("workloads/open"))["status"] == "running"
        clocks.pass_(HOUR_S / 2 - 59)
        await look(stands)
        await stands.until("open", "pending")
        await stands.until_true(
            lambda row: row["reason"] and row["reason"]["why"] == "maintenance", "workloads/open"
        )
        events = (await stands.get("events", workload="open"))["items"]
        assert any(each["kind"] == "drained" and REASON in each["sentence"] for each in events)
        clocks.pass_(HOUR_S + 60)
        await look(stands)
        await stands.until("open", "running")


async def test_a_window_of_one_gpu_leaves_the_others_to_long_work(tmp_path: Path) -> None:
    clocks = Clocks()
    async with standing(tmp_path / "home", gpus=2, clock=clocks.clock()) as stands:
        await announce(stands, clocks.wall_s + HOUR_S, clocks.wall_s + 2 * HOUR_S, gpus=[0])
        await stands.submit(name="long", max_runtime="2h")
        await stands.until("long", "running")
        (node,) = (await stands.get("nodes"))["items"]
        assert [device["workloads"] for device in node["devices"]] == [[], ["long"]]
        assert node["state"][0].startswith("GPU 0: maintenance from ")


async def test_windows_are_kept_over_a_restart(tmp_path: Path) -> None:
    begins_s = time.time() + HOUR_S
    async with standing(tmp_path / "home") as stands:
        await announce(stands, begins_s, begins_s + HOUR_S, gpus=[3, 1], name="disks")
    async with standing(tmp_path / "home") as stands:
        (row,) = (await stands.get("maintenance"))["items"]
        assert (row["name"], row["gpus"], row["from_s"]) == ("disks", [1, 3], begins_s)
        (node,) = (await stands.get("nodes"))["items"]
        assert node["state"][0].startswith("GPUs 1, 3: maintenance")
        assert (await stands.admin.delete("/api/v1/maintenance/disks")).status_code == 204
        assert (await stands.admin.delete("/api/v1/maintenance/disks")).status_code == 404
        assert not (tmp_path / "home" / FILE).exists()


async def test_an_unreadable_file_of_windows_is_reported(tmp_path: Path) -> None:
    async with standing(tmp_path / "home"):
        pass
    (tmp_path / "home" / FILE).write_text('{"windows": [{"name": 3}]}')
    async with standing(tmp_path / "home") as stands:
        assert "can't be read" in (stands.pool.node_changes.maintenance.trouble or "")
        await announce(stands, time.time() + HOUR_S, time.time() + 2 * HOUR_S)
        assert stands.pool.node_changes.maintenance.trouble is None


async def test_a_window_follows_a_wall_clock_that_is_set(tmp_path: Path) -> None:
    clocks = Clocks()
    async with standing(tmp_path / "home", clock=clocks.clock()) as stands:
        begins_s, wall_s = stands.pool.clock() + HOUR_S, clocks.wall_s
        await announce(stands, wall_s + HOUR_S, wall_s + 2 * HOUR_S)
        await stands.submit(name="runs", max_runtime="50m")
        await stands.until("runs", "running")
        clocks.set_by(600)  # it was ten minutes late
        await look(stands)
        (outage,) = await stands.pool.query(lambda cluster: cluster.nodes[0].outages)  # type: ignore[union-attr]
        assert outage.from_s == pytest.approx(begins_s - 600, abs=60)
        clocks.set_by(-7 * HOUR_S)
        await look(stands)
        clocks.set_by(7 * HOUR_S)
        await look(stands)
        (outage,) = await stands.pool.query(lambda cluster: cluster.nodes[0].outages)  # type: ignore[union-attr]
        assert outage.from_s == pytest.approx(begins_s - 600, abs=60)
        assert (await stands.get("workloads/runs"))["status"] == "running"


async def test_a_wall_clock_that_is_wrong_for_a_while_ends_no_window(tmp_path: Path) -> None:
    clocks = Clocks()
    async with standing(tmp_path / "home", clock=clocks.clock()) as stands:
        await announce(stands, clocks.wall_s + HOUR_S, clocks.wall_s + 2 * HOUR_S)
        clocks.set_by(1000 * HOUR_S)
        for _ in range(2):
            await look(stands)
            assert (await stands.get("maintenance"))["items"] == []
            clocks.pass_(HOUR_S / 10)
        clocks.set_by(-1000 * HOUR_S)
        await look(stands)
        assert len((await stands.get("maintenance"))["items"]) == 1
        await stands.submit(name="long", max_runtime="2h")
        await stands.until_true(
            lambda row: (row["reason"] or {}).get("why") == "maintenance", "workloads/long"
        )
        clocks.pass_(2 * HOUR_S)
        await look(stands)
        assert (tmp_path / "home" / FILE).exists()
        clocks.pass_(HOUR_S)
        await look(stands)
        assert not (tmp_path / "home" / FILE).exists()
        page = await stands.get("events")
        assert sum("is over" in each["sentence"] for each in page["items"]) >= 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"from_s": 5e9, "until_s": 4e9}, "ends before it begins"),
        ({"from_s": 1.0, "until_s": 2.0}, "is over"),
        ({"until_s": 9e10}, "more than ten years ahead"),
        ({"gpus": [4]}, "has no GPU 4"),
        ({"gpus": []}, "gpus"),
        ({"gpus": [-1]}, "gpus"),
        ({"name": "drain"}, "drains at a time"),
        ({"name": "drain-gpu-1"}, "drains at a time"),
        ({"name": "a/b"}, "can't be a name"),
        ({"reason": "x" * 201}, "reason"),
        ({"reason": "a\x1b[31mb"}, "can't be printed"),
        ({"reason": "two\nlines"}, "can't be printed"),
        ({"running": "stop"}, "running"),
        ({"from_s": "soon"}, "from_s"),
        ({"from_s": -1}, "from_s"),
        ({"surprise": 1}, "surprise"),
    ],
)
async def test_a_window_that_cannot_be_is_refused(
    stands: Standing, change: dict[str, object], says: str
) -> None:
    body = {"from_s": time.time() + HOUR_S, "until_s": time.time() + 2 * HOUR_S, **change}
    refused = await stands.admin.post("/api/v1/maintenance", json=body)
    assert refused.status_code == 422
    assert says in refused.text
    assert (await stands.get("maintenance"))["items"] == []


@pytest.mark.parametrize("set_by_s", [0.0, 2 * HOUR_S])
async def test_what_has_to_be_later_is_refused_if_it_begins_now(tmp_path: Path, set_by_s: float) -> None:
    clocks = Clocks()
    clocks.set_by(set_by_s)
    async with standing(tmp_path / "home", clock=clocks.clock()) as stands:
        now_s = clocks.wall_s
        times = {"from_s": now_s - HOUR_S, "until_s": now_s + HOUR_S, "later_only": True}
        node = f"/api/v1/nodes/{stands.pool.node.name}"
        for path, body in (
            ("/api/v1/maintenance", times),
            (f"{node}/drain", {"at_s": now_s - HOUR_S, "later_only": True}),
            (f"{node}/gpus/0/drain", {"later_only": True}),
        ):
            refused = await stands.admin.post(path, json=body)
            assert refused.status_code == 409, refused.text
            assert "would begin now" in refused.json()["detail"]
        assert (await stands.get("maintenance"))["items"] == []
        (shown,) = (await stands.get("nodes"))["items"]
        assert shown["state"] == []
        await announce(stands, now_s + HOUR_S, now_s + 2 * HOUR_S, later_only=True)
        later = {"at_s": now_s + HOUR_S, "later_only": True}
        assert (await stands.admin.post(f"{node}/drain", json=later)).status_code == 200
        names = {row["name"] for row in (await stands.get("maintenance"))["items"]}
        assert names == {"maintenance-1", "drain"}


async def test_members_see_windows_and_change_none(stands: Standing) -> None:
    member = await stands.member("default")
    body = {"from_s": time.time() + HOUR_S, "until_s": time.time() + 2 * HOUR_S}
    assert (await member.post("/api/v1/maintenance", json=body)).status_code == 403
    assert (await member.delete("/api/v1/maintenance/any")).status_code == 403
    assert (await member.get("/api/v1/maintenance")).status_code == 200


async def test_windows_are_bounded(stands: Standing) -> None:
    begins_s = time.time() + HOUR_S
    window = MaintenanceWindow(name="one", from_s=begins_s, until_s=begins_s + 1)
    maintenance = stands.pool.node_changes.maintenance
    for number in range(WINDOWS_MAX):
        maintenance._windows = maintenance._windows.with_(
            window.model_copy(update={"name": f"maintenance-{number + 1}"})
        )
    body = {"from_s": begins_s, "until_s": begins_s + 1}
    refused = await stands.admin.post("/api/v1/maintenance", json=body)
    assert refused.status_code == 422
    assert "no more are kept" in refused.text


async def test_a_drain_at_a_time_keeps_long_work_off_and_then_drains(tmp_path: Path) -> None:
    clocks = Clocks()
    async with standing(tmp_path / "home", clock=clocks.clock()) as stands:
        path = f"/api/v1/nodes/{stands.pool.node.name}"
        both = {"at_s": clocks.wall_s + HOUR_S, "after": "1h"}
        assert (await stands.admin.post(f"{path}/drain", json=both)).status_code == 422
        drained = await stands.admin.post(f"{path}/drain", json={"after": "1h", "reason": REASON})
        (said,) = drained.json()["state"]
        assert said.startswith(f"a drain by {getpass.getuser()} at ")
        assert said.endswith(f" UTC ({REASON})")
        await stands.submit(name="long", max_runtime="2h")
        await stands.submit(name="open")
        await stands.until("open", "running")
        why = await stands.until_true(lambda answer: answer["reason"], "workloads/long/why")
        assert why["reason"]["why"] == "maintenance"
        assert said in why["reason"]["sentence"]
        clocks.pass_(HOUR_S)
        await look(stands)
        await stands.until("open", "pending")
        (node,) = (await stands.get("nodes"))["items"]
        assert node["state"] == [f"drained by {getpass.getuser()}: {REASON}"]
        await stands.admin.post(f"{path}/undrain")
        await stands.until("long", "running")


async def test_undrain_withdraws_an_announced_drain(stands: Standing) -> None:
    path = f"/api/v1/nodes/{stands.pool.node.name}"
    await stands.admin.post(f"{path}/gpus/1/drain", json={"after": "1h"})
    (row,) = (await stands.get("maintenance"))["items"]
    assert (row["name"], row["gpus"], row["running"]) == ("drain-gpu-1", [1], "finish")
    assert (await stands.admin.post(f"{path}/gpus/1/undrain")).json()["state"] == []
    assert (await stands.get("maintenance"))["items"] == []


async def test_work_on_a_drained_gpu_moves_to_another(stands: Standing) -> None:
    path = f"/api/v1/nodes/{stands.pool.node.name}"
    await stands.submit(name="moves")
    await stands.submit(name="stays")
    await stands.until("moves", "running")
    await stands.until("stays", "running")
    (node,) = (await stands.get("nodes"))["items"]
    (gpu,) = [each["index"] for each in node["devices"] if each["workloads"] == ["moves"]]
    on_it = await stands.get(f"nodes/{node['name']}/workloads", gpu=gpu)
    assert [row["name"] for row in on_it["items"]] == ["moves"]
    body = {"running": "evict", "reason": REASON}
    assert (await stands.admin.post(f"{path}/gpus/{gpu}/drain", json=body)).status_code == 200
    page = await stands.until_true(
        lambda answer: any(
            each["workloads"] == ["moves"] and each["index"] != gpu for each in answer["items"][0]["devices"]
        ),
        "nodes",
    )
    assert page["items"][0]["devices"][gpu]["drained"].endswith(REASON)
    assert (await stands.get("workloads/stays"))["restarts"] == 0


async def test_work_on_a_drained_gpu_may_be_ended_for_good(stands: Standing) -> None:
    path = f"/api/v1/nodes/{stands.pool.node.name}"
    await stands.submit(name="ends")
    await stands.until("ends", "running")
    assert (await stands.admin.post(f"{path}/drain", json={"running": "stop"})).status_code == 200
    await stands.until("ends", "stopped")


async def test_work_on_a_drained_gpu_is_evicted_by_the_next_server(tmp_path: Path) -> None:
    async with standing(tmp_path / "home", gpus=2, end_jobs=False) as stands:
        await stands.submit(name="moves")
        await stands.until("moves", "running")
        changes = stands.pool.node_changes
        stands.pool.backend.evict_from_gpus = lambda _: None  # type: ignore[method-assign]
        body = {"running": "evict"}
        await stands.admin.post(f"/api/v1/nodes/{stands.pool.node.name}/gpus/0/drain", json=body)
        assert await changes.workloads_on(0) == ["moves"]
    async with standing(tmp_path / "home", gpus=2) as stands:
        await stands.until_true(
            lambda answer: answer["items"] and answer["items"][0]["devices"][1]["workloads"] == ["moves"],
            "nodes",
        )


def test_a_drained_gpu_keeps_the_activity_of_the_work_that_is_still_on_it() -> None:
    readings = {("n", 0): DeviceUtilization(0.5, activity="working")}
    drained = with_drained(readings, "n", {0: "drained by ann", 1: "drained by ann"})
    assert drained["n", 0] == DeviceUtilization(0.5, drained="drained by ann", activity="working")
    assert drained["n", 1] == DeviceUtilization(drained="drained by ann")

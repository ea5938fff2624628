"""A node is drained and undrained; the priority of a workload is changed."""

import getpass
from pathlib import Path

from tests.unit.local.server.in_process_server import Standing, standing

from weir.local.server.home.gpu_drain import FILE as GPU_FILE
from weir.local.server.home.gpu_drain import GpuDrains, read_gpu_drains, write_gpu_drains
from weir.local.server.home.node_drain import FILE, NodeDrain, read_drain, write_drain

REASON = "new kernel"


async def test_drained_node_stops_its_workloads_and_starts_none(stands: Standing) -> None:
    (node,) = (await stands.get("nodes"))["items"]
    path = f"/api/v1/nodes/{node['name']}"
    await stands.submit(name="runs")
    tolerant = [{"gpus": 1, "cpu": "100m", "memory": "16Mi", "tolerations": [{"operator": "Exists"}]}]
    await stands.submit(name="tolerates", pods=tolerant)
    await stands.until("runs", "running")
    await stands.until("tolerates", "running")
    assert {row["name"] for row in (await stands.get(f"nodes/{node['name']}/workloads"))["items"]} == {
        "runs",
        "tolerates",
    }
    member = await stands.member("default")
    assert (await member.post(f"{path}/drain", json={})).status_code == 403
    drained = await stands.admin.post(f"{path}/drain", json={"reason": REASON})
    assert drained.json()["state"] == [f"drained by {getpass.getuser()}: {REASON}"]
    for name in ("runs", "tolerates"):
        await stands.until(name, "pending")
    why = await stands.get("workloads/runs/why")
    assert why["reason"]["why"] == "no_node_matches"
    assert "1 is drained" in why["reason"]["sentence"]
    kinds = [event["kind"] for event in (await stands.get("events", workload="runs"))["items"]]
    assert "drained" in kinds
    assert (await member.post(f"{path}/undrain")).status_code == 403
    assert (await stands.admin.post(f"{path}/undrain")).json()["state"] == []
    for name in ("runs", "tolerates"):
        await stands.until(name, "running")
    assert (await stands.admin.post("/api/v1/nodes/other/drain", json={})).status_code == 404


async def test_drained_node_keeps_its_state_and_its_running_work_over_a_restart(tmp_path: Path) -> None:
    async with standing(tmp_path / "home", end_jobs=False) as stands:
        await stands.submit(name="runs")
        await stands.until("runs", "running")
        name = stands.pool.node.name
        body = {"reason": REASON, "keep_running": True}
        await stands.admin.post(f"/api/v1/nodes/{name}/drain", json=body)
        await stands.submit(name="waits")
        await stands.until_true(
            lambda answer: "drained" in (answer["reason"] or {}).get("sentence", ""), "workloads/waits/why"
        )
        assert (await stands.get("workloads/runs"))["status"] == "running"
    async with standing(tmp_path / "home") as stands:
        await stands.until("runs", "running")
        answer = await stands.get("workloads/waits/why")
        assert "drained" in answer["reason"]["sentence"]
        await stands.admin.post(f"/api/v1/nodes/{name}/drain", json={"reason": REASON})
        await stands.until("runs", "pending")


async def test_drained_gpu_starts_nothing_and_its_work_runs_on_over_a_restart(tmp_path: Path) -> None:
    async with standing(tmp_path / "home", end_jobs=False) as stands:
        await stands.submit(name="runs", gpus=4)
        await stands.until("runs", "running")
        name = stands.pool.node.name
        path = f"/api/v1/nodes/{name}/gpus"
        member = await stands.member("default")
        assert (await member.post(f"{path}/2/drain", json={})).status_code == 403
        assert (await stands.admin.post(f"{path}/4/drain", json={})).status_code == 404
        assert (await stands.admin.post(f"{path}/-1/undrain")).status_code == 404
        assert (await stands.admin.post(f"{path}/2/drain", json={"reason": "x" * 201})).status_code == 422
        assert (await stands.admin.post("/api/v1/nodes/other/gpus/2/drain", json={})).status_code == 404
        drained = await stands.admin.post(f"{path}/2/drain", json={"reason": REASON})
        assert drained.json()["devices"][2]["drained"] == f"drained by {getpass.getuser()}: {REASON}"
        (node,) = (await stands.get("nodes"))["items"]
        assert node["allocated"]["gpu"] == node["capacity"]["gpu"] == 4  # until its work ends
        await stands.submit(name="waits", gpus=4)
        await stands.until_true(
            lambda answer: "are drained" in (answer["reason"] or {}).get("sentence", ""),
            "workloads/waits/why",
        )
        assert (await stands.get("workloads/runs"))["status"] == "running"
    async with standing(tmp_path / "home") as stands:
        await stands.until("runs", "running")
        await stands.until_true(
            lambda answer: answer["items"] and answer["items"][0]["devices"][2]["drained"] is not None,
            "nodes",
        )
        await stands.admin.post("/api/v1/workloads/runs/stop")
        await stands.submit(name="three", gpus=3)
        await stands.until("three", "running")
        (node,) = (await stands.get("nodes"))["items"]
        assert [device["workloads"] for device in node["devices"]] == [["three"], ["three"], [], ["three"]]
        assert node["allocated"]["gpu"] == node["capacity"]["gpu"] == 3
        assert (await stands.get("workloads/waits"))["status"] == "pending"
        await stands.admin.post("/api/v1/workloads/three/stop")
        undrained = await stands.admin.post(f"{path}/2/undrain")
        assert undrained.json()["devices"][2]["drained"] is None
        await stands.until("waits", "running")
        sentences = [event["sentence"] for event in (await stands.get("events", kind="node"))["items"]]
        assert any("drains GPU 2" in sentence for sentence in sentences)


def test_unreadable_drained_gpus_count_as_drained(tmp_path: Path) -> None:
    assert read_gpu_drains(tmp_path, 2).gpus == {}
    drain = NodeDrain(user="ops", at_s=1.0, reason=REASON)
    both = GpuDrains().changed(1, drain).changed(5, drain)
    write_gpu_drains(tmp_path, both)
    assert read_gpu_drains(tmp_path, 8) == both
    assert list(read_gpu_drains(tmp_path, 2).gpus) == [1]
    (tmp_path / GPU_FILE).write_text('{"gpus": {"-1": {}}}')
    assert list(read_gpu_drains(tmp_path, 2).gpus) == [0, 1]
    write_gpu_drains(tmp_path, both.changed(1, None).changed(5, None))
    assert not (tmp_path / GPU_FILE).exists()


def test_unreadable_drained_state_counts_as_drained(tmp_path: Path) -> None:
    assert read_drain(tmp_path) is None
    write_drain(tmp_path, NodeDrain(user="ops", at_s=1.0, reason=REASON))
    assert read_drain(tmp_path) == NodeDrain(user="ops", at_s=1.0, reason=REASON)
    write_drain(tmp_path, None)
    assert read_drain(tmp_path) is None
    (tmp_path / FILE).write_text("{")
    found = read_drain(tmp_path)
    assert found is not None
    assert found.keeps_running


async def test_priority_is_changed_up_to_the_highest_of_the_person(tmp_path: Path) -> None:
    async with standing(tmp_path / "home", end_jobs=False) as stands:
        await stands.project("default", 4, max_priority=80)
        await stands.submit(name="fills", gpus=4)
        await stands.until("fills", "running")
        await stands.submit(name="asks", gpus=4)
        member, other = await stands.member("default", role="lead"), await stands.member(user="tom")
        path = "/api/v1/workloads/asks/priority"
        refused = await member.post(path, json={"priority": 81})
        assert refused.status_code == 422
        assert "the highest for mia" in refused.text
        assert (await other.post(path, json={"priority": 60})).status_code == 403
        assert (await member.post(path, json={"priority": 10**10})).status_code == 422
        assert (await member.post(path, json={"priority": 60})).json()["priority"] == 60
        await stands.until("asks", "running")
        await stands.until("fills", "pending")
        (event,) = (await stands.get("events", workload="asks", kind="priority"))["items"]
        assert event["numbers"] == {"user": "mia", "priority": 60}
    async with standing(tmp_path / "home") as stands:
        assert (await stands.get("workloads/asks"))["priority"] == 60
        await stands.admin.post("/api/v1/workloads/asks/stop")
        await stands.until("asks", "stopped")
        late = await stands.admin.post(path, json={"priority": 1})
        assert late.status_code == 409

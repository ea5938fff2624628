"""The snapshot of a pool over REST."""

from tests.unit.local.server.in_process_server import Standing

from weir.scenario_io.reading import parse_scenario


async def test_snapshot_has_live_workloads_and_no_secrets(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="runs", gpus=3)
    await stands.until("runs", "running")
    await stands.submit("sleep", "3600", name="waits", gpus=2, env={"SECRET": "hunter2"})
    answer = await stands.admin.get("/api/v1/snapshot")
    assert answer.headers["content-type"].startswith("text/yaml")
    assert "hunter2" not in answer.text
    scenario = parse_scenario(answer.text, "snapshot")
    assert {workload.name for workload in scenario.workloads} == {"runs", "waits"}
    assert len(scenario.past["runs"].placed) == 1

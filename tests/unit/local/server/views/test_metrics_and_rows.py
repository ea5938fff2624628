"""Numbers people read first: default CPU and memory, run times, exit codes."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.local.server.in_process_server import Standing

from weir.api.submissions import Submission
from weir.local.machine.devices import DeviceActivity
from weir.local.machine.machine import this_machine
from weir.local.server import main
from weir.local.server.access.authorization import Person
from weir.local.server.state.pool_inventory import pool_inventory
from weir.local.server.submissions.submission_checks import check_submission
from weir.local.server.utilization import UtilizationTask
from weir.local.usage.foreign_usage import ForeignProcess
from weir.local.usage.gpu_sampling import MachineReading
from weir.model.nodes import Node
from weir.model.queues import Queue
from weir.model.resources import CPU, CPU_SLOTS, MEMORY, PODS
from weir.scenario_io.reading import parse_scenario

GIB = 1 << 30
NODE = Node("box", 8, 16 * GIB, {CPU: 32_000, MEMORY: 64 * GIB, PODS: 110, CPU_SLOTS: 64})


def request_of(pods: dict[str, Any], *queues: Queue, node: Node = NODE, **more: Any) -> Any:
    body = {"project": "team", "command": ["true"], "pods": [pods], **more}
    asked = Submission.model_validate(body)
    there = pool_inventory([node], {}, queues or (Queue("team"),))
    made = check_submission(asked, person=Person("mia", is_admin=True), now_s=0.0, inventory=there)
    return made.workload.groups[0].request


@pytest.mark.parametrize(
    ("pods", "cpu_milli", "memory"),
    [
        ({"gpus": 1}, 4_000, 8 * GIB),
        ({"gpus": 4}, 16_000, 32 * GIB),
        ({"gpus": 0.5}, 2_000, 4 * GIB),
        ({"gpu_memory": "4Gi"}, 1_000, 2 * GIB),
        ({"gpus": 0.25, "devices": 2}, 2_000, 4 * GIB),
        ({}, 1_000, GIB),
    ],
)
def test_open_amounts_are_assumed_by_the_part_of_the_gpus(
    pods: dict[str, Any], cpu_milli: int, memory: int
) -> None:
    request = request_of(pods)
    assert (request.assumed_cpu_milli, request.assumed_memory) == (cpu_milli, memory)
    assert (request.cpu_milli, request.memory) == (0, 0)


def test_written_amounts_are_kept() -> None:
    request = request_of({"gpus": 1, "memory": "3Gi"})
    assert (request.memory, request.assumed_memory, request.assumed_cpu_milli) == (3 * GIB, 0, 4_000)
    request = request_of({"gpus": 1, "cpu": 2})
    assert (request.cpu_milli, request.assumed_cpu_milli, request.assumed_memory) == (2_000, 0, 8 * GIB)


def test_a_default_fits_a_small_machine_and_the_limits_of_its_project() -> None:
    small = replace(NODE, gpus=0, capacity={CPU: 500, MEMORY: GIB // 2, PODS: 9})
    request = request_of({}, node=small)
    assert (request.assumed_cpu_milli, request.assumed_memory) == (500, GIB // 2)
    above = Queue("all", is_project=False, limit={MEMORY: 8 * GIB})
    request = request_of({"gpus": 1, "count": 4}, above, Queue("team", "all", limit={CPU: 2_000}))
    assert (request.assumed_cpu_milli, request.assumed_memory) == (500, 2 * GIB)
    fixed = Queue("team", quota={MEMORY: 4 * GIB})
    assert request_of({"gpus": 1}, fixed).assumed_memory == 8 * GIB
    assert request_of({"gpus": 1}, fixed, preemptible=False).assumed_memory == 4 * GIB


def test_cpu_only_pods_take_slots_unless_they_state_cpu_or_are_too_many() -> None:
    assert request_of({}).further == ((CPU_SLOTS, 1),)
    assert request_of({"cpu": 1}).further == ()
    assert request_of({"gpus": 1}).further == ()
    assert request_of({"count": 65}).further == ()


async def test_work_that_leaves_memory_open_starts_beside_work_that_asked_for_nearly_all(
    stands: Standing,
) -> None:
    (node,) = (await stands.get("nodes"))["items"]
    much = int(node["capacity"]["memory"]) - GIB // 4
    pods = [{"gpus": 1, "memory": much, "cpu": node["capacity"]["cpu"]}]
    await stands.submit("sleep", "3600", name="greedy", pods=pods)
    await stands.until("greedy", "running")
    for at in range(3):
        await stands.submit("sleep", "3600", name=f"open-{at}", pods=[{"gpus": 1}])
    await stands.submit("sleep", "3600", name="no-gpu", pods=[{}])
    for name in ("open-0", "open-1", "open-2", "no-gpu"):
        await stands.until(name, "running")
    (project,) = (await stands.get("projects"))["items"]
    assert project["allocated"]["memory"] > much + 3 * (node["capacity"]["memory"] // 4)


async def test_run_time_counts_all_runs_and_the_current_one(stands: Standing) -> None:
    began_s = time.time()
    await stands.submit("sleep", "3600", name="job")
    await stands.until("job", "running")
    row = await stands.until_true(lambda row: row["ran_s"] > 0.2, "workloads/job")
    (listed,) = (await stands.get("workloads"))["items"]
    assert listed["ran_s"] >= row["ran_s"]
    first_s = row["first_started_s"]
    assert first_s == row["started_s"]
    await stands.admin.post("/api/v1/workloads/job/suspend")
    row = await stands.until_true(lambda row: row["status"] == "pending", "workloads/job")
    suspended = row["ran_s"]
    assert suspended >= 0.2
    assert row["first_started_s"] == first_s
    await stands.admin.post("/api/v1/workloads/job/resume")
    row = await stands.until("job", "running")
    assert row["ran_s"] >= suspended
    assert row["started_s"] > first_s
    await stands.admin.post("/api/v1/workloads/job/stop")
    row = await stands.until("job", "stopped")
    assert suspended < row["ran_s"] <= time.time() - began_s
    assert row["first_started_s"] == first_s
    (listed,) = (await stands.get("workloads", all=True))["items"]
    assert listed["ran_s"] == row["ran_s"]
    stands.pool.view.ended.clear()  # as after a restart: from the database
    assert (await stands.get("workloads/job"))["ran_s"] == row["ran_s"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -11 $$"), 139),
    ],
)
async def test_the_exit_code_is_reported(command: tuple[str, ...], code: int, stands: Standing) -> None:
    await stands.submit(*command, name="job", retries=0)
    row = await stands.until("job", "succeeded", "failed")
    assert row["exit_code"] == code


@pytest.mark.parametrize(
    ("command", "code", "answer"),
    [
        (("cd /tmp && ls",), 127, "No shell is used: write bash -c '...' around the whole line."),
        (("cd", "/tmp", "&&", "ls"), 127, "No shell is used: write bash -c '...' around the whole line."),
        (("FOO=1", "python", "x.py"), 127, "No shell is used: write bash -c '...' around the whole line."),
        (("nosuchprogram",), 127, "Check its name and PATH, or write its whole path."),
        (("/etc/hostname",), 126, "Make it executable with chmod +x"),
        (("sh", "-c", "nosuchprogram"), 127, "a program it calls was not found"),
    ],
)
async def test_what_cannot_start_is_not_tried_again(
    command: tuple[str, ...], code: int, answer: str, stands: Standing
) -> None:
    await stands.submit(*command, name="job")
    row = await stands.until("job", "failed")
    assert (row["exit_code"], row["restarts"]) == (code, 0)
    assert answer in row["reason"]["sentence"]
    assert not any(word in row["reason"]["sentence"] for word in ("tmp", "x.py", "FOO=1"))


async def test_a_directory_that_is_gone_is_not_tried_again(stands: Standing, tmp_path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    await stands.project("shut", 0, limit={"gpu": 0})
    await stands.submit(name="job", project="shut", directory=str(gone))
    gone.rmdir()
    await stands.project("shut", 4)
    row = await stands.until("job", "failed")
    assert row["exit_code"] == 126
    assert row["reason"]["sentence"].endswith("Name one that exists with --directory.")


async def test_a_snapshot_keeps_what_is_assumed_and_not_reserved(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="job", pods=[{"gpus": 1}])
    await stands.until("job", "running")
    text = (await stands.admin.get("/api/v1/snapshot")).text
    (workload,) = parse_scenario(text, "snapshot.yaml").workloads
    request = workload.groups[0].request
    assert (request.cpu_milli, request.memory) == (0, 0)
    assert request.assumed_cpu_milli > 0
    assert request.assumed_memory > 0


@pytest.mark.parametrize(
    ("projects", "advice"),
    [
        (["vision", "default"], "weir submit -p default --gpus 1 -- python train.py"),
        (["vision"], "weir submit -p vision --gpus 1 -- python train.py"),
        ([], "weir project create NAME --gpus 2, since there is no project yet."),
    ],
)
def test_the_greeting_names_a_project_that_exists(projects: list[str], advice: str, tmp_path: Path) -> None:
    machine = this_machine(tmp_path, virtual_devices=2, control_groups=False)
    answer: list[str] = []
    main._greet(answer.append, "http://127.0.0.1:1", tmp_path, machine, projects)
    assert answer[-1] == f"Try: {advice}"


async def test_times_longer_than_the_rules_are_refused(stands: Standing) -> None:
    await stands.project("timed", 1, times={"max_runtime": "1h", "idle_limit": "10m"})
    body = {"project": "timed", "command": ["true"], "pods": [{"gpus": 1}]}
    for more, answer in (
        (
            {"max_runtime": "5h"},
            "max_runtime: 5h is more than the 1h that project timed allows; write 1h or less, or leave it out",
        ),
        (
            {"idle_limit": "1h"},
            "idle_limit: 1h is more than the 10m that project timed allows; write 10m or less, or leave it out",
        ),
        (
            {"grace": "90m"},
            "grace: 1h30m is more than the 10m that the policy allows; write 10m or less, or leave it out",
        ),
    ):
        refused = await stands.admin.post("/api/v1/workloads", json={**body, **more})
        assert refused.status_code == 422
        assert [error["message"] for error in refused.json()["errors"]] == [answer]
    body |= {"max_runtime": "1h", "idle_limit": "10m", "grace": "10m"}
    assert (await stands.admin.post("/api/v1/workloads", json=body)).status_code == 201


async def test_older_workloads_of_a_name_are_reached_by_uid(stands: Standing) -> None:
    await stands.submit("echo", "old", name="job")
    old = await stands.until("job", "succeeded")
    await stands.submit("sh", "-c", "echo new; sleep 3600", name="job")
    new = await stands.until("job", "running")
    assert new["uid"] > old["uid"]
    found = await stands.get(f"workloads/{old['uid']}")
    assert (found["uid"], found["status"], found["command"]) == (old["uid"], "succeeded", ["echo", "old"])
    assert (await stands.admin.get(f"/api/v1/workloads/{old['uid']}/logs")).text == "old\n"
    happened = (await stands.get("events", workload=str(old["uid"])))["items"]
    assert {each["sentence"] for each in happened if each["kind"] == "ended"} == {old["reason"]["sentence"]}
    assert (await stands.get(f"workloads/{new['uid']}"))["pod_rows"][0]["status"] == "running"
    refused = await stands.admin.post(f"/api/v1/workloads/{old['uid']}/stop")
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        f"Workload {old['uid']}, job, is over already.",
    )
    assert (await stands.get("workloads/job"))["status"] == "running"
    assert (await stands.admin.post(f"/api/v1/workloads/{new['uid']}/stop")).status_code == 200
    await stands.until("job", "stopped")
    again = await stands.admin.post(f"/api/v1/workloads/{old['uid']}/rerun")
    assert (again.json()["name"], again.json()["command"]) == ("job", ["echo", "old"])
    assert (await stands.admin.get("/api/v1/workloads/999999")).status_code == 404
    body = {"project": "default", "command": ["true"], "name": "17"}
    refused = await stands.admin.post("/api/v1/workloads", json=body)
    assert "use at least one letter" in refused.json()["detail"]


async def test_a_member_reaches_no_other_project_by_uid(stands: Standing) -> None:
    await stands.project("other", 1)
    mia = await stands.member("other")
    made = await stands.submit("sleep", "3600", name="theirs")
    uid = made["uid"]
    assert (await mia.post(f"/api/v1/workloads/{uid}/stop")).status_code == 403
    assert (await mia.get(f"/api/v1/workloads/{uid}/logs")).status_code == 403
    assert (await mia.get(f"/api/v1/workloads/{uid}")).json()["command"] is None


@pytest.mark.parametrize(("path", "named"), [("workloads/a%2Fb/why", True), ("workload/a", False)])
async def test_a_name_with_a_slash_is_named_as_the_cause(stands: Standing, path: str, named: bool) -> None:
    answer = await stands.admin.get(f"/api/v1/{path}")
    assert answer.status_code == 404
    assert ("can't be the name of a workload" in answer.json()["detail"]) is named


async def test_nothing_starts_on_a_device_that_others_use(stands: Standing) -> None:
    on = [ForeignProcess(index, 4242, "ada", "python") for index in range(3)]
    devices = tuple(DeviceActivity(index, 0.9, 1 << 30) for index in range(4))
    samples = [MachineReading(1.0, devices, (), False, tuple(on)), MachineReading(2.0, devices, (), False)]

    class Looks:
        def sample(self) -> MachineReading:
            return samples.pop(0)

    uses = UtilizationTask(stands.pool, Looks(), lambda: True, lambda _: None)
    await asyncio.to_thread(uses.look)
    await stands.submit("sleep", "3600", name="two", gpus=2)
    await stands.submit("sleep", "3600", name="one", gpus=1)
    row = await stands.until("one", "running")
    assert row["pod_rows"][0]["devices"] == [3]
    assert (await stands.get("workloads/two"))["status"] == "pending"
    (node,) = (await stands.get("nodes"))["items"]
    answer = "python of ada (pid 4242), outside Weir"
    assert [device["foreign"] for device in node["devices"]] == [answer, answer, answer, None]
    events = (await stands.get("events", kind="foreign_use"))["items"]
    assert events[-1]["sentence"].endswith(f" is used by {answer}: nothing is started on it.")
    await asyncio.to_thread(uses.look)
    await stands.until("two", "running")


async def test_a_gpu_with_a_fault_is_drained_until_an_administrator_undrains_it(stands: Standing) -> None:
    devices = tuple(DeviceActivity(index, 0.0, 0) for index in range(4))
    fault = {0: "12 uncorrectable memory errors", 1: "it needs a reset"}
    samples = [MachineReading(at, devices, (), False, (), fault if at > 1 else {}) for at in (1.0, 2.0, 3.0)]

    class Looks:
        def sample(self) -> MachineReading:
            return samples.pop(0)

    uses = UtilizationTask(stands.pool, Looks(), lambda: True, lambda _: None)
    await asyncio.to_thread(uses.look)
    await stands.submit("sleep", "3600", name="early", gpus=1)
    early = (await stands.until("early", "running"))["pod_rows"][0]["devices"]
    await asyncio.to_thread(uses.look)
    await stands.submit("sleep", "3600", name="wide", gpus=3)
    await stands.submit("sleep", "3600", name="narrow", gpus=2)
    assert (await stands.until("narrow", "running"))["pod_rows"][0]["devices"] == [2, 3]
    assert (await stands.get("workloads/early"))["status"] == "running"
    assert early == [0]
    (node,) = (await stands.get("nodes"))["items"]
    reasons = [device["drained"] for device in node["devices"]]
    assert reasons[0] == "drained by weir: 12 uncorrectable memory errors, as its driver reports"
    assert reasons[1:] == ["drained by weir: it needs a reset, as its driver reports", None, None]
    name = node["name"]
    assert (await stands.admin.post(f"/api/v1/nodes/{name}/gpus/1/undrain")).status_code == 200
    await asyncio.to_thread(uses.look)  # the fault is known, and the administrator has decided
    (node,) = (await stands.get("nodes"))["items"]
    assert node["devices"][1]["drained"] is None


async def test_checkpoint_directories_are_listed_for_people_of_the_project(stands: Standing) -> None:
    await stands.project("other", 1)
    mia = await stands.member("other")
    script = "mkdir $WEIR_CHECKPOINT_DIR/a; head -c 9000 /dev/zero > $WEIR_CHECKPOINT_DIR/a/b; ln -s / $WEIR_CHECKPOINT_DIR/c"
    await stands.submit("sh", "-c", script, name="saves")
    await stands.submit("true", name="empty")
    row = await stands.until("saves", "succeeded")
    await stands.until("empty", "succeeded")
    page = await stands.get("checkpoints")
    (found,) = page["items"]
    assert (found["uid"], found["name"], found["status"]) == (row["uid"], "saves", "succeeded")
    assert found["path"] == row["checkpoints"] == str(stands.pool.home / "checkpoints" / str(row["uid"]))
    assert (found["files"], found["whole"]) == (2, True)
    assert 9000 <= found["bytes"] < 1 << 20
    hidden = (await mia.get("/api/v1/checkpoints")).json()
    assert (hidden["total"], hidden["items"]) == (0, [])
    assert (await mia.get("/api/v1/workloads/saves")).json()["checkpoints"] is None

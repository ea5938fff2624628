"""Idle work in a pool, from readings of a test to states, notices, lost protection, extensions and suspension."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from weir.dashboard.live_frames import COLUMNS, workload_columns
from weir.local.machine.devices import DeviceActivity
from weir.local.pods.running_pods import RunningPod
from weir.local.server.utilization import UtilizationTask
from weir.local.usage.gpu_sampling import BY_NVML, MachineReading, PodReading
from weir.local.usage.pod_counters import PodRates
from weir.model.policy import DurationByType, LifecyclePolicy, Policy

from .in_process_server import Standing, reconnect, standing

RULES = LifecyclePolicy(
    idle_window=300.0,
    idle_notice=DurationByType(train=600.0, build=600.0),
    idle_unprotect=DurationByType(train=1200.0),
    idle_suspend=DurationByType(train=3600.0),
    idle_limit=DurationByType(build=2400.0),
    max_idle_extend=7200.0,
)
EVERY_S = 30.0


@dataclass
class Readings:
    """A machine whose readings a test writes: use by workload and device, 30 s after one another."""

    pods: Callable[[], list[RunningPod]]
    at_s: float
    uses: dict[str, list[float | None]] = field(default_factory=dict)
    cores: dict[str, float] = field(default_factory=dict)
    disk: dict[str, float] = field(default_factory=dict)

    def sample(self) -> MachineReading:
        """Return the next reading."""
        self.at_s += EVERY_S
        pods = []
        for run in self.pods():
            name, devices = run.place.pod.workload, run.place.devices
            peaks = (*self.uses.get(name, []), *[0.0] * len(devices))[: len(devices)]
            rates = PodRates(disk=self.disk.get(name, 0.0), network=0.0)
            known = [peak for peak in peaks if peak is not None]
            use = sum(known) / len(known) if len(known) == len(peaks) else None
            pods.append(
                PodReading(run, use, BY_NVML, 0, self.cores.get(name, 0.0), 0, 1, tuple(peaks), rates)
            )
        devices = tuple(DeviceActivity(index, 0.0, 0) for index in range(4))
        return MachineReading(self.at_s, devices, tuple(pods), False)


class Scene:
    """A pool, and its readings."""

    def __init__(self, stands: Standing) -> None:
        self.stands = stands
        self.readings = Readings(lambda: list(stands.pool.backend.pods()), stands.pool.clock())
        self.uses = UtilizationTask(stands.pool, self.readings, lambda: True, lambda _: None)

    async def goes_on(self, seconds: float) -> None:
        """Read for this time of the machine's, and let control take all in."""
        for _ in range(round(seconds / EVERY_S)):
            await asyncio.to_thread(self.uses.look)
            await self.stands.pool.query(lambda _: None)
        await self.stands.pool.query(lambda _: None)

    async def kinds(self, name: str) -> list[str]:
        """Return the kinds of a workload's events about idleness, oldest first."""
        events = (await self.stands.get("events", workload=name, limit=100))["items"]
        words = ("idle", "protection")
        return [event["kind"] for event in events[::-1] if event["kind"].startswith(words)]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with standing(tmp_path / "home", policy=Policy(life=RULES)) as stands:
        yield Scene(stands)


async def test_parked_work_is_named_warned_taken_first_and_suspended(scene: Scene) -> None:
    stands = scene.stands
    await stands.project("guests", 0)
    for name, gpus in (("parked", 2), ("works", 1), ("loads", 1)):
        await stands.submit(name=name, gpus=gpus)
        await stands.until(name, "running")
    scene.readings.uses, scene.readings.disk = {"works": [0.9]}, {"loads": 1e7}
    await scene.goes_on(400)
    states = {
        name: (await stands.get(f"workloads/{name}"))["activity"] for name in ("parked", "works", "loads")
    }
    assert {name: each["state"] for name, each in states.items()} == {
        "parked": "parked",
        "works": "working",
        "loads": "starved",
    }
    assert states["loads"]["signals"] == ["disk"]
    text = (await stands.admin.get("/metrics")).text
    assert 'weir_workload_activity{project="default",state="starved",workload="loads"} 1.0' in text
    (node,) = (await stands.get("nodes"))["items"]
    assert sorted(each["activity"] for each in node["devices"]) == ["parked", "parked", "starved", "working"]
    await scene.goes_on(600)
    assert await scene.kinds("parked") == ["idle_warning"]
    row = await stands.get("workloads/parked")
    assert "loses its protection in" in row["activity"]["warning"]
    assert "weir extend parked" in row["activity"]["warning"]
    live = stands.pool.view.row("parked")
    assert live is not None
    columns = dict(zip(COLUMNS, json.loads(workload_columns(live)), strict=True))
    assert (columns["activity"], columns["why"]) == ("parked", "idle")
    assert columns["sentence"].startswith("parked has been idle for")
    assert (await stands.get("workloads/parked/why"))["activity"]["warning"] == row["activity"]["warning"]
    await scene.goes_on(900)
    assert await scene.kinds("parked") == ["idle_warning", "protection_lost"]
    assert (await stands.get("workloads/parked"))["activity"]["unprotected"]
    await stands.submit(name="asks", project="guests", gpus=1)
    await stands.until("asks", "running")
    row = await stands.until("parked", "pending")
    assert (row["evicted"]["rule"], row["evicted"]["by"]) == ("idle", "asks")
    assert "its GPUs went to asks" in row["reason"]["sentence"]
    assert row["reason"]["why"] == "suspended"
    for name in ("works", "loads"):
        assert (await stands.get(f"workloads/{name}"))["status"] == "running"
        assert await scene.kinds(name) == []
    await stands.until_log("parked/logs", lambda text: text.count("weir: parked") >= 2)
    assert (await stands.admin.post("/api/v1/workloads/asks/stop")).status_code == 200
    assert (await stands.admin.post("/api/v1/workloads/parked/resume")).status_code == 200
    row = await stands.until("parked", "running")
    assert not row["activity"]["unprotected"]


async def test_left_session_is_stopped_after_two_notices_and_a_used_one_never(scene: Scene) -> None:
    stands = scene.stands
    for name in ("left", "used"):
        await stands.submit(name=name, type="build")
        await stands.until(name, "running")
    uid = (await stands.get("workloads/used"))["uid"]
    for _ in range(30):
        stands.pool.interactions.note(uid, scene.readings.at_s, connections=1)
        await scene.goes_on(120)
    row = await stands.until("left", "stopped")
    assert row["exit_code"] is None
    assert await scene.kinds("left") == ["idle_warning", "idle_warning", "idle"]
    row = await stands.get("workloads/used")
    assert (row["status"], row["activity"]["state"], row["activity"]["signals"]) == (
        "running",
        "starved",
        ["user"],
    )
    stands.pool.interactions.note(uid, scene.readings.at_s, connections=0)
    await scene.goes_on(600)
    assert (await stands.get("workloads/used"))["activity"]["state"] == "left"


async def test_quiet_gpu_beside_working_ones_is_named(scene: Scene) -> None:
    stands = scene.stands
    await stands.submit(name="ranks", gpus=4)
    await stands.until("ranks", "running")
    scene.readings.uses = {"ranks": [0.9, 0.9, 0.0, 0.9]}
    await scene.goes_on(400)
    activity = (await stands.get("workloads/ranks"))["activity"]
    assert (activity["state"], activity["quiet"]) == ("working", ["GPU 2"])
    (node,) = (await stands.get("nodes"))["items"]
    assert [each["activity"] for each in node["devices"]] == ["working", "working", "quiet", "working"]


async def test_unmeasured_use_is_unknown_and_leads_to_nothing(scene: Scene) -> None:
    stands = scene.stands
    await stands.submit(name="mig")
    await stands.until("mig", "running")
    scene.readings.uses = {"mig": [None]}
    await scene.goes_on(6000)
    assert (await stands.get("workloads/mig"))["activity"]["state"] == "unknown"
    assert await scene.kinds("mig") == []


async def test_extension_is_of_owner_or_lead_bounded_audited_and_pauses_the_rules(scene: Scene) -> None:
    stands = scene.stands
    await stands.project("team", 2)
    mia, other = await stands.member("team", user="mia"), await stands.member("team", user="leo")
    lead = await stands.member("team", user="ada", role="member")
    body = {"project": "team", "command": ["sleep", "3600"], "name": "job", "pods": [{"gpus": 1}]}
    assert (await mia.post("/api/v1/workloads", json=body)).status_code == 201
    await stands.until("job", "running")
    await scene.goes_on(1000)
    assert await scene.kinds("job") == ["idle_warning"]
    path = "/api/v1/workloads/job/extend"
    assert (await other.post(path, json={"duration": "1h"})).status_code == 403
    assert (await lead.post(path, json={"duration": "1h"})).status_code == 403
    refused = await mia.post(path, json={"duration": "3h"})
    assert refused.status_code == 422
    assert "more than the 2h that the policy allows" in refused.text
    for wrong in ({"duration": "soon"}, {}, {"duration": -1}):
        assert (await mia.post(path, json=wrong)).status_code == 422
    answer = await mia.post(path, json={"duration": "2h"})
    assert answer.status_code == 200
    assert answer.json()["activity"]["extended_until_s"] is not None
    assert answer.json()["activity"]["warning"] is None
    await scene.goes_on(3000)
    assert await scene.kinds("job") == ["idle_warning", "idle_extended"]
    assert (await stands.admin.post("/api/v1/workloads/no/extend", json={"duration": 5})).status_code == 404


async def test_job_that_says_it_is_busy_is_left_alone(scene: Scene) -> None:
    stands = scene.stands
    script = "import time, weir; weir.busy('indexing', until=time.time() + 3600); time.sleep(3600)"
    await stands.submit(sys.executable, "-c", script, name="indexes")
    await stands.until_true(
        lambda row: row["activity"] is not None and row["activity"]["extended_until_s"] is not None,
        "workloads/indexes",
    )
    await scene.goes_on(2400)
    assert await scene.kinds("indexes") == ["idle_extended"]
    events = (await stands.get("events", workload="indexes"))["items"]
    assert any("indexes says that it is busy for" in each["sentence"] for each in events)
    assert any(": indexing." in each["sentence"] for each in events)


async def test_position_on_the_ladder_survives_another_control(scene: Scene) -> None:
    stands = scene.stands
    await stands.submit(name="job")
    await stands.until("job", "running")
    await scene.goes_on(1800)
    assert await scene.kinds("job") == ["idle_warning", "protection_lost"]
    await reconnect(stands)
    await stands.until_true(
        lambda row: row["activity"] is not None and row["activity"]["unprotected"], "workloads/job"
    )
    await scene.goes_on(300)
    assert await scene.kinds("job") == ["idle_warning", "protection_lost"]
    scene.readings.uses = {"job": [0.9]}
    await scene.goes_on(60)
    assert (await scene.kinds("job"))[-1] == "protection_restored"


async def test_an_array_is_extended_by_its_queued_indices(scene: Scene) -> None:
    stands = scene.stands
    await stands.submit(name="parts", array="0-9%2", gpus=1)
    await stands.until_true(lambda row: row["array"]["running"] == 2, "workloads/parts")
    path = "/api/v1/workloads/parts/extend"
    answer = await stands.admin.post(path, json={"duration": 3600})
    assert answer.status_code == 200, answer.text
    assert answer.json()["array"]["running"] == 2
    for index in (0, 1):
        row = await stands.get(f"workloads/parts[{index}]")
        assert row["activity"]["extended_until_s"] is not None
    other = await stands.member("default", user="eve")
    assert (await other.post(path, json={"duration": 60})).status_code == 403
    held = await stands.submit(name="later", array="0-3", gpus=1, begin="2099-01-01T00:00")
    refused = await stands.admin.post(f"/api/v1/workloads/{held['name']}/extend", json={"duration": 60})
    assert (refused.status_code, "No index" in refused.json()["detail"]) == (409, True)


async def test_details_have_the_idle_times_of_the_project_the_policy_and_the_workload(scene: Scene) -> None:
    stands = scene.stands
    await stands.project("own", 4, times={"idle_suspend": 1800, "idle_notice": 0})
    none = {"notice_s": None, "unprotect_s": None, "suspend_s": None, "stop_s": None}
    for words, rules in (
        ({"name": "trains"}, {"notice_s": 600.0, "unprotect_s": 1200.0, "suspend_s": 3600.0}),
        ({"name": "builds", "type": "build"}, {"notice_s": 600.0, "stop_s": 2400.0}),
        ({"name": "short", "type": "build", "idle_limit": "10m"}, {"notice_s": 300.0, "stop_s": 600.0}),
        (
            {"name": "theirs", "project": "own"},
            {"notice_s": 600.0, "unprotect_s": 1200.0, "suspend_s": 1800.0},
        ),
    ):
        await stands.submit(**words)
        assert (await stands.get(f"workloads/{words['name']}"))["idle_rules"] == none | rules
    await stands.submit(name="serves", type="inference")
    assert (await stands.get("workloads/serves"))["idle_rules"] is None
    assert (await stands.admin.post("/api/v1/workloads/trains/stop")).status_code == 200
    await stands.until("trains", "stopped")
    assert (await stands.get("workloads/trains"))["idle_rules"] is None

"""Devices, control groups, environments and what is really used."""

# ruff: noqa: N802 - the driver's own names

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.local.harness import Rig, python, until

from weir.control.port import PodExit
from weir.local import cgroups
from weir.local.cgroups import Limits
from weir.local.machine.devices import Device, Nvml, nvml_driver, virtual_gpus
from weir.local.machine.environment import ELASTIC, GangRank, PortPool, VisibleDevices, environment
from weir.local.machine.machine import this_machine
from weir.local.records import state_dir
from weir.local.records.state_dir import StartOutcome
from weir.local.usage.gpu_sampling import BY_CPU, UtilizationSampler
from weir.model.workloads import Request

IDENTITY = {"WEIR_POD_ID": "1/1-0-0"}


def test_frameworks_learn_a_share_and_a_job_may_overrule_it() -> None:
    sight = VisibleDevices((2,), ("2",), 250, 4 << 30)
    env = environment({"PATH": "/bin", "WEIR_TOKEN": "x", "LC_ALL": "C"}, [], IDENTITY, GangRank(), sight)
    assert env["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.250"
    assert env["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert env["WEIR_GPU_FRACTION"] == "0.250"
    assert env["WEIR_GPU_MEMORY"] == str(4 << 30)
    assert env["CUDA_VISIBLE_DEVICES"] == "2"
    assert env["LC_ALL"] == "C"
    assert "WEIR_TOKEN" not in env
    written = [("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.1"), ("CUDA_VISIBLE_DEVICES", "0,1,2")]
    env = environment({}, written, IDENTITY, GangRank(), sight)
    assert env["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.1"
    assert env["CUDA_VISIBLE_DEVICES"] == "2"


def test_whole_devices_need_no_fractions_and_no_devices_show_none() -> None:
    env = environment({}, [], IDENTITY, GangRank(), VisibleDevices((0, 3), ("0", "MIG-1"), 1000, 1))
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in env
    assert env["CUDA_VISIBLE_DEVICES"] == "0,MIG-1"
    assert env["WEIR_DEVICES"] == "0,3"
    env = environment({}, [], IDENTITY, GangRank(), VisibleDevices())
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert "WEIR_GPU_FRACTION" not in env


def test_ports_are_given_once() -> None:
    ports = PortPool(range(20_500, 20_504))
    taken = [ports.take() for _ in range(5)]
    assert len({port for port in taken if port}) == sum(map(bool, taken))
    assert taken[-1] == 0
    first = next(port for port in taken if port)
    ports.give_back(first)
    assert ports.take() == first


class Nothing(Exception):
    """The driver doesn't know."""


class Driver:
    """Two devices joined by NVLink, a third alone; the third is cut in two when `mig`."""

    NVMLError = Nothing
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_P2P_CAPS_INDEX_NVLINK = 2
    NVML_P2P_STATUS_OK = 0
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0

    def __init__(self, *, mig: bool = False) -> None:
        self.mig = mig

    def nvmlDeviceGetCount(self) -> int:
        return 3

    def nvmlDeviceGetHandleByIndex(self, at: int) -> str:
        return f"gpu{at}"

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return f"UUID-{handle}"

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"NVIDIA H200"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(total=1000, used=300)

    def nvmlDeviceGetMigMode(self, handle: str) -> tuple[int, int]:
        if not self.mig:
            raise Nothing
        return (int(handle == "gpu2"), 0)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, at: int) -> str:
        if at > 1:
            raise Nothing
        return f"mig{at}"

    def nvmlDeviceGetP2PStatus(self, one: str, other: str, _: int) -> int:
        return 0 if {one, other} == {"gpu0", "gpu1"} else 3

    def nvmlDeviceGetTopologyCommonAncestor(self, one: str, other: str) -> int:
        raise Nothing

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(gpu=70)

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        assert sensor == self.NVML_TEMPERATURE_GPU
        if not handle.startswith("gpu"):
            raise Nothing
        return 40 + int(handle[-1])

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        if not handle.startswith("gpu"):
            raise Nothing
        return 312_500

    def nvmlDeviceGetTotalEccErrors(self, handle: str, kind: int, counter: int) -> int:
        assert (kind, counter) == (self.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, self.NVML_VOLATILE_ECC)
        if handle != "gpu2":
            raise Nothing
        return 3

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=7, usedGpuMemory=200), SimpleNamespace(pid=8, usedGpuMemory=None)]

    def nvmlDeviceGetProcessUtilization(self, handle: str, since: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=7, smUtil=40, timeStamp=5)]


def test_sensors_are_those_of_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """A MIG instance has no sensors of its own; a board without error counters says nothing of errors."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = Nvml(Driver(mig=True))
    nvml.devices()
    seen = [(one.temperature_c, one.power_w, one.errors) for one in nvml.doing()]
    assert seen == [(40, 312.5, None), (41, 312.5, None), (42, 312.5, 3), (42, 312.5, 3)]


def test_devices_are_found_with_what_links_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml = Nvml(Driver())
    found = nvml.devices()
    assert [device.name for device in found] == ["0", "1", "2"]
    assert nvml.links(found) == ((0, 1),)
    doing = nvml.doing()[0]
    assert (doing.use, doing.memory_used, doing.memory_of, doing.use_of) == (
        0.7,
        300,
        {7: 200, 8: 0},
        {7: 0.4},
    )


def test_what_processes_use_is_asked_for_whatever_the_wall_clock_was_set_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver dates samples by the wall clock: after a jump no old date may hide the new ones."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    now_s, asked = 1_700_000_000.0, []

    class Dated(Driver):
        def nvmlDeviceGetProcessUtilization(self, handle: str, since: int) -> list[SimpleNamespace]:
            asked.append(since)
            return [SimpleNamespace(pid=7, smUtil=40, timeStamp=int(now_s * 1e6))]

    nvml = Nvml(Dated())
    nvml.devices()
    monkeypatch.setattr("weir.local.machine.devices.time.time", lambda: now_s)
    for jump_s in (0.0, 10.0, -3600.0, 10 * 365 * 86400.0, -20 * 365 * 86400.0):
        now_s += jump_s
        assert nvml.doing()[0].use_of == {7: 0.4}
        assert now_s - 61.0 < asked[-1] / 1e6 < now_s


def test_parts_of_a_device_are_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = Nvml(Driver(mig=True)).devices()
    assert [(device.name, device.parent) for device in found] == [
        ("0", None),
        ("1", None),
        ("UUID-mig0", 2),
        ("UUID-mig1", 2),
    ]


def test_a_pool_that_may_see_some_devices_serves_those(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "UUID-gpu2,1")
    assert [device.name for device in Nvml(Driver()).devices()] == ["1", "2"]


def test_what_a_pod_uses_of_real_devices(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    pod = rig.run("sh", "-c", "echo $$; exec sleep 3600")
    pid = int(rig.says(pod, "\n"))

    class Ours(Driver):
        def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
            return [SimpleNamespace(pid=pid, usedGpuMemory=200), SimpleNamespace(pid=8, usedGpuMemory=9)]

        def nvmlDeviceGetProcessUtilization(self, handle: str, since: int) -> list[SimpleNamespace]:
            return [SimpleNamespace(pid=pid, smUtil=40, timeStamp=5)]

    nvml = Nvml(Ours())
    machine = replace(rig.machine, nvml=nvml, devices=nvml.devices())
    sample = UtilizationSampler(machine, rig.backend.pods).sample()
    (use,) = sample.pods
    assert (use.use, use.by, use.device_memory) == (0.4, "nvml", 200)
    assert len(sample.devices) == 3
    assert not sample.virtual


def test_processors_stand_for_virtual_devices(rig: Rig) -> None:
    busy = rig.run(*python("print('ready')", "while True: pass"), name="busy")
    idle = rig.run("sh", "-c", "echo ready; exec sleep 3600", name="idle")
    rig.says(busy, "ready")
    rig.says(idle, "ready")
    sampler = UtilizationSampler(rig.machine, rig.backend.pods)
    first = sampler.sample()
    assert first.virtual
    assert all(use.use is None for use in first.pods)
    held = {device for use in first.pods for device in use.pod.place.devices}
    assert held
    assert all((each.use is None) == (each.index in held) for each in first.devices)

    def uses() -> dict[str, float]:
        return {use.pod.place.pod.workload: use.use or 0.0 for use in sampler.sample().pods}

    until(lambda: uses()["busy"] > 0.02)
    sample = sampler.sample()
    assert {use.pod.place.pod.workload: use.by for use in sample.pods} == {"busy": BY_CPU, "idle": BY_CPU}
    until(lambda: uses()["idle"] < 0.01)  # the start of `sleep` may be in the first samples
    assert all(use.memory > 0 and use.processes == 1 for use in sample.pods)


def test_this_machine_as_a_node(tmp_path: Path) -> None:
    machine = this_machine(tmp_path / "home", virtual_devices=8, control_groups=False)
    assert machine.virtual
    assert (machine.node.gpus, machine.node.gpu_model) == (8, None)
    assert machine.node.capacity["cpu"] == len(os.sched_getaffinity(0)) * 1000
    assert not machine.groups_of("1/1-0-0", Request())
    sight = machine.sight(Request(devices=1, share_milli=0, gpu_memory=4 << 30), (5,))
    assert (sight.share_milli, sight.memory, sight.names) == (250, 4 << 30, ("5",))


def test_without_a_driver_there_are_no_devices(tmp_path: Path) -> None:
    if nvml_driver() is not None:
        pytest.skip("this machine has one")
    machine = this_machine(tmp_path / "home", control_groups=False)
    assert (machine.node.gpus, machine.virtual) == (0, False)


def test_limits_in_both_versions() -> None:
    one = cgroups.Cgroups("weir-x", memory="/m", cpu="/c")
    assert [(words[0], words[1]) for words in one.of_pod("1/2-0-0", Limits(memory=4096, cpu_milli=1500))] == [
        ("/m/weir-x/1.2-0-0", {"memory.limit_in_bytes": "4096"}),
        ("/c/weir-x/1.2-0-0", {"cpu.shares": "1536"}),
    ]
    two = cgroups.Cgroups("weir-x", unified="/u", controllers="cpu memory")
    ((path, files, hands_down),) = two.of_pod("1/2-0-0", Limits(memory=4096, cpu_milli=1500))
    assert (path, hands_down) == ("/u/weir-x/1.2-0-0", "+cpu +memory")
    assert files == {"memory.max": "4096", "memory.oom.group": "1", "cpu.weight": "150"}
    assert not cgroups.Cgroups("weir-x")


def test_supervisors_that_are_apart_leave_the_controllers_to_pods(tmp_path: Path) -> None:
    handed = tmp_path / "weir-x" / "cgroup.subtree_control"
    handed.parent.mkdir()
    handed.touch()
    groups = cgroups.Cgroups("weir-x", unified=str(tmp_path), controllers="memory pids", apart="supervisors")
    groups.make_supervisors()
    groups.make_supervisors()
    assert (tmp_path / "weir-x" / "supervisors").is_dir()
    assert handed.read_text() == "+memory +pids"


def test_processes_are_limited_in_both_versions() -> None:
    one = cgroups.Cgroups("weir-x", pids="/p")
    assert [words[:2] for words in one.of_pod("1/2-0-0", Limits(pids=300))] == [
        ("/p/weir-x/1.2-0-0", {"pids.max": "300"})
    ]
    two = cgroups.Cgroups("weir-x", unified="/u", controllers="memory cpu pids")
    assert two.of_pod("1/2-0-0", Limits(pids=300))[0][1] == {"pids.max": "300"}
    assert two.of_pod("1/2-0-0", Limits())[0][1] == {}, "0 is no limit"
    assert one.pids
    assert "pids" in two.controllers


@pytest.fixture
def grouped(tmp_path: Path):
    rig = Rig(tmp_path / "home", control_groups=True)
    try:
        if not rig.machine.groups:
            pytest.skip("no control groups can be made here")
        yield rig
    finally:
        rig.close()


def test_a_pod_is_in_its_groups_and_they_go_with_it(grouped: Rig) -> None:
    pod = grouped.run("sh", "-c", "cat /proc/self/cgroup; exec sleep 3600")
    says = grouped.says(pod, "/1.1-0-0\n")
    words = grouped.machine.groups_of("1/1-0-0", Request())
    assert says.count("/1.1-0-0\n") >= 1
    assert any(Path(path).is_dir() for path, *_ in words)
    grouped.stop(pod, grace_s=0.0)
    grouped.exit(pod)
    assert not any(Path(path).exists() for path, *_ in words)


def test_more_memory_than_asked_for_ends_a_pod_and_says_so(grouped: Rig) -> None:
    groups = grouped.machine.groups
    if not groups.memory and "memory" not in groups.controllers:
        pytest.skip("memory can't be limited here")
    request = Request(devices=1, memory=48 << 20)
    pod = grouped.run(*python("held = bytearray(200 << 20)", "print(len(held))"), request=request)
    grouped.exit(pod)
    ended = state_dir.ended(grouped.backend.home.directory(1, 1, 0, 0))
    assert ended is not None
    assert ended.out_of_memory
    assert "more memory" in grouped.log(pod)
    assert (ended.final, ended.exit_code) == (True, 137)
    assert ended.memory_limit == 48 << 20
    assert (40 << 20) < ended.memory_peak <= (48 << 20)
    assert "48Mi is allowed by --memory, its peak was 4" in ended.sentence
    assert "such as --memory 72Mi, or without --memory." in ended.sentence


def test_memory_that_was_not_asked_for_is_not_limited(grouped: Rig) -> None:
    request = Request(devices=1, memory=0, cpu_milli=0, assumed_cpu_milli=500, assumed_memory=48 << 20)
    words = grouped.machine.groups_of("1/1-0-0", request)
    assert not any(key.startswith("memory.") for _, files, *_ in words for key in files)
    pod = grouped.run(*python("held = bytearray(200 << 20)", "print(len(held))"), request=request)
    grouped.exit(pod)
    ended = state_dir.ended(grouped.backend.home.directory(1, 1, 0, 0))
    assert ended is not None
    assert (ended.how, ended.out_of_memory) == (PodExit.DONE, False)


def test_a_job_that_the_kernel_ended_for_the_machine_may_be_tried_again() -> None:
    ended = StartOutcome(1.0, signal=9, out_of_memory=True, memory_peak=3 << 30)
    assert not ended.final
    assert ended.sentence == "The kernel killed the pod: out of memory, peak 3Gi."


def test_a_pod_that_forks_without_end_is_refused_and_others_go_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "home", control_groups=True)
    try:
        if not rig.machine.groups.pids and "pids" not in rig.machine.groups.controllers:
            pytest.skip("processes can't be limited here")
        rig.backend.node.machine = replace(rig.machine, pids_max=20)
        bomb = python(
            "import os, time",
            "try:",
            "    for at in range(40):",
            "        if os.fork() == 0: time.sleep(3600)",
            "except OSError as error: print('refused', at)",
        )
        pod = rig.run(*bomb, name="bomb", grace_s=0.0)
        rig.says(pod, "refused 19")
        rig.exit(pod)
        assert "--pids-max" in rig.log(pod)
    finally:
        rig.close()


def test_virtual_devices_have_names() -> None:
    assert virtual_gpus(2)[1] == Device(1, "1", "virtual-1", "virtual", 16 << 30)


def test_elastic_workloads_get_the_variables_of_torchrun() -> None:
    elastic = {**IDENTITY, ELASTIC: "2:8"}
    env = environment({}, [], elastic, GangRank(1, 3, 20_123), VisibleDevices((4,), ("4",)))
    assert env["WEIR_ELASTIC"] == env["PET_NNODES"] == "2:8"
    assert (env["PET_RDZV_BACKEND"], env["PET_RDZV_ENDPOINT"]) == ("c10d", "127.0.0.1:20123")
    assert env["PET_RDZV_CONF"].startswith("is_host=0,")
    assert environment({}, [], elastic, GangRank(0, 3, 1), VisibleDevices())["PET_RDZV_CONF"].startswith(
        "is_host=1,"
    )
    assert env["PET_NPROC_PER_NODE"] == "1"
    assert env["PET_RDZV_ID"] == "1"
    assert not any(
        name.startswith(("PET_", "WEIR_ELASTIC"))
        for name in environment({}, [], IDENTITY, GangRank(), VisibleDevices())
    )

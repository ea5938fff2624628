# ruff: noqa: N802 - the names are the driver's
"""Processes that Weir didn't start, from a driver that a test controls to nodes, reasons and starts."""

import asyncio
import getpass
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from weir.local.machine.devices import Nvml
from weir.local.machine.machine import this_machine
from weir.local.server.utilization import UtilizationTask
from weir.local.usage import foreign_usage
from weir.local.usage.gpu_sampling import UtilizationSampler

from .in_process_server import Standing

HOSTILE = "--password\x1b[31m\nforged line"
LONG = "x" * 10_000


class Unsupported(Exception):
    """An error of the driver."""


class Driver:
    """Four GPUs; `on` are the processes on each by its index."""

    NVMLError = Unsupported

    def __init__(self) -> None:
        self.on: dict[int, list[int]] = {}

    def __getattr__(self, name: str) -> Any:
        def unsupported(*_: object) -> None:
            raise Unsupported(name)

        if name.startswith("nvml"):
            return unsupported
        return 0

    def nvmlDeviceGetCount(self) -> int:
        return 4

    def nvmlDeviceGetHandleByIndex(self, at: int) -> int:
        return at

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "Fake"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(total=16 << 30, used=1 << 30)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=1 << 30) for pid in self.on.get(handle, [])]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A process of another program, with arguments that mean harm."""
    monkeypatch.setattr(foreign_usage, "AGE_S_MIN", 0.0)
    wait = "import sys; print('up', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", wait, HOSTILE, LONG]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as found:
        assert found.stdout is not None
        assert found.stdout.readline() == b"up\n"
        yield found.pid
        found.kill()


def task(stands: Standing, driver: Driver) -> UtilizationTask:
    """Return the task that looks at the GPUs, over the driver of the test."""
    machine = this_machine(stands.pool.home, virtual_devices=4, control_groups=False)
    nvml = Nvml(driver)
    nvml.devices()
    sampler = UtilizationSampler(replace(machine, nvml=nvml), stands.pool.backend.pods)
    return UtilizationTask(stands.pool, sampler, lambda: True, lambda _: None)


async def test_a_gpu_in_use_outside_weir_is_avoided_and_its_user_named(
    stands: Standing, process: int
) -> None:
    driver = Driver()
    driver.on = {0: [process], 2: [process]}
    uses = task(stands, driver)
    await asyncio.to_thread(uses.look)
    await stands.submit(name="two", gpus=2)
    row = await stands.until("two", "running")
    assert row["pod_rows"][0]["devices"] == [1, 3]
    await stands.submit(name="three", gpus=3)
    why = await stands.until_true(lambda answer: answer["reason"], "workloads/three/why")
    assert "without GPUs that are drained or in use outside Weir" in why["reason"]["sentence"]
    (node,) = (await stands.get("nodes"))["items"]
    said = node["devices"][0]["foreign"]
    assert said.endswith(f" of {getpass.getuser()} (pid {process}), outside Weir")
    driver.on = {}
    await asyncio.to_thread(uses.look)
    await stands.admin.post("/api/v1/workloads/two/stop")
    await stands.until("three", "running")


async def test_only_administrators_see_the_command_and_it_is_plain_and_short(
    stands: Standing, process: int
) -> None:
    driver = Driver()
    driver.on = {1: [process]}
    await asyncio.to_thread(task(stands, driver).look)
    (node,) = (await stands.get("nodes"))["items"]
    command = node["devices"][1]["foreign_command"]
    assert "--password?[31m?forged line" in command
    assert command.isprintable()
    assert len(command) == foreign_usage.COMMAND_LENGTH_MAX
    member = await stands.member("default")
    seen = (await member.get("/api/v1/nodes")).text
    assert "password" not in seen
    assert "outside Weir" in seen
    assert "password" not in (await member.get("/api/v1/events")).text


async def test_by_the_setting_of_the_pool_such_processes_are_ignored(stands: Standing, process: int) -> None:
    stands.pool.ignores_foreign = True
    driver = Driver()
    driver.on = {0: [process], 1: [process]}
    await asyncio.to_thread(task(stands, driver).look)
    await stands.submit(name="all", gpus=4)
    await stands.until("all", "running")
    events = (await stands.get("events", kind="foreign_use"))["items"]
    assert events[0]["sentence"].endswith("work is started on it all the same.")
    (node,) = (await stands.get("nodes"))["items"]
    assert "outside Weir" in node["devices"][0]["foreign"]

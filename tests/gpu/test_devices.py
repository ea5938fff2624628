"""Readings of a real GPU."""

import subprocess
import sys
import time

import pytest

from weir.local.machine.devices import DeviceActivity, Nvml

from .gpu_pool import PROGRAM, GpuPool, until

PERIOD_S = 4.0


def smi(*fields: str) -> list[str]:
    """Return fields of the first GPU as `nvidia-smi` prints them."""
    command = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [each.strip() for each in done.stdout.split(",")]


def first(driver: Nvml) -> DeviceActivity:
    return driver.doing()[0]


def test_a_gpu_is_described_as_its_driver_does(driver: Nvml) -> None:
    device = driver.devices()[0]
    uuid, model, memory_mib = smi("uuid", "name", "memory.total")
    assert (device.uuid, device.model, device.parent) == (uuid, model, None)
    assert abs(device.memory / (1 << 20) - float(memory_mib)) < 1
    now = first(driver)
    assert now.temperature_c is not None
    assert 10 < now.temperature_c < 110
    assert now.power_w is not None
    assert 5 < now.power_w < 2000
    assert driver.faults() == {}


@pytest.mark.parametrize("busy_ms", [200, 1000])
def test_short_work_between_two_looks_is_in_the_mean(driver: Nvml, busy_ms: int) -> None:
    """The plain reading covers the last second at most: of Hopper and later GPUs alone, the mean has it all."""
    if first(driver).mean is None and first(driver).mean is None:
        pytest.skip("this GPU has no counters (GPM)")
    command = [sys.executable, PROGRAM, f"burst:{busy_ms}:{1000 * PERIOD_S}:60"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as program:
        try:
            until(lambda: first(driver).memory_of.get(program.pid))
            time.sleep(PERIOD_S)
            first(driver)
            time.sleep(3 * PERIOD_S)
            mean = first(driver).mean
        finally:
            program.terminate()
    share = busy_ms / 1000 / PERIOD_S
    assert mean is not None
    assert 0.6 * share < mean < 1.6 * share


def test_a_mistake_of_a_program_is_no_fault_of_its_gpu(pool: GpuPool, driver: Nvml) -> None:
    pool.submit("wild", "fault")
    pool.until("wild", "failed")
    assert "the driver answers" in pool.log("wild")
    pool.start("next", "spin:1", "sleep:600")
    pool.says("next", "spin:1")
    assert driver.faults() == {}


def test_work_waits_for_a_program_outside_the_pool_that_uses_the_gpu(pool: GpuPool) -> None:
    with subprocess.Popen([sys.executable, PROGRAM, "hold:256", "sleep:600"]) as foreign:
        try:
            pool.submit("first", "spin:1", "sleep:600", gpus=0.5)  # looks begin with the first workload
            until(lambda: str(foreign.pid) in pool.weir("events"), lambda: pool.weir("events"))
            pool.submit("whole", "spin:1", gpus=1)
            until(lambda: str(foreign.pid) in pool.weir("why", "whole"), lambda: pool.weir("why", "whole"))
        finally:
            foreign.terminate()
    pool.pool.stop("first")
    pool.until("whole", "succeeded")

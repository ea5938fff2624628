"""Frameworks on a real GPU: training that is evicted and goes on, and shares that frameworks keep."""

import re
import sys
from importlib.util import find_spec

import pytest

from weir.local.machine.devices import Nvml

from .gpu_pool import ROOT, GpuPool, until

TORCH = ROOT / "examples" / "checkpoints_torch.py"
ALLOCATES = {
    "torch": """
import torch, weir
weir.stopping()
parts = []
try:
    while True: parts.append(torch.empty(1 << 28, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError: pass
""",
    "cupy": """
import cupy
parts = []
try:
    while True: parts.append(cupy.empty(1 << 28, dtype=cupy.uint8))
except cupy.cuda.memory.OutOfMemoryError: pass
""",
    "jax": """
import jax.numpy
parts = [jax.numpy.ones(4).block_until_ready()]
""",
}
WAITS = 'import time; print("holds it", flush=True); time.sleep(600)'
OWN_MIB = 1024
"""Memory that the driver and the libraries of a framework need for a process, beside its share."""


def needs(name: str) -> None:
    if find_spec(name) is None:
        pytest.skip(f"needs {name}")


@pytest.mark.parametrize("framework", ALLOCATES)
def test_a_framework_keeps_to_its_part_of_the_memory(pool: GpuPool, driver: Nvml, framework: str) -> None:
    needs(framework)
    code = ALLOCATES[framework] + WAITS
    pool.start("quarter", command=[sys.executable, "-c", code], gpus=0.25, memory="16Gi")
    pool.says("quarter", "holds it")
    (used,) = driver.doing()[0].memory_of.values()
    share = driver.devices()[0].memory / 4
    assert 0.6 * share < used < share + (OWN_MIB << 20)


def test_training_is_evicted_for_the_owner_and_goes_on_at_its_step(pool: GpuPool) -> None:
    needs("torch")
    pool.weir("project", "set", "default", "--gpus", "0")
    pool.weir("project", "create", "owners", "--gpus", "1")
    command = [sys.executable, str(TORCH), "--steps", "100000000", "--save-every", "100000000"]
    pool.start("trains", command=command, memory="16Gi", grace="60s")
    until(lambda: pool.pool.get("trains").reported, lambda: pool.story("trains"))
    pool.start("owner", "fill", "sleep:600", project="owners")
    (stopped,) = re.findall(r"stops at step (\d+)", pool.log("trains"))
    assert int(stopped) > 0
    pool.pool.stop("owner")
    pool.says("trains", f"goes on at step {stopped}")
    pool.weir("project", "set", "default", "--gpus", "1")

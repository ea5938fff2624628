"""Tests on the first real GPU of NVIDIA. They fill its memory, so they run with `WEIR_GPU=required` only."""

import os
from collections.abc import Iterator

import pytest

from weir.local.machine.devices import Nvml, nvml_driver

from .gpu_pool import GpuPool

POLICY = """
life:
  idle_window: 20s
  idle_notice: {train: 25s}
  idle_unprotect: {train: 30s}
  idle_warning: {train: 5s}
"""


@pytest.fixture(scope="session", autouse=True)
def driver() -> Nvml:
    """Return the driver of this machine's GPUs."""
    if os.environ.get("WEIR_GPU") != "required":
        pytest.skip("fills the memory of a GPU: run it with WEIR_GPU=required")
    found = nvml_driver()
    if found is None or not found.devices():
        pytest.fail("this machine has no GPU of NVIDIA")
    return found


@pytest.fixture(scope="module")
def pool_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuPool]:
    made = GpuPool(tmp_path_factory.mktemp("gpu"), POLICY)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def pool(pool_of_module: GpuPool) -> Iterator[GpuPool]:
    """A pool without any workload."""
    yield pool_of_module
    pool_of_module.stop_all()

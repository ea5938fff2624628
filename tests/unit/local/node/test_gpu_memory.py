"""Limits of GPU memory: set, read back, and refused wherever the driver doesn't keep them."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.local import fake_memory_driver as fake
from tests.unit.local.fake_memory_driver import MemoryDriver

from weir.local.node.gpu_memory import NotLimited, limit_memory

HALF = 40 << 30
BOTH = ("GPU-a", "GPU-b")


def library(**without: Any) -> Any:
    """Return a library that lacks the functions for limits."""
    driver = MemoryDriver()
    names = ("nvmlDeviceGetHandleByUUID", "NVMLError")
    return SimpleNamespace(**{name: getattr(driver, name) for name in names}, **without)


def test_each_gpu_of_a_pod_gets_its_limit() -> None:
    driver = MemoryDriver()
    limit_memory(driver, "/cg/pod", BOTH, HALF)
    assert driver.limits == {("GPU-a", "/cg/pod"): HALF, ("GPU-b", "/cg/pod"): HALF}


def test_a_limit_is_whole_pages_of_the_driver_and_never_more_than_the_share() -> None:
    driver = MemoryDriver()
    limit_memory(driver, "/cg/pod", ["GPU-a"], HALF + 12_345)
    assert driver.limits["GPU-a", "/cg/pod"] == HALF


def test_a_limit_that_is_set_stays_and_one_that_was_changed_is_set_again() -> None:
    driver = MemoryDriver()
    limit_memory(driver, "/cg/pod", ["GPU-a"], HALF)
    limit_memory(driver, "/cg/pod", ["GPU-a"], HALF)
    assert driver.sets == 1
    driver.limits["GPU-a", "/cg/pod"] = 2 * HALF  # another program of root's
    limit_memory(driver, "/cg/pod", ["GPU-a"], HALF)
    assert (driver.sets, driver.limits["GPU-a", "/cg/pod"]) == (2, HALF)


def test_a_driver_that_was_loaded_again_gets_the_limit_again() -> None:
    driver = MemoryDriver()
    limit_memory(driver, "/cg/pod", ["GPU-a"], HALF)
    driver.limits.clear()
    limit_memory(driver, "/cg/pod", ["GPU-a"], HALF)
    assert driver.limits == {("GPU-a", "/cg/pod"): HALF}


def test_a_driver_that_reads_no_limit_before_one_is_set_is_given_one() -> None:
    class Silent(MemoryDriver):
        def nvmlDeviceGetMemoryLimits_v1(self, board: str, limits: fake.MemoryLimits) -> None:  # noqa: N802
            if (board, limits.nameSpace.decode()) not in self.limits:
                raise fake.DriverError(fake.NOT_FOUND)
            super().nvmlDeviceGetMemoryLimits_v1(board, limits)

    driver = Silent()
    limit_memory(driver, "/cg/pod", ["GPU-a"], HALF)
    assert driver.limits == {("GPU-a", "/cg/pod"): HALF}


@pytest.mark.parametrize(
    ("driver", "group", "gpus", "why"),
    [
        (library(), "/cg/pod", BOTH, "the library of the driver has no such limits"),
        (
            MemoryDriver(fails={"set": fake.FUNCTION_NOT_FOUND, "get": fake.FUNCTION_NOT_FOUND}),
            "/cg/pod",
            BOTH,
            "13",
        ),
        (
            MemoryDriver(fails={"set": fake.NOT_SUPPORTED, "get": fake.NOT_SUPPORTED}),
            "/cg/pod",
            BOTH,
            "error 3",
        ),
        (MemoryDriver(fails={"set": fake.NO_PERMISSION}), "/cg/pod", BOTH, "error 4"),
        (MemoryDriver(fails={"handle": fake.GPU_IS_LOST}), "/cg/pod", BOTH, "error 15"),
        (MemoryDriver(fails={"handle": fake.DRIVER_NOT_LOADED}), "/cg/pod", BOTH, "error 9"),
        (MemoryDriver(gpus={"GPU-a"}), "/cg/pod", BOTH, "error 6"),
        (MemoryDriver(groups=set()), "/cg/pod", BOTH, "error 6"),
        (MemoryDriver(mig={"GPU-b"}), "/cg/pod", BOTH, "error 3"),
        (MemoryDriver(), "/cg/pod", ["GPU-a", ""], "whole GPUs of NVIDIA only"),
        (MemoryDriver(), "/cg/pod", [], "whole GPUs of NVIDIA only"),
        (MemoryDriver(), "", BOTH, "no group of cgroup v2"),
        (MemoryDriver(most=1), "/cg/pod", BOTH, "error 23"),
        (MemoryDriver(reads=2 * HALF), "/cg/pod", BOTH, "another limit"),
        (MemoryDriver(reads=fake.UNLIMITED), "/cg/pod", BOTH, "another limit"),
        (MemoryDriver(reads=0), "/cg/pod", BOTH, "another limit"),
        (MemoryDriver(fails={"get": fake.GPU_IS_LOST}), "/cg/pod", BOTH, "another limit"),
    ],
    ids=[
        *(
            "function absent in the library",
            "function absent in the driver",
            "not supported",
            "no permission",
        ),
        *("gpu lost", "driver unloaded", "gpu gone", "group gone", "MIG mode", "MIG instance", "no gpu"),
        *(
            "no cgroup v2",
            "too many limits",
            "larger read back",
            "none read back",
            "zero read back",
            "lost after",
        ),
    ],
)
def test_what_was_not_read_back_as_set_is_not_limited(
    driver: Any, group: str, gpus: list[str], why: str
) -> None:
    with pytest.raises(NotLimited, match=why):
        limit_memory(driver, group, gpus, HALF)


def test_a_share_below_a_page_isnt_called_limited_by_a_driver_without_limits() -> None:
    """It is rounded to 0, which an answer might begin with."""
    without = MemoryDriver(fails=dict.fromkeys(("set", "get"), fake.FUNCTION_NOT_FOUND))
    for driver in (without, MemoryDriver(fails={"get": fake.NO_PERMISSION})):
        with pytest.raises(NotLimited):
            limit_memory(driver, "/cg/pod", ["GPU-a"], 1 << 20)


def test_memory_taken_before_the_limit_isnt_limited() -> None:
    with pytest.raises(NotLimited, match="more memory was in use already"):
        limit_memory(MemoryDriver(used=HALF + 1), "/cg/pod", ["GPU-a"], HALF)
    limit_memory(MemoryDriver(used=HALF), "/cg/pod", ["GPU-a"], HALF)

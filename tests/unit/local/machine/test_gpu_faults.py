# ruff: noqa: N802, N815 - the names are the driver's
"""Faults that NVIDIA's driver may report, on a driver that a test controls."""

from types import SimpleNamespace
from typing import Any

import pytest

from weir.local.machine.gpu_faults import FaultWatch


class Refused(Exception):
    """An error of the driver, with its number."""

    def __init__(self, value: int = 3) -> None:  # NVML_ERROR_NOT_SUPPORTED
        super().__init__(value)
        self.value = value


class Driver:
    """Two GPUs; what each reports is in `state`, and events wait in `events`."""

    NVMLError = Refused
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 1, 0
    nvmlEventTypeXidCriticalError = 8

    def __init__(self, **state: Any) -> None:
        self.state = state
        self.events: list[SimpleNamespace] = []
        self.registered: list[str] = []

    def _of(self, handle: str, name: str) -> Any:
        value = self.state.get(name, {}).get(handle, Refused())
        if isinstance(value, Exception):
            raise value
        return value

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> object:
        return self.state.get("memory", {}).get(handle) and self._of(handle, "memory")

    def nvmlDeviceGetTotalEccErrors(self, handle: str, kind: int, counter: int) -> int:
        return self._of(handle, "ecc")

    def nvmlDeviceGetRemappedRows(self, handle: str) -> tuple[int, int, bool, bool]:
        return self._of(handle, "rows")

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return f"UUID-{handle}"

    def nvmlEventSetCreate(self) -> str:
        if self.state.get("no_events"):
            raise Refused
        return "set"

    def nvmlDeviceRegisterEvents(self, handle: str, kind: int, events: str) -> None:
        if handle in self.state.get("unregistered", ()):
            raise Refused
        self.registered.append(handle)

    def nvmlEventSetWait_v2(self, events: str, timeout_ms: int) -> SimpleNamespace:
        if not self.events:
            raise Refused(10)  # NVML_ERROR_TIMEOUT
        return self.events.pop(0)


HANDLES = {0: "a", 1: "b"}


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ({}, None),
        ({"no_events": True}, None),
        ({"ecc": {"b": 0}, "rows": {"b": (1, 1, True, False)}}, None),
        ({"memory": {"b": Refused(15)}}, "it has fallen off the bus"),
        ({"memory": {"b": Refused(16)}}, "it needs a reset"),
        ({"memory": {"b": Refused(999)}}, None),
        ({"ecc": {"b": 1}}, "1 uncorrectable memory error"),
        ({"ecc": {"b": 12}}, "12 uncorrectable memory errors"),
        (
            {"ecc": {"b": 0}, "rows": {"b": (0, 3, False, True)}},
            "a damaged row of its memory couldn't be replaced",
        ),
        (
            {"rows": {"b": (0, 3, False, True)}, "no_events": True},
            "a damaged row of its memory couldn't be replaced",
        ),
    ],
)
def test_only_the_faulty_gpu_is_reported(state: dict[str, Any], fault: str | None) -> None:
    assert FaultWatch(Driver(**state), HANDLES).faults() == ({} if fault is None else {1: fault})


def test_grave_events_stay_and_mistakes_of_programs_do_not_count() -> None:
    driver = Driver(unregistered=("a",))
    watch = FaultWatch(driver, HANDLES)
    assert watch.faults() == {}
    assert driver.registered == ["b"]
    driver.events += [SimpleNamespace(device="b", eventData=xid) for xid in (13, 31, 43)]
    assert watch.faults() == {}
    driver.events.append(SimpleNamespace(device="b", eventData=79))
    assert watch.faults() == watch.faults() == {1: "it has fallen off the bus (Xid 79)"}


def test_an_event_of_another_gpu_changes_nothing() -> None:
    driver = Driver()
    driver.events.append(SimpleNamespace(device="other", eventData=48))
    assert FaultWatch(driver, HANDLES).faults() == {}


def test_instances_of_a_gpu_share_its_faults() -> None:
    driver = Driver(ecc={"a": 2})
    assert set(FaultWatch(driver, {0: "a", 1: "a", 2: "b"}).faults()) == {0, 1}

"""Processes on the GPUs that the pool didn't start."""

import os
import pwd
import subprocess
from collections.abc import Iterator

import pytest

from weir.local.machine.devices import DeviceActivity
from weir.local.usage import foreign_usage
from weir.local.usage.foreign_usage import ForeignProcess, foreign_processes

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    monkeypatch.setattr(foreign_usage, "AGE_S_MIN", 0.0)
    env = {**os.environ, "WEIR_POD_DIRECTORY": "/home/pods/1/1-0-0"}
    with subprocess.Popen(["sleep", "600"], env=env) as found:
        while foreign_usage._program(found.pid) != "sleep":
            pass
        yield found
        found.kill()


def test_a_process_of_others_is_named_with_its_person(process: subprocess.Popen[bytes]) -> None:
    doing = [DeviceActivity(0), DeviceActivity(2, memory_of={process.pid: 200})]
    (found,) = foreign_processes(doing, (), ())
    assert found == ForeignProcess(2, process.pid, ME, "sleep")
    assert found.sentence == f"sleep of {ME} (pid {process.pid}), outside Weir"


def test_processes_of_pods_are_not_foreign(process: subprocess.Popen[bytes]) -> None:
    doing = [DeviceActivity(0, memory_of={process.pid: 200})]
    assert foreign_processes(doing, {process.pid}, ()) == ()
    assert foreign_processes(doing, (), {"/home/pods/1/1-0-0"}) == (), "exec runs beside a pod"
    assert len(foreign_processes(doing, (), {"/home/pods/1/2-0-0"})) == 1


def test_young_processes_and_those_of_another_namespace_are_not_judged(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = 2**22 + 5  # above the largest number there can be
    assert (
        foreign_processes(
            [DeviceActivity(0, memory_of={process.pid: 1}), DeviceActivity(1, memory_of={gone: 1})], (), ()
        )
        == ()
    )
    monkeypatch.setattr(foreign_usage, "AGE_S_MIN", 3600.0)
    assert foreign_processes([DeviceActivity(0, memory_of={process.pid: 1})], (), ()) == ()

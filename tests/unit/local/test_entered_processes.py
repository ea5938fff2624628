"""Processes that came into the control groups of a pod from outside: they are the pod's, and are told apart."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.local.usage.gpu_sampling import UtilizationSampler

from .harness import Rig, python, until


@pytest.fixture
def grouped(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path / "home", control_groups=True)
    try:
        if not rig.machine.groups:
            pytest.skip("no control groups can be made here")
        yield rig
    finally:
        rig.close()


def test_an_entered_process_counts_for_its_pod_and_for_no_other(grouped: Rig) -> None:
    first = grouped.run(*python("import time", "time.sleep(3600)"), name="first")
    grouped.run(*python("import time", "time.sleep(3600)"), name="second")
    sampler = UtilizationSampler(grouped.machine, grouped.backend.pods)
    until(lambda: all(each.processes for each in sampler.sample().pods))
    (run,) = (each for each in grouped.backend.pods() if each.place.pod == first)

    def entered() -> dict[str, tuple[int, ...]]:
        return {each.pod.place.pod.workload: each.entered for each in sampler.sample().pods}

    until(lambda: entered() == {"first": (), "second": ()})  # what starts a pod is in its group at first
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            for group in run.groups:
                Path(group[0], "cgroup.procs").write_text(str(process.pid))
            assert entered() == {"first": (process.pid,), "second": ()}

            def cores() -> dict[str, float]:
                return {each.pod.place.pod.workload: each.cores or 0.0 for each in sampler.sample().pods}

            until(lambda: cores()["first"] > 0.1)
            until(lambda: cores()["second"] < 0.1)  # its own start may be in the first sample
        finally:
            process.kill()
    until(lambda: entered() == {"first": (), "second": ()})

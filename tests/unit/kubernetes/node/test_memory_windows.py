"""Memory of GPUs by pod between two reports: what counts for whom, and when a GPU isn't watched."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from weir.kubernetes.node.memory_windows import UNSEEN_MAX, GpuMemory, MemoryWindows
from weir.kubernetes.node.pod_processes import pod_of_process
from weir.kubernetes.usage.node_reports import PodMemory

ONE, OTHER = "0a6b3d5e-0000-4000-8000-000000000001", "0a6b3d5e-0000-4000-8000-000000000002"
PODS = {1: ONE, 2: ONE, 3: OTHER, 4: ""}
GIB = 1 << 30


class Driver:
    def __init__(self, *gpus: GpuMemory) -> None:
        self.gpus = gpus

    def memories(self) -> Iterable[GpuMemory]:
        return self.gpus


def gpu(processes: Mapping[int, int] | None, number: int = 0, unseen: int = 0) -> GpuMemory:
    return GpuMemory(number, unseen + sum((processes or {}).values()), processes)


def taken(*samples: Driver) -> tuple[list[int], list[PodMemory]]:
    windows = MemoryWindows(PODS.get)
    for each in samples:
        windows.sample(each)
    return windows.take()


def test_the_memory_of_a_pod_is_that_of_its_processes_at_their_highest() -> None:
    first = Driver(gpu({1: 3 * GIB, 2: GIB, 3: GIB, 4: 9 * GIB}), gpu({3: GIB}, number=1))
    watched, memory = taken(first, Driver(gpu({1: GIB, 3: 2 * GIB}), gpu({}, number=1)))
    assert watched == [0, 1]
    assert sorted(memory, key=lambda each: (each.number, each.uid)) == [
        PodMemory(ONE, 0, 4 * GIB),
        PodMemory(OTHER, 0, 2 * GIB),
        PodMemory(OTHER, 1, GIB),
    ]


def test_each_report_begins_with_nothing() -> None:
    windows = MemoryWindows(PODS.get)
    windows.sample(Driver(gpu({1: GIB})))
    assert windows.take() == ([0], [PodMemory(ONE, 0, GIB)])
    assert windows.take() == ([], [])


@pytest.mark.parametrize(
    "incomplete",
    [
        gpu(None),
        GpuMemory(0, None, {1: GIB}),
        gpu({1: GIB}, unseen=UNSEEN_MAX + 1),
        gpu({1: GIB, 99: UNSEEN_MAX + 1}),  # a process of another namespace
    ],
)
def test_a_gpu_whose_memory_isnt_all_known_is_not_watched(incomplete: GpuMemory) -> None:
    assert taken(Driver(gpu({1: GIB})), Driver(incomplete), Driver(gpu({1: GIB}))) == ([], [])


def test_the_drivers_own_memory_and_an_ended_process_leave_a_gpu_watched() -> None:
    watched, memory = taken(Driver(gpu({1: GIB, 99: GIB}, unseen=GIB)))
    assert (watched, memory) == ([0], [PodMemory(ONE, 0, GIB)])


@pytest.mark.parametrize(
    "group",
    [
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{ONE.replace('-', '_')}.slice/cri-1.scope",
        f"0::/../../kubepods-pod{ONE.replace('-', '_')}.slice/crio-ab.scope",
        f"0::/kubepods/besteffort/pod{ONE}/ab",
        f"12:pids:/\n4:memory:/node/kubepods/burstable/pod{ONE}/ab\n0::/\n",
        f"0::/kubepods/pod{ONE}/ab/pod{OTHER}/cd",  # a group that the container has made
    ],
)
def test_the_control_group_of_a_process_names_its_pod(tmp_path: Path, group: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(group)
    assert pod_of_process(7, tmp_path) == ONE


@pytest.mark.parametrize(
    "group", ["0::/", "", "0::/system.slice/kubelet.service", "0::/podman/libpod-12.scope"]
)
def test_a_process_outside_of_pods_is_of_none(tmp_path: Path, group: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(group)
    assert pod_of_process(7, tmp_path) == ""
    assert pod_of_process(8, tmp_path) is None

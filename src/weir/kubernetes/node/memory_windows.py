"""Memory of GPUs by pod, over the time between two reports.

A GPU is watched if every sample of it was complete: each process is known, and together they use nearly all
of the memory in use. In a container that doesn't see the node's processes, the driver reports none of them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from weir.kubernetes.node.pod_processes import NOT_OF_A_POD
from weir.kubernetes.usage.node_reports import MEMORY_MAX, PodMemory

UNSEEN_MAX = 2 << 30
"""Bytes that no process accounts for: the driver keeps some hundred MiB of each GPU for itself."""
GpuNumber = int


class GpuMemory(NamedTuple):
    """Memory of a GPU in use, all of it and by process; None: the driver doesn't report it."""

    number: GpuNumber
    used: int | None
    of_processes: Mapping[int, int] | None


class MemoryDriver(Protocol):
    """The driver of the node's GPUs."""

    def memories(self) -> Iterable[GpuMemory]:
        """Return the memory of each GPU that isn't partitioned."""
        ...


class MemoryWindows:
    """Highest use of memory since the last report."""

    def __init__(self, pod_of: Callable[[int], str | None]) -> None:
        self._pod_of = pod_of
        self._peaks: dict[tuple[str, GpuNumber], int] = {}
        self._watched: set[GpuNumber] = set()
        self._missed: set[GpuNumber] = set()

    def sample(self, driver: MemoryDriver) -> None:
        """Add a sample of every GPU."""
        for gpu in driver.memories():
            by_pod = self._by_pod(gpu)
            if by_pod is None:
                self._missed.add(gpu.number)
                continue
            self._watched.add(gpu.number)
            for pod, used in by_pod.items():
                key = pod, gpu.number
                self._peaks[key] = max(self._peaks.get(key, 0), used)

    def take(self) -> tuple[list[GpuNumber], list[PodMemory]]:
        """Return the watched GPUs and the highest memory of pods on them, and start a new window."""
        watched, peaks = self._watched - self._missed, self._peaks
        self._watched, self._missed, self._peaks = set(), set(), {}
        largest = sorted(
            (PodMemory(pod, number, used) for (pod, number), used in peaks.items() if number in watched),
            key=lambda memory: -memory.used,
        )
        return sorted(watched), largest[:MEMORY_MAX]

    def _by_pod(self, gpu: GpuMemory) -> dict[str, int] | None:
        """Return the memory of each pod; None if a part of it can't be attributed."""
        if gpu.used is None or gpu.of_processes is None:
            return None
        by_pod: defaultdict[str, int] = defaultdict(int)
        seen = 0
        for process, used in gpu.of_processes.items():
            pod = self._pod_of(process)
            if pod is not None:
                seen += used
                by_pod[pod] += used
        by_pod.pop(NOT_OF_A_POD, None)
        return by_pod if gpu.used - seen <= UNSEEN_MAX else None

"""Limits of the driver for GPU memory of pods that share GPUs: set at their start, and read at intervals.

Anyone with the rights of root can change a limit, and a driver that is loaded again forgets it. So the node
process sets and reads every limit again at short intervals. A limit counts if the last answer says so.
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from weir.local.machine.local_node import LocalNode
from weir.local.node.orders import GpuMemoryOrder
from weir.local.pods.running_pods import LocalWorkload, RunningPod
from weir.local.processes.fd_watcher import FdWatcher
from weir.local.processes.node_client import NodeClient

EVERY_S = 30.0
"""Interval of looks. Each costs a process that opens the driver, for each pod that shares a GPU."""
AFTER_START_S = 1.0
"""Time after a start at which its limits are read for the first time."""
_NOT_RUNNING = "it doesn't run"
_NO_ANSWER = "the driver hasn't answered yet"
_PERSONAL = "only an installed pool can limit it"


@dataclass(slots=True)
class _State:
    """Outcome of the last order for a start. `why_not`: why its memory isn't limited; empty if it is."""

    why_not: str = _NO_ANSWER
    asked: bool = False  # True: the last order has no answer yet


class GpuMemoryLimits:
    """Sets the GPU memory limits of the starts in `running`, which `lock` guards."""

    def __init__(
        self,
        node: LocalNode,
        watch: FdWatcher,
        lock: threading.Lock,
        running: Mapping[str, RunningPod],
        workloads: Mapping[str, LocalWorkload],
    ) -> None:
        self._node = node
        self._watch = watch
        self._lock = lock
        self._running = running
        self._workloads = workloads
        self._client: NodeClient | None = None
        self._states: dict[str, _State] = {}

    def connect(self, client: NodeClient) -> None:
        """Use this node process, which has root's rights, to set and read limits from now on."""
        on_forked = client.on_forked

        def on_started(name: str, process: int | None, refused: str) -> None:
            on_forked(name, process, refused)
            self._watch.later(AFTER_START_S, lambda: self.look([name]))

        self._client, client.on_forked, client.on_memory_limited = client, on_started, self.on_answer
        self._watch.later(EVERY_S, self._look)

    def on_recovered(self) -> None:
        """Read the limits of all starts soon, because none were read while the server was down."""
        if self._client is not None:
            self._watch.later(AFTER_START_S, lambda: self.look(list(self._running)))

    def on_answer(self, name: str, refused: str) -> None:
        """Take note of an answer of the node process. `refused`: why the memory isn't limited."""
        with self._lock:
            if name in self._running:
                self._states[name] = _State(refused)

    def look(self, names: Collection[str]) -> None:
        """Request the limits of starts. A start without an answer to the last request counts as unlimited."""
        orders: list[GpuMemoryOrder] = []
        with self._lock:
            self._states = {name: state for name, state in self._states.items() if name in self._running}
            for name in names:
                run = self._running.get(name)
                if run is None or run.process < 0 or not (memory := self._memory_of(run)):
                    continue
                state = self._states.setdefault(name, _State())
                if state.asked:
                    state.why_not = _NO_ANSWER
                state.asked = True
                orders.append(GpuMemoryOrder(name, tuple(run.place.devices), memory))
        assert self._client is not None
        for order in orders:
            self._client.limit_gpu_memory(order)

    def why_not(self, workload: str, foreign: Collection[int]) -> str:
        """Return why others may use a workload's part of its GPUs' memory; empty if the driver prevents it.

        `foreign`: GPUs with processes outside the pool. Each pod on a GPU of the workload needs a limit.
        """
        if self._client is None:
            return _PERSONAL
        with self._lock:
            own = {name for name, run in self._running.items() if run.place.pod.workload == workload}
            devices = {device for name in own for device in self._running[name].place.devices}
            if not devices:
                return _NOT_RUNNING
            if devices & set(foreign):
                return "a process outside the pool uses its GPU"
            near = [name for name, run in self._running.items() if devices & set(run.place.devices)]
            for name in sorted(near, key=lambda name: name not in own):
                run = self._running[name]
                why_not = self._states[name].why_not if name in self._states else _NO_ANSWER
                if self._memory_of(run) and why_not:
                    return why_not if name in own else f"another job on its GPU isn't limited: {why_not}"
        return ""

    def _look(self) -> None:
        self.look(list(self._running))
        self._watch.later(EVERY_S, self._look)

    def _memory_of(self, run: RunningPod) -> int:
        """Return the bytes that a pod may use of each of its GPUs; 0 if it shares none."""
        local_workload = self._workloads.get(run.place.pod.workload)
        if local_workload is None or local_workload.launch.uid != run.uid:
            return 0
        request = local_workload.workload.groups[run.place.pod.group].request
        return self._node.machine.gpu_memory_limit(request, tuple(run.place.devices))

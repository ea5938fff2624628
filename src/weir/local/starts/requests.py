"""Requests to start pods: each is repeated when the node process that should have answered is gone."""

import threading
from collections.abc import Mapping

from weir.local.files import secret_files
from weir.local.machine.local_node import LocalNode
from weir.local.node.orders import StartOrder
from weir.local.pods.running_pods import LocalWorkload, RunningPod
from weir.local.processes.fd_watcher import FdWatcher
from weir.local.processes.node_client import NodeClient, NodeLink
from weir.local.records.state_dir import StateDir
from weir.local.starts.user_limits import user_rlimits

_OPEN_MAX = 64
"""Number of starts requested from a new node process before its answers are read."""


class StartRequests:
    """Asks the node process for the starts in `running`, which `lock` guards."""

    def __init__(
        self,
        home: StateDir,
        node: LocalNode,
        watch: FdWatcher,
        lock: threading.Lock,
        running: Mapping[str, RunningPod],
        workloads: Mapping[str, LocalWorkload],
    ) -> None:
        self._home = home
        self._node = node
        self._watch = watch
        self._lock = lock
        self._running = running
        self._workloads = workloads

    def connect(self, link: NodeLink) -> NodeClient:
        """Connect to the node process."""
        self._client = NodeClient(link, self._watch, self._repeat)
        return self._client

    def request(self, run: RunningPod, local_workload: LocalWorkload) -> None:
        """Have the node process start a pod whose spec is written."""
        workload, launch, place = local_workload.workload, local_workload.launch, run.place
        request = workload.groups[place.pod.group].request
        machine, shared = self._node.machine, self._home.shared
        order = StartOrder(
            self._home.start_name(run.directory),
            workload.user if shared else "",
            place.devices,
            machine.limits_of(request)._replace(
                gpu_memory=machine.gpu_memory_limit(request, place.devices) if shared else 0
            ),
            user_rlimits(workload.user) if shared else (),
        )
        file = secret_files.file_of(str(self._home.path), workload.project)
        self._client.start(order, run.directory, (file, dict(launch.secrets)) if launch.secrets else None)

    def _repeat(self) -> None:
        """Repeat unanswered requests. A start that has a supervisor, or is over, ignores them."""
        with self._lock:
            unanswered = [run for run in self._running.values() if run.process < 0]
        for start in range(0, len(unanswered), _OPEN_MAX):
            some = unanswered[start : start + _OPEN_MAX]
            self._watch.later(0, lambda some=some: self._repeat_some(some))  # type: ignore[misc]

    def _repeat_some(self, runs: list[RunningPod]) -> None:
        for run in runs:
            local_workload = self._workloads.get(run.place.pod.workload)
            if run.process < 0 and local_workload is not None and local_workload.launch.uid == run.uid:
                self.request(run, local_workload)

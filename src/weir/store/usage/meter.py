"""Metering: the usage of everything, integrated exactly between changes.

Allocation isn't sampled: a job holds its devices from one event to another, be it a second or a day. Only
utilization is measured, and each reading counts for the time since the one before.
"""

from collections.abc import Callable
from threading import Lock

from weir.control.outbox import EventObserver
from weir.model.activity import Activity
from weir.model.resources import GPU, UNLIMITED
from weir.state.cluster import Cluster
from weir.state.events import (
    Event,
    PodAssigned,
    PodKey,
    PodStopped,
    PodStopping,
    WorkloadEnded,
    WorkloadSubmitted,
    WorkloadSuspended,
)
from weir.state.shapes import GPU_ROW
from weir.store.records import DeviceUsageSample, UsageSample, UsageSamples, WorkloadUsageSample
from weir.store.usage.counters import (
    MILLI,
    STATES,
    DeviceCounter,
    Group,
    MeteredWorkload,
    NodeCounter,
    PendingTimer,
    ProjectCounter,
)


class UsageMeter(EventObserver):
    """A reader of control: attach it to `Control(readers=...)`, and `take` from it every minute.

    Events come from the control thread; use and `take` may come from any. Over quota is what a project
    holds above its gpu quota, spread over its preemptible workloads in proportion. A workload waits while
    it holds nothing and isn't held back (suspended, backing off).
    """

    def __init__(self, uid_of: Callable[[str], int | None]) -> None:
        """Create a meter. `uid_of` returns the number of a live workload; called once, at submission."""
        self._uid_of = uid_of
        self._cluster: Cluster | None = None
        self._since_s = 0.0
        self._projects: dict[str, ProjectCounter] = {}
        self._workloads: dict[str, MeteredWorkload] = {}
        self._node_usages: dict[tuple[str, str], NodeCounter] = {}
        self._over: list[NodeCounter] = []  # counters of workloads that ended since the last take
        self._pods: dict[PodKey, tuple[NodeCounter, int, tuple[int, ...]]] = {}
        self._devices: dict[tuple[str, int], DeviceCounter] = {}
        self._waiting: dict[Group, PendingTimer] = {}
        self._lock = Lock()
        self.handlers = {
            WorkloadSubmitted: self._submitted,
            WorkloadSuspended: self._suspended,
            WorkloadEnded: self._ended,
            PodAssigned: self._assigned,
            PodStopping: self._stopping,
            PodStopped: self._stopped,
        }

    def watch(self, cluster: Cluster, since_s: float) -> None:
        """Meter this cluster; call it after `Control` is created and before its first step.

        Usage before `since_s` isn't counted. Pass `UsageTables.sampled_s()` if there is one, so that work
        which went on while the server was away is counted once.
        """
        self._cluster = cluster
        self._since_s = since_s

    def happened(self, event: Event) -> None:
        """Handle an event that was just reduced."""
        if type(event) in self.handlers:
            with self._lock:
                super().happened(event)

    def used(
        self, workload: str, node: str, fraction: float, at_s: float, state: Activity | None = None
    ) -> None:
        """Add utilization: the fraction of a workload's devices on a node used since the last call.

        `state`: the state of the workload in that time; None if it isn't certain.
        """
        with self._lock:
            node_usage = self._node_usages.get((workload, node))
            if node_usage is not None and at_s > node_usage.seen_s:
                seen = node_usage.milli * (at_s - node_usage.seen_s)
                node_usage.seen_s = at_s
                node_usage.seen += seen
                node_usage.used += seen * min(1.0, max(0.0, fraction))
                if state is not None:
                    node_usage.states[state] = node_usage.states.get(state, 0.0) + seen

    def device_used(self, node: str, device: int, fraction: float, memory: int, at_s: float) -> None:
        """Record the fraction of a device used since the last call, and its memory in use."""
        with self._lock:
            counter = self._device(node, device)
            if at_s > counter.seen_s:
                seen = MILLI * (at_s - counter.seen_s)
                counter.seen_s = at_s
                counter.seen += seen
                counter.used += seen * min(1.0, max(0.0, fraction))
            counter.memory_max = max(counter.memory_max, memory)

    def take(self, now_s: float) -> UsageSamples:
        """Return the usage since the last call, for `Store.sample`."""
        with self._lock:
            since_s, self._since_s = self._since_s, max(now_s, self._since_s)
            return self._taken(since_s, self._since_s)

    def _taken(self, since_s: float, now_s: float) -> UsageSamples:
        for name, project in self._projects.items():
            project.advance(now_s, self._quota(name))
        node_usages, self._over = [*self._over, *self._node_usages.values()], []
        uses: dict[tuple[Group, str], list[float]] = {}
        preempted: dict[tuple[Group, str], int] = {}
        by_workload = []
        for node_usage in node_usages:
            workload, key = node_usage.workload, (node_usage.workload.group, node_usage.node)
            node_usage.advance(now_s, self._projects[workload.group[0]].over_s)
            sums = [
                value / MILLI
                for value in (
                    *(node_usage.allocated, node_usage.seen, node_usage.used, node_usage.over),
                    *(node_usage.states.get(state, 0.0) for state in STATES),
                )
            ]
            into = uses.setdefault(key, [0.0] * len(sums))
            uses[key] = [before + value for before, value in zip(into, sums, strict=True)]
            preempted[key] = preempted.get(key, 0) + node_usage.preempted
            if workload.uid is not None and any(sums):
                by_workload.append(WorkloadUsageSample(workload.uid, node_usage.node, *sums[:4]))
            node_usage.clear()
        self._node_usages = {
            key: node_usage for key, node_usage in self._node_usages.items() if node_usage.milli
        }
        samples = [
            UsageSample(
                *group,
                node,
                allocated_gpu_s=sums[0],
                seen_gpu_s=sums[1],
                used_gpu_s=sums[2],
                over_quota_gpu_s=sums[3],
                preempted=preempted[group, node],
                working_gpu_s=sums[4],
                starved_gpu_s=sums[5],
                parked_gpu_s=sums[6],
                left_gpu_s=sums[7],
            )
            for (group, node), sums in uses.items()
            if any(sums) or preempted[group, node]
        ]
        return UsageSamples(
            since_s, now_s, [*samples, *self._waited(now_s)], by_workload, self._of_devices(now_s)
        )

    def _waited(self, now_s: float) -> list[UsageSample]:
        samples = []
        for group, waiting in list(self._waiting.items()):
            waiting.advance(now_s)
            if waiting.waited_s:
                samples.append(UsageSample(*group, "", waiting_s=waiting.waited_s))
            waiting.waited_s = 0.0
            if not waiting.count:
                del self._waiting[group]
        return samples

    def _of_devices(self, now_s: float) -> list[DeviceUsageSample]:
        samples = []
        for (node, index), device in self._devices.items():
            device.advance(now_s)
            if device.allocated or device.seen:
                samples.append(
                    DeviceUsageSample(
                        node,
                        index,
                        device.allocated / MILLI,
                        device.seen / MILLI,
                        device.used / MILLI,
                        device.memory_max,
                    )
                )
            device.clear()
        return samples

    # Events

    def _submitted(self, event: WorkloadSubmitted) -> None:
        spec = event.workload
        cluster = self._watched_cluster()
        position = cluster.ledger.position.get(spec.project)
        parent = None if position is None else cluster.ledger.queues[position].parent
        group = (spec.project, parent or "", spec.user, spec.type.value)
        workload = self._workloads[spec.name] = MeteredWorkload(
            self._uid_of(spec.name), group, spec.preemptible
        )
        self._wait(workload, event.at_s)

    def _suspended(self, event: WorkloadSuspended) -> None:
        workload = self._workloads.get(event.workload)
        if workload is not None:
            workload.inactive = event.suspended
            self._wait(workload, self._watched_cluster().now_s)

    def _ended(self, event: WorkloadEnded) -> None:
        workload = self._workloads.pop(event.workload, None)
        if workload is None:
            return
        for pod in [pod for pod in self._pods if pod.workload == event.workload]:
            self._free(pod, event.at_s)
        for key in [key for key in self._node_usages if key[0] == event.workload]:
            self._over.append(self._node_usages.pop(key))
        workload.inactive = True
        self._wait(workload, event.at_s)

    def _assigned(self, event: PodAssigned) -> None:
        place, at_s = event.place, max(event.at_s, self._since_s)
        name = place.pod.workload
        workload = self._workloads.get(name)
        if workload is None or place.pod in self._pods:
            return
        job = self._watched_cluster().jobs[name]
        milli = dict(job.pods[place.pod.group][place.pod.index].amounts).get(GPU_ROW, 0)
        node_usage = self._node_usages.get((name, place.node))
        if node_usage is None:
            node_usage = self._node_usages[name, place.node] = NodeCounter(workload, place.node, at_s)
            node_usage.mark_s = self._project(workload, at_s).over_s
        if not node_usage.milli:
            node_usage.seen_s = max(node_usage.seen_s, at_s)
        self._change(node_usage, milli, at_s)
        self._pods[place.pod] = (node_usage, milli, place.devices)
        for index in place.devices:
            device = self._device(place.node, index)
            device.advance(at_s)
            device.milli += milli / len(place.devices)
        workload.pods += 1
        workload.preempted = False
        self._wait(workload, at_s)

    def _stopping(self, event: PodStopping) -> None:
        held_pod = self._pods.get(event.pod)
        if event.cause is not None and held_pod is not None and not held_pod[0].workload.preempted:
            held_pod[0].workload.preempted = True
            held_pod[0].preempted += 1

    def _stopped(self, event: PodStopped) -> None:
        workload = self._workloads.get(event.pod.workload)
        if workload is not None and event.pod in self._pods:
            self._free(event.pod, event.at_s)
            self._wait(workload, event.at_s)

    # Helpers

    def _watched_cluster(self) -> Cluster:
        assert self._cluster is not None, "call watch() first"
        return self._cluster

    def _quota(self, project: str) -> int:
        ledger = self._watched_cluster().ledger
        position = ledger.position.get(project)
        return UNLIMITED if position is None else ledger.queues[position].quota.get(GPU, UNLIMITED)

    def _project(self, workload: MeteredWorkload, at_s: float) -> ProjectCounter:
        name = workload.group[0]
        project = self._projects.get(name)
        if project is None:
            project = self._projects[name] = ProjectCounter(at_s)
        project.advance(at_s, self._quota(name))
        return project

    def _device(self, node: str, index: int) -> DeviceCounter:
        device = self._devices.get((node, index))
        if device is None:
            device = self._devices[node, index] = DeviceCounter(self._since_s)
        return device

    def _change(self, node_usage: NodeCounter, milli: int, at_s: float) -> None:
        """Change the usage of a workload on a node."""
        project = self._project(node_usage.workload, at_s)
        node_usage.advance(at_s, project.over_s)
        node_usage.milli += milli
        project.milli += milli
        if node_usage.workload.preemptible:
            project.preemptible_milli += milli

    def _free(self, pod: PodKey, at_s: float) -> None:
        node_usage, milli, devices = self._pods.pop(pod)
        at_s = max(at_s, self._since_s)
        self._change(node_usage, -milli, at_s)
        node_usage.workload.pods -= 1
        for index in devices:
            device = self._device(node_usage.node, index)
            device.advance(at_s)
            device.milli -= milli / len(devices)

    def _wait(self, workload: MeteredWorkload, at_s: float) -> None:
        """Begin or end its pending time now."""
        waits = not workload.pods and not workload.inactive
        if waits == workload.waits:
            return
        workload.waits = waits
        at_s = max(at_s, self._since_s)
        waiting = self._waiting.get(workload.group)
        if waiting is None:
            waiting = self._waiting[workload.group] = PendingTimer(at_s)
        waiting.advance(at_s)
        waiting.count += 1 if waits else -1

"""A workload while it isn't over, as the view keeps it, and the row people see of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weir.api.answers import EvictionRow, Explanation, PodRow, Status, WorkloadRow
from weir.api.workload_list import ActivityRow
from weir.control.activity import ActivityReading
from weir.control.journal import ArrayMember, WorkloadRecord
from weir.control.port import NOT_IDLE, EndWorkload, IdleProgress
from weir.model.reasons import Reason, ReasonCode, suspension_reason
from weir.model.resources import end_clause
from weir.model.workloads import WHOLE_MILLI, Workload
from weir.service.pending_reasons import explanation
from weir.state.events import Placement, PodKey, WorkloadOutcome
from weir.store.records import WorkloadFilter


@dataclass(slots=True)
class WorkloadView:
    """A workload while it isn't over."""

    uid: int
    spec: Workload
    devices: float
    submitted_s: float
    pods: dict[PodKey, PodRow] = field(default_factory=dict)  # pods that have a node
    past: dict[PodKey, PodRow] = field(default_factory=dict)  # pods that don't run now, with their last end
    started_s: float | None = None
    waits_since_s: float = 0.0
    saved_s: float | None = None
    ran_s: float = 0.0  # run time that it keeps
    wall_s: float = 0.0  # wall time of its ended runs
    first_started_s: float | None = None
    restarts: int = 0
    suspended: Reason | None = None  # reason why it may not start yet
    stopping: Explanation | None = None
    stopped_by: str = ""  # rule of the last eviction of all its pods
    lost_s: float = 0.0  # run time that this eviction lost
    evicted: EvictionRow | None = None
    ended: EndWorkload | None = None
    sweep: str | None = None  # its sweep, if it is a trial
    utilization: float | None = None  # last measured utilization of its devices
    used_gpu_s: float = 0.0  # GPU time in use since the server started
    idle_gpu_s: float = 0.0
    member: ArrayMember | None = None  # set on an index of an array
    activity: ActivityReading | None = None  # last measured activity of its processes and devices
    activity_since_s: float | None = None
    idle: IdleProgress = NOT_IDLE  # last stored progress
    idle_warning: str | None = None

    def begin(self, started_s: float) -> None:
        """Note that a run began."""
        self.started_s = started_s
        if self.first_started_s is None:
            self.first_started_s = started_s

    def place_pod(self, place: Placement, status: Status, at_s: float, start: int | None) -> None:
        """Record the node of a pod."""
        self.pods[place.pod] = PodRow.model_construct(
            name=self.pod_name(place.pod),
            status=status,
            node=place.node,
            devices=list(place.devices),
            start=start,
            since_s=at_s,
        )

    def change_pod(self, pod: PodKey, **changes: object) -> None:
        """Change fields of a pod that has a node."""
        self.pods[pod] = self.pods[pod].model_copy(update=changes)

    def pod_name(self, pod: PodKey) -> str:
        """Return the name of a pod: `workload/group/index`."""
        return f"{self.spec.name}/{self.spec.groups[pod.group].name}/{pod.index}"

    def add_activity(self, reading: ActivityReading, at_s: float) -> bool:
        """Process its activity; return True if people should see the change."""
        before, self.activity = self.activity, reading
        if before is None or before.state is not reading.state:
            self.activity_since_s = at_s - reading.quiet_s
        return before is None or (before.state, before.signals, before.quiet_devices) != (
            reading.state,
            reading.signals,
            reading.quiet_devices,
        )

    def add_progress(self, idle: IdleProgress) -> None:
        """Record its position on the idle ladder."""
        self.idle = idle
        if not idle.notices:
            self.idle_warning = None

    def add_utilization(self, fraction: float, devices: float, passed_s: float) -> None:
        """Add a measurement of its devices; the thread that measures calls it."""
        self.utilization = fraction
        self.used_gpu_s += fraction * devices * passed_s
        self.idle_gpu_s += (1.0 - fraction) * devices * passed_s

    @property
    def status(self) -> Status:
        """Return the status of the workload."""
        if self.ended is not None:
            return _HOW[self.ended.how]
        statuses = {pod.status for pod in self.pods.values()}
        order: tuple[Status, ...] = ("running", "starting", "stopping")
        return next((status for status in order if status in statuses), "pending")


_HOW: Mapping[WorkloadOutcome, Status] = {
    WorkloadOutcome.SUCCEEDED: "succeeded",
    WorkloadOutcome.FAILED: "failed",
    WorkloadOutcome.STOPPED: "stopped",
}


def without_place(pods: Mapping[PodKey, PodRow]) -> dict[PodKey, PodRow]:
    """Return the rows of pods without a node."""
    gone: dict[str, object] = {"status": "pending", "node": None, "devices": []}
    return {key: pod.model_copy(update=gone) for key, pod in pods.items()}


def by_uid(row: WorkloadRow) -> int:
    """Return the sort key of rows."""
    return row.uid


def workload_view(record: WorkloadRecord, devices: float) -> WorkloadView:
    """Return the view of a stored workload."""
    return WorkloadView(
        record.launch.uid,
        record.workload,
        devices,
        record.submitted_at_s,
        waits_since_s=record.submitted_at_s,
        saved_s=record.saved_s,
        ran_s=record.status.ran_s,
        wall_s=record.status.wall_s,
        first_started_s=record.status.first_started_s,
        restarts=record.status.restarts,
        suspended=_suspension(record.suspended),
        member=record.member,
        idle=record.status.idle,
        sweep=record.sweep,
    )


def workload_row(line: WorkloadView) -> WorkloadRow:
    """Return the row of a workload."""
    spec, ended, status = line.spec, line.ended, line.status
    nodes = list(dict.fromkeys(pod.node for pod in line.pods.values() if pod.node is not None))
    return WorkloadRow.model_construct(
        uid=line.uid,
        name=spec.name,
        project=spec.project,
        user=spec.user,
        type=spec.type.value,
        status=status,
        priority=spec.priority,
        preemptible=spec.preemptible,
        devices=line.devices,
        pods=spec.pods,
        pods_running=sum(pod.status == "running" for pod in line.pods.values()),
        submitted_s=line.submitted_s,
        first_started_s=line.first_started_s,
        started_s=line.started_s if ended is None else ended.started_s,
        ended_s=None if ended is None else ended.at_s,
        ran_s=line.wall_s,
        ran_before_s=line.wall_s,
        kept_s=line.ran_s,
        exit_code=None if ended is None else ended.exit_code,
        restarts=line.restarts,
        reason=_reason(line, status),
        evicted=line.evicted,
        nodes=nodes,
        array_uid=None if line.member is None else line.member.uid,
        index=None if line.member is None else line.member.index,
        sweep=line.sweep,
        activity=_activity(line),
    )


def _activity(line: WorkloadView) -> ActivityRow | None:
    if not line.pods or not line.devices or line.ended is not None:
        return None
    reading, idle = line.activity, line.idle
    return ActivityRow.model_construct(
        state=None if reading is None or reading.state is None else reading.state.value,
        since_s=None if reading is None else line.activity_since_s,
        signals=[] if reading is None else [signal.value for signal in reading.signals],
        quiet=[] if reading is None else list(reading.quiet_devices),
        warning=line.idle_warning,
        unprotected=line.spec.unprotected,
        extended_until_s=idle.excused_until_s,
    )


def gpus_held(line: WorkloadView) -> float:
    """Return the GPUs that the pods of a workload hold now."""
    held = 0.0
    for key, pod in list(line.pods.items()):
        request = line.spec.groups[key.group].request
        if request.gpu_memory:
            held += line.devices / max(1, line.spec.pods)
        else:
            held += len(pod.devices) * request.share_milli / WHOLE_MILLI
    return held


def with_runtime_until(row: WorkloadRow, now_s: float) -> WorkloadRow:
    """Return the row with the wall time of its current run, if any, up to now."""
    if row.started_s is None or row.ended_s is not None:
        return row
    ran_s = row.ran_before_s + max(0.0, now_s - row.started_s)
    return row.model_copy(update={"ran_s": ran_s})


def _suspension(why: str | None) -> Reason | None:
    return None if why is None else suspension_reason(ReasonCode.SUSPENDED, why)


def _reason(line: WorkloadView, status: Status) -> Explanation | None:
    if line.ended is not None:
        end, how = line.ended, line.ended.how.value
        ran_s = None if end.first_started_s is None else end.wall_s
        clause = end_clause(line.spec.name, how, end.at_s - line.submitted_s, ran_s)
        return Explanation(why=how, sentence=end.sentence or f"{clause}.")
    if status == "stopping":
        return line.stopping
    if status == "pending" and line.suspended is not None:
        return explanation(line.suspended)
    return None


def filter_rows(rows: Sequence[WorkloadRow], wanted: WorkloadFilter) -> list[WorkloadRow]:
    """Return the rows that match the filter."""
    among: Mapping[str, frozenset[str]] = {
        "project": frozenset(wanted.projects or ()),
        "status": frozenset(wanted.statuses or ()),
        "type": frozenset(wanted.types or ()),
        "user": frozenset(wanted.users or ()),
    }
    matching = [row for row in rows if row.submitted_s >= wanted.since_s]
    for name, values in among.items():
        if values:
            matching = [row for row in matching if getattr(row, name) in values]
    if wanted.q:
        low = wanted.q.lower()
        matching = [
            row
            for row in matching
            if low in row.name.lower() or low in row.project.lower() or low in row.user.lower()
        ]
    return matching

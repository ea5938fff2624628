"""Invariants that hold once Weir has caught up: what must not stay as it is for longer than its patience."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.kubernetes.week.oracle import Waiting, false_reasons
from tests.kubernetes.week.pods import size
from tests.kubernetes.week.quota import Holdings, holdings
from tests.kubernetes.week.reclaim import waiting_owner
from tests.kubernetes.week.snapshot import PLURALS, Gang, Snapshot, total_milli
from tools.controlplane.api import Object

Metrics = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]
GANG_PART = "gang in part"
LEFT_BEHIND = "left behind"
NEAR = 0.002
NEEDS_CAPACITY = (
    "Unschedulable",
    "QuotaExceeded",
    "LimitExceeded",
    "WaitingForEviction",
    "CapacityReserved",
    "OlderClaim",
)
"""Conditions of pods whose workload could start but for nodes and quotas."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that doesn't hold now. One that is seen for too long is a failure."""

    invariant: str
    about: str
    sentence: str

    @property
    def key(self) -> tuple[str, str]:
        return self.invariant, self.about


def violations(snapshot: Snapshot, metrics: Metrics) -> Iterator[Violation]:
    """Yield everything that doesn't hold in a snapshot."""
    held = holdings(snapshot)
    for gang in snapshot.gangs.values():
        yield from _gang_in_part(gang, snapshot)
        if gang.waiting:
            waiting = Waiting(snapshot, gang, held)
            yield from _told(snapshot, gang)
            for pod, sentence in false_reasons(waiting):
                yield Violation(f"true cause ({pod.condition})", pod.uid, sentence)
            if sentence := waiting_owner(waiting):
                yield Violation("no owner waits", gang.full_name, sentence)
    for check in _RECOUNTS:
        yield from check(snapshot, held)
    yield from _metrics(snapshot, held, metrics)


def _gang_in_part(gang: Gang, snapshot: Snapshot) -> Iterator[Violation]:
    """Yield a gang of which some pods are on nodes that exist, and fewer than it needs."""
    there = sum(pod.holds and not pod.deleting and pod.node in snapshot.nodes for pod in gang.pods)
    left = gang.needs
    if gang.owner.kind != "Job":
        left = max(0, gang.needs - sum(pod.phase == "Succeeded" for pod in gang.pods))
    if 0 < there < left:
        yield Violation(GANG_PART, gang.full_name, f"{gang.full_name} has {there} of {left} pods on nodes")


def _told(snapshot: Snapshot, gang: Gang) -> Iterator[Violation]:
    """Yield the pods that wait without a condition, or without an event of the same reason."""
    for pod in gang.waiting:
        if not pod.condition:
            yield Violation("condition", pod.uid, f"{pod.full_name} waits without a condition")
            continue
        notes = snapshot.mirror.events_of(pod.uid)
        if pod.condition not in notes:
            answer = f"{pod.full_name} has the condition {pod.condition}, and events {sorted(notes)}"
            yield Violation("event", pod.uid, answer)


def _workload_statuses(snapshot: Snapshot, _held: Holdings) -> Iterator[Violation]:
    """Yield workloads whose status isn't what their pods say, and those that lack or are left over."""
    gangs = {(gang.namespace, gang.name): gang for gang in snapshot.gangs.values()}
    owned = {(gang.namespace, gang.name): gang for gang in snapshot.owned.values()}
    for key, workload in snapshot.workloads.items():
        gang = gangs.pop(key, None)
        if gang is None and not _has_owner(snapshot, key[0], workload):
            continue  # it goes with its owner, when the garbage collector reaches it
        status, about = workload.get("status") or {}, "/".join(key)
        pods = owned[key].pods if key in owned else []  # of any scheduler, as while Weir was away
        running = [pod for pod in pods if pod.phase == "Running" and not pod.deleting]
        if status.get("podsRunning", 0) != len(running):
            answer = f"{about} says podsRunning {status.get('podsRunning')}; {len(running)} run"
            yield Violation("status podsRunning", about, answer)
        holding = [] if gang is None else [pod for pod in gang.holding if pod.is_weirs]
        nodes = sorted({pod.node for pod in holding})
        if sorted(status.get("nodes") or []) != nodes:
            yield Violation(
                "status nodes", about, f"{about} says {status.get('nodes')}; its pods are on {nodes}"
            )
        recorded = {each["pod"] for each in status.get("allocations") or []}
        if recorded != {pod.name for pod in holding}:
            there = sorted(pod.name for pod in holding)
            yield Violation(
                "status allocations", about, f"{about} records {sorted(recorded)}; {there} are bound"
            )
        if gang is not None and (sentence := _wrong_phase(gang, status)):
            yield Violation("status phase", about, sentence)
    for key, gang in gangs.items():
        alive = (pod for pod in gang.pods if pod.is_weirs and not pod.deleting)
        if any(pod.phase in ("Pending", "Running") for pod in alive):
            yield Violation("workload exists", "/".join(key), f"{gang.full_name} has pods and no Workload")


def _has_owner(snapshot: Snapshot, namespace: str, workload: Object) -> bool:
    """Return True if the owner of a workload is there, or isn't of a kind that is mirrored."""
    owner = workload["spec"]["owner"]
    found = snapshot.of.get(PLURALS.get(owner["kind"], owner["kind"]))
    there = None if found is None else found.get((namespace, owner["name"]))
    return found is None or (there is not None and there["metadata"]["uid"] == owner["uid"])


def _wrong_phase(gang: Gang, status: Mapping[str, object]) -> str:
    phase = status.get("phase")
    holding = [pod for pod in gang.holding if pod.is_weirs]
    runs = any(pod.phase == "Running" for pod in holding)
    if holding and not runs and phase not in ("Starting", "Stopping"):
        return f"{gang.full_name} is {phase}, and its pods are starting"
    if runs and phase not in ("Running", "Stopping"):
        return f"{gang.full_name} is {phase}, and pods of it run"
    if not holding and phase in ("Running", "Starting", "Stopping"):
        return f"{gang.full_name} is {phase}, and no pod of it has a node"
    return ""


def _queue_statuses(snapshot: Snapshot, held: Holdings) -> Iterator[Violation]:
    """Yield projects and departments whose amounts aren't those of a recount."""
    running: dict[str, int] = {}
    for gang in snapshot.gangs.values():
        if any(pod.is_weirs for pod in gang.holding):
            project = snapshot.project_of(gang)
            for queue in snapshot.path(project) if project in snapshot.projects else ():
                running[queue["metadata"]["name"]] = running.get(queue["metadata"]["name"], 0) + 1
    for name, queue in {**snapshot.projects, **snapshot.departments}.items():
        status = queue.get("status") or {}
        reported = float((status.get("allocated") or {}).get("gpu", 0))
        counted = held.allocated.get(name, 0) / 1000
        if abs(reported - counted) > NEAR:
            yield Violation(
                "queue allocated", name, f"{name} says {reported} GPUs allocated; its pods hold {counted}"
            )
        if status.get("running", 0) != running.get(name, 0):
            answer = f"{name} says {status.get('running')} workloads run; {running.get(name, 0)} do"
            yield Violation("queue running", f"{name}: {status.get('running')}", answer)
        quota = (queue["spec"].get("quota") or {}).get("gpu")
        shown = (status.get("quota") or {}).get("gpu")
        if quota is not None and quota != "unlimited" and size(str(quota)) != size(str(shown or 0)):
            yield Violation("queue quota", name, f"{name} says a quota of {shown}; its spec says {quota}")


def _metrics(snapshot: Snapshot, held: Holdings, metrics: Metrics) -> Iterator[Violation]:
    """Yield metrics that aren't those of a recount; nothing if there are none now."""
    if not metrics:
        return
    there = [pod for pod in snapshot.pods if pod.holds and pod.node in snapshot.nodes]
    own = [pod for pod in there if pod.is_weirs and pod.uid in snapshot.by_pod]
    foreign = sum(pod.gpus for pod in there if not pod.is_weirs)
    counted = {
        "weir_nodes": float(len(snapshot.nodes)),
        "weir_gpus": float(sum(node.gpus + node.claimable for node in snapshot.nodes.values())),
        "weir_foreign_gpus": float(foreign),
        "weir_unreadable_objects": 0.0,
        "weir_control_restarts_total": 0.0,
        "weir_settings_refused": 0.0,
    }
    in_projects = [pod for pod in own if snapshot.project_of(snapshot.by_pod[pod.uid]) in snapshot.projects]
    if len(own) == len(in_projects):
        counted["weir_allocated_gpus"] = total_milli(own, snapshot.nodes) / 1000
    reported: dict[str, float] = {}
    for (name, _), value in metrics.items():
        reported[name] = reported.get(name, 0.0) + value
    for name, value in counted.items():
        if abs(reported.get(name, 0.0) - value) > NEAR:
            yield Violation(
                "metrics",
                f"{name}: {reported.get(name)}",
                f"{name} is {reported.get(name)}; counted: {value}",
            )
    for name in (*snapshot.projects, *snapshot.departments):
        kind = "project" if name in snapshot.projects else "department"
        labels = (("kind", kind), ("queue", name))
        value = held.allocated.get(name, 0) / 1000
        shown = metrics.get(("weir_queue_allocated_gpus", labels))
        if shown is None or abs(shown - value) > NEAR:
            answer = f"weir_queue_allocated_gpus of {name} is {shown}; counted: {value}"
            yield Violation("metrics of queues", f"{name}: {shown}", answer)


def _pending_counts(snapshot: Snapshot, _held: Holdings) -> Iterator[Violation]:
    """Yield projects that count fewer pending workloads than wait for nodes or quotas, or more than wait at all."""
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    for workload in snapshot.workloads.values():
        if (workload.get("status") or {}).get("phase") == "Pending":
            project = workload["spec"].get("project", "")
            most[project] = most.get(project, 0) + 1
    for gang in snapshot.gangs.values():
        if gang.waiting and not gang.holding and all(pod.condition in NEEDS_CAPACITY for pod in gang.waiting):
            project = snapshot.project_of(gang)
            least[project] = least.get(project, 0) + 1
    for name, queue in snapshot.projects.items():
        status = queue.get("status") or {}
        reported = status.get("pending", 0) + status.get("unschedulable", 0)
        if not least.get(name, 0) <= reported <= most.get(name, 0):
            answer = (
                f"{name} counts {reported} pending workloads, not {least.get(name, 0)} to {most.get(name, 0)}"
            )
            yield Violation("queue pending", f"{name}: {reported}", answer)


def _left_behind(snapshot: Snapshot, _held: Holdings) -> Iterator[Violation]:
    """Yield workloads in namespaces that aren't there, and projects kept by a finalizer that nothing uses."""
    used = {snapshot.project_of(gang) for gang in snapshot.gangs.values()}
    for name, queue in snapshot.projects.items():
        if "deletionTimestamp" in queue["metadata"] and name not in used:
            yield Violation(LEFT_BEHIND, name, f"the project {name} is deleted, and nothing uses it")


_RECOUNTS: tuple[Callable[[Snapshot, Holdings], Iterator[Violation]], ...] = (
    _workload_statuses,
    _queue_statuses,
    _pending_counts,
    _left_behind,
)

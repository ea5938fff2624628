"""Worlds of the contract suite: one node of four devices and two projects, behind each of the three backends.

Every world has the same verbs: what a user does (`submit`), what pods do (`finish`, `fail`, slow stops),
and a crash of the scheduler.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
from tests.unit.kubernetes.small_world import KINDS, job, node, pod, project
from tests.unit.local.harness import LIMIT_S, Memory, end_all, kill
from tests.unit.simulation.fixtures import cluster
from tests.unit.simulation.fixtures import job as job_trace

from weir.control.journal import LaunchSpec, WorkloadRecord
from weir.control.loop import Control
from weir.control.port import Backend, PodExit, StopPod
from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.backend import KubernetesBackend
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.state.cluster_state import ClusterState
from weir.kubernetes.translate.device_resources import DeviceResources
from weir.kubernetes.writes.operations import (
    Bind,
    Evict,
    PatchStatus,
    UpsertWorkload,
    WriteDone,
    WriteNotSent,
    stated,
)
from weir.local.backend import LocalBackend
from weir.local.machine.machine import this_machine
from weir.local.records import pod_files
from weir.model.policy import LifecyclePolicy, Policy
from weir.model.workloads import PodGroup, Request, Workload
from weir.simulation.simulated_cluster import SimulatedCluster

from .recorded import RecordedBackend

POLICY = Policy(life=LifecyclePolicy(max_failures=50, pause_first=0.01, max_pause=0.05))
Running = dict[object, tuple[int, ...]]
"""Devices of each running process, by what tells it from every other process."""


class World(ABC):
    """A backend with a control that decides."""

    def __init__(self) -> None:
        self.slow_stops = False  # pods that are told to stop go on until this is false again
        self.repeats = False

    def connect(self, backend: Backend, clock: Callable[[], float]) -> None:
        """Put a new control in front of a backend."""
        self.recorded = RecordedBackend(backend)
        self.recorded.repeats = self.repeats
        self.control = Control(self.recorded, POLICY, clock)

    def step_until(self, condition: Callable[[], object]) -> None:
        """Let control and the world go on until something is so."""
        deadline_s = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline_s, self.control.cluster.jobs
            self.control.step()
            self.go_on()

    def step_often(self) -> None:
        """Let control and the world go on for a while in which nothing should come."""
        for _ in range(5):
            self.control.step()
            self.go_on()

    def name(self, workload: str) -> str:
        """Return the name that control knows a workload by."""
        return workload

    @abstractmethod
    def go_on(self) -> None:
        """Let a moment pass."""

    @abstractmethod
    def submit(self, name: str, *, pods: int = 1, devices: int = 1, project: str = "team") -> None:
        """Submit a workload whose pods run until they are told otherwise."""

    @abstractmethod
    def running(self, name: str) -> Running:
        """Return what really runs of a workload."""

    @abstractmethod
    def finish(self, name: str) -> None:
        """Let all pods of a workload end with success."""

    @abstractmethod
    def fail(self, name: str) -> None:
        """Let the first pod of a workload fail."""

    @abstractmethod
    def restart(self) -> None:
        """Lose everything that backend and control hold in memory."""

    def close(self) -> None:  # noqa: B027 - most worlds have no processes
        """End what runs."""


SCRIPT = """
trap 'while [ -e "$HOLD" ]; do sleep 0.02; done; exit 0' TERM
echo ready
cd "$WEIR_CHECKPOINT_DIR"
while [ ! -e finish ]; do
    if [ $RANK = 0 ] && [ -e fail ]; then rm fail; exit 1; fi
    sleep 0.02
done
"""


class LocalWorld(World):
    """Processes of this machine."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home
        self._journal = Memory()
        self._machine = this_machine(home, name="here", virtual_devices=4, control_groups=False)
        self._directories: dict[str, Path] = {}
        self._open()

    def _open(self) -> None:
        self.backend = LocalBackend(self._journal, self._home, self._machine, wake=lambda: None)
        self.connect(self.backend, time.time)

    def go_on(self) -> None:
        hold = self._home / "hold"
        hold.touch() if self.slow_stops else hold.unlink(missing_ok=True)
        time.sleep(0.002)

    def submit(self, name: str, *, pods: int = 1, devices: int = 1, project: str = "team") -> None:
        uid = len(self._directories) + 1
        self._directories[name] = self._home / "checkpoints" / str(uid)
        group = PodGroup("worker", Request(devices=devices, cpu_milli=10, memory=0), pods, pods)
        workload = Workload(name, project, (group,), pods, time.time())
        environment = (("HOLD", str(self._home / "hold")),)
        launch = LaunchSpec(uid, ("sh", "-c", SCRIPT), environment, str(self._home))
        record = WorkloadRecord(workload, launch, time.time())
        self._journal.add(record)
        self.backend.submitted(record)

    def running(self, name: str) -> Running:
        """Return the pods whose script handles signals by now."""
        pods = [pod for pod in self.backend.pods() if pod.place.pod.workload == name]
        return {(pod.place.pod, pod.start): pod.place.devices for pod in pods if is_ready(pod.directory)}

    def finish(self, name: str) -> None:
        (self._directories[name] / "finish").touch()

    def fail(self, name: str) -> None:
        (self._directories[name] / "fail").touch()

    def restart(self) -> None:
        kill(self.backend._node.pid)
        self.backend.close()
        self._open()

    def close(self) -> None:
        (self._home / "hold").unlink(missing_ok=True)
        end_all(self.backend)


def is_ready(directory: str) -> bool:
    """Return True if the script of a start has said so."""
    log = Path(pod_files.own_directory(directory)) / pod_files.LOG
    return log.exists() and log.read_text() == "ready\n"


class SlowToStop(SimulatedCluster):
    """A simulation in which pods take long to stop while `world.slow_stops`."""

    world: World | None = None

    def stop_takes_s(self, effect: StopPod) -> float:
        return 60.0 if self.world is not None and self.world.slow_stops else 0.0


class SimulatedWorld(World):
    """A simulation in virtual time."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.backend = SlowToStop(cluster(1, 4, ("team", "other")), ())
        self.backend.world = self
        self.connect(self.backend, self.backend.clock)

    def go_on(self) -> None:
        self.backend.advance_to(self.backend.now_s + (0.1 if self.slow_stops else 10.0))

    def submit(self, name: str, *, pods: int = 1, devices: int = 1, project: str = "team") -> None:
        now_s = self.backend.now_s
        trace = job_trace(name, float("inf"), at_s=now_s, gpus=devices, pods=pods, team=project)
        self.backend._submit(trace)

    def running(self, name: str) -> Running:
        run = self.backend.runs.get(name)
        alive = {} if run is None else run.alive
        return {(key, each.start): each.place.devices for key, each in alive.items()}

    def finish(self, name: str) -> None:
        for key in list(self.backend.runs[name].alive):
            self.backend.exit(key, PodExit.DONE)

    def fail(self, name: str) -> None:
        self.backend.exit(min(self.backend.runs[name].alive), PodExit.FAILED)

    def restart(self) -> None:
        self.backend.connect()
        self.connect(self.backend, self.backend.clock)


class ClusterWorld(World):
    """A cluster's objects: what the API server, the job controller and a kubelet make of each write."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._now_s = 1_767_300_000.0  # after the objects were made
        self._objects: dict[str, dict[str, Any]] = {
            "nodes": {"here": node("here")},
            "projects": {name: project(name, gpus=2) for name in ("team", "other")},
            "owners": {},
            "pods": {},
            "workloads": {},
        }
        self._jobs: dict[str, tuple[str, int, int]] = {}  # namespace, pods, devices
        self._made = 0
        self._open()

    def _open(self) -> None:
        state = ClusterState(KINDS, DeviceResources())
        self.backend = KubernetesBackend(state, self._carry_out, lambda: None, lambda: self._now_s)
        for resource, objects in self._objects.items():
            for key in objects:
                self._deliver(resource, key)
        self.backend.connect()
        self.connect(self.backend, lambda: self._now_s)

    def _deliver(self, resource: str, key: str) -> None:
        made = deepcopy(self._objects[resource][key])  # the backend drops what it doesn't need
        if resource == "workloads":
            stated = {key: value for key, value in made.get("status", {}).items() if value is not None}
            made = msgspec.convert({**made, "status": stated}, WorkloadObject)  # as the API server does
        take = self.backend.deliver_owners() if resource == "owners" else self.backend.deliver(resource)
        take([ObjectSet(key, made)])

    def name(self, workload: str) -> str:
        return f"{self._jobs[workload][0]}/job-{workload}"

    def go_on(self) -> None:
        self._now_s += 1.0
        if not self.slow_stops:
            stopping = [key for key, each in self._pods() if each.metadata.deletion_timestamp]
            for key in stopping:
                self._remove(key)
        self.backend.tell_people(self._now_s)

    def _pods(self) -> list[tuple[str, Any]]:
        return list(self._objects["pods"].items())

    def _remove(self, key: str) -> None:
        gone = self._objects["pods"].pop(key)
        self.backend.deliver("pods")([ObjectRemoved(key, gone.metadata.uid)])
        self._make_pods(gone.metadata.owner_references[0].name)

    def _make_pods(self, name: str) -> None:
        namespace, pods, devices = self._jobs[name]
        there = [key for key, each in self._pods() if each.metadata.owner_references[0].name == name]
        for _ in range(pods - len(there)):
            self._made += 1
            key = f"{namespace}/{name}-{self._made}"
            owner = (name, f"uid-{name}")
            self._objects["pods"][key] = pod(
                f"{name}-{self._made}", owner=owner, namespace=namespace, gpus=devices
            )
            self._deliver("pods", key)

    def _carry_out(self, writes: Any) -> None:
        """Do what an API server does with writes."""
        for write in writes:
            if isinstance(write, Bind | Evict):
                refused = self.backend.check(write)
                if not refused:
                    self._change_pod(write)
                self.backend.take_outcome(write, WriteNotSent(refused) if refused else WriteDone())
            elif isinstance(write, UpsertWorkload | PatchStatus) and "/workloads" in write.object_path:
                self._merge(write)

    def _change_pod(self, write: Bind | Evict) -> None:
        key = f"{write.namespace}/{write.name}"
        old = self._objects["pods"].get(key)
        assert old is not None, f"{key} isn't there"
        assert old.metadata.uid == write.uid, f"{key} is another pod"
        annotations = dict(old.metadata.annotations)
        spec, status, deleted = old.spec, old.status, old.metadata.deletion_timestamp
        if isinstance(write, Bind):
            assert not spec.node_name, f"{key} is bound a second time"
            annotations |= write.annotations
            spec = msgspec.structs.replace(spec, node_name=write.node)
            status = msgspec.structs.replace(status, phase="Running")
        else:
            deleted = old.metadata.creation_timestamp
        metadata = msgspec.structs.replace(old.metadata, annotations=annotations, deletion_timestamp=deleted)
        self._objects["pods"][key] = msgspec.structs.replace(old, metadata=metadata, spec=spec, status=status)
        self._deliver("pods", key)

    def _merge(self, write: UpsertWorkload | PatchStatus) -> None:
        parts = write.object_path.split("/")
        key = f"{parts[parts.index('namespaces') + 1]}/{parts[-1]}"
        patch = write.body if isinstance(write, UpsertWorkload) else write.patch
        old = self._objects["workloads"].get(key, {"metadata": {"uid": f"w-{key}"}})
        self._objects["workloads"][key] = stated(merged(old, msgspec.to_builtins(patch)))
        self._deliver("workloads", key)

    def submit(self, name: str, *, pods: int = 1, devices: int = 1, project: str = "team") -> None:
        self._jobs[name] = (project, pods, devices)
        self._objects["owners"][name] = job(name, f"uid-{name}", pods, namespace=project)
        self._deliver("owners", name)
        self._make_pods(name)

    def running(self, name: str) -> Running:
        return {
            each.metadata.uid: tuple(map(int, each.metadata.annotations["weir.dev/gpus"].split(",")))
            for _, each in self._pods()
            if each.metadata.owner_references[0].name == name and each.status.phase == "Running"
        }

    def _end_pod(self, key: str, phase: str) -> None:
        old = self._objects["pods"][key]
        status = msgspec.structs.replace(old.status, phase=phase)
        self._objects["pods"][key] = msgspec.structs.replace(old, status=status)
        self._deliver("pods", key)

    def finish(self, name: str) -> None:
        namespace, pods, _ = self._jobs[name]
        for key, each in self._pods():
            if each.metadata.owner_references[0].name == name:
                self._end_pod(key, "Succeeded")
        self._objects["owners"][name] = job(name, f"uid-{name}", pods, namespace=namespace, over="Complete")
        self._deliver("owners", name)

    def fail(self, name: str) -> None:
        key = next(key for key, each in self._pods() if each.metadata.owner_references[0].name == name)
        self._end_pod(key, "Failed")
        self._remove(key)

    def restart(self) -> None:
        self._open()


def merged(old: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return an object after a merge patch."""
    result = dict(old)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            below = result.get(key)
            result[key] = (
                merged(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
            )
    return result

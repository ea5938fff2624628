"""Port of the pool's backend: the pool's needs besides facts and effects."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from weir.control.journal import WorkloadRecord
from weir.control.port import Effect, Fact, NodeDrained
from weir.local.pod_processes import PodProcesses
from weir.local.running_pods import RunningPod
from weir.model.nodes import Outage


class PoolBackend(Protocol):
    """Methods that the pool needs of its backend besides the port."""

    def events(self) -> Iterable[Fact]:
        """Return the facts that control doesn't know yet."""
        ...

    def apply(self, effects: Sequence[Effect]) -> None:
        """Carry effects out."""
        ...

    def connect(self) -> None:
        """Let the next `events` return the whole state."""
        ...

    def submitted(self, record: WorkloadRecord) -> None:
        """Add a new workload."""
        ...

    def changed(self, record: WorkloadRecord, at_s: float) -> None:
        """Take over the new specification of a workload: its priority changed, or its variables."""
        ...

    def tell(self, fact: Fact) -> None:
        """Report a fact to control."""
        ...

    def pods(self) -> Sequence[RunningPod]:
        """Return all starts of pods that aren't over."""
        ...

    def close_devices(self, devices: tuple[int, ...], *, drained: bool) -> None:
        """Start nothing on the devices that are drained, or else that processes outside the pool use."""
        ...

    def evict_from_gpus(self, drained: tuple[NodeDrained, ...]) -> None:
        """Stop the workloads on drained GPUs; it replaces the GPUs of an earlier call."""
        ...

    def set_outages(self, outages: tuple[Outage, ...]) -> None:
        """Set the present and future times in which the node, or devices of it, are out of service."""
        ...

    def drain(self, drained: NodeDrained | None) -> None:
        """Start nothing on the node, and stop its workloads unless they may run on; None undoes it."""
        ...

    def is_quiet(self, workload: str) -> bool:
        """Return True if none of a workload's own processes is left."""
        ...

    def delete_checkpoints(self, uid: int) -> None:
        """Delete the checkpoints of a workload that is over."""
        ...

    @property
    def processes(self) -> PodProcesses:
        """Return the processes of pods."""
        ...

    @property
    def trouble(self) -> str | None:
        """Return why the ends of pods aren't noticed; None if they are."""
        ...

    def close(self) -> None:
        """Let go of everything but the pods."""
        ...

"""Node of the pool in and out of service: changes by people and measurements, reported to control."""

from abc import ABC, abstractmethod

from weir.control.port import Fact, NodeDrained
from weir.local.local_node import Devices, LocalNode
from weir.model.nodes import Outage


class NodeService(ABC):
    """Part of the backend that closes and opens the node and its devices; from any thread."""

    node: LocalNode

    @abstractmethod
    def tell(self, fact: Fact) -> None:
        """Pass another fact to control."""

    def close_devices(self, devices: Devices, *, drained: bool) -> None:
        """Start nothing on the devices that are drained, or else that processes outside the pool use."""
        self.tell(self.node.close_devices(devices, drained=drained))

    def evict_from_gpus(self, drained: tuple[NodeDrained, ...]) -> None:
        """Stop the workloads on drained GPUs; it replaces the GPUs of an earlier call."""
        before, self.node.drained_gpus = self.node.drained_gpus, drained
        for fact in drained:
            if fact not in before:
                self.tell(fact)

    def set_outages(self, outages: tuple[Outage, ...]) -> None:
        """Set the present and future times in which the node, or devices of it, are out of service."""
        self.tell(self.node.set_outages(outages))

    def drain(self, drained: NodeDrained | None) -> None:
        """Start nothing on the node, and stop its workloads unless they may run on; None undoes it."""
        for fact in self.node.set_drained(drained):
            self.tell(fact)

"""The machine as a node of control: with devices that others use, and with drains."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from weir.control.port import Fact, NodeDrained
from weir.local.machine.machine import Machine
from weir.model.nodes import DRAINED, Outage, Taint
from weir.state.events import NodeSet

Devices = tuple[int, ...]


class LocalNode:
    """The node of this machine, with its drained state; any thread may change it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.drained: NodeDrained | None = None
        self.drained_gpus: tuple[NodeDrained, ...] = ()  # drained GPUs whose workloads are stopped
        self._lock = threading.Lock()
        self._foreign: Devices = ()
        self._drained_devices: Devices = ()

    def close_devices(self, devices: Devices, *, drained: bool) -> Fact:
        """Set the devices that are drained, or else that processes outside the pool use."""
        if drained:
            self._drained_devices = devices
        else:
            self._foreign = devices
        return self._changed(foreign_devices=tuple(sorted({*self._foreign, *self._drained_devices})))

    def set_outages(self, outages: tuple[Outage, ...]) -> Fact:
        """Set the present and future times out of service."""
        return self._changed(outages=outages)

    def set_drained(self, drained: NodeDrained | None) -> Sequence[Fact]:
        """Set the drained state of the node; None ends it."""
        taints = () if drained is None else (Taint(DRAINED, drained.sentence),)
        self.drained = drained
        changed = self._changed(taints=taints)
        return (changed,) if drained is None else (changed, drained)

    def _changed(self, **changes: Any) -> NodeSet:
        with self._lock:
            self.machine = replace(self.machine, node=replace(self.machine.node, **changes))
            return NodeSet(self.machine.node)


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
        """Stop the workloads on these drained GPUs, which replace those of an earlier call."""
        before, self.node.drained_gpus = self.node.drained_gpus, drained
        for fact in drained:
            if fact not in before:
                self.tell(fact)

    def set_outages(self, outages: tuple[Outage, ...]) -> None:
        """Set the present and future times out of service of the node or of its devices."""
        self.tell(self.node.set_outages(outages))

    def drain(self, drained: NodeDrained | None) -> None:
        """Start nothing on the node, and stop its workloads unless they may finish; None ends the drain."""
        for fact in self.node.set_drained(drained):
            self.tell(fact)

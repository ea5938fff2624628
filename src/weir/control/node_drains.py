"""Stops of workloads on nodes and devices that are drained, or go out of service for an outage.

Work gets notice so that its grace is over when the outage begins. Work whose maximum run time ends before
that is left alone until the beginning. When an outage is over, it is removed from its node.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from weir.control.lifecycle_state import LifecycleState
from weir.control.outbox import Outbox
from weir.control.port import LifecycleCause, LifecycleRule, NodeDrained
from weir.control.timers import TimerKind
from weir.control.transitions import LifecycleTransitions
from weir.model.nodes import Node, Outage
from weir.state.events import NodeSet
from weir.state.jobs import Job, Phase, Pod


class NodeDrains:
    """Drained nodes, and outages of nodes with the times at which they take effect."""

    def __init__(
        self,
        outbox: Outbox,
        transitions: LifecycleTransitions,
        states: Mapping[str, LifecycleState],
        longest_run_s: Callable[[Job], float | None],
    ) -> None:
        self._out = outbox
        self._transitions = transitions
        self._states = states
        self._longest_run_s = longest_run_s
        self._looks_s: dict[str, float] = {}  # time of its timer, by node with outages

    def drained(self, fact: NodeDrained, now_s: float) -> None:
        """Release nominations on a drained node or GPU, and evict its workloads."""
        index = self._out.cluster.node_at.get(fact.node)
        if index is None:
            return
        outage = Outage(now_s, devices=fact.devices)
        self._release_nominations(index, outage)
        if not fact.keeps_running:
            which = fact.node if fact.devices is None else _gpus(fact.devices, fact.node)
            for job in self._on(index, outage):
                self._stop(job, f"{which} {_are(fact.devices)} {fact.sentence.rstrip('.')}", fact.node, now_s)

    def node_set(self, node: Node, now_s: float) -> None:
        """Follow the outages of a node that was added or changed."""
        self._looks_s.pop(node.name, None)
        if node.outages:
            self._look_at(node.name, now_s)

    def started(self, job: Job, now_s: float) -> None:
        """Apply the outages of the nodes on which a workload has just started."""
        cluster = self._out.cluster
        if not cluster.outage_nodes:
            return
        for node in {pod.node for pod in job.running_pods()} & cluster.outage_nodes.keys():
            self._look_at(cluster.node_names[node], now_s)

    def due(self, node: str, since_s: float, now_s: float) -> None:
        """Apply the timer of a node, unless a newer one has replaced it."""
        if self._looks_s.get(node) == since_s:
            del self._looks_s[node]
            self._act(node, now_s)
            self._look_at(node, now_s)

    def _look_at(self, name: str, now_s: float) -> None:
        """Set the timer of a node: its next stop, beginning or end of an outage."""
        node = self._node(name)
        if node is None:
            return
        index = self._out.cluster.node_at[name]
        times = []
        for outage in node.outages:
            if outage.until_s is not None:
                times.append(outage.until_s)
            if outage.from_s > now_s:
                times.append(outage.from_s)
            if not outage.keeps_running:
                times += [self._stops_s(job, outage) for job in self._on(index, outage)]
        next_s = min(times, default=None)
        if next_s is not None and next_s < self._looks_s.get(name, float("inf")):
            self._looks_s[name] = next_s
            self._transitions.timers.set(next_s, TimerKind.OUTAGE, name, next_s)

    def _act(self, name: str, now_s: float) -> None:
        node = self._node(name)
        if node is None:
            return
        index = self._out.cluster.node_at[name]
        left = tuple(outage for outage in node.outages if not outage.is_over(now_s))
        if left != node.outages:
            self._out.happen(NodeSet(replace(node, outages=left)))
        for outage in left:
            if outage.from_s <= now_s:
                self._release_nominations(index, outage)
            if outage.keeps_running:
                continue
            which = name if outage.devices is None else _gpus(outage.devices, name)
            for job in self._on(index, outage):
                if self._stops_s(job, outage) <= now_s:
                    self._stop(job, f"{which} {_have(outage.devices)} {outage.sentence}", name, now_s)

    def _stops_s(self, job: Job, outage: Outage) -> float:
        """Return the time of the notice to a running workload for an outage."""
        longest_s = self._longest_run_s(job)
        if longest_s is not None and job.started_s is not None and job.started_s + longest_s <= outage.from_s:
            return outage.from_s
        return outage.from_s - self._transitions.limits(job).grace_s

    def _stop(self, job: Job, why: str, node: str, now_s: float) -> None:
        sentence = f"{job.name} is stopped: {why}."
        cause = LifecycleCause(LifecycleRule.DRAINED, sentence, {"node": node})
        self._transitions.note(job, cause.rule, sentence, cause.numbers, now_s)
        self._transitions.stop_all(job, cause, now_s)

    def _on(self, index: int, outage: Outage) -> list[Job]:
        """Return the workloads with running pods on a part out of service, except those being ended."""
        pods = self._out.cluster.pods_on[index]
        jobs = {
            pod.job.name: pod.job for pod in pods if pod.phase is Phase.RUNNING and outage.covers(pod.devices)
        }
        return [job for name, job in jobs.items() if self._states[name].ending is None]

    def _nominated(self, index: int, outage: Outage) -> Iterable[Pod]:
        for job in self._out.cluster.nominated.values():
            for group in job.pods:
                for pod in group:
                    nomination = pod.nomination
                    if nomination is not None and nomination[0] == index and outage.covers(nomination[1]):
                        yield pod

    def _release_nominations(self, index: int, outage: Outage) -> None:
        for name in dict.fromkeys([pod.job.name for pod in self._nominated(index, outage)]):
            self._transitions.release_nomination(name)

    def _node(self, name: str) -> Node | None:
        index = self._out.cluster.node_at.get(name)
        return None if index is None else self._out.cluster.nodes[index]


def _gpus(devices: Iterable[int], node: str) -> str:
    indices = [str(device) for device in devices]
    return f"GPU{'' if len(indices) == 1 else 's'} {', '.join(indices)} of {node}"


def _are(devices: tuple[int, ...] | None) -> str:
    return "is" if devices is None or len(devices) == 1 else "are"


def _have(devices: tuple[int, ...] | None) -> str:
    return "has" if devices is None or len(devices) == 1 else "have"

"""What everything holds, integrated exactly between the moments at which it changes."""

from collections.abc import Mapping

from weir.cluster.events import Event
from weir.cluster.state import Cluster
from weir.decide.plan import Plan
from weir.store.rows import Samples


class Meter:
    """A reader of control: attach it to `Control(readers=...)`, and `take` from it every minute.

    All calls come from the control thread. Over quota is what a project holds above its gpu quota, spread
    over its preemptible workloads in proportion; waiting is counted for every workload that holds nothing.
    """

    def __init__(self, uids: Mapping[str, int]) -> None:
        """`uids`: of the workloads that aren't over, by name; the meter looks in, so keep it current."""
        raise NotImplementedError

    def watch(self, cluster: Cluster, now_s: float) -> None:
        """The cluster whose events come: call it after `Control` is made, before its first step."""
        raise NotImplementedError

    def happened(self, event: Event) -> None:
        """An event was reduced."""
        raise NotImplementedError

    def decided(self, plan: Plan, now_s: float, took_s: float) -> None:
        """Plans change nothing by themselves."""
        raise NotImplementedError

    def used(self, workload: str, node: str, fraction: float, at_s: float) -> None:
        """Since the last call, this fraction of what a workload holds on a node was really used."""
        raise NotImplementedError

    def device_used(self, node: str, device: int, fraction: float, memory: int, at_s: float) -> None:
        """Since the last call, this fraction of a device was used, and this much of its memory is."""
        raise NotImplementedError

    def take(self, now_s: float) -> Samples:
        """What was held and used since the last call, for `Store.sample`."""
        raise NotImplementedError

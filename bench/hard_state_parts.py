"""Parts of hard states: a cluster full of borrowed work, gangs, and many different requests."""

from dataclasses import replace

from bench.made import NODE_GPUS, Made, work
from weir.model.nodes import Topology
from weir.model.policy import Policy
from weir.model.workloads import PodGroup, Request, Workload
from weir.state.events import NodeSet, TopologiesSet
from weir.state.reduce import reduce

HOSTNAME = "kubernetes.io/hostname"
RACK_NODES = 16
LATER_S = 7200.0
"""Time at which the hard work is submitted, after everything else has run for two hours."""


def borrowed(nodes: int, policy: Policy, *, kept: float = 0.5, in_the_way: bool = False) -> Made:
    """Full of single devices of a borrower; the owner has a quota of `kept` of all devices.

    With one that is not preemptible on each node, if any are `in_the_way`.
    """
    gpus = nodes * NODE_GPUS
    owned = int(gpus * kept)
    made = Made(nodes, {"owner": owned, "borrower": gpus - owned}, policy)
    for index in range(gpus):
        spec = work(f"job-{index:06d}", "borrower", index / gpus)
        if in_the_way and index % NODE_GPUS == 0:
            spec = replace(spec, preemptible=False)
        made.run(spec, (index,))
    made.now_s = LATER_S
    return made


def add_gang(made: Made, name: str = "gang", owner: str = "owner", **numbers: int) -> Workload:
    """Let a gang wait: of half the nodes, if nothing else is said."""
    pods = numbers.pop("pods", len(made.nodes) // 2)
    spec = work(name, owner, made.now_s, pods=pods, gpus=numbers.pop("gpus", NODE_GPUS), **numbers)
    made.submit(spec)
    return spec


def add_different(made: Made, count: int, owner: str, devices: int = 4) -> None:
    """Let single pods wait of which no two ask for the same."""
    for index in range(count):
        request = Request(devices=1 + index % devices, cpu_milli=1000 + index)
        group = PodGroup("worker", request)
        made.submit(Workload(f"late-{index:06d}", owner, (group,), 1, made.now_s, priority=1 + index % 99))


def set_racks(made: Made) -> None:
    """Put the nodes into racks, and these into blocks."""
    for index, node in enumerate(made.nodes):
        labels = {
            HOSTNAME: node.name,
            "rack": f"r{index // RACK_NODES}",
            "block": f"b{index // RACK_NODES // 8}",
        }
        made.nodes[index] = replace(node, labels=labels)
        reduce(made.cluster, NodeSet(made.nodes[index]))
    reduce(made.cluster, TopologiesSet((Topology("network", ("block", "rack", HOSTNAME)),)))

"""States in which it is hard to place pods. Each is made of a number of nodes and a policy."""

from dataclasses import replace

from bench.hard_state_parts import HOSTNAME, LATER_S, RACK_NODES, add_different, add_gang, borrowed, set_racks
from bench.made import NODE_GPUS, Made, project, work
from weir.model.nodes import Outage
from weir.model.policy import Policy
from weir.model.workloads import (
    PodAffinityRule,
    PodGroup,
    Request,
    TopologyRequest,
    Workload,
)
from weir.state.events import (
    Checkpointed,
    NodeSet,
    PodKey,
    WorkloadSubmitted,
)
from weir.state.reduce import reduce


def elastic_pending(nodes: int, policy: Policy) -> Made:
    """Hundreds of elastic jobs that could use the whole cluster each, in four projects."""
    made = Made(nodes, {project(index): nodes * 2 for index in range(4)}, policy)
    for index in range(2 * nodes):
        group = PodGroup("worker", Request(devices=1), count=64, min=1)
        made.submit(Workload(f"job-{index:06d}", project(index % 4), (group,), 1, index / nodes))
    return made


def classes_no_fit(nodes: int, policy: Policy) -> Made:
    """Hundreds of different requests for cores that no node has left, with devices free."""
    made = Made(nodes, {"owner": nodes * NODE_GPUS}, policy)
    for index in range(0, nodes * NODE_GPUS, NODE_GPUS):
        group = PodGroup("worker", Request(devices=1, cpu_milli=63_000))
        made.run(Workload(f"job-{index:06d}", "owner", (group,), 1, 0.0), (index,))
    made.now_s = LATER_S
    for index in range(2 * nodes):
        group = PodGroup("worker", Request(devices=1, cpu_milli=2000 + index), count=4, min=4)
        made.submit(Workload(f"late-{index:06d}", "owner", (group,), 4, made.now_s))
    return made


def fractions_free(nodes: int, policy: Policy) -> Made:
    """A tenth of each device is held, of two in three more; 2,000 shares of 40 sizes are pending."""
    gpus = nodes * NODE_GPUS
    made = Made(nodes, {"owner": gpus}, policy)
    for index in range(gpus):
        made.run(work(f"job-{index:06d}", "owner", index / gpus, milli=100 + 250 * (index % 3)), (index,))
    made.now_s = LATER_S
    for index in range(4 * nodes):
        made.submit(work(f"late-{index:06d}", "owner", made.now_s, milli=300 + 10 * (index % 40)))
    return made


def _near(made: Made, name: str, owner: str, pods: int, topology: TopologyRequest, gpus: int = 8) -> None:
    spec = work(name, owner, made.now_s, pods=pods, gpus=gpus)
    made.submit(replace(spec, topology=topology))


def topology(nodes: int, policy: Policy) -> Made:
    """Two hundred gangs require one rack and are larger than the racks' free nodes."""
    made = Made(nodes, {"owner": nodes * NODE_GPUS}, policy)
    set_racks(made)
    for index in range(0, nodes, 2):
        made.run(work(f"job-{index:06d}", "owner", 0.0), (index * NODE_GPUS,))
    made.now_s = LATER_S
    for index in range(200):
        _near(made, f"gang-{index:04d}", "owner", 9 + index % 30, TopologyRequest("network", required="rack"))
    return made


def topology_preferred(nodes: int, policy: Policy) -> Made:
    """A hundred gangs would rather have one rack, and each rack has something on every node."""
    made = Made(nodes, {"owner": nodes * NODE_GPUS}, policy)
    set_racks(made)
    for index in range(nodes):
        made.run(
            work(f"job-{index:06d}", "owner", 0.0, gpus=4), range(index * NODE_GPUS, index * NODE_GPUS + 4)
        )
    made.now_s = LATER_S
    for index in range(100):
        wish = TopologyRequest("network", preferred="rack")
        _near(made, f"gang-{index:04d}", "owner", 17 + index % 16, wish, gpus=1 + index % 4)
    return made


def topology_reclaim(nodes: int, policy: Policy) -> Made:
    """Gangs of whole racks reclaim them; each rack has something that may not be stopped."""
    made = borrowed(nodes, policy)
    set_racks(made)
    for index in range(0, nodes, RACK_NODES):
        name = f"job-{index * NODE_GPUS:06d}"
        made.end(name)
        made.run(replace(work(name, "borrower", 0.0), preemptible=False), (index * NODE_GPUS,))
    for index in range(30):
        _near(made, f"gang-{index:04d}", "owner", RACK_NODES, TopologyRequest("network", required="rack"))
    return made


def _with_rule(made: Made, name: str, owner: str, pods: int, rule: PodAffinityRule, gpus: int = 1) -> None:
    request = Request(devices=gpus, marks=(rule.mark,), pod_rules=(rule,))
    made.submit(Workload(name, owner, (PodGroup("worker", request, count=pods, min=pods),), pods, made.now_s))


def anti_affinity(nodes: int, policy: Policy) -> Made:
    """Gangs of one pod a node reclaim: one has a pod too many, and 50 are smaller."""
    made = borrowed(nodes, policy)
    set_racks(made)
    for index in range(51):
        pods = nodes + 1 if not index else nodes // 10
        _with_rule(
            made, f"gang-{index}", "owner", pods, PodAffinityRule("anti_affinity", f"m{index % 5}", HOSTNAME)
        )
    return made


def spread(nodes: int, policy: Policy) -> Made:
    """Gangs spread over racks, some of which are full of work that may not be stopped."""
    made = borrowed(nodes, policy, in_the_way=True)
    set_racks(made)
    for index in range(20):
        rule = PodAffinityRule("spread", f"m{index}", "rack", max_skew=1)
        _with_rule(made, f"gang-{index}", "owner", nodes // 4, rule, gpus=4)
    return made


def reservations(nodes: int, policy: Policy) -> Made:
    """A hundred gangs in quota have waited for long while small work of others comes and goes."""
    made = Made(nodes, {project(index): nodes * NODE_GPUS // 10 for index in range(10)}, policy)
    for index in range(nodes * NODE_GPUS * 9 // 10):
        spec = replace(work(f"job-{index:06d}", project(0), 0.0), preemptible=False)
        made.run(spec, (index * 10 // 9,))
    for index in range(100):
        add_gang(made, f"gang-{index:03d}", project(1 + index % 9), pods=1 + index % 8)
    made.now_s = LATER_S
    for index in range(500):
        made.submit(work(f"late-{index:04d}", project(index % 10), made.now_s))
    return made


def outages(nodes: int, policy: Policy) -> Made:
    """Every node has three maintenance windows at times of its own; work of all run times is pending."""
    made = borrowed(nodes, policy)
    for index, node in enumerate(made.nodes):
        windows = tuple(
            Outage(made.now_s + 60.0 * (1 + index % 97) + 86400.0 * day, made.now_s + 86400.0 * (day + 1))
            for day in range(3)
        )
        reduce(made.cluster, NodeSet(replace(node, outages=windows)))
    for index in range(500):
        spec = work(f"late-{index:04d}", "owner", made.now_s, pods=1 + index % 4, gpus=1 + index % 8)
        made.submit(replace(spec, max_runtime_s=600.0 * (1 + index % 50)))
    return made


def scattered(nodes: int, policy: Policy) -> Made:
    """Return nodes with a free device each; whole nodes are pending, for which work would have to move."""
    gpus = nodes * NODE_GPUS
    made = Made(nodes, {"owner": gpus}, policy)
    for index in range(gpus):
        if index % NODE_GPUS:
            made.run(work(f"job-{index:06d}", "owner", index / gpus), (index,))
    made.now_s = LATER_S
    for index in range(30):
        add_gang(made, f"gang-{index:03d}", pods=1 + index % 3)
    add_different(made, 200, "owner", 8)
    return made


def checkpointed(nodes: int, policy: Policy) -> Made:
    """Return work of three borrowers that was just saved, and 500 different pending workloads over quota."""
    gpus = nodes * NODE_GPUS
    made = Made(nodes, {project(index): 0 for index in range(6)}, policy)
    for index in range(gpus):
        made.run(work(f"job-{index:06d}", project(index % 3), index / gpus), (index,))
    made.now_s = LATER_S
    for index in range(gpus):
        reduce(made.cluster, Checkpointed(f"job-{index:06d}", made.now_s))
    add_different(made, 250, project(4), 8)
    for index in range(250):
        made.submit(work(f"other-{index}", project(5), made.now_s, pods=1 + index % 5))
    return made


def repacked(nodes: int, policy: Policy) -> Made:
    """The setting `repack` is on: three devices of each node are idle, and hundreds of pods are pending."""
    policy = policy.model_copy(update={"repack": policy.repack.model_copy(update={"enabled": True})})
    gpus = nodes * NODE_GPUS
    made = Made(nodes, {"owner": gpus}, policy)
    for index in range(nodes):
        made.run(
            work(f"job-{index:06d}", "owner", 0.0, gpus=5), range(index * NODE_GPUS, index * NODE_GPUS + 5)
        )
    made.now_s = LATER_S
    add_different(made, 500, "owner", 8)
    return made


def absent_pods(nodes: int, policy: Policy) -> Made:
    """Gangs of hundreds of pods of which half don't exist yet."""
    made = borrowed(nodes, policy)
    for number in range(20):
        spec = work(f"gang-{number:03d}", "owner", made.now_s, pods=nodes)
        absent = frozenset(PodKey(spec.name, 0, index) for index in range(0, nodes, 2))
        reduce(made.cluster, WorkloadSubmitted(spec, made.now_s, absent=absent))
    return made


STATES = {
    state.__name__: state
    for state in (
        *(elastic_pending, classes_no_fit, fractions_free, topology, topology_preferred, topology_reclaim),
        *(anti_affinity, spread, reservations, outages, scattered, checkpointed, repacked, absent_pods),
    )
}

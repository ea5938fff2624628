"""Random small worlds: a cluster, a tree of quotas, workloads, and what happens to them, step by step.

Small on purpose: what goes wrong at all goes wrong on a few nodes, and a small world can be held
against an exhaustive answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

from hypothesis import strategies as st

from weir.model.nodes import Node, Taint, Topology
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.model.workloads import (
    WHOLE_MILLI,
    PodAffinityRule,
    PodGroup,
    Request,
    TopologyRequest,
    Workload,
    WorkloadType,
)

GI = 1 << 30
MODELS = (None, "A100", "H100")
_SELDOM = (False, False, False, False, True)
HOSTNAME = "kubernetes.io/hostname"
NETWORK = Topology("network", ("rack", HOSTNAME))


class Does(Enum):
    """Kinds of events between two cycles."""

    CYCLE = "a cycle is played"
    SUBMIT = "a workload is submitted"
    END = "a running workload ends"
    CRASH = "a pod is gone, nobody knows why"
    SAVE = "a running workload has saved its state"
    LOSE = "a node is lost"
    RETURN = "a lost node is back"
    HOLD = "a workload is held"
    RELEASE = "a held workload is released"
    RESIZE = "a workload has more or fewer pods, or some of them don't exist"
    CHANGE = "a workload asks for something else"
    WAIT = "time passes"
    ALTER = "a node has fewer devices or cores, a taint, or a device of another's, or is as before"


Step = tuple[Does, int]


@dataclass(frozen=True, repr=False)
class World:
    """Start of a property, and its events. `stops_after` are the cycles each stop takes, in turn."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...]
    workloads: tuple[Workload, ...]
    policy: Policy = Policy()
    steps: tuple[Step, ...] = ()
    stops_after: tuple[int, ...] = (1,)
    tick_s: float = 1.0

    def __repr__(self) -> str:
        """Return it as readable text: hypothesis prints it when a property fails."""
        lines = ["a world of"]
        lines += [f"  {_told(part)}" for part in (*self.nodes, *self.queues)]
        for workload in self.workloads:
            lines.append(f"  {_told(workload, 'groups')}")
            lines += [f"    {_told(group, 'request')} {_told(group.request)}" for group in workload.groups]
        lines.append(f"  policy {self.policy.model_dump(exclude_defaults=True)}")
        lines.append("  " + ", ".join(f"{does.name} {which}" for does, which in self.steps))
        lines.append(f"  stops take {self.stops_after} cycles of {self.tick_s} s")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def _told(part: Any, *without: str) -> str:
    """A noun by what differs from the usual."""
    usual = {"cpu_milli": 1000, "memory": GI, "share_milli": WHOLE_MILLI}
    reported = []
    for attribute in fields(part):
        value = getattr(part, attribute.name)
        if (
            attribute.name not in without
            and value != usual.get(attribute.name, attribute.default)
            and value not in ((), {}, "")
        ):
            reported.append(f"{attribute.name}={value}")
    return f"{type(part).__name__}({', '.join(reported)})"


def node(name: str, gpus: int, **options: object) -> Node:
    """A node with plenty of everything else, unless said otherwise."""
    capacity = {
        "cpu": int(options.pop("cpu", 64)) * 1000,  # type: ignore[call-overload]
        "memory": int(options.pop("memory", 512)) * GI,  # type: ignore[call-overload]
        "pods": int(options.pop("pods", 110)),  # type: ignore[call-overload]
    }
    labels = {"kubernetes.io/hostname": name, **options.pop("labels", {})}  # type: ignore[dict-item]
    memory = int(options.pop("gpu_memory", 16)) * GI  # type: ignore[call-overload]
    return Node(name, gpus, memory, capacity, labels=labels, **options)  # type: ignore[arg-type]


def single(name: str, project: str, devices: int = 1, **options: object) -> Workload:
    """A workload of one pod of whole devices."""
    group = PodGroup("0", Request(devices=devices))
    return Workload(name, project, (group,), 1, **{"submitted_s": 0.0, **options})  # type: ignore[arg-type]


# What there is


@st.composite
def nodes(draw: st.DrawFn, most: int = 4, models: bool = True, marks: bool = False) -> tuple[Node, ...]:
    """A few nodes, in racks, of some models."""
    drawn = []
    for index in range(draw(st.sampled_from(range(1, most + 1)))):
        gpus = draw(st.sampled_from((4, 4, 3, 2, 1, 0)))
        drawn.append(
            node(
                f"n{index}",
                gpus,
                cpu=draw(st.sampled_from((64, 64, 8, 5))),
                gpu_memory=draw(st.sampled_from((16, 16, 80))),
                gpu_model=draw(st.sampled_from(MODELS)) if models else None,
                labels={"rack": f"r{draw(st.integers(0, 1))}"},
                foreign_marks={"m0": 1} if marks and draw(st.sampled_from(_SELDOM)) else {},
                foreign_devices=(draw(st.integers(0, gpus - 1)),)
                if gpus and draw(st.sampled_from(_SELDOM))
                else (),
            )
        )
    return tuple(drawn)


@st.composite
def trees(
    draw: st.DrawFn, projects_max: int = 4, deep: bool = True, limits: bool = True
) -> tuple[Queue, ...]:
    """A tree of departments up to two deep, and projects in it or beside it."""
    departments: list[Queue] = []
    for index in range(draw(st.integers(0, 3)) if deep else 0):
        parent = draw(st.sampled_from([None, *(queue.name for queue in departments)]))
        departments.append(draw(_queue(f"d{index}", parent, False, index, limits)))
    projects = []
    for index in range(draw(st.sampled_from((*range(2, projects_max + 1), 1)))):
        parent = draw(st.sampled_from([None, *(queue.name for queue in departments)]))
        projects.append(draw(_queue(f"p{index}", parent, True, len(departments) + index, limits)))
    return (*departments, *projects)


@st.composite
def _queue(
    draw: st.DrawFn, name: str, parent: str | None, is_project: bool, index: int, limits: bool
) -> Queue:
    quota = {"gpu": draw(st.sampled_from((0, 0, 1, 2, 3, 4, 6))) * WHOLE_MILLI}
    if draw(st.sampled_from(_SELDOM)):
        quota = {}
    if draw(st.sampled_from(_SELDOM)):
        quota["cpu"] = draw(st.integers(0, 12)) * 1000
    limit: dict[str, int] = {}
    if limits and draw(st.sampled_from(_SELDOM)):
        limit["gpu"] = quota.get("gpu", 0) + draw(st.integers(0, 4)) * WHOLE_MILLI
    return Queue(
        name,
        parent,
        is_project,
        quota,
        limit,
        {"gpu": float(draw(st.sampled_from((1, 1, 1, 2, 3, 0))))},
        draw(st.sampled_from((100, 100, 100, 200, 50))),
        60.0 * index,
    )


# What is asked for


@st.composite
def requests(draw: st.DrawFn, shares: bool = True, models: bool = True) -> Request:
    """Draw a request of a pod; seldom its cores are charged and not reserved."""
    request = draw(_stated_requests(shares, models))
    if request.devices and draw(st.sampled_from(_SELDOM)):
        return replace(request, cpu_milli=0, assumed_cpu_milli=request.cpu_milli)
    return request


@st.composite
def _stated_requests(draw: st.DrawFn, shares: bool, models: bool) -> Request:
    """Draw a request: whole devices, parts of one or of several, device memory, or cores alone."""
    cpu = draw(st.sampled_from((1, 1, 2, 4))) * 1000
    kind = draw(
        st.sampled_from(("whole",) * 5 + (("part", "parts", "memory") if shares else ()) + ("cores",))
    )
    model: tuple[str, ...] = ()
    if models and draw(st.sampled_from(_SELDOM)):
        model = draw(st.sampled_from((("A100",), ("H100",), ("A100", "H100"))))
    if kind == "cores":
        return Request(cpu_milli=cpu)
    if kind == "memory":
        memory = draw(st.sampled_from((2, 5, 8, 16, 40))) * GI
        return Request(devices=1, share_milli=0, gpu_memory=memory, cpu_milli=cpu, gpu_models=model)
    if kind == "whole":
        return Request(devices=draw(st.sampled_from((1, 1, 1, 2, 2, 3, 4))), cpu_milli=cpu, gpu_models=model)
    milli = draw(st.sampled_from((100, 250, 300, 500, 700)))
    return Request(devices=1 if kind == "part" else 2, share_milli=milli, cpu_milli=cpu, gpu_models=model)


@st.composite
def workloads(
    draw: st.DrawFn,
    projects: Sequence[str],
    least: int = 4,
    most: int = 14,
    *,
    shares: bool = True,
    models: bool = True,
    topology: bool = False,
    rules: bool = False,
    groups_max: int = 2,
) -> tuple[Workload, ...]:
    """Workloads of these projects: single pods, gangs, elastic ones, of several groups."""
    drawn = []
    for index in range(draw(st.sampled_from(range(least, most + 1)))):
        groups = []
        marks = tuple(mark for mark in MARKS if rules and draw(st.booleans()))
        pod_rules = tuple(draw(st.lists(st.sampled_from(POD_RULES), max_size=2))) if rules else ()
        for position in range(draw(st.sampled_from((1,) * 4 + tuple(range(1, groups_max + 1))))):
            count = draw(st.sampled_from((1, 1, 1, 2, 3, 4)))
            needed = draw(st.sampled_from(range(0 if position else 1, count + 1)))
            order = draw(st.sampled_from((0, 0, 1)))
            request = replace(draw(requests(shares, models)), marks=marks, pod_rules=pod_rules)
            groups.append(PodGroup(str(position), request, count, needed, order))
        minima = sum(group.min for group in groups)
        extra = draw(st.sampled_from((0, 0, 0, 1)))
        priority = draw(st.sampled_from((50, 50, 50, 60, 90, 125)))
        drawn.append(
            Workload(
                name=f"w{index}",
                project=draw(st.sampled_from(list(projects))),
                groups=tuple(groups),
                min_pods=min(minima + extra, sum(group.count for group in groups)),
                submitted_s=-60.0 * draw(st.sampled_from(range(1, 200))),
                type=draw(st.sampled_from((WorkloadType.TRAIN, WorkloadType.BUILD))),
                priority=priority,
                preemptible=priority < 100 and draw(st.sampled_from((True, True, True, True, False))),
                max_runtime_s=draw(st.sampled_from((None, None, 600.0, 7200.0))),
                topology=draw(st.sampled_from((None, None, *TOPOLOGIES))) if topology else None,
                user=draw(st.sampled_from(("", "ada"))),
            )
        )
    return tuple(drawn)


MARKS = ("m0", "m1")
POD_RULES = (
    PodAffinityRule("anti_affinity", "m0", HOSTNAME),
    PodAffinityRule("anti_affinity", "m1", "rack"),
    PodAffinityRule("anti_affinity", "m1", HOSTNAME, weight=50),
    PodAffinityRule("affinity", "m0", "rack"),
    PodAffinityRule("affinity", "m1", HOSTNAME),
    PodAffinityRule("spread", "m0", "rack"),
    PodAffinityRule("spread", "m1", HOSTNAME, max_skew=2, min_domains=3),
    PodAffinityRule("spread", "m0", HOSTNAME, weight=10),
)
"""Equal for all pods of a workload, so that none of them is placed where another forbids it."""

TOPOLOGIES = (
    TopologyRequest("network", required="rack"),
    TopologyRequest("network", preferred="rack"),
    TopologyRequest("network", required="rack", preferred="kubernetes.io/hostname"),
)


# How it is decided, and what happens

FAIR = Policy(preset="fair")
"""For rules of shares at every instant."""
POLICIES = (
    Policy(),
    FAIR,
    Policy(preset="throughput"),
    Policy(preset="fair", victim_policy="lowest_cost"),
    Policy(preset="fair", consolidation={"enabled": False}),  # type: ignore[arg-type]
    Policy(min_runtime={"train": 5}, gang_grace=3),  # type: ignore[arg-type]
    Policy(preset="fair", oldest_first_in_quota=True, reserve_fraction=0.2),
    Policy(preset="fair", placement="spread", usage={"k": 1.0}),  # type: ignore[arg-type]
    Policy(preset="fair", reserve_after=60),
    Policy(reserve_after=60, reclaim_share_after=30),
    Policy(preset="fair", consolidation={"budget": 1e9}),  # type: ignore[arg-type]
)

BUSY: tuple[Step, ...] = ((Does.SUBMIT, 4), (Does.CYCLE, 0), (Does.SUBMIT, 2), (Does.CYCLE, 0))
"""Beginning of every world: some workloads come to an empty cluster, then others."""
QUIET = (Does.CYCLE, Does.CYCLE, Does.SUBMIT, Does.SUBMIT, Does.END, Does.SAVE, Does.WAIT)
"""Events of a world in which nothing breaks."""
ROUGH = (*QUIET, Does.CYCLE, Does.CRASH, Does.LOSE, Does.RETURN, Does.HOLD, Does.RELEASE, Does.RESIZE)
"""Events of a world in which everything breaks that the engine can repair."""
CHANGING = (*ROUGH, Does.RESIZE, Does.CHANGE)
"""The same, and what runs grows beyond what is there."""


def altered(node: Node, which: int) -> Node:
    """The node as its owner or another scheduler may leave it; as it was, of every fifth."""
    return (
        node,
        replace(node, gpus=node.gpus // 2, foreign_devices=()),
        replace(node, capacity={**node.capacity, "cpu": 2000}),
        replace(node, taints=(Taint("example.com/repair"),)),
        replace(node, foreign_devices=(node.gpus - 1,) if node.gpus else ()),
    )[which % 5]


def resized(workload: Workload, which: int) -> Workload:
    """The workload with another number of pods in one of its groups; fewer, if it can be, of every third."""
    index = which % len(workload.groups)
    group = workload.groups[index]
    count = max(1, group.count - 1) if which % 3 == 0 else group.count + which % 3
    needed = count if group.min == group.count else min(group.min, count)
    groups = (
        *workload.groups[:index],
        replace(group, count=count, min=needed),
        *workload.groups[index + 1 :],
    )
    fewer = min(workload.min_pods, sum(group.count for group in groups))
    return replace(workload, groups=groups, min_pods=max(fewer, sum(group.min for group in groups)))


def changed(workload: Workload, which: int, projects: Sequence[str]) -> Workload:
    """The workload with something else about it."""
    group = workload.groups[0]
    larger = replace(group, request=replace(group.request, cpu_milli=group.request.cpu_milli + 1000))
    return (
        replace(workload, groups=(larger, *workload.groups[1:])),
        replace(workload, priority=workload.priority + 7),
        replace(workload, preemptible=not workload.preemptible),
        replace(workload, project=projects[which % len(projects)]),
        replace(workload, groups=(*workload.groups, PodGroup("more", Request(devices=1)))),
        replace(workload, groups=workload.groups[:1], min_pods=min(workload.min_pods, group.count)),
    )[which % 6]


@st.composite
def worlds(
    draw: st.DrawFn,
    *,
    happens: Sequence[Does] = QUIET,
    steps_max: int = 20,
    policies: Sequence[Policy] = POLICIES,
    shares: bool = True,
    models: bool = True,
    topology: bool = False,
    rules: bool = False,
    limits: bool = True,
    deep: bool = True,
) -> World:
    """A world and what happens in it."""
    queues = draw(trees(deep=deep, limits=limits))
    projects = [queue.name for queue in queues if queue.is_project]
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from(list(happens)), st.integers(0, 20)), min_size=8, max_size=steps_max
        )
    )
    return World(
        nodes=draw(nodes(models=models, marks=rules)),
        queues=queues,
        workloads=draw(workloads(projects, shares=shares, models=models, topology=topology, rules=rules)),
        policy=draw(st.sampled_from(list(policies))),
        steps=(*BUSY, *steps),
        stops_after=tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))),
        tick_s=draw(st.sampled_from((1.0, 1.0, 40.0, 4000.0))),
    )


@st.composite
def plain_worlds(draw: st.DrawFn, policy: Policy = FAIR) -> World:
    """A flat world of whole devices, in which all that counts is who holds how many."""
    queues = draw(trees(deep=False, limits=False))
    return World(
        nodes=draw(nodes(models=False)),
        queues=queues,
        workloads=draw(workloads([queue.name for queue in queues], shares=False, models=False, groups_max=1)),
        policy=policy,
        steps=tuple(
            (Does.SUBMIT, draw(st.integers(0, 4))) if draw(st.booleans()) else (Does.CYCLE, 0)
            for _ in range(8)
        ),
    )

"""Small random clusters and jobs, all of which could run to their end if nothing went wrong."""

import random
from dataclasses import dataclass, replace
from math import inf

from weir.engine.cache import EngineCache
from weir.model.nodes import Node, Topology
from weir.model.policy import LifecyclePolicy, Policy
from weir.model.queues import Queue, QueueTimeLimits
from weir.model.scenario import Scenario
from weir.model.workloads import (
    DEFAULT_PRIORITY,
    PREEMPTIBLE_BELOW,
    PodGroup,
    Request,
    TopologyRequest,
    Workload,
    WorkloadType,
)
from weir.simulation.initial_events import ground
from weir.simulation.job_trace import JobTrace
from weir.state.cluster import Cluster
from weir.state.events import WorkloadSubmitted
from weir.state.reduce import reduce

from .faults import FaultRates
from .reference_scheduler import first_fit

GPU_MEMORY = 16 << 30
RACK = "rack"
TIMED_EACH = 4
"""Share of the simulations that have time rules."""
CROWDED = 0.2
"""The part of simulations with up to 24 jobs, not 12; they take most of the time."""
MEASURED_EVERY_S = 40.0


@dataclass(frozen=True)
class Case:
    """A random simulation."""

    scenario: Scenario
    job_traces: tuple[JobTrace, ...]
    policy: Policy
    faults: FaultRates
    measured_every_s: float = 0.0


def case(seed: int) -> Case:
    """The simulation of a seed."""
    draw = random.Random(seed)
    scenario = _scenario(draw)
    jobs_max = 24 if draw.random() < CROWDED else 12
    job_traces = [
        job_trace
        for index in range(draw.randint(4, jobs_max))
        if (job_trace := _fate(draw, scenario, index)) is not None
    ]
    made = Case(scenario, tuple(job_traces), _policy(draw), _faults(draw, seed))
    return _timed(made, random.Random(f"times of {seed}")) if seed % TIMED_EACH == TIMED_EACH - 1 else made


def _timed(case_: Case, draw: random.Random) -> Case:
    """With time rules, some jobs that idle, and measurements that show it."""

    def times() -> dict[str, float]:
        return {type_.value: draw.choice((0.0, 120.0, 300.0)) for type_ in WorkloadType}

    life = {
        "max_runtime": {type_.value: draw.choice((0.0, 0.0, 600.0)) for type_ in WorkloadType},
        "idle_limit": times(),
        "idle_warning": {type_.value: 60.0 for type_ in WorkloadType},
        "lifetime": draw.choice((0.0, 400.0)),
        "lifetime_warning": 100.0,
    }
    job_traces = tuple(
        replace(job_trace, idle_after_s=draw.choice((0.0, 200.0)) if draw.random() < 0.5 else inf)
        for job_trace in case_.job_traces
    )
    queues = tuple(
        replace(queue, times=QueueTimeLimits(idle_limit_s=draw.choice((None, None, 0.0, 200.0))))
        for queue in case_.scenario.queues
    )
    return Case(
        replace(case_.scenario, queues=queues),
        job_traces,
        case_.policy.model_copy(update={"life": LifecyclePolicy.model_validate(life)}),
        case_.faults,
        MEASURED_EVERY_S,
    )


def _scenario(draw: random.Random) -> Scenario:
    gpus = draw.choice((1, 2, 4, 8))
    nodes = tuple(
        Node(
            f"node-{index}",
            gpus if draw.random() < 0.8 else draw.choice((0, 1, 2)),
            GPU_MEMORY,
            {"cpu": draw.choice((8, 16, 64)) * 1000, "memory": 64 << 30, "pods": draw.choice((4, 110))},
            labels={RACK: f"rack-{index % 2}", "kubernetes.io/hostname": f"node-{index}"},
        )
        for index in range(draw.randint(1, 5))
    )
    return Scenario(
        name="chance",
        nodes=nodes,
        topologies=(Topology("network", (RACK, "kubernetes.io/hostname")),),
        queues=_queues(draw, sum(node.gpus for node in nodes) * 1000),
        workloads=(),
        policy=Policy(),
        tick_s=1.0,
    )


def _queues(draw: random.Random, total_milli: int) -> tuple[Queue, ...]:
    departments = [f"department-{index}" for index in range(draw.randint(0, 2))]
    queues = [
        Queue(name, None, False, {"gpu": total_milli}, created_s=index)
        for index, name in enumerate(departments)
    ]
    projects = draw.randint(1, 4)
    for index in range(projects):
        quota = total_milli // projects // 1000 * 1000
        limits = {"limit": {"gpu": max(quota, 1000) * draw.choice((1, 2))}} if draw.random() < 0.3 else {}
        queues.append(
            Queue(
                f"project-{index}",
                draw.choice(departments) if departments else None,
                True,
                {"gpu": quota},
                weight={"gpu": draw.choice((0.0, 1.0, 1.0, 3.0))},
                priority=draw.choice((100, 100, 100, 50)),
                created_s=10.0 + index,
                **limits,
            )
        )
    return tuple(queues)


def _fate(draw: random.Random, scenario: Scenario, index: int) -> JobTrace | None:
    """A job, or None where the one drawn could never run here."""
    type_ = draw.choice((WorkloadType.TRAIN, WorkloadType.TRAIN, WorkloadType.TRAIN, *WorkloadType))
    priority = DEFAULT_PRIORITY[type_] + draw.choice((0, 0, -10))
    groups = tuple(_group(draw, group) for group in range(draw.choice((1, 1, 1, 2))))
    topology = None
    if draw.random() < 0.2:
        topology = TopologyRequest("network", preferred=RACK)
    workload = Workload(
        name=f"job-{index}",
        project=draw.choice([queue.name for queue in scenario.queues if queue.is_project]),
        groups=groups,
        min_pods=sum(group.min for group in groups),
        submitted_s=float(draw.randint(0, 1800)),
        type=type_,
        priority=priority,
        preemptible=priority < PREEMPTIBLE_BELOW,
        max_runtime_s=draw.choice((None, None, None, 900.0)),
        topology=topology,
        user=draw.choice(("ann", "bob")),
        restart_s=draw.choice((None, 30.0)),
    )
    if not _could_run(scenario, workload):
        return None
    save_every_s = draw.choice((None, 60.0, 300.0))
    return JobTrace(workload, float(draw.randint(1, 1200)), save_every_s, workload.restart_s or 0.0)


def _group(draw: random.Random, index: int) -> PodGroup:
    count = draw.choice((1, 1, 1, 2, 3, 4))
    return PodGroup(
        f"group-{index}",
        _request(draw),
        count,
        count if draw.random() < 0.7 else draw.randint(0, count),
        order=index,
    )


def _request(draw: random.Random) -> Request:
    kind = draw.random()
    if kind < 0.1:
        return Request(devices=0, cpu_milli=2000)
    if kind < 0.25:
        return Request(devices=1, share_milli=draw.choice((250, 500)))
    if kind < 0.35:
        return Request(devices=1, share_milli=0, gpu_memory=GPU_MEMORY // draw.choice((2, 4)))
    return Request(devices=draw.choice((1, 1, 2, 4)))


def _could_run(scenario: Scenario, workload: Workload) -> bool:
    """Return True if its gang fits the empty cluster, the limits and, without preemption, the quota."""
    if workload.min_pods == 0:
        return False
    cluster = Cluster()
    for fact in ground(scenario):
        reduce(cluster, fact)
    reduce(cluster, WorkloadSubmitted(workload, workload.submitted_s))
    job = cluster.jobs[workload.name]
    if not first_fit(cluster, Policy(), 0.0, EngineCache()).binds:
        return False
    for queue in job.path:
        rows = list(cluster.ledger.limited[queue])
        if not workload.preemptible:
            rows += cluster.ledger.bounded[queue]
        for row, most in rows:
            needs = sum(
                dict(ask).get(row, 0) * need for ask, need in zip(job.requests, job.needed, strict=True)
            )
            if needs > most:
                return False
    return True


def _policy(draw: random.Random) -> Policy:
    return Policy.model_validate(
        {
            "preset": draw.choice(("fair", "balanced", "throughput")),
            "placement": draw.choice(("pack", "pack", "spread")),
            "gang_grace": draw.choice((5.0, 60.0)),
            "reserve_after": draw.choice((60.0, 3600.0)),
            "min_runtime": {"train": draw.choice((0.0, 0.0, 60.0))},
        }
    )


def _faults(draw: random.Random, seed: int) -> FaultRates:
    """Every kind of fault is on in about half of the simulations."""

    def some(value: float) -> float:
        return value if draw.random() < 0.5 else 0.0

    return FaultRates(
        seed=seed,
        until_s=3600.0,
        node_lost_every_s=some(600.0),
        node_back_after_s=120.0,
        pod_fails=some(0.1),
        stop_slow=some(0.5),
        fact_late=some(0.3),
        fact_twice=some(0.2),
        crash=some(0.05),
    )

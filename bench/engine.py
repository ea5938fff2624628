"""Costs of the engine, on clusters of up to 10,000 nodes of 8 devices, through reduce and decide alone.

    python -m bench.engine [--nodes 1250 2500 5000 10000] [--case fill ...] [--preset balanced ...]
        [--profile] [--output json]

Cases, with the goals of the design for the size in brackets:

    fill     8 one-device workloads a node, a project for every 10 nodes, onto empty nodes (10,000: 4 s)
    cycle    a cycle after 100 mixed events on that full cluster (10,000: 20 ms)
    backlog  the same with a workload of every project waiting, a quarter of the devices borrowed
    parts    the same as backlog, where one workload has half a device
    halves   the same, where a tenth of the pods hold half a device, each alone on its device
    pairs    the same, where a tenth of the pods hold half a device, two on each device
    reasons  the refusals of that backlog, a class for every project, after each of those cycles
    node     a cycle after one node changed on that full cluster
    cannot   "can't run" for a gang of 8-device pods on full nodes, with the reason (10,000: 15 ms)
    reclaim  a quarter of all devices for one gang of whole nodes (1,000: 0.5 s)
    suggest  what would let a workload of that backlog start (10,000: 2 s); decisions wait up to `longest_ms`
    explain  nodes by score and victims by price for a workload of that backlog
    memory   with 10 running pods a node (10,000: 1,500 MB)

Times are processor times, so other programs on the machine count only by what they take of its caches.
Every measurement has a process of its own, in which Python's collector leaves the finished cluster alone,
as it does in a replay: walking it over and over would be most of the cost. It runs as seldom as under `weir`.
Each case runs once at the size its goal is for, and at every size of --nodes, which shows how it grows.
"""

import argparse
import cProfile
import gc
import multiprocessing
import os
import pstats
import resource
import sys
from collections.abc import Callable
from functools import partial
from time import thread_time
from typing import TypeVar

from bench.busy import PROJECT_NODES, Busy, Halves, Row, frozen, quantiles
from bench.made import NODE_GPUS, Made, project, work
from bench.tables import show
from weir.cli.main import GARBAGE_AFTER
from weir.engine.cache import EngineCache
from weir.engine.explanation.pending_reasons import pending_reason
from weir.engine.explanation.pending_refusals import PendingRefusals
from weir.engine.plan import Plan
from weir.engine.refusals.refusals import PendingRefusal, RefusalSentences
from weir.model.policy import PRESETS, Policy
from weir.scenario_io.scalars import PRIORITY_MAX
from weir.service.decision_details import explain_decision
from weir.service.decision_state import DecisionState
from weir.service.suggestions import SuggestionOptions, suggestions
from weir.state.jobs import EquivalenceClass

Found = TypeVar("Found")
ONE_CORE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SIZES = (1250, 2500, 5000, 10_000)
COLUMNS = (
    *("case", "preset", "nodes", "workloads", "seconds", "reduce_seconds", "ms_p50", "ms_p99"),
    *("whole_ms_p50", "whole_ms_p99", "p50_by_whole", "p99_by_whole"),
    *(
        "longest_ms",
        "suggestions",
        "untried",
        "peak_memory_mb",
        "bare_memory_mb",
        "goal",
        "goal_of",
        "part_of_goal",
    ),
)
CYCLES = 50
SHOTS = 20


def fill(nodes: int, policy: Policy) -> Row:
    """Everything placed in one cycle."""
    gpus = nodes * NODE_GPUS
    projects = max(1, nodes // PROJECT_NODES)
    made = Made(nodes, {project(index): gpus // projects for index in range(projects)}, policy)
    specs = [work(f"job-{index:06d}", project(index % projects), index / gpus) for index in range(gpus)]
    began = thread_time()
    made.submit(*specs)
    submitted = thread_time() - began
    plan, seconds = made.decide()
    assert len(plan.binds) == gpus, f"{len(plan.binds)} of {gpus} placed"
    began = thread_time()
    made.carry_out(plan)
    return {
        "workloads": gpus,
        "seconds": round(seconds, 4),
        "reduce_seconds": round(submitted + thread_time() - began, 4),
    }


def cycle(nodes: int, policy: Policy) -> Row:
    """After 100 events."""
    busy = Busy(nodes, policy, borrowed=0.0, waiting=0)
    return busy.measured(busy.events, CYCLES)


def backlog(nodes: int, policy: Policy) -> Row:
    """After 100 events, while work over quota waits."""
    busy = Busy(nodes, policy, borrowed=0.25, waiting=1)
    return busy.measured(busy.events, CYCLES)


def halved(nodes: int, policy: Policy, halves: Halves) -> Row:
    """Measure the cycles of `backlog` with halves of devices, in turn with the same cluster without."""
    whole = Busy(nodes, policy, borrowed=0.25, waiting=1)
    busy = Busy(nodes, policy, borrowed=0.25, waiting=1, halves=halves)
    took = [(busy.cycle(busy.events), whole.cycle(whole.events)) for _ in range(CYCLES)]
    row, without = (quantiles(list(times)) for times in zip(*took, strict=True))
    ratios = {f"{name[3:]}_by_whole": round(_number(row[name]) / _number(without[name]), 2) for name in row}
    return {"workloads": busy.pods, **row, **{f"whole_{name}": ms for name, ms in without.items()}, **ratios}


def reasons(nodes: int, policy: Policy) -> Row:
    """Every refusal after 100 events and the cycle that follows, and the sentences of those that changed."""
    busy = Busy(nodes, policy, borrowed=0.25, waiting=1)
    made, took = busy.made, []
    shown: dict[EquivalenceClass, PendingRefusal] = {}
    for _ in range(SHOTS):
        busy.measured(busy.events, 1)
        began = thread_time()
        sentences = RefusalSentences(made.cluster, made.now_s)
        refusals = PendingRefusals(made.cluster, policy, made.now_s, made.cache)
        for queued in made.cluster.waiting.values():
            refusal = refusals.of_class(queued)
            if shown.get(queued) is not refusal:
                shown[queued] = refusal
                assert sentences.reason_of(refusal).sentence
        took.append(thread_time() - began)
    return {"workloads": len(made.cluster.waiting), **quantiles(took)}


def node_changed(nodes: int, policy: Policy) -> Row:
    """After one node changed."""
    busy = Busy(nodes, policy, borrowed=0.0, waiting=0)

    def happen() -> None:
        busy.node_changes()
        busy.made.submit(work(f"late-{busy.made.now_s}", project(0), busy.made.now_s))

    return busy.measured(happen, SHOTS)


def cannot(nodes: int, policy: Policy) -> Row:
    """Measure a gang without eligible victims: every project is within its quota."""
    gpus = nodes * NODE_GPUS
    pods = max(1, nodes // 50)
    made = Made(nodes, {"owner": gpus, "late": pods * NODE_GPUS}, policy)
    for index in range(gpus):
        made.run(work(f"job-{index:06d}", "owner", index / gpus), (index,))
    return {"workloads": gpus, **shots(made, pods, lambda plan: not plan.acts)}


def reclaim(nodes: int, policy: Policy) -> Row:
    """A project within its quota takes its quarter back from one that borrowed it."""
    gpus = nodes * NODE_GPUS
    pods = nodes // 4
    made = Made(nodes, {"borrower": gpus - pods * NODE_GPUS, "late": pods * NODE_GPUS}, policy)
    for index in range(gpus):
        made.run(work(f"job-{index:06d}", "borrower", index / gpus), (index,))
    return {
        "workloads": gpus,
        **shots(made, pods, lambda plan: len(plan.evictions) == pods * NODE_GPUS, count=5),
    }


def shots(made: Made, pods: int, right: Callable[[Plan], bool], count: int = SHOTS) -> Row:
    """The first cycle that sees a gang, over and over; the gang is withdrawn each time."""
    made.now_s = 3600.0
    made.decide()
    frozen()
    took, cache = [], EngineCache()
    for index in range(count):
        made.now_s += 60.0
        gang = work(f"gang-{index}", "late", made.now_s, pods=pods, gpus=NODE_GPUS)
        made.submit(gang)
        plan, seconds = made.decide()
        assert right(plan), f"{len(plan.evictions)} evictions, {len(plan.nominations)} nominations"
        began = thread_time()
        if not plan.acts:
            job = made.cluster.jobs[gang.name]
            assert pending_reason(made.cluster, made.policy, job, made.now_s, cache) is not None
        took.append(seconds + thread_time() - began)
        made.end(gang.name)
    return quantiles(took)


class Asked:
    """The state of a cluster that is asked about, with the milliseconds of each answer."""

    def __init__(self, made: Made) -> None:
        self.state = DecisionState(made.cluster, made.cache, made.policy, made.now_s)
        self.took: list[float] = []

    def __call__(self, read: Callable[[DecisionState], Found], /) -> Found:
        """Read."""
        began = thread_time()
        try:
            return read(self.state)
        finally:
            self.took.append((thread_time() - began) * 1e3)


def suggest(nodes: int, policy: Policy) -> Row:
    """Measure the suggestions for pending workloads of several projects."""
    busy = Busy(nodes, policy, borrowed=0.25, waiting=1)
    busy.measured(busy.events, 1)
    busy.made.decide()
    took, longest, suggested, untried = [], 0.0, 0, 0
    possible = SuggestionOptions(PRIORITY_MAX, projects=(project(0), project(1)))
    for queued in list(busy.made.cluster.waiting.values())[: SHOTS // 2]:
        asked, began = Asked(busy.made), thread_time()
        answer = suggestions(asked, queued.first.name, possible)
        took.append(thread_time() - began)
        longest = max(longest, *asked.took)
        suggested, untried = suggested + len(answer.suggestions), untried + len(answer.untried)
    return {
        "workloads": busy.pods,
        **quantiles(took),
        "longest_ms": round(longest, 1),
        "suggestions": suggested,
        "untried": untried,
    }


def explain(nodes: int, policy: Policy) -> Row:
    """The scores and the victims of pending workloads."""
    busy = Busy(nodes, policy, borrowed=0.25, waiting=1)
    busy.made.decide()
    took = []
    for queued in list(busy.made.cluster.waiting.values())[:SHOTS]:
        asked, name = Asked(busy.made), queued.first.name
        assert asked(partial(explain_decision, name=name)) is not None
        took += [answered_ms / 1e3 for answered_ms in asked.took]
    return {"workloads": busy.pods, **quantiles(took)}


def memory(nodes: int, policy: Policy) -> Row:
    """Eight pods with a device and two without on every node, and a cycle over them."""
    gpus = nodes * NODE_GPUS
    projects = max(1, nodes // PROJECT_NODES)
    before = peak_mb()
    made = Made(nodes, {project(index): gpus // projects for index in range(projects)}, policy)
    pods = 10 * nodes
    made.submit(
        *(
            work(f"job-{index:06d}", project(index % projects), index / pods, gpus=int(index < gpus))
            for index in range(pods)
        )
    )
    plan, _ = made.decide()
    made.carry_out(plan)
    made.settle()
    return {"workloads": pods, "peak_memory_mb": round(peak_mb(), 1), "bare_memory_mb": round(before, 1)}


def peak_mb() -> float:
    """The most memory this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


CASES: dict[str, tuple[Callable[[int, Policy], Row], int | None, str, float]] = {
    "fill": (fill, 10_000, "seconds", 4.0),
    "cycle": (cycle, 10_000, "ms_p50", 20.0),
    "backlog": (backlog, 10_000, "ms_p50", 20.0),
    "parts": (partial(halved, halves=Halves(1)), None, "ms_p50", 0.0),
    "halves": (partial(halved, halves=Halves(1, every=10)), None, "ms_p50", 0.0),
    "pairs": (partial(halved, halves=Halves(2, every=19)), None, "ms_p50", 0.0),
    "reasons": (reasons, 10_000, "ms_p50", 4.0),
    "node": (node_changed, None, "ms_p50", 0.0),
    "cannot": (cannot, 10_000, "ms_p50", 15.0),
    "reclaim": (reclaim, 1000, "ms_p50", 500.0),
    "suggest": (suggest, 10_000, "ms_p50", 2000.0),
    "explain": (explain, None, "ms_p50", 0.0),
    "memory": (memory, 10_000, "peak_memory_mb", 1500.0),
}
"""The case, the size its goal is for, what the goal is of, and the goal."""


def measure(case: str, nodes: int, preset: str, profile: bool) -> Row:
    """Measure a case at one size."""
    gc.set_threshold(GARBAGE_AFTER)
    run, goal_nodes, figure, goal = CASES[case]
    if profile:
        Made.profiler = cProfile.Profile()
    result = run(nodes, Policy.model_validate({"preset": preset}))
    if Made.profiler is not None:
        pstats.Stats(Made.profiler, stream=sys.stderr).sort_stats("tottime").print_stats(30)
    row: Row = {"case": case, "preset": preset, "nodes": nodes, **result}
    if nodes == goal_nodes:
        row |= {"goal": goal, "goal_of": figure, "part_of_goal": round(_number(result[figure]) / goal, 3)}
    return row


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="bench.engine", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--case", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--preset", nargs="+", default=list(PRESETS), choices=tuple(PRESETS))
    parser.add_argument("--profile", action="store_true", help="say on stderr where the time goes")
    parser.add_argument("--output", default="text", choices=("text", "json"))
    args = parser.parse_args()
    os.environ.update(dict.fromkeys(ONE_CORE, "1"))  # before the processes started import numpy
    rows = []
    for case in args.case:
        sizes = sorted({*args.nodes, *([CASES[case][1]] if CASES[case][1] else [])})
        for preset in args.preset:
            for nodes in sizes:
                print(f"{case}, {preset}, {nodes:,} nodes ...", file=sys.stderr, flush=True)
                with multiprocessing.get_context("spawn").Pool(1) as alone:
                    rows.append(alone.apply(measure, (case, nodes, preset, args.profile)))
                print(f"   {rows[-1]}", file=sys.stderr, flush=True)
    columns = [name for name in COLUMNS if any(name in row for row in rows)]
    if args.output == "text":
        rows = [{name: row.get(name, "") for name in columns} for row in rows]
    show("What the engine costs", rows, args.output)


if __name__ == "__main__":
    main()

"""A branch decides as a full copy would, and leaves the state as it was, even if a trial is broken off."""

import io
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cluster_copy import cluster_facts, copy_cluster

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.policy import Policy
from weir.model.queues import PersonLimits, Queue
from weir.model.workloads import Workload
from weir.scenario_io.scalars import PRIORITY_MAX
from weir.service.decision_state import DecisionState
from weir.service.quota_preview import preview_queues
from weir.service.submission_preview import preview_submission
from weir.service.suggestions import SuggestionOptions, suggestions
from weir.state.branch import branch, replace_quota
from weir.state.cluster import Cluster
from weir.state.events import QueuesSet, WorkloadEnded, WorkloadOutcome, WorkloadSubmitted
from weir.state.jobs import Job
from weir.state.reduce import reduce
from weir.state.runtime_history import RuntimeKey

from .budget import examples
from .random_cluster import POLICIES, Does, World, worlds
from .running import Running, settled

HAPPENS = (Does.CYCLE, Does.SUBMIT, Does.END, Does.SAVE)
CALLS_MAX = 4000
"""Most calls after which a trial is broken off; shorter ones end by themselves."""


class Broken(Exception):
    """The trial is broken off."""


@contextmanager
def broken_off(calls: int) -> Iterator[None]:
    """Raise an exception after this number of calls of the project's functions."""
    left = calls

    def trace(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        if event == "call" and "/weir/" in frame.f_code.co_filename:
            left -= 1
            if left == 0:
                raise Broken

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.settrace(before)


class _Exact(pickle.Pickler):
    """Pickles all of a cluster, but for the predictions that run-time keys keep."""

    def reducer_override(self, value: object) -> Any:
        return (RuntimeKey, (value.names,)) if isinstance(value, RuntimeKey) else NotImplemented


def exact(cluster: Cluster) -> bytes:
    """Return the whole state, bit by bit, with the sums that jobs keep when they are first asked for."""
    for job in cluster.jobs.values():
        job.running_pods()
        job.devices_held()
    written = io.BytesIO()
    _Exact(written).dump(cluster)
    return written.getvalue()


def pending_of(cluster: Cluster) -> list[Job]:
    return [job for queued in cluster.waiting.values() for _, _, job in queued.members if not job.is_running]


def actions(plan: Plan) -> tuple[object, ...]:
    binds = sorted(plan.binds, key=lambda place: place.pod)
    return binds, plan.evictions, plan.nominations, plan.drops


def limited(world: World) -> World:
    """Return the world with limits for every person, so that the end of work admits other work."""
    limits = PersonLimits(running=2)
    return replace(world, queues=tuple(replace(queue, person_limits=limits) for queue in world.queues))


def tried_on_both(running: Running, variant: Workload, gone: list[str], more_quota: bool) -> None:
    """Decide on a branch and on a full copy after the same events, and compare."""
    cluster, policy, now_s, name = running.cluster, running.world.policy, running.now_s, variant.name
    copy = copy_cluster(cluster_facts(cluster))
    on_branch = branch(cluster, [*gone, name], (variant.project, variant.user), with_usage=True)
    if more_quota:
        queues = list(cluster.ledger.queues)
        index = cluster.ledger.position[variant.project]
        queues[index] = replace(queues[index], quota={**queues[index].quota, "gpu": 64_000})
        replace_quota(on_branch, queues[index])
        reduce(copy, QueuesSet(tuple(queues)))
    ran_s, waits_since_s = cluster.jobs[name].ran_s, cluster.jobs[name].waits_since_s
    for made in (on_branch, copy):
        for other in [*gone, name]:
            reduce(made, WorkloadEnded(other, WorkloadOutcome.STOPPED, now_s))
        reduce(made, WorkloadSubmitted(variant, variant.submitted_s, ran_s))
        made.jobs[name].waits_since_s = waits_since_s
        made.mix = cluster.mix.frozen() if made is on_branch else made.mix
    copy.mix.drawn, copy.mix.version = (), 0
    on_branch.mix.drawn, on_branch.mix.version = (), 0
    cache = running.cache.branch(cluster, on_branch, policy)
    decided = actions(decide(on_branch, policy, now_s, cache))
    assert decided == actions(decide(on_branch, policy, now_s, EngineCache()))
    assert decided == actions(decide(copy, policy, now_s, EngineCache()))


@examples(40)
@given(worlds(policies=POLICIES, happens=HAPPENS, steps_max=10), st.data())
def test_a_branch_decides_as_a_full_copy_after_the_same_events(world: World, data: st.DataObject) -> None:
    running = settled(world, 20)
    cluster = running.cluster
    cluster.now_s = running.now_s
    names = sorted(name for jobs in cluster.running.values() for name in jobs)
    for job in pending_of(cluster)[:2]:
        gone = data.draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if names else []
        group = job.spec.groups[0]
        devices = data.draw(st.integers(0, max(1, group.request.devices)))
        smaller = replace(group, request=replace(group.request, devices=devices, share_milli=1000))
        variant = replace(job.spec, groups=(smaller, *job.spec.groups[1:]))
        before = exact(cluster)
        tried_on_both(running, variant, gone, data.draw(st.booleans()))
        assert exact(cluster) == before


AFFINE = Policy.model_validate(
    {
        "affinity": [
            {"projects": ["p0"], "node_labels": {"rack": "r0"}, "required": True},
            {"departments": ["d0"], "node_labels": {"rack": "r1"}, "required": True},
        ]
    }
)
"""A policy whose rules depend on the place of a project in the tree."""


def changed_queues(queues: tuple[Queue, ...], data: st.DataObject) -> tuple[Queue, ...]:
    """Return the queues with one changed, or with a further project or department."""
    position = data.draw(st.sampled_from([index for index, queue in enumerate(queues) if queue.is_project]))
    queue, milli = queues[position], data.draw(st.sampled_from((0, 1000, 4000, 64_000)))
    row = data.draw(st.sampled_from(("gpu", "gpu.A100", "memory")))
    kinds = ("quota", "limit", "weight", "priority", "parent", "project", "department")
    kind = data.draw(st.sampled_from(kinds))
    if kind == "department":  # departments come first: all positions change
        return (Queue("further", is_project=False), *queues)
    if kind == "project":
        return (*queues, replace(queue, name="further", quota={"gpu": milli}))
    parents = [None, *(queue.name for queue in queues if not queue.is_project)]
    other: dict[str, dict[str, Any]] = {
        "quota": {"quota": {**queue.quota, row: milli}},
        "limit": {"limit": {row: milli}},
        "weight": {"weight": {row: milli / 1000}},
        "priority": {"priority": milli},
        "parent": {"parent": data.draw(st.sampled_from(parents))},
    }
    return (*queues[:position], replace(queue, **other[kind]), *queues[position + 1 :])


@pytest.mark.parametrize("with_limits", [False, True])
@examples(25)
@given(worlds(policies=(*POLICIES, AFFINE), happens=HAPPENS, steps_max=10), st.data())
def test_previewed_queues_decide_as_a_full_copy_and_leave_no_trace(
    with_limits: bool, world: World, data: st.DataObject
) -> None:
    running = settled(limited(world) if with_limits else world, 20)
    cluster, policy, now_s = running.cluster, world.policy, running.now_s
    queues = changed_queues(cluster.ledger.queues, data)
    cluster.now_s = now_s
    before, copy = exact(cluster), copy_cluster(cluster_facts(cluster))
    change = preview_queues(DecisionState(cluster, running.cache, policy, now_s), queues)
    assert exact(cluster) == before
    plans = [decide(copy, policy, now_s, EngineCache())]
    reduce(copy, QueuesSet(queues))
    plans.append(decide(copy, policy, now_s, EngineCache()))
    stops, starts = ([outcome(plan) for plan in plans] for outcome in (stopped, started))
    assert (set(change.stops), set(change.starts)) == (stops[1] - stops[0], starts[1] - starts[0])


def stopped(plan: Plan) -> set[str]:
    return {eviction.pod.workload for eviction in plan.evictions if not eviction.moves}


def started(plan: Plan) -> set[str]:
    return {place.pod.workload for place in plan.binds} | {
        nomination.workload for nomination in plan.nominations
    }


@examples(40)
@given(worlds(policies=POLICIES, happens=HAPPENS, steps_max=10), st.data())
def test_a_previewed_submission_is_decided_as_on_a_full_copy_and_leaves_no_trace(
    world: World, data: st.DataObject
) -> None:
    running = settled(limited(world), 20)
    cluster, policy, now_s = running.cluster, world.policy, running.now_s
    for job in data.draw(st.permutations(list(cluster.jobs.values())))[:2]:
        submitted = replace(job.spec, name="previewed", submitted_s=now_s)
        before, copy = exact(cluster), copy_cluster(cluster_facts(cluster))
        previewed = preview_submission(DecisionState(cluster, running.cache, policy, now_s), submitted)
        assert exact(cluster) == before
        mix = copy.mix.frozen()
        reduce(copy, WorkloadSubmitted(submitted, now_s))
        copy.mix = mix
        plan = decide(copy, policy, now_s, EngineCache())
        nodes = [place.node for place in plan.binds if place.pod.workload == "previewed"]
        kept = [nomination for nomination in plan.nominations if nomination.workload == "previewed"]
        nodes += [place.node for nomination in kept for place in nomination.places]
        assert previewed.nodes == tuple(dict.fromkeys(nodes))
        assert previewed.stops == tuple(name for nomination in kept for name in nomination.freed_by)
        assert (previewed.reason is None) == bool(nodes)


@pytest.mark.parametrize("with_limits", [False, True])
@examples(25)
@given(worlds(policies=POLICIES, happens=HAPPENS, steps_max=10), st.integers(1, CALLS_MAX))
def test_suggestions_leave_the_state_as_it_was_wherever_they_are_broken_off(
    with_limits: bool, world: World, calls: int
) -> None:
    running = settled(limited(world) if with_limits else world, 20)
    cluster, policy, now_s = running.cluster, world.policy, running.now_s
    state = DecisionState(cluster, running.cache, policy, now_s)
    projects = tuple(queue.name for queue in world.queues if queue.is_project)
    for job in pending_of(cluster)[:1]:
        before = exact(cluster)
        try:
            with broken_off(calls):
                suggestions(
                    lambda read: read(state), job.name, SuggestionOptions(PRIORITY_MAX, projects=projects)
                )
        except Broken:
            pass
        assert exact(cluster) == before
    plan = decide(cluster, policy, now_s, running.cache)
    assert actions(plan) == actions(decide(cluster, policy, now_s, EngineCache()))

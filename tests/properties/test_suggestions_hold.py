"""Every suggestion holds: what it changes lets the workload start, on a copy that the trials never saw."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from tests.cluster_copy import ClusterFacts, cluster_facts, copy_cluster

from weir.api.answers import Suggestion
from weir.model.queues import Queue
from weir.model.resources import CPU, MEMORY, amount, seconds
from weir.model.workloads import WHOLE_MILLI, Request, TopologyRequest, Workload
from weir.scenario_io.scalars import PRIORITY_MAX
from weir.service.decision_state import DecisionState
from weir.service.suggestions import SuggestionOptions, suggestions
from weir.state.cluster import Cluster
from weir.state.events import QueuesSet, WorkloadEnded, WorkloadOutcome, WorkloadSubmitted
from weir.state.reduce import reduce

from .budget import examples
from .random_cluster import POLICIES, Does, World, worlds
from .running import Running, settled

ASKED_MAX = 2
CYCLES_MAX = 8
_REQUEST_FIELDS: dict[str, Any] = {
    "memory": lambda request, value: replace(request, memory=amount(MEMORY, value)),
    "cpu": lambda request, value: replace(request, cpu_milli=amount(CPU, value)),
    "gpu_models": lambda request, value: replace(request, gpu_models=tuple(value)),
    "nodes": lambda request, _: replace(request, nodes=None),
    "node_selector": lambda request, _: replace(request, node_selector=()),
    "node_affinity": lambda request, _: replace(
        request, rules=tuple(rule for rule in request.rules if rule.weight)
    ),
    "pod_affinity": lambda request, _: replace(
        request, pod_rules=tuple(rule for rule in request.pod_rules if rule.weight)
    ),
}


def changed(spec: Workload, change: dict[str, Any], *, others_make: bool) -> Workload:
    """Return the workload that a person would submit instead; pods that `others_make` stay as many."""
    for key, value in change.items():
        if key == "topology":
            spec = replace(spec, topology=TopologyRequest(value["name"], None, value["preferred"]))
        elif key == "max_runtime":
            spec = replace(spec, max_runtime_s=seconds(value))
        elif key == "pods":
            group = spec.groups[0]
            fewer = replace(group, count=group.count if others_make else value, min=min(group.min, value))
            spec = replace(spec, groups=(fewer,), min_pods=min(spec.min_pods, value))
        elif key in ("priority", "preemptible", "project"):
            spec = replace(spec, **{key: value})
        else:
            group = spec.groups[0]
            spec = replace(spec, groups=(replace(group, request=_request(group.request, key, value)),))
    return spec


def _request(request: Request, key: str, value: Any) -> Request:
    if key != "gpus":
        changed_request: Request = _REQUEST_FIELDS[key](request, value)
        return changed_request
    if isinstance(value, float):
        return replace(request, share_milli=round(value * WHOLE_MILLI))
    return replace(request, devices=value)


def _queues(cluster: Cluster, change: dict[str, Any]) -> Iterator[Queue]:
    for queue in cluster.ledger.queues:
        amounts = {
            bound: {**getattr(queue, bound), "gpu": change[bound][queue.name] * WHOLE_MILLI}
            for bound in ("quota", "limit")
            if queue.name in change.get(bound, {})
        }
        yield replace(queue, **amounts)


def starts(
    world: World, facts: ClusterFacts, name: str, suggestion: Suggestion, *, others_make: bool
) -> bool:
    """Follow a suggestion on a new copy, and carry decisions out until the workload runs."""
    running = Running(world)
    cluster = running.cluster = copy_cluster(facts)
    running.now_s = facts.now_s
    job, change = cluster.jobs[name], dict(suggestion.change)
    if "ended" in change:
        reduce(cluster, WorkloadEnded(str(change["ended"]), WorkloadOutcome.STOPPED, facts.now_s))
    elif "quota" in change:
        reduce(cluster, QueuesSet(tuple(_queues(cluster, change))))
    else:
        waits_since_s, ran_s, spec = (
            job.waits_since_s,
            job.ran_s,
            changed(job.spec, change, others_make=others_make),
        )
        reduce(cluster, WorkloadEnded(name, WorkloadOutcome.STOPPED, facts.now_s))
        reduce(cluster, WorkloadSubmitted(spec, spec.submitted_s, ran_s))
        cluster.jobs[name].waits_since_s = waits_since_s
    for _ in range(CYCLES_MAX):
        running.cycle()
        if not any(cluster.jobs[name].lacks()):
            return True
    return False


@pytest.mark.parametrize("others_make", [False, True], ids=["one machine", "Kubernetes"])
@examples(12)
@given(worlds(policies=POLICIES, happens=(Does.CYCLE, Does.SUBMIT, Does.END), steps_max=10))
def test_every_suggestion_lets_the_workload_start(others_make: bool, world: World) -> None:
    running = settled(world, 20)
    cluster, policy = running.cluster, world.policy
    projects = tuple(queue.name for queue in world.queues if queue.is_project)
    possible = SuggestionOptions(PRIORITY_MAX, projects=projects)
    if others_make:
        classes = (20, 60, 100, 500)
        possible = SuggestionOptions(PRIORITY_MAX, classes, shares=False, others_make=True)
    cluster.now_s = running.now_s
    facts = cluster_facts(cluster)
    state = DecisionState(cluster, running.cache, policy, running.now_s)
    pending = [
        job for queued in cluster.waiting.values() for _, _, job in queued.members if not job.is_running
    ]
    for job in pending[:ASKED_MAX]:
        for suggestion in suggestions(lambda read: read(state), job.name, possible).suggestions:
            if suggestion.at_s is None:
                holds = starts(world, facts, job.name, suggestion, others_make=others_make)
                assert holds, f"{job.name}: {suggestion.sentence}"

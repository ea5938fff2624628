"""A scenario as the events that make a cluster, so that a test builds its state as a server does."""

from collections.abc import Iterator

from weir.model.scenario import Scenario, WorkloadPast
from weir.simulation.disruption_budgets import budget_facts
from weir.state.cluster import Cluster
from weir.state.events import (
    Checkpointed,
    Event,
    HistoryRestored,
    NodeSet,
    Placement,
    PodAssigned,
    PodKey,
    QueuesSet,
    TopologiesSet,
    WorkloadSubmitted,
)
from weir.state.reduce import reduce


def ground(scenario: Scenario) -> Iterator[Event]:
    """Return the events before any workload: topologies, nodes in the order of the file, queues."""
    yield TopologiesSet(tuple(scenario.topologies))
    for node in scenario.nodes:
        yield NodeSet(node)
    yield QueuesSet(tuple(scenario.queues))


def initial_events(scenario: Scenario) -> Iterator[Event]:
    """Yield the events of a scenario, each after those it depends on."""
    yield from ground(scenario)
    submitted_s = {}
    for workload in sorted(scenario.workloads, key=lambda workload: workload.submitted_s):
        submitted_s[workload.name] = workload.submitted_s
        past = scenario.past.get(workload.name, WorkloadPast())
        absent = frozenset(PodKey(workload.name, group, index) for group, index in past.absent)
        yield WorkloadSubmitted(workload, workload.submitted_s, past.ran_s, absent)
    yield from budget_facts(scenario)
    for name, past in scenario.past.items():
        started_s = submitted_s[name] if past.started_s is None else past.started_s
        for (group, index), (node, devices) in past.placed.items():
            yield PodAssigned(Placement(PodKey(name, group, index), node, devices), started_s)
    for name, past in scenario.past.items():
        if past.checkpointed_s is not None:
            yield Checkpointed(name, past.checkpointed_s)
    for name, past in scenario.past.items():
        yield HistoryRestored(name, past.waits_since_s, past.short_since_s, past.stopped_for)


def build_cluster(scenario: Scenario) -> Cluster:
    """Build the cluster that a scenario describes."""
    cluster = Cluster()
    for fact in initial_events(scenario):
        reduce(cluster, fact)
    return cluster

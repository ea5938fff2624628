"""Prices of the possible victims of one search."""

from weir.engine.allocation.allocate import new_allocator
from weir.engine.cache import EngineCache
from weir.engine.protection.preemption_rules import PreemptionKind, PreemptionWay
from weir.engine.victims.preemption_context import PreemptionContext
from weir.engine.victims.victim_candidates import VictimCandidates
from weir.scenario_io.reading import parse_scenario
from weir.simulation.initial_events import build_cluster
from weir.state.jobs import Pod

WORLD = """
cluster: {nodes: [{name: small, gpus: 1, gpu_memory: 20Gi}, {name: large, gpus: 1, gpu_memory: 80Gi}]}
projects: [{name: owner, quota: {gpu: 2}}, {name: borrower, quota: {gpu: 0}}]
policy: {consolidation: {enabled: false}}
workloads:
- name: elastic
  project: borrower
  submitted: -9h
  pods: [{count: 2, min: 1, gpu_memory: 10Gi, placed: [{node: small, gpus: [0]}, {node: large, gpus: [0]}]}]
- {name: wide, project: owner, pods: [{gpus: 1}]}
"""


def _prices(context: PreemptionContext, candidates: VictimCandidates, gone: Pod) -> list[float]:
    """Return the prices of the possible victims after the stop of a pod."""
    with context.transaction.trial():
        context.accounting.stop((gone,))
        prices: list[float] = candidates.takeable().by_node.price.tolist()
    return prices


def test_the_last_pod_of_an_elastic_workload_has_its_own_price_whichever_is_left() -> None:
    """Ten GiB are half of a small device, and an eighth of a large one."""
    scenario = parse_scenario(WORLD, "world")
    cluster = build_cluster(scenario)
    allocator = new_allocator(cluster, scenario.policy, 0.0, EngineCache())
    context = PreemptionContext(allocator)
    wide = cluster.jobs["wide"].waiting
    assert wide is not None
    rules = allocator.rules_of(allocator.candidate(wide, 0))
    candidates = VictimCandidates(context, rules, PreemptionWay(PreemptionKind.RECLAIM), 0.0)
    on_small, on_large = cluster.jobs["elastic"].running_pods()
    restart, hours_s = scenario.policy.price.restart, 9 * 3600.0
    assert _prices(context, candidates, on_small) == [restart + hours_s / 8]
    assert _prices(context, candidates, on_large) == [restart + hours_s / 2]

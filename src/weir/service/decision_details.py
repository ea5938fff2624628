"""Details of the decision on a workload, on a copy of the cluster."""

from weir.api.decision import DecisionAnswer, NodeRankingRow, NodeScoreRow, VictimRow
from weir.engine.considered_victims import ConsideredVictim
from weir.engine.decision_details import decision_details
from weir.engine.node_ranking import GroupRanking
from weir.model.policy import Policy
from weir.service.cluster_copy import ClusterFacts, copy_cluster
from weir.state.cluster import Cluster
from weir.state.events import WorkloadEnded, WorkloadOutcome, WorkloadSubmitted
from weir.state.reduce import reduce


def explain_decision(facts: ClusterFacts, policy: Policy, name: str) -> DecisionAnswer | None:
    """Return the details of the next decision on a workload; None if it can't be placed.

    A workload that isn't pending is submitted again on the copy, without its present pods.
    """
    cluster = copy_cluster(facts)
    again = cluster.jobs[name].waiting is None
    if again:
        _submit_again(cluster, name, facts.now_s)
    details = decision_details(cluster, policy, cluster.jobs[name], facts.now_s)
    if details is None:
        return None
    return DecisionAnswer(
        rankings=[_ranking_row(ranking) for ranking in details.rankings],
        eligible=details.victims.eligible,
        protected=details.victims.protected,
        victims=[_victim_row(victim) for victim in details.victims.named],
        again=again,
    )


def _submit_again(cluster: Cluster, name: str, now_s: float) -> None:
    spec = cluster.jobs[name].spec
    reduce(cluster, WorkloadEnded(name, WorkloadOutcome.STOPPED, now_s))
    reduce(cluster, WorkloadSubmitted(spec, now_s))


def _ranking_row(ranking: GroupRanking) -> NodeRankingRow:
    nodes = [
        NodeScoreRow(
            node=ranked.node,
            free_gpus=ranked.free_gpus,
            preference=ranked.preference,
            fragmentation=ranked.fragmentation,
        )
        for ranked in ranking.nodes
    ]
    return NodeRankingRow(group=ranking.group, fitting=ranking.fitting, nodes=nodes)


def _victim_row(victim: ConsideredVictim) -> VictimRow:
    return VictimRow(
        workload=victim.workload,
        project=victim.project,
        gpus=victim.gpus,
        lost=victim.lost,
        price=victim.price,
        rule=None if victim.rule is None else victim.rule.value,
        protected=victim.protected,
    )

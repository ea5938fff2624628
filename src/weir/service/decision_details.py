"""Details of the decision on a workload, from the engine's state after it."""

from weir.api.decision import DecisionAnswer, NodeRankingRow, NodeScoreRow, VictimRow
from weir.engine.considered_victims import ConsideredVictim
from weir.engine.decision_details import GroupRanking, decision_details
from weir.service.decision_state import DecisionState
from weir.state.events import WorkloadEnded, WorkloadOutcome, WorkloadSubmitted
from weir.state.reduce import reduce


def explain_decision(state: DecisionState, name: str) -> DecisionAnswer | None:
    """Return the details of the next decision on a workload; None if it can't be placed.

    A workload on which no decision is due is submitted again on a branch of the state, without its pods.
    """
    job = state.cluster.jobs.get(name)
    if job is None:
        return None
    cluster, cache, again = state.cluster, state.cache, job.waiting is None
    if again:
        cluster = state.branch([name], (job.spec.project, job.spec.user))
        reduce(cluster, WorkloadEnded(name, WorkloadOutcome.STOPPED, state.now_s))
        reduce(cluster, WorkloadSubmitted(job.spec, state.now_s))
        cache = state.cache_for(cluster)
    details = decision_details(cluster, state.policy, cluster.jobs[name], state.now_s, cache)
    if details is None:
        return None
    return DecisionAnswer(
        rankings=[_ranking_row(ranking) for ranking in details.rankings],
        eligible=details.victims.eligible,
        protected=details.victims.protected,
        victims=[_victim_row(victim) for victim in details.victims.named],
        again=again,
    )


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

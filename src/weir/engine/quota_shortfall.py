"""Quota shortfall: the queue whose quota a reclaim would exceed, in numbers."""

from weir.engine.preemption_rules import PreemptionRules
from weir.model.policy import Policy
from weir.model.resources import GPU, plain_amount, span, written
from weir.state.cluster import Cluster


def quota_shortfall(
    cluster: Cluster, policy: Policy, preemption_rules: PreemptionRules, numbers: dict[str, object]
) -> str:
    """Return which quota the work would pass, so that it may only use what is free; empty with a claim.

    The figures are added to `numbers`.
    """
    if preemption_rules.any_reclaim or not preemption_rules.job.can_preempt:
        return ""
    ledger = cluster.ledger
    for queue in reversed(preemption_rules.path):
        for row, amount in preemption_rules.request:
            have, most = ledger.allocated[queue][row], ledger.quota[queue][row]
            if amount and have + amount > most:
                name, resource = ledger.queues[queue].name, cluster.rows.names[row]
                numbers["claim"] = {
                    "queue": name,
                    "resource": resource,
                    "would_hold": plain_amount(resource, have + amount),
                    "quota": plain_amount(resource, most),
                }
                of = "GPUs" if resource == GPU else resource
                return (
                    f"{name} would hold {written(resource, have + amount)} of a quota of "
                    f"{written(resource, most)} {of}, so it may only use what is free"
                    f"{_until_patient(policy, preemption_rules)}"
                )
    return ""


def _until_patient(policy: Policy, preemption_rules: PreemptionRules) -> str:
    """Return when the work may reclaim its fair share, if waiting alone gives it that right."""
    if preemption_rules.is_patient or not preemption_rules.in_share:
        return ""
    left_s = policy.reclaim_share_after - preemption_rules.waited_s
    return f" (its fair share covers it: it may reclaim that in {span(max(1.0, left_s))})"

"""Warnings about quotas that can't all be kept: more is guaranteed than there is, or held beyond a quota."""

from collections.abc import Sequence

from weir.engine.refusals.node_refusals import amount_phrase
from weir.model.resources import GPU, UNLIMITED
from weir.state.cluster import Cluster
from weir.state.quota_usage import QuotaUsage
from weir.state.shapes import GPU_ROW


def quota_warnings(cluster: Cluster) -> dict[str, list[str]]:
    """Return the warnings of each department and project by name; others are left out."""
    ledger = cluster.ledger
    warnings: dict[str, list[str]] = {}
    pool = "the pool has", cluster.total(GPU_ROW)
    _over_committed(ledger, ledger.top, "Quotas", *pool, warnings)
    for position, queue in enumerate(ledger.queues):
        quota = ledger.quota[position][GPU_ROW]
        if queue.parent is not None and queue.parent in warnings:
            # Warnings of a project are appended to its department's
            warnings.setdefault(queue.name, []).extend(warnings[queue.parent])
        if ledger.children[position] and quota < UNLIMITED:
            _over_committed(
                ledger, ledger.children[position], f"Quotas in {queue.name}", "it has", quota, warnings
            )
    for position, queue in enumerate(ledger.queues):
        quota, fixed = ledger.quota[position][GPU_ROW], ledger.fixed[position][GPU_ROW]
        if fixed > quota:
            warnings.setdefault(queue.name, []).append(
                f"Non-preemptible work of {queue.name} holds {amount_phrase(GPU, fixed)}, more than its "
                f"quota of {amount_phrase(GPU, quota)}: that work stays until it ends."
            )
    return warnings


def _over_committed(
    ledger: QuotaUsage,
    siblings: Sequence[int],
    subject: str,
    has: str,
    amount: int,
    warnings: dict[str, list[str]],
) -> None:
    """Warn each sibling with a quota if their quotas add up to more than exists."""
    quotas = {
        position: ledger.quota[position][GPU_ROW]
        for position in siblings
        if ledger.quota[position][GPU_ROW] < UNLIMITED
    }
    total = sum(quotas.values())
    if total > amount:
        sentence = (
            f"{subject} guarantee {amount_phrase(GPU, total)} together, {has} {amount_phrase(GPU, amount)}: "
            "not all of them can be met at once."
        )
        for position, quota in quotas.items():
            if quota:
                warnings.setdefault(ledger.queues[position].name, []).append(sentence)

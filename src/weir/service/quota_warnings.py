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
    found: dict[str, list[str]] = {}
    pool = "the pool has", cluster.total(GPU_ROW)
    _over_committed(ledger, ledger.top, "Quotas", *pool, found)
    for at, queue in enumerate(ledger.queues):
        quota = ledger.quota[at][GPU_ROW]
        if queue.parent is not None and queue.parent in found:
            # Warnings of a project are appended to its department's
            found.setdefault(queue.name, []).extend(found[queue.parent])
        if ledger.children[at] and quota < UNLIMITED:
            _over_committed(ledger, ledger.children[at], f"Quotas in {queue.name}", "it has", quota, found)
    for at, queue in enumerate(ledger.queues):
        quota, fixed = ledger.quota[at][GPU_ROW], ledger.fixed[at][GPU_ROW]
        if fixed > quota:
            found.setdefault(queue.name, []).append(
                f"Non-preemptible work of {queue.name} holds {amount_phrase(GPU, fixed)}, more than its "
                f"quota of {amount_phrase(GPU, quota)}: that work stays until it ends."
            )
    return found


def _over_committed(
    ledger: QuotaUsage, siblings: Sequence[int], what: str, has: str, there: int, found: dict[str, list[str]]
) -> None:
    """Warn each sibling with a quota if their quotas add up to more than exists."""
    quotas = {at: ledger.quota[at][GPU_ROW] for at in siblings if ledger.quota[at][GPU_ROW] < UNLIMITED}
    total = sum(quotas.values())
    if total > there:
        sentence = (
            f"{what} guarantee {amount_phrase(GPU, total)} together, {has} {amount_phrase(GPU, there)}: "
            "not all of them can be met at once."
        )
        for at, quota in quotas.items():
            if quota:
                found.setdefault(ledger.queues[at].name, []).append(sentence)

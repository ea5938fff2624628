"""Older claims: pending workloads of the same project for which what is left of its quota is kept."""

from collections.abc import Sequence

from weir.engine.feasibility_cache import FeasibilityCache
from weir.engine.ineligible_victims import names_phrase
from weir.engine.infeasible import amount_phrase
from weir.engine.queue_order import Candidate
from weir.model.resources import GPU, plain_amount
from weir.state.cluster import Cluster
from weir.state.jobs import Job
from weir.state.shapes import GPU_ROW


def older_claims(feasibility: FeasibilityCache, candidate: Candidate) -> list[Job]:
    """Return the workloads that claim the project's quota before a candidate, in the order of the project."""
    own = candidate.of.line_key(candidate.at)
    claims = [
        (of.line_key(at), of.members[at][2])
        for of, count in feasibility.owners(candidate.job.project).items()
        for at in range(count)
        if of.line_key(at) < own
    ]
    return [job for _, job in sorted(claims, key=lambda claim: claim[0])]


def older_claims_phrase(
    cluster: Cluster, candidate: Candidate, older: Sequence[Job], numbers: dict[str, object]
) -> str:
    """Return whose claims use up the quota, as a clause; the figures are added to `numbers`."""
    names = [job.name for job in older]
    steps = [job.waiting.step.request for job in older if job.waiting is not None]
    claimed = sum(amount for request in steps for row, amount in request if row == GPU_ROW)
    numbers["older"], numbers["claimed"] = names, plain_amount(GPU, claimed)
    project = cluster.ledger.queues[candidate.job.project].name
    amount = f" ({amount_phrase(GPU, claimed)})" if claimed else ""
    claims = "claims" if len(names) == 1 else "claim"
    return (
        f"{names_phrase(names)} of {project} came first and {claims} the rest of its quota{amount}, "
        f"so this may only use what is free"
    )

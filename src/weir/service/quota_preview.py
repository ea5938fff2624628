"""Preview of a change of quotas: the next decision with and without it, on copies of the cluster."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir.engine.cache import EngineCache
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.policy import Policy
from weir.model.queues import Queue
from weir.service.cluster_copy import ClusterFacts, copy_cluster
from weir.service.quota_warnings import quota_warnings
from weir.state.cluster import Cluster
from weir.state.events import QueuesSet
from weir.state.reduce import reduce


@dataclass(frozen=True, slots=True)
class PreviewedChange:
    """Workloads that stop or start in the next decision because of a change, each with a sentence."""

    stops: dict[str, str]
    starts: dict[str, str]
    warnings: list[str]


def preview_queues(facts: ClusterFacts, policy: Policy, queues: Sequence[Queue]) -> PreviewedChange:
    """Return the effect of these departments and projects on the next decision."""
    before = copy_cluster(facts)
    plan = decide(before, policy, facts.now_s, EngineCache())
    after = copy_cluster(facts)
    reduce(after, QueuesSet(tuple(queues)))
    changed = decide(after, policy, facts.now_s, EngineCache())
    stops, starts = _stops(changed), _starts(changed)
    known = {sentence for each in quota_warnings(before).values() for sentence in each}
    return PreviewedChange(
        {name: sentence for name, sentence in stops.items() if name not in _stops(plan)},
        {name: sentence for name, sentence in starts.items() if name not in _starts(plan)},
        _new_warnings(after, known),
    )


def _stops(plan: Plan) -> dict[str, str]:
    return {
        each.pod.workload: f"{each.cause.sentence.rstrip('.')}." for each in plan.evictions if not each.moves
    }


def _starts(plan: Plan) -> dict[str, str]:
    found = {place.pod.workload: "It starts at once." for place in plan.binds}
    for nominated in plan.nominations:
        names = ", ".join(nominated.freed_by)
        found.setdefault(
            nominated.workload, f"It starts once {names} stopped." if names else "It starts soon."
        )
    return found


def _new_warnings(cluster: Cluster, known: set[str]) -> list[str]:
    found = (sentence for each in quota_warnings(cluster).values() for sentence in each)
    return [sentence for sentence in dict.fromkeys(found) if sentence not in known]

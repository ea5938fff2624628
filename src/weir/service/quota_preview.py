"""Preview of a change of quotas: the next decision with and without it, on branches of the state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weir.api.previews import QUOTA_EFFECTS_MAX, QuotaEffect, QuotaPreview
from weir.api.workload_list import WorkloadRow
from weir.engine.cycle import decide
from weir.engine.plan import Plan
from weir.model.queues import Queue
from weir.service.decision_state import DecisionState
from weir.service.quota_warnings import quota_warnings
from weir.state.branch import replace_quota
from weir.state.cluster import Cluster
from weir.state.events import QueuesSet
from weir.state.reduce import reduce


@dataclass(frozen=True, slots=True)
class PreviewedChange:
    """Workloads that stop or start in the next decision because of a change, each with a sentence."""

    stops: dict[str, str]
    starts: dict[str, str]
    warnings: list[str]

    def answer(self, row_of: Callable[[str], WorkloadRow | None]) -> QuotaPreview:
        """Return the change as an answer for people; `row_of` finds the row of a workload."""
        return QuotaPreview(
            stops=_effects(self.stops, row_of), starts=_effects(self.starts, row_of), warnings=self.warnings
        )


def _effects(sentences: Mapping[str, str], row_of: Callable[[str], WorkloadRow | None]) -> list[QuotaEffect]:
    first = list(sentences.items())[:QUOTA_EFFECTS_MAX]
    affected = ((name, sentence, row_of(name)) for name, sentence in first)
    return [
        QuotaEffect(
            workload=name,
            uid=row.uid,
            project=row.project,
            user=row.user,
            gpus=row.devices,
            sentence=sentence,
        )
        for name, sentence, row in affected
        if row is not None
    ]


def preview_queues(state: DecisionState, queues: Sequence[Queue]) -> PreviewedChange:
    """Return the effect of these settings of departments and projects on the next decision."""
    after = _with_queues(state, queues)
    before, changed = _decided(state, state.branch()), _decided(state, after)
    stops, starts = _stops(before), _starts(before)
    earlier = {sentence for sentences in quota_warnings(state.cluster).values() for sentence in sentences}
    return PreviewedChange(
        {name: sentence for name, sentence in _stops(changed).items() if name not in stops},
        {name: sentence for name, sentence in _starts(changed).items() if name not in starts},
        _new_warnings(after, earlier),
    )


def _with_queues(state: DecisionState, queues: Sequence[Queue]) -> Cluster:
    """Return a branch with these queues; only a change of the tree needs a copy of every workload."""
    before = {queue.name: queue for queue in state.cluster.ledger.queues}
    if len(queues) == len(before) and all(_differ_in_amounts(state, before, queue) for queue in queues):
        cluster = state.branch()
        for queue in queues:
            if queue != before[queue.name]:
                replace_quota(cluster, queue)
    else:
        cluster = state.branch(state.cluster.jobs)
        reduce(cluster, QueuesSet(tuple(queues)))
    return cluster


def _differ_in_amounts(state: DecisionState, before: Mapping[str, Queue], queue: Queue) -> bool:
    """Return True if nothing changes in a queue except the amounts of known resources."""
    old = before.get(queue.name)
    return (
        old is not None
        and replace(old, quota=queue.quota, limit=queue.limit, weight=queue.weight) == queue
        and all(state.cluster.rows.get(name) is not None for name in (*queue.quota, *queue.limit))
    )


def _decided(state: DecisionState, branched: Cluster) -> Plan:
    return decide(branched, state.policy, state.now_s, state.cache_for(branched))


def _stops(plan: Plan) -> dict[str, str]:
    return {
        eviction.pod.workload: f"{eviction.cause.sentence.rstrip('.')}."
        for eviction in plan.evictions
        if not eviction.moves
    }


def _starts(plan: Plan) -> dict[str, str]:
    sentences = {place.pod.workload: "It starts at once." for place in plan.binds}
    for nominated in plan.nominations:
        names = nominated.freed_by
        have = "has" if len(names) == 1 else "have"
        when = f"once {', '.join(names)} {have} stopped" if names else "soon"
        sentences.setdefault(nominated.workload, f"It starts {when}.")
    return sentences


def _new_warnings(cluster: Cluster, earlier: set[str]) -> list[str]:
    current = (sentence for sentences in quota_warnings(cluster).values() for sentence in sentences)
    return [sentence for sentence in dict.fromkeys(current) if sentence not in earlier]

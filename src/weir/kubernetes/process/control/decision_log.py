"""Log lines about decisions: starts and evictions of a cycle, and reasons of pending workloads.

Each line has the number of its cycle, which connects a start with the evictions that freed its place. A
cycle writes at most LINES_MAX lines of a kind, and the last of them counts the rest.
"""

from collections.abc import Iterable, Mapping

from structlog import get_logger

from weir.api.answers import Explanation
from weir.engine.plan import Eviction, Plan
from weir.state.cluster import Cluster

LINES_MAX = 100
NODES_MAX = 8
_LOG = get_logger(__name__)


class DecisionLog:
    """Writes the lines. All calls come from the control thread."""

    def __init__(self) -> None:
        self._waits_for: dict[str, str] = {}  # class of the last logged reason, by workload
        self._refused: dict[str, str] = {}

    def forget(self) -> None:
        """Forget the reasons that were logged: control starts again."""
        self._waits_for.clear()

    def decided(self, cluster: Cluster, plan: Plan, cycle: int, took_s: float) -> None:
        """Log a plan that acts, before it is carried out."""
        if not plan.acts:
            return
        _LOG.info(
            "planned",
            cycle=cycle,
            binds=len(plan.binds),
            evictions=len(plan.evictions),
            nominations=len(plan.nominations),
            took_s=round(took_s, 4),
        )
        self._evicted(cluster, plan, cycle)
        self._placed(cluster, plan, cycle)

    def _evicted(self, cluster: Cluster, plan: Plan, cycle: int) -> None:
        pods: dict[str, int] = {}
        causes: dict[str, Eviction] = {}
        for eviction in plan.evictions:
            name = eviction.pod.workload
            pods[name] = pods.get(name, 0) + 1
            causes.setdefault(name, eviction)
        for index, (name, eviction) in enumerate(causes.items()):
            if index == LINES_MAX:
                _LOG.info("evicted", cycle=cycle, further=len(causes) - LINES_MAX)
                break
            cause = eviction.cause
            _LOG.info(
                "evicted",
                cycle=cycle,
                workload=name,
                project=_project(cluster, name),
                pods=pods[name],
                rule=cause.rule.value,
                beneficiary=cause.by,
                moves=eviction.moves,
                why=cause.sentence,
            )

    def _placed(self, cluster: Cluster, plan: Plan, cycle: int) -> None:
        nodes: dict[str, list[str]] = {}
        for place in plan.binds:
            nodes.setdefault(place.pod.workload, []).append(place.node)
        for index, (name, used) in enumerate(nodes.items()):
            self._waits_for.pop(name, None)
            if index == LINES_MAX:
                _LOG.info("placed", cycle=cycle, further=len(nodes) - LINES_MAX)
            if index >= LINES_MAX:
                continue
            _LOG.info(
                "placed",
                cycle=cycle,
                workload=name,
                project=_project(cluster, name),
                pods=len(used),
                nodes=list(dict.fromkeys(used))[:NODES_MAX],
            )

    def waits(
        self, cluster: Cluster, changed: Iterable[str], reasons: Mapping[str, Explanation], cycle: int
    ) -> None:
        """Log each workload whose reason has another class than before."""
        logged = 0
        for name in changed:
            why = reasons.get(name)
            if why is None:
                self._waits_for.pop(name, None)
                continue
            if self._waits_for.get(name) == why.why:
                continue
            self._waits_for[name] = why.why
            logged += 1
            if logged <= LINES_MAX:
                _LOG.info(
                    "waits",
                    cycle=cycle,
                    workload=name,
                    project=_project(cluster, name),
                    reason=why.why,
                    why=why.sentence,
                )
        if logged > LINES_MAX:
            _LOG.info("waits", cycle=cycle, further=logged - LINES_MAX)

    def refused(self, refusals: Mapping[str, str]) -> None:
        """Log each object that can't be used, once for each sentence."""
        news = {name: why for name, why in refusals.items() if self._refused.get(name) != why}
        self._refused = dict(refusals)
        for name, why in list(news.items())[:LINES_MAX]:
            _LOG.info("refused", object=name, why=why)
        if len(news) > LINES_MAX:
            _LOG.info("refused", further=len(news) - LINES_MAX)

    def ended(self, workload: str) -> None:
        """Forget a workload that is over."""
        self._waits_for.pop(workload, None)


def _project(cluster: Cluster, name: str) -> str | None:
    job = cluster.jobs.get(name)
    return None if job is None else job.spec.project

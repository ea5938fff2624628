"""Events about one pod that its processes or its files bring about."""

from weir.local.server.pool_view import PoolView
from weir.model.reasons import as_clause
from weir.state.events import PodKey
from weir.store import HistoryEvent


def pod_event(view: PoolView, pod: PodKey, uid: int, kind: str, sentence: str, at_s: float) -> HistoryEvent:
    """Return the event; a pod whose workload is gone from the view has no project."""
    line = view.workloads.get(pod.workload)
    group = str(pod.group) if line is None else line.spec.groups[pod.group].name
    said = f"Pod {pod.workload}/{group}/{pod.index}: {as_clause(sentence)}"
    project, name = (None, None) if line is None else (line.spec.project, pod.workload)
    return HistoryEvent(at_s, kind, said, uid=uid, workload=name, project=project)

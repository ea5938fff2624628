"""The aggregated API of a process: what its parts are given."""

from typing import cast

import msgspec

from weir.kubernetes.api.changes import ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.process.server.query_service import QueryService
from weir.kubernetes.query.cluster.answers import SchedulerAnswers

LATER_S = 4e9
"""A time of the API server that is far from that of this machine."""


class Silent(ApiClient):
    """An API server that isn't asked."""

    def __init__(self) -> None: ...


async def test_curves_are_kept_by_the_clock_of_the_api_server() -> None:
    answers = cast("SchedulerAnswers", None)
    service = QueryService(Silent(), answers, "weir", clock=lambda: LATER_S)
    recent = [{"name": "loss", "points": [[LATER_S - 1, 0.5]]}]
    body = {
        "metadata": {"name": "a", "namespace": "ns", "uid": "u"},
        "spec": {"owner": {"uid": "o"}},
        "status": {"phase": "Running", "report": {"owner": "o", "recent": recent}},
    }
    service.workloads.deliver([ObjectSet("ns/a", msgspec.convert(body, WorkloadObject))])
    (found,) = service.workloads.all()
    series, complete_s = service.series.series_of(found.number, LATER_S)
    assert series == {"loss": [(LATER_S - 1, 0.5)]}
    assert complete_s == LATER_S

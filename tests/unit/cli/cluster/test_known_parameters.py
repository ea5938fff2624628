"""Query parameters of the dashboard's REST requests: those of the client are known, and others refused."""

from collections.abc import Callable
from typing import Any

import pytest

from weir.cli.cluster.dashboard.known_parameters import refuse_unknown
from weir.cli.cluster.dashboard.request_problem import RequestProblem
from weir.cli.cluster.requests import parts_of
from weir.client.calls import Call
from weir.client.endpoints import Endpoints, logs


class CallsAlone(Endpoints):
    """A client that returns its calls in place of their answers."""

    def send(self, call: Callable[[], Any]) -> Any:
        return call()

    rows = iterate = send


POOL: Any = CallsAlone()
CALLS: list[Call[object]] = [
    POOL.page(
        limit=100,
        after="100",
        project="a",
        status=["pending"],
        type="train",
        user="mia",
        query="x",
        ended=True,
        since_s=1,
    ),
    POOL.get("vision/train"),
    POOL.why("vision/train", wait_s=1.0),
    POOL.rerun("vision/train", failed=True),
    POOL.stop("vision/train"),
    POOL.events_page(limit=100, after="100", workload="vision/train", project="a", kind="stopping"),
    POOL.projects(may_submit=True),
    POOL.set_project("a", version="7", quota={"gpu": 1}),
    POOL.departments(),
    POOL.status(),
    POOL.nodes(),
    POOL.schedules(),
    POOL.sweeps(project="a"),
    POOL.delete_sweep("a", checkpoints=True),
    POOL.notifications(),
    POOL.deliveries(states=["failed"]),
    POOL.usage(since_s=1.0, until_s=2.0, by="user", project="a"),
    POOL.history(since_s=1.0, until_s=2.0, by="user", project="a"),
    logs("vision/train", pod="all", start=1, tail=5, follow=True),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.method} {call.path}")
def test_the_parameters_of_the_client_are_known(call: Call[object]) -> None:
    parts = parts_of(f"/api/v1{call.path}")
    refuse_unknown(call.method, parts, call.params)
    with pytest.raises(RequestProblem) as refused:
        refuse_unknown(call.method, parts, [*call.params, "nosuch"])
    assert refused.value.status == 422


@pytest.mark.parametrize(
    ("path", "name", "sentence"),
    [
        ("workloads", "projct", "unknown parameter 'projct'; did you mean project?"),
        ("workloads/7", "x", "unknown parameter 'x'; the path takes none"),
        ("notifications/deliveries", "stat", "unknown parameter 'stat'; did you mean state?"),
    ],
)
def test_a_misspelled_parameter_is_corrected(path: str, name: str, sentence: str) -> None:
    with pytest.raises(RequestProblem) as refused:
        refuse_unknown("GET", path.split("/"), [name])
    assert str(refused.value) == sentence


def test_a_path_that_a_cluster_refuses_names_its_own_tool() -> None:
    refuse_unknown("GET", ["audit"], ["limit", "nosuch"])

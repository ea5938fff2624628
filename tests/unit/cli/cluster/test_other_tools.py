"""Requests and commands that a cluster doesn't answer name what to use instead, and change nothing."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.cluster.requests import ClusterRequests
from weir.cli.main import main
from weir.client.errors import PoolError


@pytest.mark.parametrize(
    ("parts", "tool"),
    [
        (["priorities"], "kubectl get priorityclasses"),
        (["stream"], "kubectl get workloads.weir.dev -A --watch"),
        (["workloads", "vision/job-a", "logs"], "weir logs vision/job-a -f"),
        (["workloads", "a", "entry"], "weir exec a"),
        (["previews"], "weir why"),
        (["history", "trace"], "weir report history"),
        (["projects", "vision", "secrets", "KEY"], "kubectl create secret generic"),
        (["departments", "research", "members"], "kubectl create rolebinding"),
        (["nodes", "n1", "workloads"], "spec.nodeName=n1"),
        (["sweeps", "vision/a", "trials"], "kubectl edit sweep a"),
        (["schedules", "a", "b", "c"], "kubectl edit cronjob"),
        (["dashboard", "links"], "weir dashboard"),
    ],
)
async def test_a_request_that_a_cluster_cant_answer_names_the_command(parts: list[str], tool: str) -> None:
    api = cast("Any", SimpleNamespace(namespace="default"))
    with pytest.raises(PoolError, match=tool):
        await ClusterRequests(api, namespace=None).answer("GET", parts, {}, b"")


def test_a_request_of_no_known_kind_is_refused() -> None:
    from weir.cli.cluster.other_tools import instead_of

    assert instead_of([]) == instead_of(["nosuch"]) == "a cluster doesn't answer that"


@pytest.mark.parametrize(
    ("words", "tool"),
    [
        (("notify", "watch"), "kubectl get events --watch"),
        (("secret", "set", "KEY", "-p", "vision"), "kubectl create secret generic"),
        (("secret", "list", "-p", "vision"), "kubectl create secret generic"),
        (("token", "list"), "RBAC grants"),
        (("audit",), "its API server's settings"),
        (("checkpoints",), "kubectl get pvc"),
        (("priorities",), "kubectl get priorityclasses"),
        (("maintenance",), "kubectl drain NODE"),
        (("drain", "n1", "--yes"), "kubectl drain n1"),
        (("drain", "n1", "--gpu", "0"), "the device plugin of n1"),
        (("undrain", "n1"), "kubectl uncordon n1"),
        (("list", "parts", "--indices"), "weir logs parts --index N"),
        (("project", "members", "vision"), "kubectl create rolebinding"),
        (("project", "members", "add", "vision", "mia"), "kubectl create rolebinding"),
    ],
)
def test_a_command_for_one_machine_names_the_tool_of_a_cluster_and_asks_for_nothing(
    words: tuple[str, ...],
    tool: str,
    fake_cluster: FakeCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", object())  # nothing is read
    assert main(list(words)) == 2
    answer = capsys.readouterr()
    assert tool in answer.err
    assert answer.out == ""
    assert not fake_cluster.written

"""Names and bodies that no page of the dashboard sends."""

from pathlib import Path

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.cluster.dashboard.cluster_view import ClusterView
from weir.cli.cluster.dashboard.request_problem import RequestProblem
from weir.cli.main import main
from weir.client.errors import Refused
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.credentials import Kubeconfig


@pytest.mark.parametrize(
    "name", ["../../../api/v1/x", "vision/../other/x", "vision?watch=true&x=/x", "//x", "Vision/x"]
)
def test_a_namespace_that_is_no_name_is_never_part_of_a_path(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["why", name]) == 2
    assert f"There is no workload {name}; `weir list -A` shows which there are." in capsys.readouterr().err
    assert not [path for path in fake_cluster.asked if "workloads" in path]


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "workloads"), ("PUT", "projects/a"), ("POST", "workloads/vision%2Fa/extend")],
)
async def test_a_deep_body_is_refused(
    method: str, path: str, body: bytes, fake_cluster: FakeCluster, tmp_path: Path
) -> None:
    view = ClusterView(ApiClient(Kubeconfig(fake_cluster.kubeconfig(tmp_path))), "lab", namespace="vision")
    with pytest.raises((RequestProblem, Refused)) as refused:
        await view.answer(method, f"/api/v1/{path}", {}, body)
    assert getattr(refused.value, "status", 422) == 422


@pytest.mark.parametrize(
    ("path", "field"), [("workloads", "project"), ("workloads/vision%2Fa/extend", "duration")]
)
async def test_a_body_with_wrong_fields_names_them(
    path: str, field: str, fake_cluster: FakeCluster, tmp_path: Path
) -> None:
    view = ClusterView(ApiClient(Kubeconfig(fake_cluster.kubeconfig(tmp_path))), "lab", namespace="vision")
    with pytest.raises(Refused) as refused:
        await view.answer("POST", f"/api/v1/{path}", {}, b'{"evil": 1}')
    assert "validation error" not in str(refused.value)
    assert field in str(refused.value)

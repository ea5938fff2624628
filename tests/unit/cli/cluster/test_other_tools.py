"""Requests that a cluster doesn't answer name the tool that does."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from weir.cli.cluster.requests import ClusterRequests
from weir.client.errors import PoolError


@pytest.mark.parametrize(
    ("parts", "tool"),
    [
        (["priorities"], "kubectl get priorityclasses"),
        (["stream"], "kubectl get workloads.weir.dev -A --watch"),
    ],
)
async def test_a_request_that_a_cluster_cant_answer_names_the_command(parts: list[str], tool: str) -> None:
    api = cast("Any", SimpleNamespace(namespace="default"))
    with pytest.raises(PoolError, match=tool):
        await ClusterRequests(api, namespace=None).answer("GET", parts, {}, b"")

"""Traces of Weir on nodes go, also while others write to the nodes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest

from weir.cli.kube.removal.traces import free_nodes
from weir.kubernetes.api.errors import Conflict, NotFound
from weir.kubernetes.api.objects import KubeNode

TAINT = {"key": "weir.dev/gpu-sharing", "value": "true", "effect": "NoSchedule"}
OTHERS = {"key": "others", "effect": "NoSchedule"}


class Api:
    """An API server with one node, whose kubelet writes to it `conflicts` times before a patch arrives."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts
        self.version = 1
        self.taints: list[dict[str, str]] = [TAINT]
        self.is_gone = False

    async def list_all(self, _path: str, _of: Any) -> list[KubeNode]:
        return [await self.get("", KubeNode)]

    async def get(self, _path: str, _of: Any) -> KubeNode:
        metadata = {"name": "n", "resourceVersion": str(self.version)}
        return msgspec.convert({"metadata": metadata, "spec": {"taints": self.taints}}, KubeNode)

    async def pieces(self, *_: Any, **_options: Any) -> AsyncIterator[Any]:
        for page in ():
            yield page

    async def patch(self, _path: str, body: Any, _kind: Any, _of: Any) -> None:
        if self.is_gone:
            raise NotFound(404, "NotFound", "the node is gone")
        if self.conflicts:
            self.conflicts -= 1
            self.version += 1
            self.taints = [OTHERS, TAINT]
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise Conflict(409, "Conflict", "the object has been modified")
        self.taints = body["spec"]["taints"]


def freed(api: Api) -> list[tuple[bool, str]]:
    async def all_of_them() -> list[tuple[bool, str]]:
        return [node async for node in free_nodes(cast(Any, api), dry_run=False)]

    return asyncio.run(all_of_them())


def test_the_taint_of_a_node_goes_to_which_its_kubelet_writes_meanwhile() -> None:
    api = Api(conflicts=2)
    assert freed(api) == [(True, "nodes/n: taint weir.dev/gpu-sharing")]
    assert api.taints == [OTHERS]


def test_a_node_that_never_stands_still_is_an_error() -> None:
    with pytest.raises(Conflict):
        freed(Api(conflicts=100))


def test_a_node_that_is_deleted_meanwhile_stops_nothing() -> None:
    api = Api(conflicts=0)
    api.is_gone = True
    assert freed(api) == []

"""The APIService goes with the namespace of Weir, also when the API server is away for a moment."""

import asyncio
from typing import Any

import msgspec
import pytest

from weir.kubernetes.api.changes import ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiUnreachable
from weir.kubernetes.api.objects import Namespace
from weir.kubernetes.query.aggregation import withdrawal as module
from weir.kubernetes.query.aggregation.withdrawal import PAUSES_S, Withdrawal


class Registered(ApiClient):
    """An API server with one APIService, which fails at the first requests."""

    def __init__(self, namespace: str, failures: int = 0) -> None:
        self.home = namespace
        self.failures = failures
        self.deleted: list[str] = []

    async def get(self, path: str, of: Any, **_: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise ApiUnreachable("away", may_have_happened=False)
        spec = {"service": {"namespace": self.home}}
        return msgspec.convert({"metadata": {"name": "v1", "uid": "u"}, "spec": spec}, of)

    async def delete(self, path: str, *, uid: str = "", **_: Any) -> None:
        self.deleted.append(uid)


async def withdrawn(api: Registered, *, ends: bool = True) -> list[str]:
    tasks: list[asyncio.Task[None]] = []
    withdrawal = Withdrawal(api, "home", lambda work: tasks.append(asyncio.create_task(work)))
    metadata: dict[str, Any] = {"name": "home", "uid": "n"}
    if ends:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    change = ObjectSet("home", msgspec.convert({"metadata": metadata}, Namespace))
    for _ in range(2):
        withdrawal.see_namespaces([change])
    await asyncio.gather(*tasks)
    return api.deleted


async def test_the_api_goes_with_its_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSES_S", (0.0,) * len(PAUSES_S))
    assert await withdrawn(Registered("home")) == ["u"], "once"
    assert await withdrawn(Registered("home", failures=len(PAUSES_S) - 1)) == ["u"]
    assert await withdrawn(Registered("other")) == [], "it is another installation's"
    assert await withdrawn(Registered("home"), ends=False) == []

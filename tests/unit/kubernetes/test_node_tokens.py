"""Tokens of agents: what the API server's answer has to say, and how often it is asked."""

import asyncio
from typing import Any

import msgspec
import pytest

from weir.kubernetes.admission.node_tokens import (
    AUDIENCE,
    KEPT_S,
    UNDER_WAY_MAX,
    WAITING_MAX,
    NodeTokens,
    TooManyTokens,
)
from weir.kubernetes.admission.token_review import TokenReview

GOOD = {
    "authenticated": True,
    "user": {
        "username": "system:serviceaccount:weir-system:weir-node",
        "extra": {"authentication.kubernetes.io/node-name": ["gpu-7"]},
    },
    "audiences": [AUDIENCE],
}


class FakeApi:
    """Answers every review with one status."""

    def __init__(self, status: dict[str, Any]) -> None:
        self.status = status
        self.asked: list[dict[str, Any]] = []

    async def post(self, _path: str, body: dict[str, Any], kind: type[TokenReview]) -> TokenReview:
        self.asked.append(body["spec"])
        return msgspec.convert({"status": self.status}, kind)


async def node_of(status: dict[str, Any], header: str = "Bearer secret") -> str:
    return await NodeTokens(FakeApi(status), "weir-system").node_of(header)  # type: ignore[arg-type]


async def test_an_agent_speaks_for_the_node_of_its_pod() -> None:
    assert await node_of(GOOD) == "gpu-7"


@pytest.mark.parametrize(
    "change",
    [
        {"authenticated": False},
        {"user": {**GOOD["user"], "username": "system:serviceaccount:weir-system:weir"}},  # type: ignore[dict-item]
        {"user": {**GOOD["user"], "username": "system:serviceaccount:other:weir-node"}},  # type: ignore[dict-item]
        {"user": {**GOOD["user"], "extra": {}}},  # type: ignore[dict-item]
        {"audiences": []},
        {"audiences": ["https://kubernetes.default.svc"]},
    ],
)
async def test_every_other_bearer_speaks_for_none(change: dict[str, Any]) -> None:
    assert await node_of({**GOOD, **change}) == ""


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic secret", f"Bearer {'x' * 20_000}"])
async def test_a_header_without_a_token_costs_the_api_server_nothing(header: str) -> None:
    api = FakeApi(GOOD)
    assert await NodeTokens(api, "weir-system").node_of(header) == ""  # type: ignore[arg-type]
    assert not api.asked


async def test_an_answer_counts_for_a_while_and_names_the_audience() -> None:
    api, now_s = FakeApi(GOOD), [0.0]
    tokens = NodeTokens(api, "weir-system", lambda: now_s[0])  # type: ignore[arg-type]
    for now_s[0] in (0.0, KEPT_S - 1, KEPT_S, KEPT_S + 1):
        assert await tokens.node_of("Bearer secret") == "gpu-7"
    assert api.asked == [{"token": "secret", "audiences": [AUDIENCE]}] * 2
    assert await tokens.node_of("bearer other") == "gpu-7"
    assert len(api.asked) == 3


class SlowApi(FakeApi):
    """Answers when it is let."""

    def __init__(self) -> None:
        super().__init__(GOOD)
        self.go, self.is_full = asyncio.Event(), asyncio.Event()
        self.most = self.now = 0

    async def post(self, _path: str, body: dict[str, Any], kind: type[TokenReview]) -> TokenReview:
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now == UNDER_WAY_MAX:
            self.is_full.set()
        await self.go.wait()
        self.now -= 1
        return await super().post(_path, body, kind)


async def test_the_agents_of_a_large_cluster_wait_for_their_turn_after_a_start() -> None:
    api = SlowApi()
    tokens = NodeTokens(api, "weir-system")  # type: ignore[arg-type]
    count = UNDER_WAY_MAX + WAITING_MAX
    asked = [asyncio.create_task(tokens.node_of(f"Bearer {at}")) for at in range(UNDER_WAY_MAX)]
    await api.is_full.wait()
    asked += [asyncio.create_task(tokens.node_of(f"Bearer {at}")) for at in range(UNDER_WAY_MAX, count)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyTokens):
        await tokens.node_of("Bearer more")
    api.go.set()
    assert await asyncio.gather(*asked) == ["gpu-7"] * count
    assert api.most == UNDER_WAY_MAX


async def test_a_token_doesnt_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.kubernetes.admission.node_tokens.WAIT_S", 0.01)
    api = SlowApi()
    tokens = NodeTokens(api, "weir-system")  # type: ignore[arg-type]
    asked = [asyncio.create_task(tokens.node_of(f"Bearer {at}")) for at in range(UNDER_WAY_MAX)]
    await api.is_full.wait()
    with pytest.raises(TooManyTokens):
        await tokens.node_of("Bearer more")
    api.go.set()
    assert await asyncio.gather(*asked) == ["gpu-7"] * UNDER_WAY_MAX
    assert await tokens.node_of("Bearer more") == "gpu-7"

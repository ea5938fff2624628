"""Tokens of agents: what the API server's answer has to say, and how often it is asked."""

import asyncio
import base64
from typing import Any

import msgspec
import pytest

from weir.kubernetes.admission.node_tokens import (
    AUDIENCE,
    KEPT_S,
    NEW,
    NEW_OF_ADDRESS,
    UNDER_WAY_MAX,
    WAITING_MAX,
    NodeTokens,
)
from weir.kubernetes.admission.token_review import TOKENS_MAX, TooManyTokens
from weir.kubernetes.api.subject_reviews import TokenReview

ACCOUNT = "system:serviceaccount:weir-system:weir-node"


def token(name: object = "secret", **claims: Any) -> str:
    """Return a token that says it is an agent's."""
    said = {"sub": ACCOUNT, "aud": [AUDIENCE], "jti": str(name), **claims}
    part = base64.urlsafe_b64encode(msgspec.json.encode(said)).rstrip(b"=").decode()
    return f"head.{part}.signature"


def bearer(name: object = "secret", **claims: Any) -> str:
    return f"Bearer {token(name, **claims)}"


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


async def node_of(status: dict[str, Any], header: str | None = None) -> str:
    return await NodeTokens(FakeApi(status), "weir-system").node_of(header or bearer())  # type: ignore[arg-type]


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


@pytest.mark.parametrize(
    "header",
    [
        *("", "Bearer", "Bearer ", "Bearer secret", "Bearer a.b.c", "Bearer a..c", "Bearer \xff.\xff.\xff"),
        f"Basic {token()}",
        f"Bearer {'x' * 20_000}",
        bearer(padding="x" * 20_000),
        bearer(sub="system:serviceaccount:other:weir-node"),
        bearer(sub=7),
        bearer(aud="https://kubernetes.default.svc"),
        bearer(aud=[]),
        f"Bearer a.{base64.urlsafe_b64encode(b'[' * 9000).decode()}.c",
    ],
)
async def test_a_header_without_a_token_of_an_agent_costs_the_api_server_nothing(header: str) -> None:
    api = FakeApi(GOOD)
    assert await NodeTokens(api, "weir-system").node_of(header) == ""  # type: ignore[arg-type]
    assert not api.asked


async def test_an_answer_counts_for_a_while_and_names_the_audience() -> None:
    api, now_s = FakeApi(GOOD), [0.0]
    tokens = NodeTokens(api, "weir-system", lambda: now_s[0])  # type: ignore[arg-type]
    for now_s[0] in (0.0, KEPT_S - 1, KEPT_S, KEPT_S + 1):
        assert await tokens.node_of(bearer()) == "gpu-7"
    assert api.asked == [{"token": token(), "audiences": [AUDIENCE]}] * 2
    assert await tokens.node_of(f"bearer {token('other')}") == "gpu-7"
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
    asked = [asyncio.create_task(tokens.node_of(bearer(at), str(at))) for at in range(UNDER_WAY_MAX)]
    await api.is_full.wait()
    asked += [asyncio.create_task(tokens.node_of(bearer(at), str(at))) for at in range(UNDER_WAY_MAX, count)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyTokens):
        await tokens.node_of(bearer("more"))
    api.go.set()
    assert await asyncio.gather(*asked) == ["gpu-7"] * count
    assert api.most == UNDER_WAY_MAX


async def test_a_token_doesnt_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.kubernetes.admission.node_tokens.WAIT_S", 0.01)
    api = SlowApi()
    tokens = NodeTokens(api, "weir-system")  # type: ignore[arg-type]
    asked = [asyncio.create_task(tokens.node_of(bearer(at))) for at in range(UNDER_WAY_MAX)]
    await api.is_full.wait()
    with pytest.raises(TooManyTokens):
        await tokens.node_of(bearer("more"))
    api.go.set()
    assert await asyncio.gather(*asked) == ["gpu-7"] * UNDER_WAY_MAX
    assert await tokens.node_of(bearer("more")) == "gpu-7"


class KnowingApi(FakeApi):
    """Vouches for one token alone."""

    def __init__(self, good: str) -> None:
        super().__init__(GOOD)
        self.good = good

    async def post(self, path: str, body: dict[str, Any], kind: type[TokenReview]) -> TokenReview:
        self.status = GOOD if body["spec"]["token"] == self.good else {"authenticated": False}
        return await super().post(path, body, kind)


async def test_forged_tokens_are_reviewed_at_a_rate_and_push_no_agent_out() -> None:
    now_s = [0.0]
    api = KnowingApi(token("agent"))
    tokens = NodeTokens(api, "weir-system", lambda: now_s[0])  # type: ignore[arg-type]
    assert await tokens.node_of(bearer("agent")) == "gpu-7"
    refused = 0
    for at in range(30 * TOKENS_MAX):
        now_s[0] = KEPT_S / 2 * at / (30 * TOKENS_MAX)
        try:
            assert await tokens.node_of(bearer(at), str(at)) == ""
        except TooManyTokens:
            refused += 1
        else:
            before = len(api.asked)
            assert await tokens.node_of(bearer(at)) == ""
            assert len(api.asked) == before
    assert refused > 10 * TOKENS_MAX
    assert len(api.asked) <= 1 + NEW.at_once + NEW.per_s * KEPT_S / 2
    before = len(api.asked)
    assert await tokens.node_of(bearer("agent")) == "gpu-7"
    assert len(api.asked) == before
    now_s[0] = KEPT_S + 1  # it is due to be asked about again, which waits for no other
    asked = [tokens.node_of(bearer(f"later-{at}"), str(at)) for at in range(2 * NEW.at_once)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert any(isinstance(each, TooManyTokens) for each in answers)
    assert await tokens.node_of(bearer("agent")) == "gpu-7"


async def test_an_agent_whose_token_is_refused_once_is_a_stranger() -> None:
    now_s, api = [0.0], FakeApi(GOOD)
    tokens = NodeTokens(api, "weir-system", lambda: now_s[0])  # type: ignore[arg-type]
    assert await tokens.node_of(bearer()) == "gpu-7"
    api.status, now_s[0] = {"authenticated": False}, KEPT_S
    assert [await tokens.node_of(bearer()) for _ in range(3)] == ["", "", ""]
    assert len(api.asked) == 2


async def test_a_flood_of_one_address_leaves_the_turns_of_new_agents_elsewhere() -> None:
    now_s = [0.0]
    api = KnowingApi(token("agent"))
    tokens = NodeTokens(api, "weir-system", lambda: now_s[0])  # type: ignore[arg-type]
    flood = [tokens.node_of(bearer(at), "10.0.0.66") for at in range(20 * NEW.at_once)]
    answers = await asyncio.gather(*flood, return_exceptions=True)
    assert len(api.asked) <= NEW_OF_ADDRESS.at_once
    assert sum(isinstance(each, TooManyTokens) for each in answers) >= 19 * NEW.at_once
    assert await tokens.node_of(bearer("agent"), "10.0.0.7") == "gpu-7"


async def test_agents_behind_one_address_are_all_let_in() -> None:
    api, now_s = FakeApi(GOOD), [0.0]
    tokens = NodeTokens(api, "weir-system", lambda: now_s[0])  # type: ignore[arg-type]
    for at in range(10 * NEW_OF_ADDRESS.at_once):
        assert await tokens.node_of(bearer(at), "10.0.0.1") == "gpu-7"

"""The output of a workload on a cluster's page."""

from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from aiohttp import ClientPayloadError, ClientResponse, web
from aiohttp.client_exceptions import ServerDisconnectedError
from aiohttp.test_utils import TestClient, TestServer
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.cluster.dashboard import log_answer
from weir.cli.cluster.dashboard.cluster_view import LOGS_OPEN_MAX, ClusterView
from weir.cli.cluster.dashboard.kubeconfig_visitor import KubeconfigVisitor
from weir.cli.cluster.dashboard.page_server import SIGN_IN, PageServer
from weir.cli.cluster.transport import kubeconfig_of
from weir.dashboard.person import DashboardPerson
from weir.kubernetes.api.client import ApiClient

T = "2026-01-01T00:00:0%d.000000000Z "
LOGS = "/api/v1/workloads/7/logs"
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


class Page:
    """A page that is signed in."""

    def __init__(self, client: "TestClient[web.Request, web.Application]", proof: str) -> None:
        self.client, self._proof = client, {"X-Weir-Proof": proof}

    async def get(self, path: str = LOGS, **query: str) -> ClientResponse:
        return await self.client.get(path, params=query, headers=self._proof)

    async def sign_out(self) -> None:
        done = await self.client.delete("/api/v1/dashboard/session", headers=self._proof)
        assert done.status == 200


@asynccontextmanager
async def page_of(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Page]:
    async def person(_: ClusterView) -> DashboardPerson:
        return DashboardPerson(user="mia", is_admin=False, projects=[], roles={}, cluster=None)

    async with ApiClient(kubeconfig_of(None)) as api:
        view = ClusterView(api, "cluster", namespace="vision")
        watch = SimpleNamespace(rows=SimpleNamespace(names={7: "vision/train"}))

        async def live() -> object:
            return watch

        monkeypatch.setattr(view.live, "watch", live)
        monkeypatch.setattr(ClusterView, "person", person)
        visitor = KubeconfigVisitor(view, 0)
        server = PageServer(visitor, api.server)
        app = server.application()
        server.add_rest(app)
        async with TestClient(TestServer(app)) as client:
            signed_in = await client.post(SIGN_IN, json={"code": visitor.make_code()})
            yield Page(client, (await signed_in.json())["proof"])


def events(text: str) -> list[str]:
    """Return the output of each event, and the kind of one without."""
    found = []
    for event in text.removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(":", 1) for line in event.splitlines())
        found.append(fields.get("event", "").strip() or b64decode(fields.get("data", "")).decode())
    return found


async def test_the_page_shows_the_last_lines_and_follows_until_the_workload_ends(
    fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = fake_cluster.add_job("train")
    fake_cluster.add_pod("train-a", "train")
    fake_cluster.logs = {"train-a": [[b"one\n", b"two\n"]]}
    async with page_of(monkeypatch) as page:
        answer = await page.get(tail="1000")
        assert (answer.status, answer.content_type, await answer.text()) == (200, "text/plain", "one\ntwo\n")
        assert fake_cluster.log_queries[-1]["tailLines"] == "1000"

        def end(_pod: str) -> None:
            fake_cluster.add_pod("train-a", "train", phase="Succeeded")
            job["status"] = COMPLETE

        fake_cluster.after_log = end
        fake_cluster.logs = {"train-a": [[(T % 1 + "one\n").encode(), (T % 2 + "two\n").encode()]]}
        answer = await page.get(follow="true")
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        said = events(await answer.text())
        assert ("".join(said[:-1]), said[-1]) == ("one\ntwo\n", "end")


async def test_the_mark_of_a_later_start_is_no_output(
    fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = fake_cluster.add_job("train")
    fake_cluster.add_pod("train-a", "train")
    fake_cluster.logs = {
        "train-a": [[(T % 1 + "one\n").encode()]],
        "train-b": [[(T % 2 + "two\n").encode()]],
    }

    def next_scene(pod: str) -> None:
        if pod == "train-a":
            fake_cluster.add_pod("train-a", "train", phase="Failed")
            fake_cluster.add_pod("train-b", "train", created="2026-01-01T01:00:00Z")
        else:
            fake_cluster.add_pod("train-b", "train", phase="Succeeded", created="2026-01-01T01:00:00Z")
            job["status"] = COMPLETE

    fake_cluster.after_log = next_scene
    async with page_of(monkeypatch) as page:
        text = await (await page.get(follow="true")).text()
    assert "begins: pod train-b\nbegun: 1767229200.000\n" in text
    assert "".join(events(text)) == "one\ntwo\nend"


async def test_words_in_place_of_numbers_are_refused(
    fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cluster.add_job("train", parallelism=2, completions=2, completionMode="Indexed")
    fake_cluster.add_pod("train-0", "train", index=0)
    async with page_of(monkeypatch) as page:
        for words in ({"tail": "9" * 5_000}, {"tail": "²"}, {"pod": "²"}, {"pod": "9" * 5_000}):
            answer = await page.get(**words)
            assert answer.status == 422, words


async def test_a_refusal_is_a_problem_of_the_page(
    fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = fake_cluster.add_job("train")
    job["status"] = COMPLETE
    async with page_of(monkeypatch) as page:
        for query in ({}, {"follow": "true"}):
            answer = await page.get(**query)
            assert answer.status == 404
            assert "gone, and their output with them" in (await answer.json())["detail"]
        assert (await page.get("/api/v1/workloads/8/logs")).status == 404
        assert (await page.client.get(LOGS)).status == 401


async def test_output_that_breaks_never_looks_complete(
    fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cluster.add_job("train")
    fake_cluster.add_pod("train-a", "train")
    fake_cluster.logs = {"train-a": [[b"x" * (2 * log_answer.BLOCK), b"BREAK"]]}
    async with page_of(monkeypatch) as page:
        answer = await page.get()
        assert answer.status == 200
        with pytest.raises((ClientPayloadError, ServerDisconnectedError)):
            await answer.read()


async def test_followed_output_ends_with_the_session_and_is_bounded(
    fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_answer, "PAUSE_S", 0.05)
    fake_cluster.add_job("train")
    fake_cluster.add_pod("train-a", "train")
    fake_cluster.logs = {"train-a": [[(T % 1 + "one\n").encode(), b"WAIT"]]}
    async with page_of(monkeypatch) as page:
        held = [await page.get(follow="true") for _ in range(LOGS_OPEN_MAX)]
        refused = await page.get(follow="true")
        assert (refused.status, (await refused.json())["detail"][:20]) == (429, "You have 4 open logs")
        held[0].close()
        while (again := await page.get(follow="true")).status == 429:
            pass
        assert again.status == 200
        while events((await again.content.readuntil(b"\n\n")).decode()) != ["one\n"]:  # signs of life
            pass
        await page.sign_out()
        for each in (*held[1:], again):
            with pytest.raises((ClientPayloadError, ServerDisconnectedError)):
                await each.read()

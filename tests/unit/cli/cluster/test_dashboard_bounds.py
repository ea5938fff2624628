"""Bounds of a cluster's dashboard for many people: what one of them leaves behind, or keeps from the others."""

import asyncio
import ssl
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from weir.cli.cluster.dashboard import cluster_view, cluster_watch, page_server, signed_in_people
from weir.cli.cluster.dashboard.cluster_view import REQUESTS_OPEN_MAX, ClusterView
from weir.cli.cluster.dashboard.cluster_watch import WatchBroken
from weir.cli.cluster.dashboard.page_server import SIGN_IN, PageServer
from weir.cli.cluster.dashboard.request_problem import RequestProblem
from weir.cli.cluster.dashboard.signed_in_people import SESSIONS_PER_PERSON_MAX, SignedInPeople
from weir.cli.cluster.dashboard.watch_capacity import (
    PROCESS_BYTES,
    STARTING_MAX,
    WORKLOAD_BYTES,
    WatchCapacity,
    workloads_max,
)
from weir.dashboard.oidc.code_flow import Granted
from weir.dashboard.oidc.id_tokens import OidcIdentity
from weir.dashboard.oidc.settings import OidcSettings
from weir.dashboard.person import ClusterScope
from weir.dashboard.session_table import SignInRefused
from weir.kubernetes.api.errors import ApiUnreachable


class Watches:
    """Watches that are under way, instead of those of an API server."""

    open: ClassVar[list["Watches"]] = []
    may_start = asyncio.Event()
    starting: ClassVar[list["Watches"]] = []
    most_starting: ClassVar[list[int]] = [0]
    size: ClassVar[int] = 0

    def __init__(self, _api: object, _queries: object, namespace: str | None, _states: object) -> None:
        self.namespace, self.broken, self.workloads = namespace, None, 0
        self.feed = SimpleNamespace(readers=set())

    async def start(self) -> None:
        self.open.append(self)
        self.most_starting[0] = max(self.most_starting[0], len(self.starting) + 1)
        self.starting.append(self)
        await self.may_start.wait()
        self.starting.remove(self)
        self.workloads = self.size if self.namespace is None else min(self.size, 50)

    async def stop(self, _why: WatchBroken) -> None:
        if self in self.open:  # it had started
            self.open.remove(self)
        await asyncio.sleep(0)


@pytest.fixture
def people(monkeypatch: pytest.MonkeyPatch) -> SignedInPeople:
    async def reviewed(_api: object) -> str:
        return "oidc:mia"

    monkeypatch.setattr(signed_in_people, "reviewed_user", reviewed)
    monkeypatch.setattr(cluster_watch, "ClusterWatch", Watches)
    Watches.open.clear()
    Watches.starting.clear()
    Watches.most_starting[0] = 0
    monkeypatch.setattr(Watches, "size", 0)
    Watches.may_start = asyncio.Event()
    Watches.may_start.set()
    address: Any = SimpleNamespace(url="https://127.0.0.1:9", context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    settings = OidcSettings(issuer="https://sso.example.org", client_id="weir", user_claim=None)
    return SignedInPeople(
        settings, address, "https://weir.example.org", clock=lambda: 1e3, steady=lambda: 1e3
    )


def granted(subject: str = "mia") -> Granted:
    return Granted(OidcIdentity(subject, subject, expires_s=1e6), None, "token")


async def test_a_namespace_whose_person_cant_be_read_leaves_no_watch(
    people: SignedInPeople, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise ApiUnreachable("POST: no", may_have_happened=False)

    monkeypatch.setattr(cluster_view, "person_of", away)
    mia = await people.begin(granted())
    for namespace in ("a", "b", "c"):
        with pytest.raises(ApiUnreachable):
            await people.choose(mia, namespace)
    assert Watches.open == []
    assert people.view(mia).namespace is None
    await people.close()


async def test_a_sign_out_while_a_watch_begins_leaves_no_watch(
    people: SignedInPeople, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def known(*_: object) -> object:
        return SimpleNamespace(cluster=None)

    monkeypatch.setattr(cluster_view, "person_of", known)
    Watches.may_start.clear()
    mia = await people.begin(granted())
    live = people.view(mia).live
    begun = [asyncio.create_task(live.watch()), asyncio.create_task(people.choose(mia, "a"))]
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(Watches.open) == 2
    await people.leave(mia)
    Watches.may_start.set()
    ended = await asyncio.gather(*begun, return_exceptions=True)
    assert [type(each) for each in ended] == [WatchBroken, SignInRefused]
    with pytest.raises(WatchBroken):
        await live.watch()
    assert Watches.open == []
    await people.close()


async def test_sign_ins_at_once_begin_no_more_sessions_than_one_after_another(people: SignedInPeople) -> None:
    await asyncio.gather(*(people.begin(granted()) for _ in range(4 * SESSIONS_PER_PERSON_MAX)))
    for credential in [*people._people]:
        await people.view(credential).live.watch()
    await asyncio.gather(*(people.begin(granted()) for _ in range(4 * SESSIONS_PER_PERSON_MAX)))
    assert len(people._people) == SESSIONS_PER_PERSON_MAX
    assert Watches.open == []
    await people.close()


def test_requests_of_a_person_are_bounded_whatever_namespaces_they_choose(people: SignedInPeople) -> None:
    view: ClusterView = ClusterView(SimpleNamespace(namespace=""), "cluster", namespace=None)  # type: ignore[arg-type]
    held = [view.for_namespace(str(at)).opened.requests.admitted() for at in range(REQUESTS_OPEN_MAX)]
    for each in held:
        each.__enter__()
    with (
        pytest.raises(RequestProblem, match="wait for their answers"),
        view.for_namespace("more").opened.requests.admitted(),
    ):
        pass
    for each in held:
        each.__exit__(None, None, None)


async def test_a_body_that_never_ends_gives_its_connection_back(
    people: SignedInPeople, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_server, "BODY_S_MAX", 0.2)
    app: web.Application = PageServer(people, "https://127.0.0.1:9").application()

    async def endless() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    async with TestClient(TestServer(app)) as client:
        answer = await client.post(SIGN_IN, data=endless(), headers={"Host": "weir.example.org"})
        assert (answer.status, (await answer.json())["detail"]) == (
            408,
            "The request takes too long: send it again.",
        )
        answer.close()
    await people.close()


async def test_nothing_that_a_person_asks_for_looks_like_a_line_of_the_log(
    people: SignedInPeople, capsys: pytest.CaptureFixture[str]
) -> None:
    mia = await people.begin(granted())
    with pytest.raises(RequestProblem) as refused:
        await people.view(mia).answer("PUT", "/api/v1/projects/a%0Asigned_in%1b[2J", {}, b"{")
    assert refused.value.status in (404, 422)
    await people.close()
    written = capsys.readouterr().err
    assert "\nsigned_in" not in written
    assert "\x1b" not in written


# Memory

MEMORY = PROCESS_BYTES + 30_000 * WORKLOAD_BYTES


async def full_house(people: SignedInPeople, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have three sessions with 10,000 workloads each, as many as there is memory for."""
    monkeypatch.setattr(Watches, "size", 10_000)
    people._capacity = WatchCapacity(workloads_max(MEMORY), people._watches)
    found = [await people.begin(granted(f"person-{at}")) for at in range(3)]
    for each in found:
        (await people.view(each).live.watch()).feed.readers.add(None)  # type: ignore[arg-type]
    return found


async def test_pages_begin_a_few_at_a_time_after_an_interruption(people: SignedInPeople) -> None:
    Watches.may_start.clear()
    credentials = [await people.begin(granted(f"person-{at}")) for at in range(20)]
    begun = [asyncio.create_task(people.view(each).live.watch()) for each in credentials]
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(Watches.starting) == STARTING_MAX
    Watches.may_start.set()
    await asyncio.gather(*begun)
    assert Watches.most_starting[0] == STARTING_MAX
    assert len(Watches.open) == 20
    await people.close()


async def test_a_page_that_doesnt_fit_is_refused_and_the_open_ones_go_on(
    people: SignedInPeople, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def known(*_: object) -> object:
        return SimpleNamespace(
            cluster=ClusterScope(name="c", namespace="a", controls=[]), model_copy=lambda **_: None
        )

    monkeypatch.setattr(cluster_view, "person_of", known)
    found = await full_house(people, monkeypatch)
    ada = await people.begin(granted("ada"))
    sentences = []
    for name in ("ada", "ada", "bob"):  # the page tries again, and another person's begins
        with pytest.raises(WatchBroken, match="used up by other pages") as refused:
            await people.view(ada if name == "ada" else await people.begin(granted(name))).live.watch()
        assert refused.value.status == 503
        sentences.append(str(refused.value))
    assert "yours has 10,000 workloads" in sentences[0]
    assert not any(digit.isdigit() for digit in sentences[1] + sentences[2]), "counts of other people's work"
    assert "30,000" not in sentences[0]
    assert len(Watches.open) == 3
    await people.choose(ada, "a")  # few workloads always fit
    assert len(Watches.open) == 4
    assert all([(await people.view(each).live.watch()).broken is None for each in found])
    await people.close()


async def test_a_watch_without_a_page_gives_way_to_one_with(
    people: SignedInPeople, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await full_house(people, monkeypatch)
    monkeypatch.setattr(cluster_watch, "IDLE_S", -1.0)
    leaves = people.view(found[1]).live
    (await leaves.watch()).feed.readers.clear()
    ada = await people.begin(granted("ada"))
    await people.view(ada).live.watch()
    assert leaves.workloads == 0
    assert people.view(ada).live.workloads == 10_000
    await people.close()

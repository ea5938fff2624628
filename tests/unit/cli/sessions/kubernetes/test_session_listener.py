"""The proxy of a session on a cluster, with a program on a socket of this machine in place of the container's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import h11
import httpx
import pytest

from weir.cli.sessions.kubernetes import session_listener
from weir.cli.sessions.kubernetes.program_streams import NoInterpreter, NotListening, ProgramStreams
from weir.cli.sessions.kubernetes.session_listener import SessionListener, until_it_listens
from weir.dashboard.web_sessions.exchange import HttpEnd
from weir.kubernetes.api.container_address import ContainerAddress
from weir.kubernetes.api.errors import ApiRefused
from weir.kubernetes.api.exec_stream import ExecClient

HERE = ContainerAddress("vision", "dev-1", "main")


class LocalStreams(ProgramStreams):
    """Streams to a socket of this machine, counted."""

    def __init__(self, path: Path) -> None:
        super().__init__(cast("ExecClient", None), str(path))
        self.opened_count = 0
        self.refusal: Exception | None = None

    async def opened(self, *, wait_s: float = 0.0) -> HttpEnd:
        if self.refusal is not None:
            raise self.refusal
        self.opened_count += 1
        return HttpEnd(h11.CLIENT, *await asyncio.open_unix_connection(self._path))


class Program:
    """Answers each request with its target. `ends_after`: requests of one connection before it is closed."""

    ends_after = 100

    def __init__(self) -> None:
        self.open = 0
        self.is_idle = asyncio.Event()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError):
            for _ in range(self.ends_after):
                head = await reader.readuntil(b"\r\n\r\n")
                target = head.split(b" ")[1]
                answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"
                writer.write(answer % (len(target), target))
                await writer.drain()
        writer.close()
        self.open -= 1
        self.is_idle.set()


class Site:
    """A listener with a browser at it."""

    def __init__(self, kind: str, streams: LocalStreams, program: Program, port: int) -> None:
        self.root = f"127.0.0.1:{port}"
        self.streams, self.program = streams, program
        self.listener = SessionListener(streams, kind, "notes", self.root)
        self.browser = httpx.AsyncClient(base_url=f"http://{self.root}", timeout=180)

    async def open(self) -> None:
        assert (await self.browser.get(self.listener.link())).status_code == 303


@pytest.fixture(params=["jupyter", "code"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    program = Program()
    server = await asyncio.start_unix_server(program.connected, tmp_path / "s")
    streams = LocalStreams(tmp_path / "s")
    streams.move(HERE)
    sites: list[Site] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await sites[0].listener.connected(reader, writer)

    front = await asyncio.start_server(connected, "127.0.0.1", 0)
    sites.append(Site(request.param, streams, program, front.sockets[0].getsockname()[1]))
    yield sites[0]
    await sites[0].browser.aclose()
    sites[0].listener.close()
    await streams.close()
    for each in (front, server):
        each.close()
    async with asyncio.timeout(180):
        while program.open:
            program.is_idle.clear()
            await program.is_idle.wait()


async def test_a_program_is_asked_by_the_path_that_it_knows(
    site: Site, request: pytest.FixtureRequest
) -> None:
    await site.open()
    answer = await site.browser.get("/sessions/notes/a?b=c")
    assert answer.text == ("/sessions/notes/a?b=c" if "jupyter" in request.node.name else "/a?b=c")


async def test_one_stream_carries_many_requests(site: Site) -> None:
    await site.open()
    for _ in range(5):
        assert (await site.browser.get("/sessions/notes/")).status_code == 200
    assert site.streams.opened_count == 1


async def test_a_request_is_repeated_when_its_stream_has_ended(site: Site) -> None:
    site.program.ends_after = 1
    await site.open()
    for _ in range(5):
        assert (await site.browser.get("/sessions/notes/")).status_code == 200


async def test_without_the_cookie_of_a_link_nothing_is_passed_on(site: Site) -> None:
    assert (await site.browser.get("/sessions/notes/")).status_code == 401
    link = site.listener.link()
    assert (await site.browser.get(site.listener.link().replace("code=", "code=x"))).status_code == 401
    assert (await site.browser.get(link)).status_code == 401, "a later link takes its place"
    assert (await site.browser.get("/sessions/other/")).status_code == 404
    assert site.streams.opened_count == 0


async def test_what_keeps_a_session_from_an_answer_is_said(site: Site) -> None:
    await site.open()
    site.streams.refusal = NotListening("Its program doesn't listen yet.")
    answer = await site.browser.get("/sessions/notes/")
    assert (answer.status_code, answer.text) == (503, "Its program doesn't listen yet.\n")
    site.streams.refusal = ApiRefused(403, "Forbidden", "you may not")
    assert "you may not" in (await site.browser.get("/sessions/notes/")).text
    site.listener.trouble = "notes is pending: no GPU is free."
    answer = await site.browser.get("/sessions/notes/")
    assert (answer.status_code, answer.text) == (503, "notes is pending: no GPU is free.\n")


async def test_streams_to_a_pod_that_is_gone_are_not_used(site: Site) -> None:
    await site.open()
    await site.browser.get("/sessions/notes/")
    site.streams.move(ContainerAddress("vision", "dev-2", "main"))
    assert (await site.browser.get("/sessions/notes/")).status_code == 200
    assert site.streams.opened_count == 2


async def test_a_cookie_works_for_the_account_that_opened_the_link(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.open()
    path = "/sessions/notes/"
    assert (await site.browser.get(path)).status_code == 200
    monkeypatch.setattr(session_listener, "peer_uid", lambda _connection: 4321)
    stolen = {"Cookie": "; ".join(f"{each.name}={each.value}" for each in site.browser.cookies.jar)}
    async with httpx.AsyncClient(base_url=f"http://{site.root}", timeout=180) as other:
        assert (await other.get(path, headers=stolen)).status_code == 401
    assert (await site.browser.get(path)).status_code == 200, "its connection is still that account's"


async def test_what_is_no_address_is_refused_without_an_error_in_the_process(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    await site.open()
    answer = await site.browser.get("/sessions/notes/", headers={"Origin": "http://["})
    assert (answer.status_code, answer.text) == (403, "This request comes from another site.\n")
    host, _, port = site.root.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET //[x/ HTTP/1.1\r\nHost: {site.root}\r\n\r\n".encode())
    assert await reader.read() == b""
    writer.close()
    assert (await site.browser.get("/sessions/notes/")).status_code == 200
    assert not caplog.records, "asyncio logs what a connection raises"


async def test_a_container_that_no_stream_can_join_is_not_waited_for(site: Site) -> None:
    site.streams.refusal = NoInterpreter("Its image has neither Python nor Node.")
    async with asyncio.timeout(180):
        with pytest.raises(NoInterpreter):
            await until_it_listens(site.streams, 0.01)


async def test_a_connection_carries_requests_after_an_answer_of_our_own(site: Site) -> None:
    reader, writer = await asyncio.open_connection(*site.root.split(":"))
    link = site.listener.link().partition(site.root)[2]
    writer.write(f"GET {link} HTTP/1.1\r\nHost: {site.root}\r\n\r\n".encode())
    begun = await reader.readuntil(b"\r\n\r\n")
    assert begun.startswith(b"HTTP/1.1 303")
    assert b"connection: close" not in begun.lower()
    cookie = next(line for line in begun.decode().split("\r\n") if line.lower().startswith("set-cookie"))
    value = cookie.partition(" ")[2].partition(";")[0]
    writer.write(f"GET /sessions/notes/ HTTP/1.1\r\nHost: {site.root}\r\nCookie: {value}\r\n\r\n".encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_an_answer_that_does_not_wait_for_a_body_says_that_the_connection_ends(site: Site) -> None:
    reader, writer = await asyncio.open_connection(*site.root.split(":"))
    head = f"POST /sessions/notes/ HTTP/1.1\r\nHost: {site.root}\r\nContent-Length: 1000000\r\n\r\n"
    writer.write(head.encode())
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in answer.lower()
    writer.close()

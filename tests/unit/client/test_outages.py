"""A pool that goes away and comes back: what follows it goes on, and says so once."""

import json
from base64 import b64encode
from typing import Any

import pytest
from tests.unit.client.fake import Asked, Fake, Said, page, row

from weir.cli.main import main
from weir.client import AsyncPool, Pool, Unreachable
from weir.client.outage import ServerOutage

GONE = Unreachable("The pool is gone.")


def _piece(position: str, text: bytes) -> str:
    return f"id: {position}\ndata: {b64encode(text).decode()}\n\n"


def _broken_twice(asked: Asked) -> Said:
    """Answer with output that breaks off inside a character and inside an event, and then go on behind it."""
    pieces = {
        None: (_piece("1:6", b"one\ntw"), _piece("1:8", b"o\xc3"), "id: 1:99\ndata: b25l"),
        "1:8": (_piece("1:10", b"\xa9\n"),),
        "1:10": (_piece("2:6", b"three\n"), "event: end\ndata:\n\n"),
    }
    return Said(pieces=pieces[asked.headers.get("last-event-id")], content="text/event-stream")


def test_followed_output_goes_on_where_it_broke(fake: Fake) -> None:
    fake.on("GET", "/workloads/a/logs", _broken_twice)
    with Pool() as pool:
        assert "".join(pool.logs("a", follow=True)) == "one\ntwo\u00e9\nthree\n"
    assert [request.query for request in fake.asked] == [{"follow": "true"}] * 3


async def test_followed_output_goes_on_in_an_event_loop(fake: Fake) -> None:
    fake.on("GET", "/workloads/a/logs", _broken_twice)
    async with AsyncPool() as pool:
        assert "".join([text async for text in pool.logs("a", follow=True)]) == "one\ntwo\u00e9\nthree\n"


async def test_later_starts_are_named_before_their_output(fake: Fake) -> None:
    mark = "id: 1/2:0\nbegins: start 2 of a/0; start 2 of a/1\ndata:\n\n"
    pieces = (_piece("1:4", b"one\n"), mark, _piece("2:4", b"two\n"), "event: end\ndata:\n\n")
    fake.on("GET", "/workloads/a/logs", Said(pieces=pieces, content="text/event-stream"))
    expected = ["one\n", "start 2 of a/0", "start 2 of a/1", "two\n"]
    seen: list[str] = []
    with Pool() as pool:
        for text in pool.logs("a", follow=True, on_start=seen.append):
            seen.append(text)  # noqa: PERF402 - the callback adds others between
    assert seen == expected
    seen.clear()
    async with AsyncPool() as async_pool:
        async for text in async_pool.logs("a", follow=True, on_start=seen.append):
            seen.append(text)
    assert seen == expected


def test_answers_without_output_are_an_outage(fake: Fake) -> None:
    """A proxy in front of a pool that is away may answer with nothing, again and again."""
    empty = Said(pieces=(), content="text/event-stream")
    answers = [
        Said(pieces=(_piece("1:2", b"a\n"),), content="text/event-stream"),
        *[empty] * 3,
        Said(pieces=(_piece("1:4", b"b\n"), "event: end\ndata:\n\n"), content="text/event-stream"),
    ]
    fake.on("GET", "/workloads/a/logs", lambda _: answers.pop(0))
    reports: list[Any] = []
    with Pool(on_outage=reports.append) as pool:
        assert "".join(pool.logs("a", follow=True)) == "a\nb\n"
    assert [type(report) for report in reports] == [Unreachable, type(None)]


def test_an_outage_is_reported_once_and_its_end_too() -> None:
    reports: list[Any] = []
    away = ServerOutage(reports.append)
    away.answered()
    for _ in range(5):
        away.failed(GONE)
    away.answered()
    away.answered()
    away.failed(GONE)  # a connection that broke and is there again is none
    away.answered()
    assert reports == [GONE, None]


def test_a_pool_that_never_answered_and_one_that_stays_away_are_not_waited_for() -> None:
    with pytest.raises(Unreachable):
        ServerOutage(None).failed(GONE)
    away = ServerOutage(None, has_answered=True, patience_s=-1.0)
    away.failed(GONE)
    with pytest.raises(Unreachable):
        away.failed(GONE)


class Flaky:
    """A pool that answers, breaks two connections, answers, and then is interrupted by the person."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.count = answer, 0

    def __call__(self, _asked: Asked) -> Said:
        self.count += 1
        if self.count in (2, 3):
            raise ConnectionResetError
        return Said(self.answer(self.count))


@pytest.mark.parametrize(
    ("command", "path"), [("describe a", "/workloads/a"), ("nodes", "/nodes"), ("project list", "/projects")]
)
def test_watching_elsewhere_goes_on_after_an_outage(
    fake: Fake,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    path: str,
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", pause)
    rows = {"/workloads/a": lambda count: row("a", pods_running=count), "/nodes": lambda _: page()}
    fake.on("GET", path, Flaky(rows.get(path, lambda _: page())))
    assert main([*command.split(), "--watch"]) == 0
    err = [line for line in capsys.readouterr().err.splitlines() if line.startswith("weir:")]
    assert len(err) == 2
    assert err[0].endswith("Waiting for it.")
    assert err[1] == "weir: The pool answers again."


def test_a_list_after_an_outage_shows_what_changed(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    fake.on("GET", "/workloads", page(row("a"), row("b", uid=2)))
    changes = [
        ": here\n\n",
        "id: 1\nevent: reset\ndata:\n\n",
        f"id: 2\nevent: workload\ndata: {json.dumps(row('b', uid=2))}\n\n",
        f"id: 3\nevent: workload\ndata: {json.dumps(row('a', status='succeeded', ended_s=1_000_120.0))}\n\n",
    ]

    def stream(_asked: Asked) -> Said:
        if len([request for request in fake.asked if request.path == "/stream"]) > 1:
            return Said(pieces=(), status=401)
        return Said(pieces=tuple(changes), content="text/event-stream")

    fake.on("GET", "/stream", stream)
    main(["list", "--watch", "-o", "json"])
    out = capsys.readouterr().out
    assert [(name, out.count(f'"name": "{name}"')) for name in ("a", "b")] == [("a", 2), ("b", 1)]

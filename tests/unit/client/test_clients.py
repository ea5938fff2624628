"""The clients against a pool that answers over real HTTP: what they ask, what they make of it, what goes wrong."""

import inspect
import json
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from tests.unit.client.fake import Asked, Fake, Said, page, problem, queue, row

import weir
from weir.api.answers import EventRow, WorkloadRow
from weir.api.submissions import Submission
from weir.client import AsyncPool, Pool, Refused, Unreachable
from weir.client.address import find


def test_it_is_one_import_away() -> None:
    assert weir.Pool is Pool
    assert weir.AsyncPool is AsyncPool
    with pytest.raises(AttributeError):
        _ = weir.Nothing


def test_both_clients_have_the_same_calls() -> None:
    def calls(client: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(client)
            if not name.startswith("_") and callable(member)
        }

    assert calls(Pool) == calls(AsyncPool)


def test_submitting_sends_what_was_written_and_says_who_asks(fake: Fake) -> None:
    fake.on("POST", "/workloads", Said(row(), 201))
    with Pool() as pool:
        made = pool.submit(
            project="vision",
            command=["python", "train.py"],
            gpus=0.5,
            elastic=(2, 8),
            memory="8Gi",
            env={"A": "1"},
        )
    assert made.name == "train-1"
    asked = fake.asked[0]
    assert asked.headers["authorization"] == "Bearer secret"
    assert asked.body == {
        "project": "vision",
        "command": ["python", "train.py"],
        "env": {"A": "1"},
        "directory": str(Path.cwd()),
        "pods": [{"gpus": 0.5, "memory": "8Gi", "count": 8, "min": 2}],
    }


def test_a_checked_submission_means_the_same_on_the_other_side(fake: Fake) -> None:
    fake.on("POST", "/workloads", Said(row(), 201))
    written = {
        "project": "vision",
        "command": ["a"],
        "max_runtime": "2h",
        "pods": [{"gpus": 0.25, "cpu": "500m", "memory": "1Gi"}, {"gpus": 4, "count": 3}],
    }
    checked = Submission.model_validate(written)
    with Pool() as pool:
        pool.submit(checked, directory="/tmp")
    sent = Submission.model_validate(fake.asked[0].body)
    assert sent == checked.model_copy(update={"directory": "/tmp"})


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ({"command": ["a"]}, "project is missing"),
        ({"project": "p", "command": ["a"], "gpus": 1.5}, "neither whole devices nor a share"),
        ({"project": "p", "command": ["a"], "gpus": 0.0001}, "gpus: 0.0001 is finer .*; write 0.001"),
        ({"project": "p", "command": ["a"], "cpu": "100u"}, "cpu: '100u' is finer .*; write 0.001"),
        ({"project": "p", "command": ["a"], "elastic": (4, 2)}, "write the smaller number first"),
        ({"project": "p", "command": ["a"], "elastic": (2, 4), "workers": 2}, "leave workers out"),
        ({"project": "p", "command": ["a"], "pods": [{}, {}], "gpus": 1}, "say it in pods"),
        ({"project": "p", "command": ["a"], "max_runtime": "soon"}, "is not a duration"),
    ],
)
def test_what_cannot_be_is_refused_before_it_is_sent(fake: Fake, words: dict, answer: str) -> None:
    with Pool() as pool, pytest.raises(Refused, match=answer):
        pool.submit(**words)
    assert fake.asked == []


def test_a_list_is_walked_through_page_by_page(fake: Fake) -> None:
    def pages(asked: Asked) -> Said:
        if "after" in asked.query:
            return Said(page(row("b"), total=2))
        return Said(page(row("a"), next="17", total=2))

    fake.on("GET", "/workloads", pages)
    with Pool() as pool:
        assert [workload.name for workload in pool.list(project="vision", status=["running", "pending"])] == [
            "a",
            "b",
        ]
    assert fake.asked[0].query == {"project": "vision", "status": "running,pending", "limit": "500"}
    assert fake.asked[1].query["after"] == "17"


def test_a_refusal_says_what_each_field_needs(fake: Fake) -> None:
    errors = [
        {"field": "project", "message": "project: there is no project visoin; did you mean vision?"},
        {"field": "pods[0].gpus", "message": "is more than a node has"},
    ]
    fake.on("POST", "/workloads", problem(422, "The submission: two things", *errors))
    with Pool() as pool, pytest.raises(Refused) as refused:
        pool.submit(project="visoin", command=["a"])
    assert str(refused.value) == (
        "project: there is no project visoin; did you mean vision?; pods[0].gpus: is more than a node has."
    )
    assert refused.value.status == 422
    assert refused.value.is_ours


def test_an_answer_that_is_no_problem_document_is_reported_too(fake: Fake) -> None:
    fake.on("GET", "/status", Said({"odd": 1}, 502))
    with Pool() as pool, pytest.raises(Refused, match="odd") as refused:
        pool.status()
    assert not refused.value.is_ours


def test_names_cannot_leave_their_place(fake: Fake) -> None:
    fake.on("GET", "/workloads/a%3Fq%3D1%23b", Said(row()))
    with Pool() as pool:
        pool.get("a?q=1#b")
    assert fake.asked[0].path == "/workloads/a%3Fq%3D1%23b"


def test_logs_come_piece_by_piece(fake: Fake) -> None:
    fake.on("GET", "/workloads/a/logs", Said(pieces=("epoch 1\n", "epoch 2\n"), content="text/plain"))
    with Pool() as pool:
        assert "".join(pool.logs("a", follow=True, pod="0/1", tail=5)) == "epoch 1\nepoch 2\n"
        with pytest.raises(Refused, match="nothing at"):
            list(pool.logs("b"))
    assert fake.asked[0].query == {"pod": "0/1", "tail": "5", "follow": "true"}


def _event(kind: str, body: dict, number: int) -> str:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(body)}\n\n"


def test_a_stream_is_resumed_where_it_broke(fake: Fake) -> None:
    happened = {"id": 7, "at_s": 1.0, "kind": "started", "sentence": "a starts."}
    streams = [
        (
            "retry: 10\n\n",
            ": still here\n\n",
            _event("workload", row("a"), 1),
            "id: 2\nevent: workload\ndata: {half",
        ),
        (_event("novelty", {}, 3), _event("event", happened, 4)),
    ]

    def stream(asked: Asked) -> Said:
        return Said(pieces=streams[1 if "last-event-id" in asked.headers else 0], content="text/event-stream")

    fake.on("GET", "/stream", stream)
    with Pool() as pool:
        changes = pool.stream()
        first, second = next(changes), next(changes)
    assert isinstance(first.row, WorkloadRow)
    assert first.id == "1"
    assert isinstance(second.row, EventRow)
    assert second.row.sentence == "a starts."
    assert second.id == "4"


def test_waiting_ends_with_the_workload(fake: Fake) -> None:
    looks = iter(["pending", "running", "succeeded"])
    fake.on("GET", "/workloads/a", lambda _asked: Said(row("a", status=next(looks))))
    with Pool() as pool:
        assert pool.wait("a").status == "succeeded"


def test_waiting_may_take_too_long(fake: Fake) -> None:
    fake.on("GET", "/workloads/a", row("a"))
    with Pool() as pool, pytest.raises(TimeoutError):
        pool.wait("a", timeout_s=0.1)


async def test_the_same_without_waiting(fake: Fake) -> None:
    fake.on("GET", "/workloads", page(row("a"), row("b")))
    fake.on("GET", "/projects", page(queue("vision")))
    fake.on("GET", "/workloads/a", row("a", status="failed"))
    fake.on("GET", "/workloads/a/logs", Said(pieces=("x", "y"), content="text/plain"))
    fake.on(
        "GET", "/stream", Said(pieces=(_event("queue", queue("vision"), 1),), content="text/event-stream")
    )
    fake.on("DELETE", "/projects/vision", Said(None, 204))
    async with AsyncPool() as pool:
        assert [workload.name async for workload in pool.list()] == ["a", "b"]
        assert [row.name for row in await pool.projects()] == ["vision"]
        assert (await pool.wait("a")).status == "failed"
        assert [piece async for piece in pool.logs("a")]
        async for change in pool.stream():
            assert change.kind == "queue"
            break
        await pool.delete_project("vision")
        with pytest.raises(Refused):
            await pool.why("nobody")


# Finding it


def test_no_pool_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WEIR_URL", raising=False)
    monkeypatch.setenv("WEIR_HOME", str(tmp_path))
    with pytest.raises(Unreachable, match="start one with `weir up`"):
        Pool()


def test_the_pool_of_this_machine_is_found_by_what_it_wrote(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("WEIR_URL", raising=False)
    monkeypatch.delenv("WEIR_TOKEN", raising=False)
    monkeypatch.setenv("WEIR_HOME", str(tmp_path))
    (tmp_path / "server.json").write_text('{"pid": 1, "url": "http://127.0.0.1:9347"}')
    with pytest.raises(Unreachable, match="token can't be read"):
        find()
    (tmp_path / "token").write_text("abc\n")
    address = find()
    assert (address.url, address.token, address.is_loopback) == ("http://127.0.0.1:9347", "abc", True)
    assert "abc" not in repr(address)


@pytest.mark.parametrize("url", ["pool.example:9347", "ftp://pool", "http://"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(Unreachable, match="is not the URL of a pool"):
        Pool(url)


def test_a_pool_that_is_gone() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # so that no one else can listen there
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with Pool(url) as pool, pytest.raises(Unreachable, match="can't be reached"):
            pool.status()


@pytest.mark.parametrize(
    ("host", "advice"),
    [
        ("127.0.0.1", "."),
        ("pool.example", ", or ask its administrator for the address with TLS."),
    ],
)
def test_server_without_tls_is_named_as_such(host: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _host, *words, **options: real("127.0.0.1", *words, **options)
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = threading.Thread(target=_answer_without_tls, args=(listening,))
        server.start()
        with Pool(f"https://{host}:{port}") as pool, pytest.raises(Unreachable) as failed:
            pool.status()
        server.join()
    assert str(failed.value) == (
        f"The server at https://{host}:{port} answers without TLS: set WEIR_URL=http://{host}:{port}{advice}"
    )


def _answer_without_tls(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    with connection, suppress(ConnectionError):
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        while connection.recv(4096):  # until the client gives up: unread words would reset the connection
            pass


def test_a_token_follows_no_redirection(fake: Fake) -> None:
    fake.on("GET", "/status", Said({}, 307))
    with Pool() as pool, pytest.raises(Refused):
        pool.status()
    assert len(fake.asked) == 1


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_is_no_part_of_a_path_is_refused_without_a_request(fake: Fake, name: str) -> None:
    with Pool() as pool:
        for call in (pool.why, pool.get, pool.stop, pool.drain):
            with pytest.raises(Refused, match="is no name: write letters") as refused:
                call(name)
            assert refused.value.status == 404
    assert not fake.asked

"""Limits of the server: what one request and one person may use, and that others are served meanwhile."""

import asyncio
import difflib
import io
import json
import logging
import threading
from pathlib import Path

import pytest
from tests.unit.local.server.in_process_server import SMALL, Standing, standing

from weir.api.answers import WorkloadRow
from weir.local.server.access.authorization import Person, Role
from weir.local.server.access.request_limiter import RequestLimiter, SuggestionQueue, cost_of
from weir.local.server.http import worker_threads
from weir.local.server.http.problem_details import RequestRefused
from weir.local.server.http.server_limits import ServerLimits
from weir.local.server.submissions.pending_limits import PendingLimits
from weir.model.scenario import InvalidFile
from weir.scenario_io import error_messages
from weir.scenario_io.policies import read_settings
from weir.service import logging_setup

ROOT = Path(__file__).parents[5]
ADMIN = Person("root", is_admin=True)
MIA, BEN = (Person(user, is_admin=False, roles={"default": Role.MEMBER}) for user in ("mia", "ben"))
SUBMISSION = {"project": "default", "command": ["sleep", "3600"], "pods": [{"gpus": 1, **SMALL}]}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


# What a request may say


async def test_unknown_keys_are_compared_with_known_ones_for_the_first_few_only(
    stands: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []

    def counted(*words: object, **more: object) -> list[str]:
        compared.append(words)
        return difflib.get_close_matches(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(error_messages, "get_close_matches", counted)
    body = SUBMISSION | {f"comand{at}": 1 for at in range(5000)}
    reply = await stands.admin.post("/api/v1/workloads", json=body)
    assert reply.status_code == 422
    problem = reply.json()
    assert len(problem["errors"]) == 100
    assert "did you mean command?" in problem["errors"][0]["message"]
    assert "(and 4999 more)" in problem["detail"]
    assert len(compared) <= 10


async def test_names_there_are_not_are_compared_for_the_first_few_only(
    stands: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    monkeypatch.setattr(error_messages, "get_close_matches", lambda *words, **_: compared.append(words) or [])
    pods = [{"gpus": 1, "nodes": [f"node-{at}" for at in range(4000)], "gpu_models": ["x"] * 4000}]
    reply = await stands.admin.post("/api/v1/workloads", json=SUBMISSION | {"pods": pods})
    assert reply.status_code == 422
    assert len(reply.json()["errors"]) == 100
    assert len(compared) <= 10


def test_a_very_long_word_is_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_messages, "get_close_matches", lambda *_, **__: pytest.fail("compared"))
    assert error_messages.nearest("x" * 1_000_000, ["command", "project"]) == "write one of command, project"


@pytest.mark.parametrize(
    ("body", "reply"),
    [
        (SUBMISSION | {f"k{at}": 1 for at in range(30_000)}, "more than 10,000 values"),
        (SUBMISSION | {"command": ["x"] * 30_000}, "more than 10,000 values"),
        (SUBMISSION | {"command": ["x" * 2_000_000]}, "larger than 1,048,576 bytes"),
        (SUBMISSION | {"env": {"A": "x" * 300_000}}, "larger than 262,144 bytes"),
    ],
)
async def test_a_body_that_is_too_large_is_refused_with_the_limit(
    stands: Standing, body: dict[str, object], reply: str
) -> None:
    answer = await stands.admin.post("/api/v1/workloads", json=body)
    assert answer.status_code == 413
    assert reply in answer.json()["detail"]
    assert len(answer.content) < 2000


async def test_a_long_key_is_shortened_in_the_message(stands: Standing) -> None:
    answer = await stands.admin.post("/api/v1/workloads", json=SUBMISSION | {"k" * 200_000: 1})
    assert answer.status_code == 422
    assert len(answer.content) < 5000


async def test_a_file_system_that_hangs_holds_up_no_other_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, real = threading.Event(), Path.is_dir

    def is_dir(path: Path) -> bool:
        if str(path).startswith("/hung"):
            hangs.wait(120)
        return real(path)

    monkeypatch.setattr(Path, "is_dir", is_dir)
    monkeypatch.setattr(worker_threads, "LOOK_S_MAX", 0.2)
    async with standing(tmp_path / "home") as stands:
        stands.pool.workers._look_s_max = 0.2
        try:
            for _ in range(worker_threads.LOOKERS):
                hung = await stands.admin.post(
                    "/api/v1/workloads", json=SUBMISSION | {"directory": "/hung/a"}
                )
                assert hung.status_code == 422
                assert "doesn't answer" in hung.json()["errors"][0]["message"]
            other = await stands.admin.post(
                "/api/v1/workloads", json=SUBMISSION | {"directory": str(tmp_path), "name": "other"}
            )
            assert other.status_code == 201
        finally:
            hangs.set()


# What one person may use


async def test_a_client_over_its_rate_learns_when_to_retry_and_others_are_served(tmp_path: Path) -> None:
    limits = ServerLimits(requests_per_s=0.01, requests_burst=100)
    async with standing(tmp_path / "home", limits=limits) as stands:
        mia, ben = await stands.member("default"), await stands.member("default", user="ben")
        again = await stands.member("default")  # another token of mia's
        statuses = [(await mia.get("/api/v1/workloads")).status_code for _ in range(120)]
        assert statuses == [200] * 100 + [429] * 20
        refused = await again.get("/api/v1/workloads")
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) > 1
        assert "try again in" in refused.json()["detail"]
        assert (await ben.get("/api/v1/workloads")).status_code == 200
        assert (await ben.post("/api/v1/workloads", json=SUBMISSION)).status_code == 201
        assert [(await stands.admin.get("/api/v1/workloads")).status_code for _ in range(150)] == [200] * 150


async def test_one_person_cannot_fill_the_queue(tmp_path: Path) -> None:
    limits = ServerLimits(pending_per_person_max=5, pending_per_project_max=8)
    async with standing(tmp_path / "home", gpus=1, limits=limits) as stands:
        await stands.submit(name="holds", gpus=1)
        await stands.until("holds", "running")
        mia, ben = await stands.member("default"), await stands.member("default", user="ben")
        answers = await asyncio.gather(
            *(mia.post("/api/v1/workloads", json=SUBMISSION | {"name": f"m{at}"}) for at in range(12))
        )
        assert sorted(answer.status_code for answer in answers) == [201] * 5 + [429] * 7
        refused = next(answer for answer in answers if answer.status_code == 429).json()["detail"]
        assert "You have 5 pending workloads, and one person may have 5" in refused
        bens = [(await ben.post("/api/v1/workloads", json=SUBMISSION)).status_code for _ in range(4)]
        assert bens == [201] * 3 + [429]
        assert (await stands.admin.post("/api/v1/workloads", json=SUBMISSION)).status_code == 201


def test_pending_workloads_are_counted_again_when_some_have_started() -> None:
    rows: list[WorkloadRow] = []
    clock = Clock()
    backlog = PendingLimits(ServerLimits(pending_per_person_max=2), lambda: rows, clock)
    for _ in range(2):
        with backlog.reserved(MIA, "default"):
            pass
    with pytest.raises(RequestRefused, match="2 pending"), backlog.reserved(MIA, "default"):
        pass
    clock.now_s += 1.0  # they have started: there is no row of one that waits
    with backlog.reserved(MIA, "default"):
        pass


def test_a_bucket_fills_again_and_dear_requests_take_more_of_it() -> None:
    clock = Clock()
    limiter = RequestLimiter(ServerLimits(requests_per_s=10, requests_burst=100), clock)

    def asks(path: str, person: Person = MIA) -> bool:
        try:
            with limiter.admitted(person, "GET", path, b""):
                return True
        except RequestRefused as refused:
            assert refused.status == 429
            return False

    assert [asks("/api/v1/workloads/a/why") for _ in range(3)] == [True, True, False]
    assert asks("/api/v1/workloads/a/why", BEN)
    clock.now_s += 5.0
    assert asks("/api/v1/workloads/a/why")
    assert not asks("/api/v1/workloads")
    assert cost_of("GET", "/api/v1/workloads", b"limit=1000") > cost_of(
        "GET", "/api/v1/workloads", b"limit=10"
    )
    assert cost_of("GET", "/api/v1/workloads", b"limit=" + b"9" * 50) == 1
    assert cost_of("GET", "/api/v1/workloads", b"l%69mit=1000" + b"&limit=1" * 4000) > 10


def test_one_person_takes_some_of_the_streams_and_all_of_them_together_no_more_than_there_are() -> None:
    limiter = RequestLimiter(ServerLimits(streams_per_person_max=3, streams_max=5))
    persons = [MIA] * 4 + [BEN] * 4
    held, refused = [], []
    for person in persons:
        place = limiter.admitted(person, "GET", "/api/v1/stream", b"")
        try:
            place.__enter__()
        except RequestRefused as error:
            refused.append(error.status)
        else:
            held.append(place)
    assert (len(held), refused) == (5, [429, 503, 503])
    held[0].__exit__(None, None, None)
    with limiter.admitted(BEN, "GET", "/api/v1/workloads/a/logs", b"follow=true"):
        pass
    with limiter.admitted(MIA, "GET", "/api/v1/workloads", b""):
        pass  # what isn't a stream is counted by itself


async def test_suggestions_wait_in_a_short_line() -> None:
    line = SuggestionQueue()
    async with line.turn(MIA):
        second = asyncio.create_task(line.turn(MIA).__aenter__())
        await asyncio.sleep(0)
        with pytest.raises(RequestRefused) as refused:
            await line.turn(MIA).__aenter__()
        assert refused.value.status == 429
    await second


async def test_a_question_about_another_projects_workload_costs_no_trial(stands: Standing) -> None:
    await stands.project("vision", 0)
    await stands.submit(name="holds", gpus=4)
    await stands.until("holds", "running")
    await stands.submit(name="waits", gpus=4)
    mia = await stands.member("vision")
    async with stands.pool.suggesting.turn(ADMIN):
        answer = await asyncio.wait_for(mia.get("/api/v1/workloads/waits/why?wait=10"), 120)
    assert answer.status_code == 200
    assert not answer.json()["unfinished"]


# The log


def test_lines_that_repeat_are_left_out_and_counted() -> None:
    clock = Clock()
    limit = logging_setup.RepeatLimit(3, clock)
    assert [limit.admit("a") for _ in range(5)] == [0, 0, 0, None, None]
    assert limit.admit("b") == 0
    clock.now_s += 61
    assert [limit.admit("a"), limit.admit("a")] == [2, 0]


def test_however_many_kinds_of_lines_there_are_the_log_is_bounded() -> None:
    limit = logging_setup.RepeatLimit(2, Clock())
    reported = sum(limit.admit(f"kind {at}") is not None for at in range(10_000))
    assert reported <= logging_setup.KINDS_MAX + 2


def test_errors_of_the_event_loop_are_bounded_too() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(logging_setup._RepeatFilter(logging_setup.RepeatLimit(2, Clock())))
    logger = logging.getLogger("tests.repeated")
    logger.propagate = False
    logger.addHandler(handler)
    for at in range(1000):
        logger.error("socket.accept() out of system resource\nsocket: %s", at)
    assert len(stream.getvalue().splitlines()) == 4


# Settings


def test_every_limit_is_in_the_manual_with_its_default() -> None:
    manual = (ROOT / "docs" / "reference" / "server.md").read_text("utf-8")
    for name, field in ServerLimits.model_fields.items():
        default = "all allowed" if name == "containers" else f"{round(field.default):,}"
        assert f"| `{name}` | {default} |" in manual, name


def test_limits_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text("requests_per_s: 5\nstreams_max: 10\n")
    assert read_settings(ServerLimits, file) == ServerLimits(requests_per_s=5, streams_max=10)
    file.write_text("request_per_s: 5\nstreams_max: 0\n")
    with pytest.raises(InvalidFile) as refused:
        read_settings(ServerLimits, file)
    assert "did you mean requests_per_s?" in str(refused.value)
    assert "streams_max: 0 is too small; write 1 or more" in str(refused.value)


def test_the_body_of_a_problem_stays_small() -> None:
    refused = RequestRefused(422, "no", [{"field": "a", "message": "b"}] * 5000)
    assert len(json.loads(refused.problem().model_dump_json())["errors"]) == 100

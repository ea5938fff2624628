"""Output over REST: of whole gangs, and of jobs that put something else in place of it."""

import asyncio
import threading
import time
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from tests.unit.local.hostile_files import FILES, away
from tests.unit.local.server.in_process_server import SMALL, Standing

from weir.control.port import UtilizationSampled
from weir.local.records import pod_files
from weir.local.server.output import pod_logs
from weir.local.supervisor.output import read_on

GANG = [{"name": "worker", "count": 11, "gpus": 0, **SMALL}, {"name": "ps", "count": 1, "gpus": 0, **SMALL}]


async def test_all_pods_of_a_gang_are_read_together(stands: Standing) -> None:
    script = 'echo "begin $RANK"; echo "line two"; printf end'
    await stands.submit("sh", "-c", script, name="gang", pods=GANG)
    await stands.until("gang", "succeeded")
    for words in ("pod=all", "pod=all&follow=true"):
        answer = await stands.admin.get(f"/api/v1/workloads/gang/logs?{words}")
        assert answer.status_code == 200, answer.text
        lines = answer.text.splitlines()
        assert len(lines) == 36
        assert sorted(line for line in lines if line.startswith("ps/0 ")) == [
            "ps/0      | begin 11",
            "ps/0      | end",
            "ps/0      | line two",
        ]
        of_ten = [line for line in lines if line.startswith("worker/10 ")]
        assert of_ten == ["worker/10 | begin 10", "worker/10 | line two", "worker/10 | end"]
    tail = await stands.admin.get("/api/v1/workloads/gang/logs?pod=all&tail=1")
    assert {line.partition(" | ")[2] for line in tail.text.splitlines()} == {"end"}
    one = await stands.admin.get("/api/v1/workloads/gang/logs?pod=ps/0")
    assert one.text == "begin 11\nline two\nend"


async def test_a_gang_is_followed_over_a_restart(
    stands: Standing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = tmp_path / "followed"
    waits = f"until test -e {followed}; do sleep 0.05; done; kill -KILL $PPID"
    script = f'echo "run $WEIR_RESTARTS"; test $WEIR_RESTARTS = 1 || {{ {waits}; }}'

    def noted(path: Path, position: int, most: int) -> tuple[bytes, int]:
        found = read_on(path, position, most)
        if found[0]:
            followed.touch()
        return found

    monkeypatch.setattr(pod_logs, "read_on", noted)
    await stands.submit("sh", "-c", script, name="gang")
    answer = await asyncio.wait_for(stands.admin.get("/api/v1/workloads/gang/logs?pod=all&follow=true"), 120)
    assert answer.text.splitlines() == ["0/0 | run 0", "0/0 | run 1"]


@pytest.mark.parametrize(
    ("words", "position", "begins", "text"),
    [
        ("", "1:0", "start 2", b"run 0run 1"),
        ("&pod=all", "1:0", "start 2 of 0/0", b"0/0 | run 0\n0/0 | run 1\n"),
    ],
)
async def test_followed_output_names_a_later_start_before_its_output(
    words: str, position: str, begins: str, text: bytes, stands: Standing
) -> None:
    script, before_s = "printf 'run %s' $WEIR_RESTARTS; exit 1", time.time()
    uid = (await stands.submit("sh", "-c", script, name="job", retries=1))["uid"]
    await stands.until("job", "failed")
    headers = {"Accept": "text/event-stream", "Last-Event-ID": f"{uid}/{position}"}
    path = f"/api/v1/workloads/{uid}/logs?follow=true{words}"
    answer = await asyncio.wait_for(stands.admin.get(path, headers=headers), 120)
    events = [
        dict(line.split(": ", 1) for line in event.splitlines() if ": " in line)
        for event in answer.text.split("\n\n")
    ]
    outputs = [b64decode(event.get("data", "")) for event in events]
    (mark,) = [at for at, event in enumerate(events) if "begins" in event]
    assert events[mark]["begins"] == begins
    assert before_s - 1 < float(events[mark]["begun"]) < time.time() + 1
    assert b"".join(outputs) == text
    assert b"run 1" in b"".join(outputs[mark:])
    assert b"run 0" not in b"".join(outputs[mark + 1 :])


@pytest.mark.parametrize(
    "kind", ["a FIFO", "a link to zeros", "a directory", "a socket", "a terabyte", "nothing"]
)
async def test_output_that_is_none_stops_no_other_request(stands: Standing, kind: str) -> None:
    uid = (await stands.submit("sleep", "3600", name="odd"))["uid"]
    own = stands.pool.home / "jobs" / str(uid) / "1-0-0"
    while not (own / "log").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    away(own / "log")
    FILES[kind](own / "log")
    following = asyncio.create_task(stands.admin.get("/api/v1/workloads/odd/logs?follow=true"))
    for words in ("", "?tail=1", "?pod=all", "?pod=all&tail=3"):
        answer = await asyncio.wait_for(stands.admin.get(f"/api/v1/workloads/odd/logs{words}"), 120)
        assert answer.status_code == 200
        assert len(answer.content) < 1000
        assert ("the output can't be read" in answer.text) == (kind not in ("a terabyte", "nothing"))
    assert (await stands.admin.get("/healthz")).status_code == 200
    await stands.admin.post("/api/v1/workloads/odd/stop")
    await asyncio.wait_for(following, 120)
    assert following.result().text.count("can't be read") == int(kind not in ("a terabyte", "nothing"))


async def test_what_cant_be_read_is_an_event_of_its_project(stands: Standing) -> None:
    script = 'mkfifo "$WEIR_POD_DIRECTORY/notes.jsonl"'
    await stands.submit("sh", "-c", script, name="odd")
    row = await stands.until("odd", "succeeded")

    def unreadable(answer: Any) -> list[Any]:
        return [each for each in answer["items"] if each["kind"] == "unreadable"]

    (event,) = unreadable(await stands.until_true(unreadable, "events"))
    assert (event["workload"], event["project"]) == ("odd", "default")
    assert event["sentence"] == "Pod odd/0/0: its messages are ignored: notes.jsonl is a FIFO."
    assert row["restarts"] == 0


def test_reading_output_costs_no_thread_of_other_requests() -> None:
    async def name() -> str:
        return await pod_logs.in_log_thread(lambda: threading.current_thread().name)

    assert asyncio.run(name()).startswith("weir-logs")


async def test_a_warning_is_a_line_of_the_jobs_output(stands: Standing) -> None:
    """A job that may have replaced its output by a link isn't followed there."""
    await stands.project("timed", 4, times={"idle_limit": "10m"})
    for name in ("idle", "linked"):
        await stands.submit("sleep", "3600", name=name, project="timed")
        await stands.until(name, "running")
    linked = next(each for each in stands.pool.backend.pods() if each.place.pod.workload == "linked")
    other = stands.pool.home / "other"
    log = Path(pod_files.own_directory(linked.directory), pod_files.LOG)
    async with asyncio.timeout(120):
        while not replace_by_link(log, other):  # noqa: ASYNC110 - a job runs a moment before its log exists
            await asyncio.sleep(0.01)
    now_s = stands.pool.clock()
    for name in ("linked", "idle"):
        for at in range(13):
            stands.pool.backend.tell(UtilizationSampled(name, 0.0, now_s + 25 * at))
    async with asyncio.timeout(120):
        while "weir: idle has been idle" not in (await output(stands, "idle")):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert other.read_text() == "mine\n"


def replace_by_link(log: Path, other: Path) -> bool:
    """Replace the log of a job; return False if it doesn't exist yet."""
    if not log.exists():
        return False
    other.write_text("mine\n")
    log.unlink()
    log.symlink_to(other)
    return True


async def output(stands: Standing, name: str) -> str:
    return (await stands.admin.get(f"/api/v1/workloads/{name}/logs")).text

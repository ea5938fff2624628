"""Followed output as events: a client that sends the last position gets what follows, and nothing twice."""

import asyncio
from base64 import b64decode

import pytest
from tests.unit.local.server.in_process_server import SMALL, Standing

from weir.local.server.output.pod_logs import LogFollower, LogStep

EVENTS = {"Accept": "text/event-stream"}


def parts(text: str) -> list[tuple[str, str]]:
    """Return the positions and outputs of events, and the kind of the last one."""
    found = []
    for event in text.split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in event.split("\n") if ": " in line)
        found.append((fields.get("id", fields.get("event", "")), b64decode(fields.get("data", "")).decode()))
    return found


@pytest.mark.parametrize(("pod", "prefix"), [("0/0", ""), ("all", "0/0 | ")])
async def test_output_resumes_behind_a_position(stands: Standing, pod: str, prefix: str) -> None:
    await stands.submit("sh", "-c", "echo one; echo two; printf three", name="job")
    await stands.until("job", "succeeded")
    path = f"/api/v1/workloads/job/logs?follow=true&pod={pod}&tail=2"
    *found, end = parts((await stands.admin.get(path, headers=EVENTS)).text)
    last = "\n" if prefix else ""
    assert "".join(text for _, text in found) == f"{prefix}two\n{prefix}three{last}"
    assert end == ("end", "")
    again = await stands.admin.get(path, headers={**EVENTS, "Last-Event-ID": found[-1][0]})
    assert "".join(text for _, text in parts(again.text)) == ""
    start = found[-1][0].partition(":")[0]
    again = await stands.admin.get(path, headers={**EVENTS, "Last-Event-ID": f"{start}:0"})
    assert "".join(text for _, text in parts(again.text)) == f"{prefix}one\n{prefix}two\n{prefix}three{last}"
    again = await stands.admin.get(path, headers={**EVENTS, "Last-Event-ID": f"{start.partition('/')[0]}/-"})
    assert "".join(text for _, text in parts(again.text)) == f"{prefix}one\n{prefix}two\n{prefix}three{last}"


async def test_a_position_of_an_earlier_workload_of_the_name_is_refused(stands: Standing) -> None:
    path = "/api/v1/workloads/job/logs?follow=true"
    await stands.submit("echo", "first", name="job")
    await stands.until("job", "succeeded")
    (position, _), *_ = parts((await stands.admin.get(path, headers=EVENTS)).text)
    await stands.submit("echo", "second", name="job")
    await stands.until("job", "succeeded")
    answer = await stands.admin.get(path, headers={**EVENTS, "Last-Event-ID": position})
    assert answer.status_code == 409
    assert "an earlier workload of this name" in answer.text


@pytest.mark.parametrize("pod", ["0/0", "all"])
@pytest.mark.parametrize("headers", [EVENTS, {}], ids=["events", "text"])
async def test_a_quiet_log_ends_with_the_token_that_follows_it(
    stands: Standing, pod: str, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[LogStep] = []
    step = LogFollower.step
    monkeypatch.setattr(LogFollower, "step", lambda *words: reads.append(step(*words)) or reads[-1])
    await stands.submit("sh", "-c", "echo begun; sleep 3600", name="quiet", pods=[{"gpus": 0, **SMALL}])
    await stands.until("quiet", "running")
    await stands.until_log(f"quiet/logs?pod={pod}", lambda text: "begun" in text)
    body = {"user": "mia", "role": "admin"}
    made = (await stands.admin.post("/api/v1/tokens", json=body)).json()
    path = f"/api/v1/workloads/quiet/logs?follow=true&pod={pod}"
    following = asyncio.create_task(stands.asks(made["token"]).get(path, headers=headers))
    async with asyncio.timeout(120):
        while len(reads) < 3:  # noqa: ASYNC110 - what the first one found was sent
            await asyncio.sleep(0.01)
    assert not following.done()
    await stands.admin.delete(f"/api/v1/tokens/{made['id']}")
    async with asyncio.timeout(120):
        text = (await following).text
    found = "".join(each for _, each in parts(text)) if headers else text
    assert "begun" in found
    assert "event: end" not in text, "it goes on after the next sign-in"


async def test_positions_of_all_pods_are_before_incomplete_lines(stands: Standing) -> None:
    script = 'echo begin; printf "half of $RANK"; sleep 3600'
    await stands.submit("sh", "-c", script, name="gang", pods=[{"count": 2, "gpus": 0, **SMALL}])
    await stands.until("gang", "running")

    def is_written(answer: str) -> bool:
        return answer.count("half") == 2

    path = "/api/v1/workloads/gang/logs?pod=all"
    async with asyncio.timeout(120):
        while not is_written((await stands.admin.get(path)).text):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    stands.pool.closing = True  # the response is not resumed there
    text = (await stands.admin.get(f"{path}&follow=true", headers=EVENTS)).text
    stands.pool.closing = False
    assert text == ""  # no incomplete line as a whole one, and no end
    await stands.admin.post("/api/v1/workloads/gang/stop")
    found = parts((await stands.admin.get(f"{path}&follow=true", headers=EVENTS)).text)
    (last, lines), *more, end = found  # one pod may end before the other
    assert sorted(lines.splitlines()) == ["0/0 | begin", "0/1 | begin"]
    assert end == ("end", "")
    headers = {**EVENTS, "Last-Event-ID": last}
    again = parts((await stands.admin.get(f"{path}&follow=true", headers=headers)).text)
    for events in (more, again):
        rest = "".join(text for _, text in events).splitlines()
        assert sorted(rest) == ["0/0 | half of 0", "0/1 | half of 1"]


@pytest.mark.parametrize("position", ["x", "1:2,3:4", "1:-1", "1", ",", "1:2\u0662"])
async def test_a_position_of_another_output_is_refused(stands: Standing, position: str) -> None:
    await stands.submit("true", name="job")
    path = "/api/v1/workloads/job/logs?follow=true"
    answer = await stands.admin.get(path, headers={**EVENTS, "Last-Event-ID": position.encode()})
    assert answer.status_code == 422
    assert "is no position of this output" in answer.text


async def test_a_client_that_accepts_no_events_gets_text(stands: Standing) -> None:
    await stands.submit("echo", "one", name="job")
    answer = await stands.admin.get("/api/v1/workloads/job/logs?follow=true")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == "one\n"

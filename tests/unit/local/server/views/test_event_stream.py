"""The live stream, metrics, health, and the log that keeps secrets."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.local.server.in_process_server import Standing, standing

from weir.local.server.access.authorization import Person
from weir.local.server.views import event_stream
from weir.local.server.views.event_stream import EventStream
from weir.service import logging_setup

ADMIN = Person("root", is_admin=True)


async def texts_of(
    stream: EventStream, person: Person = ADMIN, last: str | None = None
) -> tuple[list[str], asyncio.Task[None], event_stream.StreamReader]:
    joined = stream.join(person, last)
    assert joined is not None
    reader, hello = joined
    found: list[str] = []

    async def read() -> None:
        async for text in reader.texts(hello):
            found.append(text)

    task = asyncio.create_task(read())
    await asyncio.sleep(0)
    return found, task, reader


def messages(texts: list[str]) -> list[tuple[str, str, dict[str, object]]]:
    found = []
    for block in "".join(texts).split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if not line.startswith((":", "retry"))
        )
        if "data" in fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


def is_over(texts: list[str], name: str) -> bool:
    """Return True if the end of a workload was told, by its row and by an event."""
    reported = messages(texts)
    rows = [data["status"] for _, kind, data in reported if kind == "workload" and data["name"] == name]
    ends = [data for _, kind, data in reported if kind == "event" and data["kind"] == "ended"]
    return rows[-1:] == ["succeeded"] and any(data["workload"] == name for data in ends)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_workloads_life_is_streamed(stands: Standing) -> None:
    texts, task, reader = await texts_of(stands.pool.stream)
    await stands.submit("true", name="short")
    await until(lambda: is_over(texts, "short"))
    await until(lambda: {"queue", "node"} <= {kind for _, kind, _ in messages(texts)})
    reader.end()
    await task
    seen = messages(texts)
    statuses = [data["status"] for _, kind, data in seen if kind == "workload"]
    assert statuses[0] == "pending"
    assert statuses[-1] == "succeeded"
    kinds = [data["kind"] for _, kind, data in seen if kind == "event"]
    assert [kind for kind in kinds if kind in {"submitted", "started", "ended"}] == [
        "submitted",
        "started",
        "ended",
    ]


async def test_who_was_cut_off_goes_on_where_it_was(stands: Standing) -> None:
    stream = stands.pool.stream
    texts, task, reader = await texts_of(stream)
    await stands.submit("true", name="first")
    await until(lambda: is_over(texts, "first"))
    reader.end()
    await task
    last = messages(texts)[-1][0]
    await stands.submit("true", name="second")
    await stands.until("second", "succeeded")
    again, task, reader = await texts_of(stream, last=last)
    await until(lambda: '"status":"succeeded"' in "".join(again))
    reader.end()
    await task
    rows = [data for _, kind, data in messages(again) if kind == "workload"]
    assert {row["name"] for row in rows} == {"second"}
    assert rows[0]["status"] == "pending"


async def test_a_reader_of_an_earlier_server_begins_again() -> None:
    stream = EventStream(epoch=2)
    stream.open(asyncio.get_running_loop())
    texts, task, reader = await texts_of(stream, last="1-17")
    reader.end()
    await task
    assert [kind for _, kind, _ in messages(texts)] == ["reset"] or "event: reset" in "".join(texts)


async def test_who_reads_too_slowly_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from weir.api.answers import EventRow

    monkeypatch.setattr(event_stream, "BEHIND_MAX", 8)
    stream = EventStream(epoch=1)
    stream.open(asyncio.get_running_loop())
    joined = stream.join(ADMIN, None)
    assert joined is not None
    reader, _ = joined
    for at in range(20):
        stream.send([("event", EventRow(id=at, at_s=0.0, kind="test", sentence="x"), None)])
    await asyncio.sleep(0.01)
    assert reader.cut_off
    assert len(reader.queue) <= 8
    assert [text async for text in reader.texts()] == [""]
    assert stream.readers == 0


async def test_metrics_name_quota_share_and_waits(stands: Standing) -> None:
    await stands.submit("true", name="short", gpus=2)
    await stands.until("short", "succeeded")
    await stands.submit("sleep", "3600", name="runs", gpus=2)
    await stands.until("runs", "running")
    text = (await stands.admin.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    quota = {sample.labels["queue"]: sample.value for sample in families["weir_queue_quota_gpus"].samples}
    assert quota == {"default": 4.0}
    for name in (
        "weir_queue_share_gpus",
        "weir_queue_allocated_gpus",
        "weir_queue_allocated_memory_bytes",
        "weir_queue_pending_workloads",
        "weir_queue_running_workloads",
        "weir_workload_wait_seconds",
        "weir_preemptions",
        "weir_decision_seconds",
        "weir_node_gpus",
    ):
        assert name in families, name
    waits = {sample.name: sample.value for sample in families["weir_workload_wait_seconds"].samples}
    assert waits["weir_workload_wait_seconds_count"] == 2
    ends = families["weir_workloads_ended"].samples[0]
    assert (ends.labels, ends.value) == ({"project": "default", "status": "succeeded"}, 1.0)


async def test_utilization_is_measured_and_streamed(stands: Standing) -> None:
    from weir.local.backend import LocalBackend
    from weir.local.server.utilization import UtilizationTask
    from weir.local.usage.gpu_sampling import UtilizationSampler

    backend = stands.pool.backend
    assert isinstance(backend, LocalBackend)
    await stands.submit("sh", "-c", "while :; do :; done", name="busy")
    await stands.until("busy", "running")
    uses = UtilizationTask(
        stands.pool, UtilizationSampler(backend.node.machine, backend.pods), lambda: True, lambda _: None
    )

    def is_used() -> bool:
        uses.look()
        return stands.pool.view.workloads["busy"].used_gpu_s > 0

    await until(is_used)
    families = (await stands.admin.get("/metrics")).text
    assert 'weir_workload_gpu_used_seconds_total{project="default",workload="busy"}' in families
    node = (await stands.get("nodes"))["items"][0]
    assert max(device["use"] for device in node["devices"]) > 0


async def test_health(stands: Standing) -> None:
    await stands.until_ready()
    assert (await stands.admin.get("/healthz")).json() == {"status": "ok"}


def test_what_is_nobodys_business_stays_out_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    import structlog

    configured = structlog.get_config()
    logging_setup.set_up("info")
    try:
        structlog.get_logger("test").info(
            "asked", command=["hunter2"], token="hunter2", env={"K": "hunter2"}, name="job"
        )
    finally:
        structlog.configure(**configured)
    answer = capsys.readouterr().err
    assert "hunter2" not in answer
    assert "job" in answer


ENDS = "while [ ! -e {0}/go ]; do sleep 0.05; done; touch {0}/over"


async def test_a_pool_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with standing(home, end_jobs=False) as first:
        await first.submit("sleep", "3600", name="runs", gpus=2)
        await first.submit("sh", "-c", ENDS.format(tmp_path), name="ends", gpus=1)
        await first.submit("sleep", "3600", name="waits", gpus=4)
        await first.submit("sleep", "3600", name="rests", gpus=1)
        await first.until("runs", "running")
        await first.until("ends", "running")
        await first.admin.post("/api/v1/workloads/rests/suspend")
        await first.until("rests", "pending")
        token = (await first.member("default")).headers["Authorization"]
        runs, seen_s = await first.get("workloads/runs"), time.time()
    (tmp_path / "go").touch()  # one ends while no server runs
    async with asyncio.timeout(120):
        while not (tmp_path / "over").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    async with standing(home) as second:
        assert second.token == first.token
        again = await second.until("runs", "running")
        assert (again["uid"], again["restarts"]) == (runs["uid"], 0)
        assert runs["started_s"] <= again["started_s"] < seen_s  # it counts from when its process began
        await second.until("ends", "succeeded")
        assert (await second.get("workloads/waits"))["status"] == "pending"
        assert (await second.get("workloads/rests"))["reason"]["why"] == "suspended"
        mia = second.asks(token.removeprefix("Bearer "))
        assert (await mia.get("/api/v1/workloads/runs")).json()["command"] == ["sleep", "3600"]
        kinds = [event["kind"] for event in (await second.get("events", workload="runs"))["items"]]
        assert kinds.count("started") == 1
        ends = [event["kind"] for event in (await second.get("events", workload="ends"))["items"]]
        assert ends.count("ended") == 1


async def test_a_step_that_fails_costs_the_picture_and_not_the_pool(stands: Standing) -> None:
    await stands.submit("sleep", "3600", name="runs")
    await stands.until("runs", "running")
    backend = stands.pool.backend
    apply = backend.apply

    def fails(_effects: object) -> None:
        backend.apply = apply  # type: ignore[method-assign]
        raise OSError("the disk is full")

    backend.apply = fails  # type: ignore[method-assign]
    await stands.submit("true", name="next")
    await stands.until("next", "succeeded")
    row = await stands.until("runs", "running")
    assert row["restarts"] == 0
    await stands.until_ready()

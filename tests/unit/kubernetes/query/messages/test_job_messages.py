"""Messages of pods: their form, the proof of their sender, their bounds, and what is written of them."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from weir.kubernetes.api.changes import ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.errors import ApiUnreachable
from weir.kubernetes.crd.objects import WorkloadObject
from weir.kubernetes.query.aggregation.discovery import ROOT
from weir.kubernetes.query.aggregation.front_proxy import FrontProxy, Identity
from weir.kubernetes.query.aggregation.refusals import QueryRefused
from weir.kubernetes.query.messages import report_writer
from weir.kubernetes.query.messages import route as message_route
from weir.kubernetes.query.messages.job_messages import BYTES_MAX, VALUES_MAX, parse_message, sender_uid
from weir.kubernetes.query.messages.report_writer import EVERY_S, LATE_S, PendingReport, ReportWriter
from weir.kubernetes.query.messages.route import RATE, MessageRoute, ReportSource
from weir.kubernetes.query.workloads.index import WorkloadIndex
from weir.kubernetes.state.gangs.job_report import NO_REPORT, ReportedTimes, reported_times

NAME, UID = "authentication.kubernetes.io/pod-name", "authentication.kubernetes.io/pod-uid"
NOW_S = 1_767_225_600.0
PATH = f"{ROOT}/namespaces/ns/pods/train-0/messages"


def pod_identity(
    account: str = "system:serviceaccount:ns:trainer",
    names: tuple[str, ...] = ("train-0",),
    uids: tuple[str, ...] = ("u1",),
) -> Identity:
    return Identity(account, ("system:serviceaccounts",), extra=((NAME, names), (UID, uids)))


def test_pod_is_known_by_its_token_alone() -> None:
    assert sender_uid(pod_identity(), "ns", "train-0") == "u1"
    others = [
        (Identity("system:serviceaccount:ns:trainer"), "ns", "train-0"),
        (pod_identity(), "ns", "train-1"),
        (pod_identity(), "other", "train-0"),
        (pod_identity("system:serviceaccount:n:trainer"), "ns", "train-0"),
        (pod_identity("ann"), "ns", "train-0"),
        (pod_identity("system:node:n1"), "ns", "train-0"),
        (pod_identity(names=("train-0", "train-1")), "ns", "train-0"),
        (pod_identity(uids=()), "ns", "train-0"),
        (pod_identity(uids=("u1", "u2")), "ns", "train-0"),
    ]
    for person, namespace, pod in others:
        with pytest.raises(QueryRefused) as refused:
            sender_uid(person, namespace, pod)
        assert refused.value.status == 403


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 5000,
        b'{"report": {"values": {"a": "1"}}}',
        b'{"report": {"values": {"a": true}}}',
        b'{"report": {"values": {"a": NaN}}}',
        b'{"report": {"values": {"a": 1e301}}}',
        b'{"report": {"values": {"": 1}}}',
        b'{"report": {"values": {"\\u001b[2J": 1}}}',
        b'{"report": {"step": 1.5}}',
        b'{"report": {"step": 1' + b"0" * 16 + b"}}",
        b'{"checkpointed": {"ageSeconds": -1}}',
        b'{"checkpointed": {}}',
        b'{"busy": {"ageSeconds": 0, "forSeconds": 1, "why": "a\\nb"}}',
        b'{"busy": {"ageSeconds": 0, "forSeconds": 1e99}}',
        b'{"owner": "x"}',
        json.dumps({"report": {"values": {f"v{at}": 1 for at in range(VALUES_MAX + 1)}}}).encode(),
    ],
)
def test_message_of_another_form_is_refused_in_a_sentence(message: bytes) -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_message(message)
    assert refused.value.status == 400
    assert refused.value.sentence.endswith(".")


def test_message_that_is_too_large_is_refused() -> None:
    with pytest.raises(QueryRefused) as refused:
        parse_message(b" " * (BYTES_MAX + 1))
    assert refused.value.status == 413


class Patched(ApiClient):
    """An API server that keeps patches, or can't be reached."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, dict[str, Any]]] = []
        self.is_away = False
        self._more = asyncio.Condition()

    async def until(self, count: int) -> None:
        async with self._more:
            await asyncio.wait_for(self._more.wait_for(lambda: len(self.patches) >= count), 60)

    async def patch(self, path: str, body: Any, kind: Any, of: Any, **_words: Any) -> Any:
        await asyncio.sleep(0)
        if self.is_away:
            raise ApiUnreachable("away", may_have_happened=False)
        async with self._more:
            self.patches.append((path, body))
            self._more.notify_all()
        return of()


def workload(of: str = "o1", /, **report: Any) -> ObjectSet[WorkloadObject]:
    body = {
        "metadata": {"name": "job-a", "namespace": "ns", "uid": "w1"},
        "spec": {"owner": {"uid": of}},
        "status": {"phase": "Running", **({"report": report} if report else {})},
    }
    return ObjectSet("ns/job-a", msgspec.convert(body, WorkloadObject))


def route(writer: ReportWriter) -> MessageRoute:
    return MessageRoute(FrontProxy(writer._api), lambda *_: None, writer, lambda: 100.0, lambda: NOW_S)


def test_times_of_a_message_are_bounded_by_the_start_of_the_pod_and_by_the_policy() -> None:
    take, pod = (
        route(ReportWriter(Patched(), WorkloadIndex())),
        ReportSource("u1", "ns/job-a", "o1", NOW_S - 50),
    )

    def taken(body: str) -> PendingReport:
        return take._report(pod, parse_message(body.encode()))

    assert taken('{"checkpointed": {"ageSeconds": 5}}').checkpointed_s == NOW_S - 5
    assert taken('{"checkpointed": {"ageSeconds": 1000}}').checkpointed_s == NOW_S - 50
    assert taken('{"busy": {"ageSeconds": 10, "forSeconds": 60}}').busy_until_s == NOW_S + 50
    assert taken('{"busy": {"ageSeconds": 0, "forSeconds": 1000000}}').busy_until_s == NOW_S + 100


@pytest.mark.parametrize(
    ("person", "status"),
    [
        (None, 401),
        (Identity("ann", ("system:masters",)), 403),
        (pod_identity(uids=("u0",)), 404),  # an earlier pod of this name
        (pod_identity(), 200),
    ],
)
async def test_message_counts_for_the_running_pod_with_its_uid_alone(
    monkeypatch: pytest.MonkeyPatch, person: Identity | None, status: int
) -> None:
    monkeypatch.setattr(message_route, "requester", lambda *_: person)
    writer = ReportWriter(Patched(), WorkloadIndex())
    async with TestClient(TestServer(served(writer))) as client:
        answer = await client.post(PATH, data=b'{"report": {"step": 1}}')
        assert answer.status == status
        assert (await answer.json())["kind"] == "Status"
    assert bool(writer.due()) is (status == 200)


async def test_pod_that_sends_too_often_is_refused_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_route, "requester", lambda *_: pod_identity())
    slow = RATE._replace(per_s=0.001)  # no token comes back meanwhile, however slow it is
    monkeypatch.setattr(message_route, "RATE", slow)
    async with TestClient(TestServer(served(ReportWriter(Patched(), WorkloadIndex())))) as client:
        codes = []
        for _ in range(int(RATE.at_once) + 30):
            async with client.post(PATH, data=b"x" * (BYTES_MAX + 1)) as answer:
                codes.append(answer.status)
    assert codes[: int(RATE.at_once)] == [413] * int(RATE.at_once)
    assert 429 in codes


def served(writer: ReportWriter) -> web.Application:
    """Return an application with the route, where one pod runs."""
    found, app = ReportSource("u1", "ns/job-a", "o1", NOW_S), web.Application()
    MessageRoute(FrontProxy(writer._api), lambda *_: found, writer, lambda: 1.0, lambda: NOW_S).add(app)
    return app


async def test_many_messages_become_one_write_with_the_newest_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report_writer, "WRITES_PER_S", 1000.0)
    monkeypatch.setattr(report_writer, "_AGAIN_S", 0.01)
    api, index, now = Patched(), WorkloadIndex(), [0.0]
    index.deliver([workload()])
    writer = ReportWriter(api, index, lambda: now[0])
    for step in range(100):
        writer.add("ns/job-a", PendingReport("o1", 0.0, NOW_S, step, {"loss": float(step)}))
    writer.add("ns/job-a", PendingReport("o1", 0.0, NOW_S, checkpointed_s=NOW_S - 3))
    task = asyncio.create_task(writer.run())
    try:
        await api.until(1)
        ((path, body),) = api.patches
        assert path.endswith("/namespaces/ns/workloads/job-a")
        assert body["metadata"] == {"uid": "w1"}, "an object that was made again is left alone"
        report = body["status"]["report"]
        assert (report["step"], report["values"]) == (99, {"loss": 99.0})
        assert report["checkpointedAt"] == "2025-12-31T23:59:57Z"
        writer.add("ns/job-a", PendingReport("o1", 0.0, NOW_S, 200))
        assert writer.due() == [], "it was just written"
        api.is_away = True
        now[0] += EVERY_S
        assert writer.due() == ["ns/job-a"]
        await asyncio.sleep(0.1)
        api.is_away = False
        now[0] += EVERY_S
        await api.until(2)
        assert api.patches[1][1]["status"]["report"]["step"] == 200, "a failed write is tried again"
    finally:
        task.cancel()


def test_workload_waits_for_no_flood_of_reports_of_another_namespace() -> None:
    now = [0.0]
    writer = ReportWriter(Patched(), WorkloadIndex(), lambda: now[0])
    for at in range(1500):
        writer.add(f"flood/job-{at}", PendingReport("o", 0.0, NOW_S, checkpointed_s=NOW_S))
    writer.add("other/job-a", PendingReport("o", 0.0, NOW_S, 1))
    writer.add("other/job-b", PendingReport("o", 0.0, NOW_S, checkpointed_s=NOW_S))
    assert writer.due()[:4] == ["flood/job-0", "other/job-b", "flood/job-1", "other/job-a"]


def test_reports_without_a_checkpoint_are_late_some_time_after_those_with_one() -> None:
    now = [0.0]
    writer = ReportWriter(Patched(), WorkloadIndex(), lambda: now[0])
    writer.add("ns/old", PendingReport("o", 0.0, NOW_S, 1))
    now[0] = LATE_S - 1
    for at in range(100):
        writer.add(f"ns/job-{at}", PendingReport("o", now[0], NOW_S, checkpointed_s=NOW_S))
    assert "ns/old" not in writer.due()
    now[0] = LATE_S
    assert writer.due()[0] == "ns/old"


async def test_curves_that_wait_are_bounded_and_the_newest_values_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report_writer, "CURVES_MAX", 100)
    monkeypatch.setattr(report_writer, "WRITES_PER_S", 1000.0)
    monkeypatch.setattr(report_writer, "_AGAIN_S", 0.01)
    api, index, now = Patched(), WorkloadIndex(), [0.0]
    index.deliver([workload()])
    writer = ReportWriter(api, index, lambda: now[0])

    def add(name: str, values: Mapping[str, float]) -> None:
        report = PendingReport("o1", now[0], NOW_S + now[0])
        report.state(1, values)
        assert writer.add(name, report)

    add("ns/job-a", {"loss": 1.0})
    for at in range(50):
        add(f"ns/unmade-{at % 20}", {f"v{each}": float(at) for each in range(10)})
    assert sum(len(each.recent) for each in writer._pending.values()) == 101
    now[0] += 1
    add("ns/job-a", {"loss": 0.5})
    api.is_away = True
    task = asyncio.create_task(writer.run())
    try:
        await asyncio.sleep(0.1)
        api.is_away = False
        now[0] += report_writer.UNMADE_S_MAX
        await api.until(1)
        report = api.patches[0][1]["status"]["report"]
        assert (report["values"], report["recent"][0]["points"]) == ({"loss": 0.5}, [[NOW_S, 1.0]])
        while writer._pending:
            now[0] += EVERY_S
            await asyncio.sleep(0.01)
        add("ns/job-a", {"loss": 0.25})
        now[0] += EVERY_S
        await api.until(2)
        assert api.patches[1][1]["status"]["report"]["recent"], "those that were written count no more"
    finally:
        task.cancel()


def test_report_of_an_earlier_owner_of_the_name_is_not_carried_over() -> None:
    index = WorkloadIndex()
    index.deliver(
        [workload("o2", owner="o1", values={"old": 1.0}, step=4, checkpointedAt="2026-01-01T00:00:00Z")]
    )
    found = index.named("ns", "job-a")
    assert found is not None
    assert found.row(0.0).progress is None
    assert reported_times(found.object, "o2") == NO_REPORT
    patch = report_writer.changed_fields(found, PendingReport("o2", 0.0, NOW_S, None, {"new": 2.0}))
    assert patch["values"] == {"new": 2.0, "old": None}
    assert (patch["step"], patch["checkpointedAt"], patch["busyUntil"]) == (None, None, None)


def test_checkpoint_never_goes_back() -> None:
    index = WorkloadIndex()
    index.deliver([workload(owner="o1", checkpointedAt="2026-01-01T00:00:00Z")])
    found = index.named("ns", "job-a")
    assert found is not None
    late = PendingReport("o1", 0.0, NOW_S, checkpointed_s=NOW_S - 60)
    assert report_writer.changed_fields(found, late)["checkpointedAt"] == "2026-01-01T00:00:00Z"
    assert reported_times(found.object, "o1") == ReportedTimes(NOW_S)

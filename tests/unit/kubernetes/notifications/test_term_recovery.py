"""Leaders that end or fail: the next one tells the rest, and a fault is shown and ends nothing."""

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from tests.unit.local.server.receivers import Receivers, settings

from weir.control.clock import Clock
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.notifications import notification_term
from weir.kubernetes.notifications.notification_service import ClusterNotifications
from weir.kubernetes.query.workloads.index import WorkloadIndex

from .rules import NOW_S, RuleServer, changes, ended, removal, rule, running, workload
from .test_notification_term import Leader, leading, receiver, server, until

__all__ = ["receiver", "server"]

FIRST = {"at": "2026-01-31T12:01:10Z", "rule": "preempt", "sentence": "Big needs 4 GPUs."}
SECOND = {"at": "2026-01-31T12:01:40Z", "rule": "preempt", "sentence": "Huge needs 8 GPUs."}
PAST = [
    {
        "id": "start 0",
        "at": "2026-01-31T12:01:00Z",
        "kind": "started",
        "topics": ["start"],
        "sentence": "s0.",
    },
    {
        "id": f"eviction {FIRST['at']}",
        "at": FIRST["at"],
        "kind": "stopping",
        "topics": ["eviction"],
        "sentence": "vision/train is evicted: big needs 4 GPUs.",
    },
]


def told(server: RuleServer) -> list[str]:
    """Return the sentences of the notifications in the outbox."""
    status = server.status()
    waiting = [
        *status["queued"],
        *(each for message in status.get("messages", []) for each in message["notifications"]),
    ]
    return sorted(each["sentence"] for each in waiting)


async def test_a_leader_that_is_killed_loses_no_event_that_a_later_one_has_overwritten(
    server: RuleServer, receiver: Receivers
) -> None:
    server.rules["hook"] = rule(topics=["start", "eviction"])
    server.secret = None  # everything stays in the outbox
    leader = Leader()
    async with leading(server, settings(receiver.origin), leader=leader) as service:
        await until(lambda: server.status().get("phase"))
        service.see_workloads(changes(running()))
        await until(lambda: told(server))
        service.see_workloads(changes(workload(phase="Pending", lastEviction=FIRST)))
        leader.leads = False  # killed before the eviction was written
    index = WorkloadIndex()
    index.deliver(changes(workload(phase="Pending", lastEviction=SECOND, pastEvents=PAST)))
    async with leading(server, settings(receiver.origin), index):
        await until(lambda: server.status()["pending"] == 3)
    assert told(server) == [
        "vision/train is evicted: big needs 4 GPUs.",
        "vision/train is evicted: huge needs 8 GPUs.",
        "vision/train starts on n1.",
    ]


async def test_a_workload_that_goes_while_no_replica_leads_has_rules_of(
    server: RuleServer, receiver: Receivers
) -> None:
    server.secret = None
    leader = Leader()
    standby = ClusterNotifications(
        cast("ApiClient", server), leader, settings(receiver.origin), None, Clock(starts_s=NOW_S), "a:b"
    )
    standby.see_workloads(changes(running(), running("done"), ended("done")))
    standby.see_workloads(removal("train") + removal("done"))
    other = running()
    other.metadata.uid = "uid-2"
    standby.see_workloads(changes(other))
    standby.lead()
    await until(lambda: server.status().get("pending"))
    await standby.stop()
    leader.term += 1
    standby.lead()  # it has read of the same removals once
    await asyncio.sleep(0.2)
    await standby.stop()
    starts = ["vision/train starts on n1."] * 2
    assert told(server) == [*starts, "vision/train was deleted."]


async def test_a_workload_whose_object_gets_another_owner_has_ended(
    server: RuleServer, receiver: Receivers
) -> None:
    server.secret = None
    first, second = running(), running(at="2026-01-31T12:01:30Z")
    first.spec.owner.uid, second.spec.owner.uid = "o1", "o2"
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: server.status().get("phase"))
        service.see_workloads(changes(first))
        service.see_workloads(changes(second))
    starts = ["vision/train starts on n1."] * 2
    assert told(server) == [*starts, "vision/train was deleted."]


async def test_a_fault_in_reading_rules_is_logged_once_and_shown_until_it_is_over(
    server: RuleServer, receiver: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notification_term, "RETRY_S", 0.5)
    faults = iter([ValueError("no list"), ValueError("no list"), RuntimeError("no list")])

    def fail() -> None:
        for fault in faults:
            raise fault

    server.while_listed = fail
    with capture_logs() as logs:
        async with leading(server, settings(receiver.origin)) as service:
            await until(lambda: service.trouble)
            assert service.trouble.startswith("Rules of notifications can't be read: ")
            await until(lambda: server.status().get("phase"))
            await until(lambda: not service.trouble)
            service.see_workloads(changes(running()))
            await until(lambda: receiver.of("/ok"))
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["notifications_failed"]


async def test_a_fault_in_writing_statuses_ends_no_later_write(
    server: RuleServer, receiver: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notification_term, "RETRY_S", 0.5)
    server.secret = None
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: server.status().get("phase"))
        assert service._term is not None
        save, faults = service._term._writer.save_changed, iter([RuntimeError("broken")])

        async def broken(*states: Any, **more: Any) -> None:
            for fault in faults:
                raise fault
            await save(*states, **more)

        monkeypatch.setattr(service._term._writer, "save_changed", broken)
        service.see_workloads(changes(running()))
        await until(lambda: service.trouble)
        assert service.trouble.startswith("Statuses of notification rules can't be written: RuntimeError.")
        await until(lambda: not service.trouble)
    assert told(server) == ["vision/train starts on n1."]

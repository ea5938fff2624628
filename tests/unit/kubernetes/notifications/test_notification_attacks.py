"""Rules and Secrets of people who mean harm, receivers that hang, and leaders that end in a delivery."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from tests.unit.local.server.receivers import Receivers, receivers, settings

from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.errors import ApiRefused, Conflict
from weir.kubernetes.crd.notification_objects import TEST_ANNOTATION
from weir.kubernetes.notifications import notification_term
from weir.kubernetes.notifications.namespace_rules import RULES_OF_NAMESPACE_MAX, SURPLUS
from weir.kubernetes.notifications.rule_state import RuleState
from weir.kubernetes.query.workloads.index import WorkloadIndex

from .rules import RuleServer, changes, read_rule, rule, running
from .test_notification_term import SIGNING, Leader, leading, until

MAX = RULES_OF_NAMESPACE_MAX


@pytest.fixture
def receiver() -> Iterator[Receivers]:
    with receivers() as serving:
        yield serving


def uid(number: int) -> str:
    return f"{number:08x}-7f7e-4f7e-9a43-0d1a3c5e7f9b"


def of_url(url: str, *names: str, **spec: Any) -> RuleServer:
    """Return a server with rules for one receiver."""
    found = RuleServer(*(rule(name, uid=uid(number), **spec) for number, name in enumerate(names)))
    found.address("url", url)
    found.address("sign", SIGNING)
    return found


def queued(server: RuleServer, name: str) -> int:
    return len(server.status(name).get("queued", []))


def waits(logs: list[Any]) -> list[Any]:
    """Return the entries that say why a rule waits."""
    return [each for each in logs if each["event"] == "notifications_wait"]


# Other people


async def test_one_rule_too_many_is_refused_tells_nothing_and_takes_a_place_that_becomes_free(
    receiver: Receivers,
) -> None:
    names = [f"r{number:03}" for number in range(MAX + 2)]
    server = of_url(f"{receiver.origin}/ok", *names, digest="1h")
    for number, name in enumerate(names):
        server.rules[name]["metadata"]["creationTimestamp"] = (
            f"2026-01-31T11:{number // 60:02}:{number % 60:02}Z"
        )
    server.rules = dict(sorted(server.rules.items(), reverse=True))
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: all(server.status(name).get("phase") for name in names))
        refused = [name for name in names if server.status(name)["message"] == SURPLUS]
        assert refused == names[MAX:], "the newest"
        service.see_workloads(changes(running("first")))
        await until(lambda: queued(server, names[0]))
        service._see_rules([ObjectRemoved(f"vision/{names[0]}", uid(0))])
        del server.rules[names[0]]
        await until(lambda: server.status(names[MAX])["phase"] == "Ready")
        service.see_workloads(changes(running("next", at="2026-01-31T12:40:00Z")))
        await until(lambda: queued(server, names[MAX]) == 1 and queued(server, names[1]) == 2)
    assert server.status(names[MAX + 1])["message"] == SURPLUS
    assert not server.status(names[MAX + 1])["queued"]


async def test_a_rule_that_fails_keeps_no_other_from_being_sent(
    receiver: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(thing: Any, now_s: float) -> RuleState:
        if thing.metadata.name == "bad":
            raise RuntimeError
        return RuleState(thing, now_s)

    monkeypatch.setattr(notification_term, "RuleState", fails)
    async with leading(of_url(f"{receiver.origin}/ok", "bad", "hook"), settings(receiver.origin)) as service:
        await until(lambda: service.trouble == "" and service._term and service._term._sender)
        service.see_workloads(changes(running()))
        await until(lambda: receiver.of("/ok"))
        service._see_rules([ObjectSet("vision/bad", read_rule(rule("bad", uid=uid(0))))])


async def test_a_fault_in_notifications_keeps_the_control_from_nothing(
    receiver: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError

    index = WorkloadIndex()
    async with leading(of_url("", "hook"), settings(receiver.origin), index) as service:
        monkeypatch.setattr(notification_term.NotificationTerm, "see_workloads", fails)
        service.see_workloads(changes(running()))
    assert [each.key for each in index.all()] == ["vision/train"]


async def test_a_status_that_is_refused_keeps_no_other_from_being_written(receiver: Receivers) -> None:
    server = of_url(f"{receiver.origin}/ok", "bad", "hook", digest="1h")
    server.refusals["bad"] = ApiRefused(422, "Invalid", "status: Too long")
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: server.status("hook").get("phase"))
        service.see_workloads(changes(running()))
        await until(lambda: queued(server, "hook"))
        del server.refusals["bad"]


async def test_checks_that_hang_keep_no_status_from_being_written(
    receiver: Receivers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notification_term, "CHECK_EVERY_S", 0.1)
    server, is_asked, released = of_url(f"{receiver.origin}/ok", "hook"), asyncio.Event(), asyncio.Event()
    server.rules["bad"] = rule("bad", uid=uid(7), urlKey="missing")
    read = server.get

    async def hangs(path: str, of: Any) -> Any:
        is_asked.set()
        await released.wait()
        return await read(path, of)

    server.rules["hook"]["spec"]["digest"] = "1h"
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: all(server.status(name).get("phase") for name in server.rules))
        monkeypatch.setattr(server, "get", hangs)
        async with asyncio.timeout(60):
            await is_asked.wait()
        try:
            service.see_workloads(changes(running()))
            await until(lambda: queued(server, "hook"))
        finally:
            released.set()


async def test_a_message_is_not_sent_before_a_status_that_conflicts_is_written(receiver: Receivers) -> None:
    server = of_url(f"{receiver.origin}/ok", "hook")
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: server.status().get("phase"))
        server.refusals["hook"] = Conflict(409, "Conflict", "the object has been modified")
        service.see_workloads(changes(running()))
        await asyncio.sleep(0.5)
        assert not receiver.attempts
        server.refusals.clear()
        await until(lambda: receiver.of("/ok"))


async def test_a_rule_that_is_made_or_removed_while_the_leader_reads_is_taken_in(receiver: Receivers) -> None:
    server = of_url(f"{receiver.origin}/ok", "old")
    late = rule("late", uid=uid(7))

    def change() -> None:
        server.rules = {"late": late}
        service._see_rules([ObjectRemoved("vision/old", uid(0)), ObjectSet("vision/late", read_rule(late))])

    server.while_listed = change
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: late["status"].get("phase"))
        service.see_workloads(changes(running()))
        await until(lambda: late["status"]["deliveries"])
    assert len(receiver.of("/ok")) == 1


async def test_a_test_with_an_unprintable_id_is_sent_once(receiver: Receivers) -> None:
    server = of_url(f"{receiver.origin}/ok", "hook")
    server.rules["hook"]["metadata"]["annotations"] = {TEST_ANNOTATION: "a\u0007" * 40}
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: server.status().get("test"))
        for _ in range(3):
            writes = server.writes["hook"]
            service._see_rules([ObjectSet("vision/hook", read_rule(server.rules["hook"]))])
            await asyncio.sleep(0.1)
            assert server.writes["hook"] == writes


# Addresses


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("localhost", "localhost is refused: it is this machine"),
        (f"{'a' * 64}.lab.example", "has no address"),
        ("a..lab.example", "has no address"),
    ],
)
async def test_a_listed_name_without_a_usable_address_fails_with_a_sentence(
    receiver: Receivers, host: str, sentence: str
) -> None:
    server = of_url(f"https://{host}/s3cret", "hook")
    with capture_logs() as logs:
        async with leading(server, settings("localhost", "*.lab.example")) as service:
            await until(lambda: server.status().get("phase"))
            service.see_workloads(changes(running()))
            await until(lambda: [each for each in server.status()["messages"] if each.get("attempts")])
        (message,) = server.status()["messages"]
    assert sentence in message["error"]
    assert not [each for each in logs if each["event"] == "notification_failed"]
    assert "s3cret" not in f"{logs} {server.status()}"


async def test_no_secret_is_in_a_log_or_a_status(receiver: Receivers) -> None:
    paths = ("ok", "500", "400", "410", "301", "hanging")
    names = [f"of-{path}" for path in paths]
    server = RuleServer(
        *(rule(name, uid=uid(number), urlKey=name, digest="") for number, name in enumerate(names))
    )
    server.address("sign", SIGNING)
    for name, path in zip(names, paths, strict=True):
        server.address(name, f"{receiver.origin}/{path}?token=s3cret")
    with capture_logs() as logs:
        async with leading(server, settings(receiver.origin, timeout=0.5)) as service:
            await until(lambda: all(server.status(name).get("phase") for name in names))
            service.see_workloads(changes(running()))
            await until(
                lambda: all(
                    server.status(name)["deliveries"]
                    or [each for each in server.status(name)["messages"] if each.get("attempts")]
                    for name in names
                )
            )
    written = f"{logs} {server.rules}"
    assert "notification_not_delivered" in written
    for secret in ("s3cret", SIGNING, SIGNING.removeprefix("whsec_")):
        assert secret not in written


# Receivers and leaders


async def test_receivers_that_hang_keep_neither_the_loop_nor_other_rules_waiting(receiver: Receivers) -> None:
    """As many rules of a namespace hang as it may have, more than may be tried at once."""
    names = [f"hang-{number}" for number in range(MAX - 1)]
    server = of_url(f"{receiver.origin}/hanging", *names)
    server.rules["good"] = rule("good", uid=uid(999), urlKey="good")
    server.address("good", f"{receiver.origin}/ok")
    async with leading(server, settings(receiver.origin, timeout=0.5, retry_max=1)) as service:
        await until(lambda: all(server.status(name).get("phase") for name in server.rules))
        for turn in range(5):
            service.see_workloads(changes(running(f"job-{turn}")))
            await until(lambda: sum(each["size"] for each in server.status("good")["deliveries"]) > turn)  # noqa: B023
            async with asyncio.timeout(60):
                await asyncio.sleep(0)  # the loop goes on
        assert not receiver.of("/hanging")
    sizes = [len(msgspec.json.encode(server.status(name))) for name in names]
    assert max(sizes) < 300_000


async def test_a_message_is_not_tried_again_by_a_replica_that_leads_no_more(receiver: Receivers) -> None:
    server, leader = of_url(f"{receiver.origin}/500", "hook"), Leader()
    allowed = settings(receiver.origin, retry_first=4.0, retry_max=4.0)
    async with leading(server, allowed, leader=leader) as service:
        await until(lambda: server.status().get("phase"))
        service.see_workloads(changes(running()))
        await until(lambda: server.status()["messages"] and server.status()["messages"][0].get("attempts"))
        leader.leads = False  # between two attempts, with all changes written
        with capture_logs() as logs:
            await until(lambda: waits(logs))
    assert receiver.attempts == {"/500": 1}
    assert "lead any more" in waits(logs)[0]["why"]


async def test_a_leader_that_loses_the_lease_in_a_delivery_loses_and_doubles_nothing(
    receiver: Receivers,
) -> None:
    server, index, leader = of_url(f"{receiver.origin}/hanging", "hook"), WorkloadIndex(), Leader()
    async with leading(server, settings(receiver.origin), index, leader) as old:
        await until(lambda: server.status().get("phase"))
        old.see_workloads(changes(running()))
        await until(lambda: receiver.attempts["/hanging"])
        (message,) = server.status()["messages"]
        leader.leads = False
        receiver.released.set()
        async with leading(server, settings(receiver.origin), index):
            await until(lambda: server.status()["deliveries"])
        written = server.status()
    assert server.status() == written, "the old leader writes nothing more"
    confirmed = [each.key for each in receiver.of("/hanging")]
    assert set(confirmed) == {message["key"]}
    assert [each["key"] for each in server.status()["deliveries"]] == [message["key"]]
    assert server.status()["pending"] == 0

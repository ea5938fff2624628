"""Delivery in a leader's term: to real receivers, over the end of leaders, with a Secret that may be missing."""

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from tests.oidc.pool import Authority
from tests.unit.local.server.receivers import Receivers, receivers, settings

from weir.control.clock import Clock
from weir.kubernetes.api.changes import ObjectRemoved, ObjectSet
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.crd.notification_objects import TEST_ANNOTATION
from weir.kubernetes.notifications.notification_service import ClusterNotifications
from weir.kubernetes.query.workloads.index import WorkloadIndex
from weir.notifications.notification_settings import NotificationSettings

from .rules import NOW_S, RuleServer, changes, ended, read_rule, removal, rule, running

SIGNING = "whsec_" + b64encode(b"k" * 32).decode()


class Leader:
    """Leadership that a test takes away."""

    def __init__(self) -> None:
        self.term = 1
        self.leads = True

    def may_write(self) -> bool:
        return self.leads


@pytest.fixture
def receiver() -> Iterator[Receivers]:
    with receivers() as serving:
        yield serving


@pytest.fixture
def server(receiver: Receivers) -> RuleServer:
    found = RuleServer(rule())
    found.address("url", f"{receiver.origin}/ok")
    found.address("sign", SIGNING)
    return found


@asynccontextmanager
async def leading(
    server: RuleServer,
    allowed: NotificationSettings | None,
    index: WorkloadIndex | None = None,
    leader: Leader | None = None,
) -> AsyncIterator[ClusterNotifications]:
    """Lead for the length of a block."""
    clock = Clock(starts_s=NOW_S)
    api, of_account = cast("ApiClient", server), "weir-system:weir"
    service = ClusterNotifications(
        api, leader or Leader(), allowed, WorkloadIndex() if index is None else index, clock, of_account
    )
    service.lead()
    try:
        yield service
    finally:
        await service.stop()


async def until(true: Callable[[], Any], within_s: float = 120.0) -> None:
    async with asyncio.timeout(within_s):
        while not true():  # noqa: ASYNC110 - of an object in memory
            await asyncio.sleep(0.02)


async def test_an_event_is_delivered_signed_and_recorded(server: RuleServer, receiver: Receivers) -> None:
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: server.status().get("phase"))
        service.see_workloads(changes(running()))
        await until(lambda: server.status()["deliveries"])
    (received,) = receiver.of("/ok")
    (told,) = received.told
    assert (told["topic"], told["workload"], told["project"]) == ("start", "vision/train", "vision")
    signed = f"{received.key}.{received.headers['webhook-timestamp']}.".encode() + received.body
    digest = hmac.digest(b64decode(SIGNING.removeprefix("whsec_")), signed, hashlib.sha256)
    assert received.headers["webhook-signature"] == f"v1,{b64encode(digest).decode()}"
    status = server.status()
    assert (status["phase"], status["pending"], status["receiver"]) == ("Ready", 0, f"{receiver.origin}/…")
    assert status["deliveries"][0]["key"] == received.key


async def test_the_next_leader_tells_the_rest_and_nothing_twice(
    server: RuleServer, receiver: Receivers
) -> None:
    index = WorkloadIndex()
    index.deliver(changes(running("before")))
    async with leading(server, settings(receiver.origin), index):
        await until(lambda: server.status().get("deliveries"))
    index.deliver(changes(running("before"), running("between"), ended("gone-by")))
    async with leading(server, settings(receiver.origin), index):
        await until(lambda: sum(each["size"] for each in server.status()["deliveries"]) == 3)
    told = [each["workload"] for received in receiver.of("/ok") for each in received.told]
    assert sorted(told) == ["vision/before", "vision/between", "vision/gone-by"]


async def test_a_message_is_written_before_it_is_sent_and_keeps_its_key(
    server: RuleServer, receiver: Receivers
) -> None:
    server.address("url", f"{receiver.origin}/500")
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: server.status().get("phase"))
        service.see_workloads(changes(running()))
        await until(lambda: receiver.attempts["/500"] > 1 and server.status()["messages"][0].get("attempts"))
        key = server.status()["messages"][0]["key"]
    assert (server.status()["phase"], server.status()["message"]) == ("Failing", "the receiver answered 500")
    server.address("url", f"{receiver.origin}/ok")
    async with leading(server, settings(receiver.origin)):
        await until(lambda: server.status()["deliveries"])
    assert [each.key for each in receiver.of("/ok")] == [key]


async def test_nothing_is_sent_while_the_status_cant_be_written(
    server: RuleServer, receiver: Receivers
) -> None:
    leader = Leader()
    async with leading(server, settings(receiver.origin), leader=leader) as service:
        await until(lambda: server.status().get("phase"))
        leader.leads = False
        service.see_workloads(changes(running()))
        await asyncio.sleep(0.5)
        assert not receiver.attempts
    index = WorkloadIndex()
    index.deliver(changes(running()))
    async with leading(server, settings(receiver.origin), index):
        await until(lambda: server.status()["deliveries"])
    assert receiver.attempts == {"/ok": 1}


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (
            {"is_forbidden": True},
            "kubectl create rolebinding weir-notifications -n vision --clusterrole=weir-noti",
        ),
        ({"secret": None}, "there is no Secret weir-notifications in vision"),
        ({"secret": {}}, "has no key url"),
        ({"url": "https://hooks.example/T0/B0"}, "isn't allowed; the administrator allows"),
        ({"url": "http://169.254.169.254/latest"}, "isn't allowed; the administrator allows"),
        ({"url": "http://localhost:1/"}, "isn't allowed; the administrator allows"),
        ({"url": "https://kubernetes.default.svc/api/v1/secrets"}, "isn't allowed; the administrator allows"),
        ({"url": f"https://a.lab.example/{'T0' * 1000}"}, "is longer than 2000 characters"),
        ({"url": "T0" * 500_000}, "is longer than 2000 characters"),
        ({"sign": "whsec_%%%"}, "isn't base64"),
        ({"sign": "whsec_\u00e9"}, "isn't base64"),
        ({"sign": "whsec_"}, "has 0 bytes; write whsec_ and base64 of 24 to 64 random bytes"),
        ({"sign": "whsec_" + b64encode(b"k" * 23).decode()}, "has 23 bytes"),
        ({"sign": "whsec_" + b64encode(b"k" * 500_000).decode()}, "has 500000 bytes"),
    ],
)
async def test_a_receiver_that_cant_be_used_is_said_on_the_rule_with_the_way_to_fix_it(
    server: RuleServer, receiver: Receivers, prepare: dict[str, Any], sentence: str
) -> None:
    for name, value in prepare.items():
        if name in ("url", "sign"):
            server.address(name, value)
        else:
            setattr(server, name, value)
    async with leading(server, settings(receiver.origin)):
        await until(lambda: server.status().get("phase"))
    assert server.status()["phase"] == "Refused"
    assert sentence in server.status()["message"]
    assert len(server.status()["message"]) < 1000
    assert "T0" not in str(server.status()), "no secret part of a URL"


@pytest.mark.parametrize(
    ("text", "why"), [(None, "No such file or directory"), ("no authority", "write authorities in PEM")]
)
async def test_a_wrong_file_of_authorities_is_said_on_the_rule_and_can_be_corrected(
    server: RuleServer, receiver: Receivers, tmp_path: Path, text: str | None, why: str
) -> None:
    ca_file = tmp_path / "ca.pem"
    if text is not None:
        ca_file.write_text(text)
    allowed = settings(receiver.origin)
    webhooks = allowed.webhooks.model_copy(update={"ca_file": str(ca_file)})
    with capture_logs() as logs:
        async with leading(server, allowed.model_copy(update={"webhooks": webhooks})) as service:
            await until(lambda: server.status().get("phase"))
            service.see_workloads(changes(running()))
            await until(lambda: server.status()["phase"] == "Failing")
            assert server.status()["message"].startswith(f"ca_file {ca_file} can't be used: ")
            assert why in server.status()["message"]
            assert service.trouble == ""
            ca_file.write_text(Authority(tmp_path).file.read_text())
            await until(lambda: receiver.of("/ok"))
    (warning,) = (each for each in logs if each["event"] == "notification_settings_unusable")
    assert str(ca_file) in warning["why"]


async def test_without_settings_each_rule_says_that_nothing_is_set_up(server: RuleServer) -> None:
    async with leading(server, None):
        await until(lambda: server.status().get("phase"))
    assert "notifications.secret of the Helm chart" in server.status()["message"]


async def test_mail_needs_the_administrators_server_and_domain(
    server: RuleServer, receiver: Receivers
) -> None:
    server.rules["hook"] = rule(channel="mail", address="mia@lab.example", urlKey=None, signingSecretKey=None)
    async with leading(server, settings(receiver.origin)):
        await until(lambda: server.status().get("phase"))
    assert server.status()["message"] == "the administrator has not set up mail"
    mail = {"host": "127.0.0.1", "security": "none", "from": "weir@lab.example", "domains": ["other.example"]}
    server.rules["hook"]["status"] = {}
    async with leading(server, settings(mail=mail)):
        await until(lambda: server.status().get("phase"))
    assert "the administrator allows other.example" in server.status()["message"]


async def test_a_test_message_is_sent_on_request_and_once(server: RuleServer, receiver: Receivers) -> None:
    requested = rule()
    requested["metadata"]["annotations"] = {TEST_ANNOTATION: "t1"}
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: server.status().get("phase"))
        service._see_rules([ObjectSet("vision/hook", read_rule(requested))])
        service._see_rules([ObjectSet("vision/hook", read_rule(requested))])
        await until(lambda: server.status().get("test"))
        service._see_rules([ObjectSet("vision/hook", read_rule(requested))])
        await asyncio.sleep(0.2)
    assert server.status()["test"] == {"id": "t1", "delivered": True, "sentence": "the receiver answered 204"}
    (received,) = receiver.of("/ok")
    assert received.told[0]["sentence"] == "This is a test of notification vision/hook."


async def test_the_deletion_of_a_live_workload_is_its_end_and_other_namespaces_count_for_nothing(
    server: RuleServer, receiver: Receivers
) -> None:
    elsewhere = running("theirs")
    elsewhere.metadata.namespace = "speech"
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: server.status().get("phase"))
        service.see_workloads([ObjectSet("speech/theirs", elsewhere)])
        service.see_workloads(changes(running(), running("done"), ended("done")))
        service.see_workloads(removal("train") + removal("done"))
        await until(lambda: sum(each["size"] for each in server.status().get("deliveries", [])) == 4)
    told = sorted(each["sentence"] for received in receiver.of("/ok") for each in received.told)
    assert told == [
        "vision/done starts on n1.",
        "vision/done succeeded.",
        "vision/train starts on n1.",
        "vision/train was deleted.",
    ]


async def test_a_removed_rule_sends_no_more(server: RuleServer, receiver: Receivers) -> None:
    async with leading(server, settings(receiver.origin)) as service:
        await until(lambda: server.status().get("phase"))
        service._see_rules([ObjectRemoved("vision/hook", server.rules["hook"]["metadata"]["uid"])])
        service.see_workloads(changes(running()))
        await asyncio.sleep(0.3)
    assert not receiver.attempts

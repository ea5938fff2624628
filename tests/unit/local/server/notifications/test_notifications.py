"""Rules of notifications: who may have them, what they match, and that no secret is shown."""

import base64
import hashlib
import hmac
import json
import stat
import time
from datetime import datetime
from pathlib import Path

import pytest
from tests.unit.local.server.in_process_server import Standing, standing
from tests.unit.local.server.receivers import Receivers, receivers, settings
from tests.unit.local.server.submissions.test_project_secrets import content
from tests.unit.store.fixtures import NOW_S

from weir.model.notifications import Notification, OutboxMessage
from weir.notifications.message_texts import slack_body, subject
from weir.notifications.notification_settings import NotificationSettings
from weir.notifications.quiet_hours import quiet_for_s
from weir.store.records import HistoryEvent

PATH = "/api/v1/notifications"
MAIL = {
    "host": "127.0.0.1",
    "port": 9,
    "security": "none",
    "from": "weir@lab.example",
    "domains": ["lab.example"],
}


@pytest.fixture
def hooks() -> Receivers:
    with receivers() as found:
        yield found


@pytest.fixture
async def stands(tmp_path: Path, hooks: Receivers) -> Standing:
    async with standing(tmp_path / "home", notifications=settings(hooks.origin, mail=MAIL)) as found:
        yield found


async def test_a_person_hears_of_their_own_work_with_a_signature_that_fits(
    stands: Standing, hooks: Receivers
) -> None:
    mia, ann = await stands.member("default"), await stands.member("default", user="ann")
    body = {"channel": "webhook", "target": f"{hooks.origin}/ok", "on": ["failure", "start"]}
    made = await mia.post(PATH, json=body)
    assert made.status_code == 201, made.text
    job = {"project": "default", "command": ["sh", "-c", "exit 3"], "retries": 0, "pods": [{"gpus": 1}]}
    for who, name in ((ann, "others"), (mia, "mine")):
        assert (await who.post("/api/v1/workloads", json={**job, "name": name})).status_code == 201
        await stands.until(name, "failed")
    await stands.until_true(
        lambda _: any(each["topic"] == "failure" for request in hooks.confirmed for each in request.told),
        "notifications/deliveries",
    )
    told = [each for request in hooks.confirmed for each in request.told]
    assert {each["workload"] for each in told} == {"mine"}
    assert [each["topic"] for each in told] == ["start", "failure"]
    request = hooks.confirmed[0]
    secret = base64.b64decode(made.json()["secret"].removeprefix("whsec_"))
    signed = f"{request.key}.{request.headers['webhook-timestamp']}.".encode() + request.body
    fits = base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
    assert request.headers["webhook-signature"] == f"v1,{fits}"


async def test_rules_of_a_project_are_its_leads(stands: Standing, hooks: Receivers) -> None:
    await stands.project("vision", 2)
    member = await stands.member("vision", user="ann")
    lead = await stands.member("vision", user="lea", role="lead")
    other = await stands.member("default", user="otto", role="lead")
    body = {"channel": "slack", "target": f"{hooks.origin}/ok", "on": ["start"], "project": "vision"}
    assert (await member.post(PATH, json=body)).status_code == 403
    assert (await other.post(PATH, json=body)).status_code == 403
    assert (await lead.post(PATH, json={**body, "project": "none"})).status_code == 404
    made = (await lead.post(PATH, json=body)).json()
    assert made["secret"] is None
    for who in (member, other):
        assert (await who.get(PATH)).json()["items"] == []
        assert (await who.get(f"{PATH}/deliveries")).json()["items"] == []
        assert (await who.post(f"{PATH}/{made['id']}/test")).status_code == 404
        assert (await who.delete(f"{PATH}/{made['id']}")).status_code == 404
    await stands.submit("true", project="vision", name="seen")
    await stands.submit("true", project="default", name="unseen")
    for name in ("seen", "unseen"):
        await stands.until(name, "succeeded")
    assert b"seen starts on" in hooks.until(1)[0].body
    assert b"unseen" not in b"".join(each.body for each in hooks.confirmed)
    assert (await lead.delete(f"{PATH}/{made['id']}")).status_code == 204
    assert (await lead.get(PATH)).json()["items"] == []


async def test_a_deleted_project_leaves_no_rule_to_one_of_its_name(
    stands: Standing, hooks: Receivers
) -> None:
    await stands.project("vision", 2)
    body = {"channel": "slack", "target": f"{hooks.origin}/ok", "on": ["start"], "project": "vision"}
    assert (await stands.admin.post(PATH, json=body)).status_code == 201
    assert (await stands.admin.delete("/api/v1/projects/vision")).status_code == 200
    await stands.project("vision", 2)
    assert (await stands.get("notifications"))["items"] == []


async def test_the_address_of_a_webhook_is_in_one_file_alone(stands: Standing, hooks: Receivers) -> None:
    secret = "T0KEN-of-the-webhook"
    body = {"channel": "webhook", "target": f"{hooks.origin}/{secret}?key={secret}", "on": ["start"]}
    made = await stands.admin.post(PATH, json=body)
    tested = await stands.admin.post(f"{PATH}/{made.json()['id']}/test")
    assert tested.json()["delivered"]
    refused = await stands.admin.post(PATH, json={**body, "target": f"https://elsewhere.example/{secret}"})
    assert refused.status_code == 422
    answers = [
        await stands.admin.get(each)
        for each in (PATH, f"{PATH}/deliveries", "/api/v1/events", "/api/v1/audit")
    ]
    assert all(secret not in answer.text for answer in (made, refused, *answers))
    key = made.json()["secret"]
    files = [
        file
        for file in stands.pool.home.rglob("*")
        if {secret.encode(), key.encode()} & set_in(file, secret, key)
    ]
    assert [file.relative_to(stands.pool.home) for file in files] == [Path("notifications/receivers.json")]
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700
    assert (await stands.admin.delete(f"{PATH}/{made.json()['id']}")).status_code == 204
    assert secret.encode() not in content(files[0])


def set_in(file: Path, *words: str) -> set[bytes]:
    """Return those of these words that a file contains."""
    text = content(file)
    return {word.encode() for word in words if word.encode() in text}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"channel": "mail", "target": "mia@evil.example"}, "the administrator allows lab.example"),
        ({"channel": "mail", "target": "mia@lab.example\nBcc: x@evil.example"}, "is no mail address"),
        ({"channel": "mail", "target": "mia@lab.example, eve@evil.example"}, "is no mail address"),
        ({"channel": "mail", "target": "=?utf-8?q?x=40evil.example=2C?=@lab.example"}, "is no mail address"),
        ({"channel": "mail", "target": "=?utf-8?q?a=0D=0ABcc=3Ax?=@lab.example"}, "is no mail address"),
        ({"channel": "slack", "target": "https://evil.example/x"}, "isn't allowed; the administrator allows http://127"),
        ({"channel": "slack", "target": "file:///etc/passwd"}, "is no URL of a webhook"),
        ({"channel": "slack", "target": "https://a@127.0.0.1/"}, "is no URL of a webhook"),
        ({"channel": "webhook", "target": "http://127.0.0.1:1/"}, "isn't allowed"),
        ({"channel": "webhook", "target": "http://[::1"}, "is no URL"),
        ({"channel": "desktop", "target": "x"}, "a desktop has none; leave it out"),
        ({"channel": "desktop", "project": "default"}, "a desktop is a person's"),
        ({"channel": "mail", "target": "m@lab.example", "quiet": "22-7"}, "write a beginning and an end"),
        ({"channel": "mail", "target": "m@lab.example", "on": ["ends"]}, "on"),
        ({"channel": "mail", "target": "m@lab.example", "on": []}, "on"),
        ({"channel": "pager", "target": "m@lab.example"}, "channel"),
    ],
)  # fmt: skip
async def test_what_is_not_allowed_is_refused(
    stands: Standing, body: dict[str, object], sentence: str
) -> None:
    answer = await stands.admin.post(PATH, json={"on": ["end"], **body})
    assert answer.status_code == 422, answer.text
    assert sentence in answer.text
    assert (await stands.get("notifications"))["items"] == []


async def test_a_person_has_a_limited_number_of_rules(tmp_path: Path) -> None:
    async with standing(tmp_path / "home", notifications=settings(mail=MAIL, rules_per_person=2)) as stands:
        mia = await stands.member("default")
        body = {"channel": "mail", "target": "mia@lab.example", "on": ["end"]}
        statuses = [(await mia.post(PATH, json=body)).status_code for _ in range(3)]
        assert statuses == [201, 201, 409]
        assert (await stands.admin.post(PATH, json=body)).status_code == 201


async def test_without_settings_there_is_no_way_out_of_the_pool(tmp_path: Path) -> None:
    async with standing(tmp_path / "home", notifications=NotificationSettings()) as stands:
        mail = await stands.admin.post(
            PATH, json={"channel": "mail", "target": "mia@lab.example", "on": ["end"]}
        )
        hook = await stands.admin.post(
            PATH, json={"channel": "slack", "target": "https://hooks.slack.com/x", "on": ["end"]}
        )
        assert (mail.status_code, hook.status_code) == (422, 422)
        assert "this pool sends no mail" in mail.text
        assert "no webhooks are allowed" in hook.text


async def test_the_desktop_gets_each_message_until_it_confirms(stands: Standing) -> None:
    mia, eve = await stands.member("default"), await stands.member("default", user="eve")
    assert (await mia.post(PATH, json={"channel": "desktop", "on": ["end"]})).status_code == 201
    job = {"project": "default", "command": ["true"], "name": "short", "pods": [{"gpus": 1}]}
    assert (await mia.post("/api/v1/workloads", json=job)).status_code == 201
    await stands.until("short", "succeeded")
    first = (await mia.get(f"{PATH}/desktop")).json()["items"]
    assert (await mia.get(f"{PATH}/desktop")).json()["items"] == first
    assert "short succeeded" in first[0]["text"]
    assert (await eve.get(f"{PATH}/desktop")).json()["items"] == []
    confirm = f"{PATH}/desktop/{first[0]['id']}/confirm"
    assert (await eve.post(confirm)).status_code == 404
    assert [(await mia.post(confirm)).status_code for _ in range(2)] == [204, 204]
    assert (await mia.get(f"{PATH}/desktop")).json()["items"] == []


async def test_people_are_notified_of_maintenance(stands: Standing, hooks: Receivers) -> None:
    mia = await stands.member("default")
    body = {"channel": "slack", "target": f"{hooks.origin}/ok", "on": ["maintenance"]}
    assert (await mia.post(PATH, json=body)).status_code == 201
    node = stands.pool.node.name
    drained = await stands.admin.post(f"/api/v1/nodes/{node}/drain", json={"reason": "new fans"})
    assert drained.status_code == 200, drained.text
    assert b"new fans" in hooks.until(1)[0].body


def message(*sentences: str) -> OutboxMessage:
    told = tuple(Notification(NOW_S, "end", "ended", each, workload="job") for each in sentences)
    return OutboxMessage(1, "msg_1", 1, NOW_S, len(told), "pending", 0, NOW_S, None, "", told)


def test_words_of_jobs_mean_nothing_to_a_chat() -> None:
    body = slack_body(message("Pod <!channel> @all & <https://evil.example|click> failed"), lambda at_s: at_s)
    text = json.loads(body)["text"]
    assert "<" not in text
    assert "@all" not in text
    assert "&lt;!channel&gt;" in text


def test_a_subject_is_one_line() -> None:
    assert "\n" not in subject(message("a\r\nBcc: eve@evil.example"))
    assert subject(message("a ended.", "a ended.")) == "[weir] 2 notifications: job"


def test_a_long_message_names_how_many_more_there_are() -> None:
    text = json.loads(slack_body(message(*["x"] * 80), lambda at_s: at_s))["text"]
    assert text.count("\n") == 50
    assert "and 30 more" in text


@pytest.mark.parametrize(
    ("quiet", "hour", "hours"),
    [
        ("22:00-07:00", 23, 8),
        ("22:00-07:00", 6, 1),
        ("22:00-07:00", 12, 0),
        ("12:00-13:00", 12, 1),
        ("", 3, 0),
    ],
)
def test_quiet_hours_end_in_the_morning(quiet: str, hour: int, hours: float) -> None:
    now = datetime(2026, 11, 23, hour).astimezone().timestamp()
    assert quiet_for_s(quiet, now) == hours * 3600


async def test_events_without_a_topic_tell_no_one(stands: Standing, hooks: Receivers) -> None:
    body = {"channel": "webhook", "target": f"{hooks.origin}/ok", "on": ["warning"], "project": "default"}
    assert (await stands.admin.post(PATH, json=body)).status_code == 201
    stands.pool.store.events.record(
        [
            HistoryEvent(NOW_S, "unknown", "Something.", project="default"),
            HistoryEvent(NOW_S, "disk_warning", "The disk fills up.", project="default"),
        ]
    )
    assert [each["sentence"] for each in hooks.until(1)[0].told] == ["The disk fills up."]


async def test_an_eviction_is_a_line_in_the_output_of_the_job(stands: Standing) -> None:
    stays = "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done"
    await stands.submit("sh", "-c", stays, name="low", gpus=4, preemptible=True, priority=10)
    await stands.until("low", "running")
    await stands.submit("sleep", "600", name="high", gpus=4, priority=90)
    await stands.until("high", "running")
    line = "weir: low is stopped for high (preemption)"
    await stands.until_log("low/logs?start=1", lambda text: line in text)


def test_quiet_hours_end_by_the_clock_when_summer_time_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    try:
        late_s = datetime.fromisoformat("2026-10-24T23:00+02:00").timestamp()  # the clock is set back then
        assert quiet_for_s("22:00-07:00", late_s) == 9 * 3600
    finally:
        monkeypatch.undo()
        time.tzset()

"""`weir notify` on a cluster: a rule and a Secret of the person's own, and no secret anywhere else."""

import base64
import json
from pathlib import Path

import pytest
from tests.unit.cli.cluster.fake_cluster import FakeCluster

from weir.cli.cluster import notification_requests
from weir.cli.main import main

URL = "https://hooks.slack.com/services/T0/secret"
RULES = "/apis/weir.dev/v1alpha1/namespaces/vision/notificationrules"
SECRETS = "/api/v1/namespaces/vision/secrets"
SECRET = f"{SECRETS}/weir-notifications"


@pytest.fixture(autouse=True)
def site(fake_cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notification_requests, "CHECKED_S", 0.0)
    project = {"metadata": {"name": "vision"}, "spec": {"namespaces": ["vision"]}}
    fake_cluster.add("/apis/weir.dev/v1alpha1/projects/vision", project)
    (tmp_path / "url").write_text(f"{URL}\n")


def notify(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["notify", *words])
    answer = capsys.readouterr()
    assert URL not in answer.out + answer.err
    return code, answer.out, answer.err


def add(capsys: pytest.CaptureFixture[str], tmp_path: Path, *words: str) -> tuple[int, str, str]:
    return notify(capsys, "add", *words, "-p", "vision", "--file", str(tmp_path / "url"))


def test_a_webhook_is_a_rule_and_two_keys_of_the_secret(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = add(
        capsys, tmp_path, "webhook", "--on", "failure", "--digest", "1h", "--quiet", "22:00-07:00"
    )
    assert code == 0, err
    name = out.partition(":")[0].removeprefix("Notification vision/")
    rule, secret = (
        fake_cluster.objects[f"{RULES}/{name}"],
        [each for each in fake_cluster.written if each[1] == SECRET],
    )
    assert rule["spec"] == {
        "channel": "webhook",
        "topics": ["failure"],
        "project": "vision",
        "quiet": "22:00-07:00",
        "digest": "3600s",
        "urlKey": f"{name}.url",
        "signingSecretKey": f"{name}.signing-secret",
    }
    data = {key: base64.b64decode(value).decode() for key, value in secret[0][2]["data"].items()}
    assert data[f"{name}.url"] == URL
    assert data[f"{name}.signing-secret"] in out, "it is shown once"
    assert "secret" not in str(rule).replace("signing-secret", "").replace("signingSecretKey", "")
    assert notify(capsys, "delete", f"vision/{name}")[0] == 0
    assert f"{RULES}/{name}" not in fake_cluster.objects
    assert fake_cluster.written[-1][2] == {"data": {f"{name}.url": None, f"{name}.signing-secret": None}}


def test_a_refused_rule_leaves_no_address_behind(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fake_cluster.refused = lambda method, path, _: (
        (403, "no notificationrules for you") if path == RULES else None
    )
    code, _, err = add(capsys, tmp_path, "slack")
    assert (code, "No notificationrules for you." in err) == (2, True), err
    assert list(fake_cluster.written[-1][2]["data"].values()) == [None]


def test_a_person_without_a_right_to_secrets_makes_no_rule(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fake_cluster.refused = lambda _, path, __: (
        (403, "no secrets for you") if path.startswith(SECRETS) else None
    )
    code, _, err = add(capsys, tmp_path, "slack")
    assert (code, "No secrets for you." in err, fake_cluster.written) == (2, True, []), err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("desktop",), "kubectl get events --watch"),
        (
            ("mail", "mia@lab.example", "--on", "maintenance"),
            "a cluster doesn't tell of maintenance; write one of start, end",
        ),
    ],
)
def test_what_a_cluster_cant_send_is_refused(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    code, _, err = notify(capsys, "add", *words, "-p", "vision")
    assert (code, fake_cluster.written) == (2, [])
    assert sentence in " ".join(err.split())


def test_lists_show_the_state_of_each_rule(
    fake_cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    delivery = {
        "key": "msg_0123456789abcdef01234567", "state": "delivered", "madeAt": "2026-01-31T12:00:00Z",
        "doneAt": "2026-01-31T12:00:01Z", "attempts": 1, "size": 2, "about": "vision/job-a failed.",
    }  # fmt: skip
    message = {
        "key": "msg_1123456789abcdef01234567", "madeAt": "2026-01-31T12:05:00Z", "dueAt": "2026-01-31T12:06:00Z",
        "attempts": 3, "error": "the receiver answered 503", "notifications": [],
    }  # fmt: skip
    status = {
        "phase": "Failing", "message": "the receiver answered 503", "receiver": "https://hooks.slack.com/…",
        "pending": 4, "deliveries": [delivery], "messages": [message],
    }  # fmt: skip
    metadata = {"name": "chat", "namespace": "vision", "uid": "0f5b1c4e-7f7e-4f7e-9a43-0d1a3c5e7f9b"}
    spec = {"channel": "slack", "topics": ["failure"], "urlKey": "chat", "user": "mia"}
    fake_cluster.add(
        "/apis/weir.dev/v1alpha1/notificationrules/chat",
        {"metadata": metadata, "spec": spec, "status": status},
    )
    fake_cluster.refused = lambda *_: None
    code, out, _ = notify(capsys, "list", "-o", "json")
    assert code == 0
    for part in ('"vision/chat"', '"the receiver answered 503"', '"mia"', "https://hooks.slack.com/"):
        assert part in out
    code, out, _ = notify(capsys, "deliveries", "-o", "json")
    assert [(each["name"], each["state"], each["size"]) for each in json.loads(out)] == [
        ("vision/chat", "pending", 0),
        ("vision/chat", "delivered", 2),
    ]
    code, out, err = notify(capsys, "deliveries", "--failed")
    assert (code, out, err) == (0, "", "No message failed.\n"), "a note isn't an answer"
    code, out, _ = notify(capsys, "deliveries", "--failed", "-o", "json")
    assert (code, out) == (0, "[]\n")

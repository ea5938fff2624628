"""`weir notify`: the address of a webhook stays out of the command line, and the desktop confirms what it shows."""

import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.client.fake import Fake, page

from weir.cli.access import notify
from weir.cli.main import main

URL = "https://hooks.slack.com/services/T0/secret"
ROW = {
    "id": 7, "channel": "slack", "target": "https://hooks.slack.com/…", "on": ["failure"], "user": "mia",
    "created_s": 1_000_000.0, "pending": 3, "trouble": "the receiver answered 503",
}  # fmt: skip


def test_the_address_of_a_webhook_is_read_from_the_input_or_a_file(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("POST", "/notifications", {**ROW, "secret": None})
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{URL}\n"))
    assert main(["notify", "add", "slack", "--on", "failure", "-p", "vision", "--digest", "1h"]) == 0
    (tmp_path / "url").write_text(f"{URL}\n")
    assert main(["notify", "add", "slack", "--file", str(tmp_path / "url")]) == 0
    assert [each.body["target"] for each in fake.asked] == [URL, URL]
    assert fake.asked[0].body["project"] == "vision"
    assert fake.asked[0].body["digest"] == "1h"
    assert fake.asked[1].body["on"] == ["end", "eviction", "warning"]
    assert main(["notify", "add", "webhook", URL]) == 2  # other users could see it
    answer = capsys.readouterr()
    assert URL not in answer.out + answer.err
    assert len(fake.asked) == 2


def test_the_secret_of_a_webhook_is_shown_once(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    fake.on("POST", "/notifications", {**ROW, "channel": "webhook", "secret": "whsec_x"})
    monkeypatch.setattr("sys.stdin", io.StringIO(URL))
    assert main(["notify", "add", "webhook"]) == 0
    assert "whsec_x" in capsys.readouterr().out


def test_the_list_says_what_is_pending_and_why(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("GET", "/notifications", page(ROW))
    assert main(["notify", "list"]) == 0
    out = capsys.readouterr().out
    assert "The receiver answered 503." in out
    assert "   3  " in out


def test_a_test_that_fails_is_a_failure(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("POST", "/notifications/7/test", {"delivered": False, "sentence": "the receiver answered 404"})
    assert main(["notify", "test", "7"]) == 1
    assert capsys.readouterr().out == "Not delivered: the receiver answered 404.\n"


def test_failed_messages_are_listed(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "id": 1, "key": "msg_1", "rule": 7, "channel": "slack", "target": "x", "state": "failed", "attempts": 9,
        "made_s": 1.0, "size": 3, "about": "a failed.", "error": "the receiver answered 404",
    }  # fmt: skip
    fake.on("GET", "/notifications/deliveries", page(row))
    assert main(["notify", "deliveries", "--failed"]) == 0
    assert fake.asked[0].query["state"] == "failed"
    assert "a failed. and 2 more" in capsys.readouterr().out


def test_the_desktop_shows_each_message_and_confirms_it(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/notifications", page({**ROW, "channel": "desktop"}))
    row = {"id": 5, "key": "msg_5", "subject": "[weir] --a ended", "text": "a <b>ended</b>"}
    fake.on("GET", "/notifications/desktop", page(row))
    fake.on("POST", "/notifications/desktop/5/confirm", None)
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/shown\n')
    program.chmod(0o755)

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(notify, "time", SimpleNamespace(sleep=interrupted))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SystemExit):
        main(["notify", "watch"])
    shown = (tmp_path / "shown").read_text().splitlines()
    assert shown == ["--app-name=weir", "--", "[weir] --a ended", "a &lt;b>ended&lt;/b>"]
    assert fake.asked[-1].path == "/notifications/desktop/5/confirm"
    program.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(SystemExit):
        main(["notify", "watch"])
    assert "a <b>ended</b>" in capsys.readouterr().out

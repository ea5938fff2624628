"""`weir schedule add` with a template."""

from typing import Any

import pytest
from tests.unit.client.fake import Fake, page, queue

from weir.cli.main import main

ROW = {
    "name": "nightly",
    "project": "a",
    "user": "mia",
    "cron": "0 2 * * *",
    "zone": "UTC",
    "concurrency": "allow",
    "suspended": False,
    "next_s": None,
}
ADD = ["schedule", "add", "--name", "nightly", "--cron", "0 2 * * *", "-p", "a"]


def set_schedule(fake: Fake, *words: str) -> Any:
    """Return the workload that is sent."""
    fake.on("GET", "/schedules", page())
    fake.on("PUT", "/schedules/nightly", ROW)
    assert main([*ADD, "--no-inherit", *words]) == 0
    return next(each.body["workload"] for each in fake.asked if each.method == "PUT")


def test_options_override_the_fields_of_the_template(fake: Fake) -> None:
    template = {
        "name": "train",
        "project": "a",
        "command": ["python", "train.py", "0.1"],
        "gpus": 1,
        "env": {"A": "1", "B": "1"},
        "directory": "/data",
    }
    fake.on("POST", "/projects/a/templates/train/fill", {"workload": template})
    sent = set_schedule(fake, "--template", "train", "--set", "lr=0.1", "--gpus", "2", "--env", "B=2")
    assert fake.asked[0].body == {"values": {"lr": "0.1"}}
    assert sent == {
        "project": "a",
        "command": ["python", "train.py", "0.1"],
        "directory": "/data",
        "env": {"A": "1", "B": "2"},
        "pods": [{"gpus": "2"}],
    }


def test_command_overrides_that_of_the_template(fake: Fake) -> None:
    template = {"project": "a", "command": ["python", "train.py"]}
    fake.on("POST", "/projects/a/templates/train/fill", {"workload": template})
    assert set_schedule(fake, "--template", "train", "--", "true")["command"] == ["true"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--set", "lr=1", "--", "true"], "--set: there is no template to set it in; write --template NAME"),
        (["--template", "t", "--set", "lr"], "--set lr: has no name and value; write NAME=VALUE"),
        ([], "no command is named: write it after --"),
    ],
)
def test_unusable_options_are_refused(
    words: list[str], sentence: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*ADD, *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not [asked for asked in fake.asked if asked.method == "PUT"]


def test_schedules_of_projects_are_listed(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {**ROW, "name": name, "project": project} for name, project in (("x", "a"), ("y", "b"), ("z", "c"))
    ]
    fake.on("GET", "/schedules", page(*rows))
    fake.on("GET", "/projects", page(queue("a"), queue("b"), queue("c")))
    assert main(["schedule", "list", "-p", "a,c"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["x", "z"]
    assert main(["schedule", "list", "-p", "d"]) == 2
    assert "there is no project d" in capsys.readouterr().err


def test_replaced_schedule_is_named(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    set_schedule(fake, "--", "true")
    assert capsys.readouterr().out == "nightly runs at 0 2 * * * (UTC).\n"
    fake.on("GET", "/schedules", page(ROW))
    assert main([*ADD, "--", "true"]) == 0
    assert capsys.readouterr().out.endswith("\nIt replaces the former schedule nightly.\n")


LISTED = """\
NAME     PROJECT  USER  CRON       ZONE  CONCURRENCY  RUNS NOW      NEXT       LAST  COMMAND
nightly  a        mia   0 2 * * *  UTC   allow        nightly-0200  suspended  -     python train.py
"""


def test_list_names_the_runs_and_the_command(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    more = {"suspended": True, "active": ["nightly-0200"], "command": ["python", "train.py"]}
    fake.on("GET", "/schedules", page({**ROW, **more}))
    assert main(["schedule", "list"]) == 0
    assert capsys.readouterr().out == LISTED


def test_run_prints_the_name_of_the_workload(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("POST", "/schedules/nightly/run", {**ROW, "last": "nightly-261201-020130"})
    assert main(["schedule", "run", "nightly"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "nightly-261201-020130\n"
    assert printed.err == "queued in a by schedule nightly\n"


def test_show_has_all_settings(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    row = {**ROW, "suspended": True, "last": "nightly-1", "last_s": 1_000_000.0, "command": ["echo", "a b"]}
    fake.on("GET", "/schedules/nightly", {**row, "active": ["nightly-1"], "said": "It began late."})
    assert main(["schedule", "show", "nightly"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    found = {words[0]: words[1] for words in lines}
    assert found["Schedule"] == "nightly in a"
    assert found["Times"] == "0 2 * * * (UTC)"
    assert found["Command"] == "echo 'a b'"
    assert found["Said"] == "It began late."
    assert found["Next"].split()[-1] == "suspended"
    assert found["Last"].endswith(": nightly-1")
    assert main(["schedule", "show", "nightly", "-o", "json"]) == 0
    assert '"cron": "0 2 * * *"' in capsys.readouterr().out

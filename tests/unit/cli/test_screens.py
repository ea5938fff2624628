"""The screens people look at, as they are: at 80 columns, at 120, and where the output is no terminal."""

import json

import pytest
import yaml
from tests.unit.cli.samples import DETAIL, ROWS, STATUS, USAGE, fill
from tests.unit.client.fake import Fake, Said, page, problem, queue, row

from weir.api.answers import WorkloadDetail
from weir.cli.main import main
from weir.cli.terminal import Screen
from weir.cli.why import as_command
from weir.cli.workloads import COLUMNS, description

LIST_80 = """\
NAME              PROJECT  USER   STATUS   GPUS    AGE  WHY
notebook          speech   grace  running   0.5  1m15s
train-4k2p        vision   ada    running     2   1d1h
resnet50…-seed42  vision   ada    pending     8  2h20m  No node has 2 free GPUs…
eval              vision   ada    failed      2     1h  It ended with exit code…
"""
LIST_120 = """\
NAME                      PROJECT  USER   TYPE   STATUS   GPUS  PODS    AGE    RAN  WHY
notebook                  speech   grace  build  running   0.5   1/1  1m15s     1m
train-4k2p                vision   ada    train  running     2   1/1   1d1h  1h30m
resnet50-ima…line-seed42  vision   ada    train  pending     8   0/4  2h20m      -  No node has 2 free GPUs: 3 have 1,…
eval                      vision   ada    train  failed      2   0/1     1h  1m40s  It ended with exit code 3.
"""
DESCRIBE = """\
train-4k2p  running for 1h

  Project      vision, submitted by ada
  Asks for     1 pod, 2 GPUs, 4 cores and 64Gi memory
  Type         train, priority 50, preemptible
  Submitted    1970-01-11 13:46:40, 1d1h ago
  Started      1970-01-12 13:46:40, 1h ago
  Ran          1h30m of at most 1d, restarted once
  Saved        step 1,200, 3m ago
  Reported     loss 0.231
  Command      python train.py --lr '0.1 0.2'
  Directory    /home/ada
  Environment  1 variable: --output wide shows them

POD       STATUS   NODE  DEVICES  SINCE  START
worker/0  running  box   0,1         1h      2

TIME          WHAT HAPPENED
Jan 11 13:46  ada submitted train-4k2p to project vision.
13:46:40      Starts on box, devices 0, 1.
"""
WHY = """\
train-4k2p waits in vision, 2nd of 5.

  No node has 2 free GPUs: 3 have 1, and 5 have none.

  QUEUE     QUOTA  SHARE  ALLOCATED  LIMIT  RUNNING  PENDING
  vision        4      4          2      6        1        2
  research      8      8        7.5   none        1        2

What would let it start
  - With 1 device instead of 2 it starts now.
    weir submit --gpus 1 ...
  - When notebook ends, at about 15:10, it starts.
  - If it is resumed, it starts now.
    weir resume train-4k2p
"""
EVENTS = """\
TIME          WORKLOAD    WHAT HAPPENED
Jan 11 13:46  train-4k2p  ada submitted train-4k2p to project vision.
13:46:40      train-4k2p  Starts on box, devices 0, 1.
"""
TOP = """\
1.75 of 3 GPUs held, 2 running, 1 pending

PROJECT  HOLDS  QUOTA                        RUNNING  PENDING
speech     0.5      4  ███·················        1        0
vision       2      4  █████████████·······        1        2

GPU    MODEL   HELD   USE         MEMORY  WORKLOADS
box/0  H200   whole  97 %  61Gi of 150Gi  train-4k2p
box/1  H200    75 %   1 %   3Gi of 150Gi  notebook, eval
box/2  H200    free   0 %     0 of 150Gi
"""
NODES = """\
NODE  GPUS HELD  MODEL   USE   CPU HELD    MEMORY HELD  PODS
box   1.75 of 3  H200   33 %  9.5 of 64  20Gi of 512Gi     3
"""
PROJECTS = """\
PROJECT  DEPARTMENT  QUOTA  ALLOCATED  SHARE  LIMIT  WEIGHT  RUNNING  PENDING
vision   research        4          2      4   none       1        1        2
speech   research        4        0.5      4   none       1        1        0
"""
REPORT = """\
1970-01-05 14:46:40 to 1970-01-12 14:46:40

PROJECT  GPU HOURS  USED  IDLE HOURS  OVER QUOTA  WAITED  WORKLOADS  PREEMPTED
vision       100.0  75 %        10.0        50 %   1h30m         12          3
speech         1.0     -           -         0 %      0s          1          0
"""
TOKENS = """\
ID  USER  ROLE    PROJECTS        LABEL   MADE                 EXPIRES  USED
 3  ada   member  vision, speech  laptop  1970-01-12 14:46:35  never    never
 4  root  admin   all             -       1970-01-11 13:46:40  never    never
"""


@pytest.mark.parametrize(
    ("words", "width", "screen"),
    [
        ("list", 80, LIST_80),
        ("list", 120, LIST_120),
        ("describe train-4k2p", 80, DESCRIBE),
        ("why train-4k2p", 80, WHY),
        ("events", 80, EVENTS),
        ("top", 80, TOP),
        ("nodes", 80, NODES),
        ("project list", 80, PROJECTS),
        ("report usage", 80, REPORT),
        ("token list", 80, TOKENS),
    ],
)
def test_screens(
    words: str,
    width: int,
    screen: str,
    fake: Fake,
    still: float,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(fake)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(words.split()) == 0
    answer = capsys.readouterr().out
    assert answer == screen
    assert all(len(line) <= width for line in answer.splitlines())


def test_a_program_gets_all_of_it(fake: Fake, still: float, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    assert main(["list"]) == 0
    answer = capsys.readouterr()
    assert "resnet50-imagenet-baseline-seed42" in answer.out
    assert "No node has 2 free GPUs: 3 have 1, and 5 have none." in answer.out
    assert "\x1b" not in answer.out
    assert answer.err == "4 of 12 shown: --limit 0 shows all.\n"


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_for_programs(output: str, read, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    assert main(["list", "--output", output]) == 0
    answer = read(capsys.readouterr().out)
    assert [each["name"] for each in answer] == ["notebook", "train-4k2p", ROWS[0]["name"], "eval"]
    assert answer[2]["reason"]["why"] == "insufficient_capacity"
    assert main(["describe", "train-4k2p", "-o", output]) == 0
    assert read(capsys.readouterr().out)["pod_rows"][0]["devices"] == [0, 1]


def test_the_report_for_programs(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    assert main(["report", "usage", "--since", "1970-01-02", "--by", "user", "--output", "csv"]) == 0
    answer = capsys.readouterr().out.splitlines()
    assert answer[0].startswith("project,allocated_gpu_s,used_gpu_s,")
    assert answer[2] == "speech,3600.0,,,0.0,0.0,1,0,0"
    assert fake.asked[-1].query["by"] == "user"
    assert 0 < float(fake.asked[-1].query["since"]) < 2 * 86400
    assert main(["report", "usage", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == USAGE["rows"]


def test_nothing_is_said_on_the_error_output_and_that_is_fine(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/workloads", page())
    assert main(["list"]) == 0
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err == "No workload waits or runs; --all lists those that are over.\n"


def test_what_is_asked_of_the_pool(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    assert (
        main(
            [
                "list",
                "-A",
                "-p",
                "vision",
                "--status",
                "failed",
                "--type",
                "train",
                "--user",
                "ada",
                "-q",
                "res",
                "--limit",
                "5",
            ]
        )
        == 0
    )
    assert fake.asked[-1].query == {
        "all": "true", "project": "vision", "status": "failed", "type": "train", "user": "ada", "q": "res", "limit": "5",
    }  # fmt: skip


def test_colours_are_on_words_with_a_meaning_only(still: float) -> None:
    from weir.api.answers import WorkloadRow
    from weir.cli.columns import table

    rows = [WorkloadRow.model_validate(each) for each in ROWS]
    lines = table(rows, COLUMNS, Screen(120, 40, colour=True))
    assert "\x1b[32mrunning\x1b[0m" in lines[2]
    assert "\x1b[31mfailed\x1b[0m" in lines[4]
    assert all(line.count("\x1b[0m") <= 2 for line in lines)


def test_nothing_a_pool_says_can_steer_the_terminal(still: float) -> None:
    detail = WorkloadDetail.model_validate({**DETAIL, "command": ["\x1b[2J", "a\nb"], "user": "\x07ada"})
    assert not any(
        "\x1b" in line or "\x07" in line or "\n" in line
        for line in description(detail, Screen(80, 24, colour=False))
    )


# What people do


def test_submitting_says_the_name_and_what_comes_next(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    words = "submit -p vision --gpus 2 --workers 4 --max-runtime 2h -e A=1 --no-inherit --directory / -- python train.py --lr 1"
    assert main(words.split()) == 0
    answer = capsys.readouterr()
    assert answer.out == "train-4k2p\n"
    assert answer.err == (
        "queued in vision: 4 pods, 8 GPUs together, priority 50\n"
        "  weir logs train-4k2p -f  follows its output\n"
        "  weir why train-4k2p      explains why it is pending\n"
    )
    (submitted,) = [asked for asked in fake.asked if asked.method == "POST"]
    assert submitted.body == {
        "project": "vision",
        "command": ["python", "train.py", "--lr", "1"],
        "max_runtime": "2h",
        "env": {"A": "1"},
        "directory": "/",
        "pods": [{"gpus": "2", "count": 4}],
    }


def test_submitting_what_no_node_takes_says_so_at_once(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    reason = {
        "why": "no_node_matches",
        "sentence": "no node can take a pod of it: 1 node refuses, by devices",
    }
    fake.on("GET", "/workloads/train-4k2p", {**DETAIL, "status": "pending", "reason": reason})
    assert main(["submit", "-p", "vision", "--gpus", "2", "--", "python", "train.py"]) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"it can't start in this pool as it is: {reason['sentence']}"


def test_submitting_a_file_with_options_over_it(
    fake: Fake, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    file = tmp_path / "train.yaml"
    file.write_text(
        "project: vision\ncommand: [python, train.py]\npods:\n- gpus: 2\n  memory: 8Gi\nenv: {B: '2'}\n"
    )
    assert (
        main(
            ["submit", "-f", str(file), "--elastic", "2:8", "--gpus", "1", "--no-preemptible", "--no-inherit"]
        )
        == 0
    )
    (submitted,) = [asked for asked in fake.asked if asked.method == "POST"]
    body = submitted.body
    assert body["pods"] == [{"gpus": "1", "memory": "8Gi", "count": 8, "min": 2}]
    assert body["preemptible"] is False
    assert body["env"] == {"B": "2"}
    file.write_text("project: vision\ncommand: [a]\npods:\n- gpuz: 2\n")
    assert main(["submit", "-f", str(file)]) == 2
    assert capsys.readouterr().err.endswith(f"{file}:4: unknown key gpuz; did you mean gpus?\n")


@pytest.mark.parametrize(
    ("status", "exit_code", "code"),
    [
        ("succeeded", 0, 0),
        ("failed", 7, 7),
        ("failed", 139, 139),
        ("failed", None, 1),
        ("failed", 4096, 1),
        ("stopped", None, 143),
    ],
)
def test_waiting_for_the_end(
    status: str, exit_code: int | None, code: int, fake: Fake, still: float, capsys
) -> None:
    fill(fake)
    ended = {"ended_s": 1_000_120.0, "ran_s": 60.0, "exit_code": exit_code}
    ended["reason"] = {"why": status, "sentence": "it ended with exit code 3"}
    fake.on("GET", "/workloads/train-4k2p", row("train-4k2p", status=status, **ended))
    fake.on("GET", "/workloads/train-4k2p/logs", Said(pieces=("epoch 1\n",), content="text/plain"))
    assert main(["submit", "-p", "vision", "--follow", "--", "true"]) == code
    answer = capsys.readouterr()
    assert answer.out == "train-4k2p\nepoch 1\n"
    why = "." if code == 0 else ". It ended with exit code 3."
    assert answer.err.endswith(f"train-4k2p {status} after running for 1m{why}\n")


@pytest.mark.parametrize("command", ["list", "status"])
def test_what_the_pool_cant_do_now_stands_beside_what_is_shown(
    command: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    trouble = "The disk that holds /home/pool is full. Stops work; free some space."
    fake.on("GET", "/workloads", {**page(*ROWS), "trouble": trouble})
    fake.on("GET", "/status", {**STATUS, "trouble": trouble})
    assert main([command]) == 0
    answer = capsys.readouterr()
    assert trouble in (answer.err if command == "list" else answer.out)


def test_several_are_stopped_and_one_refusal_keeps_nobody(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("POST", "/workloads/a/stop", row("a", status="stopping"))
    fake.on("POST", "/workloads/b/stop", problem(409, "b is over already."))
    fake.on("POST", "/workloads/c/stop", row("c", status="stopped", ended_s=1.0))
    assert main(["stop", "a", "b", "c"]) == 2
    answer = capsys.readouterr()
    assert answer.out == "a is being stopped.\nc is over.\n"
    assert answer.err == "weir: b is over already.\n"


def test_projects_are_made_once_and_set_in_part(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("PUT", "/projects/vision", queue("vision", limit={"gpu": 8.0}))
    words = ["--gpus", "4", "--limit", "gpu=8", "--quota", "memory=256Gi", "-d", "research"]
    assert main(["project", "create", "vision", *words]) == 0
    assert capsys.readouterr().out == "Project vision is made: 4 GPUs guaranteed, at most 8, in research.\n"
    assert fake.asked[-1].body == {
        "name": "vision",
        "quota": {"gpu": "4", "memory": "256Gi"},
        "limit": {"gpu": "8"},
        "department": "research",
    }
    fake.on("GET", "/departments", page())
    assert main(["project", "set", "nobody", "--gpus", "1"]) == 2
    assert "weir project create nobody" in capsys.readouterr().err
    known = queue(
        "vision", quota={"gpu": 4.0, "memory": 2.0**38}, weight={"gpu": 2.5}, times={"lifetime": 60.0}
    )
    fake.on("GET", "/projects/vision", known)
    assert main(["project", "create", "vision"]) == 2
    assert main(["project", "set", "vision", "--gpus", "6", "--department", "", "--grace", "1m"]) == 0
    assert fake.asked[-1].body == {
        "name": "vision",
        "quota": {"gpu": "6", "memory": 2**38},
        "weight": {"gpu": 2.5},
        "priority": 100,
        "times": {"lifetime": 60.0, "stop_grace": "1m"},
    }


def test_a_token_is_the_output(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    made = {"id": 7, "token": "weir_abc", "user": "ada", "role": "member", "projects": ["vision"]}
    fake.on("POST", "/tokens", Said(made, 201))
    assert main(["token", "create", "ada", "-p", "vision"]) == 0
    answer = capsys.readouterr()
    assert answer.out == "weir_abc\n"
    assert "weir token revoke 7" in answer.err
    assert main(["token", "create", "ada"]) == 2


def test_the_snapshot_is_the_output(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("GET", "/snapshot", Said(pieces=("cluster: {}\n",), content="text/yaml"))
    assert main(["snapshot"]) == 0
    assert capsys.readouterr().out == "cluster: {}\n"


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"gpus": 0.5}, "weir submit --gpus 0.5 ..."),
        ({"pods": 3}, "weir submit --workers 3 ..."),
        ({"priority": 51, "preemptible": True}, "weir submit --priority 51 --preemptible ..."),
        ({"suspended": False}, "weir resume a"),
        ({"ended": "b"}, ""),
        ({"topology": {"name": "t"}}, ""),
        ({}, ""),
    ],
)
def test_a_suggestion_as_a_command(change: dict, answer: str) -> None:
    assert as_command(change, "a") == answer

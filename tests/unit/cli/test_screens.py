"""The screens people look at, as they are: at 80 columns, at 120, and where the output is no terminal."""

import json

import pytest
import yaml
from tests.unit.cli.samples import DETAIL, ROWS, USAGE, fill
from tests.unit.client.fake import Fake, Said, page

from weir.api.answers import WorkloadDetail
from weir.cli.main import main
from weir.cli.output.terminal import Screen
from weir.cli.workloads.list_columns import COLUMNS
from weir.cli.workloads.listing import description, isolation_lines

LIST_80 = """\
NAME              PROJECT  USER   STATUS   GPUS  PODS    AGE    RAN  WHY
notebook          speech   grace  running   0.5   1/1  1m15s     1m
train-4k2p        vision   ada    running     2   1/1   1d1h  1h30m
resnet50…-seed42  vision   ada    pending     8   0/4  2h20m      -  capacity
eval              vision   ada    failed      2   0/1     1h  1m40s  exit code 3
"""
LIST_120 = """\
NAME                               PROJECT  USER   TYPE   STATUS   GPUS  PODS    AGE    RAN  WHY
notebook                           speech   grace  build  running   0.5   1/1  1m15s     1m
train-4k2p                         vision   ada    train  running     2   1/1   1d1h  1h30m
resnet50-imagenet-baseline-seed42  vision   ada    train  pending     8   0/4  2h20m      -  capacity
eval                               vision   ada    train  failed      2   0/1     1h  1m40s  exit code 3
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
  - With 1 GPU instead of 2 it starts now.
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
1.75 of 3 GPUs allocated, 2 running, 1 pending

PROJECT  ALLOCATED  QUOTA                        RUNNING  PENDING
speech         0.5      4  ███·················        1        0
vision           2      4  █████████████·······        1        2

GPU    MODEL  ALLOCATED   USE         MEMORY  WORKLOADS
box/0  H200       whole  97 %  61Gi of 150Gi  train-4k2p
box/1  H200        75 %   1 %   3Gi of 150Gi  notebook, eval
box/2  H200        free   0 %     0 of 150Gi
"""
NODES = """\
NODE  GPU ALLOC  MODEL   USE  CPU ALLOC      MEM ALLOC  PODS
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
    assert main(["list", "-o", "wide"]) == 0
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


def test_work_that_waits_again_says_when_it_was_submitted(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    again = {"status": "pending", "started_s": None, "first_started_s": DETAIL["submitted_s"] + 1}
    fake.on("GET", "/workloads/train-4k2p", {**DETAIL, **again})
    assert main(["describe", "train-4k2p"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert "pending, submitted " in first
    assert first.endswith(" ago")


def test_the_report_for_programs(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    assert main(["report", "usage", "--since", "1970-01-02", "--by", "user", "--output", "csv"]) == 0
    answer = capsys.readouterr().out.splitlines()
    assert answer[0].startswith("project,allocated_gpu_s,used_gpu_s,")
    assert answer[2] == "speech,3600.0,,,0.0,0.0,1,0,0,,,,"
    assert fake.asked[-1].query["by"] == "user"
    assert 0 < float(fake.asked[-1].query["since"]) < 2 * 86400
    assert main(["report", "usage", "--output", "json"]) == 0
    of_states = dict.fromkeys(f"{state}_gpu_s" for state in ("working", "starved", "parked", "left"))
    assert json.loads(capsys.readouterr().out)["rows"] == [{**row, **of_states} for row in USAGE["rows"]]


@pytest.mark.parametrize("kind", ["usage", "history"])
def test_reports_are_of_the_named_projects(kind: str, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    rows = [{**each, "waits": {}, "to_quota": {}, "evicted": 0, "lost_gpu_s": 0} for each in USAGE["rows"]]
    total = {**rows[0], "key": "total"}
    fake.on("GET", "/history", {**USAGE, "rows": rows, "total": total, "rules": [], "points": []})
    for by in ("project", "user"):
        words = ["report", kind, "-p", "vision,nobody", "--by", by, "--output", "csv"]
        assert main(words) == 0
        asked = next(each for each in reversed(fake.asked) if each.path == f"/{kind}")
        assert asked.query["project"] == "vision,nobody"
        assert "there is no project nobody; `weir project list`" in capsys.readouterr().err
    fake.on("GET", f"/{kind}", {**USAGE, "rows": [], "total": total, "rules": [], "points": []})
    assert main(["report", kind, "-p", "nobody"]) == 2


def test_report_by_user_of_a_deleted_project_does_not_call_it_missing(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    of_project = {**USAGE["rows"][0], "key": "gone"}
    fake.on(
        "GET",
        "/usage",
        lambda asked: Said(
            {**USAGE, "rows": [of_project if asked.query["by"] == "project" else USAGE["rows"][0]]}
        ),
    )
    assert main(["report", "usage", "-p", "gone", "--by", "user", "--output", "csv"]) == 0
    assert capsys.readouterr().err == ""


def test_nothing_is_said_on_the_error_output_and_that_is_fine(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/workloads", page())
    assert main(["list"]) == 0
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err == "No workload is pending or running; --all includes those that are over.\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("-u ada", "No pending or running workload matches --user ada; --all includes those that are over."),
        (
            "-q x --since 2h",
            "No pending or running workload matches --search x --since 2h; --all includes those that are over.",
        ),
        (
            "--search \x1b[31m",
            "No pending or running workload matches --search '\\x1b[31m'; --all includes those that are over.",
        ),
        ("--status running", "No workload matches --status running; `weir list --all` shows all."),
        ("-A --type build", "No workload matches --type build; `weir list --all` shows all."),
        ("-A", "There are no workloads; `weir submit` queues one."),
    ],
)
def test_empty_list_names_the_choice_and_a_wider_one(
    words: str, sentence: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/workloads", page())
    assert main(["list", *words.split()]) == 0
    assert capsys.readouterr().err == f"{sentence}\n"


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
    from weir.cli.output.columns import table

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


@pytest.mark.parametrize("access", ["enforced", "cooperative"])
def test_only_a_share_of_a_gpu_has_a_line_about_its_memory(access: str) -> None:
    whole = {**DETAIL, "gpu_access": access, "gpu_memory": access}
    share = {**whole, "gpu_memory": "cooperative", "gpu_memory_why": "other jobs can open its GPUs"}
    names = [
        [name for name, _ in isolation_lines(WorkloadDetail.model_validate(each))] for each in (whole, share)
    ]
    assert names == [["GPU access"], ["GPU access", "GPU memory"]]

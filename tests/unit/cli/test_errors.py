"""Errors: one sentence on the error output with the remedy, and an exit code."""

import socket
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.samples import fill
from tests.unit.client.fake import Fake, Said, page, problem, queue, row

from weir.cli.main import main


def _one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.startswith("weir: ")
    assert answer.err.count("\n") == 1
    return answer.err.strip()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("submit -p vision --gpu 2 -- a", "Unknown option: --gpu. Did you mean --gpus?"),
        ("submit -p vision --prioritty 2 -- a", "Did you mean --priority?"),
        ("submit -p vision python train.py --lr 1", "goes after --: weir submit ... -- COMMAND."),
        ("submit -p vision", "no command is named: write it after --"),
        ("submit -p v --gpus 1.5 -- a", "--gpus: '1.5' is neither whole devices nor a share of one"),
        (
            "submit -p v --gpus 0.0001 -- a",
            "--gpus: '0.0001' is finer than 0.001, the smallest share of a device; write 0.001.",
        ),
        (
            "submit -p v --cpu 0.0001 -- a",
            "--cpu: '0.0001' is finer than 0.001, the smallest share of a core; write 0.001.",
        ),
        (
            "submit -p v --memory 1.5 -- a",
            "--memory: '1.5' is not a whole number of bytes; write 2, or a unit, such as 1.5Gi.",
        ),
        ("submit -p v --memory 5 -- a", "--memory: 5 means 5 bytes; write a unit, such as 5Gi."),
        ("submit -p v --gpu-memory 10 -- a", "--gpu-memory: 10 means 10 bytes; write a unit, such as 10Gi."),
        ("submit -p v --gpus two -- a", "--gpus: 'two' is not a quantity; write a number"),
        (
            "submit -p v --max-runtime soon -- a",
            "--max-runtime: 'soon' is not a duration; write one such as 90s",
        ),
        ("submit -p v --elastic 8 -- a", "--elastic '8' isn't two numbers"),
        ("submit -p v --elastic 8:2 -- a", "--elastic: 8 is more than 2; write the smaller number first"),
        ("submit -p v --elastic 2:8 --workers 3 -- a", "--workers: elastic says how many there are"),
        ("submit -p v --topology rack -- a", "write NAME:required=LEVEL"),
        ("submit -p v --env NOT_SET_ANYWHERE -- a", "write NOT_SET_ANYWHERE=VALUE"),
        ("submit -p v --retries 101 -- a", "--retries: 101 is too large; write at most 100"),
        ("submit -p v --begin soon -- a", "--begin 'soon' is no time: write 2026-12-01T18:00, 18:00"),
        ("submit -p v --begin +soon -- a", "--begin '+soon' is no time"),
        ("submit -p v --begin 25:00 -- a", "--begin '25:00' is no time"),
        (
            "sweep -p v --param lr --trials 2 --rungs 1,3 -- a",
            "--param 'lr' has no name and values: write lr=",
        ),
        ("list --output xml", "--output"),
        ("lits", 'Did you mean "list"?'),
        ("projct list", 'Did you mean "project"?'),
        ("project creat x", 'Did you mean "create"?'),
        ("extend a -x", "DURATION: '-x' is no duration: write one such as 2h."),
        ("node list", "'list' is no option of `weir up`; `weir nodes` lists the nodes of a pool."),
        (
            "project create x --gpus 4 --quota gpu=2",
            "--gpus and --quota gpu set the same quota: leave one out.",
        ),
        ("schedule remove x", "`weir schedule remove` is no command: write `weir schedule delete x`."),
        ("maintenance rm x", "`weir maintenance rm` is no command: write `weir maintenance delete x`."),
        (
            "maintenance list -o json",
            "`weir maintenance list` is no command: write `weir maintenance -o json`.",
        ),
        ("nodes ls box", "`weir nodes ls` is no command: write `weir nodes`."),
        ("sweep remove x", "`weir sweep remove` is no command: write `weir sweep delete x`."),
        ("sweep cancel x", "`weir sweep cancel` is no command: write `weir sweep stop x`."),
        ("sweep run -p v -- a b", "`weir sweep run` is no command: write `weir sweep -p v -- a b`."),
        ("token delete 3", "`weir token delete` is no command: write `weir token revoke 3`."),
        (
            "project members delete x ada",
            "`weir project members delete` is no command: write `weir project members remove x ada`.",
        ),
        (
            "department members ls x --output json",
            "`weir department members ls` is no command: write `weir department members x --output json`.",
        ),
        ("project create x --quota gpu=", "is no amount: write one such as gpu=4"),
        ("list --since yesterday", "--since 'yesterday' is no time: write how long ago"),
        ("list --since 2999-01-01", "--since '2999-01-01' is in the future: write an earlier time"),
        ("top --since 2999-01-01", "--since '2999-01-01' is in the future: write an earlier time"),
        ("report usage --since 2999-01-01", "--since '2999-01-01' is in the future: write an earlier time"),
        ("report usage --since yesterday", "--since 'yesterday' is no time: write how long ago"),
        ("describe", "NAME"),
        ("stop", "no workload is named"),
        ("token revoke abc", "abc"),
        ("exec a", "no command is named"),
        ("submit -p v --workers 0 -- a", "--workers: 0 is too small; write 1 or more"),
        ("project set v", "nothing to change: write an option, as in `weir project set v --gpus 4`"),
    ],
)
def test_wrong_requests(words: str, answer: str, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    assert answer in _one_sentence(capsys)
    assert fake.asked == []


def test_lone_word_for_the_members_of_a_project_is_its_name(fake: Fake) -> None:
    fake.on("GET", "/projects/status/members", page())
    assert main(["project", "members", "status"]) == 0


def test_what_the_pool_refuses_is_said_in_options(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    error = {"field": "pods[0].gpus", "message": "pods[0].gpus: no node has 16; write at most 8"}
    fake.on("POST", "/workloads", problem(422, "The submission: ...", error))
    assert main(["submit", "-p", "vision", "--gpus", "16", "--", "a"]) == 2
    assert _one_sentence(capsys) == "weir: --gpus: no node has 16; write at most 8."


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("pods[0]: a pod asks for 8 GPUs; the largest node offers 4", "a pod asks for 8 GPUs; the largest"),
        ("pods: the workload needs 5 GPUs at once", "the workload needs 5 GPUs at once"),
        ("pods[0].gpu_models[0]: no node has a X", "--gpu-model: no node has a X"),
        ("after_ok[1]: is empty; write a name", "--after-ok: is empty; write a name"),
    ],
)
def test_refusal_names_no_field_that_the_command_line_lacks(
    message: str, said: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    field = message.partition(":")[0]
    fake.on("POST", "/workloads", problem(422, "The submission: ...", {"field": field, "message": message}))
    assert main(["submit", "-p", "vision", "--gpus", "8", "--", "a"]) == 2
    assert _one_sentence(capsys).startswith(f"weir: {said}")


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"status": "pending"}, "big is pending; `weir why big` explains it"),
        ({"status": "succeeded", "ended_s": 2.0}, "big is over: it has succeeded"),
        ({"status": "stopped", "ended_s": 2.0}, "big is over: it has been stopped"),
        ({"status": "running"}, "big doesn't run; `weir describe big` shows its running pods"),
    ],
)
def test_exec_says_what_a_workload_without_a_running_pod_does(
    state: dict[str, Any], sentence: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/workloads/big", row("big", command=["a"], pod_rows=[], **state))
    assert main(["exec", "big", "--", "env"]) == 1
    assert _one_sentence(capsys) == f"weir: {sentence}."


@pytest.mark.parametrize("field", ["workloads[0].after", "workloads[0].after[1]"])
def test_field_that_a_sentence_begins_with_is_named_once(
    field: str, fake: Fake, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    error = {"field": field, "message": "after: a waits for a: none of them could ever start"}
    fake.on("POST", "/workloads:batch", problem(422, "The batch: ...", error))
    (tmp_path / "jobs.yaml").write_text(
        "workloads: [{name: a, project: v, command: [a]}, {name: b, project: v, command: [b]}]"
    )
    assert main(["submit", "-f", str(tmp_path / "jobs.yaml")]) == 2
    assert f"{field}: a waits for a: none" in _one_sentence(capsys)


def test_mistake_of_the_whole_request_is_said_without_a_field(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"field": "body", "message": "rungs: 1 doesn't come after 2; write rising steps such as 1, 3, 9"}
    fake.on("POST", "/sweeps", problem(422, "The sweep: ...", error))
    words = "sweep -p vision --param lr=float:0..1 --trials 2 --rungs 2,1 -- a"
    assert main(words.split()) == 2
    assert _one_sentence(capsys) == f"weir: --{error['message']}."


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", "1: holds no sweep; write keys such as params, trials, rungs and workload"),
        ("rungs: [1]\nrungs: [2]\n", "2: rungs is written twice"),
        ("import os\nx: y: z\n", "2: "),
    ],
)
def test_mistake_in_the_file_of_a_sweep_names_its_line(
    text: str, answer: str, tmp_path: Path, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(text)
    assert main(["sweep", "-p", "vision", "-f", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{file}:{answer}")
    assert fake.asked == []


@pytest.mark.parametrize("words", ["describe nobody", "why nobody", "logs nobody", "stop nobody"])
def test_what_is_not_there(words: str, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    name = words.split(maxsplit=1)[0]
    path = {"describe": "", "why": "/why", "logs": "/logs", "stop": "/stop"}[name]
    fake.on(
        "POST" if name == "stop" else "GET",
        f"/workloads/nobody{path}",
        problem(404, "There is no workload nobody"),
    )
    assert main(words.split()) == 2
    assert _one_sentence(capsys) == "weir: There is no workload nobody."


def test_a_pool_in_trouble(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("GET", "/status", problem(503, "Nothing was changed: the disk is full."))
    assert main(["status"]) == 1
    assert "the disk is full" in _one_sentence(capsys)


def test_the_trouble_of_a_pool_comes_first(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    found = {"version": "1", "nodes": 1, "devices": 4, "allocated": 1.0, "running": 1, "pending": 0}
    found |= {"policy": "balanced", "started_s": 0.0, "trouble": "The disk is full. Nothing starts."}
    fake.on("GET", "/status", found)
    assert main(["status"]) == 0
    first, empty, third, *_ = capsys.readouterr().out.splitlines()
    assert (first, empty, third.split()[0]) == ("The disk is full. Nothing starts.", "", "up")


def test_another_program_at_that_address(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("GET", "/status", Said({"hello": "world"}))
    assert main(["status"]) == 1
    assert "not from a pool of this version" in _one_sentence(capsys)


@pytest.mark.parametrize(
    "words",
    [
        "list",
        "status",
        "nodes",
        "top",
        "events",
        "why a",
        "stop a",
        "logs a",
        "submit -p v -- a",
        "list --watch",
        "snapshot",
    ],
)
def test_a_pool_that_cannot_be_reached(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        monkeypatch.setenv("WEIR_URL", url)
        assert main(words.split()) == 3  # while no one else can listen there
    assert _one_sentence(capsys) == (
        f"weir: The pool at {url} can't be reached: ask its administrator to start it with `weir up`, or check WEIR_URL."
    )


def test_no_pool_at_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WEIR_URL", raising=False)
    monkeypatch.setenv("WEIR_HOME", str(tmp_path))
    assert main(["list"]) == 3
    assert "start one with `weir up`" in _one_sentence(capsys)


def test_exec_says_where_it_works(fake: Fake, still: float, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    assert main(["exec", "train-4k2p", "--", "nvidia-smi"]) == 1
    assert "run this on the machine of the pool" in _one_sentence(capsys)


def test_a_project_that_is_none(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    fake.on("GET", "/workloads", Said({"total": 0, "next": None, "items": []}))
    assert main(["list", "-p", "nobody"]) == 2
    assert "there is no project nobody" in _one_sentence(capsys)
    fake.on(
        "GET",
        "/workloads",
        lambda asked: Said(page() if asked.query["project"] == "nobody" else page(row("a"))),
    )
    assert main(["list", "-p", "vision,nobody,speech,noone", "-o", "json"]) == 0
    (missing,) = capsys.readouterr().err.splitlines()
    assert missing.startswith("weir: --project: there is no project nobody or noone; `weir project list`")
    assert main(["stop", "-y", "-p", "nobody", "a"]) == 2
    assert "there is no project nobody" in _one_sentence(capsys)
    fake.on("GET", "/projects/research", problem(404, "There is no project research."))
    departments = [queue("research", kind="department")]
    fake.on("GET", "/departments", Said({"total": 1, "next": None, "items": departments}))
    assert main(["project", "set", "research", "--gpus", "4"]) == 2
    assert "research is a department: `weir department set research`" in _one_sentence(capsys)


def test_exec_beside_what_is_of_another_project(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    fake.on("GET", "/workloads/big", Said(row("big", project="speech", pod_rows=[])))
    assert main(["exec", "big", "--", "env"]) == 2
    assert "your token doesn't hold for project speech" in _one_sentence(capsys)


@pytest.mark.parametrize("command", ["list", "events", "notify deliveries"])
def test_a_negative_limit_names_the_option_and_its_least_value(
    command: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--limit", "-1"]) == 2
    assert "--limit: -1 is too small; write 0 to 1000000." in capsys.readouterr().err
    assert fake.asked == []


@pytest.mark.parametrize("option", ["--tail -1", "--tail 1000001", "--start 0", "--index -1"])
def test_numbers_of_logs_are_checked_before_the_pool_is_asked(
    option: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "a", *option.split()]) == 2
    name, value = option.split()
    assert f"{name}: {value} is too " in capsys.readouterr().err
    assert fake.asked == []


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            "dashboard --port 8000",
            "weir: --port is for clusters: a pool serves its dashboard at its own address.",
        ),
        ("dashboard -n team", "weir: --namespace is for clusters: leave it out, or set WEIR_URL=kube:."),
        (
            "drain box --at 9999-12-31T00:00",
            "weir: --at '9999-12-31T00:00' is no time: write 2026-12-01T18:00, ",
        ),
        ("submit -p a --begin 9999-12-31T00:00 -- a", "weir: --begin '9999-12-31T00:00' is no time: write "),
    ],
)
def test_an_option_that_cannot_be_used_is_named_in_one_sentence(
    command: str, sentence: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 2
    assert _one_sentence(capsys).startswith(sentence)
    assert fake.asked == []


def test_report_of_jobs_names_the_option_of_a_refused_time(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"field": "since", "message": "since: isn't before until; write an earlier one"}
    fake.on("GET", "/history/trace", problem(422, "The report: ...", error))
    assert main(["report", "jobs", "--since", "2020-01-01", "--until", "2019-01-01"]) == 2
    assert _one_sentence(capsys) == "weir: --since: isn't before until; write an earlier one."

"""Commands that change something: what they send to the pool, and what they print."""

from collections.abc import Iterator

import pytest
from tests.unit.cli.samples import DETAIL, ROWS, STATUS, WHY, fill
from tests.unit.client.fake import Fake, Said, page, problem, queue, row

from weir.cli.main import main
from weir.cli.workloads.why import as_command
from weir.client.api import Pool
from weir.client.errors import Unreachable


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


@pytest.mark.parametrize(("begin_s", "passed"), [(999_999.0, True), (1_000_001.0, False), (None, False)])
def test_submitting_with_a_time_that_has_passed_says_so(
    begin_s: float | None, passed: bool, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("POST", "/workloads", Said(row("a", begin_s=begin_s), 201))
    fake.on("GET", "/workloads/a", row("a", status="running"))
    assert main(["submit", "-p", "vision", "--begin", "1970-01-12", "--", "true"]) == 0
    sentence = "The time of --begin has passed: it starts as soon as it can.\n"
    assert (sentence in capsys.readouterr().err) == passed


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


def test_end_of_an_array_is_that_of_all_its_indices(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(fake)
    said = "train-4k2p succeeded after 2h, in which its indices ran for 8h in all: all 5 indices."
    ended = {"ended_s": 1_000_120.0, "ran_s": 60.0, "reason": {"why": "succeeded", "sentence": said}}
    ended["array"] = {"written": "0-4", "size": 5, "succeeded": 5}
    fake.on("GET", "/workloads/train-4k2p", row("train-4k2p", status="succeeded", **ended))
    assert main(["submit", "-p", "vision", "--wait", "--array", "0-4", "--", "true"]) == 0
    assert capsys.readouterr().err.endswith(f"{said}\n")


def test_following_gives_the_jobs_exit_code_although_the_connection_breaks(
    fake: Fake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(fake)
    ended = {"ended_s": 1_000_120.0, "ran_s": 60.0, "exit_code": 3}
    ended["reason"] = {"why": "failed", "sentence": "it ended with exit code 3"}
    fake.on("GET", "/workloads/train-4k2p", row("train-4k2p", status="failed", **ended))

    def logs(_pool: Pool, _name: str, **_options: object) -> Iterator[str]:
        yield "epoch 1\n"
        raise Unreachable("The connection to the pool broke: try again.")

    monkeypatch.setattr(Pool, "logs", logs)
    assert main(["submit", "-p", "vision", "--follow", "--", "true"]) == 3
    answer = capsys.readouterr()
    assert answer.out == "train-4k2p\nepoch 1\n"
    assert "`weir logs train-4k2p -f` follows its output again" in answer.err
    assert answer.err.endswith("train-4k2p failed after running for 1m. It ended with exit code 3.\n")


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


def test_several_are_stopped_despite_one_refusal(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_why_names_what_there_was_no_time_to_try(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("GET", "/workloads/train-4k2p/why", {**WHY, "untried": ["a larger quota", "another project"]})
    assert main(["why", "train-4k2p"]) == 0
    assert (
        capsys.readouterr()
        .out.rstrip()
        .endswith("Not tried for lack of time: a larger quota, another project.")
    )


@pytest.mark.parametrize(("status", "why"), [("pending", "retrying"), ("failed", "failed")])
def test_why_of_failed_work_names_the_command_of_its_output(
    status: str, why: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = {"why": why, "sentence": "it failed (1 in a row)"}
    fake.on("GET", "/workloads/train-4k2p/why", {**WHY, "status": status, "reason": reason})
    assert main(["why", "train-4k2p"]) == 0
    assert "\n  `weir logs train-4k2p` shows its output.\n" in capsys.readouterr().out

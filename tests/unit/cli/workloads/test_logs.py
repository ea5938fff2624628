"""`weir logs` on a terminal: output of a stranger's job does nothing to it."""

import io

import pytest
from tests.unit.client.fake import Fake, Said, row

from weir.cli.main import main

OUTPUT = "a\tb\r50 %\n\x1b]0;title\x07\x1b[2J\x9b31mred\x08\x7f\u202etxt.exe\nend \u00e9\U0001f600\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def job(fake: Fake) -> None:
    fake.on("GET", "/workloads/a/logs", Said(pieces=(OUTPUT[:9], OUTPUT[9:]), content="text/plain"))


def test_control_characters_are_written_out_on_a_terminal(job: None, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    assert main(["logs", "a"]) == 0
    assert terminal.getvalue() == (
        "a\tb\r50 %\n\\x1b]0;title\\x07\\x1b[2J\\x9b31mred\\x08\\x7f\\u202etxt.exe\nend \u00e9\U0001f600\n"
    )


def test_raw_and_files_get_output_as_it_is(
    job: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "a"]) == 0
    assert capsys.readouterr().out == OUTPUT
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    assert main(["logs", "a", "--raw"]) == 0
    assert terminal.getvalue() == OUTPUT


@pytest.mark.parametrize("words", ["logs big", "logs big -f", "submit -p vision --name big --follow -- a"])
def test_pending_workload_without_output_says_so(
    words: str, fake: Fake, still: float, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = {"why": "insufficient_capacity", "sentence": "insufficient capacity: box has 1 GPU free"}
    pending = row("big", command=["a"], pod_rows=[], status="pending", reason=reason)
    states = iter([pending] * (1 if words.startswith("logs") else 2))
    over = {**pending, "status": "succeeded", "reason": None, "ended_s": 2.0}
    fake.on("POST", "/workloads", Said(pending, 201))
    fake.on("GET", "/workloads/big", lambda _asked: Said(next(states, over)))
    fake.on("GET", "/workloads/big/logs", Said(pieces=(), content="text/plain"))
    assert main(words.split()) == 0
    answer = capsys.readouterr()
    said = "big is pending, without output so far. Insufficient capacity: box has 1 GPU free.\n"
    assert said in answer.err


def test_a_later_start_is_marked_on_the_error_output(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    pieces = (
        "data: b25lCg==\n\n",
        "begins: start 2\ndata:\n\n",
        "data: dHdvCg==\n\n",
        "event: end\ndata:\n\n",
    )
    fake.on("GET", "/workloads/a", row("a", command=["a"], pod_rows=[]))
    fake.on("GET", "/workloads/a/logs", Said(pieces=pieces, content="text/event-stream"))
    assert main(["logs", "a", "-f"]) == 0
    answer = capsys.readouterr()
    assert (answer.out, answer.err) == ("one\ntwo\n", "weir: start 2 begins\n")


@pytest.mark.parametrize(
    ("words", "shown"), [("", True), ("-f", True), ("--start 1", False), ("--pod all", False)]
)
def test_output_of_a_later_start_names_the_one_before(
    words: str, shown: bool, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/workloads/a", row("a", command=["a"], pod_rows=[], restarts=2))
    fake.on("GET", "/workloads/a/logs", Said(pieces=("x\n",), content="text/plain"))
    assert main(["logs", "a", *words.split()]) == 0
    answer = capsys.readouterr()
    note = "weir: this is the output of start 3. --start 2 prints that of the start before.\n"
    assert (answer.out, answer.err) == ("x\n", note if shown else "")


@pytest.mark.parametrize(("status", "start"), [("pending", 2), ("failed", 3), ("stopped", None)])
def test_output_of_a_workload_that_waits_again_is_that_of_its_last_start(
    status: str, start: int | None, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stopped workload may have been pending: its restarts don't say which start was the last one."""
    fake.on("GET", "/workloads/a", row("a", status=status, command=["a"], pod_rows=[], restarts=2))
    fake.on("GET", "/workloads/a/logs", Said(pieces=("x\n",), content="text/plain"))
    assert main(["logs", "a"]) == 0
    error = capsys.readouterr().err
    assert error.startswith(f"weir: this is the output of start {start}." if start else "")
    assert bool(error) == bool(start)

"""The command line by itself: light, and clear about what it doesn't understand."""

import subprocess
import sys
from pathlib import Path

import pytest

from weir import __version__
from weir.cli.commands import COMMANDS
from weir.cli.main import main
from weir.cli.output.tables import table

LIGHT = """
import sys
import weir.cli.main, weir.cli.commands, weir.cli.simulation.scenario
import weir.cli.main as entry
entry.main(["scenario", "--help"])
heavy = {"numpy", "pydantic", "yaml", "fastapi", "sqlalchemy"} & set(sys.modules)
sys.exit(f"imports {heavy}" if heavy else 0)
"""


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_the_overview_names_every_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    answer = capsys.readouterr().out
    assert all(command.name in answer and command.does in answer for command in COMMANDS)
    assert all(len(line) <= 100 for line in answer.splitlines())


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_is_there_and_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"weir {command}" in capsys.readouterr().out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize(
    "words", [["scenari"], ["scenario", "play"], ["scenario", "run", "--cycles", "x", "f"]]
)
def test_what_is_not_understood_is_one_sentence_and_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    answer = capsys.readouterr()
    assert answer.out == ""
    assert answer.err.startswith("weir: ")
    assert answer.err.count("\n") == 1


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_tables_fit_and_lose_nothing() -> None:
    words = "a pod that waits for a rather long reason indeed"
    shown = table(("POD", "REASON"), [("train/worker/0", words), ("b", "")], 40)
    assert max(map(len, shown.splitlines())) <= 40
    assert shown.splitlines()[0] == "POD             REASON"
    assert " ".join(line[16:] for line in shown.splitlines()[1:-1]) == words


HELP = """\
Usage: weir logs [OPTIONS] NAME

Print the output of a workload. The error output says where a later
start begins.

Arguments:
  NAME  The workload: the newest of that name. In a pool also a uid,
        which `weir list -o wide` shows.

Options:
  -f, --follow  Continue until the workload is over.
  --pod         The pod as group/index, or its name or index on a
                cluster, or all; `weir describe` lists pods. The default
                is the first pod.
  --start       Number of the pod's start; the last one by default.
  -n, --tail    Maximum number of last lines.
  --index       Index of an array: --index 17 is the same as NAME[17].
  --raw         Print control characters, such as colours, on a
                terminal.

"""


def test_help_is_two_columns_that_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert main(["logs", "--help"]) == 0
    assert capsys.readouterr().out == HELP


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        ("sweep", "weir sweep [OPTIONS] -- COMMAND..."),
        ("shell", "weir shell [OPTIONS] [NAME] [-- COMMAND...]"),
        ("ssh", "weir ssh [OPTIONS] [NAME] [-- COMMAND...]"),
        ("sbatch", "weir sbatch [OPTIONS] [SCRIPT [ARGUMENTS...]]"),
        ("stop", "weir stop [OPTIONS] [NAME...]"),
    ],
)
def test_usage_line_names_the_arguments(command: str, usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"Usage: {usage}"


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_help_fits(
    command: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    main([command, "--help"])
    assert all(len(line) <= width for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("words", [["--help"], ["list", "--help"], ["completion", "bash"]])
def test_an_output_on_a_full_disk_is_one_sentence(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "weir", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "weir: No space left on device.\n")


def test_a_failure_after_some_output_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    fails = "print('done so far'); raise OSError(28, 'No space left on device', 'report\\x1b[2J.html')"
    script = (
        f"from weir.cli import main\ndef answer(words): {fails}\nmain._answered = answer\nexit(main.main())"
    )
    with (tmp_path / "output").open("w") as output:
        done = subprocess.run(
            [sys.executable, "-c", script], stdout=output, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "weir: report\\x1b[2J.html: No space left on device.\n")
    assert (tmp_path / "output").read_text() == "done so far\n"


@pytest.mark.parametrize("closed", ["1", "2", "0"])
def test_closed_stream_of_a_command_is_the_null_device(closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}>&-', "sh", sys.executable, "-m", "weir", "completion", "bash"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("complete" in done.stdout) == (closed != "1")

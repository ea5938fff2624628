"""Watched output: repainted in place on a terminal, appended elsewhere; and words completed in a shell."""

import io
import json
import re
import time
from itertools import islice

import pytest
from tests.unit.cli.samples import NODE, fill
from tests.unit.client.fake import Asked, Fake, Said, page, problem, queue, row

from weir.api.workload_list import WorkloadRow
from weir.cli.help.completion import complete
from weir.cli.main import main
from weir.cli.output.columns import Column, Lines, table
from weir.cli.output.terminal import Screen, cells, shortened
from weir.cli.pool import watch
from weir.cli.workloads.events import _as_they_come, _EventFilter
from weir.client.api import Pool
from weir.client.errors import Unreachable


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _on_terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    """From now on; pytest replaces the output before each test."""
    out = _Terminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "6")
    monkeypatch.setenv("TERM", "xterm")
    return out


def test_a_frame_is_painted_over_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _on_terminal(monkeypatch)
    frames = iter([["one", "two"], ["three"]])
    assert watch.repaint(lambda _here: next(frames), every_s=0, times=2) == 0
    answer = terminal.getvalue()
    assert answer == "\x1b[?25lone\x1b[K\ntwo\x1b[K\n\x1b[J\x1b[2Fthree\x1b[K\n\x1b[J\x1b[?25h"


def test_a_frame_is_no_higher_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _on_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    watch.repaint(lambda _here: [str(at) for at in range(20)], times=1)
    assert terminal.getvalue().count("\n") == 5
    assert "… 16 more lines" in terminal.getvalue()


@pytest.mark.parametrize(
    "words", [[], ["--user", "ada"], ["--all"], ["--project", "vision"], ["--status", "failed"]]
)
def test_a_watched_list_without_rows_has_the_sentence_of_the_list(
    words: list[str], fake: Fake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    fake.on("GET", "/workloads", page())
    assert main(["list", *words]) == 0
    sentence = capsys.readouterr().err.strip()
    terminal = _on_terminal(monkeypatch)

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    assert main(["list", "--watch", *words]) == 0
    assert sentence
    assert sentence in terminal.getvalue()


def test_a_pool_that_goes_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _on_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    looks = iter([1, 0, 2])

    def frame(_here: Screen) -> list[str]:
        look = next(looks)
        if not look:
            raise Unreachable("The pool is gone.")
        return [f"look {look}"]

    assert watch.repaint(frame, every_s=0, times=3) == 0
    frames = [
        re.sub(r"\x1b\[(\?\d+)?\d*[FKhlJ]", "", each).split("\n")
        for each in terminal.getvalue().split("\x1b[J")
    ]
    assert frames[0] == ["look 1", ""]
    assert frames[1] == ["look 1", "", "The pool is gone.", ""]
    assert frames[2] == ["look 2", ""]


def test_watching_a_list_elsewhere_appends_what_changes(
    fake: Fake, still: float, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/workloads", page(row("a", status="pending", started_s=None)))

    def stream(_asked: Asked) -> Said:
        if len([each for each in fake.asked if each.path == "/stream"]) > 1:
            raise KeyboardInterrupt
        changes = (row("a"), row("b", project="speech"), row("a", status="succeeded", ended_s=1_000_120.0))
        pieces = tuple(
            f"id: {at}\nevent: workload\ndata: {json.dumps(each)}\n\n" for at, each in enumerate(changes)
        )
        return Said(pieces=("retry: 1\n\n", *pieces), content="text/event-stream")

    seen: list[str] = []
    fake.on("GET", "/stream", stream)
    with Pool() as pool:
        from weir.cli.workloads.listing import ListFilter, _changes

        for changed in _changes(pool, ListFilter(project="vision"), 10):
            seen.append(f"{changed.name} {changed.status}")
            if len(seen) == 3:
                break
    assert seen == ["a pending", "a running", "a succeeded"]


@pytest.mark.parametrize(
    "words",
    [
        {"project": "vision, speech"},
        {"type": "build,train"},
        {"user": "ada,mia"},
        {"search": "VISI"},
        {"search": "Ada"},
        {"project": ""},
    ],
)
def test_a_watched_list_has_the_workloads_of_the_list(words: dict[str, str]) -> None:
    """The pool takes several words between commas, and searches names, projects and users in any case."""
    from weir.cli.workloads.listing import ListFilter

    shown = WorkloadRow.model_validate(row("train-1", project="vision", user="ada", type="train"))
    other = WorkloadRow.model_validate(row("x", project="other", user="bo", type="inference"))
    assert ListFilter(**words).holds(shown)
    assert ListFilter(**words).holds(other) == (words == {"project": ""})


@pytest.mark.parametrize("command", ["list", "events", "sweep list", "checkpoints"])
def test_a_missing_project_among_several_is_named(
    command: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    path = {"list": "/workloads", "sweep list": "/sweeps"}.get(command, f"/{command}")
    fake.on("GET", path, page())
    fake.on("GET", "/projects", page(queue("vision"), queue("speech")))
    assert main([*command.split(), "-p", "vision,speech"]) == 0
    assert main([*command.split(), "-p", "vision,nobody"]) == 2
    assert "there is no project nobody" in capsys.readouterr().err
    fake.on("GET", "/projects", problem(403, "Not yours."))
    assert main([*command.split(), "-p", "vision,nobody"]) == 0


def test_a_list_since_a_time_ends_with_the_first_older_workload(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    new, old = row("new", submitted_s=time.time() - 60), row("old", submitted_s=time.time() - 7200)

    def some(asked: Asked) -> dict[str, object]:
        after = int(asked.query.get("after", "0"))
        return page(
            new, new if after == 0 else old, next="1" if after == 0 else "2" if after == 1 else None, total=6
        )

    fake.on("GET", "/workloads", lambda asked: Said(some(asked)))
    assert main(["list", "--since", "1h", "--limit", "0"]) == 0
    assert capsys.readouterr().err == "3 running.\n"
    assert len(fake.asked) == 2, "older pages aren't read"


def test_watched_events_are_those_of_the_projects_and_kinds(fake: Fake) -> None:
    def event(number: int, project: str, kind: str = "ended") -> dict[str, object]:
        return {"id": number, "at_s": 1e6, "kind": kind, "project": project, "sentence": "over"}

    first = event(1, "vision")  # with the first change the list is read again
    changes = [first, event(2, "speech"), event(3, "text"), event(4, "vision", "queue"), event(5, "vision")]
    pieces = tuple(f"id: {at}\nevent: event\ndata: {json.dumps(each)}\n\n" for at, each in enumerate(changes))
    fake.on("GET", "/events", page(first))
    fake.on("GET", "/stream", Said(pieces=("retry: 1\n\n", *pieces), content="text/event-stream"))
    with Pool() as pool:
        rows = islice(_as_they_come(pool, _EventFilter(project="vision,speech", kind="ended,evicted"), 10), 3)
        assert [row.id for row in rows] == [1, 2, 5]


def test_rows_that_come_one_by_one_stay_aligned(still: float) -> None:
    columns = (Column("NAME", lambda each: each[0], least=6), Column("N", lambda each: each[1], right=True))
    lines = Lines(columns)
    here = Screen(None, None, colour=False)
    answer = [line for each in (("a", "1"), ("b", "10"), ("c", "2")) for line in lines.next(each, here)]
    assert answer == ["NAME    N", "a       1", "b       10", "c        2"]


# Tables


def test_columns_go_by_importance_and_names_lose_their_middle() -> None:
    columns = (
        Column("NAME", lambda _each: "a-very-long-name-indeed", least=9),
        Column("KEEP", lambda _each: "1234"),
        Column("FIRST", lambda _each: "12345", drop=9),
        Column("SECOND", lambda _each: "123456", drop=1),
    )
    assert table([0], columns, Screen(26, None, colour=False)) == [
        "NAME          KEEP  SECOND",
        "a-very…ndeed  1234  123456",
    ]
    assert table([0], columns, Screen(20, None, colour=False)) == [
        "NAME            KEEP",
        "a-very-…indeed  1234",
    ]


def test_wide_characters_take_two_columns() -> None:
    assert cells("訓練") == 4
    assert shortened("訓練ジョブ", 6, middle=True) == "訓…ブ"
    columns = (Column("A", lambda each: each), Column("B", lambda _each: "|"))
    assert [cells(line) for line in table(["訓練", "abcd"], columns, Screen(80, None, colour=False))[1:]] == [
        7,
        7,
    ]


# Completion


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["sub"], ["submit"]),
        (["se"], ["session", "secret"]),
        (["su"], ["submit", "suspend"]),
        (["submit", "--gpu-"], ["--gpu-memory", "--gpu-model"]),
        (["submit", "--type", ""], ["train", "build", "inference"]),
        (["submit", "-p", ""], ["vision", "speech"]),
        (["submit", "-p", "vision", "--", "py"], []),
        (["project", "cr"], ["create"]),
        (["project", "delete", "v"], ["vision"]),
        (["list", "-o", ""], ["table", "wide", "json", "yaml"]),
        (["why", "train"], ["train-4k2p"]),
        (["stop", "train-4k2p", "n"], ["notebook"]),
        (["stop", "train-4k2p", "t"], []),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["nosuch", ""], []),
        (["sbatch", "--ti"], ["--time", "--time-min"]),
        (["import", "sbatch", "--chd"], ["--chdir"]),
    ],
)
def test_completion(
    words: list[str], found: list[str], fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    assert complete(words) == 0
    assert capsys.readouterr().out.split() == found


def test_completion_is_silent_without_a_pool(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEIR_URL", "http://127.0.0.1:1")
    assert main(["__complete", "why", ""]) == 0
    answer = capsys.readouterr()
    assert (answer.out, answer.err) == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_hand_the_words_back(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "weir __complete" in capsys.readouterr().out


def test_devices_that_measure_nothing_take_no_column(fake: Fake, still: float, capsys) -> None:
    devices = [{**each, "use": None, "memory_used": None} for each in NODE["devices"]]
    fake.on("GET", "/nodes", page({**NODE, "devices": devices, "virtual": True}))
    assert main(["nodes"]) == 0
    assert "USE" not in capsys.readouterr().out

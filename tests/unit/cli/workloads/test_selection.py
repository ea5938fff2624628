"""Actions on several workloads, names of other tools, and the order of the list."""

import io
import time

import pytest
from tests.unit.client.fake import Asked, Fake, Said, page, problem, row

from weir.cli.main import main
from weir.cli.workloads.selection import names_of


class Terminal(io.StringIO):
    """A terminal that a person has typed something into."""

    def isatty(self) -> bool:
        return True


def pool(fake: Fake, *names: str) -> list[str]:
    """Have a pool with these workloads, of vision and of ada; return the names of those that are stopped."""
    stopped: list[str] = []

    def listed(asked: Asked) -> Said:
        rows = [row(name, project="vision", user="ada") for name in names]
        chosen = [each for each in rows if asked.query.get("user", "ada") == "ada"]
        return Said(page(*chosen) if asked.query.get("project", "vision") == "vision" else page())

    def stop(name: str) -> Said:
        stopped.append(name)
        return Said(row(name, status="stopping"))

    fake.on("GET", "/workloads", listed)
    fake.on("GET", "/whoami", {"user": "ada", "signed_in_by": "token", "is_admin": False})
    for name in names:
        fake.on("POST", f"/workloads/{name}/stop", lambda _, name=name: stop(name))
    return stopped


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a-1", "other"], ["a-1", "other"]),
        (["a-*"], ["a-1", "a-2"]),
        (["a-?", "a-1", "other"], ["a-1", "a-2", "other"]),
        (["--project", "vision"], ["a-1", "a-2", "other"]),
        (["--me", "a-[2-9]"], ["a-2"]),
        (["--me"], ["a-1", "a-2", "other"]),
        (["--project", "speech"], []),
    ],
)
def test_names_patterns_and_options_choose(fake: Fake, words: list[str], expected: list[str]) -> None:
    stopped = pool(fake, "a-1", "a-2", "other")
    assert main(["stop", "--yes", *words]) == 0
    assert stopped == expected


@pytest.mark.parametrize(
    ("words", "expected", "left"),
    [
        (["a-*"], ["a-mine"], "2 workloads of other people not chosen: --all-users"),
        (["a-*", "a-ben"], ["a-mine", "a-ben"], "1 workload of other people not chosen"),
        (["a-*", "--all-users"], ["a-mine", "a-ben", "a-cy"], ""),
        (["a-*", "--project", "vision"], ["a-mine", "a-ben", "a-cy"], ""),
        (["a-*", "--me"], ["a-mine"], ""),
    ],
)
def test_a_pattern_is_for_ones_own_workloads(
    fake: Fake, words: list[str], expected: list[str], left: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = shared_pool(fake)
    assert main(["stop", "--yes", *words]) == 0
    assert stopped == expected
    printed = capsys.readouterr().err
    assert left in printed
    assert bool(left) == ("other people" in printed)


def test_a_pattern_that_only_others_match_is_refused(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    stopped = shared_pool(fake)
    assert main(["stop", "-y", "a-[bc]*"]) == 2
    assert "no workload of yours is named 'a-[bc]*'; --all-users includes 2" in capsys.readouterr().err
    assert main(["stop", "-y", "--me", "--all-users"]) == 2
    assert stopped == []


def shared_pool(fake: Fake) -> list[str]:
    """Have a pool in which ada leads vision; return the names of the workloads that are stopped."""
    stopped: list[str] = []
    owners = {"a-mine": "ada", "a-ben": "ben", "a-cy": "cy"}

    def listed(asked: Asked) -> Said:
        rows = [row(name, project="vision", user=user) for name, user in owners.items()]
        return Said(page(*(each for each in rows if asked.query.get("user", each["user"]) == each["user"])))

    def stop(name: str) -> Said:
        stopped.append(name)
        return Said(row(name, status="stopping"))

    fake.on("GET", "/workloads", listed)
    fake.on("GET", "/whoami", {"user": "ada", "signed_in_by": "token", "is_admin": False})
    for name in owners:
        fake.on("POST", f"/workloads/{name}/stop", lambda _, name=name: stop(name))
    return stopped


@pytest.mark.parametrize("words", [["a-*"], ["--me"], ["--project", "vision"], ["a-1", "oth*"]])
def test_several_that_are_not_named_need_a_yes(
    fake: Fake, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = pool(fake, "a-1", "a-2", "other")
    assert main(["stop", *words]) == 1
    assert stopped == []
    printed = capsys.readouterr().err
    assert f"Nothing has changed. --yes stops {3 if words[0].startswith('--') else 2} workloads." in printed
    assert "a-1" in printed


@pytest.mark.parametrize(("answer", "number"), [("y", 2), ("yes", 2), ("n", 0), ("", 0)])
def test_person_at_a_terminal_is_asked(
    fake: Fake, answer: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = pool(fake, "a-1", "a-2", "other")
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    monkeypatch.setattr("sys.stderr", Terminal())
    assert main(["stop", "a-*"]) == (0 if number else 1)
    assert len(stopped) == number


def test_rerun_chooses_among_those_that_failed(fake: Fake) -> None:
    again: list[str] = []

    def listed(asked: Asked) -> Said:
        if asked.query.get("all") != "true":
            return Said(page(row("b-live")))
        assert asked.query["status"] == "failed,stopped,succeeded"
        names = ("b-1", "b-2", "b-1", "b-live", "c-1")
        return Said(page(*(row(name, status="failed") for name in names)))

    def rerun(name: str) -> Said:
        again.append(name)
        return Said(row(name), 201)

    fake.on("GET", "/workloads", listed)
    fake.on("GET", "/whoami", {"user": row()["user"], "signed_in_by": "token", "is_admin": False})
    for name in ("b-1", "b-2"):
        fake.on("POST", f"/workloads/{name}/rerun", lambda _, name=name: rerun(name))
    assert main(["rerun", "b-*", "-y"]) == 0
    assert again == ["b-1", "b-2"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no workload is named"),
        (["b-*"], "no workload that you chose is named 'b-*'"),
        (["--project", "speech", "a-1"], "a-1 isn't among the workloads that you chose"),
    ],
)
def test_choice_of_nothing_is_refused(
    fake: Fake, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = pool(fake, "a-1")
    assert main(["stop", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert stopped == []


def test_refusal_of_one_leaves_the_others(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    stopped = pool(fake, "a-1", "a-2")
    fake.on("POST", "/workloads/a-1/stop", problem(403, "a-1 is of ben."))
    assert main(["stop", "a-*", "-y"]) == 2
    assert stopped == ["a-2"]
    assert "a-1 is of ben" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ps", "squeue", "queue", "ls"])
def test_names_of_other_tools_are_understood(
    fake: Fake, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pool(fake, "a-1")
    assert main([name]) == 0
    assert "a-1" in capsys.readouterr().out


def test_history_lists_those_that_are_over(fake: Fake) -> None:
    pool(fake, "a-1")
    assert main(["history"]) == main(["list", "--all"]) == main(["list"]) == 0
    history, over, live = (asked.query for asked in fake.asked)
    assert history == over != live


def test_name_with_a_similar_meaning_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["create", "job.yaml"]) == 2
    assert "`weir create` is no command: write `weir submit -p PROJECT" in capsys.readouterr().err


def test_list_is_ordered_and_summed_up(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    now_s = time.time()
    rows = [
        row("new", status="pending", submitted_s=now_s - 60, devices=8.0),
        row("big", status="running", submitted_s=now_s - 600, devices=4.0),
        row("old", status="running", submitted_s=now_s - 7200, devices=0.5),
    ]
    fake.on("GET", "/workloads", page(*rows))
    for words, names in (
        ([], ["big", "old", "new"]),
        (["--sort", "age"], ["new", "big", "old"]),
        (["--sort", "gpus"], ["new", "big", "old"]),
        (["--sort", "name"], ["big", "new", "old"]),
        (["--since", "1h"], ["big", "new"]),
        (["--since=-1h"], ["big", "new"]),
        (["--since", "3600s"], ["big", "new"]),
        (["--since", "2026-01-01"], ["big", "old", "new"]),
    ):
        assert main(["list", *words]) == 0
        printed = capsys.readouterr()
        assert [line.split()[0] for line in printed.out.splitlines()[1:]] == names, words
    fake.on("GET", "/whoami", {"user": "mia", "signed_in_by": "socket", "is_admin": False})
    for words in (["--me"], ["-u", "mia"]):
        assert main(["list", *words]) == 0
        assert fake.asked[-1].query["user"] == "mia"
    assert main(["list", "--me", "--user", "mia"]) == 2
    assert "--me and --user contradict each other" in capsys.readouterr().err
    assert main(["list"]) == 0
    assert "2 running, 1 pending." in capsys.readouterr().err
    assert main(["list", "--since", "soon"]) == 2
    assert "--since" in capsys.readouterr().err


def test_number_of_a_list_since_a_time_is_of_the_rows_since_then(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/workloads", page(row("new", submitted_s=time.time()), total=7, next="1"))
    assert main(["list", "--since", "1h", "--limit", "1"]) == 0
    assert float(fake.asked[-1].query["since"]) == pytest.approx(time.time() - 3600, abs=60)
    assert capsys.readouterr().err == "1 of 7 shown: --limit 0 shows all.\n"


def test_rerun_passes_a_name_whose_newest_workload_succeeded(fake: Fake) -> None:
    again: list[str] = []

    def listed(asked: Asked) -> Said:
        if asked.query.get("all") != "true":
            return Said(page())
        ended = [("b-1", "succeeded"), ("b-2", "failed"), ("b-1", "failed")]
        return Said(page(*(row(name, status=status, user="ada") for name, status in ended)))

    def rerun(name: str) -> Said:
        again.append(name)
        return Said(row(name))

    fake.on("GET", "/workloads", listed)
    fake.on("GET", "/whoami", {"user": "ada", "signed_in_by": "token", "is_admin": False})
    for name in ("b-1", "b-2"):
        fake.on("POST", f"/workloads/{name}/rerun", lambda _, name=name: rerun(name))
    assert main(["rerun", "b-*", "-y"]) == 0
    assert again == ["b-2"], "b-1 succeeded later"


def test_a_workload_of_a_cluster_is_known_by_its_short_name_too() -> None:
    assert names_of("vision/job-dev", in_cluster=True) == ("vision/job-dev", "job-dev", "dev")
    assert names_of("job-dev", in_cluster=False) == ("job-dev",)


@pytest.mark.parametrize(
    "words", ["stop -y", "suspend -y", "rerun -y", "list", "list -A", "events", "checkpoints", "report usage"]
)
def test_empty_project_is_refused_and_chooses_nothing(
    words: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = pool(fake, "a-1", "a-2")
    assert main([*words.split(), "--project", ""]) == 2
    assert capsys.readouterr().err == "weir: --project: is empty; write a name, or leave it out.\n"
    assert stopped == []
    assert fake.asked == []


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("stop", "is pending or running"),
        ("suspend", "is pending or running"),
        ("rerun", "failed or was stopped"),
    ],
)
def test_choice_of_nothing_says_which_workloads_were_looked_for(
    verb: str, state: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/workloads", page())
    fake.on("GET", "/whoami", {"user": "ada", "signed_in_by": "token", "is_admin": False})
    assert main([verb, "--me"]) == 0
    assert capsys.readouterr().err == f"No workload that you chose {state}.\n"

"""Commands without --project: the only project of the person is taken."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.fake import Asked, Fake, Said, page, problem, queue, row

from weir.cli.main import main

Projects = Callable[..., None]


@pytest.fixture
def projects(fake: Fake) -> Projects:
    """Set the projects of the pool, of which the person may submit to some."""

    def set_them(*usable: str, others: tuple[str, ...] = ()) -> None:
        def answer(asked: Asked) -> Said:
            names = usable if asked.query.get("may_submit") == "true" else (*usable, *others)
            return Said(page(*map(queue, names)))

        fake.on("GET", "/projects", answer)

    return set_them


def sent(fake: Fake, method: str, path: str) -> Any:
    return next(asked.body for asked in fake.asked if (asked.method, asked.path) == (method, path))


def test_a_submission_takes_the_only_project(
    fake: Fake, projects: Projects, capsys: pytest.CaptureFixture[str]
) -> None:
    projects("vision", others=("nlp",))
    fake.on("POST", "/workloads", row("a", status="running"))
    fake.on("GET", "/workloads/a", row("a", status="running"))
    assert main(["submit", "--gpus", "2", "--", "true"]) == 0
    assert sent(fake, "POST", "/workloads")["project"] == "vision"
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()[0].partition(":")[0]) == ("a\n", "queued in vision")


def test_a_named_project_is_taken_without_a_list_of_them(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.on("POST", "/workloads", row("a", status="running"))
    fake.on("GET", "/workloads/a", row("a", status="running"))
    monkeypatch.setenv("WEIR_PROJECT", "nlp")
    for words, name in ((["-p", "vision"], "vision"), ([], "nlp")):
        fake.asked.clear()
        assert main(["submit", *words, "--", "true"]) == 0
        assert sent(fake, "POST", "/workloads")["project"] == name
        assert "/projects" not in [asked.path for asked in fake.asked]


def test_a_schedule_takes_the_only_project_and_names_it(
    fake: Fake, projects: Projects, capsys: pytest.CaptureFixture[str]
) -> None:
    projects("vision")
    schedule = {"name": "n", "project": "vision", "user": "ada", "cron": "0 2 * * *", "zone": "UTC"}
    schedule |= {"concurrency": "allow", "suspended": False, "next_s": None, "command": ["true"]}
    fake.on("GET", "/schedules", page())
    fake.on("PUT", "/schedules/n", schedule)
    assert main(["schedule", "add", "--name", "n", "--cron", "0 2 * * *", "--", "true"]) == 0
    assert sent(fake, "PUT", "/schedules/n")["workload"]["project"] == "vision"
    note = "Project vision is taken, the only one that you may submit to.\n"
    assert capsys.readouterr().err == note


def test_a_file_of_several_workloads_takes_the_only_project(
    fake: Fake, projects: Projects, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    projects("vision")
    fake.on("POST", "/workloads:batch", {"total": 1, "items": [row("a")]})
    file = tmp_path / "jobs.yaml"
    file.write_text("workloads:\n- {name: a, command: 'true'}\n")
    assert main(["submit", "-f", str(file)]) == 0
    assert sent(fake, "POST", "/workloads:batch")["defaults"]["project"] == "vision"
    assert "Project vision is taken" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "template list",
        "template show t",
        "template delete t",
        "secret list",
        "secret delete KEY",
        "submit --template t",
    ],
)
def test_things_of_the_only_project_need_no_name(words: str, fake: Fake, projects: Projects) -> None:
    projects("vision")
    main(words.split())
    assert fake.asked[-1].path.startswith("/projects/vision/")


def test_a_sweep_takes_the_only_project(fake: Fake, projects: Projects) -> None:
    projects("vision")
    main(["sweep", "--param", "lr=log:1e-5..1", "--trials", "3", "--rungs", "1,3", "--", "true"])
    assert sent(fake, "POST", "/sweeps")["workload"]["project"] == "vision"


def test_a_session_takes_the_only_project(fake: Fake, projects: Projects) -> None:
    projects("vision")
    fake.on("GET", "/workloads/dev", problem(404, "There is no workload dev."))
    main(["shell", "dev"])
    assert sent(fake, "POST", "/workloads")["project"] == "vision"


def test_a_script_of_slurm_takes_the_only_project_and_names_it(
    fake: Fake, projects: Projects, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    projects("vision", others=("nlp",))
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    assert main(["sbatch", "--test-only", str(script)]) == 0
    assert "Project vision is taken" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("usable", "others", "sentence"),
    [
        (("nlp", "vision"), (), "write -p PROJECT; yours are nlp, vision"),
        (tuple(f"p{at}" for at in range(40)), (), "p6, p7 and 32 more"),
        ((), ("vision",), "you may submit to none: its lead or an administrator adds you"),
        ((), (), "an administrator creates one first with `weir project create`"),
    ],
)
def test_without_one_project_the_sentence_says_what_to_do(
    usable: tuple[str, ...],
    others: tuple[str, ...],
    sentence: str,
    projects: Projects,
    capsys: pytest.CaptureFixture[str],
) -> None:
    projects(*usable, others=others)
    assert main(["submit", "--", "true"]) == 2
    assert capsys.readouterr().err.endswith(f"{sentence}.\n")


def test_a_person_who_may_list_no_projects_is_asked_for_a_name(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/projects", problem(403, "You may not."))
    assert main(["submit", "--", "true"]) == 2
    assert "no project is named: write -p PROJECT" in capsys.readouterr().err


def test_another_refusal_of_the_list_is_said(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.on("GET", "/projects", problem(401, "Missing token."))
    assert main(["submit", "--", "true"]) != 0
    assert capsys.readouterr().err == "weir: Missing token.\n"

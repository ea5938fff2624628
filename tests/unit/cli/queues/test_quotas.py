"""`weir project set`: limits of people, and their removal."""

from typing import Any

import pytest
from tests.unit.client.fake import Fake, queue

from weir.cli.main import main

SET = {
    "person_limits": {"gpus": 4.0, "running": 3},
    "person_limits_of": {"mia": {"gpus": 8.0, "running": 2}, "ben": {"gpus": 1.0}},
    "max_priority_of": {"mia": 60, "ben": 70},
}


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (
            "--person-limit-of mia:gpus=none",
            {"person_limits_of": {"mia": {"running": 2}, "ben": {"gpus": 1.0}}},
        ),
        ("--person-limit-of mia=none", {"person_limits_of": {"ben": {"gpus": 1.0}}}),
        ("--person-limit-of ben:gpus=none", {"person_limits_of": {"mia": {"gpus": 8.0, "running": 2}}}),
        ("--person-limit-of mia=none --person-limit-of ben=none", {"person_limits_of": None}),
        ("--person-limit gpus=none", {"person_limits": {"running": 3}}),
        ("--max-priority-of mia=none", {"max_priority_of": {"ben": 70}}),
    ],
)
def test_limits_of_people_are_removed(words: str, changed: dict[str, Any], fake: Fake) -> None:
    fake.on("GET", "/projects/vision", queue("vision", **SET))
    fake.on("PUT", "/projects/vision", queue("vision"))
    assert main(["project", "set", "vision", *words.split()]) == 0
    sent = next(asked.body for asked in fake.asked if asked.method == "PUT")
    expected = {**SET, **changed}
    assert {key: sent.get(key) for key in SET} == expected


@pytest.mark.parametrize(
    "words", ["--person-limit-of mia", "--person-limit-of mia=8", "--person-limit-of =none"]
)
def test_a_limit_of_a_person_needs_a_name(words: str, fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["project", "set", "vision", *words.split()]) == 2
    assert "names no person: write one such as mia:gpus=8" in capsys.readouterr().err
    assert fake.asked == []

"""Amounts and durations with a minus sign: they are values, and get the sentence of wrong ones."""

import pytest
from tests.unit.client.fake import Fake, Said, page, problem, row

from weir.cli.main import main
from weir.cli.options.negative_values import with_negative_values


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("submit -p a --memory -8Gi -- a", "--memory: '-8Gi' is negative; write 0 or more."),
        (
            "submit -p a --cpu 2 --max-runtime -2h30m -- a",
            "--max-runtime: '-2h30m' is not above 0; write a duration such as 90s, 10m or 2h30m.",
        ),
        (
            "drain --at -1h",
            "--at '-1h' is no time: write 2026-12-01T18:00, 18:00 for the next such time, or +2h",
        ),
        ("submit -p a --memory --cpu 2 -- a", "--memory has no value; write --memory=VALUE."),
        ("submit -p a --memory -x -- a", "--memory has no value; write --memory=VALUE."),
        ("extend x --bogus", "DURATION: '--bogus' is no duration: write one such as 2h."),
    ],
)
def test_a_negative_value_gets_the_sentence_of_a_wrong_value(
    words: str, sentence: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err.startswith(f"weir: {sentence}")


def test_a_negative_extension_is_refused_by_the_pool(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    text = "duration: '-1h' is not above 0; write a duration such as 90s, 10m or 2h30m"
    answer = problem(422, "The extension: ...", {"field": "duration", "message": text})
    fake.on("POST", "/workloads/x/extend", answer)
    assert main(["extend", "x", "-1h"]) == 2
    assert fake.asked[-1].body == {"duration": "-1h"}
    assert capsys.readouterr().err.startswith("weir: DURATION: '-1h' is not above 0")


def test_a_time_ago_may_have_a_sign(fake: Fake, still: float) -> None:
    fake.on("GET", "/workloads", Said(page(row())))
    assert main(["list", "--since", "-2h30m"]) == 0
    assert float(fake.asked[0].query["since"]) == still - 9000


@pytest.mark.parametrize(
    "words",
    [
        ["submit", "--name", "a", "--", "head", "--bytes", "-5k"],
        ["sbatch", "--nice", "-5k", "job.sh"],
        ["list", "-o", "-5k"],
        ["submit", "--memory=8Gi", "-5k"],
        ["logs", "a", "--tail", "-x"],
    ],
)
def test_other_words_stay_as_they_are(words: list[str]) -> None:
    assert with_negative_values(words) == words

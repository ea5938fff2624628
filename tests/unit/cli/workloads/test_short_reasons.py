"""Reasons of a list are a few words, and the number of GPUs in use is the pool's."""

import time

import pytest
from tests.unit.cli.samples import row
from tests.unit.client.fake import Fake, page

from weir.api.workload_list import WorkloadPage, WorkloadRow
from weir.cli.main import main
from weir.cli.workloads.list_columns import progress_bar
from weir.cli.workloads.list_order import summary
from weir.cli.workloads.short_reasons import short_reason
from weir.control.journal import Dependency, DependencyCondition
from weir.control.start_gates import dependency_gate
from weir.model.reasons import ReasonCode

EVICTED = {"at_s": 1.0, "rule": "reclaim_quota", "sentence": "stopped", "by": "big", "by_user": "ben"}


def workload(status: str = "pending", why: str = "", sentence: str = "", **words: object) -> WorkloadRow:
    numbers = words.pop("numbers", {})
    reason = {"why": why, "sentence": sentence, "numbers": numbers} if why else None
    return WorkloadRow.model_validate(row("train", status=status, reason=reason, **words))


@pytest.mark.parametrize("code", ReasonCode)
def test_each_class_of_reason_is_a_few_words(code: ReasonCode) -> None:
    words = short_reason(workload(why=code.value, sentence="A long sentence with numbers."))
    assert 0 < len(words) <= 22
    assert "_" not in words


def test_a_dependency_names_what_it_waits_for() -> None:
    needs = [
        Dependency("prepare", 1, DependencyCondition.SUCCEEDED),
        Dependency("b", 2, DependencyCondition.ENDED),
    ]
    sentence = dependency_gate("train", needs).reason
    assert short_reason(workload(why="dependency", sentence=sentence)) == "after prepare"


@pytest.mark.parametrize(("why", "words_before"), [("begin_time", "begins"), ("retrying", "tried again")])
def test_a_wait_that_ends_by_itself_names_its_time(why: str, words_before: str) -> None:
    later_s = time.time() + 3600
    words = short_reason(workload(why=why, sentence="it begins", numbers={"until_s": later_s}))
    assert words == f"{words_before} {time.strftime('%H:%M', time.localtime(later_s))}"


def test_a_wait_until_another_year_names_the_date() -> None:
    later_s = time.time() + 400 * 86400
    words = short_reason(workload(why="begin_time", sentence="it begins", numbers={"until_s": later_s}))
    assert words == f"begins {time.strftime('%Y-%m-%d', time.localtime(later_s))}"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (workload(why="insufficient_capacity", evicted=EVICTED), "capacity, evicted by big"),
        (workload(why="of_a_newer_pool"), "of a newer pool"),
        (workload("failed", exit_code=3), "exit code 3"),
        (workload("failed", exit_code=137), "signal 9"),
        (workload("stopped", "stopped", "it ran for 2h"), "it ran for 2h"),
        (workload("stopped", "stopped", "train was stopped by mia."), "by mia"),
        (
            workload("stopped", "stopped", "Sweep s is over: train was parked at rung 3 of sweep s."),
            "parked at rung 3",
        ),
        (workload("stopped", "stopped", "The train was late."), "The train was late."),
        (
            workload("stopped", "stopped", "train was to start only if a succeeds."),
            "was to start only if a succeeds",
        ),
        (workload("succeeded", "succeeded", "fine", evicted=EVICTED), ""),
        (workload("running"), ""),
        (workload("running", activity={"quiet": ["GPU 1"]}), "quiet: GPU 1"),
        (workload("running", activity={"state": "starved"}), "starved"),
        (workload("running", activity={"state": "left", "warning": "soon"}), "left, warned"),
        (workload("running", activity={"state": "parked", "unprotected": True}), "parked, open to all"),
    ],
)
def test_other_words(found: WorkloadRow, words: str) -> None:
    assert short_reason(found) == words


@pytest.mark.parametrize(
    ("part", "bar"), [(0.0, "·········· 0 %"), (0.45, "████······ 45 %"), (1.0, "██████████ 100 %")]
)
def test_progress_is_a_bar(part: float, bar: str) -> None:
    assert progress_bar(part) == bar


def test_the_summary_says_how_many_gpus_are_in_use() -> None:
    rows = [workload("running")] * 3 + [workload("pending")] * 2
    numbers = WorkloadPage(total=5, items=[], gpus=16, gpus_in_use=12.5)
    assert summary(rows, 5, numbers) == "3 running, 2 pending, 12.5 of 16 GPUs in use"
    assert summary(rows, 9, numbers) == "9 workloads, 12.5 of 16 GPUs in use"
    assert summary(rows, 5, WorkloadPage(total=5, items=[])) == "3 running, 2 pending"


def test_a_wide_list_has_the_sentence_and_the_progress(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    why = {"why": "insufficient_capacity", "sentence": "no node has 2 free GPUs"}
    fake.on("GET", "/workloads", page(row("a", status="pending", reason=why), row("b", progress=0.4)))
    assert main(["list"]) == 0
    assert "no node has" not in capsys.readouterr().out
    assert main(["list", "-o", "wide"]) == 0
    out = capsys.readouterr().out
    assert "No node has 2 free GPUs." in out
    assert "████······ 40 %" in out

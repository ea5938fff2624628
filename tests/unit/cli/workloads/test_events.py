"""Lines of events: each happening once, in the order of time."""

import time

import pytest
from tests.unit.client.fake import Fake, page, problem
from tests.unit.client.fake import row as workload

from weir.api.answers import EventRow
from weir.cli.main import main
from weir.cli.output.terminal import Screen
from weir.cli.workloads.events import event_lines

T0 = 1_769_860_800.0
PLAIN = Screen(None, None, colour=False)


def row(
    at_s: float,
    sentence: str,
    workload: str | None = "vision/job-a",
    pod: str | None = None,
    kind: str = "pending",
) -> EventRow:
    return EventRow(
        id=int(at_s),
        at_s=T0 + at_s,
        kind=kind,
        workload=workload,
        pod=pod,
        project="vision",
        sentence=sentence,
    )


def test_a_reason_of_a_workload_and_its_pods_is_there_once() -> None:
    rows = [row(0, "no node fits"), *(row(at, "no node fits", pod=f"a-{at}") for at in range(1, 9))]
    rows += [row(2, "no node fits", "vision/job-b"), row(3, "its quota is in use"), row(60, "no node fits")]
    lines = event_lines(rows, PLAIN)
    assert [line.split("  ")[-1] for line in lines[1:]] == [
        "no node fits",
        "no node fits",
        "its quota is in use",
        "no node fits",
    ]
    assert sum("job-b" in line for line in lines) == 1


def test_a_workload_that_ends_as_its_pod_failed_says_the_reason_once() -> None:
    rows = [
        row(0, "Pod job-a/0/0 failed: it used more memory than its limit.", "job-a", "job-a/0/0", "failed"),
        row(0, "It used more memory than its limit.", "job-a", kind="ended"),
    ]
    lines = event_lines(rows, PLAIN, named=False)
    assert [line.split("  ")[-1] for line in lines[1:]] == [
        "Pod 0/0 failed: it used more memory than its limit.",
        "It failed, for the same reason.",
    ]
    assert event_lines(rows[1:], PLAIN, named=False)[1].endswith("It used more memory than its limit.")


def test_events_after_a_clock_went_back_are_there() -> None:
    lines = event_lines([row(3600, "no node fits"), row(0, "no node fits"), row(1, "no node fits")], PLAIN)
    assert len(lines) == 3  # with the head


def test_events_of_no_workload_are_all_there() -> None:
    lines = event_lines(
        [row(0, "the policy has changed", None), row(1, "the policy has changed", None)], PLAIN
    )
    assert len(lines) == 3


def test_events_since_a_time_are_those_after_it(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    now_s = time.time()
    found = [
        row(now_s - T0 - age, f"happened {age}").model_dump(mode="json") for age in (60, 600, 7200, 9000)
    ]
    fake.on("GET", "/events", {**page(*found), "next": "1"})
    assert main(["events", "--since", "1h", "--limit", "0"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[1:]] == ["600", "60"]
    assert len(fake.asked) == 1, "older pages aren't read"
    assert main(["events", "--since", "10s"]) == 0
    assert "Nothing happened since then." in capsys.readouterr().err
    assert main(["events", "--since", "2999-01-01"]) == 2
    assert "--since '2999-01-01' is in the future" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["events nope", "events nope --kind started", "events nope --follow"])
def test_events_of_an_unknown_name_are_refused(
    words: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/events", page())
    fake.on("GET", "/workloads/nope", problem(404, "There is no workload nope."))
    assert main(words.split()) == 2
    assert capsys.readouterr().err == "weir: There is no workload nope.\n"


def test_empty_name_does_not_show_the_events_of_all(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", ""]) == 2
    assert capsys.readouterr().err == "weir: NAME: is empty; write a name, or leave it out.\n"
    assert fake.asked == []


def test_workload_without_visible_events_says_who_sees_them(
    fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.on("GET", "/events", page())
    fake.on("GET", "/workloads/theirs", workload("theirs"))
    assert main(["events", "theirs"]) == 0
    answer = "The pool shows no event of theirs: members of its project see them, and old ones are deleted.\n"
    assert capsys.readouterr().err == answer

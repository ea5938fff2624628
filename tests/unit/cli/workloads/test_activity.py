"""Activity on screens: what details, reasons and reports say of idle work, and an extension."""

import pytest
from tests.unit.cli.samples import DETAIL, ROWS, fill
from tests.unit.client.fake import Fake, page

from weir.api.workload_list import ActivityRow, IdleRulesRow
from weir.cli.main import main
from weir.cli.workloads.activity import activity_facts, activity_note, idle_facts

WARNING = "notebook has been idle for 40m. It is stopped in 20m unless it works."


def test_details_say_the_state_what_it_means_and_what_follows(still: float) -> None:
    row = ActivityRow(
        state="left", since_s=still - 2400, warning=WARNING, unprotected=True, extended_until_s=still + 3600
    )
    assert activity_facts(row) == [
        ("Activity", "left for 40m: nothing moves, and no person is connected"),
        ("Warning", WARNING),
        ("Protection", "lost: any request may take its GPUs"),
        ("Extended", "until Jan 12 15:46: the idle rules leave it alone"),
    ]
    assert activity_facts(ActivityRow(extended_until_s=still - 1)) == []
    assert activity_facts(None) == []


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        (
            IdleRulesRow(notice_s=1200, unprotect_s=2400, suspend_s=7200),
            [
                (
                    "If idle",
                    "notice after 20m, any request may take its GPUs after 40m, suspended after 2h",
                )
            ],
        ),
        (IdleRulesRow(notice_s=1800, stop_s=3600), [("If idle", "notice after 30m, stopped after 1h")]),
        (IdleRulesRow(), []),
        (None, []),
    ],
)
def test_details_say_after_which_idle_time_the_rules_act(
    row: IdleRulesRow | None, facts: list[tuple[str, str]]
) -> None:
    assert idle_facts(row) == facts


@pytest.mark.parametrize(
    ("row", "note"),
    [
        (None, ""),
        (ActivityRow(state="working"), ""),
        (ActivityRow(state="unknown"), ""),
        (ActivityRow(state="parked", warning=WARNING), WARNING),
        (
            ActivityRow(state="starved", signals=["disk", "of_a_newer_pool"]),
            "starved: its GPUs are quiet, but it reads or writes files; of_a_newer_pool",
        ),
        (
            ActivityRow(state="working", quiet=["GPU 1 of w/0", "GPU 2 of w/1"]),
            "GPU 1 of w/0, GPU 2 of w/1 are quiet while the others compute",
        ),
    ],
)
def test_notes_of_lists(row: ActivityRow | None, note: str) -> None:
    assert activity_note(row) == note


def test_report_names_the_work_that_is_idle_now(
    fake: Fake, still: float, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    idle = {"state": "parked", "since_s": still - 7200, "unprotected": True}
    rows = [
        {**ROWS[0], "name": "small", "uid": 1, "devices": 1, "status": "running", "activity": idle},
        {**ROWS[0], "name": "large", "uid": 2, "devices": 4, "status": "running", "activity": idle},
        {**ROWS[0], "name": "works", "uid": 3, "status": "running", "activity": {"state": "working"}},
    ]
    fake.on("GET", "/workloads", page(*rows))
    assert main(["report", "usage"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("Idle now, with 5 GPUs:")
    assert lines[at + 1].startswith("  large of ")
    assert lines[at + 1].endswith("parked for 2h, open to all, 4 GPUs")
    assert lines[at + 2].startswith("  small of ")
    assert len(lines) == at + 3


def test_an_extension_says_until_when_it_holds(
    fake: Fake, still: float, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(fake)
    answer = {**DETAIL, "activity": {"state": "parked", "extended_until_s": still + 7200}}
    fake.on("POST", "/workloads/train-4k2p/extend", answer)
    assert main(["extend", "train-4k2p", "2h"]) == 0
    assert capsys.readouterr().out == "The idle rules leave train-4k2p alone until 1970-01-12 16:46:40.\n"
    (asked,) = [each for each in fake.asked if each.method == "POST"]
    assert asked.body == {"duration": "2h"}

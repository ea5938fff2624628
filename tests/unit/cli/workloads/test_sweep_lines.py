"""Parked trials of a sweep are one line of the list."""

from weir.api.answers import Explanation, WorkloadRow
from weir.cli.workloads.short_reasons import short_reason
from weir.cli.workloads.sweep_lines import with_parked_together

PARKED = Explanation(
    why="suspended",
    sentence="it is suspended: parked at rung 1 of sweep s",
    numbers={"suspended": "parked at rung 1 of sweep s"},
)


def row(uid: int, name: str, **more: object) -> WorkloadRow:
    return WorkloadRow.model_validate(
        {
            "uid": uid,
            "name": name,
            "project": "vision",
            "user": "mia",
            "type": "train",
            "status": "pending",
            "priority": 50,
            "preemptible": True,
            "devices": 2.0,
            "pods": 1,
            "pods_running": 0,
            "submitted_s": 0.0,
            **more,
        }
    )


def test_one_line_stands_for_the_parked_trials_of_each_sweep() -> None:
    rows = [
        row(6, "s-4", sweep="s", status="running"),
        row(5, "s-3", sweep="s", reason=PARKED),
        row(4, "t-0", sweep="t", reason=PARKED),
        row(3, "other", reason=PARKED),
        row(2, "s-1", sweep="s", reason=PARKED),
        row(1, "s-0", sweep="s"),
    ]
    shown = with_parked_together(rows)
    assert [each.name for each in shown] == ["s-4", "s-*", "t-0", "other", "s-0"]
    together = shown[1]
    assert (together.devices, together.pods) == (4.0, 2)
    assert together.reason is not None
    assert together.reason.sentence == "2 trials are parked: weir sweep show s"
    assert short_reason(together) == "2 trials parked"
    assert short_reason(shown[2]) == "parked at rung 1"


def test_trial_that_a_person_suspended_is_a_line_of_its_own() -> None:
    why = "suspended by mia"
    suspended = Explanation(why="suspended", sentence=f"it is suspended: {why}", numbers={"suspended": why})
    rows = [
        row(3, "s-2", sweep="s", reason=PARKED),
        row(2, "s-1", sweep="s", reason=suspended),
        row(1, "s-0", sweep="s", reason=PARKED),
    ]
    assert [each.name for each in with_parked_together(rows)] == ["s-*", "s-1"]

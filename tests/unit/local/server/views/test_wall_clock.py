from importlib import import_module
from pkgutil import iter_modules
from typing import get_args, get_type_hints

import weir.api
from weir.api.answers import EventRow, WorkloadDetail
from weir.api.sweeps import RungValue
from weir.api.workload_list import (
    Answer,
    ArrayCounts,
    ArrayIndexPage,
    ArrayIndexRow,
    EvictionRow,
    PointInTime,
    WorkloadRow,
)
from weir.local.server.views.wall_clock import on_wall_clock

AHEAD_S = 3600.0
FIELDS = {
    "uid": 1,
    "name": "w",
    "project": "vision",
    "user": "ann",
    "type": "train",
    "status": "running",
    "priority": 50,
    "preemptible": True,
    "devices": 1.0,
    "pods": 1,
    "pods_running": 1,
    "submitted_s": 100.0,
    "started_s": 200.0,
    "ran_s": 7.0,
}


def test_times_move_and_durations_stay() -> None:
    shown = on_wall_clock(WorkloadRow.model_validate(FIELDS), AHEAD_S)
    assert (shown.submitted_s, shown.started_s, shown.ended_s, shown.ran_s) == (3700.0, 3800.0, None, 7.0)
    assert on_wall_clock(RungValue(rung=1, step=1, value=5.0, at_s=1.0), AHEAD_S).value == 5.0
    same = WorkloadRow.model_validate(FIELDS)
    assert on_wall_clock(same, 0.0) is same


def test_times_of_answers_inside_an_answer_move() -> None:
    event = EventRow(
        id=1, at_s=10.0, kind="noted", sentence="x", numbers={"until_s": 20.0, "lost_s": 5.0, "by": "until_s"}
    )
    eviction = EvictionRow(at_s=30.0, rule="reclaim", sentence="x", by="b")
    shown = on_wall_clock(
        WorkloadDetail.model_validate({**FIELDS, "events": [event], "evicted": eviction}), AHEAD_S
    )
    assert shown.events[0].at_s == 3610.0
    assert shown.events[0].numbers == {"until_s": 3620.0, "lost_s": 5.0, "by": "until_s"}
    assert shown.evicted is not None
    assert shown.evicted.at_s == 3630.0
    assert shown.submitted_s == 3700.0


def test_times_of_an_array_move_with_those_of_its_indices() -> None:
    counts = ArrayCounts(written="0-1", size=2, pending=1, running=0, succeeded=1, failed=0, stopped=0)
    row = WorkloadRow.model_validate({**FIELDS, "array": counts})
    index = ArrayIndexRow(name="w_0", index=0, uid=2, status="succeeded", ended_s=40.0)
    shown = on_wall_clock(ArrayIndexPage(array=row, total=1, items=[index]), AHEAD_S)
    assert shown.array.submitted_s == 3700.0
    assert shown.items[0].ended_s == 3640.0


def test_fields_with_the_names_of_times_are_marked() -> None:
    for module in iter_modules(weir.api.__path__):
        import_module(f"weir.api.{module.name}")
    kinds, found = [Answer], {}
    while kinds:
        kinds += (kind := kinds.pop()).__subclasses__()
        for name, hint in get_type_hints(kind, include_extras=True).items():
            if name in ("at_s", "since_s", "until_s", "expires_s", "created_s", "started_s", "ended_s"):
                found[f"{kind.__name__}.{name}"] = PointInTime in (hint, *get_args(hint))
    assert [name for name, is_marked in found.items() if not is_marked] == [
        "MaintenanceRow.until_s"
    ]  # of the wall clock

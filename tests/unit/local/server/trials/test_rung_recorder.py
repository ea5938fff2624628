"""Recorder of rungs: trials that it watches while a new control reads them all again."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from weir.control.journal import TrialPlan
from weir.local.records.pod_records import RUNG, JobMessage
from weir.local.server.trials.rung_recorder import RungRecorder, WatchedTrial
from weir.store.records import TrialRecord


def watched(uid: int, *, target: int = 0, parked: bool = False) -> WatchedTrial:
    plan = TrialPlan(1, "s", uid, {}, {}, (1, 3), "loss", target)
    return WatchedTrial(plan, uid, f"s-{uid}", passed=target, parked=parked)


def recorder_that_reads(meanwhile: Callable[[RungRecorder], None]) -> RungRecorder:
    """Return a recorder of one parked trial, during whose reading of the store something happens."""
    sweep = SimpleNamespace(id=1)
    trial = TrialRecord(watched(0).plan, 0, "s-0", parked=True)

    def trials(_: object) -> list[TrialRecord]:
        meanwhile(recorder)
        return [trial]

    table = SimpleNamespace(unfinished=lambda _: [sweep], results=lambda _: [], trials=trials)
    pool: Any = SimpleNamespace(store=SimpleNamespace(sweeps=table))
    recorder = RungRecorder(pool)
    recorder.add(watched(0, parked=True))
    return recorder


@pytest.mark.parametrize("uid", [0, 1], ids=["promoted", "new"])
def test_trial_added_while_the_store_is_read_is_watched(uid: int) -> None:
    """The trial was written down after the others were read."""
    added = watched(uid, target=1 - uid)
    recorder = recorder_that_reads(lambda recorder: recorder.add(added))
    recorder.begin()
    assert recorder.noted(added.name, uid, JobMessage(RUNG, 1.0, 3, {"loss": 0.5}))
    assert recorder._notes[-1][0] is added


def test_trial_that_is_over_is_watched_no_longer() -> None:
    recorder = recorder_that_reads(lambda _: None)
    recorder.add(watched(1))
    recorder.begin()
    assert not recorder.noted("s-1", 1, JobMessage(RUNG, 1.0, 1, {}))

"""Rungs as a trial sees them from inside."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.client import sweep_rungs
from weir.client.sweep_rungs import SweepRungs
from weir.sweeps.trial_message import results_in

VARIABLES = {"WEIR_SWEEP_METRIC": "loss", "WEIR_SWEEP_RUNG": "3", "WEIR_SWEEP_RUNGS": "1,3,9"}


@pytest.fixture
def handled() -> Iterator[None]:
    """SIGTERM handled, as by a script that saves its state."""
    before = signal.signal(signal.SIGTERM, lambda _signal, _frame: None)
    yield
    signal.signal(signal.SIGTERM, before)


def test_rung_is_reached_by_a_report_of_the_metric_at_its_step_or_later() -> None:
    rungs = SweepRungs(VARIABLES)
    assert not rungs.report(2, {"loss": 1.0})
    assert not rungs.report(3, {"accuracy": 1.0})
    assert not rungs.report(None, {"loss": 1.0})
    assert not rungs.is_reached
    assert rungs.report(4, {"loss": float("nan")})
    assert rungs.is_reached
    assert not rungs.report(8, {"loss": 1.0})
    assert rungs.report(10, {"loss": 1.0})


@pytest.mark.parametrize("variables", [{}, {**VARIABLES, "WEIR_SWEEP_RUNGS": "one"}])
def test_without_a_sweep_nothing_is_reached(variables: dict[str, str]) -> None:
    rungs = SweepRungs(variables)
    assert not rungs.report(3, {"loss": 1.0, "": 1.0})
    assert not rungs.is_reached
    rungs.saved(3)
    rungs.await_notice(lambda: False)  # returns at once


def test_script_that_never_asks_waits_for_its_notice_once_it_has_saved(handled: None) -> None:
    looks = 0

    def has_notice() -> bool:
        nonlocal looks
        looks += 1
        return looks >= 3

    rungs = SweepRungs(VARIABLES)
    rungs.report(3, {"loss": 1.0})
    rungs.await_notice(has_notice)
    assert looks == 0  # it isn't saved
    rungs.saved(3)
    rungs.await_notice(has_notice)
    assert looks == 3
    rungs.await_notice(has_notice)
    assert looks == 3  # once


def test_state_saved_before_the_report_counts(handled: None) -> None:
    rungs = SweepRungs(VARIABLES)
    rungs.saved(3)
    rungs.report(3, {"loss": 1.0})
    looked = []
    rungs.await_notice(lambda: bool(looked.append(1)) or True)
    assert looked


def test_script_that_asks_never_waits() -> None:
    rungs = SweepRungs(VARIABLES)
    rungs.report(3, {"loss": 1.0})
    assert rungs.is_reached
    rungs.saved(3)
    rungs.await_notice(lambda: pytest.fail("it waits"))


def test_it_goes_on_if_its_pool_does_not_answer(handled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_rungs, "NOTICE_S_MAX", 0.1)
    rungs = SweepRungs(VARIABLES)
    rungs.report(3, {"loss": 1.0})
    rungs.saved(3)
    before = time.monotonic()
    rungs.await_notice(lambda: False)
    assert time.monotonic() - before >= 0.1


def test_nothing_waits_at_the_last_rung() -> None:
    rungs = SweepRungs({**VARIABLES, "WEIR_SWEEP_RUNG": "9"})
    assert rungs.report(9, {"loss": 1.0})
    rungs.saved(9)
    rungs.await_notice(lambda: pytest.fail("it waits"))


def test_results_go_into_the_termination_message(tmp_path: Path) -> None:
    message = tmp_path / "message"
    rungs = SweepRungs({**VARIABLES, "WEIR_SWEEP_MESSAGE": str(message)})
    assert rungs.report(3, {"loss": 0.5})
    assert results_in(message.read_text()) == [(3, 0.5)]
    assert not rungs.report(4, {"loss": 0.4})
    assert rungs.report(9, {"loss": float("nan")})
    assert results_in(message.read_text()) == [(3, 0.5), (9, None)]


def test_script_that_never_asks_ends_by_itself_on_a_cluster(tmp_path: Path) -> None:
    rungs = SweepRungs({**VARIABLES, "WEIR_SWEEP_MESSAGE": str(tmp_path / "message")})
    rungs.report(3, {"loss": 0.5})
    rungs.await_notice(lambda: False)
    rungs.saved(3)
    with pytest.raises(SystemExit) as ended:
        rungs.await_notice(lambda: False)
    assert ended.value.code == 0


def test_a_trial_on_a_cluster_ends_when_it_trains_on_after_the_last_rung(tmp_path: Path) -> None:
    message = tmp_path / "message"
    rungs = SweepRungs({**VARIABLES, "WEIR_SWEEP_RUNG": "9", "WEIR_SWEEP_MESSAGE": str(message)})
    assert rungs.report(9, {"loss": 1.0})
    assert not rungs.report(9, {"loss": 0.9}), "a second report of the last rung"
    assert not rungs.report(10, {"accuracy": 0.5}), "another metric"
    with pytest.raises(SystemExit) as ended:
        rungs.report(10, {"loss": 0.8})
    assert ended.value.code == 0
    assert results_in(message.read_text()) == [(9, 1.0)]


def test_a_pool_stops_a_trial_that_trains_on_after_the_last_rung() -> None:
    rungs = SweepRungs({**VARIABLES, "WEIR_SWEEP_RUNG": "9"})
    assert rungs.report(9, {"loss": 1.0})
    assert not rungs.report(10, {"loss": 0.8})


def test_a_message_that_can_not_be_written_fails_no_trial(tmp_path: Path) -> None:
    rungs = SweepRungs({**VARIABLES, "WEIR_SWEEP_MESSAGE": str(tmp_path / "none" / "message")})
    assert rungs.report(3, {"loss": 0.5})

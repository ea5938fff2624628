"""The control thread steps when something happened, and not more often than it is to."""

import time
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from weir.service.control_thread import BeginAgain, ControlThread, ControlUnavailable


class _Control:
    """Counts its steps, and knows what had happened by the last one."""

    wakes_s = None
    cluster = None

    def __init__(self) -> None:
        self.began_s: list[float] = []
        self.happened = 0
        self.taken_in = 0

    def step(self) -> None:
        self.began_s.append(time.monotonic())
        self.taken_in = self.happened


class _House:
    def __init__(self, control: _Control) -> None:
        self._control = control

    def connect(self) -> Any:
        return self._control

    def before_step(self, now_s: float) -> None:
        """Nothing."""

    def after_step(self, control: Any, now_s: float) -> None:
        """Nothing."""

    def on_idle(self, control: Any, now_s: float) -> float | None:
        return None


def test_steps_keep_their_distance_and_miss_nothing() -> None:
    control, now_s = _Control(), [0.0]
    turns = ControlThread(_House(control), lambda: now_s[0], between_s=0.1)
    turns.start()
    try:
        until(lambda: len(control.began_s) == 1)
        for at_s, steps in ((0.0, 2), (0.05, 2), (0.1, 3), (0.15, 3)):
            now_s[0] = at_s
            for _ in range(50):
                control.happened += 1
                turns.wake()
                time.sleep(0.001)
            until(lambda steps=steps: len(control.began_s) >= steps)
            assert len(control.began_s) == steps
        now_s[0] = 0.25
        until(lambda: control.taken_in == control.happened)
    finally:
        turns.close()
    assert len(control.began_s) == 4


def test_a_fact_after_a_pause_and_the_next_one_are_taken_in_at_once() -> None:
    control, now_s = _Control(), [0.0]
    turns = ControlThread(_House(control), lambda: now_s[0], between_s=0.1)
    turns.start()
    try:
        until(lambda: len(control.began_s) == 1)
        now_s[0] = 5.0
        for turn in range(2):
            control.happened += 1
            turns.wake()
            until(lambda turn=turn: len(control.began_s) == turn + 2)
        assert control.taken_in == control.happened
    finally:
        turns.close()


def until(true: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 120.0
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.001)


class _Outgrown(_House):
    """Has one control replaced."""

    def __init__(self, *controls: _Control) -> None:
        super().__init__(controls[0])
        self._left = list(controls)

    def connect(self) -> Any:
        return self._left.pop(0)

    def before_step(self, now_s: float) -> None:
        if len(self._left) == 1 and self._control.began_s:
            raise BeginAgain


def test_another_control_takes_over_where_a_step_says_so_without_a_pause() -> None:
    first, second = _Control(), _Control()
    turns = ControlThread(_Outgrown(first, second), time.time)
    turns.start()
    try:
        deadline_s = time.monotonic() + 120.0
        while not second.began_s and time.monotonic() < deadline_s:
            turns.wake()
            time.sleep(0.001)
        assert turns.failure is None
    finally:
        turns.close()
    assert len(first.began_s) == 1
    assert second.began_s


class _Slow(_Control):
    """Takes facts in at the beginning of a step, and goes on until it may end."""

    cluster: Any = "cluster"

    def __init__(self) -> None:
        super().__init__()
        self.began, self.may_end = Event(), Event()

    def step(self) -> None:
        super().step()
        self.began.set()
        assert self.may_end.wait(120.0)


def test_query_during_a_step_waits_for_the_facts_before_it() -> None:
    control = _Slow()
    turns = ControlThread(_House(control), time.time)
    turns.start()
    try:
        assert control.began.wait(120.0)
        control.happened += 1
        turns.wake()
        answer = turns.query(lambda _: control.taken_in)
        control.may_end.set()
        assert answer.result(120.0) == 1
    finally:
        control.may_end.set()
        turns.close()


def test_closed_thread_answers_no_query() -> None:
    turns = ControlThread(_House(_Slow()), time.time)
    turns.close()
    with pytest.raises(ControlUnavailable):
        turns.query(lambda _: None).result(120.0)

"""The timeline goes on evenly, whatever the wall clock is set to."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from weir.control.clock import Clock
from weir.local.records import persistent_clock, pod_files

YEAR_S = 365.25 * 86400.0
DAY_S = 86400.0
NOW_S = 1_700_000_000.0


@dataclass
class Machine:
    """Two clocks: one that anyone may set, and one since boot."""

    wall_s: float = NOW_S
    boot_s: float = 100.0
    jumps: list[float] = field(default_factory=list)

    def passes(self, seconds: float) -> None:
        self.wall_s += seconds
        self.boot_s += seconds

    def wall(self) -> float:
        return self.wall_s

    def boot(self) -> float:
        return self.boot_s

    def clock(self) -> Clock:
        return Clock(wall=self.wall, boot=self.boot, jumped=self.jumps.append)

    def resumed(self, home: Path, least_s: float | None = None) -> Clock:
        return persistent_clock.resume(
            home, least_s=least_s, wall=self.wall, boot=self.boot, jumped=self.jumps.append
        )


@pytest.mark.parametrize("seed", range(20))
def test_time_passes_evenly_while_the_wall_clock_jumps(seed: int) -> None:
    chance, machine = random.Random(seed), Machine()
    clock = machine.clock()
    began_s, passed_s = clock(), 0.0
    for _ in range(100):
        machine.wall_s += chance.choice([-1, 1]) * chance.choice([1.0, 60.0, 3600.0, 86400.0, 10 * YEAR_S])
        step_s = chance.uniform(0.0, 100.0)
        machine.passes(step_s)
        passed_s += step_s
        assert clock() - began_s == pytest.approx(passed_s, abs=1e-3)
        assert clock.on_wall(clock()) == pytest.approx(machine.wall_s, abs=1e-3)
        assert clock.from_wall(machine.wall_s) == pytest.approx(clock(), abs=1e-3)


def test_a_suspended_machine_counts() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.passes(3600.0)
    assert clock() == NOW_S + 3600.0
    assert clock.ahead_s == 0.0


def test_a_jump_is_reported_once_and_noise_never() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_s += 0.05
    assert clock.ahead_s == 0.0
    machine.wall_s += 86400.0
    for _ in range(3):
        assert clock.ahead_s == pytest.approx(86400.05)
    machine.wall_s -= 86400.05
    assert [clock.ahead_s for _ in range(2)] == [0.0, 0.0]
    assert [round(jump) for jump in machine.jumps] == [86400, -86400]


def test_a_reading_that_was_interrupted_is_no_jump() -> None:
    machine = Machine()

    def slow_wall() -> float:
        machine.passes(5.0)
        return machine.wall_s

    clock = Clock(wall=slow_wall, boot=machine.boot, jumped=machine.jumps.append)
    assert clock.ahead_s == 0.0
    assert machine.jumps == []


@pytest.mark.parametrize("jump_s", [0.0, 1.0, -1.0, 86400.0, -86400.0, 10 * YEAR_S, -10 * YEAR_S])
def test_over_a_restart_of_the_server_no_time_is_lost_or_won(tmp_path: Path, jump_s: float) -> None:
    machine = Machine()
    before = machine.resumed(tmp_path)
    persistent_clock.keep(tmp_path, before, boot=machine.boot)
    machine.passes(30.0)
    machine.wall_s += jump_s
    after = machine.resumed(tmp_path, least_s=NOW_S + 10.0)
    assert after() == pytest.approx(NOW_S + 30.0)
    assert after.until_s is None
    assert after.on_wall(after()) == pytest.approx(machine.wall_s)


@pytest.mark.parametrize(
    ("away_s", "counted_s"),
    [(600.0, 600.0), (-86400.0, 0.0), (10 * YEAR_S, persistent_clock.AWAY_S_MAX), (-40 * YEAR_S, 0.0)],
)
def test_over_a_reboot_the_wall_clock_counts_within_bounds(
    tmp_path: Path, away_s: float, counted_s: float, other_boot: Callable[[], None]
) -> None:
    machine = Machine()
    persistent_clock.keep(tmp_path, machine.resumed(tmp_path), boot=machine.boot)
    other_boot()
    machine.boot_s = 3.0
    machine.wall_s += away_s
    after = machine.resumed(tmp_path)
    assert after() == pytest.approx(NOW_S + counted_s)
    assert after.until_s == NOW_S
    assert after.on_wall(after()) == pytest.approx(machine.wall_s)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"boot": 1}', "\0", '{"boot":"x","boot_s":1e999}',
        '{"boot":"x","boot_s":1.0,"at_s":1e300,"wall_s":1.0}', '{"boot":"x","boot_s":1.0,"at_s":-5.0,"wall_s":1.0}',
    ],
)  # fmt: skip
def test_a_file_that_says_nothing_begins_at_the_wall_clock_or_after_what_is_known(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / persistent_clock.FILE).write_text(text)
    assert Machine().resumed(tmp_path)() == NOW_S
    assert Machine().resumed(tmp_path, least_s=NOW_S + 5.0)() == NOW_S + 5.0


@pytest.mark.parametrize(("away_s", "set_back_s", "left_out_s"), [
    (600.0, 0.0, 0.0), (30 * DAY_S, 0.0, 23 * DAY_S), (-30 * DAY_S, 0.0, 0.0), (10 * YEAR_S, 10 * YEAR_S, 0.0),
    (30 * DAY_S, 3600.0, 23 * DAY_S - 3600.0), (-30 * DAY_S, -33 * DAY_S, 3 * DAY_S), (-DAY_S, -3600.0, 0.0),
])  # fmt: skip
@pytest.mark.parametrize("while_down", [False, True])
def test_time_off_that_is_left_out_is_known_over_restarts(
    tmp_path: Path,
    away_s: float,
    set_back_s: float,
    left_out_s: float,
    while_down: bool,
    other_boot: Callable[[], None],
) -> None:
    machine = Machine()
    persistent_clock.keep(tmp_path, machine.resumed(tmp_path), boot=machine.boot)
    other_boot()
    machine.boot_s = 3.0
    machine.wall_s += away_s
    clock = machine.resumed(tmp_path)
    for turn in range(3):
        if not while_down or turn == 0:
            persistent_clock.keep(tmp_path, clock, boot=machine.boot)
        if turn == 0:
            machine.wall_s -= set_back_s
        if while_down or turn == 1:
            clock = machine.resumed(tmp_path)
        assert clock.with_time_off() - clock() == pytest.approx(left_out_s, abs=1e-3)


def test_clock_that_was_behind_at_the_boot_tells_the_time_off_once_it_is_right(
    tmp_path: Path, other_boot: Callable[[], None]
) -> None:
    """The battery of a clock may be empty: it is set some time after the boot, perhaps wrongly first."""
    machine = Machine()
    persistent_clock.keep(tmp_path, machine.resumed(tmp_path), boot=machine.boot)
    other_boot()
    machine.wall_s -= YEAR_S
    clock = machine.resumed(tmp_path)
    steps = [(YEAR_S + DAY_S, DAY_S), (10 * DAY_S, 11 * DAY_S), (-9 * DAY_S, 2 * DAY_S), (-YEAR_S, 0.0)]
    for set_forward_s, off_s in steps:
        machine.wall_s += set_forward_s
        assert clock.with_time_off() - clock() == pytest.approx(off_s, abs=1e-3)
    machine.wall_s += YEAR_S
    assert clock.with_time_off() - clock() == pytest.approx(2 * DAY_S, abs=1e-3)
    assert clock() == pytest.approx(NOW_S)


def test_wall_clock_that_is_set_forward_is_no_time_off() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall_s += 10 * YEAR_S
    assert clock.with_time_off() == clock()


@pytest.fixture
def other_boot(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(pod_files, "_boot", "another")

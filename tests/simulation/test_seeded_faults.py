"""Small simulations under faults; each is one test, and its name the way to replay it.

WEIR_EFFORT multiplies the number of seeds; `make soak` goes on until one fails.
"""

import random

import pytest
from tests.properties.budget import EFFORT

from weir.engine.cycle import decide as engine

from .random_case import case
from .reference_scheduler import first_fit
from .simulate import Simulation, endure

SEEDS = range(30 * EFFORT)
SEEDS_OF_CONTROL = range(1000, 1000 + 10 * EFFORT)
SEEDS_TWICE = range(5)
SEEDS_OF_JUMPS = range(2000, 2006)
JUMPS_S = (1.0, 60.0, 3600.0, 86_400.0, 10 * 365 * 86_400.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_always_true(seed: int) -> None:
    """The engine behind the control loop, in a world in which things go wrong; one seed is one run, event for event."""
    log = endure(seed).log
    if seed in SEEDS_TWICE:
        assert endure(seed).log == log


@pytest.mark.parametrize("seed", SEEDS_OF_CONTROL)
def test_control_with_the_simplest_engine(seed: int) -> None:
    """Control and the simulated cluster work without the engine's decisions."""
    endure(seed, first_fit)


@pytest.mark.parametrize("seed", SEEDS_OF_JUMPS)
def test_jumps_of_the_wall_clock_change_nothing(seed: int) -> None:
    """The wall clock is set by a second to ten years, either way, at random moments: the same story."""
    chance = random.Random(seed)
    ahead_s = 0.0

    def wall(now_s: float) -> float:
        nonlocal ahead_s
        if chance.random() < 0.5:
            ahead_s += chance.choice((-1, 1)) * chance.choice(JUMPS_S) * chance.random()
        return now_s + ahead_s

    jumped = Simulation(case(seed), engine, wall=wall)
    jumped.run()
    assert jumped.jumps
    assert jumped.story.log == endure(seed).log

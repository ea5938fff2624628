"""Hundreds of small simulations under faults; each is one test, and its name the way to replay it."""

import pytest

from .ordeal import endure
from .standin import first_fit

SEEDS = range(200)
SEEDS_OF_CONTROL = range(1000, 1060)
SEEDS_TWICE = range(5)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_always_true(seed: int) -> None:
    """The engine behind the control loop, in a world in which things go wrong."""
    endure(seed)


@pytest.mark.parametrize("seed", SEEDS_OF_CONTROL)
def test_control_with_the_simplest_engine(seed: int) -> None:
    """What control and the world do by themselves doesn't hang on the engine."""
    endure(seed, first_fit)


@pytest.mark.parametrize("seed", SEEDS_TWICE)
def test_same_seed_same_story(seed: int) -> None:
    """One seed is one run, event for event."""
    assert endure(seed).log == endure(seed).log

"""Samplers: the parameters of the next trial, from the trials so far.

Random and grid need no package. The others are Optuna's (`weir.sweeps.optuna_samplers`); its study is made
of the recorded trials for each question, so nothing but the records has to survive. The seed of a question
is that of the sweep with the number of the trial: the same records give the same parameters.
"""

import random
from collections.abc import Sequence

from weir.sweeps.parameters import SweepParameter, Values
from weir.sweeps.past_trials import PastTrial, SamplerUnavailable, Suggested

OPTUNA_SAMPLERS = ("tpe", "gp", "cmaes")


def suggest(
    sampler: str, space: Sequence[SweepParameter], seed: int, number: int, past: Sequence[PastTrial]
) -> Suggested:
    """Return the parameters of the trial with a number.

    Raises:
        SamplerUnavailable: a package is missing.
    """
    if sampler == "random":
        return Suggested(random_point(space, seed, number))
    if sampler == "grid":
        return Suggested(grid_point(space, seed, number))
    from weir.sweeps.optuna_samplers import suggest_with_optuna

    return suggest_with_optuna(sampler, space, seed, number, past)


def check_sampler(sampler: str) -> None:
    """Check that the packages of a sampler are installed.

    Raises:
        SamplerUnavailable: a package is missing; the sentence has the remedy.
    """
    if sampler in OPTUNA_SAMPLERS:
        try:
            from weir.sweeps.optuna_samplers import check_packages
        except ImportError:
            raise SamplerUnavailable(
                f"sampler {sampler} needs Optuna where the pool's server runs: pip install 'weir[sweep]', "
                "or write sampler random or grid"
            ) from None
        check_packages(sampler)


def random_point(space: Sequence[SweepParameter], seed: int, number: int) -> Values:
    """Return the point of a trial, drawn independently of all others."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - no secret
    return {parameter.name: parameter.value_at(chance.random()) for parameter in space}


def grid_point(space: Sequence[SweepParameter], seed: int, number: int) -> Values:
    """Return the point of a trial in the grid, whose points come in random order."""
    points = [parameter.points() for parameter in space]
    assert all(choices is not None for choices in points)
    sizes = [len(choices or ()) for choices in points]
    total = 1
    for size in sizes:
        total *= size
    order = random.Random(seed)  # noqa: S311 - no secret
    rest = order.sample(range(total), number + 1)[number]
    values = {}
    for parameter, choices, size in zip(space, points, sizes, strict=True):
        rest, position = divmod(rest, size)
        values[parameter.name] = (choices or ())[position]
    return values

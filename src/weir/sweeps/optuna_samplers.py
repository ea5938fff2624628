"""Optuna's samplers over the recorded trials of a sweep."""

import logging
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from zlib import crc32

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState, create_trial

from weir.sweeps.parameters import Scale, SweepParameter
from weir.sweeps.past_trials import PastTrial, SamplerUnavailable, Suggested

BEST_MAX, LATEST_MAX = 75, 175
"""Trials that a sampler learns from: the best at the highest rungs, and the latest of the others."""
POINTS_MIN = 4
"""Trials at a rung, for each parameter, from which on their values are learned from."""
_PACKAGES = {"gp": ("torch",), "cmaes": ("cmaes",)}
_WORST = 1e300
"""Value of a trial whose metric was no finite number: Optuna refuses infinities."""


def check_packages(sampler: str) -> None:
    """Check that the further packages of a sampler are installed.

    Raises:
        SamplerUnavailable: a package is missing.
    """
    for package in _PACKAGES.get(sampler, ()):
        if find_spec(package) is None:
            raise SamplerUnavailable(
                f"sampler {sampler} needs {package} where the pool's server runs: pip install {package}, "
                "or write sampler tpe"
            )


def suggest_with_optuna(
    sampler: str, space: Sequence[SweepParameter], seed: int, number: int, past: Sequence[PastTrial]
) -> Suggested:
    """Return the parameters of the next trial as a sampler of Optuna suggests them."""
    optuna.logging.set_verbosity(logging.WARNING)
    distributions = {parameter.name: distribution(parameter) for parameter in space}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study(sampler=_sampler(sampler, _seed(seed, number)))
        learned = _study_of(sampler, _chosen(past), len(space))
        study.add_trials([_frozen(*recorded, distributions) for recorded in learned])
        trial = study.ask(distributions)
    state = {
        name: value
        for name, value in study.trials[-1].system_attrs.items()
        if name.startswith("cma:") and isinstance(value, str | int)
    }
    return Suggested(dict(trial.params), state)


def distribution(parameter: SweepParameter) -> BaseDistribution:
    """Return Optuna's distribution of a parameter."""
    if parameter.scale is Scale.CHOICE:
        return CategoricalDistribution(parameter.choices)
    if parameter.scale.is_whole:
        low, high, step = int(parameter.low), int(parameter.high), int(parameter.step or 1)
        return IntDistribution(low, high, log=parameter.scale.is_log, step=step)
    return FloatDistribution(parameter.low, parameter.high, log=parameter.scale.is_log, step=parameter.step)


def _seed(seed: int, number: int) -> int:
    return crc32(f"{seed}/{number}".encode())


def _sampler(name: str, seed: int) -> BaseSampler:
    if name == "tpe":
        return TPESampler(seed=seed, constant_liar=True)
    if name == "gp":
        return GPSampler(seed=seed, deterministic_objective=False)
    return CmaEsSampler(seed=seed, warn_independent_sampling=False)


def _chosen(past: Sequence[PastTrial]) -> Sequence[PastTrial]:
    """Return the trials to learn from, in the order of their numbers: more take longer to learn from."""
    if len(past) <= BEST_MAX + LATEST_MAX:
        return past

    def rank(index: int) -> tuple[int, float, int]:
        results = past[index].results
        return (-max(results, default=0), results[max(results)] if results else 0.0, index)

    best = sorted(range(len(past)), key=rank)[:BEST_MAX]
    others = sorted(set(range(len(past))).difference(best))[-LATEST_MAX:]
    return [past[index] for index in sorted([*best, *others])]


def _study_of(
    sampler: str, past: Sequence[PastTrial], dimensions: int
) -> Iterator[tuple[PastTrial, TrialState, float | None]]:
    """Yield the trials with their states and values in the study.

    TPE compares trials of different rungs by their intermediate values. The others need values that compare:
    CMA-ES those of the first rung, GP those of the highest rung that enough trials have reached.
    """
    step: int | None = None
    if sampler != "tpe":
        steps = Counter(step for trial in past for step in trial.results)
        enough = [step for step, count in steps.items() if count >= POINTS_MIN * dimensions]
        step = min(steps, default=None) if sampler == "cmaes" or not enough else max(enough)
    for trial in past:
        results = trial.results
        if step is not None and step in results:
            yield trial, TrialState.COMPLETE, results[step]
        elif not results:
            yield trial, TrialState.FAIL if trial.is_over else TrialState.RUNNING, None
        elif sampler == "tpe":
            state = TrialState.COMPLETE if trial.is_complete else TrialState.PRUNED
            yield trial, state, results[max(results)]


def _frozen(
    trial: PastTrial, state: TrialState, value: float | None, distributions: Mapping[str, BaseDistribution]
) -> FrozenTrial:
    """Return a recorded trial as Optuna has it."""
    return create_trial(
        state=state,
        value=None if value is None else min(value, _WORST),
        params=dict(trial.params),
        distributions=dict(distributions),
        intermediate_values={step: min(result, _WORST) for step, result in trial.results.items()},
        system_attrs=dict(trial.state),
    )

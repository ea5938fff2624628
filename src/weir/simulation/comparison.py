"""Comparison of alternatives, each replayed with several seeds: differences count beyond their spread."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.model.policy import Policy
from weir.model.resources import span
from weir.model.scenario import Scenario
from weir.simulation.alternatives import Alternative
from weir.simulation.job_trace import JobTrace
from weir.simulation.metrics import Json
from weir.simulation.replay import replay

BASE = "as it is"
MEASURES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("wait", "mean wait", ("first_start_wait_mean_s",)),
    ("completion", "mean time to completion", ("jct_mean_s",)),
    ("entitled_wait", "mean wait for own quota", ("entitled", "wait_mean_s")),
    ("preemptions", "number of preemptions", ("preemptions",)),
    ("lost_gpu_hours", "lost GPU-hours", ("lost_gpu_hours",)),
    ("allocation", "allocation", ("allocation",)),
)
"""Compared numbers: the key, the words, and the place in the numbers of a replay."""
_OF_PROJECT = ("wait", "completion", "entitled_wait", "preemptions")
_BETTER_BY = 0.05
"""Part by which a wait must change before the verdict names it."""


@dataclass(frozen=True, slots=True)
class ReplayedAlternative:
    """The numbers of an alternative, one object for each seed."""

    alternative: Alternative | None
    runs: Sequence[Json]

    @property
    def name(self) -> str:
        """Return the name of the alternative."""
        return BASE if self.alternative is None else self.alternative.name


def replay_all(
    variants: Sequence[tuple[Alternative | None, Scenario, Policy]],
    job_traces: Sequence[JobTrace],
    seeds: int,
    progress: Callable[[float], None] | None = None,
) -> list[ReplayedAlternative]:
    """Replay every variant with every seed. Equal seeds mean equal jobs."""
    total, done, replayed = len(variants) * seeds, 0, []
    for alternative, scenario, policy in variants:
        runs = []
        for seed in range(1, seeds + 1):
            begun = done

            def told(part: float, begun: int = begun) -> None:
                if progress is not None:
                    progress((begun + part) / total)

            runs.append(replay(scenario, job_traces, policy, seed=seed, progress=told).numbers)
            done += 1
        replayed.append(ReplayedAlternative(alternative, runs))
    return replayed


def compared(replayed: Sequence[ReplayedAlternative]) -> Json:
    """Return the comparison: numbers with their spread, differences beyond it, and a verdict."""
    base = replayed[0]
    return {
        "jobs": base.runs[0]["jobs"],
        "seeds": len(base.runs),
        "alternatives": [_alternative(variant, base) for variant in replayed],
        "verdict": verdict(replayed),
    }


def verdict(replayed: Sequence[ReplayedAlternative]) -> str:
    """Return one sentence: the alternative that cuts the mean wait most, or that none does."""
    base, *others = replayed
    if not others:
        return "There is no alternative to compare."
    own = _spread(base, MEASURES[0][2])
    changes = [
        (variant, spread)
        for variant in others
        if (spread := _spread(variant, MEASURES[0][2])) is not None
        and own is not None
        and _differs(own, spread)
    ]
    changes.sort(key=lambda change: change[1]["mean"])
    assert own is not None
    for variant, spread in changes:
        if spread["mean"] < own["mean"] * (1 - _BETTER_BY):
            return _sentence(variant, "cut", "cuts", own["mean"], spread["mean"])
    for variant, spread in reversed(changes):
        if spread["mean"] > own["mean"] * (1 + _BETTER_BY):
            return _sentence(variant, "raise", "raises", own["mean"], spread["mean"])
    subject = (
        "No alternative changes" if len(others) > 1 else _says(others[0], "don't change", "doesn't change")
    )
    return f"{subject} the mean wait ({_time(own['mean'])}) beyond the spread of {len(base.runs)} seeds."


def _says(variant: ReplayedAlternative, plural: str, singular: str) -> str:
    assert variant.alternative is not None
    return f"{variant.alternative.subject} {plural if variant.alternative.is_plural else singular}"


def _sentence(variant: ReplayedAlternative, plural: str, singular: str, own: float, mean: float) -> str:
    return f"{_says(variant, plural, singular)} the mean wait from {_time(own)} to {_time(mean)}."


def _time(seconds: float) -> str:
    return span(round(seconds) if seconds >= 10 else round(seconds, 1))


def _value(numbers: Mapping[str, Any], path: Sequence[str]) -> float | None:
    value: Any = numbers
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def _spread(
    variant: ReplayedAlternative, path: Sequence[str], within: Sequence[str] = ()
) -> dict[str, float] | None:
    values = [value for run in variant.runs if (value := _value(run, (*within, *path))) is not None]
    if not values:
        return None
    return {"mean": sum(values) / len(values), "low": min(values), "high": max(values)}


def _differs(own: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Return True if the values of all seeds of one lie apart from those of the other."""
    return other["low"] > own["high"] or other["high"] < own["low"]


def _numbers(
    variant: ReplayedAlternative, base: ReplayedAlternative, keys: Sequence[str], within: Sequence[str] = ()
) -> dict[str, Json]:
    numbers: dict[str, Json] = {}
    for key, words, path in MEASURES:
        if key not in keys:
            continue
        own, spread = _spread(base, path, within), _spread(variant, path, within)
        if own is not None and spread is not None:
            differs = variant is not base and _differs(own, spread)
            numbers[key] = {
                **spread,
                "words": words,
                "difference": spread["mean"] - own["mean"] if differs else None,
            }
    return numbers


def _alternative(variant: ReplayedAlternative, base: ReplayedAlternative) -> Json:
    projects = base.runs[0].get("by_project")
    assert isinstance(projects, Mapping)
    return {
        "name": variant.name,
        "numbers": _numbers(variant, base, [key for key, _, _ in MEASURES]),
        "by_project": {
            name: _numbers(variant, base, _OF_PROJECT, ("by_project", name)) for name in sorted(projects)
        },
    }

"""Input and output of samplers: the trials so far, and the parameters of a new one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from weir.sweeps.parameters import Values


class SamplerUnavailable(Exception):
    """A package that the sampler needs is missing."""


@dataclass(frozen=True, slots=True)
class PastTrial:
    """A trial as a sampler sees it: its results by step, smaller is better.

    `is_complete`: it reached the last rung. `is_over`: it failed, or was stopped.
    """

    params: Values
    results: Mapping[int, float]
    is_complete: bool = False
    is_over: bool = False
    state: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suggested:
    """Parameters of a new trial, and the state that their sampler needs later."""

    params: Values
    state: Mapping[str, object] = field(default_factory=dict)

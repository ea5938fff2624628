"""Options of `weir sweep`, as fields of a sweep."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from weir.cli.options.numbers import whole_number
from weir.cli.options.option_types import Repeated
from weir.cli.submissions.submit_options import RuleOptions, WorkloadOptions


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """Search space and method of a sweep."""

    param: Repeated = ()
    """Parameter as NAME=RANGE: lr=log:1e-5..1e-1, x=float:0..1, layers=int:1..8, width=logint:16..1024 or
    opt=choice:adam,sgd. A step makes a grid: x=float:0..1:0.25. Repeat it for more parameters."""
    trials: Annotated[int | None, whole_number(1)] = None
    """Number of trials; a grid without it tries each point once."""
    rungs: str | None = None
    """Steps, between commas, at which trials are compared, such as 1,3,9,27; the last is a full training."""
    eta: Annotated[int | None, whole_number(2)] = None
    """Reduction factor: the best 1/eta of the trials at a rung go on; 4 by default."""
    metric: str | None = None
    """Name of the value in `weir.report(step=..., loss=...)` that compares trials; loss by default."""
    mode: Literal["min", "max"] | None = None
    """min if smaller values of the metric are better (the default), or max."""
    sampler: Literal["tpe", "gp", "cmaes", "random", "grid"] | None = None
    """Choice of parameters: tpe (the default), gp or cmaes by Optuna, random, or grid."""
    seed: Annotated[int | None, whole_number(0)] = None
    """Seed of the sampler; 0 by default."""
    parallel: Annotated[int | None, whole_number(1)] = None
    """Maximum number of trials that run at a time; without it, as many as the pool has GPUs for."""
    checkpoint_claim: str | None = None
    """On a cluster: PersistentVolumeClaim for the checkpoints of the trials, with a directory for each."""
    arguments: bool | None = None
    """Append --NAME=VALUE for each parameter if the command has no {NAME}; on by default."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrialRules(RuleOptions):
    """Rules of the trials of a sweep, which are always preemptible."""

    preemptible: Annotated[bool | None, Parameter(negative=())] = None
    """Allow preemption. Trials of a sweep are always preemptible, even if the file says otherwise."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrialOptions(WorkloadOptions):
    """Options of the trials of a sweep."""

    rules: TrialRules = TrialRules()


def read_sweep_options(options: SweepOptions) -> dict[str, Any]:
    """Return the given options as fields of a sweep.

    Raises:
        ValueError: an option can't be read.
    """
    given = {
        option.name: value
        for option in fields(options)
        if option.name not in ("param", "rungs") and (value := getattr(options, option.name)) is not None
    }
    if options.param:
        given["params"] = params_of(options.param)
    if options.rungs is not None:
        given["rungs"] = rungs_of(options.rungs)
    return given


def params_of(words: Sequence[str]) -> dict[str, str]:
    """Return ranges by the names of their parameters.

    Raises:
        ValueError: a word names no parameter, or one is named twice.
    """
    params: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name:
            raise ValueError(f"--param {word!r} has no name and values: write lr=log:1e-5..1e-1")
        if name in params:
            raise ValueError(f"--param {name} is given twice: leave one out")
        params[name] = text
    return params


def rungs_of(text: str) -> list[int]:
    """Return the steps of the rungs.

    Raises:
        ValueError: one is no number.
    """
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"--rungs {text!r} are no steps: write numbers such as 1,3,9,27") from None

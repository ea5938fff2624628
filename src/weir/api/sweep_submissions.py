"""Requests for hyper-parameter sweeps."""

import re
from collections.abc import Mapping
from itertools import pairwise
from math import inf
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from weir.api.submissions import Submission
from weir.api.sweeps import SamplerName, SweepDetail, TrialRow, rung_rows
from weir.scenario_io.scalars import Name
from weir.scenario_io.specs import Entry
from weir.sweeps.parameters import SweepParameter, command_length_max, grid_size, parse_parameter

TRIALS_MAX = 10_000
RUNGS_MAX = 32
COMMAND_LENGTH_MAX = 1 << 20
"""Length of the command of a trial with its values."""
STEP_MAX = 10**15
ParameterRange = Annotated[str, Field(max_length=65_536)]
_METRIC = re.compile(r"[A-Za-z_]\w*")
Rung = Annotated[int, Field(ge=1, le=STEP_MAX)]


def _metric(text: str) -> str:
    if not _METRIC.fullmatch(text):
        raise ValueError(f"{text!r} is no name of a value: write letters, digits and _, such as loss")
    return text


class SweepSubmission(Entry):
    """A sweep: ranges of parameters, rungs, and the workload that each trial runs.

    `rungs` are steps that a trial reports. The best `1/eta` of the trials at a rung go on to the next.
    Without `trials` a grid tries each point once.
    """

    name: Name | None = None
    params: Annotated[dict[str, ParameterRange], Field(min_length=1, max_length=64)]
    trials: Annotated[int, Field(ge=1, le=TRIALS_MAX)] | None = None
    rungs: Annotated[list[Rung], Field(min_length=1, max_length=RUNGS_MAX)]
    eta: Annotated[int, Field(ge=2, le=1000)] = 4
    metric: Annotated[str, Field(max_length=64), AfterValidator(_metric)] = "loss"
    mode: Literal["min", "max"] = "min"
    sampler: SamplerName = "tpe"
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    parallel: Annotated[int, Field(ge=1, le=TRIALS_MAX)] | None = None
    arguments: bool = True  # append --NAME=VALUE to a command without placeholders
    # PersistentVolumeClaim, on a cluster only
    checkpoint_claim: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    workload: Submission

    @model_validator(mode="after")
    def _check(self) -> Self:
        for low, high in pairwise(self.rungs):
            if low >= high:
                raise ValueError(
                    f"rungs: {high} doesn't come after {low}; write rising steps such as 1, 3, 9"
                )
        space = self.space()
        variables = {parameter.variable: parameter.name for parameter in space}
        if len(variables) < len(space):
            twice = next(parameter for parameter in space if variables[parameter.variable] != parameter.name)
            other = variables[twice.variable]
            raise ValueError(f"params: {twice.name} and {other} are both {twice.variable}; rename one")
        if command_length_max(self.workload.command, space, arguments=self.arguments) > COMMAND_LENGTH_MAX:
            raise ValueError(
                f"workload.command: is longer than {COMMAND_LENGTH_MAX:,} characters with the values of a "
                "trial; put long parts into a file"
            )
        if self.sampler == "grid":
            size = grid_size(space)
            if size > TRIALS_MAX and self.trials is None:
                raise ValueError(
                    f"params: the grid has {size:,} points; write at most {TRIALS_MAX:,} as trials"
                )
        elif self.trials is None:
            raise ValueError(f"trials: how many is missing; sampler {self.sampler} has no end of its own")
        return self

    def space(self) -> list[SweepParameter]:
        """Return the parameters.

        Raises:
            ValueError: one can't be read.
        """
        parameters = []
        for name, text in self.params.items():
            try:
                parameters.append(parse_parameter(name, text))
            except ValueError as error:
                raise ValueError(f"params.{name}: {error}") from None
        return parameters

    @property
    def trials_max(self) -> int:
        """Return the maximum number of trials."""
        if self.sampler == "grid":
            size = grid_size(self.space())
            return size if self.trials is None else min(size, self.trials)
        assert self.trials is not None
        return self.trials

    def loss(self, value: float | None) -> float:
        """Return a value of the metric as a loss: smaller is better, and no number is the worst."""
        if value is None:
            return inf
        return value if self.mode == "min" else -value

    def detail(self, line: Mapping[str, Any], trials: list[TrialRow]) -> SweepDetail:
        """Return all details of a sweep from the fields of its line and the rows of its trials."""
        return SweepDetail(
            **line,
            params=dict(self.params),
            rungs=list(self.rungs),
            eta=self.eta,
            sampler=self.sampler,
            seed=self.seed,
            parallel=self.parallel,
            command=list(self.workload.command),
            rung_rows=rung_rows(self.rungs, self.mode, trials),
            trial_rows=trials,
        )

"""Answers about hyper-parameter sweeps."""

from collections.abc import Sequence
from typing import Literal

from weir.api.workload_list import Answer, Page, PointInTime, Shown

SweepState = Literal["running", "finished", "stopped", "failed"]
TrialState = Literal["pending", "running", "parked", "suspended", "succeeded", "failed", "stopped", "deleted"]
SamplerName = Literal["tpe", "gp", "cmaes", "random", "grid"]
Value = float | int | str | bool


class RungValue(Answer):
    """Result of a trial at a rung. `value` None: its metric was no finite number there."""

    rung: int  # step
    step: int  # reported step: that of the rung, or a later one
    value: float | None
    at_s: PointInTime
    promoted_among: int | None = None  # number of trials that had reached the rung at its promotion


class TrialRow(Answer):
    """A trial of a sweep."""

    number: int
    name: str  # name of its workload
    uid: int
    state: Shown[TrialState]
    params: dict[str, Value]
    target: int  # step of the rung that it runs to next
    results: list[RungValue] = []
    gpu_hours: float = 0.0
    command: list[str] | None = None  # on a cluster only, for the best trial
    checkpoints: str | None = None  # on a cluster only, for the best trial


class RungRow(Answer):
    """A rung of a sweep: trials that reached it, were promoted from it, and wait at it."""

    rung: int
    reached: int
    promoted: int
    parked: int
    best: float | None = None


def rung_rows(rungs: Sequence[int], mode: Literal["min", "max"], trials: Sequence[TrialRow]) -> list[RungRow]:
    """Return the rungs of a sweep, counted from the rows of its trials."""
    reached: dict[int, list[RungValue]] = {rung: [] for rung in rungs}
    for trial in trials:
        for result in trial.results:
            reached[result.rung].append(result)
    rows, choose = [], min if mode == "min" else max
    for rung, results in reached.items():
        values = [result.value for result in results if result.value is not None]
        rows.append(
            RungRow(
                rung=rung,
                reached=len(results),
                promoted=sum(result.promoted_among is not None for result in results),
                parked=sum(trial.state == "parked" and trial.target == rung for trial in trials),
                best=choose(values, default=None),
            )
        )
    return rows


class SweepRow(Answer):
    """A line of a list of sweeps."""

    name: str
    project: str
    user: str
    state: Shown[SweepState]
    sentence: str = ""  # reason of its end, or of a delay
    metric: str
    mode: Shown[Literal["min", "max"]]
    trials: int  # number of begun trials
    trials_max: int
    running: int = 0
    parked: int = 0
    best: float | None = None  # best value at any rung
    best_trial: int | None = None
    best_rung: int | None = None  # step of the rung at which it had the best result
    gpu_hours: float = 0.0
    created_s: PointInTime
    ended_s: PointInTime | None = None


class SweepPage(Page):
    """A page of sweeps, newest first."""

    items: list[SweepRow]


class SweepDeleted(Answer):
    """Result of a deletion. The workloads of the trials stay in the history."""

    name: str
    trials: int
    checkpoints_deleted: int  # number of trials with deleted checkpoints
    checkpoints_kept: int  # number of trials with kept checkpoints


class SweepDetail(SweepRow):
    """Details of a sweep, with all its trials."""

    params: dict[str, str]  # ranges as submitted
    rungs: list[int]
    eta: int
    sampler: Shown[SamplerName]
    seed: int
    parallel: int | None = None
    command: list[str]
    rung_rows: list[RungRow] = []
    trial_rows: list[TrialRow] = []

"""Answers about the sweeps of a cluster, from their objects."""

import json
from collections.abc import Container
from typing import Any

from weir.api.sweep_submissions import SweepSubmission
from weir.api.sweeps import RungValue, SweepDetail, SweepRow, SweepState, TrialRow, TrialState
from weir.cli.cluster.namespaced_objects import creator_of
from weir.kubernetes.api.object_numbers import at_s, workload_number
from weir.kubernetes.crd.sweep_objects import LIVE, PARKED, STOPPED_TRIAL, SweepObject, SweepTrial
from weir.kubernetes.sweeps.progress import SweepProgress
from weir.kubernetes.sweeps.trial_jobs import CHECKPOINTS, checkpoint_path, job_name, read_sweep
from weir.sweeps.parameters import command_of_trial

_HOUR_S = 3600.0
_STATES: dict[str, SweepState] = {"Finished": "finished", "Stopped": "stopped", "Failed": "failed"}
_TRIALS: dict[str, TrialState] = {
    PARKED: "parked",
    "succeeded": "succeeded",
    "failed": "failed",
    STOPPED_TRIAL: "stopped",
}


def sweep_row(sweep: SweepObject, running: Container[str]) -> SweepRow:
    """Return the row of a sweep; that of an unreadable sweep has the reason.

    `running` are the Jobs of its namespace whose pods are ready.
    """
    try:
        plan = read_sweep(sweep)
        _end_trials(sweep, running)
        progress = SweepProgress(plan, sweep.status.trials)
        return SweepRow(**_line(sweep, progress, running))
    except (ValueError, TypeError, AssertionError) as error:
        return SweepRow.model_validate(
            {
                **_head(sweep),
                "state": "failed",
                "sentence": f"It can't be read. {error}",
                "metric": "",
                "mode": "min",
                "trials": 0,
                "trials_max": 0,
            }
        )


def sweep_detail(sweep: SweepObject, running: Container[str]) -> SweepDetail:
    """Return all details of a sweep; `running` are the Jobs whose pods are ready.

    Raises:
        Refused: it can't be read.
    """
    from weir.cli.cluster.errors import wrong

    try:
        plan = read_sweep(sweep)
        _end_trials(sweep, running)
        progress = SweepProgress(plan, sweep.status.trials)
    except (ValueError, TypeError, AssertionError) as error:
        raise wrong(f"Sweep {sweep.metadata.key} can't be read: {error}") from None
    best = progress.best()
    trials = [
        _trial(sweep, plan, number, trial, running, is_best=best is not None and number == best.trial)
        for number, trial in enumerate(progress.trials)
    ]
    return plan.detail(_line(sweep, progress, running), trials)


def _end_trials(sweep: SweepObject, running: Container[str]) -> None:
    """Set the trials of a sweep that is over to stopped, unless they run: Weir writes their states last."""
    if sweep.status.phase not in _STATES:
        return
    for number, trial in enumerate(sweep.status.trials):
        is_running = trial.state == LIVE and _job_of(sweep, number, trial) in running
        if trial.state in (LIVE, PARKED) and not is_running:
            trial.state = STOPPED_TRIAL


def _head(sweep: SweepObject) -> dict[str, Any]:
    return {
        "name": sweep.metadata.key,
        "project": sweep.spec.project,
        "user": creator_of(sweep.spec.job_template),
        "created_s": at_s(sweep.metadata.creation_timestamp) or 0.0,
        "ended_s": at_s(sweep.status.ended_at),
    }


def _line(sweep: SweepObject, progress: SweepProgress, running: Container[str]) -> dict[str, Any]:
    best, trials = progress.best(), progress.trials
    return {
        **_head(sweep),
        "state": _STATES.get(sweep.status.phase, "running"),
        "sentence": sweep.status.message or progress.silence(),
        "metric": progress.plan.metric,
        "mode": progress.plan.mode,
        "trials": len(trials),
        "trials_max": progress.plan.trials_max,
        "running": sum(
            trial.state == LIVE and _job_of(sweep, number, trial) in running
            for number, trial in enumerate(trials)
        ),
        "parked": sum(trial.state == PARKED for trial in trials),
        "best": None if best is None else trials[best.trial].results[best.rung].value,
        "best_trial": None if best is None else best.trial,
        "best_rung": None if best is None else progress.plan.rungs[best.rung],
        "gpu_hours": sum(_gpu_hours(sweep, trial) for trial in trials),
    }


def _job_of(sweep: SweepObject, number: int, trial: SweepTrial) -> str:
    """Return the name of a trial's newest Job; a promoted trial may have no new one yet."""
    target = trial.target if trial.job else max(0, trial.target - 1)
    return job_name(sweep.metadata.name, number, target)


def _gpu_hours(sweep: SweepObject, trial: SweepTrial) -> float:
    try:
        return trial.seconds * float(sweep.spec.gpus or "0") / _HOUR_S
    except ValueError:
        return 0.0


def _trial(
    sweep: SweepObject,
    plan: SweepSubmission,
    number: int,
    trial: SweepTrial,
    running: Container[str],
    *,
    is_best: bool,
) -> TrialRow:
    params = json.loads(trial.params)
    name = _job_of(sweep, number, trial)
    state = _TRIALS.get(trial.state) or ("running" if name in running else "pending")
    command, checkpoints = None, None
    if is_best:
        command = command_of_trial(plan.workload.command, plan.space(), params, arguments=plan.arguments)
        if sweep.spec.checkpoint_claim:
            path = f"{checkpoint_path(sweep)}/{number}"
            checkpoints = f"{path} of the PersistentVolumeClaim {sweep.spec.checkpoint_claim}"
            checkpoints += f", as {CHECKPOINTS} in its container"
    return TrialRow(
        number=number,
        name=f"{sweep.metadata.namespace}/job-{name}",
        uid=workload_number(sweep.metadata.namespace, trial.job) if trial.job else 0,
        state=state,
        params=params,
        target=plan.rungs[trial.target],
        results=[
            RungValue(
                rung=plan.rungs[result.rung],
                step=result.step,
                value=result.value,
                at_s=at_s(result.at) or 0.0,
                promoted_among=result.promoted_among,
            )
            for result in trial.results
        ],
        gpu_hours=_gpu_hours(sweep, trial),
        command=command,
        checkpoints=checkpoints,
    )

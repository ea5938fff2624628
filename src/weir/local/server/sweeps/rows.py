"""Answers about sweeps, from stored records and running trials."""

from collections.abc import Sequence

from weir.api.sweeps import RungValue, SweepDetail, SweepRow, TrialRow, TrialState
from weir.api.workload_list import WorkloadRow
from weir.local.server.state.pool_state import PoolState
from weir.local.server.sweeps.live_sweep import LiveSweep, LiveTrial, params_of
from weir.store.records import SweepRecord

HOUR_S = 3600.0


def sweep_row(sweep: LiveSweep, state: PoolState) -> SweepRow:
    """Return the line of a sweep."""
    return SweepRow(**_line(sweep, state))


def unreadable_row(record: SweepRecord, why: str) -> SweepRow:
    """Return the line of a sweep whose submission can't be read."""
    return SweepRow.model_validate(
        {
            **{key: getattr(record, key) for key in ("name", "project", "user", "state")},
            **{key: getattr(record, key) for key in ("created_s", "ended_s")},
            "sentence": f"It can't be read. {why}",
            "metric": "",
            "mode": "min",
            "trials": 0,
            "trials_max": 0,
        }
    )


def sweep_detail(sweep: LiveSweep, state: PoolState) -> SweepDetail:
    """Return all details of a sweep."""
    trials = [_trial(trial, sweep.spec.rungs, state) for trial in sweep.trials]
    return sweep.spec.detail(_line(sweep, state), trials)


def _line(sweep: LiveSweep, state: PoolState) -> dict[str, object]:
    record, spec, best = sweep.record, sweep.spec, sweep.best()
    return {
        "name": record.name,
        "project": record.project,
        "user": record.user,
        "state": record.state,
        "sentence": record.sentence or sweep.trouble or _suspension(sweep, state) or _silence(sweep),
        "metric": spec.metric,
        "mode": spec.mode,
        "trials": len(sweep.trials),
        "trials_max": spec.trials_max,
        "running": sum(
            _state(trial, state.view.row_of(trial.record.uid)) == "running" for trial in sweep.trials
        ),
        "parked": len(sweep.parked),
        "best": None if best is None else sweep.trials[best.trial].results[best.rung].value,
        "best_trial": None if best is None else best.trial,
        "best_rung": None if best is None else spec.rungs[best.rung],
        "gpu_hours": sum(gpu_hours(trial, state) for trial in sweep.trials),
        "created_s": record.created_s,
        "ended_s": record.ended_s,
    }


def _suspension(sweep: LiveSweep, state: PoolState) -> str:
    """Return that a sweep waits for its suspended trials; an empty text if it has none."""
    rows = [(trial, state.view.row_of(trial.record.uid)) for trial in sweep.active]
    names = [trial.record.name for trial, row in rows if _state(trial, row) == "suspended"]
    if not names:
        return ""
    subject = f"{names[0]} is" if len(names) == 1 else f"{len(names)} trials, such as {names[0]}, are"
    return f"{subject} suspended, and it begins no other trial: `weir resume {names[0]}` lets it go on."


def _silence(sweep: LiveSweep) -> str:
    """Return that a trial has succeeded without a result; an empty text if there is a result."""
    trial = sweep.first_succeeded()
    if trial is None or sweep.best() is not None:
        return ""
    return f"{trial.record.name} has succeeded {sweep.missing_result}"


def gpu_hours(trial: LiveTrial, state: PoolState) -> float:
    """Return the GPU-hours of a trial, those of its current run included."""
    row = state.view.row_of(trial.record.uid)
    ran_s = trial.record.wall_s if row is None else row.ran_s
    return ran_s * trial.record.devices / HOUR_S


def _trial(trial: LiveTrial, rungs: Sequence[int], state: PoolState) -> TrialRow:
    row = state.view.row_of(trial.record.uid)
    return TrialRow(
        number=trial.record.plan.number,
        name=trial.record.name,
        uid=trial.record.uid,
        state=_state(trial, row),
        params=dict(params_of(trial.record)),
        target=rungs[trial.target],
        results=[
            RungValue(
                rung=rungs[rung],
                step=result.step,
                value=result.value,
                at_s=result.at_s,
                promoted_among=result.promoted_among,
            )
            for rung, result in sorted(trial.results.items())
        ],
        gpu_hours=gpu_hours(trial, state),
    )


def _state(trial: LiveTrial, row: WorkloadRow | None) -> TrialState:
    if trial.is_parked:
        return "parked"
    if trial.is_over and row is None and trial.record.state is None:
        return "deleted"
    status = trial.status if row is None else row.status  # the row is newer than the sweep's own status
    if status in ("running", "starting", "stopping"):
        return "running"
    if status == "pending" and row is not None and row.reason is not None:
        return "suspended" if row.reason.why == "suspended" else "pending"
    return status  # type: ignore[return-value]  # the others are states of trials as well

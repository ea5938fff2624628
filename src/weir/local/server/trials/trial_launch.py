"""Launch of a trial: its name, its variables, and the words in which its states are reported."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weir.api.sweep_submissions import SweepSubmission
from weir.control.journal import TrialPlan, WorkloadRecord
from weir.sweeps.parameters import PARAMETER_VARIABLES, Values, command_of_trial


@dataclass(frozen=True, slots=True)
class TrialLaunch:
    """Additions of a trial to its submission: its plan, and its variables. A rerun has no plan."""

    plan: TrialPlan | None
    environment: Mapping[str, str]


def launch_of_rerun(record: WorkloadRecord) -> TrialLaunch | None:
    """Return the parameters of a former trial for its rerun; None if the workload had none."""
    environment = {
        key: value for key, value in record.launch.environment if key.startswith(PARAMETER_VARIABLES)
    }
    return TrialLaunch(None, environment) if environment else None


def as_trial(record: WorkloadRecord, launch: TrialLaunch | None) -> WorkloadRecord:
    """Return the record of a new workload, as a trial if a sweep made it."""
    if launch is None:
        return record
    environment = {**dict(record.launch.environment), **launch.environment}
    changed = replace(record.launch, environment=tuple(sorted(environment.items())))
    sweep = None if launch.plan is None else launch.plan.sweep_name
    return replace(record, sweep=sweep, trial=launch.plan, launch=changed)


def trial_name(sweep: str, number: int) -> str:
    """Return the name of a trial's workload."""
    return f"{sweep}-{number}"


def parked_reason(sweep: str, rung: int) -> str:
    """Return the reason for which a parked trial is suspended."""
    return f"parked at rung {rung} of sweep {sweep}"


def trial_submission(
    spec: SweepSubmission, written: Mapping[str, object], sweep: str, number: int, params: Values
) -> dict[str, object]:
    """Return the submission of a trial.

    `written` is the workload of its sweep as the person wrote it.
    """
    command = command_of_trial(spec.workload.command, spec.space(), params, arguments=spec.arguments)
    raw = {key: value for key, value in written.items() if key not in ("run", "command")}
    return {**raw, "command": command, "name": trial_name(sweep, number)}

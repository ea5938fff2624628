"""`weir sweep`: hyper-parameter sweeps, begun, listed, shown, stopped and deleted."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from weir.cli.options.mistakes import option_mistakes, refusals_in
from weir.cli.options.option_types import Switch, YesSwitch
from weir.cli.options.refusals import sweep_options
from weir.cli.output.columns import Column, pairs, table
from weir.cli.output.formatting import NOTHING, counted, moment, sentence, since
from weir.cli.output.outputs import (
    NameOutput,
    OutputOption,
    ProjectOption,
    print_made,
    print_plain,
    show,
    show_one,
)
from weir.cli.output.terminal import Screen, Tone, is_agreed, plain, say, screen
from weir.cli.pool.connect import connect
from weir.cli.pool.default_project import default_project
from weir.cli.submissions.submit import in_options
from weir.cli.submissions.submit_options import WorkloadOptions, check_command
from weir.cli.sweeps.options import SweepOptions, TrialOptions, read_sweep_options
from weir.cli.workloads.list_filter import check_projects

if TYPE_CHECKING:
    from weir.api.sweeps import RungRow, SweepDetail, SweepRow, TrialRow
    from weir.client.api import Pool

app = App(name="sweep", help="Search hyper-parameters, and list, show, stop and delete sweeps.")
SweepName = Annotated[str, Parameter(help="The sweep.")]


@app.default
def begin(
    *command: Annotated[str, Parameter(show=True)],
    search: SweepOptions = SweepOptions(),
    project: ProjectOption = None,
    name: str | None = None,
    options: TrialOptions = TrialOptions(),
    file: Annotated[Path | None, Parameter(name=("--file", "-f"), allow_leading_hyphen=True)] = None,
    output: NameOutput = "name",
) -> int:
    """Begin a sweep, as in `weir sweep --param lr=log:1e-5..1 --trials 60 --rungs 1,3,9 -- python train.py`.

    Each trial runs the command with other parameters. At a rung it is parked, and the best go on from
    their checkpoints.

    Parameters
    ----------
    command
        Command of every trial: everything after --. {lr} in it becomes the value of parameter lr.
    project
        Project whose quota the trials use; $WEIR_PROJECT if left out, or your only one.
    name
        Name of the sweep; generated if left out. Trials are called NAME-0, NAME-1 and so on.
    file
        Sweep as YAML or JSON; the workload of its trials is under `workload`. Options override it.
    """
    with option_mistakes(), refusals_in(lambda text: in_options(sweep_options(text))):
        body = {} if file is None else _read(file)
        body |= read_sweep_options(search) | ({} if name is None else {"name": name})
        workload = {**body.get("workload", {}), **options.stated()}
        workload |= {"command": list(command)} if command else {}
        _check(body, workload)
        with connect(namespace=options.placement.namespace) as pool:
            if project is not None or not workload.get("project"):
                workload["project"] = default_project(pool, project, is_shown=output == "name")
            made = _begin(pool, body, workload, options)
            on_cluster = pool.address.is_cluster
    if print_made(made, output, f"sweep {plain(made.name)} is begun in {made.project}", made.name):
        _print_begun(made, has_claim="checkpoint_claim" in body, on_cluster=on_cluster)
    return 0


def _print_begun(made: "SweepDetail", *, has_claim: bool, on_cluster: bool) -> None:
    """Print hints about a new sweep on the error output."""
    trials = counted(made.trials_max, "trial")
    say(f"begun in {made.project}: {trials}, rungs {_steps(made)}")
    say(f"  weir sweep show {made.name}  shows its trials")
    if on_cluster and not has_claim:
        say("Without --checkpoint-claim, a promoted trial starts from the beginning.")


def _begin(
    pool: "Pool", body: dict[str, Any], workload: dict[str, Any], options: WorkloadOptions
) -> "SweepDetail":
    options.add_variables(workload, workload, is_local=pool.address.is_loopback)
    if workload.get("directory") and not pool.address.is_cluster:
        workload["directory"] = str(Path(workload["directory"]).absolute())
    return pool.begin_sweep({**body, "workload": workload})


def _read(file: Path) -> dict[str, Any]:
    """Return the sweep of a file.

    Raises:
        scenario.InvalidFile: it can't be read, or holds no sweep.
    """
    from weir.scenario_io.document import input_name, input_text, read_document
    from weir.scenario_io.source_map import Mistakes

    mistakes = Mistakes(input_name(file))
    body = read_document(input_text(file, mistakes), mistakes)
    if not isinstance(body, dict) or not isinstance(body.get("workload", {}), dict):
        mistakes.on(1, "holds no sweep; write keys such as params, trials, rungs and workload")
    mistakes.refuse_if_any()
    return dict(body)


def _check(body: Mapping[str, Any], workload: dict[str, Any]) -> None:
    """Check that no option is missing that every sweep needs.

    Raises:
        ValueError: an option is missing.
    """
    check_command(workload)
    if not body.get("params"):
        raise ValueError("no parameter is given: write --param lr=log:1e-5..1e-1")
    if not body.get("rungs"):
        raise ValueError(
            "no rungs are given: write the steps at which trials are compared, such as --rungs 1,3,9"
        )


# Lists


def _tone(row: "SweepRow | TrialRow") -> Tone:
    return "bad" if row.state == "failed" else "plain"


SWEEPS: "tuple[Column[SweepRow], ...]" = (
    Column("NAME", lambda row: row.name, least=8),
    Column("PROJECT", lambda row: row.project, least=6, drop=3),
    Column("USER", lambda row: row.user or "-", least=4, drop=4),
    Column("STATE", lambda row: row.state, tone=_tone),
    Column("TRIALS", lambda row: f"{row.trials}/{row.trials_max}", right=True),
    Column("RUNNING", lambda row: str(row.running), right=True, drop=2),
    Column("PARKED", lambda row: str(row.parked), right=True, drop=2),
    Column("BEST", lambda row: _value(row.best), right=True),
    Column("GPU-HOURS", lambda row: f"{row.gpu_hours:.2f}", right=True, drop=5),
    Column("AGE", lambda row: since(row.created_s), right=True, drop=1),
    Column("", lambda row: sentence(row.sentence), sentence=True, drop=6),
)
RUNGS: "tuple[Column[RungRow], ...]" = (
    Column("RUNG", lambda row: str(row.rung), right=True),
    Column("REACHED", lambda row: str(row.reached), right=True),
    Column("PROMOTED", lambda row: str(row.promoted), right=True),
    Column("PARKED", lambda row: str(row.parked), right=True),
    Column("BEST", lambda row: _value(row.best), right=True),
)


@app.command(name="list")
def list_(*, project: ProjectOption = None, output: OutputOption = "table") -> int:
    """List the sweeps of your projects, newest first.

    Parameters
    ----------
    project
        Only those of a project, or of several between commas.
    """
    with connect() as pool:
        rows = pool.sweeps(project=project)
        check_projects(pool, project, {row.project for row in rows})
    show(rows, SWEEPS, output, none="There are no sweeps. Begin one: weir sweep --help")
    return 0


@app.command(name="show")
def show_(name: SweepName, /, *, output: OutputOption = "table") -> int:
    """Show a sweep: its rungs, and its trials with their parameters and results, the best first."""
    with connect() as pool:
        sweep = pool.sweep(name)
    show_one(sweep, output, lambda display: _sweep_lines(sweep, display, wide=output == "wide"))
    return 0


def _sweep_lines(sweep: "SweepDetail", display: Screen, *, wide: bool) -> list[str]:
    state = sweep.state if not sweep.sentence else f"{sweep.state}. {sentence(sweep.sentence)}"
    facts = [
        ("Sweep", f"{sweep.name}{f' of {sweep.user}' if sweep.user else ''} in {sweep.project}"),
        ("State", state),
        ("Begun", f"{moment(sweep.created_s)}, {since(sweep.created_s)} ago"),
        ("Search", f"{sweep.sampler}, seed {sweep.seed}, {sweep.mode} {sweep.metric}, eta {sweep.eta}"),
        ("Trials", f"{sweep.trials} of {sweep.trials_max}, {sweep.gpu_hours:.2f} GPU-hours"),
        ("Command", " ".join(sweep.command)),
    ]
    lines = [*pairs(facts, display), "", *table(sweep.rung_rows, RUNGS, display)]
    if sweep.trial_rows:
        rows = sorted(sweep.trial_rows, key=lambda row: _order(row, sweep.mode))
        lines += ["", *table(rows, _trial_columns(sweep), display, wide=wide)]
    return lines


@app.command
def best(name: SweepName, /, *, output: OutputOption = "table") -> int:
    """Show the best trial of a sweep: its parameters, results, command and checkpoints."""
    with connect() as pool:
        sweep = pool.sweep(name)
        if sweep.best_trial is None:
            yet = " yet" if sweep.ended_s is None else ""
            text = f"No trial of sweep {plain(name)} has reached a rung{yet}. {sentence(sweep.sentence)}"
            print(text.rstrip(), file=sys.stderr)
            return 1
        trial = sweep.trial_rows[sweep.best_trial]
        command, checkpoints = trial.command, trial.checkpoints
        if command is None:
            workload = pool.get(f"{trial.uid}")
            command, checkpoints = workload.command, workload.checkpoints
    if output in ("json", "yaml"):
        print_plain(trial.model_dump(mode="json") | {"checkpoints": checkpoints}, output)
        return 0
    values = [f"{_value(result.value)} at rung {result.rung}" for result in trial.results]
    facts = [
        ("Trial", f"{trial.name}, {trial.state}"),
        *((name, str(value)) for name, value in trial.params.items()),
        (f"Best {sweep.metric}", f"{_value(sweep.best)} at rung {sweep.best_rung}"),
        (f"All {sweep.metric}", ", ".join(values)),
        ("Command", NOTHING if command is None else shlex.join(command)),
        ("Checkpoints", checkpoints or NOTHING),
    ]
    print("\n".join(pairs(facts, screen())))
    if trial.results[-1].rung != sweep.best_rung:
        print(
            f"\nThe trial went on to rung {trial.results[-1].rung}. Its checkpoint of rung {sweep.best_rung} "
            "is there only if the script kept it."
        )
    return 0


@app.command
def stop(name: SweepName, /) -> int:
    """Stop a sweep and its trials for good. Their checkpoints stay."""
    with connect() as pool:
        sweep = pool.stop_sweep(name)
    print(f"Sweep {plain(sweep.name)} is stopped, after {counted(sweep.trials, 'trial')}.")
    return 0


@app.command
def delete(
    name: SweepName,
    /,
    *,
    checkpoints: Switch = False,
    yes: YesSwitch = False,
) -> int:
    """Delete a sweep that is over: its parameters and its results. Its trials stay in `weir list --all`.

    On a cluster their Jobs are deleted too.

    Parameters
    ----------
    checkpoints
        Delete the checkpoints of its trials too, those of the best one included.
    yes
        Don't ask before checkpoints are deleted.
    """
    with connect() as pool:
        if checkpoints and not yes and not _is_confirmed(pool.sweep(name)):
            return 1
        deleted = pool.delete_sweep(name, checkpoints=checkpoints)
        on_cluster = pool.address.is_cluster
    trials = counted(deleted.trials, "trial")
    print(f"Sweep {plain(deleted.name)} is deleted, with parameters and results of {trials}.")
    if deleted.checkpoints_deleted:
        print(f"The checkpoints of {counted(deleted.checkpoints_deleted, 'trial')} are deleted.")
    if deleted.checkpoints_kept:
        kept = counted(deleted.checkpoints_kept, "trial")
        where = " in their PersistentVolumeClaim." if on_cluster else ": `weir checkpoints` lists them."
        print(f"The checkpoints of {kept} stay{where}")
    return 0


def _is_confirmed(sweep: "SweepDetail") -> bool:
    """Return True if a person says that checkpoints may be deleted."""
    trials = f"the checkpoints of {counted(sweep.trials, 'trial')}"
    if is_agreed(f"Delete sweep {plain(sweep.name)} and {trials}?"):
        return True
    print(f"Nothing has changed. --yes deletes the sweep and {trials}.", file=sys.stderr)
    return False


def _trial_columns(sweep: "SweepDetail") -> "list[Column[TrialRow]]":
    def param(name: str) -> "Column[TrialRow]":
        return Column(name, lambda row: _param(row.params.get(name)), right=True)

    return [
        Column("TRIAL", lambda row: row.name, least=6),
        Column("STATE", lambda row: row.state, tone=_tone),
        *(param(name) for name in sweep.params),
        Column("RUNG", lambda row: str(row.results[-1].rung) if row.results else NOTHING, right=True),
        Column(
            sweep.metric.upper(),
            lambda row: _value(row.results[-1].value) if row.results else NOTHING,
            right=True,
        ),
        Column("GPU-HOURS", lambda row: f"{row.gpu_hours:.3f}", right=True, drop=1),
    ]


def _order(row: "TrialRow", mode: str) -> tuple[float, float, int]:
    """Return the sort key of a trial: the highest rung first, then the best value."""
    last = row.results[-1] if row.results else None
    worst = last is None or last.value is None
    value = float("inf") if worst or last is None or last.value is None else last.value
    return (-last.rung if last else 0, value if mode == "min" or worst else -value, row.number)


def _param(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _value(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.6g}"


def _steps(sweep: "SweepDetail") -> str:
    return ", ".join(map(str, sweep.rungs))

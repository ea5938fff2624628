"""`weir schedule`: submissions at the times of a cron expression."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from weir.cli.options.mistakes import option_mistakes, refusals_in
from weir.cli.options.refusals import named
from weir.cli.output.columns import Column, pairs
from weir.cli.output.formatting import NOTHING, moment
from weir.cli.output.outputs import OutputOption, ProjectOption, naming, show, show_one
from weir.cli.output.terminal import plain, say
from weir.cli.pool.connect import connect
from weir.cli.pool.default_project import default_project
from weir.cli.submissions.submit import in_options
from weir.cli.submissions.submit_options import (
    ArrayOptions,
    TemplateOptions,
    WorkloadOptions,
    check_command,
)
from weir.cli.submissions.templates import filled_template
from weir.cli.workloads.list_filter import check_projects, chosen

if TYPE_CHECKING:
    from weir.api.schedules import ScheduleRow
    from weir.client.api import Pool

LOCAL_ZONE = Path("/etc/localtime")
ScheduleName = Annotated[str, Parameter(help="The schedule.")]
app = App(name="schedule", help="Queue a command at the times of a cron expression.")


@app.command
def add(
    *command: Annotated[str, Parameter(show=True)],
    cron: str,
    name: str,
    zone: str | None = None,
    concurrency: Literal["allow", "forbid", "replace"] = "allow",
    project: ProjectOption = None,
    options: WorkloadOptions = WorkloadOptions(),
    indices: ArrayOptions = ArrayOptions(),
    template: TemplateOptions = TemplateOptions(),
) -> int:
    """Create or change a schedule: `weir schedule add --cron "0 2 * * *" --name nightly -- python train.py`.

    Parameters
    ----------
    command
        Command of every run: everything after --. A template has one of its own.
    cron
        Minute, hour, day, month and weekday, such as "0 2 * * *", or @hourly, @daily, @weekly, @monthly.
    name
        Name of the schedule. Its workloads are called NAME-DATE-TIME.
    zone
        Time zone of the times, such as Europe/Zurich; that of this machine by default.
    concurrency
        While an earlier run isn't over: allow the new one beside it, forbid it, or replace the earlier one.
    project
        Project whose quota the runs use; $WEIR_PROJECT if left out, or your only one.
    """
    with option_mistakes(), refusals_in(in_options):
        namespace = options.placement.namespace
        body = filled_template(template, project, namespace)
        body.pop("name", None)  # each run has a name of its own
        words = options.stated(indices=indices) | ({"command": list(command)} if command else {})
        check_command({**body, **words})
        with connect(namespace=namespace) as pool, named(cron="--cron", zone="--zone"):
            words["project"] = default_project(pool, project or body.get("project"))
            workload = _workload(pool, body, words, options)
            before = {row.name for row in pool.schedules()}
            row = pool.set_schedule(name, cron, workload, zone=zone or local_zone(), concurrency=concurrency)
    print(f"{row.name} runs at {row.cron} ({row.zone}){_next(row)}.")
    if row.name in before:
        print(f"It replaces the former schedule {row.name}.")
    return 0


@app.command(name="list")
def list_(*, project: ProjectOption = None, output: OutputOption = "table") -> int:
    """List the schedules of your projects.

    Parameters
    ----------
    project
        Only those of this project, or of several between commas.
    """
    with connect() as pool:
        rows = [row for row in pool.schedules() if chosen(project, row.project)]
        check_projects(pool, project, {row.project for row in rows})
    show(rows, _COLUMNS, output, none="There is no schedule; `weir schedule add` creates one.")
    return 0


@app.command(name="show")
def show_(name: ScheduleName, /, *, output: OutputOption = "table") -> int:
    """Show a schedule: its times, its runs and its command."""
    with connect() as pool:
        row = pool.schedule(name)
    show_one(row, output, lambda display: pairs(_facts(row), display))
    return 0


def _facts(row: "ScheduleRow") -> list[tuple[str, str]]:
    """Return the settings and the runs of a schedule."""
    last = NOTHING if row.last_s is None else moment(row.last_s)
    facts = [
        ("Schedule", f"{row.name} in {row.project}"),
        ("User", row.user or NOTHING),
        ("Times", f"{row.cron} ({row.zone})"),
        ("Concurrency", row.concurrency),
        ("Next run", "suspended" if row.suspended else f"{moment(row.next_s)} here"),
        ("Last run", f"{last}: {row.last}" if row.last else last),
        ("Runs now", ", ".join(row.active) or NOTHING),
        *([("Said", row.said)] if row.said else []),
        ("Command", shlex.join(row.command)),
    ]
    return [(label, plain(text)) for label, text in facts]


@app.command
def run(name: ScheduleName, /) -> int:
    """Queue a run now, besides those at the times of the schedule. The workload's name goes to the output."""
    with connect() as pool:
        row = pool.run_schedule(name)
    workload = row.last or ""
    with naming(f"{plain(workload)} is queued in {row.project}"):
        print(workload)
    say(f"queued in {row.project} by schedule {row.name}")
    return 0


@app.command
def suspend(name: ScheduleName, /) -> int:
    """Queue nothing of a schedule until it is resumed."""
    with connect() as pool:
        row = pool.suspend_schedule(name)
    print(f"{row.name} is suspended; `weir schedule resume {row.name}` lets it go on.")
    return 0


@app.command
def resume(name: ScheduleName, /) -> int:
    """Resume a schedule with its next time. Missed runs aren't made up; a cluster starts the last one."""
    with connect() as pool:
        row = pool.resume_schedule(name)
    print(f"{row.name} goes on{_next(row)}.")
    if row.said and pool.address.is_cluster:
        print(plain(row.said))
    return 0


@app.command
def delete(name: ScheduleName, /) -> int:
    """Delete a schedule; its workloads stay."""
    with connect() as pool:
        pool.delete_schedule(name)
    print(f"Schedule {name} is deleted.")
    return 0


def local_zone() -> str:
    """Return the name of this machine's time zone; UTC if it has none."""
    named = os.environ.get("TZ", "").lstrip(":")
    if named:
        return named
    _, parted, zone = os.path.realpath(LOCAL_ZONE).partition("/zoneinfo/")
    return zone if parted else "UTC"


def _workload(
    pool: "Pool", body: dict[str, Any], words: dict[str, Any], options: WorkloadOptions
) -> dict[str, Any]:
    """Return the submission of each run, with the environment and the directory of this shell."""
    from weir.client.submissions import written

    options.add_variables(words, body, is_local=pool.address.is_loopback)
    if pool.address.is_loopback:
        directory = words.get("directory") or body.get("directory") or ""
        words["directory"] = str(Path(directory).absolute())
    return written(body, words)


def _next(row: "ScheduleRow") -> str:
    return "" if row.next_s is None else f", next at {moment(row.next_s)} here"


_COLUMNS: "tuple[Column[ScheduleRow], ...]" = (
    Column("NAME", lambda row: row.name, least=10),
    Column("PROJECT", lambda row: row.project, least=8, drop=4),
    Column("USER", lambda row: row.user or NOTHING, least=6, drop=5),
    Column("CRON", lambda row: row.cron),
    Column("ZONE", lambda row: row.zone, drop=6),
    Column("CONCURRENCY", lambda row: row.concurrency, drop=7),
    Column("RUNS NOW", lambda row: ", ".join(row.active) or NOTHING, least=9),
    Column("NEXT", lambda row: "suspended" if row.suspended else moment(row.next_s)),
    Column("LAST", lambda row: moment(row.last_s), drop=3),
    Column("SAID", lambda row: row.said, least=16, drop=2, sentence=True),
    Column("COMMAND", lambda row: shlex.join(row.command), least=12, drop=8),
)

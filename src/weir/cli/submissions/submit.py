"""`weir submit`: a command becomes a workload."""

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from weir.cli.options.mistakes import option_mistakes, refusals_in
from weir.cli.options.option_types import Switch
from weir.cli.output.formatting import counted, number
from weir.cli.output.outputs import NameOutput, ProjectOption, print_made
from weir.cli.output.terminal import plain, say, screen
from weir.cli.pool.connect import connect
from weir.cli.pool.default_project import default_project
from weir.cli.submissions.submit_options import (
    ArrayOptions,
    StartOptions,
    TemplateOptions,
    WorkloadOptions,
    check_command,
)
from weir.model.array_indices import read_indices
from weir.model.reasons import ReasonCode

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.client.api import Pool

LOOKS, LOOK_EVERY_S = 5, 0.05
"""Number of looks at the state of a new workload, and the time between them."""


def submit(
    *command: Annotated[str, Parameter(show=True)],
    project: ProjectOption = None,
    name: str | None = None,
    workload: WorkloadOptions = WorkloadOptions(),
    indices: ArrayOptions = ArrayOptions(),
    conditions: StartOptions = StartOptions(),
    file: Annotated[Path | None, Parameter(name=("--file", "-f"), allow_leading_hyphen=True)] = None,
    template: TemplateOptions = TemplateOptions(),
    wait: Switch = False,
    follow: Switch = False,
    output: NameOutput = "name",
) -> int:
    """Queue a command, as in `weir submit -p vision --gpus 2 -- python train.py`.

    The workload's name goes to the output, hints to the error output, so that a script can store the name.

    Parameters
    ----------
    command
        Command of every pod: everything after --. With a job script, its arguments.
    project
        Project whose quota the workload uses; $WEIR_PROJECT if left out, or your only one.
    name
        Name of the workload; generated if left out.
    file
        Submission as YAML or JSON, - for the standard input, or a job script that begins with #! and has
        options in its #WEIR lines. Options here override them. With workloads: all are queued or none.
    wait
        Wait until the workload ends, and exit with its exit code. A signal gives 128 plus its number. A
        stop by a person or a limit gives 143, a failure without a code gives 1.
    follow
        Print the output as it comes and wait, with the exit code of --wait.
    """
    from weir.cli.submissions.batch import submit_batch

    with option_mistakes(), refusals_in(in_options):
        body, words = _read(file, template, command, project, name, workload.placement.namespace)
        words |= workload.stated(conditions, indices)
        if "workloads" in body:
            return submit_batch(body, words, workload, output, waits=wait or follow)
        check_command({**body, **words})
        with connect(namespace=workload.placement.namespace) as pool:
            if "project" not in {**body, **words}:
                words["project"] = default_project(pool, None, is_shown=output == "name")
            return _submit(pool, body, words, workload, wait=wait, follow=follow, output=output)


def _read(
    file: Path | None,
    template: TemplateOptions,
    command: Sequence[str],
    project: str | None,
    name: str | None,
    namespace: str | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the submission of a file or a template, and the fields that are stated beside it.

    Raises:
        scenario.InvalidFile, ScriptError: the file has mistakes.
        ValueError, Refused: the template can't be used so, or the command is a job script.
    """
    from weir.cli.submissions.templates import filled_template

    if template.template is not None and file is not None:
        raise ValueError("--file, --template: both have the submission; write one of them")
    body, words = filled_template(template, project, namespace), command
    if file is not None:
        from weir.cli.submissions.file_reader import read_submission  # few submissions have one

        body, words = read_submission(file, command)
    elif command:
        from weir.cli.submissions.job_script import refuse_unread_directives

        refuse_unread_directives(command)
    stated = {"project": project, "name": name, "command": list(words)}
    return body, {key: value for key, value in stated.items() if value not in (None, [])}


def _submit(
    pool: "Pool",
    body: dict[str, Any],
    words: dict[str, Any],
    workload: WorkloadOptions,
    *,
    wait: bool,
    follow: bool,
    output: str,
) -> int:
    workload.add_variables(words, body, is_local=pool.address.is_loopback)
    if "directory" in words and not pool.address.is_cluster:
        words["directory"] = str(Path(words["directory"]).absolute())
    if follow and "array" in {**body, **words}:
        raise ValueError("--follow: an array has no single output; use --wait, or weir logs NAME --index 0")
    elastic = {**body, **words}.get("elastic")
    made = pool.submit(body, **words)
    if print_made(made, output, f"{plain(made.name)} is queued in {made.project}", made.name):
        _say(made, elastic, logs_command(made), shown=not follow)
        _warn(pool, made.name)
    if follow:
        from weir.cli.workloads.logs import follow_to_end

        return follow_to_end(pool, made.name)
    if wait:
        from weir.cli.workloads.logs import wait_to_end

        return wait_to_end(pool, made.name)
    return 0


def logs_command(made: "WorkloadDetail") -> str:
    """Return the command that follows a workload's output."""
    if made.array is None:
        return f"weir logs {made.name} -f"
    return f"weir logs {made.name} --index {read_indices(made.array.written).indices[0]} -f"


def _say(made: "WorkloadDetail", elastic: str | Sequence[int] | None, logs: str, *, shown: bool) -> None:
    """Print the name of the new workload, and the next commands."""
    array = made.array
    pods = counted(made.pods if array is None else made.pods // array.size, "pod")
    requests = f"{pods}, {number(made.devices)} GPU{'' if made.devices == 1 else 's'}"
    if array is not None:
        requests = f"{counted(array.size, 'index', 'indices')}, each {requests}"
    elif elastic is not None:
        gpus = number(made.devices / made.pods)
        least = elastic.partition(":")[0] if isinstance(elastic, str) else elastic[0]
        requests = f"{least} to {counted(made.pods, 'pod')}, each {gpus} GPU{'' if gpus == '1' else 's'}"
    elif made.pods > 1 and made.devices:
        requests += " together"
    say(f"queued in {made.project}: {requests}, priority {made.priority}")
    if made.begin_s is not None and made.begin_s < made.submitted_s:
        say("The time of --begin has passed: it starts as soon as it can.")
    if shown:
        for command, does in (
            (logs, "follows its output"),
            (f"weir why {made.name}", "explains why it is pending"),
        ):
            say(f"  {command:<{max(len(logs), len(made.name) + 9)}}  {does}")


def _warn(pool: "Pool", name: str) -> None:
    """Warn at once if the workload can never start."""
    for _ in range(LOOKS):
        row = pool.get(name)
        if row.status != "pending" or row.reason is not None:
            break
        time.sleep(LOOK_EVERY_S)
    if row.status == "pending" and row.reason is not None and row.reason.why == ReasonCode.NO_NODE_MATCHES:
        warning = f"it can't start in this pool as it is: {plain(row.reason.sentence)}"
        print(screen(sys.stderr).paint(warning, "bad"), file=sys.stderr)


def in_options(text: str) -> str:
    """Return a refusal with options instead of fields: `--gpus` for `pods[0].gpus`."""

    def option(match: re.Match[str]) -> str:
        key = match[1]
        return "--" + {
            "gpu_models": "gpu-model",
            "secrets": "secret",
            "nodes": "node",
            "count": "workers",
            "min": "elastic",
        }.get(key, key.replace("_", "-"))

    text = re.sub(r"\bvalues\.(\w+)(?=:)", r"--set \1", text)
    text = re.sub(r"(?:(?<=^)|(?<=; ))pods(?:\[0\])?: ", "", text)  # about all options together
    text = re.sub(r"\bpods\[0\]\.(\w+)(?:\[\d+\](?:: \1)?(?=:))?", option, text)
    keys = "gpus|gpu_memory|gpu_models|devices|cpu|memory|priority|type|name|namespace|project|directory"
    keys += "|image|pull|container_runtime|array|begin|after|after_ok|after_not_ok|after_any"
    keys += "|env|secrets|topology|max_runtime|idle_limit|grace|retries|elastic|workers|nodes|count|min"
    return re.sub(rf"(?:(?<=^)|(?<=; ))({keys})(?:\[\d+\])?(?=:)", option, text)

"""`weir submit`: a command becomes a workload."""

import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from weir.cli.formatting import counted, number
from weir.cli.outputs import ProjectOption, print_plain
from weir.cli.terminal import plain, screen
from weir.model.reasons import ReasonCode

if TYPE_CHECKING:
    from weir.api.answers import WorkloadDetail
    from weir.client.api import Pool

INHERITED = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")
"""What a command needs to find the programs it finds in this shell."""
LOOKS, LOOK_EVERY_S = 5, 0.05
"""How often, and how long apart, the pool is asked what it makes of a new workload."""
_OPTIONS = {"type_": "type", "gpu_model": "gpu_models", "node": "nodes"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ELASTIC = re.compile(r"(\d{1,7}):(\d{1,7})", re.ASCII)


def submit(
    *command: Annotated[str, Parameter(show=True)],
    project: ProjectOption = None,
    gpus: Annotated[str | None, Parameter(name=("--gpus", "-g"))] = None,
    workers: int | None = None,
    elastic: str | None = None,
    gpu_memory: str | None = None,
    devices: int | None = None,
    gpu_model: Annotated[Sequence[str], Parameter(negative=())] = (),
    cpu: str | None = None,
    memory: str | None = None,
    type_: Annotated[Literal["train", "build", "inference"] | None, Parameter(name="--type")] = None,
    priority: int | None = None,
    preemptible: bool | None = None,
    max_runtime: str | None = None,
    idle_limit: str | None = None,
    grace: str | None = None,
    retries: int | None = None,
    name: str | None = None,
    env: Annotated[Sequence[str], Parameter(name=("--env", "-e"), negative=())] = (),
    secret: Annotated[Sequence[str], Parameter(negative=())] = (),
    inherit: bool = True,
    directory: str | None = None,
    node: Annotated[Sequence[str], Parameter(negative=())] = (),
    topology: str | None = None,
    image: str | None = None,
    namespace: Annotated[str | None, Parameter(name=("--namespace", "-n"))] = None,
    file: Annotated[Path | None, Parameter(name=("--file", "-f"), allow_leading_hyphen=True)] = None,
    wait: Annotated[bool, Parameter(negative=())] = False,
    follow: Annotated[bool, Parameter(negative=())] = False,
    output: Annotated[Literal["name", "json", "yaml"], Parameter(name=("--output", "-o"))] = "name",
) -> int:
    """Queue a command, as in `weir submit -p vision --gpus 2 -- python train.py`.

    The workload's name goes to the output, hints to the error output, so that a script can store the name.

    Parameters
    ----------
    command
        Command of every pod: everything after --.
    project
        Project whose quota the workload uses; $WEIR_PROJECT if left out.
    gpus
        GPUs of each pod: a whole number, or a fraction below 1 such as 0.5.
    workers
        Number of pods, which start together as one gang; 1 by default.
    elastic
        Minimum and maximum number of pods, such as 2:8. The workload starts with the minimum and grows.
    gpu_memory
        GPU memory of each pod in place of --gpus, such as 10Gi.
    devices
        Number of GPUs that a fraction or memory is taken from; 1 by default.
    gpu_model
        Model of the GPUs. Repeat it to allow several models.
    cpu
        CPU cores of each pod. The default is the share of the machine that belongs to its GPUs; it is charged
        and not reserved.
    memory
        Memory limit of each pod, such as 8Gi: a pod that uses more is killed. Without it there is no limit,
        and the share of the machine that belongs to its GPUs is charged.
    type_
        train, build (interactive) or inference: sets the default priority and preemptibility.
    priority
        Order inside the project: higher first.
    preemptible
        Allow preemption. A non-preemptible workload must fit into the quota.
    max_runtime
        End the workload after this run time, such as 2h30m.
    idle_limit
        End the workload, after a warning, when its GPUs were idle for this time.
    grace
        Time to stop after notice, such as 30s.
    retries
        Number of restarts after a failure.
    name
        Name of the workload; generated if left out.
    env
        Environment variable: KEY=VALUE, or KEY to pass on its current value. Repeat it for more variables.
    secret
        Secret of the project as a variable: NAME, or NAME=VARIABLE. Repeat it for more secrets.
    inherit
        Pass on PATH and the other variables by which this shell finds programs.
    directory
        Working directory; the current one by default.
    node
        Node to run on. Repeat it to allow several nodes.
    topology
        Topology level to keep all pods in: NAME:required=LEVEL or NAME:preferred=LEVEL.
    image
        On a cluster: container image of the pods.
    namespace
        On a cluster: namespace of the Job; the project's namespace if it has only one.
    file
        Submission as YAML or JSON, - for the standard input. Options override its values.
    wait
        Wait until the workload ends, and exit with its exit code. A signal gives 128 plus its number. A stop
        by a person or a limit gives 143, a failure without a code gives 1.
    follow
        Print the output as it comes and wait, with the exit code of --wait.
    output
        name, or the whole answer as json or yaml.
    """
    words: dict[str, Any] = {
        key: value
        for key, value in (
            ("project", project), ("name", name), ("type", type_), ("priority", priority),
            ("preemptible", preemptible), ("max_runtime", max_runtime), ("idle_limit", idle_limit),
            ("grace", grace), ("retries", retries), ("directory", directory), ("gpus", gpus),
            ("workers", workers), ("devices", devices), ("gpu_memory", gpu_memory),
            ("cpu", cpu), ("memory", memory),
        )
        if value is not None
    }  # fmt: skip
    for key, values in (("command", command), ("gpu_models", gpu_model), ("nodes", node)):
        if values:
            words[key] = list(values)
    from weir.cli.connect import connect
    from weir.cli.submission_file import read_submission
    from weir.client.errors import Refused
    from weir.model import scenario

    try:
        words |= _read_options(elastic, topology)
        if secret:
            words["secrets"] = _secrets(secret)
        body = {} if file is None else read_submission(file)
        _check(words, body)
        with connect(namespace=namespace, image=image) as pool:
            return _submit(pool, body, words, env, inherit=inherit, wait=wait, follow=follow, output=output)
    except ValueError as error:
        print(f"weir: {plain(str(error))}.", file=sys.stderr)
    except Refused as refused:
        print(f"weir: {plain(in_options(str(refused)))}", file=sys.stderr)
        return 2 if refused.is_ours else 1
    except scenario.InvalidFile as refused:
        for mistake in refused.mistakes:
            print(mistake, file=sys.stderr)
    return 2


def _submit(
    pool: "Pool",
    body: dict[str, Any],
    words: dict[str, Any],
    env: Sequence[str],
    *,
    inherit: bool,
    wait: bool,
    follow: bool,
    output: str,
) -> int:
    inherited = INHERITED if inherit and pool.address.is_loopback else ()
    own = {key: os.environ[key] for key in inherited if key in os.environ}
    variables = {**own, **body.pop("env", {}), **_variables(env)}
    if variables:
        words["env"] = variables
    if "directory" in words and not pool.address.is_cluster:
        words["directory"] = str(Path(words["directory"]).absolute())
    made = pool.submit(body, **words)
    if output == "name":
        print(made.name, flush=True)
        _say(made, _logs(pool, made.name), shown=not follow)
        _warn(pool, made.name)
    else:
        print_plain(made.model_dump(mode="json"), output)
        sys.stdout.flush()
    if follow:
        from weir.cli.logs import follow_to_end

        return follow_to_end(pool, made.name)
    if wait:
        from weir.cli.logs import wait_to_end

        return wait_to_end(pool, made.name)
    return 0


def _logs(pool: "Pool", name: str) -> str:
    """Return the command that follows a workload's output."""
    if not pool.address.is_cluster:
        return f"weir logs {name} -f"
    namespace, _, job = name.partition("/")
    return f"kubectl logs -n {namespace} job/{job.removeprefix('job-')} -f"


def _say(made: "WorkloadDetail", logs: str, *, shown: bool) -> None:
    """Print the name of the new workload, and the next commands."""
    here = screen(sys.stderr)
    pods = counted(made.pods, "pod")
    requests = f"{pods}, {number(made.devices)} GPU{'' if made.devices == 1 else 's'}"
    if made.pods > 1 and made.devices:
        requests += " together"
    print(
        here.paint(f"queued in {made.project}: {requests}, priority {made.priority}", "quiet"),
        file=sys.stderr,
    )
    if shown:
        for command, does in (
            (logs, "follows its output"),
            (f"weir why {made.name}", "explains why it is pending"),
        ):
            print(
                here.paint(f"  {command:<{max(len(logs), len(made.name) + 9)}}  {does}", "quiet"),
                file=sys.stderr,
            )


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


def _read_options(elastic: str | None, topology: str | None) -> dict[str, Any]:
    words: dict[str, Any] = {}
    if elastic is not None:
        match = _ELASTIC.fullmatch(elastic)
        if match is None:
            raise ValueError(
                f"--elastic {elastic!r} isn't two numbers: write at least and at most, such as 2:8"
            )
        words["elastic"] = (int(match[1]), int(match[2]))
    if topology is not None:
        named, parted, rest = topology.partition(":")
        levels = dict(each.partition("=")[::2] for each in rest.split(","))
        if not named or not parted or set(levels) - {"required", "preferred"} or not all(levels.values()):
            right = "NAME:required=LEVEL or NAME:preferred=LEVEL"
            raise ValueError(f"--topology {topology!r} can't be read: write {right}")
        words["topology"] = {"name": named, **levels}
    return words


def _variables(env: Sequence[str]) -> dict[str, str]:
    found = {}
    for each in env:
        key, parted, value = each.partition("=")
        if not parted and key not in os.environ:
            raise ValueError(f"--env {key}: {key} isn't set here; write {key}=VALUE")
        found[key] = value if parted else os.environ[key]
    return found


def _secrets(secret: Sequence[str]) -> dict[str, str]:
    """Return the names of secrets by variable.

    Raises:
        ValueError: one has another form.
    """
    found: dict[str, str] = {}
    for each in secret:
        name, parted, variable = each.partition("=")
        variable = variable if parted else name
        if not name or _VARIABLE.fullmatch(variable) is None:
            correction = "write NAME=VARIABLE, with a variable of letters, digits and underscores"
            raise ValueError(f"--secret {name}: {variable!r} can't be a variable; {correction}")
        if variable in found:
            raise ValueError(f"--secret {name}: {variable} gets two secrets; write one")
        found[variable] = name
    return found


def _check(words: dict[str, Any], body: Mapping[str, Any]) -> None:
    """Check that a project and a command are given; take the project from the environment if needed.

    Raises:
        ValueError: one is missing.
    """
    if "project" not in words and "project" not in body and os.environ.get("WEIR_PROJECT"):
        words["project"] = os.environ["WEIR_PROJECT"]
    if "project" not in words and "project" not in body:
        raise ValueError("no project is named: write -p PROJECT; `weir project list` shows which there are")
    if "command" not in words and not {"command", "run"}.intersection(body):
        raise ValueError("no command is named: write it after --, such as -- python train.py")


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

    text = re.sub(r"\bpods\[0\]\.(\w+)", option, text)
    keys = "gpus|gpu_memory|gpu_models|devices|cpu|memory|priority|type|name|namespace|project|directory"
    keys += "|env|secrets|topology|max_runtime|idle_limit|grace|retries|elastic|workers|nodes|count|min"
    return re.sub(rf"(?:(?<=^)|(?<=; ))({keys})(?=:)", option, text)

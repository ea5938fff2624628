"""Options of `weir submit`, as fields of a submission."""

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from weir.api.comma_lists import comma_words
from weir.cli.options.numbers import number_or_name, whole_number
from weir.cli.options.option_types import Repeated
from weir.cli.workloads.start_conditions import begin_time

INHERITED = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")
"""Environment variables by which a command finds the same programs as this shell."""
_KEYS = {"type_": "type", "gpu_model": "gpu_models", "node": "nodes"}
_READ_APART = ("begin", "elastic", "topology", "env", "secret", "inherit", "namespace")
_CONDITIONS = ("after", "after_ok", "after_not_ok", "after_any")
_BYTES_MIN = 1 << 20
"""Memory in bytes below which the unit is missing: no program fits into it."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ELASTIC = re.compile(r"(\d{1,7}):(\d{1,7})", re.ASCII)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Resources of the pods of a workload."""

    gpus: Annotated[str | None, Parameter(name=("--gpus", "-g"))] = None
    """GPUs of each pod: a whole number, or a fraction below 1 such as 0.5."""
    workers: Annotated[int | None, whole_number(1)] = None
    """Number of pods, which start together as one gang; 1 by default."""
    elastic: str | None = None
    """Minimum and maximum number of pods, such as 2:8. The workload starts with the minimum and grows."""
    gpu_memory: str | None = None
    """GPU memory of each pod in place of --gpus, such as 10Gi."""
    devices: Annotated[int | None, whole_number(1)] = None
    """Number of GPUs that a fraction or memory is taken from; 1 by default."""
    gpu_model: Repeated = ()
    """Model of the GPUs. Repeat it to allow several models."""
    cpu: str | None = None
    """CPU cores of each pod. The default is the share of the machine that belongs to its GPUs; it is charged
    and not reserved."""
    memory: str | None = None
    """Memory limit of each pod, such as 8Gi: a pod that uses more is killed. Without it there is no limit,
    and the share of the machine that belongs to its GPUs is charged."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """Priority, preemption, time limits and retries of a workload."""

    type_: Annotated[Literal["train", "build", "inference"] | None, Parameter(name="--type")] = None
    """train, build (interactive) or inference: sets the default priority and preemptibility."""
    priority: Annotated[int | str | None, number_or_name()] = None
    """Order inside the project: a number, higher first, or low (25), normal (50), high (75), urgent (99)
    or another class of the pool (`weir priorities`)."""
    preemptible: bool | None = None
    """Allow preemption. A non-preemptible workload must fit into the quota."""
    max_runtime: str | None = None
    """End the workload after this run time, such as 2h30m."""
    idle_limit: str | None = None
    """End the workload, after a warning, when its GPUs were idle for this time."""
    grace: str | None = None
    """Time to stop after notice, such as 30s."""
    retries: Annotated[int | None, whole_number(0)] = None
    """Number of restarts after a failure."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ArrayOptions:
    """Indices of an array. Trials of sweeps and sessions can't be arrays."""

    array: str | None = None
    """Run the command once for each index: 0-499, 1-100:5 or 1,3,7. With %20 at the end, at most 20 indices
    run at the same time. $WEIR_ARRAY_INDEX is the index."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """Conditions for the first start of a workload. Until then it is pending, and reserves nothing."""

    begin: str | None = None
    """Earliest start: 2026-12-01T18:00, 18:00 for the next such time, or +2h from now."""
    after: Repeated = ()
    """Workload that has to start, or to end without a start, before this one starts; several between commas.
    Repeat it for more workloads."""
    after_ok: Repeated = ()
    """Workload that has to succeed first. If it fails or is stopped, this one is stopped. Several are written
    as for --after."""
    after_not_ok: Repeated = ()
    """Workload that has to fail or be stopped first. If it succeeds, this one is stopped. Several are written
    as for --after."""
    after_any: Repeated = ()
    """Workload that has to end first, in any way. Several are written as for --after."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions:
    """Environment that the command runs in."""

    env: Annotated[Sequence[str], Parameter(name=("--env", "-e"), negative=())] = ()
    """Environment variable: KEY=VALUE, or KEY to pass on its current value. Repeat it for more variables."""
    secret: Repeated = ()
    """Secret of the project as a variable: NAME, or NAME=VARIABLE. Repeat it for more secrets."""
    inherit: bool = True
    """Pass on PATH and the other variables by which this shell finds programs."""
    directory: str | None = None
    """Working directory; the current one by default."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlacementOptions:
    """Place where the pods run."""

    node: Repeated = ()
    """Node to run on. Repeat it to allow several nodes."""
    topology: str | None = None
    """Topology level to keep all pods in: NAME:required=LEVEL or NAME:preferred=LEVEL."""
    image: str | None = None
    """Container image that the command runs in, such as docker.io/library/python:3.13."""
    pull: Literal["missing", "always", "never"] | None = None
    """Rule for fetching the image: missing (if the machine lacks it; the default), always or never."""
    container_runtime: Literal["podman", "docker"] | None = None
    """Program that runs the container; podman by default."""
    namespace: Annotated[str | None, Parameter(name=("--namespace", "-n"))] = None
    """On a cluster: namespace of the Job; the project's namespace if it has only one."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TemplateOptions:
    """Template that a submission is made of."""

    template: str | None = None
    """Template of the project in place of a file (`weir template list`). Options here override its fields."""
    set_: Annotated[Sequence[str], Parameter(name="--set", negative=())] = ()
    """Value of a parameter of the template: NAME=VALUE. Repeat it for more parameters."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkloadOptions:
    """Options of every command that queues workloads."""

    request: RequestOptions = RequestOptions()
    rules: RuleOptions = RuleOptions()
    environment: EnvironmentOptions = EnvironmentOptions()
    placement: PlacementOptions = PlacementOptions()

    def stated(
        self, conditions: StartOptions = StartOptions(), indices: ArrayOptions = ArrayOptions()
    ) -> dict[str, Any]:
        """Return the given options as fields of a submission, without environment variables.

        Raises:
            ValueError: an option can't be read.
        """
        given: dict[str, Any] = {}
        for options in (self.request, self.rules, indices, conditions, self.environment, self.placement):
            for option in fields(options):
                value = getattr(options, option.name)
                if option.name not in _READ_APART and value not in (None, ()):
                    key = _KEYS.get(option.name, option.name)
                    given[key] = list(value) if isinstance(value, tuple | list) else value
        _check_memory(self.request)
        given |= _elastic(self.request.elastic) | _topology(self.placement.topology)
        given |= {key: _names(given[key]) for key in _CONDITIONS if key in given}
        if conditions.begin is not None:
            given["begin"] = begin_time(conditions.begin, time.time())
        if self.environment.secret:
            given["secrets"] = _secrets(self.environment.secret)
        return given

    def add_variables(self, words: dict[str, Any], body: Mapping[str, Any], *, is_local: bool) -> None:
        """Add environment variables to the fields of a submission; `body` has those of its file.

        `is_local`: the pool is on this machine, and finds the programs of this shell if it has no image.

        Raises:
            ValueError: a variable that is to be passed on isn't set.
        """
        inherits = is_local and self.environment.inherit and {**body, **words}.get("image") is None
        own = {name: os.environ[name] for name in INHERITED if inherits and name in os.environ}
        if env := {**own, **body.get("env", {}), **variables(self.environment.env)}:
            words["env"] = env


def check_command(submission: Mapping[str, Any]) -> None:
    """Check that a submission has a command.

    Raises:
        ValueError: it has none.
    """
    if not {"command", "run"}.intersection(submission):
        raise ValueError("no command is named: write it after --, such as -- python train.py")


def _check_memory(request: RequestOptions) -> None:
    """Refuse memory without a unit that would mean a few bytes.

    Raises:
        ValueError: a size is below _BYTES_MIN.
    """
    for flag, text in (("--memory", request.memory), ("--gpu-memory", request.gpu_memory)):
        if text is not None and text.isdecimal() and 0 < int(text) < _BYTES_MIN:
            raise ValueError(f"{flag}: {text} means {text} bytes; write a unit, such as {text}Gi")


def _names(values: Sequence[str]) -> list[str]:
    return [name for value in values for name in comma_words(value) or [value]]


def _elastic(elastic: str | None) -> dict[str, Any]:
    if elastic is None:
        return {}
    match = _ELASTIC.fullmatch(elastic)
    if match is None:
        raise ValueError(f"--elastic {elastic!r} isn't two numbers: write at least and at most, such as 2:8")
    return {"elastic": (int(match[1]), int(match[2]))}


def _topology(topology: str | None) -> dict[str, Any]:
    if topology is None:
        return {}
    named, parted, rest = topology.partition(":")
    levels = dict(level.partition("=")[::2] for level in rest.split(","))
    if not named or not parted or set(levels) - {"required", "preferred"} or not all(levels.values()):
        right = "NAME:required=LEVEL or NAME:preferred=LEVEL"
        raise ValueError(f"--topology {topology!r} can't be read: write {right}")
    return {"topology": {"name": named, **levels}}


def variables(env: Sequence[str]) -> dict[str, str]:
    """Return the variables of --env.

    Raises:
        ValueError: a variable that is to be passed on isn't set.
    """
    values = {}
    for setting in env:
        key, parted, value = setting.partition("=")
        if not parted and key not in os.environ:
            raise ValueError(f"--env {key}: {key} isn't set here; write {key}=VALUE")
        values[key] = value if parted else os.environ[key]
    return values


def _secrets(secret: Sequence[str]) -> dict[str, str]:
    """Return the names of secrets by variable.

    Raises:
        ValueError: one has another form.
    """
    secrets: dict[str, str] = {}
    for setting in secret:
        name, parted, variable = setting.partition("=")
        variable = variable if parted else name
        if not name or _VARIABLE.fullmatch(variable) is None:
            correction = "write NAME=VARIABLE, with a variable of letters, digits and underscores"
            raise ValueError(f"--secret {name}: {variable!r} can't be a variable; {correction}")
        if variable in secrets:
            raise ValueError(f"--secret {name}: {variable} gets two secrets; write one")
        secrets[variable] = name
    return secrets

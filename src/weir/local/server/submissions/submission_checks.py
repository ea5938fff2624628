"""Submissions and queue changes: checked completely against the pool before anything changes.

A submission has the shape of a workload in a scenario file. Here it becomes a workload of the model; each
value that the pool can't accept is reported by its field.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from weir.api.submissions import Submission
from weir.control.journal import ContainerLaunch, LaunchSpec, WorkloadRecord
from weir.local.server.access.authorization import Person
from weir.local.server.access.unix_accounts import UnixAccount
from weir.local.server.http.problem_details import FieldErrors
from weir.local.server.http.worker_threads import Workers
from weir.local.server.state.pool_inventory import PoolInventory, check_name
from weir.local.server.state.workload_lookup import parse_uid
from weir.local.server.submissions.admission import (
    check_priority,
    check_session,
    check_size,
    check_time_limits,
    session_variables,
)
from weir.local.server.submissions.container_checks import ContainerChecks
from weir.local.server.submissions.person_limits import check_run_time, limited_workload
from weir.local.server.submissions.resource_defaults import with_defaults
from weir.local.server.submissions.submission_defaults import with_project_defaults
from weir.model.nodes import Node
from weir.model.policy import LifecyclePolicy
from weir.model.workloads import WHOLE_MILLI, Request, Workload
from weir.scenario_io.build import workload_of
from weir.scenario_io.checks import check_group, check_workload
from weir.scenario_io.error_messages import suggest
from weir.scenario_io.specs import GroupEntry, WorkloadEntry

PODS_MAX = 1024
"""Pods of one workload: they are processes of one machine."""
WORDS_BYTES_MAX = 1 << 20
"""Limit of a command and of an environment, in bytes: the most a process can be started with."""
GRACE_S = 30.0
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OWN_PREFIX = "WEIR_"
_OWN = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_SUFFIX_DIGITS = "23456789"
"""First characters of a generated suffix: a digit doesn't make a workload differ from similar ones."""
_SUFFIX_LETTERS = "bcdfghjkmnpqrstvwxz" + _SUFFIX_DIGITS
_SUFFIX_LENGTH = 5
_SHARED = (
    *("project", "type", "priority", "preemptible", "min_pods", "max_runtime"),
    *("idle_limit", "grace", "retries", "topology"),
)
"""Fields of a submission that a workload in a scenario file has, too."""


def check_submission(
    submission: Submission,
    *,
    person: Person,
    now_s: float,
    inventory: PoolInventory,
    rules: LifecyclePolicy | None = None,
    directory_exists: bool | None = True,
    home: str | None = None,
    containers: ContainerChecks | None = None,
) -> WorkloadRecord:
    """Check a submission and return the workload to queue, which has no number yet.

    Args:
        submission: the submission as its person wrote it.
        person: the submitter.
        now_s: the time of the submission.
        inventory: nodes, topologies and queues of the pool.
        rules: the policy's rules of time.
        directory_exists: None if the file system of the directory doesn't answer.
        home: the default directory; that of the server's account if None.
        containers: checks of containers by the rules of the pool; the default rules if None.

    Raises:
        RequestRefused: with everything that is wrong with it.
    """
    fields, rules = FieldErrors("The submission"), rules or LifecyclePolicy()
    _check_new_name(submission.name, fields)
    queue = inventory.queues_by_name.get(submission.project)
    if queue is None:
        suggestion = suggest(submission.project, inventory.projects, fields)
        fields.add(("project",), f"project: there is no project {submission.project}; {suggestion}")
    elif not queue.is_project:
        suggestion = suggest(submission.project, inventory.projects, fields)
        fields.add(("project",), f"project: {submission.project} is a department; {suggestion}")
    else:
        submission = with_project_defaults(submission, queue, rules, person)
        check_time_limits(submission, queue, rules, fields)
        check_run_time(submission, queue, person.user, fields)
    _check_words(submission, fields)
    check_session(submission, fields)
    container = (containers or ContainerChecks()).container_of(submission, fields)
    if submission.directory is not None:
        _check_directory(submission.directory, directory_exists, fields)
    written = _written(submission, submission.name or _made_name(submission))
    _check_pods(written, inventory, fields)
    fields.refuse_if_any()
    workload = replace(workload_of(written, now_s), user=person.user)
    workload = with_defaults(workload, submission.pods, inventory.nodes, inventory.queues_by_name)
    assert queue is not None
    workload = limited_workload(workload, queue, rules, inventory.nodes, fields)
    check_priority(workload, queue, person, fields)
    check_size(workload, inventory.nodes, fields)
    fields.refuse_if_any()
    launch = _launch_of(submission, home, container)
    return WorkloadRecord(workload, launch, now_s, devices=requested_devices(workload, inventory.nodes))


def _launch_of(submission: Submission, home: str | None, container: ContainerLaunch | None) -> LaunchSpec:
    return LaunchSpec(
        uid=0,
        command=tuple(submission.command),
        environment=tuple(sorted({**submission.env, **session_variables(submission)}.items())),
        directory=submission.directory or home or str(Path.home()),
        grace_s=GRACE_S if submission.grace is None else submission.grace,
        secrets=tuple(sorted(submission.secrets.items())),
        container=container,
    )


def _check_new_name(name: str | None, fields: FieldErrors) -> None:
    check_name(name, fields)
    if name is not None and parse_uid(name) is not None:
        meaning = "is a number, and numbers are uids of workloads; use at least one letter"
        text = f"name: {name} {meaning}"
        fields.add(("name",), text)


def requested_devices(workload: Workload, nodes: Sequence[Node]) -> float:
    """Return the devices that all pods of a workload request; a share counts as a fraction."""
    memory = min((node.gpu_memory for node in nodes if node.gpus), default=0)
    return sum(requested_devices_per_pod(group.request, memory) * group.count for group in workload.groups)


def requested_devices_per_pod(request: Request, device_memory: int) -> float:
    """Return the devices that one pod requests."""
    if not request.devices:
        return 0.0
    return request.devices * min(WHOLE_MILLI, request.share_on(device_memory)) / WHOLE_MILLI


def _made_name(submission: Submission) -> str:
    """Return a generated name such as `train-4k2pb`."""
    first, *others = secrets.token_bytes(_SUFFIX_LENGTH)
    letters = [_SUFFIX_LETTERS[byte % len(_SUFFIX_LETTERS)] for byte in others]
    return f"{submission.type}-{_SUFFIX_DIGITS[first % len(_SUFFIX_DIGITS)]}{''.join(letters)}"


def _check_words(submission: Submission, fields: FieldErrors) -> None:
    """Check that a process can be started with the command, the environment and the directory."""
    for index, word in enumerate(submission.command):
        if "\0" in word:
            fields.add(("command", index), "command: a word has a zero byte in it; leave it out")
    if submission.command and not submission.command[0].strip():
        fields.add(("command", 0), "command: its first word is empty; write the program to run")
    if sum(len(word.encode()) + 1 for word in submission.command) > WORDS_BYTES_MAX:
        fields.add(("command",), "command: is longer than a process can be started with; put it into a file")
    size = 0
    for name, value in submission.env.items():
        size += len(name.encode()) + len(value.encode()) + 2
        if _VARIABLE.fullmatch(name) is None:
            fields.add(("env", name), "env: a name is letters, digits and underscores, no digit first")
        elif name.startswith(_OWN_PREFIX):
            fields.add(
                ("env", name), f"env: names that begin with {_OWN_PREFIX} are set by the pool; write another"
            )
        if "\0" in value:
            fields.add(("env", name), "env: a value has a zero byte in it; leave it out")
    if size > WORDS_BYTES_MAX:
        fields.add(("env",), "env: is larger than a process can be started with; put it into a file")
    for name in submission.secrets:
        _check_secret(name, submission, fields)


def _check_secret(name: str, submission: Submission, fields: FieldErrors) -> None:
    """Check that a variable for a secret can be set, and is set only once."""
    if _VARIABLE.fullmatch(name) is None:
        text = "secrets: a variable is letters, digits and underscores, no digit first; write SECRET=VARIABLE"
        fields.add(("secrets", name), text)
    elif name.startswith(_OWN_PREFIX) or name in _OWN:
        fields.add(("secrets", name), f"secrets: {name} is set by the pool; write another variable")
    elif name in submission.env:
        fields.add(("secrets", name), f"secrets: {name} is in env, too; leave one of them out")


async def directory_exists(
    submission: Submission, workers: Workers, account: UnixAccount | None
) -> bool | None:
    """Return True if the directory of a submission exists; None if its file system doesn't answer.

    A directory of another account may be closed to this process: its job reports a missing one.
    """
    directory = submission.directory
    if account is not None or directory is None or not can_be_directory(directory):
        return True
    return await workers.is_directory(directory)


def can_be_directory(path: str) -> bool:
    """Return True if a path is absolute and the file system can look it up."""
    return "\0" not in path and Path(path).is_absolute()


def _check_directory(directory: str, exists: bool | None, fields: FieldErrors) -> None:
    if not can_be_directory(directory):
        fields.add(("directory",), "directory: is no absolute path; write one such as /home/me/work")
    elif exists is None:
        fields.add(("directory",), "directory: its file system doesn't answer; write another, or try later")
    elif not exists:
        fields.add(("directory",), "directory: there is no such directory on this machine; write one that is")


def _written(submission: Submission, name: str) -> WorkloadEntry:
    """Return a submission as a workload of a scenario file."""
    pods = [
        GroupEntry.model_construct(_fields_set=set(entry.model_fields_set), **dict(entry), placed=[])
        for entry in submission.pods
    ]
    shared = {key: getattr(submission, key) for key in _SHARED}
    return WorkloadEntry.model_construct(**shared, name=name, pods=pods)


def _check_pods(written: WorkloadEntry, inventory: PoolInventory, fields: FieldErrors) -> None:
    """Check that the groups are consistent and name existing objects."""
    names: set[str] = set()
    resources = inventory.resources()
    models = sorted({node.gpu_model for node in inventory.nodes if node.gpu_model is not None})
    nodes = {node.name: None for node in sorted(inventory.nodes, key=lambda node: node.name)}
    for index, group in enumerate(written.pods):
        path = ("pods", index)
        check_group(group, path, fields)
        if group.name is not None and group.name in names:
            fields.add((*path, "name"), f"name: two groups are called {group.name}; name each differently")
        names.add(group.name or str(index))
        for resource in group.resources:
            if resource not in resources:
                suggestion = suggest(resource, resources, fields)
                fields.add((*path, "resources", resource), f"resources: no node has {resource}; {suggestion}")
        for position, model in enumerate(group.gpu_models):
            if model not in models:
                hint = (
                    suggest(model, models, fields) if models else "no GPU here has a model, so leave it out"
                )
                text = f"gpu_models: no node has a GPU of the model {model}; {hint}"
                fields.add((*path, "gpu_models", position), text)
        for position, node in enumerate(group.nodes or ()):
            if node not in nodes:
                text = f"nodes: there is no node {node}; {suggest(node, nodes, fields)}"
                fields.add((*path, "nodes", position), text)
    total = sum(group.count for group in written.pods)
    if total > PODS_MAX:
        text = f"pods: {total:,} pods are more than a workload can have here; ask for {PODS_MAX:,} or fewer"
        fields.add(("pods",), text)
    check_workload(written, 0.0, (), fields)
    if written.topology is not None:
        _check_topology(written, inventory, fields)


def _check_topology(written: WorkloadEntry, inventory: PoolInventory, fields: FieldErrors) -> None:
    asked = written.topology
    assert asked is not None
    topology = inventory.topologies.get(asked.name)
    if topology is None:
        suggestion = suggest(asked.name, inventory.topologies, fields)
        fields.add(("topology", "name"), f"topology: there is no topology {asked.name}; {suggestion}")
        return
    for key in ("required", "preferred"):
        level = getattr(asked, key)
        if level is not None and level not in topology.levels:
            suggestion = suggest(level, topology.levels, fields)
            fields.add(("topology", key), f"{key}: topology {asked.name} has no level {level}; {suggestion}")

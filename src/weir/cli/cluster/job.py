"""The Job of a submission, as a person would write its manifest."""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from weir.api.name_endings import random_ending
from weir.api.submissions import Submission
from weir.cli.cluster.array_job import array_command, array_env, array_spec
from weir.cli.cluster.errors import wrong
from weir.cli.cluster.installation import InstallationView
from weir.cli.cluster.session_job import KEEPS_RUNNING, session_pod, without_token
from weir.kubernetes.admission.job_defaults import job_defaults
from weir.kubernetes.translate.annotation_values import parse_names
from weir.kubernetes.translate.annotations import PREFIX
from weir.model.resources import CPU, MEMORY, written
from weir.model.workloads import DEFAULT_PRIORITY, WHOLE_MILLI, WorkloadType
from weir.scenario_io.specs import PodsEntry
from weir.slurm.job_number import NUMBER

MODEL_LABEL = "nvidia.com/gpu.product"
SLURM_JOB = f"{PREFIX}slurm-job"
"""Label of the Job of `weir sbatch`, with its number."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?", re.ASCII)
_REPLACED = re.compile(r"\$(?=[$(])")
RETRIES = 3
"""Restarts after a failure of a submission that states none."""


def job_of(
    submission: Submission,
    words: Mapping[str, Any],
    image: str,
    classes: Mapping[int, str],
    installed: InstallationView,
) -> dict[str, Any]:
    """Return the Job of a submission.

    `words` is the submission before conversion; `classes` names PriorityClasses by value.

    Raises:
        Refused: a Job can't express it.
    """
    if len(submission.pods) != 1:
        raise wrong(
            "pods: a Job has one kind of pods; write another kind of object for several, and apply it"
        )
    if submission.secrets:
        raise wrong("secrets: a Job takes Secrets of its namespace; write one in its pods' env, and apply it")
    if submission.pull is not None or submission.container_runtime is not None:
        raise wrong("pull, container_runtime: the nodes of a cluster have their own; leave them out")
    pods = submission.pods[0]
    name = submission.name or _made_up(submission)
    if not _NAME.fullmatch(name):
        raise wrong(f"name: {name!r} is no name of a Job; write small letters, digits and dashes, at most 53")
    annotations = _annotations(submission, words, pods)
    labels = {"weir.dev/project": submission.project, "weir.dev/type": submission.type}
    spec: dict[str, Any] = {
        **_completions(submission, pods),
        "template": {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": _pod(submission, pods, image, classes, installed),
        },
    }
    if submission.session is not None:
        spec["template"]["spec"] = session_pod(submission.session, name, spec)
    elif tuple(submission.command) == KEEPS_RUNNING:
        spec["template"]["spec"] = without_token(spec["template"]["spec"])
    spec |= job_defaults(spec)
    if NUMBER in submission.env:
        labels = {**labels, SLURM_JOB: submission.env[NUMBER]}
    metadata = {
        "name": name,
        "labels": labels,
        "annotations": {**annotations, **_start_conditions(submission)},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _completions(submission: Submission, pods: PodsEntry) -> dict[str, Any]:
    retries = RETRIES if submission.retries is None else submission.retries
    if submission.array is not None:
        return array_spec(submission.array, retries, pods.count)
    return {
        "parallelism": pods.count,
        "completions": pods.count,
        "completionMode": "Indexed" if pods.count > 1 else "NonIndexed",
        "backoffLimit": retries,
    }


def _start_conditions(submission: Submission) -> dict[str, str]:
    """Return the annotations of the Job alone, so that one `kubectl annotate` can remove them."""
    annotations = {}
    if submission.begin is not None:
        begin = datetime.fromtimestamp(math.ceil(submission.begin), UTC)
        annotations[f"{PREFIX}begin"] = f"{begin:%Y-%m-%dT%H:%M:%SZ}"
    for key in ("after", "after_ok", "after_not_ok", "after_any"):
        names: Sequence[str] = getattr(submission, key)
        if not names:
            continue
        written = ",".join(names)
        try:
            parse_names(written)
        except ValueError as error:
            raise wrong(f"{key}: {error}") from None
        annotations[PREFIX + key.replace("_", "-")] = written
    return annotations


def _made_up(submission: Submission) -> str:
    """Return a new name: the command's name and random letters."""
    word = re.sub(r"[^a-z0-9]+", "-", submission.command[0].rpartition("/")[2].lower()).strip("-")[:40]
    return f"{word or submission.type}-{random_ending()}"


def _annotations(submission: Submission, words: Mapping[str, Any], pods: PodsEntry) -> dict[str, str]:
    annotations: dict[str, str] = {}
    if submission.preemptible is not None:
        annotations["weir.dev/preemptible"] = str(submission.preemptible).lower()
    if submission.idle_limit is not None:
        annotations["weir.dev/idle-limit"] = str(words["idle_limit"])
    if submission.max_runtime is not None:
        annotations["weir.dev/max-runtime"] = str(words["max_runtime"])
    if submission.topology is not None:
        topology = submission.topology
        levels = [f"{key}={value}" for key in ("required", "preferred") if (value := getattr(topology, key))]
        annotations["weir.dev/topology"] = f"{topology.name}:{','.join(levels)}"
    least = pods.min if submission.min_pods is None else submission.min_pods
    if submission.array is not None:
        least = 1  # each index starts alone
    if least is not None:
        annotations["weir.dev/min-pods"] = str(least)
    if 0 < pods.gpus < WHOLE_MILLI:
        annotations["weir.dev/gpu-fraction"] = f"{pods.gpus / WHOLE_MILLI:g}"
    if pods.gpu_memory is not None:
        annotations["weir.dev/gpu-memory"] = written(MEMORY, pods.gpu_memory)
    if pods.devices is not None:
        annotations["weir.dev/gpu-devices"] = str(pods.devices)
    return annotations


def _pod(
    submission: Submission,
    pods: PodsEntry,
    image: str,
    classes: Mapping[int, str],
    installed: InstallationView,
) -> dict[str, Any]:
    devices = pods.gpus // WHOLE_MILLI
    resources: dict[str, Any] = {
        "requests": {"cpu": written(CPU, pods.cpu), "memory": _bytes(pods.memory), **_texts(pods.resources)},
        "limits": {**({installed.gpu_resource: str(devices)} if devices else {}), **_texts(pods.resources)},
    }
    container: dict[str, Any] = {
        "name": "main",
        "image": image,
        "command": [literal(word) for word in submission.command],
        "resources": resources,
    }
    if submission.array is not None:
        container["command"] = array_command(submission.array, container["command"])
    env: list[dict[str, Any]] = [
        {"name": name, "value": literal(value)} for name, value in submission.env.items()
    ]
    if submission.array is not None:
        env += array_env(submission.array)
    if env:
        container["env"] = env
    if submission.directory:
        container["workingDir"] = submission.directory
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "schedulerName": installed.scheduler,
        "containers": [container],
    }
    if submission.grace is not None:
        spec["terminationGracePeriodSeconds"] = round(submission.grace)
    if pods.node_selector:
        spec["nodeSelector"] = dict(pods.node_selector)
    terms = _node_terms(pods)
    if terms:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    priority = submission.priority
    if priority is not None and priority != DEFAULT_PRIORITY[WorkloadType(submission.type)]:
        if priority not in classes:
            available = ", ".join(f"{value} ({classes[value]})" for value in sorted(classes)) or "none"
            raise wrong(f"priority: no PriorityClass has the value {priority}; there are {available}")
        spec["priorityClassName"] = classes[priority]
    return spec


def literal(text: str) -> str:
    """Return the text of a container that the kubelet turns into this one: it replaces $(NAME) and $$."""
    return _REPLACED.sub("$$", text)


def _node_terms(pods: PodsEntry) -> list[dict[str, Any]]:
    """Return node selector terms, one for each node if nodes are given by name."""
    models = {"key": MODEL_LABEL, "operator": "In", "values": list(pods.gpu_models)}
    of_models = {"matchExpressions": [models]} if pods.gpu_models else {}
    if pods.nodes is None:
        return [of_models] if of_models else []
    return [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}], **of_models}
        for name in pods.nodes
    ]


def _bytes(value: int) -> str:
    """Return an exact amount in the largest unit that divides it."""
    for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if value and value % size == 0:
            return f"{value // size}{unit}"
    return str(value)


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: str(value) for name, value in amounts.items()}
